//! Making directories, each asked for once.

use super::host::Host;
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::{Entry, EntryKind};

/// Directories that are remembered at most.
const MOST_KNOWN: usize = 1 << 16;

impl Host {
    /// Makes a directory and those above it; one that exists is no error.
    pub(super) fn create_directory(&self, path: &RelativePath) -> Result<()> {
        let Some(above) = path.parent().filter(|_| !self.is_known(path)) else { return Ok(()) };
        let make = || self.run(|service| service.make_directory(path));
        if let Err(error) = make() {
            if is_temporary(&error) || error.kind() == ErrorKind::InvalidInput {
                return Err(error);
            }
            // Not every server tells why: the name is taken, a directory above is missing, or a file stands there.
            let standing = if error.kind() == ErrorKind::NotFound { None } else { self.run(|service| service.stat(path)).ok() };
            match standing {
                Some(entry) => self.check_directory(&entry)?,
                None if above.is_root() => return Err(error),
                None => self.make_below(&above, path)?,
            }
        }
        self.remember(path);
        Ok(())
    }

    /// Makes a directory once the one above it is there, which another thread may have made since.
    fn make_below(&self, above: &RelativePath, path: &RelativePath) -> Result<()> {
        self.create_directory(above)?;
        match self.run(|service| service.make_directory(path)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.check_directory(&self.run(|service| service.stat(path))?)
            }
            answer => answer,
        }
    }

    /// Makes the directories above a path.
    pub(super) fn make_parents(&self, path: &RelativePath) -> Result<()> {
        path.parent().map_or(Ok(()), |above| self.create_directory(&above))
    }

    pub(super) fn is_known(&self, path: &RelativePath) -> bool {
        self.known.lock().contains(path)
    }

    /// Takes no directory for certain any more.
    pub(super) fn forget_directories(&self) {
        self.known.lock().clear();
    }

    fn remember(&self, path: &RelativePath) {
        let mut known = self.known.lock();
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(path.clone());
    }

    /// Of what stands at a name: a directory will do, and so does a link on the way to the URL's own path.
    fn check_directory(&self, entry: &Entry) -> Result<()> {
        let path = &entry.path;
        let refused = |cause| Err(self.failed("create the directory", path, ErrorKind::WrongType, cause));
        match entry.kind {
            EntryKind::Directory => Ok(()),
            EntryKind::Symlink(_) if self.base().strip_prefix(path).is_some() && self.leads_to_a_directory(path) => Ok(()),
            EntryKind::Symlink(_) => refused("a symbolic link stands there")
                .map_err(|error: Error| error.with_hint("remove the link, or copy into the directory that it points to")),
            EntryKind::File | EntryKind::Other => refused("a file stands there"),
        }
    }
}

fn is_temporary(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionLost | ErrorKind::Unreachable | ErrorKind::Throttled | ErrorKind::Cancelled | ErrorKind::Refused
    )
}
