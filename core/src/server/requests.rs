//! Requests about files: list, describe, remove, make, digest, read ranges, write small ones, rename, copy.

use crate::error::{Error, ErrorKind, Result};
use crate::files::{digest_file, whole};
use crate::link::Control;
use crate::options::Overwrite;
use crate::path::RelativePath;
use crate::protocol::frame::crc32c;
use crate::protocol::message::{Answer, FileState, ItemFailed, Message, Request, WireEntry, check_crc32c, parts};
use crate::server::{Shared, leaving};
use crate::store::{Depth, Reader, Store};

/// Entries of one part of a listing.
const ENTRIES: usize = 128;

/// Bytes of one part of a range, which with what travels beside them stay below the limit of a message.
const PART: usize = 512 << 10;

/// How often a part is read that changes meanwhile.
const ATTEMPTS: usize = 8;

impl Shared {
    /// Answers one request; only a broken connection is an error here.
    pub(super) fn answer(&self, control: &Control, request: Request) -> Result<()> {
        let answer = match self.respond(control, request) {
            Ok(answer) => answer,
            Err(error) => Some(Answer::Failed((&error).into())),
        };
        answer.map_or(Ok(()), |answer| control.sender.send(&Message::Answer(answer)))
    }

    fn respond(&self, control: &Control, request: Request) -> Result<Option<Answer>> {
        match request {
            Request::List { path, tree } => {
                let depth = if tree { Depth::Tree } else { Depth::One };
                self.list(control, &RelativePath::from_bytes(&path)?, depth).map(|()| None)
            }
            Request::Stat(path) => {
                let entry = self.store.stat(&RelativePath::from_bytes(&path)?)?;
                Ok(Some(Answer::Entries { entries: vec![entry.into()], failed: Vec::new(), last: true }))
            }
            Request::Remove { path, tree } => {
                self.writable()?;
                let depth = if tree { Depth::Tree } else { Depth::One };
                self.store.remove(&RelativePath::from_bytes(&path)?, depth).map(|()| Some(Answer::Done))
            }
            Request::CreateDirectory(path) => {
                self.writable()?;
                self.store.create_directory(&RelativePath::from_bytes(&path)?).map(|()| Some(Answer::Done))
            }
            Request::Digest(path) => self.digest(control, &RelativePath::from_bytes(&path)?).map(Some),
            Request::Read { path, offset, length } => {
                self.read(control, &RelativePath::from_bytes(&path)?, offset, length).map(|()| None)
            }
            changing => self.change(control, changing).map(|()| Some(Answer::Done)),
        }
    }

    /// Does what changes a single file.
    fn change(&self, control: &Control, request: Request) -> Result<()> {
        self.writable()?;
        let go_on = || self.go_on(control);
        go_on()?;
        match request {
            Request::Rename { from, to, overwrite } => {
                let (from, to) = (RelativePath::from_bytes(&from)?, RelativePath::from_bytes(&to)?);
                self.store.rename(&from, &to, rule(overwrite))
            }
            Request::Write { path, content, crc32c, overwrite } => {
                let path = RelativePath::from_bytes(&path)?;
                check_crc32c(&content, crc32c, &format!("the content of `{path}`"))?;
                whole::write(self.paced.as_ref(), &path, &content, rule(overwrite), &go_on)
            }
            Request::Copy { from, to, overwrite } => {
                let (from, to) = (RelativePath::from_bytes(&from)?, RelativePath::from_bytes(&to)?);
                whole::copy(self.paced.as_ref(), &from, &to, rule(overwrite), &go_on)
            }
            other => Err(Error::new(ErrorKind::Protocol, format!("could not do `{other:?}`")).with_cause("it changes no file")),
        }
    }

    /// An error if the server ends or the session is lost: a caller may have asked again elsewhere and gone on from there, which an older
    /// request must not undo.
    fn go_on(&self, control: &Control) -> Result<()> {
        if self.ending.is_set() {
            return Err(leaving());
        }
        control.sender.failure().map_or(Ok(()), Err)
    }

