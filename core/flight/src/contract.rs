//! What client and service say to each other: commands, the columns of bytes, and the bodies and results of actions.
//!
//! All of it is JSON in UTF-8, so that a client in any language can write and read it by hand.

pub mod action;
mod entry;

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use edt::options::Overwrite;
use edt::store::Metadata;
use edt::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use action::{BeginBody, Begun, CommitBody, ListBody, MkdirBody, PathBody, RenameBody, UploadBody};
pub use entry::{Entry, EntryName, Failed, Item, version};

/// Bytes of one row of a file as bytes; one row is one batch, which passes every default limit of 4 MiB.
pub const ROW_BYTES: usize = 1 << 20;

/// The column of where each row's bytes belong in the file.
pub const OFFSET: &str = "offset";

/// The column of the bytes.
pub const DATA: &str = "data";

/// The key of the path in the metadata of a schema of bytes.
pub const PATH_KEY: &str = "edt.path";

/// The key of the size in bytes in the metadata of a schema of bytes.
pub const SIZE_KEY: &str = "edt.size";

/// The key of the modification time, nanoseconds since 1970, in the metadata of a schema of bytes.
pub const MODIFIED_KEY: &str = "edt.modified_ns";

/// The key of the version in the metadata of a schema of bytes.
pub const VERSION_KEY: &str = "edt.version";

/// What to read or write: the text of every ticket, and of a descriptor of type CMD.
///
/// All but `path` may be left out; a field that is not known is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The file or directory below the served root, its components joined by `/`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Whether the file is meant as bytes or as a table; `None` decides by its name.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Form>,
    /// First byte and count of bytes; `None` is the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[u64; 2]>,
    /// The version that the file must still have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The columns of a table, in their order; `None` is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// First row and count of rows, of the table, or of the row group if one is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<[u64; 2]>,
    /// The only row group of a Parquet file to read, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_group: Option<u32>,
    /// Most rows of a batch; `None` is as many as make about 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_rows: Option<u32>,
    /// Into how many endpoints to divide the answer of `GetFlightInfo`; `None` is one for each 64 MiB, row group or file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<u32>,
    /// The upload that the written bytes belong to; `None` writes a whole file with one stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// The size in bytes that the written file must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What becomes of a file that stands at the name; `None` replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<Rule>,
    /// Modification time of the written file, nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<i64>,
    /// Unix permission bits of the written file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// crc64nvme of the written file, 16 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc64nvme: Option<String>,
}

impl Command {
    /// The command that names a file or directory and nothing else.
    pub fn of(path: impl Into<String>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }

    /// Takes the text of a ticket or descriptor.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        parse(text, "a command")
    }

    /// The text for a ticket or descriptor.
    pub fn to_json(&self) -> Vec<u8> {
        json(self)
    }

    /// What is to be set on the written file.
    pub fn metadata(&self) -> Metadata {
        Metadata { modified_ns: self.modified_ns, mode: self.mode }
    }
}

/// In which form a file is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Its bytes, in the columns `offset` and `data`.
    Bytes,
    /// The table that it holds.
    Table,
}

impl Form {
    /// The form of a file with this name where the command does not say.
    pub fn of_name(path: &str) -> Self {
        Kind::of_name(path).map_or(Self::Bytes, |_| Self::Table)
    }
}

/// The kind of a file that holds a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Apache Parquet.
    Parquet,
    /// The Arrow IPC file or stream format.
    Arrow,
    /// Comma-separated values with a line of names.
    Csv,
}

impl Kind {
    /// The kind that the end of a file's name says.
    pub fn of_name(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let (stem, ending) = name.rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            _ if stem.is_empty() => None,
            "parquet" | "pq" => Some(Self::Parquet),
            "arrow" | "feather" | "ipc" => Some(Self::Arrow),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// What becomes of a file that stands at the name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// It is replaced, atomically.
    #[default]
    Replace,
    /// It stays, and the call fails.
    Never,
}

impl From<Rule> for Overwrite {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Replace => Self::Replace,
            Rule::Never => Self::Never,
        }
    }
}

impl From<Overwrite> for Rule {
    fn from(overwrite: Overwrite) -> Self {
        match overwrite {
            Overwrite::Replace => Self::Replace,
            Overwrite::Never => Self::Never,
        }
    }
}

/// The columns of a file as bytes, without metadata.
pub fn bytes_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(OFFSET, DataType::UInt64, false), Field::new(DATA, DataType::Binary, false)]))
}

/// What `GetFlightInfo` tells of a file in its `app_metadata`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Size in bytes.
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    pub modified_ns: Option<i64>,
    /// Unix permission bits.
    pub mode: Option<u32>,
    /// Changes when the file does.
    pub version: String,
}

/// The `app_metadata` of each row of bytes that is read, about the row; and at the end of a stream, with a batch without rows, about
/// all of it: Go's reader ends in a panic on a message without a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadSum {
    /// How many bytes there are.
    pub bytes: u64,
    /// Their crc64nvme, 16 hexadecimal digits.
    pub crc64nvme: String,
}

