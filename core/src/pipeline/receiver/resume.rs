//! The beginning of a session at the receiver: where the destination is, and what of it is there already.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::buffer::SLAB_SIZE;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Fsync, Overwrite};
use crate::path::RelativePath;
use crate::pipeline::digest::{FileDigest, block_blake3, combine, crc64nvme};
use crate::pipeline::journal::{BlockRecord, DoneFiles, DoneRecord, Journal, Record, RecoveredFile};
use crate::pipeline::ranges::Ranges;
use crate::pipeline::receiver::Shared;
use crate::plan::{is_chosen, key};
use crate::protocol::message::{DoneKey, Have, Key, Message, PartialFile, parts};
use crate::store::{Depth, EntryKind, NewFile, Partial, Writer};
use crate::sync::Mutex;

mod standing;

const KEYS_PER_MESSAGE: usize = 8192;

/// Ranges of one file that are told, so that it fits into a message; the bytes of others are sent again.
const RANGES_PER_FILE: usize = 16 << 10;

/// Requests about published files that are on their way at once.
const LOOKS: usize = 16;

/// A partial file whose bytes were read again and found right, or which its store vouches for.
pub(crate) struct Verified {
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) identity: Key,
    pub(crate) ranges: Ranges,
    pub(crate) digest: FileDigest,
}

/// The partial files of earlier attempts, by the key of their path.
#[derive(Default)]
pub(crate) struct Partials {
    files: Mutex<HashMap<Key, Verified>>,
    next: AtomicU64,
    small: AtomicU64,
}

impl Partials {
    /// Takes the partial file of a path, if there is one.
    pub(crate) fn take(&self, path: &Key) -> Option<Verified> {
        self.files.lock().remove(path)
    }

