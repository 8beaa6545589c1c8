//! Where files live: the trait that every store implements, and what it promises.
//!
//! A store publishes atomically: what is written to a [`Writer`] appears under its final name only through
//! [`Store::publish`], and then whole. `testing::conformance` holds every store to this contract.

pub mod layered;
pub mod local;
pub mod memory;
pub mod null;
pub mod remote;
pub mod throttled;

use std::any::Any;
use std::fs::File;

use crate::error::Result;
use crate::options::{Fsync, Overwrite};
use crate::path::RelativePath;

/// A place that holds files. All methods block; a store is shared by many threads.
pub trait Store: Send + Sync {
    /// Says what this store can do; constant for its lifetime.
    fn capabilities(&self) -> Capabilities;

    /// Streams the entries below a directory, each directory before its content, in no other order.
    ///
    /// A file yields itself under `path`. Paths are relative to the store's root. An entry that cannot be read is an `Err` item, and
    /// the listing goes on behind it. Memory does not grow with the number of entries of the tree.
    /// `prune` is asked once for every directory; one for which it answers true is yielded neither itself nor with what is below it.
    fn list(&self, path: &RelativePath, depth: Depth, prune: Prune) -> Result<Listing<'_>>;

    /// Describes one entry; does not follow a symbolic link unless the store was opened to follow.
    fn stat(&self, path: &RelativePath) -> Result<Entry>;

    /// What a listing cannot tell of an entry, and whoever copies all that is there has to: why one of kind [`EntryKind::Other`] cannot be
    /// read, or that something is left out that stands at a directory or right below it. Asked when the entry was listed; of the directory
    /// that was listed itself, behind all else.
    fn trouble(&self, entry: &RelativePath) -> Option<crate::Error>;

    /// Opens a file to read.
    fn open(&self, path: &RelativePath) -> Result<Box<dyn Reader>>;

    /// Opens a file to write, under a temporary name in the same file system; missing parent directories are made at publish.
    ///
    /// With `resume` the writer continues the partial file of that key if there is one and the file is not `fresh`, else starts an empty
    /// one.
    fn create(&self, file: &NewFile) -> Result<Box<dyn Writer>>;

    /// Brings finished files to their final names, durable as `fsync` asks, replacing what is there as each overwrite rule allows.
    ///
    /// One answer for each publication, in order. Files of one call share their flushes: pass many small files at once.
    fn publish(&self, batch: Vec<Publication>, fsync: Fsync) -> Vec<Result<()>>;

    /// Makes a directory and those above it; one that exists is no error.
    fn create_directory(&self, path: &RelativePath) -> Result<()>;

    /// Sets modification time and mode of a directory, as far as the store has them.
    fn set_directory_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()>;

    /// Makes a symbolic link to `target`, replacing a link or file that stands there if `overwrite` allows.
    fn create_symlink(&self, path: &RelativePath, target: &[u8], overwrite: Overwrite) -> Result<()>;

    /// Removes a file, a link, or a directory (with all below it if `depth` is [`Depth::Tree`], else only if empty).
    fn remove(&self, path: &RelativePath, depth: Depth) -> Result<()>;

    /// Flushes directories so that renames in them survive a crash of the machine.
    fn sync_directories(&self, paths: &[RelativePath]) -> Result<()>;

    /// Opens the append-only file in which a transfer to this store keeps its journal, locked for this process.
    ///
    /// `None` where the store keeps nothing between processes. An error of kind `AlreadyExists` says that another process holds it.
    fn journal(&self, key: &str) -> Result<Option<File>>;

    /// Removes the journal of `key` and every partial file that belongs to it.
    fn discard(&self, key: &str) -> Result<()>;

    /// Removes what only makes room for files that are written in one go, unless somebody is using it; whoever needs it makes it again.
    fn tidy(&self) {}

    /// Ends waiting, from any thread: calls that would wait for an answer or before a further attempt fail with
    /// [`crate::ErrorKind::Cancelled`] from now on. What was sent in vain may still be removed.
    fn interrupt(&self) {}

