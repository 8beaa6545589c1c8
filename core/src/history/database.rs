//! The database of past transfers: SQLite in one file, with its log of changes beside it, that many processes read and write at once.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::database_file;
use super::schema::MIGRATIONS;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

/// How long a statement waits for other processes that write.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The same, of one that nobody waits for.
const BACKGROUND_PATIENCE: Duration = Duration::from_secs(30);

/// Past transfers, open.
///
/// Each process opens it for itself, and so does each thread. A program must not open the same file through another copy of SQLite while
/// this one is open in it: the locks of a file are those of a process.
#[derive(Debug)]
pub struct History {
    pub(super) connection: Connection,
    path: PathBuf,
    _held: Held,
}

impl History {
    /// Opens the past transfers of this user, and begins them if there are none.
    pub fn open() -> Result<Self> {
        Self::open_at(&database_file()?)
    }

    /// The same, unless there are none.
    pub fn open_if_there() -> Result<Option<Self>> {
        let path = database_file()?;
        if path.exists() { Self::open_at(&path).map(Some) } else { Ok(None) }
    }

    /// Opens the past transfers of this user to be read, unless there are none: that needs no permission to write.
    pub fn open_to_read() -> Result<Option<Self>> {
        Self::open_to_read_within(PATIENCE)
    }

    /// The same for one who waits no longer than this for other processes that write.
    pub(super) fn open_to_read_within(patience: Duration) -> Result<Option<Self>> {
        let path = database_file()?;
        if path.exists() { Self::open_to_read_at(&path, patience).map(Some) } else { Ok(None) }
    }

    pub(super) fn open_to_read_at(path: &Path, patience: Duration) -> Result<Self> {
        match Self::open_within(path, patience) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Self::open_read_only(path, patience),
            // As on a full disk.
            Err(error) if matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Io) => {
                Self::open_read_only(path, patience).map_err(|_| error)
            }
            opened => opened,
        }
    }

    /// Opens a file of past transfers, and begins one where none is.
    pub fn open_at(path: &Path) -> Result<Self> {
        Self::open_within(path, PATIENCE)
    }

    fn open_within(path: &Path, patience: Duration) -> Result<Self> {
        let held = Held::take(path)?;
        create(path).map_err(|cause| Error::io(unopened(path), &cause).with_hint(elsewhere()))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let mut connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(patience)?;
            let networked = is_networked(path);
            let kept_here = prepare(&connection, networked)?;
            if networked && kept_here == Mode::Log {
                return Ok((connection, None));
            }
            migrate(&mut connection, &MIGRATIONS).map(|version| (connection, Some(version)))
        };
        let (connection, version) = open().map_err(|cause| explained(unopened(path), &cause, path))?;
        let version = version.ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, unopened(path))
                .with_cause("the machine whose disk it is on uses it in a way that network file systems cannot")
                .with_hint("set EDT_DATA_DIR to a directory of this machine")
        })?;
        known(version, path)?;
        Ok(Self::of(connection, path, held))
    }

    pub(super) fn of(connection: Connection, path: &Path, held: Held) -> Self {
        Self { connection, path: path.to_owned(), _held: held }
    }

    /// For whoever writes beside something else: waits longer for others that write, and leaves the log of changes as it is when it
    /// closes, so that the end waits for no disk.
    pub(super) fn in_background(self) -> Result<Self> {
        let set_up = || {
            self.connection.busy_timeout(BACKGROUND_PATIENCE)?;
            self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
        };
        set_up().map_err(|cause| explained(unopened(&self.path), &cause, &self.path))?;
        Ok(self)
    }

    /// Carries out changes, all or none.
    pub(super) fn change<T>(&mut self, change: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let carry_out = || {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let changed = change(&transaction)?;
            transaction.commit().map(|()| changed)
        };
        carry_out().map_err(|cause| explained(format!("could not write to `{}`", self.path.display()), &cause, &self.path))
    }

    /// The error for what could not be read.
    pub(super) fn unread(&self, cause: &rusqlite::Error) -> Error {
        explained(format!("could not read `{}`", self.path.display()), cause, &self.path)
    }
}

/// A share in the histories that are open in this process. One that was forked off while there were any has their locks in its memory
/// but does not hold them, and must open none.
#[derive(Debug)]
pub(super) struct Held;

/// The process that has histories open, in the upper half, and how many.
static HOLDERS: AtomicU64 = AtomicU64::new(0);

impl Held {
    pub(super) fn take(path: &Path) -> Result<Self> {
        let process = u64::from(std::process::id()) << 32;
        let more = |held: u64| match held & u64::from(u32::MAX) {
            0 => Some(process | 1),
            _ if held & !u64::from(u32::MAX) == process => Some(held + 1),
            _ => None,
        };
        HOLDERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).map(|_| Self).map_err(|_| {
            Error::new(ErrorKind::Unsupported, unopened(path))
                .with_cause("this process was forked off one that had it open")
                .with_hint("start such processes anew, as `spawn` of Python's multiprocessing does")
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let process = u64::from(std::process::id());
        let _ = HOLDERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, |held| (held >> 32 == process).then(|| held - 1));
    }
}

