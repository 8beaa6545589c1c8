//! The work of a sender: files to cut into chunks and packs of small items, largest first, filled while listing still runs.

mod division;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::buffer::SLAB_SIZE;
use crate::error::Result;
use crate::optimizer::exponent;
use crate::protocol::message::FileHeader;
use crate::store::{Capabilities, Entry, Reader};
use crate::sync::{Condvar, Mutex, RwLock};

pub(crate) use division::Worker;

/// Files and packs that listing may be ahead of the streams: bounds memory whatever the number of files.
const AHEAD: usize = 2048;

/// Files that are begun before one of them goes before larger ones: each is open at both ends until all of it is handed out.
const MOST_BEGUN: usize = 1024;

/// What chunks begin at multiples of.
pub(super) const BLOCK: u64 = SLAB_SIZE as u64;

/// The least bytes of a chunk at the end of the work, where chunks are cut finer, unless streams are slow.
pub(crate) const TAIL_CHUNK: u64 = 1 << 20;

/// The least bytes of a part of a chunk that another worker takes over. Where files are read by requests, each such part is one more, and a
/// connection that is closed before its time.
pub(crate) fn least_share(source: &Capabilities) -> u64 {
    if source.flushes { BLOCK } else { TAIL_CHUNK }
}

/// A file that is sent in chunks.
pub(crate) struct SourceFile {
    /// What the receiver is told about it.
    pub(crate) header: FileHeader,
    /// The entry as it was listed, to notice changes.
    pub(crate) entry: Entry,
    /// How often this file was begun before because its source changed.
    pub(crate) attempt: u32,
    /// Bytes that are to be put on a stream, for the first time or again.
    pub(crate) unsent: AtomicU64,
    /// Chunks in flight.
    pub(crate) in_flight: AtomicU16,
    /// Whether its state was checked, or is about to be, for the receiver to publish it: what is read again after that is checked itself.
    pub(crate) vouched: AtomicBool,
    /// Whether the receiver was told to publish it.
    pub(crate) closed: AtomicBool,
    /// Whether it is given up: what is left of it is not sent.
    pub(crate) abandoned: AtomicBool,
    /// Opened by the first chunk, let go when all of the file is on its way.
    pub(crate) reader: RwLock<Option<Arc<dyn Reader>>>,
}

/// A small item that travels whole in a pack.
#[derive(Debug, Clone)]
pub(crate) struct PackItem {
    /// What the receiver is told; size and digests are filled in when it is read.
    pub(crate) header: FileHeader,
    /// The entry as it was listed.
    pub(crate) entry: Entry,
}

/// One piece of work.
pub(crate) enum Unit {
    /// A contiguous range of one file.
    Chunk(Arc<SourceFile>, Range<u64>),
    /// Small items of one frame.
    Pack(Vec<PackItem>),
}

/// What a worker gets when it asks for work.
pub(crate) enum Next {
    /// Something to do.
    Unit(Unit),
    /// Nothing at present; ask again.
    Nothing,
}

/// How chunks are cut at this moment.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    /// Bytes of a chunk.
    pub(crate) chunk: u64,
    /// The least bytes of one at the end of the work.
    pub(crate) least: u64,
    /// Chunks of one file in flight.
    pub(crate) parallelism: u16,
    /// Workers that share what is left.
    pub(crate) concurrency: u16,
    /// Whether a file that was begun goes before larger ones: where it takes long to publish one, that happens while others are sent.
    pub(crate) one_by_one: bool,
}

/// The shared queue.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Workers that wait for work.
    idle: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// By remaining bytes, then number: the last is the largest.
    files: BTreeMap<(u64, u32), Remaining>,
    /// The same keys, of files of 2^n bytes and more, and of less than twice that.
    sizes: BTreeMap<u8, BTreeSet<(u64, u32)>>,
    packs: VecDeque<Pack>,
    /// Those of them of which a part was handed out, or was at the receiver before.
    begun: BTreeSet<(u64, u32)>,
    division: division::Division,
    bytes: u64,
    complete: bool,
    closed: bool,
}

/// Small items that wait.
struct Pack {
    items: Vec<PackItem>,
    bytes: u64,
}

impl Pack {
    fn new(items: Vec<PackItem>) -> Self {
        let bytes = items.iter().map(|item| item.header.size).sum();
        Self { items, bytes }
    }

    fn mean_size(&self) -> u64 {
        self.bytes / (self.items.len() as u64).max(1)
    }
}

struct Remaining {
    file: Arc<SourceFile>,
    ranges: VecDeque<Range<u64>>,
}

