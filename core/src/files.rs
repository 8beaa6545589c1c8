//! Looking at and removing files of any endpoint: what `edt ls`, `stat`, `rm` and `verify` stand on.

mod guard;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::SLAB_SIZE;
use crate::endpoint::{Endpoint, Location};
use crate::error::{Error, ErrorKind, Result};
use crate::link::Control;
use crate::link::client::{self, Session, Target};
use crate::open;
use crate::options::TransferOptions;
use crate::path::RelativePath;
use crate::pipeline::digest::{combine, crc64nvme};
use crate::protocol::hex;
use crate::protocol::message::{Answer, Message, Request, WireEntry};
use crate::store::null::ZeroStore;
use crate::store::remote::{self, Purpose};
use crate::store::{Depth, Entry, EntryKind, Prune, Store};

/// How long a server may take for one part of an answer; reading a large file for its digest takes long.
const PATIENCE: Duration = Duration::from_hours(6);

/// An endpoint, connected: one session serves all calls, one after the other. Paths in answers are relative to the endpoint.
pub struct Files {
    endpoint: Endpoint,
    place: Place,
    base: RelativePath,
}

enum Place {
    Here(Arc<dyn Store>),
    There(Session),
}

/// Size and digests of a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    /// Size in bytes.
    pub size: u64,
    /// crc64nvme as 16 hexadecimal digits.
    pub crc64nvme: String,
    /// BLAKE3 as 64 hexadecimal digits.
    pub blake3: String,
}

impl Files {
    /// Connects to an endpoint; of the options, those of security count.
    pub fn open(endpoint: &Endpoint, options: &TransferOptions) -> Result<Self> {
        let (place, base) = match endpoint.resolve()? {
            Location::Local { path, .. } => {
                let (store, base) = open::local(&path)?;
                (Place::Here(Arc::new(store)), base)
            }
            Location::Zero { count, size } => (Place::Here(Arc::new(ZeroStore::new(count, size))), RelativePath::root()),
            Location::Service(url) => {
                let opened = remote::open(&url, Purpose::Read, options)?;
                (Place::Here(opened.store), opened.base)
            }
            Location::Null => return Err(Error::new(ErrorKind::InvalidInput, "`null:` holds no files")),
            Location::Remote(remote) => {
                let base = RelativePath::from_user(&remote.path)?;
                (Place::There(client::connect(&Target::from(&remote), options, None)?), base)
            }
        };
        Ok(Self { endpoint: endpoint.clone(), place, base })
    }

    /// Streams the entries below the endpoint (its direct children, or everything); a file yields itself with an empty path.
    pub fn list(&mut self, depth: Depth) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send + '_>> {
        let base = self.base.clone();
        let below = move |entry: Result<Entry>| {
            entry.map(|entry| Entry { path: entry.path.strip_prefix(&base).unwrap_or_default(), ..entry })
        };
        match &mut self.place {
            Place::Here(store) => {
                let nothing: Prune = Arc::new(|_: &RelativePath| false);
                let listing = store.list(&self.base, depth, nothing).map_err(|error| explained(&self.endpoint, error))?;
                Ok(Box::new(listing.map(below)))
            }
            Place::There(session) => {
                let request = Request::List { path: self.base.as_bytes().to_vec(), tree: depth == Depth::Tree };
                session.control.sender.send(&Message::Request(request))?;
                let control = &session.control;
                Ok(Box::new(RemoteListing { control, waiting: VecDeque::new(), last: false }.map(below)))
            }
        }
    }

    /// Describes the entry at `path` below the endpoint; the root path is the endpoint itself.
    pub fn stat(&mut self, path: &RelativePath) -> Result<Entry> {
        let whole = self.base.join(path);
        let entry = match &self.place {
            Place::Here(store) if path.is_root() => store.stat(&whole).map_err(|error| explained(&self.endpoint, error)),
            Place::Here(store) => store.stat(&whole),
            Place::There(session) => stat(&session.control, &whole),
        };
        Ok(Entry { path: path.clone(), ..entry? })
    }

    /// Removes the entry at `path` below the endpoint; the root path is the endpoint itself, if [`Files::check_removable`] allows.
    pub fn remove(&mut self, path: &RelativePath, depth: Depth) -> Result<()> {
        if path.is_root() {
            Self::check_removable(&self.endpoint)?;
        }
        let path = self.base.join(path);
        let removed = match &self.place {
            Place::Here(store) => store.remove(&path, depth),
            Place::There(session) => {
                let request = Request::Remove { path: path.as_bytes().to_vec(), tree: depth == Depth::Tree };
                ask(&session.control, request).and_then(|answer| match answer {
                    Answer::Done => Ok(()),
                    other => Err(unfit(&other)),
                })
            }
        };
        removed.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists if depth == Depth::One => {
                error.with_hint("the directory is not empty: remove it recursively (`edt rm -r`) to remove all that is below it")
            }
            _ => error,
        })
    }

    /// An error if the endpoint must not be removed: the root of its store, one that ends in `.` or `..`, or a symbolic link that is
    /// written with a slash at its end.
    pub fn check_removable(endpoint: &Endpoint) -> Result<()> {
        guard::removable(endpoint)
    }

    /// Reads the file at `path`, where it lives, and answers with its digests.
    pub fn digests(&mut self, path: &RelativePath) -> Result<Digests> {
        let path = self.base.join(path);
        match &self.place {
            Place::Here(store) => digest_file(store.as_ref(), &path, &|| false),
            Place::There(session) => match ask(&session.control, Request::Digest(path.as_bytes().to_vec()))? {
                Answer::Digests { size, crc64nvme, blake3 } => {
                    Ok(Digests { size, crc64nvme: format!("{crc64nvme:016x}"), blake3: hex(&blake3) })
                }
                other => Err(unfit(&other)),
            },
        }
    }
}

