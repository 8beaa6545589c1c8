//! The actions of edt's service: their names, what they do, and what is said with them. A service that lists them all is one.

use serde::{Deserialize, Serialize};

use super::Rule;

/// Describes one entry: a [`PathBody`], answered with one [`super::Entry`].
pub const STAT: &str = "stat";
/// Lists a directory: a [`ListBody`], answered with one [`super::Item`] for each entry.
pub const LIST: &str = "list";
/// Makes a directory and those above it, and sets what is said of its metadata; nothing may be said of the root's: a [`MkdirBody`].
pub const MKDIR: &str = "mkdir";
/// Removes an entry: a [`ListBody`].
pub const REMOVE: &str = "remove";
/// Renames a file: a [`RenameBody`].
pub const RENAME: &str = "rename";
/// Reads a file for its digests: a [`PathBody`], answered with one [`super::Digests`].
pub const CHECKSUM: &str = "checksum";
/// Begins an upload, or finds one of the same key: a [`BeginBody`], answered with one [`Begun`].
pub const BEGIN: &str = "begin";
/// Publishes a complete upload: a [`CommitBody`], answered with one [`super::Digests`].
pub const COMMIT: &str = "commit";
/// Gives an upload up: an [`UploadBody`].
pub const ABORT: &str = "abort";

/// Every action with what it does, as `ListActions` tells it.
pub const ALL: [(&str, &str); 9] = [
    (STAT, r#"describe a file or directory: {"path"} -> {"path","kind","size","modified_ns","mode","version"}"#),
    (LIST, r#"list a directory: {"path","tree"} -> one entry a result"#),
    (MKDIR, r#"make a directory and those above it: {"path","modified_ns","mode"}"#),
    (REMOVE, r#"remove a file, or a directory ("tree": with all below it): {"path","tree"}"#),
    (RENAME, r#"rename a file: {"from","to","overwrite"}"#),
    (CHECKSUM, r#"read a file for its digests: {"path"} -> {"size","crc64nvme","blake3"}"#),
    (BEGIN, r#"begin or continue an upload: {"path","size","modified_ns","mode","key"} -> {"upload","ranges"}"#),
    (
        COMMIT,
        r#"publish a complete upload: {"upload","crc64nvme","overwrite","modified_ns","mode"} -> {"size","crc64nvme","blake3"}"#,
    ),
    (ABORT, r#"give an upload up: {"upload"}"#),
];

/// Those that change nothing: a server that is read-only lists no others.
pub const READING: [&str; 3] = [STAT, LIST, CHECKSUM];

/// The body of actions that name one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathBody {
    /// The entry.
    pub path: String,
}

/// The body of `mkdir`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MkdirBody {
    /// The directory; one that is there is no error.
    pub path: String,
    /// Modification time to set on it, nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<i64>,
    /// Unix permission bits to set on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// The body of `list` and `remove`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListBody {
    /// The file or directory.
    pub path: String,
    /// Whether everything below a directory is meant; default not.
    #[serde(default)]
    pub tree: bool,
}

/// The body of `rename`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenameBody {
    /// The present name.
    pub from: String,
    /// The new name.
    pub to: String,
    /// What becomes of a file at the new name; default it is replaced.
    #[serde(default)]
    pub overwrite: Rule,
}

/// The body of `begin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeginBody {
    /// The final name.
    pub path: String,
    /// The final size in bytes.
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<i64>,
    /// Unix permission bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Names the upload across interruptions: the same path, size and key find what is there already. Without it the upload is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The result of `begin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// The name of the upload for the commands of its streams, for `commit` and `abort`.
    pub upload: String,
    /// What is there already: first byte and count of each range, in order.
    pub ranges: Vec<[u64; 2]>,
}

/// The body of `commit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitBody {
    /// The upload.
    pub upload: String,
    /// crc64nvme that the file must have, 16 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc64nvme: Option<String>,
    /// What becomes of a file at the name; default it is replaced.
    #[serde(default)]
    pub overwrite: Rule,
    /// Modification time, nanoseconds since 1970, in place of that of `begin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<i64>,
    /// Unix permission bits, in place of those of `begin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// The body of `abort`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UploadBody {
    /// The upload.
    pub upload: String,
}
