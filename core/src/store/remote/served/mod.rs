//! A file server as a store: what every protocol with directories and files needs around its own calls.

mod abandoned;
mod directories;
mod host;
mod listing;
mod order;
mod parallel;
mod publish;
mod recent;
mod remove;
mod staging;
mod target;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::sync::Arc;

use self::host::Host;
use self::listing::{Hidden, Walk};
use self::writer::ServedWriter;
use super::ranges::RangeReader;
use super::state::State;
use super::{Abandoned, Opened, Purpose, Served};
use crate::endpoint::ServiceUrl;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::options::{Fsync, Overwrite};
use crate::path::RelativePath;
use crate::store::{
    Capabilities, Depth, Entry, EntryKind, Listing, Metadata, NewFile, Prune, Publication, Reader, RetryWatcher, Store, Times,
    Writer,
};

pub use self::parallel::in_parallel;
pub(super) use self::publish::rename;
pub(super) use self::staging::{copy_name, own_directory};

/// A store on a file server, rooted where the protocol's own paths begin.
struct ServedStore {
    host: Arc<Host>,
    state: Option<State>,
}

/// Makes a store of a service; to write, asks at once whether that is possible.
pub(super) fn open(service: impl Served, url: &ServiceUrl, purpose: Purpose) -> Result<Opened> {
    let base = RelativePath::from_user(&url.path)?;
    let store = ServedStore::new(service, base.clone(), url.directory, None);
    if purpose == Purpose::Write {
        store.host.check_writable()?;
    }
    Ok(Opened { store: Arc::new(store), base })
}

/// The partial files that interrupted transfers left below a URL and beside it.
pub(super) fn abandoned(service: impl Served, url: &ServiceUrl) -> Result<Box<dyn Abandoned>> {
    let base = RelativePath::from_user(&url.path)?;
    let host = Arc::new(Host::new(service, base, url.directory));
    Ok(Box::new(abandoned::PartialFiles::new(host)))
}

impl ServedStore {
    /// `directory` says that the URL's path is meant as one; `state` is where journals are kept, the user's own place if `None`.
    fn new(service: impl Served, base: RelativePath, directory: bool, state: Option<State>) -> Self {
        Self { host: Arc::new(Host::new(service, base, directory)), state }
    }

    fn state(&self) -> Result<State> {
        self.state.clone().map_or_else(State::open, Ok)
    }
}

impl Drop for ServedStore {
    fn drop(&mut self) {
        self.host.leave_place();
    }
}

impl Store for ServedStore {
    fn capabilities(&self) -> Capabilities {
        let abilities = self.host.service.abilities();
        Capabilities {
            resumable: abilities.writes && (abilities.appends || abilities.random_writes),
            symlinks: abilities.symlinks,
            random_writes: abilities.random_writes,
            reads_back: abilities.reads_back,
            holes: false,
            flushes: false,
            directories: true,
            times: abilities.times,
            connections: abilities.connections,
        }
    }

    fn list(&self, path: &RelativePath, depth: Depth, prune: Prune) -> Result<Listing<'_>> {
        self.host.check_name(path)?;
        if !path.is_root() {
            let entry = self.host.run(|service| service.stat(path))?;
            let listed = match entry.kind {
                EntryKind::Directory => true,
                EntryKind::Symlink(_) => self.host.leads_to_a_directory(path),
                EntryKind::File | EntryKind::Other => false,
            };
            if !listed {
                self.host.recent.add(&entry);
                return Ok(Box::new(std::iter::once(Ok(entry))));
            }
        }
        Ok(Box::new(Walk::new(&self.host, path, (depth, prune), Hidden::LeftOut)?))
    }

    fn trouble(&self, entry: &RelativePath) -> Option<Error> {
        self.host.service.trouble(entry)
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        self.host.stat(path)
    }

    /// Asks nothing for a file that was listed a moment ago.
    fn open(&self, path: &RelativePath) -> Result<Box<dyn Reader>> {
        self.host.check_name(path)?;
        let entry = match self.host.recent.take(path) {
            Some(entry) => entry,
            None => self.host.run(|service| service.stat(path))?,
        };
        if entry.kind != EntryKind::File {
            return Err(self.host.failed("open", path, ErrorKind::WrongType, "it is not a regular file"));
        }
        let ranges = self.host.run(|service| service.read(path, &entry))?;
        Ok(Box::new(RangeReader::new(ranges, entry, self.host.patience.clone())))
    }

    /// Asks nothing: the partial file is opened by the first call that needs it.
    fn create(&self, file: &NewFile) -> Result<Box<dyn Writer>> {
        self.host.check_new_name(&file.path)?;
        Ok(Box::new(ServedWriter::new(&self.host, file)))
    }

    fn publish(&self, batch: Vec<Publication>, _: Fsync) -> Vec<Result<()>> {
        in_parallel(batch, |publication| publish::publish(&self.host, publication))
    }

    fn create_directory(&self, path: &RelativePath) -> Result<()> {
        self.host.check_new_name(path)?;
        self.host.create_directory(path)
    }

    fn set_directory_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        self.host.check_name(path)?;
        self.host.set_directory_metadata(path, metadata)
    }

    fn create_symlink(&self, path: &RelativePath, target: &[u8], overwrite: Overwrite) -> Result<()> {
        self.host.check_new_name(path)?;
        publish::create_symlink(&self.host, path, target, overwrite)
    }

    fn remove(&self, path: &RelativePath, depth: Depth) -> Result<()> {
        self.host.check_name(path)?;
        remove::remove(&self.host, path, depth)
    }

    fn sync_directories(&self, _: &[RelativePath]) -> Result<()> {
        Ok(())
    }

    /// The journal lies on this machine.
    fn journal(&self, key: &str) -> Result<Option<File>> {
        self.state()?.journal(key).map(Some)
    }

    fn discard(&self, key: &str) -> Result<()> {
        self.state()?.discard(key)?;
        self.host.discard_partials(key)
    }

    fn interrupt(&self) {
        self.host.interrupt();
    }

    fn watch(&self, watcher: &RetryWatcher) {
        self.host.patience.watch(watcher);
    }
}

impl Host {
    /// Whether the service can keep anything of `metadata`.
    fn keeps_any(&self, metadata: &Metadata) -> bool {
        let abilities = self.service.abilities();
        (metadata.modified_ns.is_some() && abilities.times != Times::Written) || (metadata.mode.is_some() && abilities.modes)
    }

    fn set_directory_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        if !self.keeps_any(metadata) {
            return if self.is_known(path) { Ok(()) } else { self.stat(path).map(|_| ()) };
        }
        let Err(error) = self.run(|service| service.set_metadata(path, metadata)) else { return Ok(()) };
        if error.retry() != Retry::Never {
            return Err(error);
        }
        // Some servers set times of files only: a directory without its own time is no failure.
        self.stat(path)?;
        tracing::info!(%error, "time and mode of a directory stay as they are");
        Ok(())
    }

    /// Connects, and refuses a service that only reads.
    fn check_writable(&self) -> Result<()> {
        let refused = || {
            Error::new(ErrorKind::Unsupported, format!("could not write to `{}`", self.service.show(self.base())))
                .with_cause("files at this kind of URL can only be read")
                .with_hint("write through webdavs://, sftp://, ftp:// or an object store, if the server has one of them")
        };
        if !self.service.abilities().writes {
            return Err(refused());
        }
        self.patience.run(|| self.service.probe())
    }
}