/// The error about what an endpoint names, with what its service knows of it.
fn explained(endpoint: &Endpoint, error: Error) -> Error {
    match endpoint.resolve() {
        Ok(Location::Service(url)) => remote::explained(&url, error),
        _ => error,
    }
}

/// Reads a file of a store for its digests; `stop` ends it early with an error.
pub fn digest_file(store: &dyn Store, path: &RelativePath, stop: &dyn Fn() -> bool) -> Result<Digests> {
    let reader = store.open(path)?;
    let mut buffer = vec![0; 4 * SLAB_SIZE];
    let (mut size, mut crc, mut blake3) = (0, 0, blake3::Hasher::new());
    loop {
        let read = reader.read_at(size, &mut buffer)?;
        if read == 0 {
            break;
        }
        if stop() {
            return Err(Error::new(ErrorKind::Cancelled, format!("reading `{path}` was interrupted")));
        }
        crc = combine(crc, crc64nvme(&buffer[..read]), read as u64);
        blake3.update(&buffer[..read]);
        size += read as u64;
    }
    Ok(Digests { size, crc64nvme: format!("{crc:016x}"), blake3: blake3.finalize().to_hex().to_string() })
}

/// Asks a server for one entry.
pub(crate) fn stat(control: &Control, path: &RelativePath) -> Result<Entry> {
    match ask(control, Request::Stat(path.as_bytes().to_vec()))? {
        Answer::Entries { mut entries, .. } if entries.len() == 1 => Entry::try_from(entries.remove(0)),
        other => Err(unfit(&other)),
    }
}

fn ask(control: &Control, request: Request) -> Result<Answer> {
    control.sender.send(&Message::Request(request))?;
    answer(control)
}

fn answer(control: &Control) -> Result<Answer> {
    match control.receiver.recv_timeout(PATIENCE) {
        Ok(Message::Answer(Answer::Failed(failed)) | Message::Fail(failed)) => Err(failed.into()),
        Ok(Message::Answer(answer)) => Ok(answer),
        Ok(other) => Err(crate::pipeline::sender::unexpected(&other)),
        Err(_) => Err(control
            .sender
            .failure()
            .unwrap_or_else(|| Error::new(ErrorKind::ConnectionLost, "the server closed the connection without an answer"))),
    }
}

fn unfit(answer: &Answer) -> Error {
    let name = format!("{answer:?}").split(['(', ' ']).next().unwrap_or_default().to_owned();
    Error::new(ErrorKind::Protocol, format!("the server answered `{name}` to another question"))
}

/// A listing that arrives in parts.
struct RemoteListing<'a> {
    control: &'a Control,
    waiting: VecDeque<Result<Entry>>,
    last: bool,
}

impl Iterator for RemoteListing<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        while self.waiting.is_empty() {
            if self.last {
                return None;
            }
            match answer(self.control) {
                Ok(Answer::Entries { entries, failed, last }) => {
                    self.last = last;
                    self.waiting.extend(entries.into_iter().map(Entry::try_from));
                    self.waiting.extend(failed.into_iter().map(|item| Err(item.failed.into())));
                }
                Ok(other) => return Some(self.end(unfit(&other))),
                Err(error) => return Some(self.end(error)),
            }
        }
        self.waiting.pop_front()
    }
}

impl RemoteListing<'_> {
    fn end(&mut self, error: Error) -> Result<Entry> {
        self.last = true;
        Err(error)
    }
}

impl Drop for RemoteListing<'_> {
    /// The rest of an answer that nobody wants must not be taken for the next one.
    fn drop(&mut self) {
        while !self.last && self.next().is_some() {
            self.waiting.clear();
        }
    }
}

impl TryFrom<WireEntry> for Entry {
    type Error = Error;

    fn try_from(entry: WireEntry) -> Result<Self> {
        Ok(Self {
            path: RelativePath::from_bytes(&entry.path)?,
            kind: match entry.kind {
                0 => EntryKind::File,
                1 => EntryKind::Directory,
                2 => EntryKind::Symlink(entry.target.unwrap_or_default().into()),
                _ => EntryKind::Other,
            },
            size: entry.size,
            modified_ns: entry.modified_ns,
            mode: entry.mode,
            version: None,
            sparse: false,
        })
    }
}

impl From<Entry> for WireEntry {
    fn from(entry: Entry) -> Self {
        let (kind, target) = match entry.kind {
            EntryKind::File => (0, None),
            EntryKind::Directory => (1, None),
            EntryKind::Symlink(target) => (2, Some(target.into())),
            EntryKind::Other => (3, None),
        };
        Self {
            path: entry.path.as_bytes().to_vec(),
            kind,
            size: entry.size,
            modified_ns: entry.modified_ns,
            mode: entry.mode,
            target,
        }
    }
}
