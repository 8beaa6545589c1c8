//! Reading a journal back, as far as it can be trusted.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufReader, Read};

use super::done::DoneFiles;
use super::record::{self, BlockRecord, DoneRecord, HEADER_LENGTH, MAX_BODY, Record};
use crate::path::RelativePath;
use crate::pipeline::digest::combine;
use crate::plan::key;
use crate::protocol::TransferId;
use crate::protocol::message::Key;

/// What a journal says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files that were begun and are not complete, by number.
    pub partial: Vec<RecoveredFile>,
    /// Files that are complete, each path once; [`super::Journal::done`] reads them.
    pub done: DoneFiles,
    /// A number that no file of this journal has, nor any whose record was cut off.
    pub next_number: u64,
    /// Why an earlier content was thrown away as a whole, if it was; partial files of the same key may lie around then.
    pub restarted: Option<Restart>,
    /// Bytes of a torn or corrupt tail that were cut off.
    pub cut: u64,
}

/// Why a journal was begun afresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The header is torn, corrupt or something else.
    NoJournal,
    /// It has another version than this code writes.
    OtherVersion(u8),
    /// It belongs to another transfer.
    OtherTransfer,
}

/// A partial file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredFile {
    /// Its number below the key of the journal.
    pub number: u64,
    /// Its final name.
    pub path: RelativePath,
    /// Its final size in bytes.
    pub size: u64,
    /// Key of the source that the bytes came from.
    pub identity: Key,
    /// Whether holes are left where nothing is written.
    pub sparse: bool,
    /// Offset, length and crc64nvme of what is there: in order, disjoint, adjacent ones merged.
    pub ranges: Vec<(u64, u64, u64)>,
    /// Blocks that a store took which cannot read them back, in order, each offset once.
    pub blocks: Vec<BlockRecord>,
    /// What it is under its final name, if it was about to get that.
    pub publishing: Option<DoneRecord>,
}

/// Replays a journal from its first byte; answers also where its last good record ends, 0 if it must begin afresh.
pub(super) fn replay(file: impl Read, transfer: TransferId) -> io::Result<(Recovered, u64)> {
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut header = [0; HEADER_LENGTH];
    let length = fill(&mut reader, &mut header)?;
    if let Err(restart) = check_header(&header, length, transfer) {
        let cut = length as u64 + drain(&mut reader)?;
        let restarted = (cut > 0).then_some(restart);
        return Ok((Recovered { restarted, next_number: cut + 1, cut, ..Recovered::default() }, 0));
    }
    let mut state = State::default();
    let mut end = HEADER_LENGTH as u64;
    let mut bytes = Vec::new();
    let rest = loop {
        match next_record(&mut reader, &mut bytes)? {
            Ok((record, length)) => {
                state.apply(record, end);
                end += length;
            }
            Err(rest) => break rest,
        }
    };
    let cut = rest + drain(&mut reader)?;
    Ok((state.finish(cut), end))
}

fn check_header(header: &[u8; HEADER_LENGTH], length: usize, transfer: TransferId) -> Result<(), Restart> {
    match record::decode_header(header).filter(|_| length == HEADER_LENGTH) {
        None => Err(Restart::NoJournal),
        Some((version, _)) if version != record::VERSION => Err(Restart::OtherVersion(version)),
        Some((_, other)) if other != transfer => Err(Restart::OtherTransfer),
        Some(_) => Ok(()),
    }
}

/// The next record and its length in the file, or how many bytes were read that are none.
pub(super) fn next_record(reader: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<Result<(Record, u64), u64>> {
    let mut length = [0; 4];
    let read = fill(reader, &mut length)?;
    let body_length = u32::from_le_bytes(length) as usize;
    if read < 4 || body_length > MAX_BODY {
        return Ok(Err(read as u64));
    }
    bytes.clear();
    bytes.extend(length);
    bytes.resize(4 + body_length, 0);
    let mut crc = [0; 4];
    let read = 4 + fill(reader, &mut bytes[4..])? + fill(reader, &mut crc)?;
    let whole = (read == bytes.len() + 4).then(|| record::decode_record(bytes, crc)).flatten();
    Ok(whole.map(|record| (record, read as u64)).ok_or(read as u64))
}

/// Reads until the buffer is full or the file ends.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn drain(reader: &mut impl Read) -> io::Result<u64> {
    io::copy(reader, &mut io::sink())
}

#[derive(Default)]
struct State {
    /// By number.
    partial: BTreeMap<u64, Partial>,
    /// By the key of the path.
    numbers: HashMap<Key, u64>,
    /// Key of the path to where its record begins, so that the last record of a path wins; millions of them must fit into memory.
    done: HashMap<Key, u64>,
    highest: u64,
}

