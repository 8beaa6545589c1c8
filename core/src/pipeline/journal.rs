//! The journal of a transfer at its receiver: what is verified and written, so that another attempt goes on where this one stopped.
//!
//! A header of 28 bytes (magic, version, transfer identifier, crc32c), then records: u32 length, CBOR body, u32 crc32c of both, little
//! endian. It only grows, by about 40 bytes a flush of each file (70 a block where the store reads nothing back) and 150 a complete one (twice that if it came in chunks), and is removed with the transfer's success; it is
//! never compacted, because rewriting a file in place is not safe against SIGKILL.

mod done;
mod record;
mod replay;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use crate::error::{Error, Result};
use crate::pipeline::digest::combine;
use crate::protocol::TransferId;

pub use done::{DoneFiles, DoneRecords};
pub use record::{BlockRecord, DoneRecord, Record};
pub use replay::{Recovered, RecoveredFile, Restart};

use record::{encode_header, encode_record};

/// An open journal. What is appended reaches the file with [`Journal::flush`] and stable storage with [`Journal::sync`].
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// Where the last good record ends.
    end: u64,
    pending: Vec<u8>,
    /// Number of a file, then offset of a range, to its length and crc64nvme.
    ranges: BTreeMap<(u64, u64), (u64, u64)>,
    /// Whether something that is no record may stand behind `end`.
    torn: bool,
}

impl Journal {
    /// Replays a journal and opens it for appending. `file` must allow reading, writing and truncating.
    ///
    /// A torn or corrupt tail is cut off; a file that is no journal of this transfer is emptied, and [`Recovered::restarted`] says so.
    /// Errors are those of the file system alone, never of what stands in the file.
    pub fn open(mut file: File, transfer: TransferId) -> Result<(Self, Recovered)> {
        file.seek(SeekFrom::Start(0)).map_err(|cause| failed("read", &cause))?;
        let (recovered, end) = replay::replay(&mut file, transfer).map_err(|cause| failed("read", &cause))?;
        let mut journal = Self { file, end, pending: Vec::new(), ranges: BTreeMap::new(), torn: true };
        if end == 0 {
            journal.pending.extend(encode_header(transfer));
        }
        journal.cut()?;
        journal.flush()?;
        Ok((journal, recovered))
    }

    /// Reads back the complete files that a replay found.
    pub fn done<'a>(&'a mut self, files: &'a DoneFiles) -> DoneRecords<'a> {
        DoneRecords::new(&mut self.file, files)
    }

    /// Takes a record, in memory; ranges of one file that touch become one.
    pub fn append(&mut self, record: &Record) {
        match record {
            Record::Range { number, offset, length, crc64nvme } => self.append_range(*number, *offset, *length, *crc64nvme),
            Record::Forget { number } => {
                self.ranges.retain(|(other, _), _| other != number);
                encode_record(record, &mut self.pending);
            }
            Record::Begin { .. } | Record::Block { .. } | Record::Done(_) | Record::Publish { .. } => {
                encode_record(record, &mut self.pending);
            }
        }
    }

    /// Bytes that the next flush will write, about.
    pub fn pending(&self) -> usize {
        self.pending.len() + self.ranges.len() * 40
    }

    /// Writes everything taken so far in one call of the system, so that it survives the end of this process.
    ///
    /// After an error nothing of it counts as written; the next flush tries all of it again.
    pub fn flush(&mut self) -> Result<()> {
        for ((number, offset), (length, crc64nvme)) in std::mem::take(&mut self.ranges) {
            encode_record(&Record::Range { number, offset, length, crc64nvme }, &mut self.pending);
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        // Half a record, left by a failed write, would hide all records behind it from a replay.
        self.cut()?;
        self.torn = true;
        let written = self.file.seek(SeekFrom::Start(self.end)).and_then(|_| self.file.write_all(&self.pending));
        written.map_err(|cause| failed("write to", &cause))?;
        self.torn = false;
        self.end += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Flushes, and waits until everything survives a crash of the machine.
    pub fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.file.sync_data().map_err(|cause| failed("flush", &cause))
    }

    fn append_range(&mut self, number: u64, mut offset: u64, mut length: u64, mut crc: u64) {
        let Some(end) = offset.checked_add(length).filter(|_| length > 0) else { return };
        if let Some((next_length, next_crc)) = self.ranges.remove(&(number, end)) {
            crc = combine(crc, next_crc, next_length);
            length += next_length;
        }
        let before = self.ranges.range((number, 0)..(number, offset)).next_back().map(|(key, value)| (key.1, *value));
        if let Some((before, (before_length, before_crc))) = before.filter(|(before, (length, _))| before + length == offset) {
            crc = combine(before_crc, crc, length);
            (offset, length) = (before, length + before_length);
        }
        self.ranges.insert((number, offset), (length, crc));
    }

    fn cut(&mut self) -> Result<()> {
        if self.torn {
            self.file.set_len(self.end).map_err(|cause| failed("cut", &cause))?;
            self.torn = false;
        }
        Ok(())
    }
}

fn failed(operation: &str, cause: &std::io::Error) -> Error {
    Error::io(format!("could not {operation} the journal of the transfer"), cause)
}
