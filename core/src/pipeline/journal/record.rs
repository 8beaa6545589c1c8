//! Records of a journal, and their bytes.

use minicbor::{Decode, Encode};

use crate::path::RelativePath;
use crate::protocol::TransferId;
use crate::protocol::frame::crc32c;
use crate::protocol::message::Key;

/// Bytes of the header.
pub(super) const HEADER_LENGTH: usize = 28;

/// The longest body of a record; a path is at most 4096 bytes.
pub(super) const MAX_BODY: usize = 8 << 10;

pub(super) const VERSION: u8 = 3;

const MAGIC: [u8; 4] = *b"EDTJ";

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Record {
    /// A partial file was begun; an earlier one for the same path counts no more.
    #[n(0)]
    Begin {
        /// Its number below the key of the journal.
        #[n(0)]
        number: u64,
        /// Its final name.
        #[cbor(n(1), with = "path_bytes")]
        path: RelativePath,
        /// Its final size in bytes.
        #[n(2)]
        size: u64,
        /// Key of the source that the bytes come from.
        #[n(3)]
        identity: Key,
        /// Whether holes are left where nothing is written.
        #[n(4)]
        sparse: bool,
    },
    /// A range of a partial file was verified and written.
    #[n(1)]
    Range {
        /// The file.
        #[n(0)]
        number: u64,
        /// Begin in bytes.
        #[n(1)]
        offset: u64,
        /// Bytes, at least one.
        #[n(2)]
        length: u64,
        /// Digest of the range, to check it before it is built on.
        #[n(3)]
        crc64nvme: u64,
    },
    /// A file is complete under its final name.
    #[n(2)]
    Done(#[n(0)] DoneRecord),
    /// A partial file was given up.
    #[n(3)]
    Forget {
        /// Its number.
        #[n(0)]
        number: u64,
    },
    /// A block was verified and handed to a store that cannot read it back; it counts if the store says later that it kept it.
    #[n(4)]
    Block {
        /// The file.
        #[n(0)]
        number: u64,
        /// The block.
        #[n(1)]
        block: BlockRecord,
    },
    /// A partial file is whole and about to get its final name. [`Record::Done`] follows when it has it; if none does, it may have it or not.
    #[n(5)]
    Publish {
        /// Its number.
        #[n(0)]
        number: u64,
        /// What it is under its final name.
        #[n(1)]
        file: DoneRecord,
    },
}

/// A block of a partial file, with digests that its bytes need not be read for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct BlockRecord {
    /// Begin in bytes.
    #[n(0)]
    pub offset: u64,
    /// Bytes, at least one.
    #[n(1)]
    pub length: u64,
    /// crc64nvme of the block.
    #[n(2)]
    pub crc64nvme: u64,
    /// Chaining value of BLAKE3 of the block.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub blake3: [u8; 32],
}

/// A file that is complete under its final name.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DoneRecord {
    /// Its name.
    #[cbor(n(0), with = "path_bytes")]
    pub path: RelativePath,
    /// Key of the source that the bytes came from.
    #[n(1)]
    pub identity: Key,
    /// Its size in bytes.
    #[n(2)]
    pub size: u64,
    /// Its modification time in nanoseconds since 1970.
    #[n(3)]
    pub modified_ns: Option<i64>,
    /// crc64nvme of its content.
    #[n(4)]
    pub crc64nvme: u64,
    /// BLAKE3 of its content, if the transfer had it.
    #[cbor(n(5), with = "minicbor::bytes")]
    pub blake3: Option<[u8; 32]>,
}

pub(super) fn encode_header(transfer: TransferId) -> [u8; HEADER_LENGTH] {
    let mut bytes = [0; HEADER_LENGTH];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    bytes[8..24].copy_from_slice(&transfer.0);
    let crc = crc32c(&bytes[..24]);
    bytes[24..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The version and transfer of a header; `None` if it is none.
pub(super) fn decode_header(bytes: &[u8; HEADER_LENGTH]) -> Option<(u8, TransferId)> {
    let (fields, crc) = bytes.split_at(24);
    let mut transfer = [0; 16];
    transfer.copy_from_slice(&fields[8..]);
    (fields[..4] == MAGIC && crc == crc32c(fields).to_le_bytes()).then_some((bytes[4], TransferId(transfer)))
}

pub(super) fn encode_record(record: &Record, bytes: &mut Vec<u8>) {
    let begin = bytes.len();
    bytes.extend([0; 4]);
    minicbor::encode(record, &mut *bytes).expect("writing to memory cannot fail");
    let length = u32::try_from(bytes.len() - begin - 4).unwrap_or(u32::MAX);
    bytes[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
    let crc = crc32c(&bytes[begin..]);
    bytes.extend(crc.to_le_bytes());
}

/// The record in a length with the body it announces, if their checksum and their form are right.
pub(super) fn decode_record(bytes: &[u8], crc: [u8; 4]) -> Option<Record> {
    (crc32c(bytes).to_le_bytes() == crc).then(|| minicbor::decode(bytes.get(4..)?).ok()).flatten()
}

/// Paths as CBOR byte strings, checked when they come in.
mod path_bytes {
    use minicbor::decode::{self, Decoder};
    use minicbor::encode::{self, Encoder, Write};

    use crate::path::RelativePath;

    pub(super) fn encode<C, W: Write>(path: &RelativePath, e: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        e.bytes(path.as_bytes())?.ok()
    }

    pub(super) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<RelativePath, decode::Error> {
        RelativePath::from_bytes(d.bytes()?).map_err(decode::Error::message)
    }
}
