//! The history where it cannot be written: in a home that is mounted to be read, among another user's files, or on a full disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::History;
use super::database::{Held, explained, is_networked, known, unopened};
use super::schema::{MIGRATIONS, VIEWS};
use crate::error::{Error, ErrorKind, Result};

impl History {
    /// Opens a file of past transfers that is there, and changes nothing: tables of an older version are shown as they would be now.
    pub(super) fn open_read_only(path: &Path, patience: Duration) -> Result<Self> {
        let held = Held::take(path)?;
        let (connection, version) = connect(path, patience).map_err(|cause| explained(unopened(path), &cause, path))?;
        known(version, path)?;
        if version == 0 {
            return Err(Error::new(ErrorKind::Unsupported, unopened(path))
                .with_cause("its tables were never made")
                .with_hint("set EDT_DATA_DIR to a directory that can be written"));
        }
        show(&connection, version).map_err(|cause| explained(unopened(path), &cause, path))?;
        Ok(Self::of(connection, path, held))
    }

    /// Opens a file of past transfers for a short look beside others that use it, if its tables are of today's version: no file is made,
    /// and nothing is moved from one to the other.
    pub(super) fn open_to_glance(path: &Path, patience: Duration) -> Result<Self> {
        let held = Held::take(path)?;
        let opened = glancing(path, patience).and_then(|connection| version(&connection).map(|version| (connection, version)));
        match opened.map_err(|cause| explained(unopened(path), &cause, path))? {
            (connection, version) if version == MIGRATIONS.len() => Ok(Self::of(connection, path, held)),
            _ => Err(Error::new(ErrorKind::Unsupported, unopened(path)).with_cause("its tables are of another version")),
        }
    }
}

/// A connection that leaves the files as they are, but for the memory that processes share.
fn glancing(path: &Path, patience: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // Beside the file itself, where links lead.
    let is_there = |ending| path.canonicalize().is_ok_and(|path| beside(&path, ending).exists());
    let with_locks = is_networked(path) || is_there("-journal");
    let connection = match (with_locks, is_there("-wal"), is_there("-shm")) {
        (true, false, _) | (false, true, true) => Connection::open_with_flags(path, flags)?,
        // Whoever reads with locks makes a log where there is none. Without one all is in the database, and nobody writes there soon.
        (false, false, _) => Connection::open_with_flags(unchanging(path), flags | OpenFlags::SQLITE_OPEN_URI)?,
        (true, true, _) | (false, true, false) => return Err(rusqlite::Error::InvalidPath(path.to_owned())),
    };
    connection.busy_timeout(patience)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

/// A connection, and the version of the tables.
fn connect(path: &Path, patience: Duration) -> rusqlite::Result<(Connection, usize)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(patience)?;
    match version(&connection) {
        // A log of changes needs files beside the database, which cannot be made here. Without one all is in the database.
        Err(cause) if cannot_open(&cause) && !has_log(path) => {
            let connection = Connection::open_with_flags(unchanging(path), flags | OpenFlags::SQLITE_OPEN_URI)?;
            version(&connection).map(|version| (connection, version))
        }
        version => version.map(|version| (connection, version)),
    }
}

fn version(connection: &Connection) -> rusqlite::Result<usize> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn cannot_open(error: &rusqlite::Error) -> bool {
    use ErrorCode::{CannotOpen, DiskFull, ReadOnly, SystemIoFailure};
    // The third and fourth are those of a full disk.
    matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly | DiskFull | SystemIoFailure))
}

/// Whether changes are in the log that are not in the database yet.
fn has_log(path: &Path) -> bool {
    beside(path, "-wal").metadata().is_ok_and(|log| log.is_file() && log.len() > 0)
}

/// The file beside the database with this ending [SQLite, Write-Ahead Logging, section 2].
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The URI of a database that nobody changes [SQLite, Uniform Resource Identifiers, section 3.1].
fn unchanging(path: &Path) -> String {
    format!("file:{}?immutable=1", percent_encode(path.as_os_str().as_encoded_bytes(), NON_ALPHANUMERIC))
}