    /// Sends a range part by part, each with the state that the file had while it was read: the caller compares it.
    fn read(&self, control: &Control, path: &RelativePath, offset: u64, length: u64) -> Result<()> {
        let end = offset.checked_add(length).filter(|end| i64::try_from(*end).is_ok()).ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, format!("could not read `{path}`")).with_cause("the range has no end")
        })?;
        let reader = self.readable.open(path)?;
        let mut buffer = vec![0; usize::try_from(length).unwrap_or(PART).min(PART)];
        let mut at = offset;
        loop {
            if self.ending.is_set() {
                return Err(leaving());
            }
            let wanted = usize::try_from(end - at).unwrap_or(PART).min(PART);
            let (state, count) = read_steady(&*reader, at, &mut buffer[..wanted])?;
            let bytes = &buffer[..count];
            at += count as u64;
            let last = count < wanted || at == end;
            let part = Answer::Bytes { state, bytes: bytes.to_vec(), crc32c: crc32c(bytes), last };
            control.sender.send(&Message::Answer(part))?;
            if last {
                return Ok(());
            }
        }
    }

    fn list(&self, control: &Control, path: &RelativePath, depth: Depth) -> Result<()> {
        let (mut entries, mut failed) = (Vec::new(), Vec::new());
        let nothing: crate::store::Prune = std::sync::Arc::new(|_: &RelativePath| false);
        for entry in self.store.list(path, depth, nothing)? {
            match entry {
                Ok(entry) => entries.push(entry.into()),
                Err(error) => failed.push(ItemFailed { file: 0, path: Vec::new(), failed: (&error).into() }),
            }
            if entries.len() + failed.len() >= ENTRIES {
                tell(control, &std::mem::take(&mut entries), &std::mem::take(&mut failed))?;
            }
        }
        tell(control, &entries, &failed)?;
        control.sender.send(&Message::Answer(Answer::Entries { entries: Vec::new(), failed: Vec::new(), last: true }))
    }

    /// Reads a file for its digests, for as long as its caller waits for them.
    fn digest(&self, control: &Control, path: &RelativePath) -> Result<Answer> {
        let digests = digest_file(self.paced.as_ref(), path, &|| self.go_on(control).is_err())?;
        let broken = || Error::new(crate::ErrorKind::Io, format!("could not digest `{path}`"));
        let crc64nvme = u64::from_str_radix(&digests.crc64nvme, 16).map_err(|_| broken())?;
        let blake3 = blake3::Hash::from_hex(&digests.blake3).map_err(|_| broken())?;
        Ok(Answer::Digests { size: digests.size, crc64nvme, blake3: *blake3.as_bytes() })
    }
}

/// Fills the buffer from one state of a file, as far as the file goes: bytes of an older one must not pass for those of a newer one.
fn read_steady(reader: &dyn Reader, offset: u64, buffer: &mut [u8]) -> Result<(FileState, usize)> {
    let mut before = reader.stat()?;
    for _ in 0..ATTEMPTS {
        let count = reader.read_at(offset, buffer)?;
        let after = reader.stat()?;
        if FileState::from(&after) == FileState::from(&before) {
            return Ok((FileState::from(&after), count));
        }
        before = after;
    }
    Err(Error::new(ErrorKind::SourceChanged, format!("could not read `{}`", before.path))
        .with_cause("it changes all the time")
        .with_hint("read it when nobody writes to it"))
}

/// The rule behind a wire number.
fn rule(overwrite: u8) -> Overwrite {
    if overwrite == 0 { Overwrite::Replace } else { Overwrite::Never }
}

/// Tells entries in as many messages as their names and causes take.
fn tell(control: &Control, entries: &[WireEntry], failed: &[ItemFailed]) -> Result<()> {
    for entries in parts(entries, ENTRIES) {
        let entries = Answer::Entries { entries: entries.to_vec(), failed: Vec::new(), last: false };
        control.sender.send(&Message::Answer(entries))?;
    }
    for failed in parts(failed, ENTRIES) {
        let failed = Answer::Entries { entries: Vec::new(), failed: failed.to_vec(), last: false };
        control.sender.send(&Message::Answer(failed))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::store::{Entry, EntryKind};

    /// A file that is written again after each of the first reads, each time with another size and another byte.
    struct Rewritten {
        turn: AtomicU64,
        turns: u64,
    }

    impl Reader for Rewritten {
        fn read_at(&self, _: u64, buffer: &mut [u8]) -> Result<usize> {
            let turn = self.turn.load(Ordering::Relaxed);
            buffer.fill(turn.to_le_bytes()[0]);
            self.turn.store(self.turns.min(turn + 1), Ordering::Relaxed);
            Ok(buffer.len())
        }

        fn stat(&self) -> Result<Entry> {
            let (path, kind) = (RelativePath::root(), EntryKind::File);
            let size = 100 + self.turn.load(Ordering::Relaxed);
            Ok(Entry { path, kind, size, modified_ns: None, mode: None, version: None, sparse: false })
        }

        fn hole(&self, _: u64) -> Option<u64> {
            None
        }

        fn crc64nvme(&self) -> Result<Option<u64>> {
            Ok(None)
        }
    }

    #[test]
    fn bytes_are_those_of_the_state_that_goes_with_them() {
        let read = |turns| {
            let mut buffer = [0; 4];
            let state = read_steady(&Rewritten { turn: AtomicU64::new(0), turns }, 0, &mut buffer);
            state.map(|(state, count)| (state.size, count, buffer))
        };
        assert_eq!(read(0).unwrap(), (100, 4, [0; 4]));
        assert_eq!(read(1).unwrap(), (101, 4, [1; 4]));
        assert_eq!(read(5).unwrap(), (105, 4, [5; 4]));
        assert_eq!(read(1000).unwrap_err().kind(), ErrorKind::SourceChanged);
    }
}
