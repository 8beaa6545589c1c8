//! Keys: 16 bytes that stand for a path, or for a path with what identifies its content, in `Have` and in the journal.

use std::sync::OnceLock;

use crate::auth::secret;
use crate::path::RelativePath;
use crate::protocol::message::Key;
use crate::store::{Entry, EntryKind, Times};

/// Stands for a path below the destination.
pub fn of_path(destination: &RelativePath) -> Key {
    key(&[b"path", destination.as_bytes()])
}

/// Stands for a path at which something is that only a directory does not mind.
pub fn of_directory(destination: &RelativePath) -> Key {
    key(&[b"directory", destination.as_bytes()])
}

/// Stands for a path at which something is that is in the way of a directory.
pub fn of_obstacle(destination: &RelativePath) -> Key {
    key(&[b"obstacle", destination.as_bytes()])
}

/// Stands for a path with size and modification time, as exactly as the destination keeps it: what a comparison with a published file
/// can see.
pub fn of_content(destination: &RelativePath, size: u64, modified_ns: Option<i64>, times: Times) -> Key {
    let modified_ns = times.kept(modified_ns);
    key(&[b"content", destination.as_bytes(), &size.to_le_bytes(), &modified_ns.unwrap_or(i64::MIN).to_le_bytes()])
}

/// Stands for a path with all that tells one state of its source from another. Of a file of which nothing does, a later process may find
/// another state: it has a key of its own in each.
pub fn of_source(destination: &RelativePath, source: &Entry) -> Key {
    let unknown = source.kind == EntryKind::File && source.modified_ns.is_none() && source.version.is_none();
    key(&[
        b"source",
        destination.as_bytes(),
        &source.size.to_le_bytes(),
        &source.modified_ns.unwrap_or(i64::MIN).to_le_bytes(),
        &source.version.unwrap_or(0).to_le_bytes(),
        if unknown { process() } else { &[] },
    ])
}

/// Random bytes of this process.
fn process() -> &'static [u8] {
    static PROCESS: OnceLock<[u8; 16]> = OnceLock::new();
    PROCESS.get_or_init(|| secret::random().unwrap_or_else(|_| u128::from(std::process::id()).to_le_bytes()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_without_time_and_version_is_another_one_in_each_process() {
        let path = RelativePath::from_user("a").unwrap();
        let entry = |modified_ns, version| Entry {
            path: path.clone(),
            kind: EntryKind::File,
            size: 5,
            modified_ns,
            mode: None,
            version,
            sparse: false,
        };
        // The key that another process makes of what tells its state.
        let plain = |modified_ns: i64, version: u64| {
            let (size, modified_ns, version) = (5u64.to_le_bytes(), modified_ns.to_le_bytes(), version.to_le_bytes());
            key(&[b"source", b"a", &size, &modified_ns, &version, &[]])
        };
        assert_eq!(of_source(&path, &entry(Some(7), None)), plain(7, 0));
        assert_eq!(of_source(&path, &entry(None, Some(7))), plain(i64::MIN, 7));
        assert_ne!(of_source(&path, &entry(None, None)), plain(i64::MIN, 0));
        assert_eq!(of_source(&path, &entry(None, None)), of_source(&path, &entry(None, None)));
    }
}
