//! Frames of a data stream: a fixed header of 72 bytes, little endian, then at most [`MAX_PAYLOAD`] bytes.

use crate::buffer::SLAB_SIZE;
use crate::error::Result;
use crate::protocol::message::FileHeader;

/// The largest payload of a frame.
pub const MAX_PAYLOAD: usize = SLAB_SIZE;

/// The length of an encoded header.
pub const HEADER_LENGTH: usize = 72;

/// Payload is absent: the `length` bytes from `offset` are all zero.
pub const FLAG_ZERO: u16 = 1;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Payload is a [`FileHeader`]: the first frame of each file on each stream.
    Open = 1,
    /// Payload is file bytes from `offset`.
    Data = 2,
    /// Payload is a sequence of small items, each a [`FileHeader`] and all its bytes.
    Pack = 3,
    /// The sender will send nothing more on this stream.
    Finish = 4,
    /// Keeps an idle stream alive.
    Ping = 5,
}

/// The header before every payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// What the payload is.
    pub kind: FrameKind,
    /// See [`FLAG_ZERO`]; unknown bits are refused.
    pub flags: u16,
    /// Bytes of payload, or of zeros that stand for it.
    pub length: u32,
    /// The file, as its [`FileHeader`] numbered it; 0 in a frame without one.
    pub file: u32,
    /// Counts the frames of this stream from 0, wrapping.
    pub sequence: u32,
    /// Where in the file the payload belongs: a multiple of [`MAX_PAYLOAD`].
    pub offset: u64,
    /// crc64nvme of the file bytes in the payload.
    pub crc64nvme: u64,
    /// BLAKE3 chaining value of the file bytes in the payload, at their offset; zeros if the transfer has no BLAKE3.
    pub blake3: [u8; 32],
    /// crc32c of the payload as it is on the wire.
    pub payload_crc32c: u32,
}

impl FrameHeader {
    /// A header without payload.
    pub fn empty(kind: FrameKind) -> Self {
        Self { kind, flags: 0, length: 0, file: 0, sequence: 0, offset: 0, crc64nvme: 0, blake3: [0; 32], payload_crc32c: 0 }
    }

    /// Bytes that follow the header on the wire.
    pub fn wire_length(&self) -> usize {
        if self.flags & FLAG_ZERO != 0 { 0 } else { self.length as usize }
    }

    /// Encodes the header, its own crc32c last.
    pub fn encode(&self) -> [u8; HEADER_LENGTH] {
        todo!("helper B")
    }

    /// Decodes and checks a header: kind, flags, lengths, offsets and its crc32c.
    pub fn decode(bytes: &[u8; HEADER_LENGTH]) -> Result<Self> {
        let _ = bytes;
        todo!("helper B")
    }

    /// Checks the payload that followed the header.
    pub fn verify(&self, payload: &[u8]) -> Result<()> {
        let _ = payload;
        todo!("helper B")
    }
}

/// Appends one item to the payload of a pack: its header's length (u32 little endian), its header, its bytes.
///
/// Returns false, and appends nothing, if it does not fit into `space` from `used` on.
pub fn pack_item(space: &mut [u8], used: &mut usize, header: &FileHeader, content: &[u8]) -> bool {
    let _ = (space, used, header, content);
    todo!("helper B")
}

/// Walks the items of a pack's payload; a malformed one ends the walk with an error.
pub fn pack_items(payload: &[u8]) -> impl Iterator<Item = Result<(FileHeader, &[u8])>> {
    let _ = payload;
    std::iter::from_fn(|| todo!("helper B"))
}
