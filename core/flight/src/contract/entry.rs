//! Entries of a listing, as results of actions tell them.

use edt::store::{self, EntryKind};
use edt::{Error, Result};
use serde::{Deserialize, Serialize};

use super::text;

/// One file, directory, link or other entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The name below the served root.
    pub path: String,
    /// What it is.
    pub kind: EntryName,
    /// Size in bytes; 0 for all but files.
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    pub modified_ns: Option<i64>,
    /// Unix permission bits.
    pub mode: Option<u32>,
    /// Changes when the file does.
    pub version: String,
    /// Where a symbolic link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What an entry is, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryName {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, socket or pipe.
    Other,
}

impl TryFrom<&store::Entry> for Entry {
    type Error = Error;

    /// Fails for a name that is not UTF-8, which no command can name.
    fn try_from(entry: &store::Entry) -> Result<Self> {
        let (kind, target) = match &entry.kind {
            EntryKind::File => (EntryName::File, None),
            EntryKind::Directory => (EntryName::Directory, None),
            EntryKind::Symlink(target) => (EntryName::Symlink, Some(String::from_utf8_lossy(target).into_owned())),
            EntryKind::Other => (EntryName::Other, None),
        };
        Ok(Self {
            path: text(&entry.path)?,
            kind,
            size: entry.size,
            modified_ns: entry.modified_ns,
            mode: entry.mode,
            version: version(entry),
            target,
        })
    }
}

/// One result of `list`: an entry, or why one cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Item {
    /// An entry.
    Entry(Entry),
    /// An entry that could not be described.
    Failed(Failed),
}

/// Why an entry is not in a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The name of the error's kind, for example `permission-denied`.
    pub error: String,
    /// What failed, its cause, and a hint, as they are shown to people.
    pub message: String,
}

/// What changes when a file does: its size, its time and its identity.
pub fn version(entry: &store::Entry) -> String {
    format!("{:x}-{:x}-{:x}", entry.size, entry.modified_ns.unwrap_or(0), entry.version.unwrap_or(0))
}
