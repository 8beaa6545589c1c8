//! Frames of a data stream: a fixed header of 72 bytes, little endian, then at most [`MAX_PAYLOAD`] bytes.

use crate::buffer::SLAB_SIZE;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::message::FileHeader;

/// The largest payload of a frame.
pub const MAX_PAYLOAD: usize = SLAB_SIZE;

/// The length of an encoded header.
pub const HEADER_LENGTH: usize = 72;

const FRAME_VERSION: u8 = 1;

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
        let mut bytes = [0; HEADER_LENGTH];
        bytes[0] = FRAME_VERSION;
        bytes[1] = self.kind as u8;
        bytes[2..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.file.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.crc64nvme.to_le_bytes());
        bytes[32..64].copy_from_slice(&self.blake3);
        bytes[64..68].copy_from_slice(&self.payload_crc32c.to_le_bytes());
        let crc = crc32c(&bytes[..68]);
        bytes[68..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes and checks a header: its crc32c first, then version, kind, flags, lengths and offsets.
    pub fn decode(bytes: &[u8; HEADER_LENGTH]) -> Result<Self> {
        let mut fields = Fields(bytes);
        let version = fields.next::<1>()[0];
        let kind = fields.next::<1>()[0];
        let header = Self {
            kind: FrameKind::from_number(kind).unwrap_or(FrameKind::Ping),
            flags: u16::from_le_bytes(fields.next()),
            length: u32::from_le_bytes(fields.next()),
            file: u32::from_le_bytes(fields.next()),
            sequence: u32::from_le_bytes(fields.next()),
            offset: u64::from_le_bytes(fields.next()),
            crc64nvme: u64::from_le_bytes(fields.next()),
            blake3: fields.next(),
            payload_crc32c: u32::from_le_bytes(fields.next()),
        };
        if u32::from_le_bytes(fields.next()) != crc32c(&bytes[..68]) {
            return Err(corrupted("header of a frame"));
        }
        if version != FRAME_VERSION {
            return Err(refused(&format!("its version is `{version}`, not `{FRAME_VERSION}`")));
        }
        if FrameKind::from_number(kind).is_none() {
            return Err(refused(&format!("its kind `{kind}` is unknown")));
        }
        header.check().map(|()| header)
    }

    fn check(&self) -> Result<()> {
        if self.flags & !FLAG_ZERO != 0 {
            return Err(refused(&format!("it has unknown flags `{:#06x}`", self.flags)));
        }
        if self.length as usize > MAX_PAYLOAD {
            return Err(refused(&format!("it claims `{}` bytes of payload, more than `{MAX_PAYLOAD}`", self.length)));
        }
        if self.flags & FLAG_ZERO != 0 && self.kind != FrameKind::Data {
            return Err(refused("only file bytes can be zeros without payload"));
        }
        if self.length > 0 && matches!(self.kind, FrameKind::Finish | FrameKind::Ping) {
            return Err(refused("a frame of its kind has no payload"));
        }
        if self.kind == FrameKind::Data && !self.offset.is_multiple_of(MAX_PAYLOAD as u64) {
            return Err(refused(&format!("its offset `{}` is no multiple of `{MAX_PAYLOAD}`", self.offset)));
        }
        if self.offset.checked_add(u64::from(self.length)).is_none() {
            return Err(refused(&format!("its range of `{}` bytes from `{}` has no end", self.length, self.offset)));
        }
        Ok(())
    }

    /// Checks the payload that followed the header: its length and its crc32c.
    pub fn verify(&self, payload: &[u8]) -> Result<()> {
        if payload.len() != self.wire_length() {
            let cause = format!("its payload has `{}` bytes instead of `{}`", payload.len(), self.wire_length());
            return Err(refused(&cause));
        }
        if crc32c(payload) != self.payload_crc32c {
            return Err(corrupted(&format!(
                "payload of frame `{}` (file `{}`, offset `{}`)",
                self.sequence, self.file, self.offset
            )));
        }
        Ok(())
    }
}

impl FrameKind {
    fn from_number(number: u8) -> Option<Self> {
        [Self::Open, Self::Data, Self::Pack, Self::Finish, Self::Ping].into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Takes the fields of a header one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn next<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().expect("the fields add up to the length of a header");
        self.0 = rest;
        *field
    }
}

/// CRC-32C (Castagnoli, iSCSI) of bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Appends one item to the payload of a pack: its header's length (u32 little endian), its header, its bytes.
///
/// `content` has exactly the length that the header says. Returns false, and appends nothing, if it does not fit into `space` from
/// `used` on; bytes of `space` beyond `used` are then arbitrary.
pub fn pack_item(space: &mut [u8], used: &mut usize, header: &FileHeader, content: &[u8]) -> bool {
    if content.len() as u64 != header.packed_length() {
        return false;
    }
    let Some((length, rest)) = space.get_mut(*used..).and_then(<[u8]>::split_first_chunk_mut) else { return false };
    let mut cursor = minicbor::encode::write::Cursor::new(rest);
    if minicbor::encode(header, &mut cursor).is_err() {
        return false;
    }
    let header_length = cursor.position();
    let Some(place) = cursor.into_inner().get_mut(header_length..header_length + content.len()) else { return false };
    let Ok(header_length) = u32::try_from(header_length) else { return false };
    place.copy_from_slice(content);
    *length = header_length.to_le_bytes();
    *used += length.len() + header_length as usize + content.len();
    true
}

/// Walks the items of a pack's payload; a malformed one ends the walk with an error.
pub fn pack_items(payload: &[u8]) -> PackItems<'_> {
    PackItems { rest: payload }
}

/// The items of a pack, as [`pack_items`] finds them.
#[derive(Debug, Clone)]
pub struct PackItems<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for PackItems<'a> {
    type Item = Result<(FileHeader, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (item, rest) = match split_item(self.rest) {
            Ok((item, rest)) => (Ok(item), rest),
            Err(error) => (Err(error), &[][..]),
        };
        self.rest = rest;
        Some(item)
    }
}

/// An item of a pack: its header and its bytes.
type Item<'a> = (FileHeader, &'a [u8]);

fn split_item(bytes: &[u8]) -> Result<(Item<'_>, &[u8])> {
    let cut = || refused("an item of its pack is cut off");
    let (length, rest) = bytes.split_first_chunk().ok_or_else(cut)?;
    let (header, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(cut)?;
    let header = decode_file_header(header)?;
    let size = usize::try_from(header.packed_length()).map_err(|_| cut())?;
    let (content, rest) = rest.split_at_checked(size).ok_or_else(cut)?;
    Ok(((header, content), rest))
}

/// Decodes the payload of an `Open` frame.
pub fn decode_file_header(payload: &[u8]) -> Result<FileHeader> {
    minicbor::decode(payload).map_err(|cause| refused(&format!("the description of a file in it is malformed: {cause}")))
}

fn refused(cause: &str) -> Error {
    Error::new(ErrorKind::Protocol, "could not use a frame of the peer")
        .with_cause(cause)
        .with_hint("check that both sides run the same version of edt and that nothing else uses the port")
}

fn corrupted(place: &str) -> Error {
    Error::new(ErrorKind::Corrupted, format!("could not trust the {place}"))
        .with_cause("its bytes differ from their crc32c")
        .with_hint("it is sent again; if it happens often, check memory, network cards and their offloads")
}
