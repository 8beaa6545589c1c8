//! What the headers of an answer say of a file's state.

use std::time::UNIX_EPOCH;

use crate::path::RelativePath;
use crate::store::remote::web::Answer;
use crate::store::{Entry, EntryKind};

/// A state of a file, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Of the whole file, also if the answer is a range of it.
    pub(crate) size: Option<u64>,
    pub(crate) modified_ns: Option<i64>,
    pub(crate) version: Option<u64>,
    /// What stands for this state in `If-Range`: a strong entity tag, else the date.
    pub(crate) validator: Option<String>,
}

impl Facts {
    /// What an answer to GET or HEAD says.
    pub(crate) fn of(answer: &Answer) -> Self {
        let (tag, date) = (answer.header("etag"), answer.header("last-modified"));
        let strong = tag.filter(|tag| tag.starts_with('"'));
        Self {
            size: match answer.status() {
                206 | 416 => answer.header("content-range").and_then(|range| range.rsplit_once('/')?.1.trim().parse().ok()),
                _ => answer.length(),
            },
            modified_ns: date.and_then(modified_ns),
            version: tag.map(version),
            validator: strong.or(date).map(str::to_owned),
        }
    }

    /// Whether something of this is known to be otherwise in the state that an entry describes.
    pub(crate) fn differ(&self, entry: &Entry) -> bool {
        self.size.is_some_and(|size| size != entry.size)
            || differ(self.modified_ns, entry.modified_ns)
            || differ(self.version, entry.version)
    }
}

fn differ<T: PartialEq + Copy>(one: Option<T>, other: Option<T>) -> bool {
    one.is_some() && other.is_some() && one != other
}

/// A number for an entity tag. A weak one counts as much as a strong one: some servers write the same tag in both ways.
pub(crate) fn version(tag: &str) -> u64 {
    let tag = tag.trim().trim_start_matches("W/").trim_matches('"');
    version_of(tag.as_bytes())
}

/// A number for something that changes with the content.
pub(crate) fn version_of(bytes: &[u8]) -> u64 {
    let hash = blake3::hash(bytes);
    hash.as_bytes()[..8].iter().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// A date of HTTP in nanoseconds since 1970.
pub(crate) fn modified_ns(date: &str) -> Option<i64> {
    let since = httpdate::parse_http_date(date.trim()).ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}

/// A file of a server without modes.
pub(crate) fn file(path: &RelativePath, size: u64, modified_ns: Option<i64>, version: Option<u64>) -> Entry {
    Entry { path: path.clone(), kind: EntryKind::File, size, modified_ns, mode: None, version, sparse: false }
}

/// A directory of a server; what is known of its time is the server's own.
pub(crate) fn directory(path: &RelativePath, modified_ns: Option<i64>) -> Entry {
    let path = path.clone();
    Entry { path, kind: EntryKind::Directory, size: 0, modified_ns, mode: None, version: None, sparse: false }
}

/// What is there and cannot be read.
pub(crate) fn unreadable(path: &RelativePath) -> Entry {
    let path = path.clone();
    Entry { path, kind: EntryKind::Other, size: 0, modified_ns: None, mode: None, version: None, sparse: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_the_same_weak_or_strong() {
        assert_eq!(version("\"abc\""), version("W/\"abc\""));
        assert_eq!(version("\"abc\""), version("abc"));
        assert_ne!(version("\"abc\""), version("\"abd\""));
    }

    #[test]
    fn only_what_both_know_can_differ() {
        let path = RelativePath::from_user("f").unwrap();
        let entry = file(&path, 5, modified_ns("Sun, 06 Nov 1994 08:49:37 GMT"), None);
        assert_eq!(entry.modified_ns, Some(784_111_777_000_000_000));
        let same = Facts { size: Some(5), version: Some(1), ..Facts::default() };
        assert!(!same.differ(&entry) && !Facts::default().differ(&entry));
        assert!(Facts { size: Some(6), ..Facts::default() }.differ(&entry));
        assert!(Facts { modified_ns: Some(1), ..Facts::default() }.differ(&entry));
    }
}
