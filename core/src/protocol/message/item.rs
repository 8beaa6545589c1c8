//! The description of an item, as it travels before its bytes.

use minicbor::{Decode, Encode};

use super::Key;

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
    /// The path in the sender's store, if the services copy the file between them: none of its bytes travel. Only within one process.
    #[cbor(n(11), with = "minicbor::bytes")]
    pub copy_from: Option<Vec<u8>>,
}

impl FileHeader {
    /// Bytes of content that follow this header in a pack.
    pub fn packed_length(&self) -> u64 {
        if self.copy_from.is_some() { 0 } else { self.size }
    }
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

/// A file that needs no bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
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
    /// Modification time, nanoseconds since 1970.
    #[n(3)]
    pub modified_ns: Option<i64>,
    /// Unix permission bits.
    #[n(4)]
    pub mode: Option<u32>,
    /// crc64nvme of its content, if an earlier attempt of this transfer published it.
    #[n(5)]
    pub crc64nvme: Option<u64>,
    /// BLAKE3 of its content, likewise.
    #[cbor(n(6), with = "minicbor::bytes")]
    pub blake3: Option<[u8; 32]>,
}

#[cfg(test)]
impl FileHeader {
    /// The header of a plain file named after its number.
    pub(crate) fn of_a_test(number: u32, size: u64) -> Self {
        Self {
            file: number,
            path: format!("file {number}").into_bytes(),
            kind: ItemKind::File,
            size,
            modified_ns: None,
            mode: None,
            identity: Key([0; 16]),
            target: None,
            crc64nvme: 0,
            blake3: None,
            sparse: false,
            copy_from: None,
        }
    }
}
