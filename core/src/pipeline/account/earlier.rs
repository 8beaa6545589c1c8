//! What earlier attempts of this process came to: the present one finds it at the destination, and it counts once.

use std::collections::HashSet;

use crate::path::RelativePath;
use crate::plan::key;
use crate::protocol::message::Key;

/// Published files whose paths are kept, in some 70 MB; those beyond are only counted.
const PATHS_KEPT: usize = 3_500_000;

#[derive(Default)]
pub(super) struct Earlier {
    /// The paths of published files.
    published: HashSet<Key>,
    /// How many were published beyond those, and how many of these the present attempt has yet to meet.
    beyond: u64,
    unmet: u64,
    /// Bytes that were counted of files that were not published, as far as the present attempt has not found them.
    bytes: u64,
}

impl Earlier {
    /// Another attempt begins, which will find so many bytes of files that were not published.
    pub(super) fn restart(&mut self, bytes: u64) {
        (self.unmet, self.bytes) = (self.beyond, bytes);
    }

    /// A file was published.
    pub(super) fn publish(&mut self, path: &[u8]) {
        let path = key_of(path);
        if self.published.len() < PATHS_KEPT {
            self.published.insert(path);
        } else if !self.published.contains(&path) {
            self.beyond += 1;
        }
    }

    /// Whether a file that is there was published by an earlier attempt; each such file is met once.
    pub(super) fn has_published(&mut self, path: &[u8]) -> bool {
        if self.published.contains(&key_of(path)) {
            return true;
        }
        let unmet = self.unmet;
        self.unmet = unmet.saturating_sub(1);
        unmet > 0
    }

    /// What of so many bytes that were found there has not been counted.
    pub(super) fn found(&mut self, bytes: u64) -> u64 {
        let counted = self.bytes.min(bytes);
        self.bytes -= counted;
        bytes - counted
    }
}

fn key_of(path: &[u8]) -> Key {
    key::of_path(&RelativePath::from_bytes(path).unwrap_or_default())
}
