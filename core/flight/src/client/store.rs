//! The store of files of edt's own service.

use std::fs::File;
use std::sync::Arc;

use edt::options::{Fsync, Overwrite};
use edt::path::RelativePath;
use edt::store::remote::{RangeReader, State, in_parallel};
use edt::store::{
    Capabilities, Depth, Entry, EntryKind, Listing, Metadata, NewFile, Prune, Publication, Reader, RetryWatcher, Store, Times,
    Writer,
};
use edt::{Error, ErrorKind, Result};
use serde_json::Value;

use super::files::{Recent, Walk, described};
use super::host::Host;
use super::publish::publish;
use super::read::FileRanges;
use super::writer::{FlightWriter, Note, give_up};
use crate::contract::{self, ListBody, MkdirBody, action};

/// A store over one service, rooted at its root.
pub(super) struct FlightStore {
    host: Arc<Host>,
    recent: Recent,
    /// Where journals lie; the user's own place if `None`.
    notes: Option<State>,
}

impl FlightStore {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self { host, recent: Recent::default(), notes: None }
    }

    /// The same, with journals in a given place.
    #[cfg(test)]
    pub(super) fn with_notes(host: Arc<Host>, notes: State) -> Self {
        Self { notes: Some(notes), ..Self::new(host) }
    }

    fn notes(&self) -> Result<State> {
        self.notes.clone().map_or_else(State::open, Ok)
    }

    fn what(&self, operation: &str, path: &RelativePath) -> String {
        format!("could not {operation} `{path}` at `{}`", self.host.name())
    }

    fn make(&self, path: &RelativePath, metadata: &Metadata, operation: &str) -> Result<()> {
        let body = MkdirBody { path: contract::text(path)?, modified_ns: metadata.modified_ns, mode: metadata.mode };
        let what = || self.what(operation, path);
        self.host.patience.run(|| self.host.act::<Value>(action::MKDIR, &body, &what)).map(drop)
    }
}

impl Store for FlightStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resumable: true,
            symlinks: false,
            random_writes: true,
            reads_back: false,
            holes: false,
            flushes: false,
            directories: true,
            times: Times::Exact,
            connections: None,
        }
    }

    fn list(&self, path: &RelativePath, depth: Depth, prune: Prune) -> Result<Listing<'_>> {
        Ok(Box::new(Walk::new(&self.host, &self.recent, path, (depth, prune))?))
    }

    fn trouble(&self, _: &RelativePath) -> Option<Error> {
        None
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        let known = self.host.patience.run(|| described(&self.host, path))?;
        self.recent.add(&known);
        Ok(known.entry)
    }

    /// Asks nothing for a file that was listed or described a moment ago.
    fn open(&self, path: &RelativePath) -> Result<Box<dyn Reader>> {
        let known = match self.recent.take(path) {
            Some(known) => known,
            None => self.host.patience.run(|| described(&self.host, path))?,
        };
        if known.entry.kind != EntryKind::File {
            return Err(Error::new(ErrorKind::WrongType, self.what("open", path)).with_cause("it is not a regular file"));
        }
        let ranges = FileRanges::new(&self.host, &known)?;
        Ok(Box::new(RangeReader::new(Box::new(ranges), known.entry, self.host.patience.clone())))
    }

    /// Asks nothing: an upload begins with the first bytes that do not wait in memory.
    fn create(&self, file: &NewFile) -> Result<Box<dyn Writer>> {
        Ok(Box::new(FlightWriter::new(&self.host, file, self.notes())?))
    }

    fn publish(&self, batch: Vec<Publication>, _: Fsync) -> Vec<Result<()>> {
        in_parallel(batch, publish)
    }

    fn create_directory(&self, path: &RelativePath) -> Result<()> {
        self.make(path, &Metadata::default(), "make the directory")
    }

    fn set_directory_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        let entry = self.host.patience.run(|| described(&self.host, path))?.entry;
        if entry.kind != EntryKind::Directory {
            return Err(
                Error::new(ErrorKind::WrongType, self.what("set time and mode of", path)).with_cause("it is no directory")
            );
        }
        self.make(path, metadata, "set time and mode of")
    }

    fn create_symlink(&self, path: &RelativePath, _: &[u8], _: Overwrite) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, self.what("create the link", path))
            .with_cause("Arrow Flight carries files and tables, no symbolic links")
            .with_hint("use the native port (edt://), or --symlinks follow or skip"))
    }

    fn remove(&self, path: &RelativePath, depth: Depth) -> Result<()> {
        let body = ListBody { path: contract::text(path)?, tree: depth == Depth::Tree };
        let what = || self.what("remove", path);
        self.recent.take(path);
        self.host.patience.run(|| self.host.act::<Value>(action::REMOVE, &body, &what)).map(drop)
    }

    /// The service flushes what it publishes.
    fn sync_directories(&self, _: &[RelativePath]) -> Result<()> {
        Ok(())
    }

    /// The journal lies on this machine.
    fn journal(&self, key: &str) -> Result<Option<File>> {
        self.notes()?.journal(key).map(Some)
    }

    fn discard(&self, key: &str) -> Result<()> {
        let notes = self.notes()?;
        for (number, note) in notes.notes::<Note>(key)? {
            give_up(&self.host, &note.upload);
            notes.forget(key, number)?;
        }
        notes.discard(key)
    }

    fn interrupt(&self) {
        self.host.interrupt();
    }

    fn watch(&self, watcher: &RetryWatcher) {
        self.host.patience.watch(watcher);
    }
}
