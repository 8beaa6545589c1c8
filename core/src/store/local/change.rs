//! Directories and links: making, removing and flushing them.

use std::io;
use std::path::Path;
#[cfg(unix)]
use std::path::PathBuf;

use super::LocalStore;
use super::facts::Kind;
use super::place::Place;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Overwrite, Symlinks};
use crate::path::RelativePath;
use crate::store::Depth;

impl LocalStore {
    /// Makes a directory and those above it, the root included where it is an ordinary path.
    pub(super) fn make_directory(&self, path: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return self.root.make_itself() };
        let attempt = || self.root.written(parent)?.make_directory(Path::new(name));
        let made = match attempt() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_directory(parent)?;
                attempt()?
            }
            attempted => attempted?,
        };
        if made {
            self.unsynced.note(parent);
        }
        Ok(())
    }

    #[cfg(unix)]
    pub(super) fn place_symlink(&self, target: &Path, path: &Path, overwrite: Overwrite) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is the root of the store"));
        };
        let name = Path::new(name);
        let place = match self.root.written(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_directory(parent)?;
                self.root.written(parent)?
            }
            place => place?,
        };
        match place.symlink(target, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match overwrite {
                Overwrite::Replace => self.replace_with_symlink(target, &place, name)?,
                // The same link stands there already, as after a run that was repeated.
                Overwrite::Never if place.read_link(name).is_ok_and(|there| there == target) => {}
                Overwrite::Never => return Err(error),
            },
            made => made?,
        }
        self.unsynced.note(parent);
        Ok(())
    }

    #[cfg(unix)]
    fn replace_with_symlink(&self, target: &Path, place: &Place, name: &Path) -> io::Result<()> {
        let temporary = PathBuf::from(self.staging.unique());
        let staged = self.staging.link(&self.root, target, &temporary)?;
        let moved = staged.replace(&temporary, place, name);
        if moved.is_err() {
            let _ = staged.remove_file(&temporary);
        }
        moved
    }

    pub(super) fn remove_entry(&self, path: &Path, depth: Depth) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return match self.root {
                Place::Confined(_) => Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is the root of the endpoint")),
                Place::Free(_) => remove(&self.root, path, depth),
            };
        };
        remove(&self.root.written(parent)?, Path::new(name), depth)
    }

    pub(super) fn rename_entry(&self, from: &Path, to: &Path, overwrite: Overwrite) -> io::Result<()> {
        let root = || io::Error::new(io::ErrorKind::PermissionDenied, "it is the root of the endpoint");
        let (from_parent, from_name) = from.parent().zip(from.file_name()).ok_or_else(root)?;
        let (to_parent, to_name) = to.parent().zip(to.file_name()).ok_or_else(root)?;
        let source = self.root.written(from_parent)?;
        source.facts(Path::new(from_name), Symlinks::Keep)?;
        let target = match self.root.written(to_parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_directory(to_parent)?;
                self.root.written(to_parent)?
            }
            target => target?,
        };
        match overwrite {
            Overwrite::Replace => source.replace(Path::new(from_name), &target, Path::new(to_name))?,
            Overwrite::Never => source.rename_new(Path::new(from_name), &target, Path::new(to_name))?,
        }
        self.unsynced.note(from_parent);
        self.unsynced.note(to_parent);
        Ok(())
    }

    /// Flushes what was noted since the last flush.
    #[cfg_attr(not(unix), expect(clippy::unnecessary_wraps, reason = "has the form of the one that can fail"))]
    pub(super) fn flush_unsynced(&self) -> Result<()> {
        let pending = self.unsynced.pending();
        #[cfg(unix)]
        {
            if pending.everything.is_some() {
                rustix::fs::sync();
            }
            let failed = |path: &Path, error: &io::Error| {
                Error::io(format!("could not flush the directory `{}`", self.shown.join(path).display()), error)
            };
            for (path, _) in &pending.directories {
                still_there(flush_directory(&self.root, path)).map_err(|error| failed(path, &error))?;
            }
            for path in &pending.above {
                still_there(std::fs::File::open(path).and_then(|above| flushed(&above))).map_err(|error| failed(path, &error))?;
            }
        }
        self.unsynced.flushed(&pending);
        Ok(())
    }

    pub(super) fn not_a_directory(&self, path: &RelativePath) -> Error {
        Error::new(ErrorKind::WrongType, format!("could not create the directory `{}`", self.show(path)))
            .with_cause("a file stands there or above it")
            .with_hint("remove or rename the file, or choose another destination")
    }
}

fn remove(place: &Place, path: &Path, depth: Depth) -> io::Result<()> {
    match (place.facts(path, Symlinks::Keep)?.kind, depth) {
        (Kind::Directory, Depth::Tree) => place.remove_tree(path),
        (Kind::Directory, Depth::One) => place.remove_directory(path),
        _ => place.remove_file(path),
    }
}

/// What was removed or replaced since it was noted has nothing left to flush.
#[cfg(unix)]
fn still_there(flushed: io::Result<()>) -> io::Result<()> {
    match flushed {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
        flushed => flushed,
    }
}

#[cfg(unix)]
pub(super) fn flush_directory(root: &Place, path: &Path) -> io::Result<()> {
    flushed(&root.open_directory(path)?)
}

#[cfg(unix)]
fn flushed(directory: &std::fs::File) -> io::Result<()> {
    match directory.sync_all() {
        // Some network file systems have nothing to flush for a directory and say so.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        flushed => flushed,
    }
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "has the form of the one that can fail")]
pub(super) fn flush_directory(_: &Place, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn what_was_made_is_flushed_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = LocalStore::open(&directory.path().join("root"), Symlinks::Keep);
        let path = |text| RelativePath::from_user(text).unwrap();
        store.create_directory(&path("a/b")).unwrap();
        store.create_directory(&path("a/b")).unwrap();
        store.create_symlink(&path("l/link"), b"target", Overwrite::Never).unwrap();
        let pending = store.unsynced.pending();
        let mut noted: Vec<_> = pending.directories.into_iter().map(|(path, _)| path).collect();
        noted.sort();
        assert_eq!(noted, ["", "a", "l"].map(PathBuf::from));
        assert_eq!(pending.above, [directory.path()]);
        store.sync_directories(&[]).unwrap();
        let pending = store.unsynced.pending();
        assert!(pending.directories.is_empty() && pending.above.is_empty());
    }
}
