//! Complete files of a journal: kept as places in it, because there may be millions, and read back one after the other.

use std::fs::File;
use std::io::{self, BufReader};

use super::failed;
use super::record::{DoneRecord, Record};
use super::replay::next_record;
use crate::error::Result;

/// Bytes that are read at a time.
const BLOCK: usize = 256 << 10;

/// The complete files that a replay found; they are read by [`super::Journal::done`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoneFiles {
    /// Where their records begin, in order.
    positions: Vec<u64>,
}

impl DoneFiles {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }
}

impl FromIterator<u64> for DoneFiles {
    /// Takes where the records begin, in any order.
    fn from_iter<I: IntoIterator<Item = u64>>(positions: I) -> Self {
        let mut positions: Vec<u64> = positions.into_iter().collect();
        positions.sort_unstable();
        Self { positions }
    }
}

/// Reads the complete files of a journal, in the order in which they were completed.
#[derive(Debug)]
pub struct DoneRecords<'a> {
    reader: BufReader<&'a mut File>,
    /// Where the reader is; unknown at first.
    at: Option<u64>,
    positions: std::slice::Iter<'a, u64>,
    bytes: Vec<u8>,
}

impl<'a> DoneRecords<'a> {
    pub(super) fn new(file: &'a mut File, files: &'a DoneFiles) -> Self {
        let reader = BufReader::with_capacity(BLOCK, file);
        Self { reader, at: None, positions: files.positions.iter(), bytes: Vec::new() }
    }

    fn read(&mut self, position: u64) -> io::Result<DoneRecord> {
        use io::{Seek, SeekFrom};
        match self.at.and_then(|at| i64::try_from(position - at).ok()) {
            // What is in the buffer stays there.
            Some(distance) => self.reader.seek_relative(distance)?,
            None => self.reader.seek(SeekFrom::Start(position)).map(drop)?,
        }
        let found = next_record(&mut self.reader, &mut self.bytes)?;
        self.at = found.as_ref().ok().map(|(_, length)| position + length);
        match found {
            Ok((Record::Done(done), _)) => Ok(done),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it changed while it was read")),
        }
    }
}

impl Iterator for DoneRecords<'_> {
    type Item = Result<DoneRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        let position = *self.positions.next()?;
        Some(self.read(position).map_err(|cause| failed("read", &cause)))
    }
}