impl Remaining {
    fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Whether another chunk of it may be in flight where so many may.
    fn may_be_cut(&self, parallelism: u16) -> bool {
        parallelism == u16::MAX || self.file.in_flight.load(Ordering::Relaxed) < parallelism
    }
}

impl Queue {
    /// Adds a file's ranges, waiting while listing is far enough ahead; returns false when the queue is closed.
    pub(crate) fn add_file(&self, file: Arc<SourceFile>, ranges: Vec<Range<u64>>) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.closed && state.files.len() >= AHEAD);
        state.insert(file, ranges.into());
        self.changed.notify_all();
        !state.closed
    }

    /// Adds a pack of `bytes` in all, waiting likewise.
    pub(crate) fn add_pack(&self, pack: Vec<PackItem>, bytes: u64) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.closed && state.packs.len() >= AHEAD / 8);
        state.bytes += bytes;
        state.packs.push_back(Pack::new(pack));
        self.changed.notify_all();
        !state.closed
    }

    /// Puts back work of a lost stream, without waiting.
    pub(crate) fn put_back(&self, unit: Unit) {
        let mut state = self.state.lock();
        match unit {
            Unit::Chunk(file, range) => state.put_back(file, range),
            Unit::Pack(items) => {
                let pack = Pack::new(items);
                state.bytes += pack.bytes;
                state.packs.push_front(pack);
            }
        }
        self.changed.notify_all();
    }

    /// Takes a chunk of the largest file, or a pack, waiting at most `patience` for some; where workers are divided among files of
    /// different sizes, of those that it is for the worker to be at.
    pub(crate) fn take(&self, worker: &mut Worker, cut: Cut, patience: Duration) -> Next {
        let mut state = self.state.lock();
        if let Some(unit) = state.take_for(worker, cut) {
            self.changed.notify_all();
            return Next::Unit(unit);
        }
        if !state.closed {
            self.idle.fetch_add(1, Ordering::Relaxed);
            self.changed.wait_for(&mut state, patience);
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
        match state.take_for(worker, cut) {
            Some(unit) => {
                self.changed.notify_all();
                Next::Unit(unit)
            }
            None => Next::Nothing,
        }
    }

    /// What a worker keeps of the rest of its chunk: where others have nothing to do it gives half of it back, so that a slow stream does
    /// not have the end of the work for itself. Neither half has less than `least` bytes.
    pub(crate) fn share(&self, file: &Arc<SourceFile>, rest: Range<u64>, parallelism: u16, least: u64) -> Range<u64> {
        if self.idle.load(Ordering::Relaxed) == 0 {
            return rest;
        }
        let parallelism = parallelism.min(self.state.lock().division.parallelism(file.header.size));
        if file.in_flight.load(Ordering::Relaxed) >= parallelism {
            return rest;
        }
        let middle = u64::midpoint(rest.start, rest.end).next_multiple_of(BLOCK);
        if middle - rest.start < least || middle.saturating_add(least) > rest.end {
            return rest;
        }
        self.put_back(Unit::Chunk(Arc::clone(file), middle..rest.end));
        rest.start..middle
    }

    /// Listing has ended.
    pub(crate) fn complete(&self) {
        self.state.lock().complete = true;
        self.changed.notify_all();
    }

    /// Nothing is handed out or waited for any more.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.files.clear();
        state.sizes.clear();
        state.begun.clear();
        state.packs.clear();
        self.changed.notify_all();
    }

    /// Bytes waiting; `None` while listing goes on.
    pub(crate) fn left(&self) -> Option<u64> {
        let state = self.state.lock();
        state.complete.then_some(state.bytes)
    }

    /// Takes out what is left of a file that is given up.
    pub(crate) fn drop_file(&self, number: u32) {
        let mut state = self.state.lock();
        let keys: Vec<_> = state.files.keys().filter(|key| key.1 == number).copied().collect();
        for key in keys {
            state.remove(key);
        }
        self.changed.notify_all();
    }
}

impl State {
    fn insert(&mut self, file: Arc<SourceFile>, ranges: VecDeque<Range<u64>>) {
        let remaining = Remaining { file, ranges };
        let bytes = remaining.bytes();
        if bytes > 0 {
            let key = (bytes, remaining.file.header.file);
            self.bytes += bytes;
            if bytes < remaining.file.header.size {
                self.begun.insert(key);
            }
            self.sizes.entry(exponent(remaining.file.header.size)).or_default().insert(key);
            self.files.insert(key, remaining);
        }
    }

