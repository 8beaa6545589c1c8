//! What the operating system says about an entry, from either of the two ways to ask it.

use std::ffi::OsString;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

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
        let modified_ns = modified.and_then(nanoseconds);
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

/// Nanoseconds since 1970; negative before.
fn nanoseconds(time: SystemTime) -> Option<i64> {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).ok(),
        Err(before) => i64::try_from(before.duration().as_nanos()).ok().map(|ns| -ns),
    }
}

/// The inverse of what [`Facts`] hold.
pub(super) fn system_time(modified_ns: i64) -> SystemTime {
    let distance = std::time::Duration::from_nanos(modified_ns.unsigned_abs());
    if modified_ns < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}
