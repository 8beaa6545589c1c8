//! The local store: a directory tree of this machine or of a file system mounted on it.
//!
//! Everything goes through a `Place`: an ordinary path for a user's own endpoint, a capability for the root of a server.

mod change;
mod facts;
mod listing;
mod place;
mod publish;
mod reader;
mod seen;
mod staging;
mod unsynced;
mod writer;
mod written;

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use self::facts::Kind;
use self::listing::Walk;
use self::place::Place;
use self::reader::LocalReader;
pub(crate) use self::staging::NAME as STAGING;
use self::staging::Staging;
pub use self::staging::UPLOAD;
use self::unsynced::Unsynced;
use self::writer::LocalWriter;
use self::written::is_link_in_the_way;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Fsync, Overwrite, Symlinks};
use crate::path::RelativePath;
use crate::store::{
    Capabilities, Depth, Entry, EntryKind, Listing, Metadata, NewFile, Prune, Publication, Reader, Store, Writer,
};

/// How often a journal is opened again because it was removed between opening and locking.
const JOURNAL_ATTEMPTS: usize = 8;

/// What to do about a symbolic link in the path of what is written.
const LINK_HINT: &str = "remove the link, or copy into the directory that it points to";

/// A directory tree. Partial files and journals stand in `.edt` at its root, which no path can name.
pub struct LocalStore {
    root: Place,
    shown: PathBuf,
    symlinks: Symlinks,
    staging: Staging,
    unsynced: Unsynced,
}

impl LocalStore {
    /// The tree below `root` by ordinary paths: links may lead anywhere, as everywhere else on the user's machine.
    ///
    /// `root` need not exist yet; it is made with the first file or directory. It may be a file, which then is all there is.
    pub fn open(root: &Path, symlinks: Symlinks) -> Self {
        let shown = root.to_owned();
        let unsynced = Unsynced::before(root);
        Self { root: Place::Free(root.to_owned()), shown, symlinks, staging: Staging::new(), unsynced }
    }

    /// The tree below an existing directory that no path and no link leads out of.
    pub fn confined(root: &Path, symlinks: Symlinks) -> Result<Self> {
        let place =
            Place::confined(root).map_err(|error| Error::io(format!("could not open the root `{}`", root.display()), &error))?;
        Ok(Self { root: place, shown: PathBuf::new(), symlinks, staging: Staging::new(), unsynced: Unsynced::default() })
    }

    /// Whether nothing is staged: no transfer that could be resumed, and none that goes on.
    pub(crate) fn is_clear(&self) -> bool {
        staging::is_clear(&self.root)
    }

    /// Gives an entry another name, replacing a file that stands there as the rule allows; directories above the new name are made.
    pub fn rename(&self, from: &RelativePath, to: &RelativePath, overwrite: Overwrite) -> Result<()> {
        let (local_from, local_to) = (self.checked(from)?, self.checked(to)?);
        self.rename_entry(&local_from, &local_to, overwrite)
            .map_err(|error| self.failed(&format!("rename to `{}`", self.show(to)), from, &error))
    }

    /// The keys of journals, of those that begin with `prefix`, whose partial files and journal were all written before `before`.
    pub fn abandoned(&self, prefix: &str, before: SystemTime) -> Result<Vec<String>> {
        staging::abandoned(&self.root, prefix, before)
            .map_err(|error| Error::io("could not look for abandoned partial files", &error))
    }

