//! Requests about files outside a transfer, and their answers.

use minicbor::{Decode, Encode};

use super::{Failed, ItemFailed};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::frame::crc32c;

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
    /// Read a range of a file, as far as the file goes: answers are `Bytes`, the last one marked.
    #[n(5)]
    Read {
        /// The path; links are followed below the root.
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        /// The first byte.
        #[n(1)]
        offset: u64,
        /// How many; none asks only for the state of the file.
        #[n(2)]
        length: u64,
    },
    /// Give an entry another name; directories above it are made.
    #[n(6)]
    Rename {
        /// The name that it has.
        #[cbor(n(0), with = "minicbor::bytes")]
        from: Vec<u8>,
        /// The name that it gets.
        #[cbor(n(1), with = "minicbor::bytes")]
        to: Vec<u8>,
        /// 0 replace a file that stands there, 1 never.
        #[n(2)]
        overwrite: u8,
    },
    /// Write a small file whole; directories above it are made.
    #[n(7)]
    Write {
        /// The path.
        #[cbor(n(0), with = "minicbor::bytes")]
        path: Vec<u8>,
        /// All its bytes.
        #[cbor(n(1), with = "minicbor::bytes")]
        content: Vec<u8>,
        /// crc32c of the content.
        #[n(2)]
        crc32c: u32,
        /// 0 replace a file that stands there, 1 never.
        #[n(3)]
        overwrite: u8,
    },
    /// Copy a file to another name; directories above it are made.
    #[n(8)]
    Copy {
        /// The file.
        #[cbor(n(0), with = "minicbor::bytes")]
        from: Vec<u8>,
        /// The name of the copy.
        #[cbor(n(1), with = "minicbor::bytes")]
        to: Vec<u8>,
        /// 0 replace a file that stands there, 1 never.
        #[n(2)]
        overwrite: u8,
    },
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
    /// Some bytes of a range, behind those of the part before.
    #[n(4)]
    Bytes {
        /// The file, as it was before these bytes were read and still was afterwards.
        #[n(0)]
        state: FileState,
        /// The bytes.
        #[cbor(n(1), with = "minicbor::bytes")]
        bytes: Vec<u8>,
        /// Their crc32c.
        #[n(2)]
        crc32c: u32,
        /// Whether this is the last part.
        #[n(3)]
        last: bool,
    },
}

/// What tells the states of one file apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct FileState {
    /// Size in bytes.
    #[n(0)]
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    #[n(1)]
    pub modified_ns: Option<i64>,
    /// What changes when the file is replaced though size and time stay.
    #[n(2)]
    pub version: Option<u64>,
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

/// An error if bytes that came in a message are not those that were sent; `what` names them.
pub fn check_crc32c(bytes: &[u8], expected: u32, what: &str) -> Result<()> {
    if crc32c(bytes) == expected {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Corrupted, format!("could not trust {what}"))
        .with_cause("the bytes differ from their crc32c")
        .with_hint("if it happens often, check memory, network cards and their offloads"))
}
