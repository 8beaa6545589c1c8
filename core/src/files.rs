//! Looking at, reading, changing and removing files of any endpoint: what `edt ls`, `stat`, `rm` and `verify` and file systems stand on.

mod ask;
mod bound;
mod crew;
mod guard;
mod pieces;
mod pool;
mod reader;
mod remote;
mod unchanged;
pub(crate) mod whole;
mod window;

use std::ops::Range;
use std::sync::Arc;

use crate::buffer::SLAB_SIZE;
use crate::endpoint::{Endpoint, Location};
use crate::error::{Error, ErrorKind, Result};
use crate::link::client::Target;
use crate::open;
use crate::options::{Overwrite, TransferOptions};
use crate::path::RelativePath;
use crate::pipeline::digest::{combine, crc64nvme};
use crate::protocol::frame::crc32c;
use crate::protocol::hex;
use crate::protocol::message::{Answer, Request};
use crate::store::null::ZeroStore;
use crate::store::remote::{self as services, Purpose};
use crate::store::{Depth, Entry, Prune, Store};

use ask::{RemoteListing, ask, order, unfit};
use crew::Crew;
use pool::Pool;
use remote::RemoteReader;

pub(crate) use ask::{linked_size, list, stat};
pub use reader::FileReader;

/// The most bytes of a file that [`Files::write`] takes.
pub const MOST_WRITTEN: usize = 512 << 10;

/// How files are read and asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesOptions {
    /// Ranges of files that are read at once, each over a connection of its own; default 8. More fill a longer path.
    pub connections: usize,
    /// The most bytes that each open file is read ahead; default 64 MiB; 0 reads nothing ahead. It bounds memory as well as throughput:
    /// what fills a path is its rate times its round trip.
    pub read_ahead: u64,
}

impl Default for FilesOptions {
    fn default() -> Self {
        Self { connections: 8, read_ahead: 64 << 20 }
    }
}

/// An endpoint, connected: threads share it, and each call to a server has a session of its own while it runs. Paths in answers are
/// relative to the endpoint.
pub struct Files {
    endpoint: Endpoint,
    place: Place,
    base: RelativePath,
    crew: Arc<Crew>,
    options: FilesOptions,
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Place::Here(store) = &self.place {
            store.tidy();
        }
    }
}

