//! Logs of other tools, as CSV whose header names the units: `docs/history.md` describes the form.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Trim};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::write::now_s;
use super::{History, Past};
use crate::error::{Error, ErrorKind, Result};

/// The columns that a log may have.
const COLUMNS: [&str; 13] = [
    "start_s",
    "source",
    "destination",
    "bandwidth_bytes_per_s",
    "rtt_s",
    "tcp_buffer_bytes",
    "files",
    "bytes",
    "mean_file_bytes",
    "concurrency",
    "parallelism",
    "pipelining",
    "throughput_bytes_per_s",
];

/// Those of them that it must have, besides `bytes` or `mean_file_bytes`.
const NEEDED: [&str; 4] = ["start_s", "files", "concurrency", "throughput_bytes_per_s"];

const INSERT: &str = "
INSERT INTO imported (import, number, began_s, source, destination, bandwidth, rtt_s, tcp_buffer, files, bytes, concurrency, parallelism,
    pipelining, throughput)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";

/// The least number that is too large for the database: 2^63.
const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;

/// What became of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// So many transfers of it are in the history now.
    Rows(u64),
    /// The same log was imported before.
    Before,
}

/// A log that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Its number.
    pub number: i64,
    /// What tells it from others.
    pub label: String,
    /// Its transfers.
    pub rows: u64,
}

impl History {
    /// Imports a log of other tools, all of it or nothing; `label` tells it from others. It is read once, so that it may be a pipe.
    pub fn import(&mut self, path: &Path, label: &str) -> Result<Imported> {
        let name = path.display().to_string();
        let log = File::open(path).map_err(|cause| Error::io(unread(&name), &cause).into_usage())?;
        self.import_from(log, &name, label)
    }

    /// The same of a log that is not opened by its path; errors call it by that name.
    pub fn import_from(&mut self, log: impl Read, name: &str, label: &str) -> Result<Imported> {
        let mut log = Hashed { log, hasher: blake3::Hasher::new() };
        let pasts = read(&mut log, name)?;
        let digest = log.hasher.finalize().to_hex();
        self.change(|connection| insert(connection, label, &digest, &pasts))
    }

    /// The logs that were imported, in their order.
    pub fn imports(&self) -> Result<Vec<Import>> {
        let all = "SELECT id, label, (SELECT count(*) FROM imported WHERE import = imports.id) FROM imports ORDER BY id";
        let import = |row: &Row<'_>| Ok(Import { number: row.get(0)?, label: row.get(1)?, rows: row.get(2)? });
        let read = || -> rusqlite::Result<Vec<Import>> { self.connection.prepare(all)?.query_map([], import)?.collect() };
        read().map_err(|cause| self.unread(&cause))
    }
}