/// Shows tables of an older version as those of the newest, in memory.
fn show(connection: &Connection, version: usize) -> rusqlite::Result<()> {
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    VIEWS.iter().skip(version - 1).try_for_each(|view| connection.execute_batch(view))
}

#[cfg(test)]
mod tests {
    use super::super::database::{PATIENCE, migrate};
    use super::super::testing::{column, record};
    use super::super::{Cell, Table};
    use super::*;

    /// A history that was closed, so that all of it is in one file.
    fn closed(directory: &tempfile::TempDir) -> std::path::PathBuf {
        let path = directory.path().join("his\u{e4} #%.db");
        record(&path, "h", 3);
        drop(History::open_at(&path).unwrap());
        assert!(!has_log(&path));
        path
    }

    fn names(directory: &tempfile::TempDir) -> Vec<std::ffi::OsString> {
        let mut names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_cannot_be_written_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = closed(&directory);
        let mut history = History::open_read_only(&path, PATIENCE).unwrap();
        assert_eq!(history.count(Table::Intervals).unwrap(), 3);
        assert_eq!(history.pasts("local", "h_7632").unwrap().len(), 1);
        let error = history.change(|connection| connection.execute("DELETE FROM transfers", [])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(History::open_read_only(&path.join("none"), PATIENCE).is_err());
    }

    #[test]
    fn where_no_file_can_be_made_beside_it_the_database_alone_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = closed(&directory);
        // A directory in the place of the log: nobody can make the file then, whatever the permissions.
        let mut log = path.clone().into_os_string();
        log.push("-wal");
        std::fs::create_dir(&log).unwrap();
        let before = (std::fs::read(&path).unwrap(), names(&directory));
        assert_eq!(History::open_at(&path).unwrap_err().kind(), ErrorKind::PermissionDenied);
        let history = History::open_to_read_at(&path, PATIENCE).unwrap();
        assert_eq!(column(&history, Table::Transfers, "destination"), [Cell::Text("h_7632".to_owned())]);
        drop(history);
        assert_eq!((std::fs::read(&path).unwrap(), names(&directory)), before);
    }

    #[test]
    fn tables_of_every_older_version_are_shown_as_those_of_today() {
        let directory = tempfile::tempdir().unwrap();
        for version in 1..MIGRATIONS.len() {
            let path = directory.path().join(format!("{version}.db"));
            let mut old = Connection::open(&path).unwrap();
            assert_eq!(migrate(&mut old, &MIGRATIONS[..version]).unwrap(), version);
            old.execute_batch(
                "INSERT INTO transfers (began_s, version, source, destination, optimizer, policy, options, outcome)
                 VALUES (1, '0', 'a', 'b', 'fixed', 'fair', '{}', 'complete');
                 INSERT INTO intervals (transfer, number, elapsed_s, interval_s, read_concurrency, network_concurrency,
                     write_concurrency, read_throughput, network_throughput, write_throughput, read_busy, network_busy, write_busy,
                     files_done, bytes_verified)
                 VALUES (1, 0, 1, 1, 4, 4, 4, 1e6, 1e6, 1e6, 1, 1, 1, 9, 1000000)",
            )
            .unwrap();
            drop(old);
            let before = std::fs::read(&path).unwrap();
            let history = History::open_read_only(&path, PATIENCE).unwrap();
            assert_eq!(column(&history, Table::Intervals, "judged"), [Cell::Null]);
            for table in Table::ALL {
                let rows = u64::from(matches!(table, Table::Transfers | Table::Intervals));
                assert_eq!(history.count(table).unwrap(), rows, "{} of version {version}", table.name());
                history
                    .rows(table, None, |row| {
                        assert_eq!(row.len(), table.columns().len());
                        Ok(())
                    })
                    .unwrap();
            }
            assert_eq!(history.pasts("a", "b").unwrap().len(), 1);
            drop(history);
            assert_eq!(std::fs::read(&path).unwrap(), before);
        }
    }
}