impl ReadSum {
    /// What is said of bytes with this digest.
    pub fn of(bytes: u64, crc64nvme: u64) -> Self {
        Self { bytes, crc64nvme: hex64(crc64nvme) }
    }
}

/// What the service tells of a put while it goes on: bytes of one stream, or ranges of an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PutProgress {
    /// Bytes of the stream so far.
    Written {
        /// How many.
        written: u64,
    },
    /// What was written of an upload since the last message.
    Ranges {
        /// First byte and count of each range.
        ranges: Vec<[u64; 2]>,
    },
    /// The put is complete and published.
    Complete(Digests),
}

/// The `app_metadata` of a message without a batch by which a client gives its put up: some libraries cannot cancel a call, and end it
/// as if it were whole when the program fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutWord {
    /// Whether nothing of the put is to be published.
    pub abort: bool,
}

/// The size and the digests of a file; also the last message of a put without upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// Size in bytes.
    pub size: u64,
    /// crc64nvme, 16 hexadecimal digits.
    pub crc64nvme: String,
    /// BLAKE3, 64 hexadecimal digits.
    pub blake3: String,
}

/// The criteria of `ListFlights`; an empty text is the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criteria {
    /// The directory or file to list, or the beginning of such a name, unless it ends in a slash; default the root.
    #[serde(default)]
    pub prefix: String,
    /// Most files to tell; default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// A path as text.
pub fn text(path: &edt::path::RelativePath) -> Result<String> {
    String::from_utf8(path.as_bytes().to_vec()).map_err(|_| {
        Error::new(ErrorKind::InvalidInput, format!("could not tell the name `{path}`"))
            .with_cause("it is not UTF-8, as every name in Arrow Flight must be")
            .with_hint("rename it, or use the native port")
    })
}

/// crc64nvme as commands and results write it.
pub fn hex64(crc64nvme: u64) -> String {
    format!("{crc64nvme:016x}")
}

/// Takes a crc64nvme as commands and results write it.
pub fn parse_hex64(text: &str) -> Result<u64> {
    let digits = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok()).flatten().ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, format!("could not use `{}` as a crc64nvme", text.escape_debug()))
            .with_hint("write its 16 hexadecimal digits")
    })
}

/// The JSON text of what is said here.
///
/// # Panics
/// Never for what is said here; a type with keys that are no text would.
pub fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("the types here have text keys and no failing parts")
}

/// Takes a JSON text; `what` names it in the error.
pub fn parse<T: DeserializeOwned>(text: &[u8], what: &str) -> Result<T> {
    serde_json::from_slice(text).map_err(|cause| {
        let shown: String = String::from_utf8_lossy(text).chars().take(200).collect();
        Error::new(ErrorKind::InvalidInput, format!("could not read {what} from `{}`", shown.escape_debug()))
            .with_cause(cause)
            .with_hint(match what {
                "a command" => r#"write JSON, for example {"path": "a/b.parquet", "as": "bytes"}"#,
                "criteria" => r#"write JSON, for example {"prefix": "run-7/", "limit": 100}"#,
                _ => "write JSON; ListActions says what each action takes",
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_only_what_was_set() {
        let command = Command { range: Some([5, 7]), form: Some(Form::Bytes), ..Command::of("a/b") };
        assert_eq!(String::from_utf8(command.to_json()).unwrap(), r#"{"path":"a/b","as":"bytes","range":[5,7]}"#);
        assert_eq!(Command::from_json(&command.to_json()).unwrap(), command);
    }

    #[test]
    fn a_field_that_is_not_known_is_named() {
        let error = Command::from_json(br#"{"path":"a","colums":["x"]}"#).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.explain().contains("colums"), "{error}");
    }

    #[test]
    fn the_form_follows_the_end_of_the_name() {
        for (name, form) in [
            ("a/b.parquet", Form::Table),
            ("B.PQ", Form::Table),
            ("x.feather", Form::Table),
            ("x.csv", Form::Table),
            ("x.csv.gz", Form::Bytes),
            (".csv", Form::Bytes),
            ("parquet", Form::Bytes),
            ("", Form::Bytes),
        ] {
            assert_eq!(Form::of_name(name), form, "{name}");
        }
    }

    #[test]
    fn progress_of_a_put_is_told_apart() {
        for progress in [
            PutProgress::Written { written: 5 },
            PutProgress::Ranges { ranges: vec![[0, 5], [9, 1]] },
            PutProgress::Complete(Digests { size: 1, crc64nvme: hex64(7), blake3: "b".to_owned() }),
        ] {
            assert_eq!(parse::<PutProgress>(&json(&progress), "progress").unwrap(), progress);
        }
    }

    #[test]
    fn digits_of_a_digest_are_all_there() {
        assert_eq!(parse_hex64(&hex64(0xab)).unwrap(), 0xab);
        for wrong in ["", "ab", "+00000000000000a", "00000000000000ag", "000000000000000ab"] {
            assert_eq!(parse_hex64(wrong).unwrap_err().kind(), ErrorKind::InvalidInput, "{wrong}");
        }
    }
}