    /// The path in the form of this system; the staging directory does not exist for callers.
    fn checked<'a>(&self, path: &'a RelativePath) -> Result<Cow<'a, Path>> {
        if staging::holds(path) {
            return Err(Error::new(ErrorKind::NotFound, format!("could not find `{}`", self.show(path)))
                .with_cause("the name `.edt` at the root is reserved for partial files")
                .with_hint("use another name, or a root further up"));
        }
        #[cfg(unix)]
        return Ok(Cow::Borrowed(Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path.as_bytes()))));
        #[cfg(not(unix))]
        return path.to_local().map(Cow::Owned);
    }

    fn show(&self, path: &RelativePath) -> String {
        match (path.is_root(), self.shown.as_os_str().is_empty()) {
            (true, true) => ".".to_owned(),
            (true, false) => self.shown.display().to_string(),
            (false, true) => path.to_string(),
            (false, false) => self.shown.join(path.to_string()).display().to_string(),
        }
    }

    fn failed(&self, operation: &str, path: &RelativePath, error: &io::Error) -> Error {
        let failed = Error::io(format!("could not {operation} `{}`", self.show(path)), error);
        if is_link_in_the_way(error) { failed.with_hint(LINK_HINT) } else { failed }
    }

    fn flush_directory(&self, path: &RelativePath) -> Result<()> {
        let local = self.checked(path)?;
        change::flush_directory(&self.root, &local).map_err(|error| self.failed("flush the directory", path, &error))
    }

    fn lock_journal(&self, key: &str) -> io::Result<Option<File>> {
        for _ in 0..JOURNAL_ATTEMPTS {
            let (place, file) = self.staging.journal(&self.root, key)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
                Err(std::fs::TryLockError::Error(error)) => return Err(error),
            }
            if still_named(&place, &file)? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }
}

impl Store for LocalStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { symlinks: cfg!(unix), ..Capabilities::LOCAL }
    }

    fn list(&self, path: &RelativePath, depth: Depth, prune: Prune) -> Result<Listing<'_>> {
        let local = self.checked(path)?;
        let facts = self.root.seen(&local, self.symlinks).and_then(|seen| seen.facts());
        let facts = facts.map_err(|error| self.failed("list", path, &error))?;
        match facts.kind {
            Kind::Directory => Ok(Box::new(Walk::new(self, path, &facts, depth, prune)?)),
            Kind::Symlink if self.symlinks == Symlinks::Skip => Ok(Box::new(std::iter::empty())),
            _ => Ok(Box::new(std::iter::once(self.entry(path, &facts)))),
        }
    }

    fn trouble(&self, entry: &RelativePath) -> Option<Error> {
        let theirs = entry.is_root().then(|| staging::of_others(&self.root, self.symlinks)).flatten()?;
        Some(
            Error::new(ErrorKind::Unsupported, format!("could not copy `{}`", self.show(&theirs)))
                .with_cause("the name `.edt` at the root is reserved for partial files, and something else stands there")
                .with_hint("rename it, copy the directory above, or leave it out with --exclude .edt")
                .about(&theirs),
        )
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        let local = self.checked(path)?;
        let facts = self.root.seen(&local, self.symlinks).and_then(|seen| seen.facts());
        self.entry(path, &facts.map_err(|error| self.failed("read the metadata of", path, &error))?)
    }

    fn open(&self, path: &RelativePath) -> Result<Box<dyn Reader>> {
        let local = self.checked(path)?;
        let follow = if path.is_root() { Symlinks::Follow } else { self.symlinks };
        let opened = self.root.open_seen(&local, follow).map_err(open_error);
        let file = opened.map_err(|error| self.failed("open", path, &error))?;
        let reader = LocalReader::new(file, path.clone(), self.show(path));
        let entry = reader.stat()?;
        if entry.kind != EntryKind::File {
            return Err(Error::new(ErrorKind::WrongType, format!("could not open `{}`", self.show(path)))
                .with_cause("it is not a regular file"));
        }
        reader.advise(entry.size);
        Ok(Box::new(reader))
    }

    fn create(&self, file: &NewFile) -> Result<Box<dyn Writer>> {
        Ok(Box::new(LocalWriter::create(self, file)?))
    }

    fn publish(&self, batch: Vec<Publication>, fsync: Fsync) -> Vec<Result<()>> {
        self.publish_batch(batch, fsync)
    }

    fn create_directory(&self, path: &RelativePath) -> Result<()> {
        let local = self.checked(path)?;
        self.make_directory(&local).map_err(|error| match error.kind() {
            _ if is_link_in_the_way(&error) => self.failed("create the directory", path, &error),
            // A file stands there: the name is taken by the wrong type, not by what was asked for.
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => self.not_a_directory(path),
            _ => self.failed("create the directory", path, &error),
        })
    }

    fn set_directory_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        let local = self.checked(path)?;
        set_directory_metadata(&self.root, &local, metadata)
            .map_err(|error| self.failed("set time and mode of the directory", path, &error))
    }

    #[cfg(unix)]
    fn create_symlink(&self, path: &RelativePath, target: &[u8], overwrite: Overwrite) -> Result<()> {
        let local = self.checked(path)?;
        let target = Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(target));
        self.place_symlink(target, &local, overwrite).map_err(|error| match error.kind() {
            io::ErrorKind::IsADirectory => Error::io(format!("could not create the link `{}`", self.show(path)), &error)
                .with_hint("remove or rename what stands there"),
            _ => self.failed("create the link", path, &error),
        })
    }

    #[cfg(not(unix))]
    fn create_symlink(&self, path: &RelativePath, _: &[u8], _: Overwrite) -> Result<()> {
        self.checked(path)?;
        Err(Error::new(ErrorKind::Unsupported, format!("could not create the link `{}`", self.show(path)))
            .with_cause("links need special rights on this system")
            .with_hint("follow or skip symbolic links: --symlinks follow, --symlinks skip"))
    }

    fn remove(&self, path: &RelativePath, depth: Depth) -> Result<()> {
        let local = self.checked(path)?;
        self.remove_entry(&local, depth).map_err(|error| self.failed("remove", path, &error))
    }

    fn sync_directories(&self, paths: &[RelativePath]) -> Result<()> {
        paths.iter().try_for_each(|path| self.flush_directory(path))?;
        self.flush_unsynced()
    }

    fn journal(&self, key: &str) -> Result<Option<File>> {
        staging::check_key(key)?;
        let what = || format!("could not open the journal `{key}` below `{}`", self.show(&RelativePath::root()));
        match self.lock_journal(key) {
            Ok(Some(file)) => Ok(Some(file)),
            Ok(None) => Err(Error::new(ErrorKind::AlreadyExists, what())
                .with_cause("another process is receiving this transfer")
                .with_hint("wait for it or end it, then run the same command again")),
            Err(error) => Err(Error::io(what(), &error)),
        }
    }

    fn discard(&self, key: &str) -> Result<()> {
        staging::check_key(key)?;
        self.staging
            .discard(&self.root, key)
            .map_err(|error| Error::io(format!("could not remove the partial files of the transfer `{key}`"), &error))
    }

    fn tidy(&self) {
        self.staging.tidy(&self.root);
    }
}

