//! The directory that is served, as the calls see it.

use std::sync::Arc;

use edt::auth::secret::Secret;
use edt::options::{Access, Fsync, Symlinks};
use edt::path::RelativePath;
use edt::store::local::LocalStore;
use edt::store::throttled::{Rates, ThrottledStore};
use edt::store::{Depth, Entry, EntryKind, Prune, Publication, Reader, Store};
use edt::{Error, ErrorKind, Result, ServeOptions};

use super::bytes::Buffers;
use super::uploads::Uploads;
use crate::contract::version;

/// What all calls share.
pub(super) struct Root {
    /// The files by their names: links are links.
    pub(super) local: Arc<LocalStore>,
    /// Where files are written.
    pub(super) written: Arc<dyn Store>,
    /// Where files are read: links are followed, below the root alone.
    pub(super) read: Arc<dyn Store>,
    pub(super) uploads: Uploads,
    pub(super) buffers: Arc<Buffers>,
    pub(super) secret: Secret,
    access: Access,
}

/// A file that was opened to read, and what it was then.
pub(super) struct Opened {
    pub(super) reader: Arc<dyn Reader>,
    pub(super) entry: Entry,
    pub(super) version: String,
}

impl Root {
    pub(super) fn open(options: &ServeOptions, secret: &Secret) -> Result<Self> {
        let local = Arc::new(LocalStore::confined(&options.root, Symlinks::Keep)?);
        let read: Arc<dyn Store> = Arc::new(LocalStore::confined(&options.root, Symlinks::Follow)?);
        let throttled = |store: Arc<dyn Store>| match options.worker_rate {
            Some(rate) => Arc::new(ThrottledStore::new(store, Rates::both(rate))) as Arc<dyn Store>,
            None => store,
        };
        let written = throttled(Arc::clone(&local) as Arc<dyn Store>);
        Ok(Self {
            written,
            read: throttled(read),
            local,
            uploads: Uploads::default(),
            buffers: Arc::default(),
            secret: secret.clone(),
            access: options.access,
        })
    }

    /// An error if clients may not change anything.
    pub(super) fn writable(&self) -> Result<()> {
        if self.access == Access::ReadWrite {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Refused, "could not change anything")
            .with_cause("the server is read-only")
            .with_hint("ask its operator to start it without --read-only"))
    }

    /// Opens a file to read; it must still have `wanted`, if a version is named.
    pub(super) fn open_file(&self, path: &RelativePath, wanted: Option<&str>) -> Result<Opened> {
        open_in(self.read.as_ref(), path, wanted)
    }

    /// Gives a file its name, for good: it is there after a power cut too.
    pub(super) fn publish(&self, publication: Publication) -> Result<()> {
        self.written.publish(vec![publication], Fsync::Full).into_iter().collect()
    }

    /// The files directly in a directory, in order of their names.
    pub(super) fn files_in(&self, path: &RelativePath) -> Result<Vec<Entry>> {
        let mut files = Vec::new();
        for entry in self.read.list(path, Depth::One, nothing())? {
            let entry = entry?;
            if entry.path != *path {
                files.push(entry);
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// Takes the path that a client wants listed: with a slash at its end it means a directory, or a link to one, and nothing else.
    pub(super) fn listed(&self, text: &str) -> Result<RelativePath> {
        let path = path(text)?;
        if text.ends_with('/') && !self.is_directory(&path)? {
            return Err(Error::new(ErrorKind::WrongType, format!("could not list `{text}`"))
                .with_cause("it is no directory")
                .with_hint("leave out the slash at the end"));
        }
        Ok(path)
    }

    /// Whether a path is a directory, or a link to one.
    pub(super) fn is_directory(&self, path: &RelativePath) -> Result<bool> {
        Ok(self.read.stat(path)?.kind == EntryKind::Directory)
    }
}

/// Opens a file of a store; it must still have `wanted`, if a version is named.
pub(super) fn open_in(store: &dyn Store, path: &RelativePath, wanted: Option<&str>) -> Result<Opened> {
    let reader: Arc<dyn Reader> = Arc::from(store.open(path)?);
    let entry = reader.stat()?;
    let version = version(&entry);
    if wanted.is_some_and(|wanted| wanted != version) {
        return Err(changed(path));
    }
    Ok(Opened { reader, entry, version })
}

/// What is below a directory, each directory before its content, in order of names; a listing of the store itself would borrow it for as
/// long as a client reads.
pub(super) struct Walk {
    root: Arc<Root>,
    depth: Depth,
    /// What the names of all that is wanted begin with.
    prefix: Vec<u8>,
    directories: Vec<RelativePath>,
    listed: std::vec::IntoIter<Result<Entry>>,
}

impl Walk {
    /// Begins at a directory, or at a file, which yields itself; directories in which no name can begin with `prefix` are not entered.
    pub(super) fn new(root: Arc<Root>, path: &RelativePath, depth: Depth, prefix: &[u8]) -> Result<Self> {
        let listed = level(&root, path)?;
        let mut walk = Self { root, depth, prefix: prefix.to_vec(), directories: Vec::new(), listed: Vec::new().into_iter() };
        walk.take_up(listed);
        Ok(walk)
    }

    fn take_up(&mut self, listed: Vec<Result<Entry>>) {
        if self.depth == Depth::Tree {
            let directories = listed.iter().flatten().filter(|entry| entry.kind == EntryKind::Directory);
            let below: Vec<_> = directories.map(|entry| entry.path.clone()).filter(|path| self.may_hold(path)).collect();
            self.directories.extend(below.into_iter().rev());
        }
        self.listed = listed.into_iter();
    }
}

impl Walk {
    fn may_hold(&self, directory: &RelativePath) -> bool {
        let name = directory.as_bytes();
        name.starts_with(&self.prefix) || (self.prefix.starts_with(name) && self.prefix.get(name.len()) == Some(&b'/'))
    }
}

impl Iterator for Walk {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        loop {
            if let Some(entry) = self.listed.next() {
                return Some(entry);
            }
            let directory = self.directories.pop()?;
            let listed = level(&self.root, &directory).unwrap_or_else(|error| vec![Err(error)]);
            self.take_up(listed);
        }
    }
}

/// The entries directly in a directory.
fn level(root: &Root, path: &RelativePath) -> Result<Vec<Result<Entry>>> {
    let mut listed: Vec<_> = root.local.list(path, Depth::One, nothing())?.collect();
    let name = |entry: &Result<Entry>| entry.as_ref().map(|entry| entry.path.clone()).ok();
    listed.sort_by_cached_key(name);
    Ok(listed)
}

/// Takes the path that a client names; what it may not contain is refused.
pub(super) fn path(text: &str) -> Result<RelativePath> {
    RelativePath::from_user(text)
}

/// Leaves nothing out of a listing.
fn nothing() -> Prune {
    Arc::new(|_: &RelativePath| false)
}

/// What is said of a file that is not any more what it was.
pub(super) fn changed(path: &RelativePath) -> Error {
    Error::new(ErrorKind::SourceChanged, format!("could not read `{path}`"))
        .with_cause("the file changed")
        .with_hint("ask for its flight info again, and read it from the beginning")
}
