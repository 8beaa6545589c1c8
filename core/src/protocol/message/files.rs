//! Requests about files outside a transfer, and their answers.

use minicbor::{Decode, Encode};

use super::{Failed, ItemFailed};

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
