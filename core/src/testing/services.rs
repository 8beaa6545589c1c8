//! Stores of services as the conformance suite wants them: what a URL names is the root.

use std::fs::File;
use std::sync::Arc;

use crate::endpoint::{Endpoint, Location};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Fsync, Overwrite, TransferOptions};
use crate::path::RelativePath;
use crate::store::remote::{self, Opened, Purpose};
use crate::store::{
    Capabilities, Depth, Entry, Listing, Metadata, NewFile, Prune, Publication, Reader, RetryWatcher, Store, Writer,
};

/// Opens the service of a URL to write to. The root is there although nothing is in it, as that of a bucket is.
pub fn open(url: &str) -> Result<Box<dyn Store>> {
    let Location::Service(url) = Endpoint::from(url).resolve()? else {
        return Err(Error::new(ErrorKind::InvalidInput, format!("could not open `{url}`")).with_cause("it names no service"));
    };
    let Opened { store, base } = remote::open(&url, Purpose::Write, &TransferOptions::default())?;
    if store.capabilities().directories {
        store.create_directory(&base)?;
    }
    Ok(Box::new(Below { store, base }))
}

/// A store whose root is a directory of another one.
struct Below {
    store: Arc<dyn Store>,
    base: RelativePath,
}

impl Below {
    fn inner(&self, path: &RelativePath) -> RelativePath {
        self.base.join(path)
    }

    fn entry(base: &RelativePath, entry: Entry) -> Entry {
        Entry { path: entry.path.strip_prefix(base).unwrap_or_default(), ..entry }
    }
}

impl Store for Below {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn list(&self, path: &RelativePath, depth: Depth, prune: Prune) -> Result<Listing<'_>> {
        let base = self.base.clone();
        let below: Prune = Arc::new(move |directory| prune(&directory.strip_prefix(&base).unwrap_or_default()));
        match self.store.list(&self.inner(path), depth, below) {
            Err(error) if error.kind() == ErrorKind::NotFound && path.is_root() => Ok(Box::new(std::iter::empty())),
            listing => Ok(Box::new(listing?.map(|entry| Ok(Self::entry(&self.base, entry?))))),
        }
    }

    fn trouble(&self, entry: &RelativePath) -> Option<Error> {
        self.store.trouble(&self.inner(entry))
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        Ok(Self::entry(&self.base, self.store.stat(&self.inner(path))?))
    }

    fn open(&self, path: &RelativePath) -> Result<Box<dyn Reader>> {
        self.store.open(&self.inner(path))
    }

    fn create(&self, file: &NewFile) -> Result<Box<dyn Writer>> {
        self.store.create(&NewFile { path: self.inner(&file.path), ..file.clone() })
    }

    fn publish(&self, batch: Vec<Publication>, fsync: Fsync) -> Vec<Result<()>> {
        self.store.publish(batch, fsync)
    }

    fn create_directory(&self, path: &RelativePath) -> Result<()> {
        self.store.create_directory(&self.inner(path))
    }

    fn set_directory_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        self.store.set_directory_metadata(&self.inner(path), metadata)
    }

    fn create_symlink(&self, path: &RelativePath, target: &[u8], overwrite: Overwrite) -> Result<()> {
        self.store.create_symlink(&self.inner(path), target, overwrite)
    }

    fn remove(&self, path: &RelativePath, depth: Depth) -> Result<()> {
        self.store.remove(&self.inner(path), depth)
    }

    fn sync_directories(&self, paths: &[RelativePath]) -> Result<()> {
        self.store.sync_directories(&paths.iter().map(|path| self.inner(path)).collect::<Vec<_>>())
    }

    fn journal(&self, key: &str) -> Result<Option<File>> {
        self.store.journal(key)
    }

    fn discard(&self, key: &str) -> Result<()> {
        self.store.discard(key)
    }

    fn tidy(&self) {
        self.store.tidy();
    }

    fn interrupt(&self) {
        self.store.interrupt();
    }

    fn watch(&self, watcher: &RetryWatcher) {
        self.store.watch(watcher);
    }
}
