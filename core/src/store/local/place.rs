//! A directory in which names are resolved: freely, or confined to what lies below it.
//!
//! Every operation of the local store is one of these; that is the whole difference between a user's own path and a server's root.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
#[cfg(unix)]
use cap_std::fs::OpenOptionsExt as _;

use super::facts::{Facts, Found, Kind};
use crate::options::Symlinks;

/// A directory; all paths are relative to it, and the empty one is the directory itself.
pub(super) enum Place {
    /// Ordinary paths below a path.
    Free(PathBuf),
    /// Paths that the operating system, or `cap-std` in its stead, keeps below an open directory.
    Confined(Dir),
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// To read, not through a symbolic link at its end unless told to follow; never waits for the other end of a pipe.
    Read(Symlinks),
    /// To write what does not exist yet.
    New,
    /// To write what may exist.
    Partial,
    /// To append to what may exist.
    Append,
}

impl Place {
    /// Opens the root of a confined tree, the one step that needs the authority of the process.
    pub(super) fn confined(root: &Path) -> io::Result<Self> {
        Dir::open_ambient_dir(root, ambient_authority()).map(Self::Confined)
    }

    /// The same kind of place for a directory below this one.
    pub(super) fn below(&self, path: &Path) -> io::Result<Self> {
        match self {
            Self::Free(_) => Ok(Self::Free(self.full(path))),
            Self::Confined(dir) if path.as_os_str().is_empty() => dir.try_clone().map(Self::Confined),
            Self::Confined(dir) => dir.open_dir(path).map(Self::Confined),
        }
    }

    pub(super) fn open(&self, path: &Path, mode: Mode) -> io::Result<File> {
        match self {
            Self::Free(_) => free_options(mode).open(self.full(path)),
            Self::Confined(dir) => Ok(dir.open_with(path, &confined_options(mode))?.into_std()),
        }
    }

    /// Describes an entry; the place itself always through a link, others only if told to.
    pub(super) fn facts(&self, path: &Path, symlinks: Symlinks) -> io::Result<Facts> {
        let follow = symlinks == Symlinks::Follow || path.as_os_str().is_empty();
        match self {
            Self::Free(_) if follow => fs::metadata(self.full(path)).map(|metadata| Facts::of_std(&metadata)),
            Self::Free(_) => fs::symlink_metadata(self.full(path)).map(|metadata| Facts::of_std(&metadata)),
            Self::Confined(dir) if path.as_os_str().is_empty() => {
                dir.dir_metadata().map(|metadata| Facts::of_confined(&metadata))
            }
            Self::Confined(dir) if follow => dir.metadata(path).map(|metadata| Facts::of_confined(&metadata)),
            Self::Confined(dir) => dir.symlink_metadata(path).map(|metadata| Facts::of_confined(&metadata)),
        }
    }