    /// A number for a small file.
    pub(crate) fn small_number(&self) -> u64 {
        Partial::SMALL_FILES | self.small.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for a new partial file.
    pub(crate) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

impl Shared {
    pub(crate) fn prepare(&self) -> Result<()> {
        let given = self.base.lock().clone();
        let base = self.resolve(&given)?;
        *self.base.lock() = base.clone();
        let inside = base != given;
        if let Some(account) = &self.account {
            account.resolved(inside);
        }
        if !self.options.dry_run {
            self.recover()?;
        }
        self.tell_standing(&base)?;
        let partial: Vec<PartialFile> = self
            .partials
            .files
            .lock()
            .iter()
            .map(|(path, file)| {
                let ranges = file.ranges.iter().take(RANGES_PER_FILE).collect();
                PartialFile { path: *path, identity: file.identity, ranges }
            })
            .collect();
        for partial in parts(&partial, KEYS_PER_MESSAGE) {
            self.tell(Have { partial: partial.to_vec(), ..Have::default() })?;
        }
        let (resolved, hands_back) = (Some(base.to_string()), self.hands_back().then_some(true));
        self.tell(Have { last: true, resolved, hands_back, inside: inside.then_some(true), ..Have::default() })
    }

    fn tell(&self, have: Have) -> Result<()> {
        self.control.send(&Message::Have(have))
    }

    /// A file goes to the destination's name, or into it if a directory stands there or is meant.
    fn resolve(&self, base: &RelativePath) -> Result<RelativePath> {
        let Some(name) = &self.options.file_name else {
            return match self.store.stat(base) {
                Ok(entry) if entry.kind == EntryKind::File => {
                    Err(Error::new(ErrorKind::WrongType, format!("could not copy into `{base}`"))
                        .with_cause("it is a file, and the source is a directory or several sources")
                        .with_hint("name a directory as the destination"))
                }
                Ok(_) => Ok(base.clone()),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(base.clone()),
                Err(error) => Err(error),
            };
        };
        if self.options.into || base.is_root() || self.is_directory(base)? {
            return base.child(name);
        }
        Ok(base.clone())
    }

    fn is_directory(&self, path: &RelativePath) -> Result<bool> {
        match self.store.stat(path) {
            Ok(entry) if matches!(entry.kind, EntryKind::Symlink(_)) => {
                // A link to a directory lists as one; any other link lists as itself or not at all.
                let nothing = std::sync::Arc::new(|_: &RelativePath| false);
                Ok(self
                    .store
                    .list(path, Depth::One, nothing)
                    .is_ok_and(|mut listing| listing.next().is_none_or(|first| first.is_ok_and(|entry| entry.path != *path))))
            }
            Ok(entry) => Ok(entry.kind == EntryKind::Directory),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the journal, and reads again what it says was verified: only bytes that are right now are kept.
    fn recover(&self) -> Result<()> {
        let Some(file) = self.store.journal(&self.key)? else { return Ok(()) };
        let (mut journal, recovered) = Journal::open(file, self.transfer)?;
        if !recovered.partial.is_empty() || !recovered.done.is_empty() {
            self.resumable.store(true, Ordering::Relaxed);
        }
        // Partial files of a journal that is gone may still lie there: new ones keep clear of their numbers.
        let empty = recovered.partial.is_empty() && recovered.done.is_empty();
        let clear = if empty || recovered.restarted.is_some() { nanoseconds() } else { 0 };
        self.partials.next.store(recovered.next_number.max(clear), Ordering::Relaxed);
        self.tell_done(&mut journal, &recovered.done)?;
        *self.journal.lock() = Some(journal);
        for partial in recovered.partial {
            // What an attempt at other files began under the same name is left for one that goes on with it.
            if self.chosen.as_ref().is_some_and(|chosen| !is_chosen(chosen, &partial.path)) {
                self.set_aside.store(true, Ordering::Relaxed);
                continue;
            }
            let verified = self.verify(&partial);
            let whole = verified.as_ref().is_ok_and(|verified| verified.ranges.is_complete(partial.size));
            // Where nothing may be replaced, the final name may be a second one of the same file, and then it is in its own way.
            if let Some(record) = partial.publishing.filter(|_| !whole || self.overwrite == Overwrite::Never) {
                match self.was_published(&record) {
                    Ok(true) => {
                        self.take_published(record, partial.number)?;
                        continue;
                    }
                    // It stays in the journal until it is begun again.
                    Err(error) if !whole => {
                        tracing::info!(%error, "it is not known whether a file was published");
                        continue;
                    }
                    Ok(false) | Err(_) => {}
                }
            }
            match verified {
                Ok(verified) => {
                    self.partials.files.lock().insert(key::of_path(&partial.path), verified);
                }
                Err(error) if self.stop.is_set() => return Err(self.stop.error().unwrap_or(error)),
                Err(error) => {
                    tracing::info!(%error, "a partial file cannot be continued");
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupted) {
                        let path = self.base.lock().join(&partial.path);
                        self.drop_partial(partial.number, partial.size, &path);
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells which files earlier attempts published and still stand there as they were published.
    fn tell_done(&self, journal: &mut Journal, done: &DoneFiles) -> Result<()> {
        let base = self.base.lock().clone();
        let stands = |record: &DoneRecord| self.stands(&base, record).unwrap_or(false);
        // Where each look is a request, many are on their way at once.
        let looks = if self.capabilities.flushes { 1 } else { LOOKS };
        // What an attempt at other files published under the same name is known to it as long as the journal is there.
        let theirs = |record: &DoneRecord| self.chosen.as_ref().is_some_and(|chosen| !is_chosen(chosen, &record.path));
        let mut records = journal.done(done);
        loop {
            let group = records.by_ref().take(KEYS_PER_MESSAGE / 2).collect::<Result<Vec<_>>>()?;
            if group.is_empty() {
                return Ok(());
            }
            self.go_on("its journal was read")?;
            let (others, group): (Vec<_>, Vec<_>) = group.into_iter().partition(&theirs);
            if !self.set_aside.load(Ordering::Relaxed) && others.iter().any(&stands) {
                self.set_aside.store(true, Ordering::Relaxed);
            }
            let there = standing(&group, looks, &stands);
            if self.fsync != Fsync::None {
                // The attempt that published them may have ended before it flushed their directories.
                self.touched.lock().extend(there.iter().filter_map(|record| base.join(&record.path).parent()));
            }
            self.tell(Have { done: there.into_iter().map(done_key).collect(), ..Have::default() })?;
        }
    }

    /// Whether a file still stands below `base` as it was published.
    fn stands(&self, base: &RelativePath, record: &DoneRecord) -> Result<bool> {
        let times = self.capabilities.times;
        match self.store.stat(&base.join(&record.path)) {
            Ok(entry) => Ok(entry.kind == EntryKind::File
                && entry.size == record.size
                && times.kept(record.modified_ns).is_none_or(|kept| times.kept(entry.modified_ns) == Some(kept))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a file that was about to get its final name got it, so that it is found there and not under its temporary one.
    pub(crate) fn was_published(&self, record: &DoneRecord) -> Result<bool> {
        let base = self.base.lock().clone();
        if !self.capabilities.reads_back || !self.stands(&base, record)? {
            return Ok(false);
        }
        // What stood there before may have the same size and time.
        let reader = self.store.open(&base.join(&record.path))?;
        let (mut at, mut crc, mut buffer) = (0, 0, vec![0; SLAB_SIZE]);
        while at < record.size {
            let want = usize::try_from(record.size - at).unwrap_or(SLAB_SIZE).min(SLAB_SIZE);
            // What is known after one read is told even if the half ends.
            if at > 0 {
                self.go_on("a file that may have been published was read")?;
            }
            if reader.read_at(at, &mut buffer[..want])? < want {
                return Ok(false);
            }
            crc = combine(crc, crc64nvme(&buffer[..want]), want as u64);
            at += want as u64;
        }
        Ok(crc == record.crc64nvme)
    }

    /// Takes such a file for published, and tells so.
    fn take_published(&self, record: DoneRecord, number: u64) -> Result<()> {
        let path = self.base.lock().join(&record.path);
        let (key, size) = (done_key(&record), record.size);
        self.journal(&Record::Done(record));
        self.drop_partial(number, size, &path);
        if self.fsync != Fsync::None {
            self.touched.lock().extend(path.parent());
        }
        self.tell(Have { done: vec![key], ..Have::default() })
    }

    fn verify(&self, partial: &RecoveredFile) -> Result<Verified> {
        let path = self.base.lock().join(&partial.path);
        let resume = Some(Partial { key: self.key.clone(), number: partial.number });
        let new = NewFile { size: partial.size, sparse: partial.sparse, resume, ..NewFile::of(path) };
        let writer = self.store.create(&new)?;
        let mut ranges = Ranges::default();
        let mut digest = FileDigest::new(partial.size, self.digest);
        if !self.capabilities.reads_back {
            let kept = writer.kept();
            let is_kept = |block: &&BlockRecord| {
                kept.iter().any(|range| range.start <= block.offset && block.offset + block.length <= range.end)
            };
            for block in partial.blocks.iter().filter(is_kept) {
                if digest.add(block.offset, block.length, block.crc64nvme, &block.blake3) {
                    ranges.insert(block.offset, block.offset + block.length);
                }
            }
        }
        for (offset, length, expected) in &partial.ranges {
            let blocks = self.read_blocks(writer.as_ref(), partial.size, *offset, *length)?;
            let found = blocks.iter().fold(0, |sum, block| combine(sum, block.crc64nvme, block.length));
            if found != *expected {
                tracing::info!(path = %new.path, offset, "bytes of a partial file are not as they were written");
                continue;
            }
            ranges.insert(*offset, offset + length);
            for block in blocks {
                digest.add(block.offset, block.length, block.crc64nvme, &block.blake3);
            }
        }
        Ok(Verified { number: partial.number, size: partial.size, identity: partial.identity, ranges, digest })
    }

    fn read_blocks(&self, writer: &dyn Writer, size: u64, offset: u64, length: u64) -> Result<Vec<Block>> {
        let mut blocks = Vec::new();
        let mut buffer = vec![0; SLAB_SIZE];
        let (mut at, end) = (offset, (offset + length).min(size));
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(SLAB_SIZE).min(SLAB_SIZE);
            let read = writer.read_at(at, &mut buffer[..want])?;
            self.go_on("its partial files were read")?;
            if read < want {
                return Err(Error::new(ErrorKind::Corrupted, "a partial file is shorter than its journal says"));
            }
            let bytes = &buffer[..want];
            let blake3 = block_blake3(bytes, at, size);
            blocks.push(Block { offset: at, length: want as u64, crc64nvme: crc64nvme(bytes), blake3 });
            at += want as u64;
        }
        Ok(blocks)
    }
}

/// Those of the records that still stand as they were published, looked at by `looks` threads.
fn standing<'a>(records: &'a [DoneRecord], looks: usize, stands: &(impl Fn(&DoneRecord) -> bool + Sync)) -> Vec<&'a DoneRecord> {
    let look = |part: &'a [DoneRecord]| part.iter().filter(|record| stands(record)).collect::<Vec<_>>();
    if looks == 1 {
        return look(records);
    }
    let parts = records.chunks(records.len().div_ceil(looks).max(1));
    std::thread::scope(|scope| {
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| look(part))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

fn done_key(record: &DoneRecord) -> DoneKey {
    DoneKey { key: record.identity, crc64nvme: record.crc64nvme, blake3: record.blake3 }
}

fn nanoseconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX / 2)
}

/// One block of a partial file, as read.
struct Block {
    offset: u64,
    length: u64,
    crc64nvme: u64,
    blake3: [u8; 32],
}

#[cfg(test)]
mod tests;
