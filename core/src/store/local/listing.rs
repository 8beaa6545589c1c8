//! Listing: depth first, with one open directory for each level, so that memory grows with depth and not with files.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::LocalStore;
use super::facts::{Facts, Found, Kind};
use super::seen::is_reserved;
use super::staging;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Symlinks;
use crate::path::{RelativePath, name_bytes};
use crate::store::{Depth, Entry, EntryKind, Prune};

/// Where the system does not tell directories apart, this many links on one path are taken for a loop, as Linux does.
const MAX_FOLLOWED: usize = 40;

/// A listing under way.
pub(super) struct Walk<'a> {
    store: &'a LocalStore,
    levels: Vec<Level>,
    depth: Depth,
    prune: Prune,
    /// Why the content of the directory just yielded cannot be read.
    failed: Option<Error>,
}

struct Level {
    names: Box<dyn Iterator<Item = io::Result<Found>> + Send>,
    path: RelativePath,
    identity: Option<(u64, u64)>,
    followed: bool,
    /// Whether it is the root of the store, by whatever name.
    is_root: bool,
}

impl<'a> Walk<'a> {
    /// Begins below a directory.
    pub(super) fn new(store: &'a LocalStore, path: &RelativePath, facts: &Facts, depth: Depth, prune: Prune) -> Result<Self> {
        let mut walk = Self { store, levels: Vec::new(), depth, prune, failed: None };
        walk.descend(path, facts, false)?;
        Ok(walk)
    }

    fn descend(&mut self, path: &RelativePath, facts: &Facts, followed: bool) -> Result<()> {
        if followed && self.is_loop(facts) {
            return Err(Error::new(ErrorKind::WrongType, format!("could not follow the link `{}`", self.store.show(path)))
                .with_cause("it leads back to a directory above it")
                .with_hint("keep or skip symbolic links, or exclude this one"));
        }
        let local = self.store.checked(path)?;
        let seen = self.store.root.seen(&local, self.store.symlinks);
        let (is_root, names) =
            seen.and_then(|seen| Ok((seen.is_root, seen.entries()?))).map_err(|error| self.store.failed("list", path, &error))?;
        self.levels.push(Level { names, path: path.clone(), identity: facts.identity, followed, is_root });
        Ok(())
    }

    fn is_loop(&self, facts: &Facts) -> bool {
        match facts.identity {
            Some(_) => self.levels.iter().any(|level| level.identity == facts.identity),
            None => self.levels.iter().filter(|level| level.followed).count() >= MAX_FOLLOWED,
        }
    }

    /// Turns what a directory holds into an entry; `None` leaves it out.
    fn take(&mut self, path: &RelativePath, found: io::Result<Facts>) -> Result<Option<Entry>> {
        let describe = |error: &io::Error| self.store.failed("read the metadata of", path, error);
        let mut facts = found.map_err(|error| describe(&error))?;
        let link = facts.kind == Kind::Symlink;
        if link && self.store.symlinks == Symlinks::Skip {
            return Ok(None);
        }
        if link && self.store.symlinks == Symlinks::Follow {
            let local = self.store.checked(path)?;
            facts = match self.store.root.seen(&local, Symlinks::Follow).and_then(|seen| seen.facts()) {
                Err(error) if is_reserved(&error) => return Ok(None),
                facts => facts.map_err(|error| {
                    self.store
                        .failed("follow the link", path, &error)
                        .with_hint("keep or skip symbolic links, or exclude this one")
                })?,
            };
        }
        if facts.kind == Kind::Directory && (self.prune)(path) {
            return Ok(None);
        }
        path.check_length()?;
        if facts.kind == Kind::Directory && self.depth == Depth::Tree {
            self.failed = self.descend(path, &facts, link).err().map(|error| error.about(path));
        }
        self.store.entry(path, &facts).map(Some)
    }

    fn child(&self, name: &OsStr) -> Result<Option<RelativePath>> {
        let Some(level) = self.levels.last() else { return Ok(None) };
        let Some(bytes) = name_bytes(name) else {
            let place = level.path.join(&RelativePath::root());
            return Err(Error::new(ErrorKind::InvalidInput, format!("could not use a name in `{}`", self.store.show(&place)))
                .with_cause(format!("`{}` is not valid text", Path::new(name).display())));
        };
        if level.is_root && staging::is_staging(bytes) {
            return Ok(None);
        }
        level.path.child(bytes).map(Some)
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        loop {
            let level = self.levels.last_mut()?;
            let found = match level.names.next() {
                Some(Ok(found)) => found,
                Some(Err(error)) => {
                    let path = self.levels.pop()?.path;
                    return Some(Err(self.store.failed("list all of", &path, &error).about(&path)));
                }
                None => {
                    self.levels.pop();
                    continue;
                }
            };
            let taken = self.child(&found.name).and_then(|path| match path {
                Some(path) => self.take(&path, found.facts).map_err(|error| error.about(&path)),
                None => Ok(None),
            });
            if let Some(item) = taken.transpose() {
                return Some(item);
            }
        }
    }
}

impl LocalStore {
    /// Describes an entry as the store's users see it.
    pub(super) fn entry(&self, path: &RelativePath, facts: &Facts) -> Result<Entry> {
        let kind = match facts.kind {
            Kind::File => EntryKind::File,
            Kind::Directory => EntryKind::Directory,
            Kind::Other => EntryKind::Other,
            Kind::Symlink => {
                let local = self.checked(path)?;
                let target = self.root.seen(&local, Symlinks::Keep).and_then(|seen| seen.read_link());
                let target = target.map_err(|error| self.failed("read the link", path, &error))?;
                let bytes = name_bytes(target.as_os_str()).unwrap_or_default();
                EntryKind::Symlink(bytes.into())
            }
        };
        Ok(entry_of(path.clone(), kind, facts))
    }
}

/// Puts facts into the form that stores share.
pub(super) fn entry_of(path: RelativePath, kind: EntryKind, facts: &Facts) -> Entry {
    let Facts { size, modified_ns, mode, version, sparse, .. } = *facts;
    Entry { path, kind, size, modified_ns, mode, version, sparse }
}
