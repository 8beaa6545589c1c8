//! Removing entries, and directories with all that is below them.

use super::host::Host;
use super::in_parallel;
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::{Depth, EntryKind};

/// Removes an entry; a directory that is not empty only with [`Depth::Tree`].
pub(super) fn remove(host: &Host, path: &RelativePath, depth: Depth) -> Result<()> {
    if path.is_root() {
        return Err(host.failed("remove", path, ErrorKind::InvalidInput, "it is the root of the server"));
    }
    let entry = host.run(|service| service.stat(path))?;
    host.recent.take(path);
    if entry.kind != EntryKind::Directory {
        return host.remove_file(path);
    }
    // What is below it may be known to be there.
    host.forget_directories();
    match depth {
        Depth::One => host.remove_directory(path),
        Depth::Tree => remove_tree(host, path),
    }
}

fn remove_tree(host: &Host, directory: &RelativePath) -> Result<()> {
    let entries = match host.run(|service| service.children(directory)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let (directories, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.kind == EntryKind::Directory);
    let removed = in_parallel(others, |entry| host.remove_file(&entry.path));
    removed.into_iter().collect::<Result<()>>()?;
    directories.iter().try_for_each(|below| remove_tree(host, &below.path))?;
    host.remove_directory(directory)
}

impl Host {
    /// Removes a file or a link; one that is gone after an answer was lost is removed.
    pub(super) fn remove_file(&self, path: &RelativePath) -> Result<()> {
        self.remove_with(|| self.service.remove_file(path))
    }

    /// Removes an empty directory.
    pub(super) fn remove_directory(&self, path: &RelativePath) -> Result<()> {
        self.remove_with(|| self.service.remove_directory(path))
    }

    fn remove_with(&self, remove: impl Fn() -> Result<()>) -> Result<()> {
        let mut attempts = 0;
        let removed = self.patience.run(|| {
            attempts += 1;
            remove()
        });
        let is_gone = |error: &Error| attempts > 1 && error.kind() == ErrorKind::NotFound;
        match removed {
            Err(error) if is_gone(&error) => Ok(()),
            removed => removed,
        }
    }
}
