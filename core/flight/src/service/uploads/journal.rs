//! The journal of one upload: what it is, then each range that was written, a line each. A line begins with its own digest, so that one
//! that a crash cut off is told from one that is whole.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};

use edt::pipeline::digest::crc64nvme;
use edt::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::contract::{hex64, json, parse_hex64};

/// What an upload is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) modified_ns: Option<i64>,
    pub(super) mode: Option<u32>,
    /// Drawn when it was begun; journals from before there were such have none.
    #[serde(default)]
    pub(super) nonce: String,
}

/// A range that was written, and the crc64nvme of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) crc64nvme: u64,
}

/// The first line has a version, so that a later form is not taken for this one.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    #[serde(rename = "edt-flight-1")]
    Header(Header),
    #[serde(rename = "w")]
    Written(Written),
}

/// An open journal.
pub(super) struct Journal {
    file: File,
}

impl Journal {
    /// Reads what is there; an empty journal begins with `new`.
    pub(super) fn open(mut file: File, new: Option<&Header>) -> Result<(Self, Option<Header>, Vec<Written>)> {
        let failed = |cause: std::io::Error| Error::io("could not read the journal of an upload", &cause);
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let (mut header, mut ranges, mut whole) = (None, Vec::new(), 0);
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        loop {
            line.clear();
            reader.read_until(b'\n', &mut line).map_err(failed)?;
            match understood(&line) {
                Some(Line::Header(found)) if whole == 0 => header = Some(found),
                Some(Line::Written(found)) if header.is_some() => ranges.push(found),
                _ => break,
            }
            whole += line.len() as u64;
        }
        drop(reader);
        // What a crash cut off would make the next line unreadable.
        file.set_len(whole).map_err(failed)?;
        let mut journal = Self { file };
        if let (None, Some(new)) = (&header, new) {
            journal.append(&Line::Header(new.clone()))?;
        }
        Ok((journal, header, ranges))
    }

    /// Notes what was written.
    pub(super) fn note(&mut self, written: Written) -> Result<()> {
        self.append(&Line::Written(written))
    }

    fn append(&mut self, line: &Line) -> Result<()> {
        let text = json(line);
        let line = [hex64(crc64nvme(&text)).as_bytes(), b" ", &text, b"\n"].concat();
        self.file.write_all(&line).map_err(|cause| Error::io("could not write the journal of an upload", &cause))
    }
}

fn understood(line: &[u8]) -> Option<Line> {
    let line = line.strip_suffix(b"\n")?;
    let (digest, text) = line.split_at_checked(16)?;
    let text = text.strip_prefix(b" ")?;
    let digest = parse_hex64(std::str::from_utf8(digest).ok()?).ok()?;
    (digest == crc64nvme(text)).then(|| serde_json::from_slice(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { path: "a/b".to_owned(), size: 100, modified_ns: Some(-5), mode: None, nonce: "ab".to_owned() }
    }

    fn opened(path: &std::path::Path, new: Option<&Header>) -> (Journal, Option<Header>, Vec<Written>) {
        let file = File::options().read(true).append(true).create(true).open(path).unwrap();
        Journal::open(file, new).unwrap()
    }

    #[test]
    fn what_was_noted_is_found_again_up_to_a_line_that_was_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let ranges = [0, 50].map(|offset| Written { offset, length: 10, crc64nvme: u64::MAX - offset });
        let (mut journal, found, _) = opened(&path, Some(&header()));
        assert_eq!(found, None);
        for range in ranges {
            journal.note(range).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, found, there) = opened(&path, None);
            assert_eq!(there, ranges[..there.len()]);
            if found.is_some() {
                journal.note(ranges[0]).unwrap();
                assert_eq!(opened(&path, None).2.len(), there.len() + 1, "cut at {cut}");
            }
        }
        std::fs::write(&path, &whole).unwrap();
        let (_, found, there) = opened(&path, None);
        assert_eq!((found, there.as_slice()), (Some(header()), &ranges[..]));
    }

    #[test]
    fn a_journal_from_before_there_were_nonces_is_understood() {
        let text = br#"{"edt-flight-1":{"path":"a/b","size":100,"modified_ns":-5,"mode":null}}"#;
        let line = [hex64(crc64nvme(text)).as_bytes(), b" ", text, b"\n"].concat();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        std::fs::write(&path, line).unwrap();
        assert_eq!(opened(&path, Some(&header())).1, Some(Header { nonce: String::new(), ..header() }));
    }

    #[test]
    fn a_line_that_was_changed_ends_what_is_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let (mut journal, ..) = opened(&path, Some(&header()));
        journal.note(Written { offset: 1, length: 2, crc64nvme: 3 }).unwrap();
        let text = std::fs::read_to_string(&path).unwrap().replace(r#""length":2"#, r#""length":9"#);
        std::fs::write(&path, text).unwrap();
        assert_eq!(opened(&path, None).2, []);
    }
}
