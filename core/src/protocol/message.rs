//! Messages of the control connection: CBOR maps with numbered fields, length-prefixed, at most [`MAX_MESSAGE`] bytes.
//!
//! A field that is not known is skipped, so a minor version can add fields; a message that is not known is refused.

mod failed;
mod files;
mod have;
mod item;
mod meters;
mod parts;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::TransferId;

pub use failed::{Failed, ItemFailed};
pub use files::{Answer, FileState, Request, WireEntry, check_crc32c};
pub use have::{DoneKey, Have, PartialFile};
pub use item::{FileHeader, ItemKind, Skipped};
pub use meters::{ListedFiles, Meters, RateMeters, StageMeters, TcpMeters, Tune};
pub use parts::parts;

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
    /// Sender: every byte of these files is on a stream and their sources are unchanged; they may be published, if they have the
    /// crc64nvme that the source's store keeps of them, where it does and one file is named.
    #[n(3)]
    Close(#[n(0)] Vec<u32>, #[n(1)] Option<u64>),
    /// Sender: this file will not be completed under this number; the receiver drops what it has of it.
    #[n(4)]
    Abandon(#[n(0)] u32),
    /// Sender, to a mirror: path keys of items that the source has; they are not removed.
    #[n(5)]
    Keep(#[n(0)] Vec<Key>),
    /// Sender: every item is settled or closed. `intact` says whether all of them could be listed and read.
    #[n(6)]
    Finish(#[n(0)] bool),
    /// Receiver: acknowledgement, cumulative.
    #[n(7)]
    Ack(#[n(0)] Ack),
    /// Receiver: directories are set and the transfer is over; the answer to `Finish`.
    #[n(8)]
    Complete(#[n(0)] Complete),
    /// Server: the meters of its half.
    #[n(9)]
    Meters(#[n(0)] Meters),
    /// Caller: new sizes of the remote half's stages.
    #[n(10)]
    Tune(#[n(0)] Tune),
    /// Either side: the session fails as a whole.
    #[n(11)]
    Fail(#[n(0)] Failed),
    /// Sender: an item failed at the source. Receiver: it hands a file back, of which it keeps nothing, because its store could not write
    /// it to the end, or it has another crc64nvme than `Close` said; the sender begins it again under a new number, or says that it failed.
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
    /// Caller: it has heard `Complete`; nothing needs to be kept for another attempt.
    #[n(18)]
    Goodbye,
    /// Caller, in as many parts as needed before `Start`: the files and directories below its only root that it moves; nothing else of
    /// the source is looked at.
    #[n(19)]
    Choose(#[n(0)] Vec<ByteVec>),
}

/// 16 bytes of BLAKE3 that stand for a path, or a path with what identifies its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
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
    /// Random for each run of a caller: tells a caller that comes back from another one with the same transfer.
    #[n(7)]
    pub run: Key,
}

/// What a receiver half must know.
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
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
    /// Whether what arrives is thrown away instead of written: a transfer from memory to memory measures the path alone.
    #[cbor(n(9), skip_if = "std::ops::Not::not")]
    pub discard: bool,
    /// Whether nothing is kept for another attempt if this one ends early.
    #[cbor(n(10), skip_if = "std::ops::Not::not")]
    pub forget: bool,
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
    /// TCP congestion control of the streams; `None`: the system's.
    #[n(8)]
    pub congestion: Option<String>,
    /// Files that the sender makes up in memory, instead of what its store holds.
    #[n(9)]
    pub made_up: Option<MadeUp>,
    /// Which modification times the destination keeps: 0 exact ones, 1 whole seconds, 2 only those of writing.
    #[cbor(n(10), skip_if = "is_zero")]
    pub times: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that the derived encoder calls")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}

/// Files made up in memory: what `zero:COUNTxSIZE` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct MadeUp {
    /// How many.
    #[n(0)]
    pub count: u64,
    /// Bytes of each.
    #[n(1)]
    pub size: u64,
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
    /// For each stream that moved on: its number and how many of its frames, from the first, are settled: bytes written and
    /// journaled, packed items published or failed.
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

impl Message {
    /// Encodes the message without its length prefix.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_into(self, &mut bytes);
        bytes
    }

    /// Encodes the message as it goes on the wire: its length as u32 little endian, then itself.
    ///
    /// A sender of long lists cuts them by [`parts`]; the peer refuses what is longer than [`MAX_MESSAGE`].
    pub fn encode_with_length(&self) -> Vec<u8> {
        with_length(self)
    }

    /// Decodes one whole message; whatever the bytes, it neither panics nor allocates more than a small multiple of their length.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        decode_whole(bytes)
    }
}

/// Reads the length prefix of a message; refuses more than [`MAX_MESSAGE`].
pub fn read_length(prefix: [u8; 4]) -> Result<usize> {
    bounded_length(prefix, MAX_MESSAGE)
}

/// Reads a length prefix; refuses more than `limit`.
pub(crate) fn bounded_length(prefix: [u8; 4], limit: usize) -> Result<usize> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > limit {
        let cause = format!("it claims `{length}` bytes, more than `{limit}`");
        return Err(Error::new(ErrorKind::Protocol, "could not read a message of the peer")
            .with_cause(cause)
            .with_hint("check that the peer is an edt server or client and that nothing else uses the port"));
    }
    Ok(length)
}

/// Encodes a message behind its length.
pub(crate) fn with_length(message: &impl Encode<()>) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    encode_into(message, &mut bytes);
    let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn encode_into(message: &impl Encode<()>, bytes: &mut Vec<u8>) {
    minicbor::encode(message, bytes).expect("writing to memory cannot fail");
}

/// Decodes a message and refuses bytes behind it.
pub(crate) fn decode_whole<'b, M: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<M> {
    let mut decoder = minicbor::Decoder::new(bytes);
    let refused = || {
        Error::new(ErrorKind::Protocol, "could not understand a message of the peer")
            .with_hint("check that both sides run the same version of edt")
    };
    let message = decoder.decode().map_err(|cause| refused().with_cause(cause))?;
    if decoder.position() != bytes.len() {
        return Err(refused().with_cause(format!("`{}` bytes follow it", bytes.len() - decoder.position())));
    }
    Ok(message)
}