/// Makes the file and the directories above it, for this user alone: whom a user exchanges data with concerns nobody else.
///
/// A file that is there is left to SQLite: to close it here would take the locks from all who have it open in this process.
fn create(path: &Path) -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock();
    if path.try_exists()? {
        return Ok(());
    }
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
        _ => Ok(()),
    }
}

/// How changes are kept from being half done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A log of changes beside the file, and memory that processes of one machine share.
    Log,
    /// The old pages, until a change is done.
    OldPages,
}

/// Sets up a connection. Whoever makes the file decides on its mode: a log of changes, unless locks reach further than memory that
/// processes share.
fn prepare(connection: &Connection, networked: bool) -> rusqlite::Result<Mode> {
    let is_new = connection.pragma_query_value(None, "page_count", |row| row.get::<_, u64>(0))? == 0;
    if is_new {
        // Where it is set already it is written again, and one who only reads would wait for those who write.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    let answered = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let mut mode = connection.pragma_query_value(None, "journal_mode", answered)?;
    if is_new && !networked {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", answered) {
            // Another process makes the file at this moment.
            Err(cause) if is_busy(&cause) => {}
            answer => mode = answer?,
        }
    } else if mode != "wal" {
        mode = connection.pragma_update_and_check(None, "journal_mode", "TRUNCATE", answered)?;
    }
    connection.pragma_update(None, "synchronous", if networked { "FULL" } else { "NORMAL" })?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(if mode == "wal" { Mode::Log } else { Mode::OldPages })
}

/// Brings the tables to the newest version, which may be done by several processes at once; returns the version that is there then.
pub(super) fn migrate(connection: &mut Connection, migrations: &[&str]) -> rusqlite::Result<usize> {
    let version = |connection: &Connection| connection.pragma_query_value(None, "user_version", |row| row.get::<_, usize>(0));
    let found = version(connection)?;
    if found >= migrations.len() {
        return Ok(found);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&transaction)?;
    for migration in migrations.iter().skip(found) {
        transaction.execute_batch(migration)?;
    }
    let reached = found.max(migrations.len());
    transaction.pragma_update(None, "user_version", reached)?;
    transaction.commit().map(|()| reached)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether a file lies on a file system that several machines share.
#[cfg(target_os = "linux")]
pub(super) fn is_networked(path: &Path) -> bool {
    // NFS, SMB (three kinds), AFS, Ceph, Lustre, GPFS, BeeGFS, 9P, OrangeFS, and whatever runs over FUSE [statfs(2)].
    const KINDS: [u32; 12] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x5346_414f,
        0x00c3_6400,
        0x0bd0_0bd0,
        0x4750_4653,
        0x1983_0326,
        0x0102_1997,
        0x2003_0528,
        0x6573_5546,
    ];
    let Ok(found) = rustix::fs::statfs(path) else { return false };
    // The width of the field differs between machines; the kinds have 32 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let kind = found.f_type as u32;
    KINDS.contains(&kind)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_networked(_: &Path) -> bool {
    false
}

/// Refuses tables that are newer than this edt.
pub(super) fn known(version: usize, path: &Path) -> Result<()> {
    if version <= MIGRATIONS.len() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, unopened(path))
        .with_cause(format!("it is of version {version}, and this edt knows versions up to {}", MIGRATIONS.len()))
        .with_hint("a newer edt has written it: use that one, or set EDT_DATA_DIR to another directory"))
}

pub(super) fn unopened(path: &Path) -> String {
    format!("could not open the history `{}`", path.display())
}

fn elsewhere() -> &'static str {
    "set EDT_DATA_DIR to a directory that can be written, or EDT_HISTORY=off to keep no history"
}

pub(super) fn explained(what: String, cause: &rusqlite::Error, path: &Path) -> Error {
    let (kind, hint) = match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            (ErrorKind::Corrupted, format!("move `{}` away; a new one is begun then", path.display()))
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            (ErrorKind::Io, "try again; where it lies on a network file system, see docs/history.md".to_owned())
        }
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            (ErrorKind::PermissionDenied, elsewhere().to_owned())
        }
        Some(ErrorCode::SystemIoFailure) => (ErrorKind::Io, format!("free space there if there is none; else {}", elsewhere())),
        Some(ErrorCode::DiskFull) => (ErrorKind::NoSpace, "free space, or set EDT_HISTORY=off to keep no history".to_owned()),
        _ => (ErrorKind::Io, elsewhere().to_owned()),
    };
    Error::new(kind, what).with_cause(cause).with_hint(hint)
}
