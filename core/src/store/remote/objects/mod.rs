//! The adapter that makes a store of a service that keeps objects: directories are what the slashes in keys say.

pub(super) mod copier;
mod listed;
mod listing;
mod memory;
mod parallel;
mod parts;
mod publish;
mod reader;
mod remove;
pub(super) mod uploads;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::listed::Listed;
use self::memory::Memory;
use self::reader::ObjectRanges;
use self::uploads::Note;
use self::writer::ObjectWriter;
use super::patience::clearing;
use super::ranges::RangeReader;
use super::state::State;
use super::{Object, Objects, Opened, Page, Patience, Purpose};
use crate::buffer::Budget;
use crate::endpoint::ServiceUrl;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Fsync, Overwrite};
use crate::path::RelativePath;
use crate::store::{
    Capabilities, Depth, Entry, EntryKind, Listing, Metadata, NewFile, Prune, Publication, Reader, RetryWatcher, Store, Times,
    Writer,
};
use crate::sync::Mutex;

/// The longest key that services take.
const LONGEST_KEY: usize = 1024;

/// Requests of one call that are on their way at once.
const PARALLEL: usize = 16;

/// Keys of a page of a listing, and of the first one: over a long path a short answer comes round trips earlier, and what it names can
/// be read while the next page comes.
const PAGE: u32 = 1000;
const FIRST_PAGE: u32 = 100;

/// How long a page that was looked at may serve as the beginning of a listing.
const FRESH: Duration = Duration::from_secs(10);

