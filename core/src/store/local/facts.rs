//! What the operating system says about an entry, from either of the two ways to ask it.

use std::ffi::OsString;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    File,
    Directory,
    Symlink,
    Other,
}

/// An entry as the operating system describes it.
pub(super) struct Facts {
    pub(super) kind: Kind,
    pub(super) size: u64,
    pub(super) modified_ns: Option<i64>,
    pub(super) mode: Option<u32>,
    pub(super) version: Option<u64>,
    pub(super) sparse: bool,
    /// Device and inode, which tell whether two names lead to the same directory.
    pub(super) identity: Option<(u64, u64)>,
}

/// An item of a directory.
pub(super) struct Found {
    pub(super) name: OsString,
    pub(super) facts: io::Result<Facts>,
}

impl Facts {
    pub(super) fn of_std(metadata: &std::fs::Metadata) -> Self {
        let kind = kind(metadata.is_file(), metadata.is_dir(), metadata.is_symlink());
        let facts = Self::plain(kind, metadata.len(), metadata.modified().ok());
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            facts.with_inode(metadata.mode(), (metadata.dev(), metadata.ino()), metadata.blocks())
        }
        #[cfg(not(unix))]
        facts
    }

    pub(super) fn of_confined(metadata: &cap_std::fs::Metadata) -> Self {
        let kind = kind(metadata.is_file(), metadata.is_dir(), metadata.is_symlink());
        let facts = Self::plain(kind, metadata.len(), metadata.modified().ok().map(cap_std::time::SystemTime::into_std));
        #[cfg(unix)]
        {
            use cap_std::fs::MetadataExt as _;
            facts.with_inode(metadata.mode(), (metadata.dev(), metadata.ino()), metadata.blocks())
        }
        #[cfg(not(unix))]
        facts
    }

    fn plain(kind: Kind, length: u64, modified: Option<SystemTime>) -> Self {
        let size = if kind == Kind::File { length } else { 0 };
        let modified_ns = modified.map(nanoseconds);
        Self { kind, size, modified_ns, mode: None, version: None, sparse: false, identity: None }
    }

    #[cfg(unix)]
    fn with_inode(mut self, mode: u32, identity: (u64, u64), blocks: u64) -> Self {
        self.mode = Some(mode & 0o7777);
        self.version = Some(identity.1);
        self.identity = Some(identity);
        // Compression and block rounding stay above a half; a file with real holes falls clearly below.
        self.sparse = self.kind == Kind::File && self.size > 64 << 10 && blocks.saturating_mul(512) < self.size / 2;
        self
    }
}

fn kind(file: bool, directory: bool, symlink: bool) -> Kind {
    match (file, directory, symlink) {
        (true, _, _) => Kind::File,
        (_, true, _) => Kind::Directory,
        (_, _, true) => Kind::Symlink,
        _ => Kind::Other,
    }
}

/// Nanoseconds since 1970; negative before. A time that they cannot tell, before 1677 or after 2262, is the nearest that they can: without
/// any, the file would differ from each of its copies.
fn nanoseconds(time: SystemTime) -> i64 {
    let distance = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    time.duration_since(UNIX_EPOCH).map_or_else(|before| -distance(before.duration()), distance)
}

/// The inverse of what [`Facts`] hold.
pub(super) fn system_time(modified_ns: i64) -> SystemTime {
    let distance = Duration::from_nanos(modified_ns.unsigned_abs());
    if modified_ns < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_what_nanoseconds_tell_is_the_nearest_that_they_do() {
        let year = Duration::from_hours(8766);
        for (distance, told) in [(year * 100, 100 * 8766 * 3_600_000_000_000), (year * 430, i64::MAX)] {
            assert_eq!(nanoseconds(UNIX_EPOCH + distance), told);
            assert_eq!(nanoseconds(UNIX_EPOCH - distance), -told);
            assert_eq!([told, -told].map(|time| nanoseconds(system_time(time))), [told, -told]);
        }
    }
}
