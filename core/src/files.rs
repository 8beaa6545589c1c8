//! Looking at and removing files of any endpoint: what `edt ls`, `stat`, `rm` and `verify` stand on.

use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::options::TransferOptions;
use crate::path::RelativePath;
use crate::store::{Depth, Entry};

/// An endpoint, connected: one session serves all calls, one after the other. Paths in answers are relative to the endpoint.
pub struct Files {}

/// Size and digests of a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    /// Size in bytes.
    pub size: u64,
    /// crc64nvme as 16 hexadecimal digits.
    pub crc64nvme: String,
    /// BLAKE3 as 64 hexadecimal digits.
    pub blake3: String,
}

impl Files {
    /// Connects to an endpoint; of the options, those of security count.
    pub fn open(endpoint: &Endpoint, options: &TransferOptions) -> Result<Self> {
        let _ = (endpoint, options);
        todo!()
    }

    /// Streams the entries below the endpoint (its direct children, or everything); a file yields itself with an empty path.
    pub fn list(&mut self, depth: Depth) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send + '_>> {
        let _ = depth;
        todo!()
    }

    /// Describes the entry at `path` below the endpoint; the root path is the endpoint itself.
    pub fn stat(&mut self, path: &RelativePath) -> Result<Entry> {
        let _ = path;
        todo!()
    }

    /// Removes the entry at `path` below the endpoint.
    pub fn remove(&mut self, path: &RelativePath, depth: Depth) -> Result<()> {
        let _ = (path, depth);
        todo!()
    }

    /// Reads the file at `path`, where it lives, and answers with its digests.
    pub fn digests(&mut self, path: &RelativePath) -> Result<Digests> {
        let _ = path;
        todo!()
    }
}