enum Place {
    Here(Arc<dyn Store>),
    There(Arc<Pool>),
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
        Self::open_with(endpoint, options, FilesOptions::default())
    }

    /// Connects to an endpoint, to read its files as the last options say.
    pub fn open_with(endpoint: &Endpoint, options: &TransferOptions, how: FilesOptions) -> Result<Self> {
        let (place, base) = match endpoint.resolve()? {
            Location::Local { path, .. } => {
                let (store, base) = open::local(&path)?;
                (Place::Here(Arc::new(store)), base)
            }
            Location::Zero { count, size } => (Place::Here(Arc::new(ZeroStore::new(count, size))), RelativePath::root()),
            Location::Service(url) => {
                let opened = services::open(&url, Purpose::Read, options)?;
                (Place::Here(opened.store), opened.base)
            }
            Location::Null => return Err(Error::new(ErrorKind::InvalidInput, "`null:` holds no files")),
            Location::Remote(remote) => {
                let base = RelativePath::from_user(&remote.path)?;
                // One more than read ranges, so that a question does not wait for them.
                let pool = Pool::new(Target::from(&remote), options, how.connections.saturating_add(1));
                pool.begin()?;
                (Place::There(pool), base)
            }
        };
        let crew = Crew::new(how.connections);
        Ok(Self { endpoint: endpoint.clone(), place, base, crew: Arc::new(crew), options: how })
    }

    /// Streams the entries below a path (its direct children, or everything), named relative to it; a file yields itself with an empty
    /// path.
    pub fn list(&self, path: &RelativePath, depth: Depth) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send + '_>> {
        let base = self.base.join(path);
        let listing: Box<dyn Iterator<Item = Result<Entry>> + Send + '_> = match &self.place {
            Place::Here(store) => {
                let nothing: Prune = Arc::new(|_: &RelativePath| false);
                Box::new(store.list(&base, depth, nothing).map_err(|error| self.explained(path, error))?)
            }
            Place::There(pool) => Box::new(RemoteListing::begin(pool, &base, depth == Depth::Tree)?),
        };
        Ok(Box::new(
            listing
                .map(move |entry| entry.map(|entry| Entry { path: entry.path.strip_prefix(&base).unwrap_or_default(), ..entry })),
        ))
    }

    /// Describes the entry at `path` below the endpoint; the root path is the endpoint itself.
    pub fn stat(&self, path: &RelativePath) -> Result<Entry> {
        let whole = self.base.join(path);
        let entry = match &self.place {
            Place::Here(store) => store.stat(&whole).map_err(|error| self.explained(path, error)),
            Place::There(pool) => pool.repeat(|control| stat(control, &whole)),
        };
        Ok(Entry { path: path.clone(), ..entry? })
    }

    /// Opens a file to read, links followed, and brings its first bytes with the answer where it lies at a server: those of `first`.
    pub fn reader(&self, path: &RelativePath, first: Range<u64>) -> Result<FileReader> {
        let path = self.base.join(path);
        match &self.place {
            Place::Here(store) => {
                let reader = unchanged::open(store.as_ref(), &path)?;
                FileReader::new(reader, &self.crew, self.options.read_ahead, (0, Vec::new()))
            }
            Place::There(pool) => {
                let length = usize::try_from(first.end.saturating_sub(first.start)).unwrap_or(usize::MAX);
                let length = length.min(usize::try_from(window::MOST_PIECE).unwrap_or(usize::MAX));
                let (reader, bytes) = RemoteReader::open(pool, path, first.start, length)?;
                FileReader::new(Box::new(reader), &self.crew, self.options.read_ahead, (first.start, bytes))
            }
        }
    }

    /// Writes a file of at most [`MOST_WRITTEN`] bytes, which appears under its name when it is complete; directories above it are made.
    pub fn write(&self, path: &RelativePath, content: &[u8], overwrite: Overwrite) -> Result<()> {
        let whole = self.base.join(path);
        if content.len() > MOST_WRITTEN {
            return Err(Error::new(ErrorKind::InvalidInput, format!("could not write `{path}` in one go"))
                .with_cause(format!("it has more than {MOST_WRITTEN} bytes"))
                .with_hint("copy it from a file"));
        }
        match &self.place {
            Place::Here(store) => whole::write(store.as_ref(), &whole, content, overwrite, &|| Ok(())),
            Place::There(pool) => {
                let (path, crc32c) = (whole.as_bytes().to_vec(), crc32c(content));
                let request = Request::Write { path, content: content.to_vec(), crc32c, overwrite: rule(overwrite) };
                // Written twice it is the same, unless that the first time succeeded fails the second.
                match overwrite {
                    Overwrite::Replace => pool.repeat(|control| order(control, request.clone())),
                    Overwrite::Never => pool.once(|control| order(control, request)),
                }
            }
        }
    }

    /// Copies a file to another name at the same endpoint, where it lives; directories above that are made.
    pub fn copy(&self, from: &RelativePath, to: &RelativePath, overwrite: Overwrite) -> Result<()> {
        let (from, to) = (self.base.join(from), self.base.join(to));
        match &self.place {
            Place::Here(store) => whole::copy(store.as_ref(), &from, &to, overwrite, &|| Ok(())),
            Place::There(pool) => {
                let (from, to, overwrite) = (from.as_bytes().to_vec(), to.as_bytes().to_vec(), rule(overwrite));
                pool.once(|control| order(control, Request::Copy { from, to, overwrite }))
            }
        }
    }

    /// Gives an entry another name at the same server; directories above that are made.
    pub fn rename(&self, from: &RelativePath, to: &RelativePath, overwrite: Overwrite) -> Result<()> {
        let (from, to) = (self.base.join(from), self.base.join(to));
        match &self.place {
            Place::Here(_) => Err(Error::new(ErrorKind::Unsupported, format!("could not rename `{from}`"))
                .with_cause("only an edt server renames for others")
                .with_hint("copy it, and remove what was copied")),
            Place::There(pool) => {
                let (from, to, overwrite) = (from.as_bytes().to_vec(), to.as_bytes().to_vec(), rule(overwrite));
                pool.once(|control| order(control, Request::Rename { from, to, overwrite }))
            }
        }
    }

    /// Makes a directory and those above it; one that exists is no error.
    pub fn create_directory(&self, path: &RelativePath) -> Result<()> {
        let path = self.base.join(path);
        match &self.place {
            Place::Here(store) => store.create_directory(&path),
            Place::There(pool) => pool.repeat(|control| order(control, Request::CreateDirectory(path.as_bytes().to_vec()))),
        }
    }

    /// Removes the entry at `path` below the endpoint; the root path is the endpoint itself, if [`Files::check_removable`] allows.
    pub fn remove(&self, path: &RelativePath, depth: Depth) -> Result<()> {
        if path.is_root() {
            Self::check_removable(&self.endpoint)?;
        }
        let path = self.base.join(path);
        let removed = match &self.place {
            Place::Here(store) => store.remove(&path, depth),
            Place::There(pool) => {
                let request = Request::Remove { path: path.as_bytes().to_vec(), tree: depth == Depth::Tree };
                pool.once(|control| order(control, request))
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
    pub fn digests(&self, path: &RelativePath) -> Result<Digests> {
        let path = self.base.join(path);
        match &self.place {
            Place::Here(store) => digest_file(store.as_ref(), &path, &|| false),
            Place::There(pool) => match pool.repeat(|control| ask(control, Request::Digest(path.as_bytes().to_vec())))? {
                Answer::Digests { size, crc64nvme, blake3 } => {
                    Ok(Digests { size, crc64nvme: format!("{crc64nvme:016x}"), blake3: hex(&blake3) })
                }
                other => Err(unfit(&other)),
            },
        }
    }

    /// The error about a path, where that is what the endpoint names, with what its service knows of it.
    fn explained(&self, path: &RelativePath, error: Error) -> Error {
        match self.endpoint.resolve() {
            Ok(Location::Service(url)) if path.is_root() => services::explained(&url, error),
            _ => error,
        }
    }
}

/// The number of a rule on the wire.
fn rule(overwrite: Overwrite) -> u8 {
    match overwrite {
        Overwrite::Replace => 0,
        Overwrite::Never => 1,
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
