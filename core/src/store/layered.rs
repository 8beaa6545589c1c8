//! A store around another one: every call goes through, and a layer does something before or after some of them.

use std::any::Any;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::options::{Fsync, Overwrite};
use crate::path::RelativePath;
use crate::store::{
    Capabilities, Depth, Entry, Listing, Metadata, NewFile, Prune, Publication, Reader, RetryWatcher, Store, Writer,
};

/// What is done around the calls of a store. Each reader and writer has a clone, which is the same layer.
pub trait Layer: Clone + Send + Sync + 'static {
    /// Before a file is opened to be read; an error is the answer instead.
    fn before_open(&self, path: &RelativePath) -> Result<()>;

    /// Before a file is begun; an error is the answer instead.
    fn before_create(&self, path: &RelativePath) -> Result<()>;

    /// Before time and mode of a directory are set; an error is the answer instead.
    fn before_set_metadata(&self, path: &RelativePath) -> Result<()>;

    /// After bytes were read, which it may change; an error is the answer instead.
    fn after_read(&self, read: &mut [u8]) -> Result<()>;

    /// Before bytes are written; an error is the answer instead.
    fn before_write(&self) -> Result<()>;

    /// After so many bytes were written.
    fn after_write(&self, bytes: usize);
}

/// A store with a layer around it.
pub struct Layered<L> {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) layer: L,
}

impl<L: Layer> Store for Layered<L> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn list(&self, path: &RelativePath, depth: Depth, prune: Prune) -> Result<Listing<'_>> {
        self.inner.list(path, depth, prune)
    }

    fn trouble(&self, entry: &RelativePath) -> Option<Error> {
        self.inner.trouble(entry)
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        self.inner.stat(path)
    }

    fn open(&self, path: &RelativePath) -> Result<Box<dyn Reader>> {
        self.layer.before_open(path)?;
        Ok(Box::new(LayeredReader { inner: self.inner.open(path)?, layer: self.layer.clone() }))
    }

    fn create(&self, file: &NewFile) -> Result<Box<dyn Writer>> {
        self.layer.before_create(&file.path)?;
        Ok(Box::new(LayeredWriter { inner: self.inner.create(file)?, layer: self.layer.clone() }))
    }

    fn publish(&self, batch: Vec<Publication>, fsync: Fsync) -> Vec<Result<()>> {
        self.inner.publish(batch, fsync)
    }

    fn create_directory(&self, path: &RelativePath) -> Result<()> {
        self.inner.create_directory(path)
    }

    fn set_directory_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        self.layer.before_set_metadata(path)?;
        self.inner.set_directory_metadata(path, metadata)
    }

    fn create_symlink(&self, path: &RelativePath, target: &[u8], overwrite: Overwrite) -> Result<()> {
        self.inner.create_symlink(path, target, overwrite)
    }

    fn remove(&self, path: &RelativePath, depth: Depth) -> Result<()> {
        self.inner.remove(path, depth)
    }

    fn sync_directories(&self, paths: &[RelativePath]) -> Result<()> {
        self.inner.sync_directories(paths)
    }

    fn journal(&self, key: &str) -> Result<Option<File>> {
        self.inner.journal(key)
    }

    fn discard(&self, key: &str) -> Result<()> {
        self.inner.discard(key)
    }

    fn tidy(&self) {
        self.inner.tidy();
    }

    fn interrupt(&self) {
        self.inner.interrupt();
    }

    fn watch(&self, watcher: &RetryWatcher) {
        self.inner.watch(watcher);
    }
}

struct LayeredReader<L> {
    inner: Box<dyn Reader>,
    layer: L,
}

impl<L: Layer> Reader for LayeredReader<L> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let count = self.inner.read_at(offset, buffer)?;
        self.layer.after_read(&mut buffer[..count])?;
        Ok(count)
    }

    fn stat(&self) -> Result<Entry> {
        self.inner.stat()
    }

    fn hole(&self, offset: u64) -> Option<u64> {
        self.inner.hole(offset)
    }

    fn crc64nvme(&self) -> Result<Option<u64>> {
        self.inner.crc64nvme()
    }

    fn expect(&self, range: Range<u64>) {
        self.inner.expect(range);
    }
}

struct LayeredWriter<L> {
    inner: Box<dyn Writer>,
    layer: L,
}

impl<L: Layer> Writer for LayeredWriter<L> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.layer.before_write()?;
        self.inner.write_at(offset, bytes)?;
        self.layer.after_write(bytes.len());
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn kept(&self) -> Vec<Range<u64>> {
        self.inner.kept()
    }

    fn abort(self: Box<Self>) {
        self.inner.abort();
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        // The inner store publishes, and looks for its own type.
        self.inner.into_any()
    }
}
