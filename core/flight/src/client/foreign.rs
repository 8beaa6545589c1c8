//! A service that is not edt's, as far as it is like a store: its flights can be listed and described.

use std::fs::File;
use std::sync::Arc;

use arrow_flight::{Criteria, FlightDescriptor, FlightInfo};
use edt::options::{Fsync, Overwrite};
use edt::path::RelativePath;
use edt::store::{
    Capabilities, Depth, Entry, EntryKind, Listing, Metadata, NewFile, Prune, Publication, Reader, RetryWatcher, Store, Times,
    Writer,
};
use edt::{Error, ErrorKind, Result};
use tonic::Streaming;

use super::host::{Host, Lease};

const HINT: &str = "copy one of its tables to a Parquet or Arrow file: edt cp flight://HOST/NAME NAME.parquet";

/// The flights of a service.
pub(super) struct ForeignStore {
    host: Arc<Host>,
}

impl ForeignStore {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self { host }
    }

    fn unsupported(&self, operation: &str, path: &RelativePath) -> Error {
        Error::new(ErrorKind::Unsupported, format!("could not {operation} `{path}` at `{}`", self.host.name()))
            .with_cause("the Flight service is not edt's, and its tables are no files")
            .with_hint(HINT)
    }
}

/// What a service knows under a name: asked for by path, then, if that is refused, by the text as a command.
pub(super) fn info(host: &Arc<Host>, name: &str) -> Result<FlightInfo> {
    let refused = match ask(host, &FlightDescriptor::new_path(name.split('/').map(str::to_owned).collect()), name) {
        Err(error) if !is_about_the_name(&error) => return Err(error),
        Err(error) => error,
        Ok(info) => return Ok(info),
    };
    ask(host, &FlightDescriptor::new_cmd(name.to_owned()), name)
        .map_err(|error| if is_about_the_name(&error) { refused } else { error })
}

/// Asks with one descriptor for what is shown as `name`.
pub(super) fn ask(host: &Arc<Host>, descriptor: &FlightDescriptor, name: &str) -> Result<FlightInfo> {
    let what = || format!("could not find the flight `{name}` at `{}`", host.name());
    host.patience.run(|| {
        let mut lease = host.lease()?;
        let request = host.request(descriptor.clone());
        let answer = host.until_interrupted(&what, lease.client.get_flight_info(request))?;
        let answer = answer.map(tonic::Response::into_inner).map_err(|status| host.failed(&status, what));
        if answer.is_ok() {
            lease.keep();
        }
        answer
    })
}

/// Whether a service may know by another kind of descriptor what it refused.
fn is_about_the_name(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::Io)
}

/// The name that a flight is asked for by.
fn name_of(info: &FlightInfo) -> Option<RelativePath> {
    let descriptor = info.flight_descriptor.as_ref()?;
    let text =
        if descriptor.path.is_empty() { String::from_utf8(descriptor.cmd.to_vec()).ok()? } else { descriptor.path.join("/") };
    RelativePath::from_bytes(text.as_bytes()).ok()
}

fn entry(path: RelativePath, info: &FlightInfo) -> Entry {
    let size = u64::try_from(info.total_bytes).unwrap_or(0);
    Entry { path, kind: EntryKind::File, size, modified_ns: None, mode: None, version: None, sparse: false }
}

/// The flights below a name, as they are told.
struct Flights {
    host: Arc<Host>,
    lease: Lease,
    stream: Streaming<FlightInfo>,
    below: RelativePath,
    over: bool,
}

impl Iterator for Flights {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let what = || format!("could not list the flights of `{}`", self.host.name());
        while !self.over {
            match self.host.wait_for_message(&what, self.stream.message()) {
                Ok(Some(info)) => {
                    let Some(name) = name_of(&info).filter(|name| name.strip_prefix(&self.below).is_some()) else { continue };
                    return Some(Ok(entry(name, &info)));
                }
                Ok(None) => {
                    self.over = true;
                    self.lease.keep();
                }
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl Store for ForeignStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resumable: false,
            symlinks: false,
            random_writes: false,
            reads_back: false,
            holes: false,
            flushes: false,
            directories: false,
            times: Times::Written,
            connections: None,
        }
    }

    /// Names have no levels: all of them are told, whatever the depth.
    fn list(&self, path: &RelativePath, _: Depth, _: Prune) -> Result<Listing<'_>> {
        let what = || format!("could not list the flights of `{}`", self.host.name());
        self.host.patience.run(|| {
            let mut lease = self.host.lease()?;
            let request = self.host.request(Criteria::default());
            let stream = self.host.wait_for_message(&what, lease.client.list_flights(request))?.into_inner();
            let (host, below) = (Arc::clone(&self.host), path.clone());
            Ok(Box::new(Flights { host, lease, stream, below, over: false }) as Listing<'_>)
        })
    }

    fn trouble(&self, _: &RelativePath) -> Option<Error> {
        None
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        if path.is_root() {
            let kind = EntryKind::Directory;
            return Ok(Entry { kind, ..entry(path.clone(), &FlightInfo::default()) });
        }
        let name = String::from_utf8_lossy(path.as_bytes()).into_owned();
        info(&self.host, &name).map(|info| entry(path.clone(), &info))
    }

    fn open(&self, path: &RelativePath) -> Result<Box<dyn Reader>> {
        Err(self.unsupported("open", path))
    }

    fn create(&self, file: &NewFile) -> Result<Box<dyn Writer>> {
        Err(self.unsupported("create", &file.path))
    }

    fn publish(&self, batch: Vec<Publication>, _: Fsync) -> Vec<Result<()>> {
        batch.iter().map(|_| Err(self.unsupported("publish to", &RelativePath::root()))).collect()
    }

    fn create_directory(&self, path: &RelativePath) -> Result<()> {
        Err(self.unsupported("make the directory", path))
    }

    fn set_directory_metadata(&self, path: &RelativePath, _: &Metadata) -> Result<()> {
        Err(self.unsupported("set time and mode of", path))
    }

    fn create_symlink(&self, path: &RelativePath, _: &[u8], _: Overwrite) -> Result<()> {
        Err(self.unsupported("create the link", path))
    }

    fn remove(&self, path: &RelativePath, _: Depth) -> Result<()> {
        Err(self.unsupported("remove", path))
    }

    fn sync_directories(&self, _: &[RelativePath]) -> Result<()> {
        Ok(())
    }

    fn journal(&self, _: &str) -> Result<Option<File>> {
        Ok(None)
    }

    fn discard(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn interrupt(&self) {
        self.host.interrupt();
    }

    fn watch(&self, watcher: &RetryWatcher) {
        self.host.patience.watch(watcher);
    }
}