struct Partial {
    file: RecoveredFile,
    /// Offset to length and crc64nvme.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// By offset.
    blocks: BTreeMap<u64, BlockRecord>,
}

impl State {
    /// `position` is where the record begins.
    fn apply(&mut self, record: Record, position: u64) {
        match record {
            Record::Begin { number, path, size, identity, sparse } => {
                let key = key::of_path(&path);
                self.forget(number);
                self.remove(key);
                self.done.remove(&key);
                self.highest = self.highest.max(number);
                self.numbers.insert(key, number);
                let (ranges, blocks, publishing) = (Vec::new(), Vec::new(), None);
                let file = RecoveredFile { number, path, size, identity, sparse, ranges, blocks, publishing };
                self.partial.insert(number, Partial { file, ranges: BTreeMap::new(), blocks: BTreeMap::new() });
            }
            Record::Range { number, offset, length, crc64nvme } => {
                if let Some(partial) = self.partial.get_mut(&number) {
                    partial.add(offset, length, crc64nvme);
                }
            }
            Record::Block { number, block } => {
                if let Some(partial) = self.partial.get_mut(&number) {
                    partial.blocks.insert(block.offset, block);
                }
            }
            Record::Done(done) => {
                let key = key::of_path(&done.path);
                self.remove(key);
                self.done.insert(key, position);
            }
            Record::Forget { number } => self.forget(number),
            Record::Publish { number, file } => {
                if let Some(partial) = self.partial.get_mut(&number) {
                    partial.file.publishing = Some(file);
                }
            }
        }
    }

    fn forget(&mut self, number: u64) {
        if let Some(partial) = self.partial.remove(&number) {
            self.numbers.remove(&key::of_path(&partial.file.path));
        }
    }

    fn remove(&mut self, path: Key) {
        if let Some(number) = self.numbers.remove(&path) {
            self.partial.remove(&number);
        }
    }

    fn finish(self, cut: u64) -> Recovered {
        let partial = self.partial.into_values().map(Partial::finish).collect();
        let done = self.done.into_values().collect();
        // A record takes more than one byte, so that the bytes cut off held fewer numbers than they are.
        let next_number = self.highest.saturating_add(1).saturating_add(cut);
        Recovered { partial, done, next_number, restarted: None, cut }
    }
}

impl Partial {
    /// Leaves out what is empty, outside the file, or overlaps an earlier range: its bytes are sent again, which is always right.
    fn add(&mut self, offset: u64, length: u64, crc64nvme: u64) {
        let Some(end) = offset.checked_add(length).filter(|end| length > 0 && *end <= self.file.size) else { return };
        let before = self.ranges.range(..end).next_back();
        match before.map(|(other, (other_length, other_crc))| (*other, *other_length, *other_crc)) {
            Some((other, other_length, _)) if other + other_length > offset => {}
            Some((other, other_length, other_crc)) if other + other_length == offset => {
                self.ranges.insert(other, (other_length + length, combine(other_crc, crc64nvme, length)));
            }
            _ => {
                self.ranges.insert(offset, (length, crc64nvme));
            }
        }
    }

    fn finish(self) -> RecoveredFile {
        let mut file = self.file;
        file.blocks = self.blocks.into_values().collect();
        for (offset, (length, crc)) in self.ranges {
            match file.ranges.last_mut() {
                Some(last) if last.0 + last.1 == offset => *last = (last.0, last.1 + length, combine(last.2, crc, length)),
                _ => file.ranges.push((offset, length, crc)),
            }
        }
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::journal::DoneRecord;

    #[test]
    fn a_million_complete_files_are_replayed_in_less_than_200_mib() {
        let mut state = State::default();
        let files = 200_000;
        for number in 0..files {
            let path = RelativePath::from_user(&format!("a directory of some length/another/file {number:08}.bin")).unwrap();
            let done =
                DoneRecord { path, identity: Key([1; 16]), size: 1, modified_ns: None, crc64nvme: 2, blake3: Some([3; 32]) };
            state.apply(Record::Done(done), number);
        }
        assert_eq!(state.done.len() as u64, files);
        // A table that grows holds its entries twice for a while; each has a byte beside it.
        let table = state.done.capacity() * (size_of::<(Key, u64)>() + 1) * 3 / 2;
        let handed_out = state.done.len() * size_of::<u64>();
        assert!((table + handed_out) * 5 < 200 << 20, "{table} and {handed_out} bytes");
        assert_eq!(state.finish(0).done.len() as u64, files);
    }
}