    /// Has longer waits before a further attempt told to `watcher` from now on.
    fn watch(&self, _watcher: &RetryWatcher) {}
}

/// Told why a store waits before a further attempt, and for how long.
pub type RetryWatcher = std::sync::Arc<dyn Fn(&crate::Error, std::time::Duration) + Send + Sync>;

/// Asked for each directory of a listing: true leaves it out, with all below it.
pub type Prune = std::sync::Arc<dyn Fn(&RelativePath) -> bool + Send + Sync>;

/// A streaming listing.
pub type Listing<'a> = Box<dyn Iterator<Item = Result<Entry>> + Send + 'a>;

/// What a store can do.
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether a journal and partial files survive this process.
    pub resumable: bool,
    /// Whether [`Store::create_symlink`] works.
    pub symlinks: bool,
    /// Whether ranges may be written in any order; if not, one chunk of a file is in flight at a time.
    pub random_writes: bool,
    /// Whether what a writer wrote can be read back; if not, [`Writer::kept`] says what of a partial file is there.
    pub reads_back: bool,
    /// Whether what is not written of a file reads as zeros.
    pub holes: bool,
    /// Whether publishing waits for flushes that files share; if not, it is a request of its own for each file.
    pub flushes: bool,
    /// Whether directories exist by themselves, have times, and keep files of their name away.
    pub directories: bool,
    /// Which modification times are kept.
    pub times: Times,
    /// Workers that one transfer should have at most, if the store bounds them.
    pub connections: Option<u16>,
}

impl Capabilities {
    /// What a local file system can do.
    pub const LOCAL: Self = Self {
        resumable: true,
        symlinks: true,
        random_writes: true,
        reads_back: true,
        holes: true,
        flushes: true,
        directories: true,
        times: Times::Exact,
        connections: None,
    };
}

/// Which modification times of files a store keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// To the nanosecond, or as exactly as they are read from it.
    Exact,
    /// Whole seconds.
    Seconds,
    /// Only the time at which a file was written; a file is taken for changed if its source is newer than that, or has another size.
    Written,
}

impl Times {
    /// What a store makes of a modification time in nanoseconds since 1970; `None` if it keeps none.
    pub fn kept(self, modified_ns: Option<i64>) -> Option<i64> {
        match self {
            Self::Exact => modified_ns,
            Self::Seconds => modified_ns.map(|time| time.div_euclid(1_000_000_000) * 1_000_000_000),
            Self::Written => None,
        }
    }

    /// The number on the wire.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Exact => 0,
            Self::Seconds => 1,
            Self::Written => 2,
        }
    }

    /// The times behind a wire number.
    pub(crate) fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Seconds,
            2 => Self::Written,
            _ => Self::Exact,
        }
    }
}

/// How far an operation reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The entry itself, or a directory's direct children.
    One,
    /// Everything below.
    Tree,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with its target, as written.
    Symlink(Box<[u8]>),
    /// A device, socket or pipe.
    Other,
}

/// One item of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, relative to the store's root.
    pub path: RelativePath,
    /// File, directory, link or other.
    pub kind: EntryKind,
    /// Size in bytes; 0 for all but files.
    pub size: u64,
    /// Modification time in nanoseconds since 1970, if the store knows it.
    pub modified_ns: Option<i64>,
    /// Unix permission bits, if the store has them.
    pub mode: Option<u32>,
    /// What changes when the file is replaced though size and time stay: inode number or `ETag`.
    pub version: Option<u64>,
    /// Whether the file occupies clearly less storage than its size.
    pub sparse: bool,
}

/// An open file to read. Shared by the threads that read its chunks.
pub trait Reader: Send + Sync {
    /// Fills `buffer` from `offset` as far as the file goes; returns how much was read, less than asked only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Describes the open file as it is now.
    fn stat(&self) -> Result<Entry>;

    /// The end of the hole that covers `offset`, or `None` if there is data or the store does not know.
    fn hole(&self, offset: u64) -> Option<u64>;

