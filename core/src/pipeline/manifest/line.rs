//! Lines of a manifest: what edt writes, and what it reads.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::protocol::hex;

/// A file of a finished transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestEntry {
    /// The name below the destination.
    pub path: RelativePath,
    /// Size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970.
    pub modified_ns: Option<i64>,
    /// Unix permission bits.
    pub mode: Option<u32>,
    /// Digest of the content.
    pub crc64nvme: u64,
    /// BLAKE3 of the content, if the transfer had it.
    pub blake3: Option<[u8; 32]>,
}

/// What a manifest says that a file is; `None` where its format does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The name below the verified endpoint.
    pub path: RelativePath,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Digest of the content.
    pub crc64nvme: Option<u64>,
    /// BLAKE3 of the content.
    pub blake3: Option<[u8; 32]>,
}

/// A line as JSON: exactly one of `path` and `path_bytes` is there; digests are hexadecimal.
#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    size: u64,
    modified_ns: Option<i64>,
    mode: Option<u32>,
    crc64nvme: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    blake3: Option<String>,
    /// How many files the manifest lists; in its last line.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
}

/// The only line of a manifest without files.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {
    files: u64,
}

/// What a line says.
pub(super) struct Said {
    pub(super) file: Option<Expected>,
    /// How many files the manifest lists.
    pub(super) files: Option<u64>,
}

/// How the line of an entry ends.
pub(super) const END: &[u8] = b"}\n";

/// What ends a manifest of so many files, in place of the [`END`] of its last line.
pub(super) fn closing(files: u64) -> String {
    if files == 0 { "{\"files\":0}\n".to_owned() } else { format!(",\"files\":{files}}}\n") }
}

/// Appends an entry's line.
pub(super) fn write(entry: &ManifestEntry, out: &mut Vec<u8>) {
    let text = std::str::from_utf8(entry.path.as_bytes()).ok();
    let line = Line {
        path: text.map(str::to_owned),
        path_bytes: text.is_none().then(|| hex(entry.path.as_bytes())),
        size: entry.size,
        modified_ns: entry.modified_ns,
        mode: entry.mode,
        crc64nvme: format!("{:016x}", entry.crc64nvme),
        blake3: entry.blake3.map(|digest| hex(&digest)),
        files: None,
    };
    serde_json::to_writer(&mut *out, &line).expect("numbers and text go into memory without fail");
    out.push(b'\n');
}

/// Parses a line that edt wrote.
pub(super) fn parse_entry((number, text): &(u64, Vec<u8>)) -> Result<ManifestEntry> {
    let line: Line = serde_json::from_slice(text).map_err(|cause| refused(*number, &cause))?;
    entry(*number, &line)
}

fn entry(number: u64, line: &Line) -> Result<ManifestEntry> {
    let refused = |cause: &dyn std::fmt::Display| refused(number, cause);
    let path = match (&line.path, &line.path_bytes) {
        (Some(text), None) => text.clone().into_bytes(),
        (None, Some(digits)) => unhex(digits).ok_or_else(|| refused(&"`path_bytes` is not hexadecimal"))?,
        _ => return Err(refused(&"it needs either `path` or `path_bytes`")),
    };
    let crc64nvme = unhex_array(&line.crc64nvme).ok_or_else(|| refused(&"`crc64nvme` is not 16 hexadecimal digits"))?;
    let blake3 = match &line.blake3 {
        Some(digits) => Some(unhex_array(digits).ok_or_else(|| refused(&"`blake3` is not 64 hexadecimal digits"))?),
        None => None,
    };
    Ok(ManifestEntry {
        path: RelativePath::from_bytes(&path).map_err(|cause| refused(&cause))?,
        size: line.size,
        modified_ns: line.modified_ns,
        mode: line.mode,
        crc64nvme: u64::from_be_bytes(crc64nvme),
        blake3,
    })
}

/// Parses a line of edt or of `b3sum`.
pub(super) fn parse((number, text): &(u64, Vec<u8>)) -> Result<Said> {
    let refused = |cause: &dyn std::fmt::Display| refused(*number, cause);
    if text.trim_ascii_start().starts_with(b"{") {
        if let Ok(Nothing { files }) = serde_json::from_slice(text) {
            return Ok(Said { file: None, files: Some(files) });
        }
        let line: Line = serde_json::from_slice(text).map_err(|cause| refused(&cause))?;
        let entry = entry(*number, &line)?;
        let file = Expected { path: entry.path, size: Some(entry.size), crc64nvme: Some(entry.crc64nvme), blake3: entry.blake3 };
        return Ok(Said { file: Some(file), files: line.files });
    }
    let (digest, path) = split_b3sum(text).ok_or_else(|| refused(&"it is neither JSON nor 64 hexadecimal digits and a path"))?;
    let path = RelativePath::from_bytes(path.strip_prefix(b"./").unwrap_or(&path)).map_err(|cause| refused(&cause))?;
    Ok(Said { file: Some(Expected { path, size: None, crc64nvme: None, blake3: Some(digest) }), files: None })
}

/// `b3sum` marks a line whose path has escaped newlines and backslashes by a backslash at its begin.
fn split_b3sum(line: &[u8]) -> Option<([u8; 32], Vec<u8>)> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (escaped, line) = line.strip_prefix(b"\\").map_or((false, line), |line| (true, line));
    let (digits, rest) = line.split_at_checked(64)?;
    let digest = unhex_array(std::str::from_utf8(digits).ok()?)?;
    let path = rest.strip_prefix(b"  ").filter(|path| !path.is_empty())?;
    Some((digest, if escaped { unescape(path)? } else { path.to_vec() }))
}

fn unescape(path: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = path.iter();
    let mut plain = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            byte => *byte,
        });
    }
    Some(plain)
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let nibbles: Vec<u8> =
        digits.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect::<Option<_>>()?;
    nibbles.len().is_multiple_of(2).then(|| nibbles.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn unhex_array<const N: usize>(digits: &str) -> Option<[u8; N]> {
    unhex(digits)?.try_into().ok()
}

fn refused(number: u64, cause: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("could not understand line `{number}` of the manifest"))
        .with_cause(cause)
        .with_hint("give a manifest written by edt, or the output of b3sum")
}