/// A log whose bytes are hashed as they are read.
struct Hashed<R> {
    log: R,
    hasher: blake3::Hasher,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.log.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

fn insert(connection: &Connection, label: &str, digest: &str, pasts: &[Past]) -> rusqlite::Result<Imported> {
    let before = "SELECT id FROM imports WHERE digest = ?1";
    if connection.query_row(before, [digest], |row| row.get::<_, i64>(0)).optional()?.is_some() {
        return Ok(Imported::Before);
    }
    connection.execute("INSERT INTO imports (label, digest, imported_s) VALUES (?1, ?2, ?3)", params![label, digest, now_s()])?;
    let import = connection.last_insert_rowid();
    let mut statement = connection.prepare(INSERT)?;
    for (number, past) in (0u64..).zip(pasts) {
        statement.execute(params![
            import,
            number,
            past.began_s,
            past.source,
            past.destination,
            past.bandwidth,
            past.rtt_s,
            past.tcp_buffer,
            past.files,
            past.bytes,
            past.concurrency,
            past.parallelism,
            past.pipelining,
            past.goodput,
        ])?;
    }
    Ok(Imported::Rows(pasts.len() as u64))
}

/// The transfers of a log, in their order. The log is read to its end.
fn read(log: impl Read, name: &str) -> Result<Vec<Past>> {
    let malformed = |cause: csv::Error| match cause.kind() {
        csv::ErrorKind::Io(cause) => Error::io(unread(name), cause).into_usage(),
        _ => refused(name, &cause.to_string()),
    };
    // A comment without an end of its line would be taken for a row.
    let mut reader = ReaderBuilder::new().trim(Trim::All).comment(Some(b'#')).from_reader(log.chain(&b"\n"[..]));
    let header = reader.headers().map_err(malformed)?.clone();
    check(&header).map_err(|cause| refused(name, &cause))?;
    let mut pasts = Vec::new();
    for record in reader.into_records() {
        let record = record.map_err(malformed)?;
        let line = record.position().map_or(0, csv::Position::line);
        let fields = Fields { header: &header, record: &record };
        pasts.push(fields.past().map_err(|cause| refused(name, &format!("line {line}: {cause}")))?);
    }
    Ok(pasts)
}

fn check(header: &StringRecord) -> Result<(), String> {
    let has = |name: &str| header.iter().filter(|column| *column == name).count();
    if let Some(unknown) = header.iter().find(|column| !COLUMNS.contains(column)) {
        return Err(format!("it has a column `{unknown}`, which is none of {}", COLUMNS.join(", ")));
    }
    if let Some(twice) = COLUMNS.iter().find(|column| has(column) > 1) {
        return Err(format!("it has more than one column `{twice}`"));
    }
    if let Some(missing) = NEEDED.iter().find(|column| has(column) == 0) {
        return Err(format!("it has no column `{missing}`"));
    }
    if has("bytes") + has("mean_file_bytes") != 1 {
        return Err("it needs one of the columns `bytes` and `mean_file_bytes`".to_owned());
    }
    Ok(())
}

/// One line of a log.
struct Fields<'a> {
    header: &'a StringRecord,
    record: &'a StringRecord,
}

impl Fields<'_> {
    fn past(&self) -> Result<Past, String> {
        let files = self.whole("files")?.filter(|files| *files > 0).ok_or("`files` must be 1 or more")?;
        let bytes = match self.number("mean_file_bytes")? {
            Some(mean) => rounded(mean * files as f64).ok_or("`files` of `mean_file_bytes` are too large")?,
            None => self.whole("bytes")?.ok_or("`bytes` is empty")?,
        };
        Ok(Past {
            began_s: self.number("start_s")?.ok_or("`start_s` is empty")?,
            source: self.text("source").unwrap_or_default().to_owned(),
            destination: self.text("destination").unwrap_or_default().to_owned(),
            bandwidth: self.positive("bandwidth_bytes_per_s")?,
            rtt_s: self.number("rtt_s")?,
            tcp_buffer: self.positive("tcp_buffer_bytes")?,
            files,
            bytes,
            concurrency: self.count("concurrency", 1)?.ok_or("`concurrency` is empty")?,
            parallelism: self.count("parallelism", 1)?.unwrap_or(1),
            streams: None,
            // To some tools one request after the other is 0; to edt it is 1, and 0 is a new stream for each chunk.
            pipelining: self.count("pipelining", 0)?.unwrap_or(1).max(1),
            goodput: self.positive("throughput_bytes_per_s")?.ok_or("`throughput_bytes_per_s` is empty")?,
        })
    }

    /// The text of a column; `None` if it is empty, or there is no such column.
    fn text(&self, name: &str) -> Option<&str> {
        let at = self.header.iter().position(|column| column == name)?;
        self.record.get(at).filter(|text| !text.is_empty())
    }

    fn number(&self, name: &str) -> Result<Option<f64>, String> {
        let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        let wrong = |text: &str| format!("`{name}` is `{text}`, which is no number from 0 on");
        self.text(name).map(|text| number(text).ok_or_else(|| wrong(text))).transpose()
    }

    fn positive(&self, name: &str) -> Result<Option<f64>, String> {
        match self.number(name)? {
            Some(0.0) => Err(format!("`{name}` is 0")),
            number => Ok(number),
        }
    }

    /// A whole number, which may be written as `1e9` or `5.0`.
    fn whole(&self, name: &str) -> Result<Option<u64>, String> {
        let too_large = |number: f64| format!("`{name}` is `{number:e}`, which is too large");
        self.number(name)?.map(|number| rounded(number).ok_or_else(|| too_large(number))).transpose()
    }

    fn count(&self, name: &str, least: u16) -> Result<Option<u16>, String> {
        let wrong = || format!("`{name}` must be from {least} to {}", u16::MAX);
        let count = |number: u64| u16::try_from(number).ok().filter(|count| *count >= least).ok_or_else(wrong);
        self.whole(name)?.map(count).transpose()
    }
}