    fn remove(&mut self, key: (u64, u32)) -> Option<Remaining> {
        let remaining = self.files.remove(&key)?;
        self.begun.remove(&key);
        let exponent = exponent(remaining.file.header.size);
        if let Some(keys) = self.sizes.get_mut(&exponent) {
            keys.remove(&key);
            if keys.is_empty() {
                self.sizes.remove(&exponent);
            }
        }
        self.bytes -= key.0;
        Some(remaining)
    }

    fn put_back(&mut self, file: Arc<SourceFile>, range: Range<u64>) {
        let key = self.files.keys().find(|key| key.1 == file.header.file).copied();
        let mut ranges = key.and_then(|key| self.remove(key)).map(|remaining| remaining.ranges).unwrap_or_default();
        ranges.push_front(range);
        self.insert(file, ranges);
    }

    fn take(&mut self, cut: Cut) -> Option<Unit> {
        let allowed = |remaining: &Remaining| remaining.may_be_cut(cut.parallelism);
        // At the end of the work chunks are better than packs: they can be cut finer, and are settled a round trip sooner.
        if self.complete
            && let Some(pack) = self.take_pack(0)
        {
            return Some(pack);
        }
        let may_go_on = |key: &&(u64, u32)| self.files.get(key).is_some_and(allowed);
        let begun = match self.begun.len() {
            _ if cut.one_by_one => self.begun.iter().find(may_go_on),
            MOST_BEGUN.. => self.begun.iter().rev().find(may_go_on),
            _ => None,
        };
        let largest = || self.files.iter().rev().find(|(_, remaining)| allowed(remaining)).map(|(key, _)| key);
        let Some(key) = begun.or_else(largest).copied() else { return self.take_pack(0) };
        self.take_chunk(key, cut)
    }

    /// A chunk of a file.
    fn take_chunk(&mut self, key: (u64, u32), cut: Cut) -> Option<Unit> {
        let chunk = self.chunk(cut);
        let mut remaining = self.remove(key)?;
        let first = remaining.ranges.pop_front()?;
        // Chunks begin and end at block borders, for digests are per block.
        let end = first.end.min((first.start / BLOCK * BLOCK).saturating_add(chunk.max(BLOCK) / BLOCK * BLOCK));
        if end < first.end {
            remaining.ranges.push_front(end..first.end);
        }
        let file = Arc::clone(&remaining.file);
        self.insert(remaining.file, remaining.ranges);
        file.in_flight.fetch_add(1, Ordering::Relaxed);
        Some(Unit::Chunk(file, first.start..end))
    }

    /// The pack at a place.
    fn take_pack(&mut self, place: usize) -> Option<Unit> {
        let pack = self.packs.remove(place)?;
        self.bytes = self.bytes.saturating_sub(pack.bytes);
        Some(Unit::Pack(pack.items))
    }

    /// The chunk size of this moment: all of a file where it may be in flight only once; near the end of the work it shrinks so that no stream idles while another finishes a large one.
    fn chunk(&self, cut: Cut) -> u64 {
        if cut.parallelism == 1 {
            return u64::MAX;
        }
        if !self.complete {
            return cut.chunk;
        }
        let share = self.bytes / (2 * u64::from(cut.concurrency.max(1)));
        cut.chunk.min(share.max(cut.least) / BLOCK * BLOCK)
    }
}

impl SourceFile {
    /// The open file; the first caller opens it.
    pub(crate) fn reader(&self, open: impl FnOnce() -> Result<Box<dyn Reader>>) -> Result<Arc<dyn Reader>> {
        if let Some(reader) = self.reader.read().as_ref() {
            return Ok(Arc::clone(reader));
        }
        let mut place = self.reader.write();
        if let Some(reader) = place.as_ref() {
            return Ok(Arc::clone(reader));
        }
        let reader: Arc<dyn Reader> = Arc::from(open()?);
        *place = Some(Arc::clone(&reader));
        Ok(reader)
    }
}

#[cfg(test)]
impl SourceFile {
    /// A file that was not begun.
    pub(crate) fn of_a_test(number: u32, size: u64) -> Arc<Self> {
        let path = crate::path::RelativePath::from_user("f").expect("it is a path");
        let kind = crate::store::EntryKind::File;
        Arc::new(Self {
            header: FileHeader::of_a_test(number, size),
            entry: Entry { path, kind, size, modified_ns: None, mode: None, version: None, sparse: false },
            attempt: 0,
            unsent: AtomicU64::new(size),
            in_flight: AtomicU16::new(0),
            vouched: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            reader: RwLock::new(None),
        })
    }
}