    /// crc64nvme of the whole content as the store keeps it, if it does: bytes that have another one are not the file's. Asked when the
    /// file was read; may be a request.
    fn crc64nvme(&self) -> Result<Option<u64>>;

    /// Says that the caller will read this range next, from its beginning to its end.
    fn expect(&self, _: std::ops::Range<u64>) {}
}

/// A file being written, under a temporary name. Shared by the threads that write its chunks; dropping it keeps the partial file.
pub trait Writer: Send + Sync {
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Reads back what was written, to verify a partial file before it is continued.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Ranges that survive this process although they cannot be read back, in order; only where [`Capabilities::reads_back`] is false.
    fn kept(&self) -> Vec<std::ops::Range<u64>> {
        Vec::new()
    }

    /// Removes the temporary file.
    fn abort(self: Box<Self>);

    /// For the store that made it, to get its own type back in [`Store::publish`].
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// What a store needs to know to make a file.
#[derive(Debug, Clone)]
pub struct NewFile {
    /// The final name.
    pub path: RelativePath,
    /// The final size in bytes.
    pub size: u64,
    /// Whether to leave holes where nothing is written.
    pub sparse: bool,
    /// What will be set on it when it is published, for stores that must know at the beginning.
    pub metadata: Metadata,
    /// The journal's key and the name of the partial file below it: `None` for a file that is written in one go.
    pub resume: Option<Partial>,
    /// Whether nothing is continued: what an earlier attempt left under that name without its journal knowing would show through holes.
    /// Stores without [`Capabilities::holes`] need not heed it, as all bytes are written there.
    pub fresh: bool,
    /// What will be asked for when it is published, for stores that look before they send what would be refused.
    pub overwrite: Overwrite,
}

impl NewFile {
    /// An empty file that is written in one go.
    pub fn of(path: RelativePath) -> Self {
        let (metadata, overwrite) = (Metadata::default(), Overwrite::Replace);
        Self { path, size: 0, sparse: false, metadata, resume: None, fresh: false, overwrite }
    }
}

/// Copies files inside one service, or from one to another, without their bytes passing through this machine.
pub trait Copier: Send + Sync {
    /// Copies the file at `from`, in the source's store, whole to its new name; answers with its crc64nvme if the service tells it.
    ///
    /// The service vouches for the bytes; the size is compared.
    fn copy(&self, from: &RelativePath, file: &NewFile, overwrite: Overwrite) -> Result<Option<u64>>;

    /// Ends waiting, as [`Store::interrupt`] does.
    fn interrupt(&self) {}

    /// As [`Store::watch`].
    fn watch(&self, _watcher: &RetryWatcher) {}
}

/// Names a partial file across processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    /// The key of the transfer's journal.
    pub key: String,
    /// A number unique below that key; from [`Partial::SMALL_FILES`] on, of a file that is written in one go.
    pub number: u64,
}

impl Partial {
    /// The least number of a small file: nobody goes on with what an interruption leaves of it.
    pub const SMALL_FILES: u64 = 1 << 63;
}

/// What is set on a file or directory when it is complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Modification time in nanoseconds since 1970; `None` leaves the present time.
    pub modified_ns: Option<i64>,
    /// Unix permission bits; `None` leaves the default of the process.
    pub mode: Option<u32>,
}

/// A written file on its way to its final name.
pub struct Publication {
    /// The writer that [`Store::create`] of the same store made.
    pub writer: Box<dyn Writer>,
    /// What to set on it.
    pub metadata: Metadata,
    /// What to do if the final name is taken.
    pub overwrite: Overwrite,
    /// crc64nvme of the content, for stores that compare it.
    pub crc64nvme: Option<u64>,
}

impl Publication {
    /// What replaces whatever file stands at the name of the writer.
    pub fn of(writer: Box<dyn Writer>) -> Self {
        Self { writer, metadata: Metadata::default(), overwrite: Overwrite::Replace, crc64nvme: None }
    }
}
