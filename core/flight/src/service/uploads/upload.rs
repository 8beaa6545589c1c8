//! One upload: the file under its temporary name, what of it is written, and the digest of that.

use std::ops::Range;

use edt::buffer::SLAB_SIZE;
use edt::options::Digest;
use edt::pipeline::digest::{BLOCK, FileDigest, block_blake3, combine, crc64nvme};
use edt::pipeline::ranges::Ranges;
use edt::store::{Metadata, Publication, Writer};
use edt::sync::{Condvar, Mutex, RwLock};
use edt::{Error, ErrorKind, Result};

use super::journal::{Header, Journal, Written};
use crate::contract::{CommitBody, Digests, hex64};
use crate::service::root::Root;

/// An upload that is under way.
pub(in crate::service) struct Upload {
    header: Header,
    /// Taken away when the file is published or given up. Those who write hold it for reading.
    writer: RwLock<Option<Box<dyn Writer>>>,
    state: Mutex<State>,
    /// Something was written, or will not be.
    changed: Condvar,
}

struct State {
    /// Given back when the upload fails, so that it can be taken up again while others still hold this.
    journal: Option<Journal>,
    /// What somebody writes or wrote: bytes that come twice are written once, so that the digests are those of the file.
    claimed: Ranges,
    written: Ranges,
    /// `None` once rows came that are no whole blocks: then the file is read again at its end.
    digest: Option<FileDigest>,
    failure: Option<Error>,
}

/// A part of a row that was not there before.
struct Part {
    offset: u64,
    length: u64,
    crc64nvme: u64,
    /// The digests of its blocks, if it consists of such.
    blocks: Option<Vec<(u64, u64, [u8; 32])>>,
}

impl Upload {
    /// Takes an upload up: of the ranges of its journal, what reads back as it was written.
    pub(super) fn resume(header: Header, writer: Box<dyn Writer>, journal: Journal, ranges: Vec<Written>) -> Result<Self> {
        let state = State {
            journal: Some(journal),
            claimed: Ranges::new(),
            written: Ranges::new(),
            digest: Some(FileDigest::new(header.size, Digest::Blake3)),
            failure: None,
        };
        let upload = Self { header, writer: RwLock::new(Some(writer)), state: Mutex::new(state), changed: Condvar::new() };
        for range in ranges {
            upload.recover(&range)?;
        }
        Ok(upload)
    }

    /// The path of the file.
    pub(in crate::service) fn path(&self) -> &str {
        &self.header.path
    }

    /// The final size in bytes.
    pub(in crate::service) fn size(&self) -> u64 {
        self.header.size
    }

    /// What tells it from another of the same name.
    pub(super) fn nonce(&self) -> &str {
        &self.header.nonce
    }

    /// What is there, in order: offset and length.
    pub(super) fn written(&self) -> Vec<[u64; 2]> {
        self.state.lock().written.iter().map(|(begin, end)| [begin, end - begin]).collect()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state.lock().failure.is_some() || self.writer.read().is_none()
    }

