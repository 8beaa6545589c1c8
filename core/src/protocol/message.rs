//! Messages of the control connection: CBOR maps with numbered fields, length-prefixed, at most [`MAX_MESSAGE`] bytes.
//!
//! A field that is not known is skipped, so a minor version can add fields; a message that is not known is refused.

use minicbor::{Decode, Encode};

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::TransferId;

/// The longest encoded message.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Everything that is said on a control connection after the handshake, and between two halves in one process.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Message {
    /// Caller: begin the transfer of this session.
    #[n(0)]
    Start(#[n(0)] Start),
    /// Receiver: what it already has, in as many parts as needed; the sender begins after the last.
    #[n(1)]
    Have(#[n(0)] Have),
    /// Sender: what listing found so far.
    #[n(2)]
    Listed(#[n(0)] Listed),
    /// Sender: these files were read to their end and their sources had not changed; they may be published.
    #[n(3)]
    Close(#[n(0)] Vec<u32>),
    /// Sender: this file will not be completed; the receiver drops what it has of it.
    #[n(4)]
    Abandon(#[n(0)] u32),
    /// Sender: keys of items that are not sent because the receiver has them; a mirroring receiver must keep them.
    #[n(5)]
    Keep(#[n(0)] Vec<Key>),
    /// Sender: everything was sent and acknowledged. `intact` says whether every source item could be listed and read.
    #[n(6)]
    Finish(#[n(0)] bool),
    /// Receiver: acknowledgement, cumulative.
    #[n(7)]
    Ack(#[n(0)] Ack),
    /// Receiver: directories are set, journals removed; the answer to `Finish`.
    #[n(8)]
    Complete(#[n(0)] Complete),
    /// Either half of a remote peer: its meters.
    #[n(9)]
    Meters(#[n(0)] Meters),
    /// Caller: new sizes of the remote half's stages.
    #[n(10)]
    Tune(#[n(0)] Tune),
    /// Either side: the session fails as a whole.
    #[n(11)]
    Fail(#[n(0)] Failed),
    /// Sender: an item failed at the source.
    #[n(12)]
    ItemFailed(#[n(0)] ItemFailed),
    /// Either side, when it said nothing else for a while.
    #[n(13)]
    Ping,
    /// Caller: a request about files, outside a transfer.
    #[n(14)]
    Request(#[n(0)] Request),
    /// Server: answer to a request, in as many parts as needed.
    #[n(15)]
    Answer(#[n(0)] Answer),
    /// Sender: something temporary at the source, for the caller's events.
    #[n(16)]
    Retried(#[n(0)] ItemFailed),
    /// Sender: files were left out because the receiver has them, or because this is a dry run.
    #[n(17)]
    Skipped(#[n(0)] Vec<Skipped>),
}

/// 16 bytes of BLAKE3 that stand for a path, or a path with what identifies its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Key(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 16]);

/// Which way the bytes go, seen from the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Direction {
    /// From the caller to the server.
    #[n(0)]
    Upload,
    /// From the server to the caller.
    #[n(1)]
    Download,
}

/// Begins a transfer.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Start {
    /// Which way.
    #[n(0)]
    pub direction: Direction,
    /// The transfer, for resuming.
    #[n(1)]
    pub transfer: TransferId,
    /// Upload: the destination, relative to the server's root. Download: nothing.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub destination: Vec<u8>,
    /// Upload: how the destination is meant and what to do with what is there.
    #[n(3)]
    pub receive: ReceiveOptions,
    /// Download: what to send.
    #[n(4)]
    pub send: SendOptions,
    /// Stage sizes to begin with.
    #[n(5)]
    pub tune: Tune,
    /// Bytes that the server's half may hold in buffers, if less than its own limit.
    #[n(6)]
    pub buffer: u64,
}

/// What a receiver half must know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ReceiveOptions {
    /// The source is one file of this name; the destination is its name, or a directory if one stands there or `into` says so.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub file_name: Option<Vec<u8>>,
    /// The destination was written as a directory (with a trailing slash).
    #[n(1)]
    pub into: bool,
    /// 0 all, 1 changed only, 2 mirror.
    #[n(2)]
    pub selection: u8,
    /// 0 replace, 1 never.
    #[n(3)]
    pub overwrite: u8,
    /// 0 none, 1 file, 2 full.
    #[n(4)]
    pub fsync: u8,
    /// 0 none, 1 BLAKE3.
    #[n(5)]
    pub digest: u8,
    /// Patterns that a mirror leaves alone at the destination, as the filter of the source.
    #[n(6)]
    pub include: Vec<String>,
    /// Likewise.
    #[n(7)]
    pub exclude: Vec<String>,
    /// Whether nothing may be changed.
    #[n(8)]
    pub dry_run: bool,
}

/// What a sender half must know.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct SendOptions {
    /// What to send: roots in the sender's store and where each goes below the destination.
    #[n(0)]
    pub roots: Vec<Root>,
    /// Patterns of which a file must match one.
    #[n(1)]
    pub include: Vec<String>,
    /// Patterns to leave out.
    #[n(2)]
    pub exclude: Vec<String>,
    /// 0 keep, 1 follow, 2 skip.
    #[n(3)]
    pub symlinks: u8,
    /// 0 none, 1 BLAKE3.
    #[n(4)]
    pub digest: u8,
    /// Bytes of a chunk; `None`: by measured throughput.
    #[n(5)]
    pub chunk_size: Option<u64>,
    /// Most bytes per second of the whole transfer.
    #[n(6)]
    pub limit_rate: Option<f64>,
    /// Whether the work is only listed.
    #[n(7)]
    pub dry_run: bool,
}

/// One source and where it goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Root {
    /// A file or directory of the sender's store; may end in a pattern (`*`, `?`, `[`, `{`) in its last components.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub path: Vec<u8>,
    /// Where its content (directory) or itself (file) goes, relative to the destination; empty: the destination itself.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub prefix: Vec<u8>,
}

/// What the receiver already has.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Have {
    /// Keys (path, size, mtime, version) of files that an earlier attempt of this transfer published.
    #[n(0)]
    pub done: Vec<Key>,
    /// Keys (path, size, mtime) of files that stand at the destination, when only changed files are wanted.
    #[n(1)]
    pub present: Vec<Key>,
    /// Partial files.
    #[n(2)]
    pub partial: Vec<PartialFile>,
    /// Whether this is the last part.
    #[n(3)]
    pub last: bool,
    /// The destination as the receiver resolved it, in the last part: for people.
    #[n(4)]
    pub resolved: Option<String>,
}

/// Verified ranges of a partial file.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct PartialFile {
    /// Key of the path alone.
    #[n(0)]
    pub path: Key,
    /// Key of path, size, mtime and version of the source that the bytes came from.
    #[n(1)]
    pub identity: Key,
    /// Begin and end of each verified range, in order.
    #[n(2)]
    pub ranges: Vec<(u64, u64)>,
}

/// The description of a file that travels before its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct FileHeader {
    /// Numbers the items of a session densely from 1.
    #[n(0)]
    pub file: u32,
    /// The name below the destination; empty for the destination itself.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub path: Vec<u8>,
    /// What it is.
    #[n(2)]
    pub kind: ItemKind,
    /// Size in bytes.
    #[n(3)]
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    #[n(4)]
    pub modified_ns: Option<i64>,
    /// Unix permission bits.
    #[n(5)]
    pub mode: Option<u32>,
    /// Key of path, size, mtime and version of the source.
    #[n(6)]
    pub identity: Key,
    /// Target of a symbolic link.
    #[cbor(n(7), with = "minicbor::bytes")]
    pub target: Option<Vec<u8>>,
    /// In a pack: crc64nvme of the content.
    #[n(8)]
    pub crc64nvme: u64,
    /// In a pack: BLAKE3 of the content, if the transfer has it.
    #[cbor(n(9), with = "minicbor::bytes")]
    pub blake3: Option<[u8; 32]>,
    /// Whether the source has holes.
    #[n(10)]
    pub sparse: bool,
}

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ItemKind {
    /// A regular file.
    #[n(0)]
    File,
    /// A directory.
    #[n(1)]
    Directory,
    /// A symbolic link.
    #[n(2)]
    Symlink,
}

/// What listing found so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Listed {
    /// Items found.
    #[n(0)]
    pub items: u64,
    /// Bytes of the files found.
    #[n(1)]
    pub bytes: u64,
    /// Whether listing is complete.
    #[n(2)]
    pub complete: bool,
}

/// Cumulative acknowledgement.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Ack {
    /// For each stream that moved on: its number and how many of its frames, from the first, are written and journaled.
    #[n(0)]
    pub streams: Vec<(u16, u32)>,
    /// Items that are complete under their final names.
    #[n(1)]
    pub done: Vec<DoneItem>,
    /// Items that failed at the receiver.
    #[n(2)]
    pub failed: Vec<ItemFailed>,
    /// Streams that broke at the receiver: what they had not acknowledged must be sent again.
    #[n(3)]
    pub lost: Vec<u16>,
}

/// A complete item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DoneItem {
    /// Its number.
    #[n(0)]
    pub file: u32,
    /// crc64nvme of its content.
    #[n(1)]
    pub crc64nvme: u64,
    /// BLAKE3 of its content.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub blake3: Option<[u8; 32]>,
}

/// The end of a receiver half.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Complete {
    /// Items that a mirror removed.
    #[n(0)]
    pub removed: u64,
    /// Failures of the last steps: directory metadata, removals.
    #[n(1)]
    pub failed: Vec<ItemFailed>,
}

/// Cumulative meters of one half.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Meters {
    /// Microseconds on the half's own monotonic clock.
    #[n(0)]
    pub at_us: u64,
    /// Read stage, if the half is a sender.
    #[n(1)]
    pub read: StageMeters,
    /// Network stage at this half.
    #[n(2)]
    pub network: StageMeters,
    /// Write stage, if the half is a receiver.
    #[n(3)]
    pub write: StageMeters,
    /// Free bytes of the half's buffer.
    #[n(4)]
    pub buffer_free: u64,
    /// Size of the half's buffer.
    #[n(5)]
    pub buffer_capacity: u64,
    /// Sums over streams that this half sends on, if the system tells.
    #[n(6)]
    pub tcp: Option<TcpMeters>,
    /// Bytes planned and not yet sent; `None` while listing goes on, or at a receiver.
    #[n(7)]
    pub bytes_left: Option<u64>,
    /// Items planned and not yet sent.
    #[n(8)]
    pub files_left: Option<u64>,
    /// Bytes put on streams by a sender half.
    #[n(9)]
    pub bytes_sent: u64,
}

/// Cumulative meters of one stage of one half.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StageMeters {
    /// Bytes out of the stage.
    #[n(0)]
    pub bytes: u64,
    /// Worker-microseconds spent working.
    #[n(1)]
    pub busy_us: u64,
    /// Worker-microseconds in existence: its growth over time is the applied concurrency.
    #[n(2)]
    pub workers_us: u64,
    /// Workers at present.
    #[n(3)]
    pub workers: u16,
}

/// Cumulative TCP counters over the streams that a half sends on, closed ones included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TcpMeters {
    /// Data segments sent.
    #[n(0)]
    pub segments: u64,
    /// Segments sent again.
    #[n(1)]
    pub retransmitted: u64,
    /// Smoothed round trip time in microseconds, averaged over open streams.
    #[n(2)]
    pub rtt_us: u64,
    /// Sum of the delivery rates of open streams, bytes per second.
    #[n(3)]
    pub delivery_rate: u64,
}

/// Sizes of stages; `None` leaves one as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Tune {
    /// Read workers.
    #[n(0)]
    pub read: Option<u16>,
    /// Streams.
    #[n(1)]
    pub network: Option<u16>,
    /// Write workers.
    #[n(2)]
    pub write: Option<u16>,
    /// Chunks of one file in flight.
    #[n(3)]
    pub parallelism: Option<u16>,
    /// Unacknowledged chunks of a stream.
    #[n(4)]
    pub pipelining: Option<u16>,
}