/// Opens the bucket of a URL; one to write to must be there, as far as this user may know.
pub(super) fn open(service: impl Objects, url: &ServiceUrl, purpose: Purpose) -> Result<Opened> {
    let base = base(url)?;
    let meant = (url.directory && !base.is_root()).then(|| base.to_string());
    let bucket = Bucket { meant, ..Bucket::new(Box::new(service), purpose, State::open()) };
    if purpose == Purpose::Write {
        match bucket.patience.run(|| bucket.service.probe()) {
            // Who may write need not have the right to list; what is not permitted fails when it is asked for.
            Err(error) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
    }
    Ok(Opened { store: Arc::new(ObjectStore { bucket: Arc::new(bucket) }), base })
}

/// The path of a URL; nothing in it is normalised away, for that would name another object.
pub(super) fn base(url: &ServiceUrl) -> Result<RelativePath> {
    let path = url.path.strip_suffix('/').unwrap_or(&url.path);
    RelativePath::from_bytes(path.as_bytes()).map_err(|error| {
        error.with_hint("name an object, or a prefix up to a slash, without empty, `.` or `..` components in it")
    })
}

/// A bucket or container as a store; nothing but objects exists in it.
struct ObjectStore {
    bucket: Arc<Bucket>,
}

/// What the store shares with its readers and writers.
struct Bucket {
    service: Box<dyn Objects>,
    patience: Patience,
    purpose: Purpose,
    state: Result<State>,
    /// The key of the URL, if a slash behind it says that what is below is meant.
    meant: Option<String>,
    listed: Listed,
    /// The first page below a prefix that was looked at to find out whether it is a directory: the listing that follows begins with it.
    first: Mutex<Option<FirstPage>>,
    memory: Memory,
    /// Keys of directories that were listed, of objects that have content.
    filled: Mutex<HashSet<String>>,
}

/// The first page of a listing, and when it was asked for.
struct FirstPage {
    prefix: String,
    page: Page,
    asked: Instant,
}

impl Bucket {
    fn new(service: Box<dyn Objects>, purpose: Purpose, state: Result<State>) -> Self {
        let (patience, listed, memory) = (Patience::new(), Listed::default(), Memory::new(Budget::process()));
        let (meant, first, filled) = (None, Mutex::default(), Mutex::default());
        Self { service, patience, purpose, state, meant, listed, first, memory, filled }
    }

    fn state(&self) -> Result<&State> {
        self.state.as_ref().map_err(Clone::clone)
    }

    /// Connections that are of use: to write, no more than parts of the usual size fit into memory.
    fn connections(&self) -> Option<u16> {
        let most = self.service.limits().connections;
        if self.purpose == Purpose::Read {
            return most;
        }
        let parts = u16::try_from(self.memory.most() / parts::LEAST).unwrap_or(u16::MAX).max(1);
        Some(most.map_or(parts, |most| most.min(parts)))
    }

    /// The key of a path.
    fn key(&self, path: &RelativePath) -> Result<String> {
        let refused = |why: &str| {
            Err(Error::new(ErrorKind::InvalidInput, format!("could not use the name `{}`", self.service.show(&path.to_string())))
                .with_cause(why)
                .with_hint("rename the file"))
        };
        match std::str::from_utf8(path.as_bytes()) {
            Err(_) => refused("the names of objects are text in UTF-8"),
            Ok(key) if key.len() > LONGEST_KEY => refused("the names of objects have at most 1,024 bytes"),
            Ok(key) => Ok(key.to_owned()),
        }
    }

    /// An object as an entry. Without a description of the single object the time is that of its upload, in whole seconds: some answers
    /// of a service tell it no more exactly, and all of them must agree.
    fn entry(&self, path: RelativePath, object: &Object) -> Entry {
        let uploaded_ns = Times::Seconds.kept(object.uploaded_ns);
        let Metadata { modified_ns, mode } = match self.purpose {
            Purpose::Write => object.metadata.clone(),
            Purpose::Read => Metadata::default(),
        };
        let version = object.tag.as_ref().map(|tag| {
            let hash = blake3::hash(tag.as_bytes());
            hash.as_bytes()[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
        });
        let modified_ns = modified_ns.or(uploaded_ns);
        Entry { path, kind: EntryKind::File, size: object.size, modified_ns, mode, version, sparse: false }
    }

    fn head(&self, key: &str) -> Result<Object> {
        self.patience.run(|| self.service.head(key, self.purpose))
    }

    /// Whether there is anything below a key that is taken for a directory.
    fn is_directory(&self, key: &str) -> Result<bool> {
        let prefix = below(key);
        let most = if self.purpose == Purpose::Read { FIRST_PAGE } else { 1 };
        let ask = |next: Option<&str>| self.patience.run(|| self.service.page(&prefix, false, most, next));
        let mut page = ask(None)?;
        // A service may answer with an empty page, and where to go on.
        while page.is_empty()
            && let Some(next) = page.next.take()
        {
            page = ask(Some(&next))?;
        }
        let is_one = !page.is_empty();
        if self.purpose == Purpose::Read {
            *self.first.lock() = Some(FirstPage { prefix, page, asked: Instant::now() });
        }
        Ok(is_one)
    }

    /// Whether what is below a key is meant even where an object has that name.
    fn means_directory(&self, key: &str) -> bool {
        self.meant.as_deref() == Some(key)
    }

    /// Whether something below a key was seen just now.
    fn was_directory(&self, key: &str) -> bool {
        let first = self.first.lock();
        first.as_ref().is_some_and(|first| first.is_fresh() && first.prefix == below(key) && !first.page.objects.is_empty())
    }

    /// The first page below a prefix, if it was asked for just now; it is given away once.
    fn first_page(&self, prefix: &str) -> Option<Page> {
        let first = self.first.lock().take_if(|first| first.prefix == prefix)?;
        first.is_fresh().then_some(first.page)
    }

    /// The object of a path, or `None` for a directory.
    fn find(&self, path: &RelativePath) -> Result<Option<Object>> {
        let key = self.key(path)?;
        if self.was_directory(&key) {
            return Ok(None);
        }
        if key.is_empty() {
            // A bucket to write to was looked at when it was opened.
            if self.purpose == Purpose::Read {
                self.is_directory(&key)?;
            }
            return Ok(None);
        }
        let below = self.means_directory(&key).then(|| self.is_directory(&key));
        match &below {
            Some(Ok(true)) => return Ok(None),
            // Who may read an object need not have the right to list.
            Some(Err(error)) if error.kind() != ErrorKind::PermissionDenied => return Err(error.clone()),
            _ => {}
        }
        match self.head(&key) {
            Err(error) if error.kind() != ErrorKind::NotFound && !self.hides(&error) => return Err(error),
            Err(_) => {}
            found => return found.map(Some),
        }
        match below.unwrap_or_else(|| self.is_directory(&key)) {
            Ok(true) => Ok(None),
            Err(error) if !self.hides(&error) => Err(error),
            _ => Err(self.missing("find", &key)),
        }
    }

    /// Whether a service may say so of what is not there, to a user who may write and not list: a destination is then taken for free.
    fn hides(&self, error: &Error) -> bool {
        self.purpose == Purpose::Write && error.kind() == ErrorKind::PermissionDenied
    }

    fn missing(&self, operation: &str, key: &str) -> Error {
        Error::new(ErrorKind::NotFound, format!("could not {operation} `{}`", self.service.show(key)))
            .with_cause("there is nothing under that name")
            .with_hint("check the spelling of the path")
    }
}

impl FirstPage {
    fn is_fresh(&self) -> bool {
        self.asked.elapsed() < FRESH
    }
}

/// The prefix of everything below a key.
fn below(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}/") }
}

fn directory(path: RelativePath) -> Entry {
    Entry { path, kind: EntryKind::Directory, size: 0, modified_ns: None, mode: None, version: None, sparse: false }
}

impl Store for ObjectStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resumable: true,
            symlinks: false,
            random_writes: true,
            reads_back: false,
            holes: false,
            flushes: false,
            directories: false,
            times: Times::Exact,
            connections: self.bucket.connections(),
        }
    }

    fn list(&self, path: &RelativePath, depth: Depth, prune: Prune) -> Result<Listing<'_>> {
        listing::list(&self.bucket, path, depth, prune)
    }

    fn trouble(&self, entry: &RelativePath) -> Option<Error> {
        listing::trouble(&self.bucket, entry)
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        let Some(object) = self.bucket.find(path)? else { return Ok(directory(path.clone())) };
        let entry = self.bucket.entry(path.clone(), &object);
        self.bucket.listed.insert(object);
        Ok(entry)
    }

    /// Makes no request if the object was just listed: it is read in the state that was listed, or not at all.
    fn open(&self, path: &RelativePath) -> Result<Box<dyn Reader>> {
        let known = self.bucket.listed.take(&self.bucket.key(path)?);
        let object = match known {
            Some(object) => object,
            None => self.bucket.find(path)?.ok_or_else(|| {
                let shown = self.bucket.service.show(&path.to_string());
                Error::new(ErrorKind::WrongType, format!("could not open `{shown}`")).with_cause("it is a prefix, not an object")
            })?,
        };
        let entry = self.bucket.entry(path.clone(), &object);
        let ranges = ObjectRanges::new(Arc::clone(&self.bucket), path.clone(), object);
        Ok(Box::new(RangeReader::new(Box::new(ranges), entry, self.bucket.patience.clone())))
    }

    /// Makes no request: an upload begins with the first part that is complete.
    fn create(&self, file: &NewFile) -> Result<Box<dyn Writer>> {
        Ok(Box::new(ObjectWriter::new(&self.bucket, file)?))
    }

    fn publish(&self, batch: Vec<Publication>, _: Fsync) -> Vec<Result<()>> {
        parallel::each(batch, PARALLEL, publish::publish)
    }

    /// Does nothing: a directory is there as soon as something is in it.
    fn create_directory(&self, path: &RelativePath) -> Result<()> {
        self.bucket.key(path).map(drop)
    }

    /// Does nothing: what is only a prefix has neither time nor mode.
    fn set_directory_metadata(&self, _: &RelativePath, _: &Metadata) -> Result<()> {
        Ok(())
    }

    fn create_symlink(&self, path: &RelativePath, _: &[u8], _: Overwrite) -> Result<()> {
        let shown = self.bucket.service.show(&path.to_string());
        Err(Error::new(ErrorKind::Unsupported, format!("could not create the link `{shown}`"))
            .with_cause("an object store has no symbolic links")
            .with_hint("follow or skip symbolic links: --symlinks follow, --symlinks skip"))
    }

    fn remove(&self, path: &RelativePath, depth: Depth) -> Result<()> {
        remove::remove(&self.bucket, path, depth)
    }

    fn sync_directories(&self, _: &[RelativePath]) -> Result<()> {
        Ok(())
    }

    fn journal(&self, key: &str) -> Result<Option<File>> {
        self.bucket.state()?.journal(key).map(Some)
    }

    fn discard(&self, key: &str) -> Result<()> {
        let state = self.bucket.state()?;
        for (number, note) in state.notes::<Note>(key)? {
            clearing(|| self.bucket.patience.run(|| self.bucket.service.abort(&note.upload())))?;
            state.forget(key, number)?;
        }
        state.discard(key)
    }

    fn interrupt(&self) {
        self.bucket.patience.interrupt();
    }

    fn watch(&self, watcher: &RetryWatcher) {
        self.bucket.patience.watch(watcher);
    }
}
