//! What a receiver has from earlier attempts.

use minicbor::{Decode, Encode};

use super::Key;

/// What the receiver already has.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Have {
    /// Files that an earlier attempt of this transfer published.
    #[n(0)]
    pub done: Vec<DoneKey>,
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
    /// When each file of `present` was written, in nanoseconds since 1970, where that is all that the destination knows of times.
    #[n(5)]
    pub written: Option<Vec<i64>>,
    /// In the last part: whether the receiver may hand back a file that its store could not write to the end, to be begun again.
    #[n(6)]
    pub hands_back: Option<bool>,
    /// In the last part: whether the source, one file, goes into the destination and not under its name.
    #[n(7)]
    pub inside: Option<bool>,
    /// Keys of the paths of files and links that stand at the destination, on a dry run where none of them is to be replaced.
    #[n(8)]
    pub taken: Option<Vec<Key>>,
}

/// A file that an earlier attempt published, with the digests that it was published with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DoneKey {
    /// Key of path, size, mtime and version of the source.
    #[n(0)]
    pub key: Key,
    /// crc64nvme of its content.
    #[n(1)]
    pub crc64nvme: u64,
    /// BLAKE3 of its content.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub blake3: Option<[u8; 32]>,
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