/// As a whole number, unless the database holds none so large.
fn rounded(number: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is not negative, and kept if it fits")]
    let whole = number.round() as u64;
    (number < TOO_LARGE).then_some(whole)
}

fn unread(name: &str) -> String {
    format!("could not import `{name}`")
}

fn refused(name: &str, cause: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, unread(name)).with_cause(cause).with_hint("docs/history.md describes the form")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "start_s,source,destination,bandwidth_bytes_per_s,rtt_s,tcp_buffer_bytes,files,mean_file_bytes,concurrency,\
                          parallelism,pipelining,throughput_bytes_per_s";

    fn history(directory: &tempfile::TempDir) -> History {
        History::open_at(&directory.path().join("history.db")).unwrap()
    }

    fn import(text: &str) -> Result<Vec<Past>> {
        read(text.as_bytes(), "log.csv")
    }

    fn cause(text: &str) -> String {
        let error = import(text).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidInput && error.hint().is_some(), "{error:?}");
        error.cause().unwrap().to_owned()
    }

    #[test]
    fn a_log_in_the_documented_form_is_read_as_it_is_meant() {
        let text =
            format!("# of a tool\n{HEADER}\n1.4e9, a ,b,1.25e9,0.04,33554432,100,1.5,4,8,16,5e8\n1400000001,,,,,,2,10,1,,,1\n");
        let pasts = import(&text).unwrap();
        let full = Past {
            began_s: 1.4e9,
            source: "a".to_owned(),
            destination: "b".to_owned(),
            bandwidth: Some(1.25e9),
            rtt_s: Some(0.04),
            tcp_buffer: Some(33_554_432.0),
            files: 100,
            bytes: 150,
            concurrency: 4,
            parallelism: 8,
            streams: None,
            pipelining: 16,
            goodput: 5e8,
        };
        assert_eq!(pasts[0], full);
        let bare = &pasts[1];
        assert_eq!((bare.source.as_str(), bare.bandwidth, bare.rtt_s, bare.tcp_buffer), ("", None, None, None));
        assert_eq!((bare.bytes, bare.parallelism, bare.pipelining), (20, 1, 1));
        let one_by_one = import(&format!("{HEADER}\n1,,,,,,2,10,1,,0,1\n")).unwrap();
        assert_eq!(one_by_one[0].pipelining, 1);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_line_and_column() {
        let row = |files: &str, concurrency: &str, throughput: &str| {
            cause(&format!("{HEADER}\n1,a,b,,,,1,1,1,1,1,1\n1,a,b,,,,{files},1,{concurrency},1,1,{throughput}\n"))
        };
        assert!(row("0", "1", "1").starts_with("line 3: `files`"));
        assert!(row("x", "1", "1").contains("`files` is `x`"));
        assert!(row("1", "0", "1").contains("`concurrency` must be from 1"));
        assert!(row("1", "70000", "1").contains("`concurrency`"));
        assert!(row("1", "1", "0").contains("`throughput_bytes_per_s` is 0"));
        assert!(row("1", "1", "nan").contains("`throughput_bytes_per_s`"));
        assert!(row("1", "1", "").contains("is empty"));
        assert!(row("1e19", "1", "1").starts_with("line 3: `files` is `1e19`, which is too large"));
        assert!(row("9223372036854775808", "1", "1").contains("`files` is `9.223372036854776e18`"));
        let bytes = |bytes: &str| format!("start_s,files,bytes,concurrency,throughput_bytes_per_s\n1,1,{bytes},1,1\n");
        assert!(cause(&bytes("1e19")).starts_with("line 2: `bytes` is `1e19`, which is too large"));
        assert_eq!(import(&bytes("9.2e18")).unwrap()[0].bytes, 9_200_000_000_000_000_000);
        let much = "start_s,files,mean_file_bytes,concurrency,throughput_bytes_per_s\n1,1e10,1e10,1,1\n";
        assert!(cause(much).starts_with("line 2: `files` of `mean_file_bytes` are too large"));
        assert!(cause("start_s,files,bytes\n").contains("no column `concurrency`"));
        assert!(cause(&format!("{HEADER},bytes\n")).contains("`mean_file_bytes`"));
        assert!(cause(&format!("{HEADER},rtt_ms\n")).contains("`rtt_ms`"));
        assert!(cause(&format!("{HEADER},rtt_s\n")).contains("more than one"));
        assert!(cause(&format!("{HEADER}\n1,2\n")).contains("line"));
    }

    #[test]
    fn the_largest_log_that_is_taken_fits_into_the_database() {
        let directory = tempfile::tempdir().unwrap();
        let log = "start_s,files,bytes,concurrency,throughput_bytes_per_s\n1,9.2e18,9.2e18,65535,1e300\n# no end of the line";
        let mut history = history(&directory);
        assert_eq!(history.import_from(log.as_bytes(), "a pipe", "large").unwrap(), Imported::Rows(1));
        let import = Import { number: 1, label: "large".to_owned(), rows: 1 };
        assert_eq!(history.imports().unwrap(), [import]);
    }

    #[test]
    fn a_log_is_read_once_and_known_by_the_bytes_that_were_read() {
        /// Gives its bytes once, a few at a time, as a pipe does.
        struct Pipe<'a>(&'a [u8]);

        impl Read for Pipe<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let most = buffer.len().min(7);
                self.0.read(&mut buffer[..most])
            }
        }

        let directory = tempfile::tempdir().unwrap();
        let mut history = history(&directory);
        let log = format!("{HEADER}\n1,a,b,,,,1,1,1,1,1,1\n2,a,b,,,,1,1,1,1,1,1\n# the end\n");
        assert_eq!(history.import_from(Pipe(log.as_bytes()), "a pipe", "one").unwrap(), Imported::Rows(2));
        let path = directory.path().join("log.csv");
        std::fs::write(&path, &log).unwrap();
        assert_eq!(history.import(&path, "two").unwrap(), Imported::Before);
        std::fs::write(&path, log.replace("# the end", "# the End")).unwrap();
        assert_eq!(history.import(&path, "three").unwrap(), Imported::Rows(2));
        let labels = super::super::testing::column(&history, super::super::Table::Imported, "label");
        let labels: Vec<_> = labels.iter().map(|label| format!("{label:?}")).collect();
        assert_eq!(labels, ["Text(\"one\")", "Text(\"one\")", "Text(\"three\")", "Text(\"three\")"]);
    }

    #[test]
    fn a_log_is_imported_once_and_as_a_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.csv");
        let mut history = history(&directory);
        let good = format!("{HEADER}\n1,a,b,,,,1,1,1,1,1,1\n");
        std::fs::write(&path, format!("{good}1,a,b,,,,0,1,1,1,1,1\n")).unwrap();
        assert!(history.import(&path, "log").is_err());
        assert_eq!(history.count(super::super::Table::Imported).unwrap(), 0);
        std::fs::write(&path, good).unwrap();
        assert_eq!(history.import(&path, "log").unwrap(), Imported::Rows(1));
        assert_eq!(history.import(&path, "again").unwrap(), Imported::Before);
        assert_eq!(history.count(super::super::Table::Imported).unwrap(), 1);
        let everything = super::super::Prune { imported: true, ..super::super::Prune::default() };
        assert_eq!(history.prune(&everything).unwrap().imported, 1);
        assert_eq!(history.import(&path, "log").unwrap(), Imported::Rows(1));
        assert_eq!(history.import(&path.join("none"), "x").unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
