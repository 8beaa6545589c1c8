//! Directories that are written into: reached from the root of a store through no symbolic link.
//!
//! Both ends name paths and links, so a link that one item made must not carry the next item out of the destination, nor into
//! another directory of it. The root itself, and what is above it, may be reached through links: they are the user's own.

use std::fmt;
#[cfg(unix)]
use std::fs::File;
use std::io;
#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

#[cfg(unix)]
use rustix::fs::OFlags;
#[cfg(unix)]
use rustix::io::Errno;

use super::facts::Kind;
use super::place::Place;
use crate::options::Symlinks;

/// Enough to name what is below a directory, even one that may be entered but not read.
#[cfg(target_os = "linux")]
const SEARCH: OFlags = OFlags::PATH;
#[cfg(all(unix, not(target_os = "linux")))]
const SEARCH: OFlags = OFlags::RDONLY;

/// Why a path is not written to.
#[derive(Debug)]
struct LinkInTheWay;

impl fmt::Display for LinkInTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a symbolic link stands where a directory should be")
    }
}

impl std::error::Error for LinkInTheWay {}

/// The error of a path that leads through a symbolic link.
pub(super) fn link_in_the_way() -> io::Error {
    io::Error::new(io::ErrorKind::NotADirectory, LinkInTheWay)
}

/// Whether an operation failed because a symbolic link stands in its path.
pub(super) fn is_link_in_the_way(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<LinkInTheWay>)
}

impl Place {
    /// The directory at a path, to write into it.
    #[cfg(unix)]
    pub(super) fn written(&self, path: &Path) -> io::Result<Self> {
        let file = self.open_unlinked(path, SEARCH)?;
        Ok(Self::Confined(cap_std::fs::Dir::from_std_file(File::from(file))))
    }

    /// Opens a directory to flush it or to set its metadata.
    #[cfg(unix)]
    pub(super) fn open_directory(&self, path: &Path) -> io::Result<File> {
        self.open_unlinked(path, OFlags::RDONLY).map(File::from)
    }

    #[cfg(unix)]
    fn open_unlinked(&self, path: &Path, access: OFlags) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let alone = path.as_os_str().is_empty();
        match self {
            Self::Free(root) => {
                let root = rustix::fs::open(root, flags | if alone { access } else { SEARCH }, rustix::fs::Mode::empty())?;
                if alone { Ok(root) } else { open_below(root.as_fd(), path, access) }
            }
            Self::Confined(root) if alone && access == SEARCH => Ok(root.as_fd().try_clone_to_owned()?),
            Self::Confined(root) if alone => Ok(rustix::fs::openat(root, c".", flags | access, rustix::fs::Mode::empty())?),
            Self::Confined(root) => open_below(root.as_fd(), path, access),
        }
    }

    /// The directory at a path below, to read it.
    #[cfg(unix)]
    pub(super) fn read(&self, path: &Path) -> io::Result<Self> {
        self.open_directory(path).map(|file| Self::Confined(cap_std::fs::Dir::from_std_file(file)))
    }

    /// The directory at a path below, to read it.
    #[cfg(not(unix))]
    pub(super) fn read(&self, path: &Path) -> io::Result<Self> {
        self.below(path)
    }

    /// The directory at a path, to write into it. Nothing here can make links, so that looking first is enough.
    #[cfg(not(unix))]
    pub(super) fn written(&self, path: &Path) -> io::Result<Self> {
        let mut above: Vec<&Path> = path.ancestors().filter(|above| !above.as_os_str().is_empty()).collect();
        while let Some(above) = above.pop() {
            match self.facts(above, Symlinks::Keep) {
                Ok(facts) if facts.kind == Kind::Symlink => return Err(link_in_the_way()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                found => found.map(|_| ())?,
            }
        }
        self.below(path)
    }

    /// Makes a directory here, whose name is a single component; false if it exists.
    pub(super) fn make_directory(&self, name: &Path) -> io::Result<bool> {
        let Err(error) = self.create_one(name) else { return Ok(true) };
        match self.facts(name, Symlinks::Keep).map(|facts| facts.kind) {
            Ok(Kind::Directory) => Ok(false),
            Ok(Kind::Symlink) => Err(link_in_the_way()),
            _ => Err(error),
        }
    }
}

/// Opens a directory below another, through no symbolic link.
#[cfg(unix)]
fn open_below(root: BorrowedFd<'_>, path: &Path, access: OFlags) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | access;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        match rustix::fs::openat2(root, path, flags, rustix::fs::Mode::empty(), resolve) {
            // Kernels before 5.6 do not have the call, and some sandboxes deny it.
            Err(Errno::NOSYS | Errno::PERM) => {}
            Err(Errno::LOOP) => return Err(link_in_the_way()),
            opened => return Ok(opened?),
        }
    }
    open_by_steps(root, path, access)
}

/// Opens one directory after the other, each in the one before, so that nothing can be put between them.
#[cfg(unix)]
fn open_by_steps(root: BorrowedFd<'_>, path: &Path, access: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{AtFlags, FileType, Mode, openat, statat};
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut reached = root.try_clone_to_owned()?;
    for name in path {
        reached = match openat(&reached, name, flags | SEARCH, Mode::empty()) {
            Err(error @ (Errno::LOOP | Errno::NOTDIR)) => {
                let found = statat(&reached, name, AtFlags::SYMLINK_NOFOLLOW);
                let link = found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink);
                return Err(if link { link_in_the_way() } else { error.into() });
            }
            opened => opened?,
        };
    }
    if access == SEARCH { Ok(reached) } else { Ok(openat(&reached, c".", flags | access, Mode::empty())?) }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn directories_are_reached_step_by_step_and_through_no_link() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("a/b")).unwrap();
        std::fs::write(directory.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("a", directory.path().join("link")).unwrap();
        let root = File::open(directory.path()).unwrap();
        for open in [open_below, open_by_steps] {
            for access in [SEARCH, OFlags::RDONLY] {
                let reached = File::from(open(root.as_fd(), Path::new("a/b"), access).unwrap());
                assert!(reached.metadata().unwrap().is_dir());
                for linked in ["link", "link/b"] {
                    assert!(is_link_in_the_way(&open(root.as_fd(), Path::new(linked), access).unwrap_err()), "{linked}");
                }
                let file = open(root.as_fd(), Path::new("file/b"), access).unwrap_err();
                assert!(file.kind() == io::ErrorKind::NotADirectory && !is_link_in_the_way(&file));
                let missing = open(root.as_fd(), Path::new("a/c/b"), access).unwrap_err();
                assert_eq!(missing.kind(), io::ErrorKind::NotFound);
            }
        }
    }
}