    /// Ends the upload for everyone who writes to it; the bytes stay.
    pub(super) fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        state.failure.get_or_insert(error);
        state.journal = None;
        drop(state);
        self.changed.notify_all();
        *self.writer.write() = None;
    }

    /// Writes a row where it belongs. A second time the same bytes change nothing.
    pub(in crate::service) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= self.header.size).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("could not write {} bytes at {offset} of `{}`", bytes.len(), self.header.path),
            )
            .with_cause(format!("the upload was begun with {} bytes", self.header.size))
        })?;
        let missing = self.claim(offset, end)?;
        for range in missing {
            let written = self.write_part(&range, &bytes[index(range.start - offset)..index(range.end - offset)]);
            // What was claimed and not written is missing for good: the upload is taken up anew from its journal.
            written.inspect_err(|error| self.fail(error.clone()))?;
        }
        self.wait(offset, end)
    }

    /// Waits for what other streams write of a range: until then it is not there.
    fn wait(&self, begin: u64, end: u64) -> Result<()> {
        let mut state = self.state.lock();
        while !state.written.contains(begin, end) {
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            self.changed.wait(&mut state);
        }
        Ok(())
    }

    fn claim(&self, begin: u64, end: u64) -> Result<Vec<Range<u64>>> {
        let mut state = self.state.lock();
        if let Some(error) = &state.failure {
            return Err(error.clone());
        }
        let missing = state.claimed.missing(begin, end).map(|(begin, end)| begin..end).collect();
        state.claimed.insert(begin, end);
        Ok(missing)
    }

    fn write_part(&self, range: &Range<u64>, bytes: &[u8]) -> Result<()> {
        let part = Part::of(range.start, bytes, self.header.size);
        self.writer.read().as_ref().ok_or_else(|| self.ended())?.write_at(range.start, bytes)?;
        let mut state = self.state.lock();
        let written = Written { offset: part.offset, length: part.length, crc64nvme: part.crc64nvme };
        state.journal.as_mut().ok_or_else(|| self.ended())?.note(written)?;
        state.add(&part);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    fn recover(&self, range: &Written) -> Result<()> {
        let end = range.offset.saturating_add(range.length).min(self.header.size);
        let mut buffer = vec![0; 4 * SLAB_SIZE];
        let (mut at, mut found, mut parts) = (range.offset, 0, Vec::new());
        while at < end {
            let length = index(end - at).min(buffer.len());
            let read = self.read_back(at, &mut buffer[..length])?;
            if read < length {
                return Ok(());
            }
            let part = Part::of(at, &buffer[..length], self.header.size);
            found = combine(found, part.crc64nvme, part.length);
            parts.push(part);
            at += length as u64;
        }
        if found != range.crc64nvme {
            tracing::info!(path = %self.header.path, offset = range.offset, "bytes of an upload are not as they were written");
            return Ok(());
        }
        let mut state = self.state.lock();
        for part in parts {
            state.claimed.insert(part.offset, part.offset + part.length);
            state.add(&part);
        }
        Ok(())
    }

    fn read_back(&self, at: u64, buffer: &mut [u8]) -> Result<usize> {
        self.writer.read().as_ref().ok_or_else(|| self.ended())?.read_at(at, buffer)
    }

    /// Gives the complete file its name.
    pub(super) fn publish(&self, root: &Root, expected: Option<u64>, body: &CommitBody) -> Result<Digests> {
        let (crc64nvme, blake3) = self.digests()?;
        if let Some(expected) = expected.filter(|expected| *expected != crc64nvme) {
            return Err(Error::new(ErrorKind::Corrupted, format!("could not publish `{}`", self.header.path))
                .with_cause(format!("its crc64nvme is {}, and should be {}", hex64(crc64nvme), hex64(expected)))
                .with_hint("abort the upload and begin it again"));
        }
        let writer = self.writer.write().take().ok_or_else(|| self.ended())?;
        let metadata =
            Metadata { modified_ns: body.modified_ns.or(self.header.modified_ns), mode: body.mode.or(self.header.mode) };
        let publication = Publication { writer, metadata, overwrite: body.overwrite.into(), crc64nvme: Some(crc64nvme) };
        root.publish(publication)?;
        Ok(Digests { size: self.header.size, crc64nvme: hex64(crc64nvme), blake3: edt::protocol::hex(&blake3) })
    }

    fn digests(&self) -> Result<(u64, [u8; 32])> {
        let state = self.state.lock();
        if let Some(error) = &state.failure {
            return Err(error.clone());
        }
        if !state.written.is_complete(self.header.size) {
            let missing = self.header.size - state.written.covered();
            return Err(Error::new(ErrorKind::InvalidInput, format!("could not publish `{}`", self.header.path))
                .with_cause(format!("{missing} of its {} bytes were not written", self.header.size))
                .with_hint("write what is missing, then commit again"));
        }
        if let Some((crc64nvme, Some(blake3))) = state.digest.as_ref().and_then(FileDigest::finish) {
            return Ok((crc64nvme, blake3));
        }
        drop(state);
        self.read_digests()
    }

    /// Rows that were no whole blocks leave no digest of the file: it is read once more.
    fn read_digests(&self) -> Result<(u64, [u8; 32])> {
        let (mut crc, mut blake3, mut at) = (0, blake3::Hasher::new(), 0);
        let mut buffer = vec![0; 4 * SLAB_SIZE];
        while at < self.header.size {
            let length = index(self.header.size - at).min(buffer.len());
            if self.read_back(at, &mut buffer[..length])? < length {
                return Err(Error::new(ErrorKind::Corrupted, format!("could not read `{}` back", self.header.path))
                    .with_cause("it is shorter than what was written"));
            }
            crc = combine(crc, crc64nvme(&buffer[..length]), length as u64);
            blake3.update(&buffer[..length]);
            at += length as u64;
        }
        Ok((crc, *blake3.finalize().as_bytes()))
    }

    pub(super) fn ended(&self) -> Error {
        Error::new(ErrorKind::Cancelled, format!("the upload of `{}` was committed or given up", self.header.path))
    }
}

impl Part {
    fn of(offset: u64, bytes: &[u8], size: u64) -> Self {
        let length = bytes.len() as u64;
        let whole = offset.is_multiple_of(BLOCK) && (length.is_multiple_of(BLOCK) || offset + length == size);
        let digest = |(block, at): (&[u8], u64)| (block.len() as u64, crc64nvme(block), block_blake3(block, at, size));
        let blocks = whole.then(|| {
            bytes.chunks(SLAB_SIZE).zip((0..).map(|number: u64| offset + number * BLOCK)).map(digest).collect::<Vec<_>>()
        });
        let sum = |blocks: &Vec<(u64, u64, [u8; 32])>| blocks.iter().fold(0, |sum, (length, crc, _)| combine(sum, *crc, *length));
        let crc64nvme = blocks.as_ref().map_or_else(|| crc64nvme(bytes), sum);
        Self { offset, length, crc64nvme, blocks }
    }
}

impl State {
    fn add(&mut self, part: &Part) {
        self.written.insert(part.offset, part.offset + part.length);
        let Some(blocks) = &part.blocks else {
            self.digest = None;
            return;
        };
        let mut at = part.offset;
        for (length, crc64nvme, blake3) in blocks {
            if let Some(digest) = &mut self.digest {
                digest.add(at, *length, *crc64nvme, blake3);
            }
            at += length;
        }
    }
}

/// An index into a row, which is in memory.
fn index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