/// A failure of a whole session.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Failed {
    /// [`ErrorKind::code`].
    #[n(0)]
    pub kind: u8,
    /// What failed and where.
    #[n(1)]
    pub what: String,
    /// Why.
    #[n(2)]
    pub cause: Option<String>,
    /// What to do.
    #[n(3)]
    pub hint: Option<String>,
}

/// A failure of one item.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ItemFailed {
    /// Its number; 0 if it never got one.
    #[n(0)]
    pub file: u32,
    /// Its name below the destination.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub path: Vec<u8>,
    /// The failure.
    #[n(2)]
    pub failed: Failed,
}

/// A file that needs no bytes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Skipped {
    /// Its name below the destination.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub path: Vec<u8>,
    /// Its size in bytes.
    #[n(1)]
    pub size: u64,
    /// Whether it would be sent if this were no dry run.
    #[n(2)]
    pub wanted: bool,
}

/// A request about files.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// Stream the entries below a path: answers are `Entries`, the last one marked.
    #[n(0)]
    List {
        /// The path.
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        /// Whether to descend.
        #[n(1)]
        tree: bool,
    },
    /// Describe one entry.
    #[n(1)]
    Stat(#[cbor(n(0), with = "minicbor::bytes")] Vec<u8>),
    /// Remove an entry, with all below it if `tree`.
    #[n(2)]
    Remove {
        /// The path.
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        /// Whether to remove what is below a directory.
        #[n(1)]
        tree: bool,
    },
    /// Make a directory and those above it.
    #[n(3)]
    CreateDirectory(#[cbor(n(0), with = "minicbor::bytes")] Vec<u8>),
    /// Read a file and answer with its size and digests.
    #[n(4)]
    Digest(#[cbor(n(0), with = "minicbor::bytes")] Vec<u8>),
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Answer {
    /// Entries of a listing.
    #[n(0)]
    Entries {
        /// Some entries, in the listing's order.
        #[n(0)]
        entries: Vec<WireEntry>,
        /// Entries that could not be read.
        #[n(1)]
        failed: Vec<ItemFailed>,
        /// Whether this is the last part.
        #[n(2)]
        last: bool,
    },
    /// It was done.
    #[n(1)]
    Done,
    /// It could not be done.
    #[n(2)]
    Failed(#[n(0)] Failed),
    /// Digests of a file.
    #[n(3)]
    Digests {
        /// Size in bytes.
        #[n(0)]
        size: u64,
        /// crc64nvme.
        #[n(1)]
        crc64nvme: u64,
        /// BLAKE3.
        #[cbor(n(2), with = "minicbor::bytes")]
        blake3: [u8; 32],
    },
}

/// An entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WireEntry {
    /// The name, relative to the server's root.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub path: Vec<u8>,
    /// 0 file, 1 directory, 2 symbolic link, 3 other.
    #[n(1)]
    pub kind: u8,
    /// Size in bytes.
    #[n(2)]
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    #[n(3)]
    pub modified_ns: Option<i64>,
    /// Unix permission bits.
    #[n(4)]
    pub mode: Option<u32>,
    /// Target of a symbolic link.
    #[cbor(n(5), with = "minicbor::bytes")]
    pub target: Option<Vec<u8>>,
}

impl Message {
    /// Encodes the message without its length prefix.
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to memory cannot fail")
    }

    /// Decodes one whole message; whatever the bytes, it neither panics nor allocates more than a small multiple of their length.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        minicbor::decode(bytes).map_err(|cause| {
            Error::new(ErrorKind::Protocol, "could not understand a message of the peer").with_cause(cause)
        })
    }
}

impl From<&Error> for Failed {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind().code(),
            what: error.what().to_owned(),
            cause: error.cause().map(str::to_owned),
            hint: error.hint().map(str::to_owned),
        }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        let mut error = Self::new(ErrorKind::from_code(failed.kind), failed.what);
        if let Some(cause) = failed.cause {
            error = error.with_cause(cause);
        }
        if let Some(hint) = failed.hint {
            error = error.with_hint(hint);
        }
        error
    }
}