    pub(super) fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        match self {
            Self::Free(_) => fs::read_link(self.full(path)),
            Self::Confined(dir) => dir.read_link_contents(path),
        }
    }

    /// Streams the entries of a directory, described without following links.
    pub(super) fn entries(&self, path: &Path) -> io::Result<Box<dyn Iterator<Item = io::Result<Found>> + Send>> {
        match self {
            Self::Free(_) => Ok(Box::new(fs::read_dir(self.full(path))?.map(|entry| {
                let entry = entry?;
                Ok(Found { name: entry.file_name(), facts: entry.metadata().map(|metadata| Facts::of_std(&metadata)) })
            }))),
            Self::Confined(dir) => {
                let names = if path.as_os_str().is_empty() { dir.entries()? } else { dir.read_dir(path)? };
                Ok(Box::new(names.map(|entry| {
                    let entry = entry?;
                    let facts = entry.metadata().map(|metadata| Facts::of_confined(&metadata));
                    Ok(Found { name: entry.file_name(), facts })
                })))
            }
        }
    }

    /// Makes the place itself and the directories above it where it is an ordinary path.
    pub(super) fn make_itself(&self) -> io::Result<()> {
        match self {
            Self::Free(root) => fs::create_dir_all(root),
            Self::Confined(_) => Ok(()),
        }
    }

    /// Makes one directory.
    pub(super) fn create_one(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Free(_) => fs::create_dir(self.full(path)),
            Self::Confined(dir) => dir.create_dir(path),
        }
    }

    /// Makes one directory that only this user can enter; one that exists is no error.
    pub(super) fn create_private(&self, path: &Path) -> io::Result<()> {
        let made = match self {
            Self::Free(_) => {
                #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix sets a mode"))]
                let mut builder = fs::DirBuilder::new();
                #[cfg(unix)]
                std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
                builder.create(self.full(path))
            }
            Self::Confined(dir) => {
                #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix sets a mode"))]
                let mut builder = cap_std::fs::DirBuilder::new();
                #[cfg(unix)]
                cap_std::fs::DirBuilderExt::mode(&mut builder, 0o700);
                dir.create_dir_with(path, &builder)
            }
        };
        made.or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
    }

    pub(super) fn remove_file(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Free(_) => fs::remove_file(self.full(path)),
            Self::Confined(dir) => dir.remove_file(path),
        }
    }

    pub(super) fn remove_directory(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Free(_) => fs::remove_dir(self.full(path)),
            Self::Confined(dir) => dir.remove_dir(path),
        }
    }

    pub(super) fn remove_tree(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Free(_) => fs::remove_dir_all(self.full(path)),
            Self::Confined(dir) => dir.remove_dir_all(path),
        }
    }

    /// Moves an entry into another place, over a file or link that stands there. `name` is a single component.
    pub(super) fn rename(&self, from: &Path, to: &Self, name: &Path) -> io::Result<()> {
        match (self, to) {
            (Self::Confined(dir), Self::Confined(target)) => dir.rename(from, target, name),
            (Self::Free(_), Self::Free(_)) => fs::rename(self.full(from), to.full(name)),
            #[cfg(unix)]
            (Self::Free(_), Self::Confined(target)) => Ok(rustix::fs::renameat(rustix::fs::CWD, self.full(from), target, name)?),
            _ => Err(io::ErrorKind::CrossesDevices.into()),
        }
    }

    /// Moves an entry into another place, over a file or link that stands there, but not over a device, pipe or socket: that fails with
    /// `IsADirectory`. `name` is a single component.
    pub(super) fn replace(&self, from: &Path, to: &Self, name: &Path) -> io::Result<()> {
        // Most names are new, and the call that finds that out has moved the file already.
        #[cfg(target_os = "linux")]
        {
            use rustix::io::Errno;
            // Whatever else is why, as a system that has no such call or forbids it: the other call tells.
            match self.rename_without_replacing(from, to, name) {
                Err(Errno::XDEV) => return Err(Errno::XDEV.into()),
                Err(_) => {}
                Ok(()) => return Ok(()),
            }
        }
        match to.facts(name, Symlinks::Keep) {
            Ok(facts) if facts.kind == Kind::Other => {
                Err(io::Error::new(io::ErrorKind::IsADirectory, "a device, pipe or socket stands there"))
            }
            _ => self.rename(from, to, name),
        }
    }

    /// Moves a file into another place; fails with `AlreadyExists` if anything stands there. `name` is a single component.
    pub(super) fn rename_new(&self, from: &Path, to: &Self, name: &Path) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::io::Errno;
            match self.rename_without_replacing(from, to, name) {
                // File systems without the flag answer `EINVAL`, kernels without it `ENOSYS`.
                Err(Errno::INVAL | Errno::NOSYS) => {}
                other => return other.map_err(io::Error::from),
            }
        }
        match (self, to) {
            (Self::Confined(dir), Self::Confined(target)) => dir.hard_link(from, target, name)?,
            (Self::Free(_), Self::Free(_)) => fs::hard_link(self.full(from), to.full(name))?,
            #[cfg(unix)]
            (Self::Free(_), Self::Confined(target)) => {
                rustix::fs::linkat(rustix::fs::CWD, self.full(from), target, name, rustix::fs::AtFlags::empty())?;
            }
            _ => return Err(io::ErrorKind::CrossesDevices.into()),
        }
        self.remove_file(from)
    }

    #[cfg(target_os = "linux")]
    fn rename_without_replacing(&self, from: &Path, to: &Self, name: &Path) -> rustix::io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match (self, to) {
            (Self::Confined(dir), Self::Confined(target)) => renameat_with(dir, from, target, name, RenameFlags::NOREPLACE),
            (_, Self::Confined(target)) => renameat_with(CWD, self.full(from), target, name, RenameFlags::NOREPLACE),
            _ => renameat_with(CWD, self.full(from), CWD, to.full(name), RenameFlags::NOREPLACE),
        }
    }

    /// Makes a symbolic link with any text as its target.
    #[cfg(unix)]
    pub(super) fn symlink(&self, target: &Path, path: &Path) -> io::Result<()> {
        match self {
            Self::Free(_) => std::os::unix::fs::symlink(target, self.full(path)),
            Self::Confined(dir) => dir.symlink_contents(target, path),
        }
    }

    fn full(&self, path: &Path) -> PathBuf {
        match self {
            Self::Free(root) if path.as_os_str().is_empty() => root.clone(),
            Self::Free(root) => root.join(path),
            Self::Confined(_) => path.to_owned(),
        }
    }
}

#[cfg(unix)]
fn flags(flags: rustix::fs::OFlags) -> i32 {
    i32::try_from(flags.bits()).unwrap_or(0)
}

#[cfg(unix)]
pub(super) fn read_flags(symlinks: Symlinks) -> i32 {
    use rustix::fs::OFlags;
    flags(if symlinks == Symlinks::Follow { OFlags::NONBLOCK } else { OFlags::NONBLOCK | OFlags::NOFOLLOW })
}

fn free_options(mode: Mode) -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    match mode {
        Mode::Read(_) => options.read(true),
        Mode::New => options.read(true).write(true).create_new(true),
        Mode::Partial => options.read(true).write(true).create(true).truncate(false),
        Mode::Append => options.read(true).append(true).create(true),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
        if let Mode::Read(symlinks) = mode {
            options.custom_flags(read_flags(symlinks));
        }
    }
    options
}

fn confined_options(mode: Mode) -> cap_std::fs::OpenOptions {
    let mut options = cap_std::fs::OpenOptions::new();
    match mode {
        Mode::Read(_) => options.read(true),
        Mode::New => options.read(true).write(true).create_new(true),
        Mode::Partial => options.read(true).write(true).create(true).truncate(false),
        Mode::Append => options.read(true).append(true).create(true),
    };
    #[cfg(unix)]
    {
        options.mode(0o600);
        if let Mode::Read(symlinks) = mode {
            options.custom_flags(read_flags(symlinks));
        }
    }
    options
}
