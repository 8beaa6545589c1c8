//! Keys: 16 bytes that stand for a path, or for a path with what identifies its content, in `Have` and in the journal.

use crate::path::RelativePath;
use crate::protocol::message::Key;
use crate::store::Entry;

/// Stands for a path below the destination.
pub fn of_path(destination: &RelativePath) -> Key {
    key(&[b"path", destination.as_bytes()])
}

/// Stands for a path with size and modification time: what a comparison with a published file can see.
pub fn of_content(destination: &RelativePath, size: u64, modified_ns: Option<i64>) -> Key {
    key(&[b"content", destination.as_bytes(), &size.to_le_bytes(), &modified_ns.unwrap_or(i64::MIN).to_le_bytes()])
}

/// Stands for a path with all that tells one state of its source from another.
pub fn of_source(destination: &RelativePath, source: &Entry) -> Key {
    key(&[
        b"source",
        destination.as_bytes(),
        &source.size.to_le_bytes(),
        &source.modified_ns.unwrap_or(i64::MIN).to_le_bytes(),
        &source.version.unwrap_or(0).to_le_bytes(),
    ])
}

fn key(parts: &[&[u8]]) -> Key {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    let mut key = [0; 16];
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    Key(key)
}