/// A link at the end of a name that must not be followed is of the wrong type.
fn open_error(error: io::Error) -> io::Error {
    #[cfg(unix)]
    if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        return io::Error::new(io::ErrorKind::IsADirectory, "it is a symbolic link, or leads through a loop of them");
    }
    error
}

/// Whether a locked journal is still the one that the next process would open.
fn still_named(place: &Place, file: &File) -> io::Result<bool> {
    match place.facts(Path::new(staging::JOURNAL), Symlinks::Keep) {
        Ok(named) => Ok(named.identity == facts::Facts::of_std(&file.metadata()?).identity),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sets permission bits without set-user and set-group; a file system that has none keeps its own.
#[cfg(unix)]
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    match file.set_permissions(std::fs::Permissions::from_mode(mode & 0o1777)) {
        Err(error) if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied) => Ok(()),
        set => set,
    }
}

#[cfg(unix)]
fn set_directory_metadata(root: &Place, path: &Path, metadata: &Metadata) -> io::Result<()> {
    let directory = root.open_directory(path)?;
    if let Some(modified) = metadata.modified_ns {
        directory.set_modified(facts::system_time(modified))?;
    }
    metadata.mode.map_or(Ok(()), |mode| set_mode(&directory, mode))
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "has the form of the one that can fail")]
fn set_directory_metadata(_: &Place, _: &Path, _: &Metadata) -> io::Result<()> {
    Ok(())
}
