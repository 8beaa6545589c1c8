//! Paths that are read: below a confined root links are followed, except into the staging directory.
//!
//! Clients make links, and may put others in their place at any time. So a path that leads through links is turned into one without, and
//! what is read is reached by that one through no link: it is what was checked.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::LocalStore;
use super::facts::{Facts, Found, Kind};
#[cfg(target_os = "linux")]
use super::place::read_flags;
use super::place::{Mode, Place};
use super::staging;
use super::written::is_link_in_the_way;
use crate::error::Result;
use crate::options::Symlinks;
use crate::path::{RelativePath, name_bytes};
use crate::store::{EntryKind, Store as _};

/// Why a path that exists is not read.
#[derive(Debug)]
struct Reserved;

impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it leads into `.edt` at the root, which is reserved for partial files")
    }
}

impl std::error::Error for Reserved {}

/// Whether a path was refused because it leads into the staging directory.
pub(super) fn is_reserved(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Reserved>)
}

/// An entry to be read.
pub(super) struct Seen<'a> {
    reached: Reached<'a>,
    name: Cow<'a, Path>,
    /// What becomes of a link that has the name.
    symlinks: Symlinks,
    /// Whether it is the root of the store.
    pub(super) is_root: bool,
}

/// Where the name of an entry stands.
enum Reached<'a> {
    Root(&'a Place),
    Below(Place),
}

impl Place {
    /// Finds what a path leads to, with a link at its end followed if told to.
    pub(super) fn seen<'a>(&'a self, path: &'a Path, symlinks: Symlinks) -> io::Result<Seen<'a>> {
        let is_root = path.as_os_str().is_empty();
        if is_root || matches!(self, Self::Free(_)) {
            return Ok(Seen { reached: Reached::Root(self), name: Cow::Borrowed(path), symlinks, is_root });
        }
        let seen = match self.unlinked(Cow::Borrowed(path)) {
            Err(error) if is_link_in_the_way(&error) => {
                let (parent, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
                self.unlinked(Cow::Owned(self.resolve(parent)?.join(name)))?
            }
            seen => seen?,
        };
        if symlinks == Symlinks::Follow && seen.facts()?.kind == Kind::Symlink {
            return self.unlinked(Cow::Owned(self.resolve(path)?));
        }
        Ok(seen)
    }

    /// Opens a file to read that a path leads to, with a link at its end followed if told to.
    pub(super) fn open_seen(&self, path: &Path, symlinks: Symlinks) -> io::Result<File> {
        #[cfg(target_os = "linux")]
        if let Some(file) = self.open_at_once(path) {
            return Ok(file);
        }
        self.seen(path, symlinks)?.open()
    }

    /// Opens a file by one call that goes through no link; `None` where that is not possible, for whatever reason.
    #[cfg(target_os = "linux")]
    fn open_at_once(&self, path: &Path) -> Option<File> {
        use rustix::fs::{Mode, OFlags, ResolveFlags};
        let Self::Confined(root) = self else { return None };
        if path.as_os_str().is_empty() || staging::leads_into(path) {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::from_bits_retain(read_flags(Symlinks::Keep).cast_unsigned());
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        rustix::fs::openat2(root, path, flags, Mode::empty(), resolve).ok().map(File::from)
    }

    /// The entry of a path that leads through no link.
    fn unlinked<'a>(&'a self, path: Cow<'a, Path>) -> io::Result<Seen<'a>> {
        if staging::leads_into(&path) {
            return Err(io::Error::new(io::ErrorKind::NotFound, Reserved));
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Seen { reached: Reached::Root(self), name: path, symlinks: Symlinks::Keep, is_root: true });
        };
        let reached = Reached::Below(self.written(parent)?);
        Ok(Seen { reached, name: Cow::Owned(name.into()), symlinks: Symlinks::Keep, is_root: false })
    }

    /// The path without links of what a path leads to.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        match self {
            Self::Free(_) => Ok(path.to_owned()),
            Self::Confined(root) => {
                root.canonicalize(path).map(|path| if path == Path::new(".") { PathBuf::new() } else { path })
            }
        }
    }
}

impl LocalStore {
    /// The path, through no link, of what a path leads to below a confined root.
    pub fn followed(&self, path: &RelativePath) -> Result<RelativePath> {
        let local = self.checked(path)?;
        let resolved = self.root.resolve(&local).map_err(|error| self.failed("follow", path, &error))?;
        if staging::leads_into(&resolved) {
            return Err(self.failed("follow", path, &io::Error::new(io::ErrorKind::NotFound, Reserved)));
        }
        let mut names = resolved.components().map(|part| name_bytes(part.as_os_str()).unwrap_or_default());
        names.try_fold(RelativePath::root(), |above, name| above.child(name))
    }

    /// A path with the links to directories below a confined root entered that it leads through. Any other link, one that leads out among
    /// them, and what is missing keep their names.
    pub fn entered(&self, path: &RelativePath) -> RelativePath {
        let enter = |above: &RelativePath| {
            let followed = self.followed(above).ok()?;
            let directory = self.stat(&followed).is_ok_and(|entry| entry.kind == EntryKind::Directory);
            directory.then(|| followed.join(&path.strip_prefix(above).unwrap_or_default()))
        };
        std::iter::successors(Some(path.clone()), RelativePath::parent)
            .find_map(|above| enter(&above))
            .unwrap_or_else(|| path.clone())
    }
}

impl Seen<'_> {
    pub(super) fn facts(&self) -> io::Result<Facts> {
        self.place().facts(&self.name, self.symlinks)
    }

    /// Opens a file to read.
    pub(super) fn open(&self) -> io::Result<File> {
        self.place().open(&self.name, Mode::Read(self.symlinks))
    }

    pub(super) fn read_link(&self) -> io::Result<PathBuf> {
        self.place().read_link(&self.name)
    }

    /// Streams the entries of a directory, described without following links.
    pub(super) fn entries(&self) -> io::Result<Box<dyn Iterator<Item = io::Result<Found>> + Send>> {
        match &self.reached {
            Reached::Root(place) => place.entries(&self.name),
            Reached::Below(place) => place.read(&self.name)?.entries(Path::new("")),
        }
    }

    fn place(&self) -> &Place {
        match &self.reached {
            Reached::Root(place) => place,
            Reached::Below(place) => place,
        }
    }
}
