//! A store in which every worker reads and writes at a limited rate, as on shared storage that caps each client process.
//!
//! It is for experiments with such storage [AutoMDT §V-B1], and for file systems that one does not want to press. A worker is a
//! thread: those of the read pool and of the write pool, and the streams that are fused with one of these stages. A worker that reads
//! and sends is limited in its reading alone.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::control::{Clock, SystemClock};
use crate::error::Result;
use crate::options::{Fsync, Overwrite};
use crate::path::RelativePath;
use crate::store::{
    Capabilities, Depth, Entry, Listing, Metadata, NewFile, Prune, Publication, Reader, RetryWatcher, Store, Writer,
};

/// A thread that woke late may catch up this much; longer time in which nothing was asked for is not saved up. What a thread moves in a
/// second exceeds its rate by no more than this share of it.
const CREDIT: Duration = Duration::from_millis(20);

/// Bytes per second of one calling thread; `None` is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// Of reading.
    pub read: Option<f64>,
    /// Of writing.
    pub write: Option<f64>,
}

impl Rates {
    /// The same rate for reading and for writing.
    pub fn both(rate: f64) -> Self {
        Self { read: Some(rate), write: Some(rate) }
    }
}

/// A store that lets each calling thread read and write no faster than its rates.
pub struct ThrottledStore {
    inner: Arc<dyn Store>,
    limit: Limit,
}

impl ThrottledStore {
    /// Slows a store down.
    pub fn new(inner: Arc<dyn Store>, rates: Rates) -> Self {
        Self::with_clock(inner, rates, Arc::new(SystemClock::new()))
    }

    /// Slows a store down by a clock of the caller's.
    pub fn with_clock(inner: Arc<dyn Store>, rates: Rates, clock: Arc<dyn Clock>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { inner, limit: Limit { id: NEXT.fetch_add(1, Ordering::Relaxed), rates, clock } }
    }
}

#[derive(Clone)]
struct Limit {
    id: u64,
    rates: Rates,
    clock: Arc<dyn Clock>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    Read,
    Write,
}

thread_local! {
    /// When this thread may go on, for each store and way.
    static DUE: RefCell<HashMap<(u64, Way), Duration>> = RefCell::default();
}

impl Limit {
    /// Waits until a thread that moved `bytes` more keeps to its rate.
    fn spend(&self, way: Way, bytes: usize) {
        let rate = if way == Way::Read { self.rates.read } else { self.rates.write };
        let Some(rate) = rate else { return };
        let now = self.clock.now();
        let due = DUE.with_borrow_mut(|due| {
            let due = due.entry((self.id, way)).or_insert(now);
            *due = (*due).max(now.saturating_sub(CREDIT)) + Duration::from_secs_f64(bytes as f64 / rate);
            *due
        });
        self.clock.wait(due.saturating_sub(now), &|| false);
    }
}

impl Store for ThrottledStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn list(&self, path: &RelativePath, depth: Depth, prune: Prune) -> Result<Listing<'_>> {
        self.inner.list(path, depth, prune)
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        self.inner.stat(path)
    }

    fn open(&self, path: &RelativePath) -> Result<Box<dyn Reader>> {
        Ok(Box::new(ThrottledReader { inner: self.inner.open(path)?, limit: self.limit.clone() }))
    }

    fn create(&self, file: &NewFile) -> Result<Box<dyn Writer>> {
        Ok(Box::new(ThrottledWriter { inner: self.inner.create(file)?, limit: self.limit.clone() }))
    }

    fn publish(&self, batch: Vec<Publication>, fsync: Fsync) -> Vec<Result<()>> {
        self.inner.publish(batch, fsync)
    }

    fn create_directory(&self, path: &RelativePath) -> Result<()> {
        self.inner.create_directory(path)
    }

    fn set_directory_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        self.inner.set_directory_metadata(path, metadata)
    }

    fn create_symlink(&self, path: &RelativePath, target: &[u8], overwrite: Overwrite) -> Result<()> {
        self.inner.create_symlink(path, target, overwrite)
    }

    fn remove(&self, path: &RelativePath, depth: Depth) -> Result<()> {
        self.inner.remove(path, depth)
    }

    fn sync_directories(&self, paths: &[RelativePath]) -> Result<()> {
        self.inner.sync_directories(paths)
    }

    fn journal(&self, key: &str) -> Result<Option<File>> {
        self.inner.journal(key)
    }

    fn discard(&self, key: &str) -> Result<()> {
        self.inner.discard(key)
    }

    fn tidy(&self) {
        self.inner.tidy();
    }

    fn interrupt(&self) {
        self.inner.interrupt();
    }

    fn watch(&self, watcher: &RetryWatcher) {
        self.inner.watch(watcher);
    }
}

struct ThrottledReader {
    inner: Box<dyn Reader>,
    limit: Limit,
}

impl Reader for ThrottledReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let count = self.inner.read_at(offset, buffer)?;
        self.limit.spend(Way::Read, count);
        Ok(count)
    }

    fn stat(&self) -> Result<Entry> {
        self.inner.stat()
    }

    fn hole(&self, offset: u64) -> Option<u64> {
        self.inner.hole(offset)
    }

    fn crc64nvme(&self) -> Result<Option<u64>> {
        self.inner.crc64nvme()
    }

    fn expect(&self, range: Range<u64>) {
        self.inner.expect(range);
    }
}

struct ThrottledWriter {
    inner: Box<dyn Writer>,
    limit: Limit,
}

impl Writer for ThrottledWriter {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.inner.write_at(offset, bytes)?;
        self.limit.spend(Way::Write, bytes.len());
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn kept(&self) -> Vec<Range<u64>> {
        self.inner.kept()
    }

    fn abort(self: Box<Self>) {
        self.inner.abort();
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        // The inner store publishes, and looks for its own type.
        self.inner.into_any()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::null::{NullStore, ZeroStore};
    use crate::testing::clock::ManualClock;

    #[test]
    fn a_thread_reads_at_its_rate_and_waits_for_nothing_else() {
        let clock = Arc::new(ManualClock::new());
        let rates = Rates { read: Some(1000.0), write: None };
        let store = ThrottledStore::with_clock(Arc::new(ZeroStore::new(1, 10_000)), rates, clock.clone());
        let reader = store.open(&RelativePath::from_user("zero-0000").unwrap()).unwrap();
        for part in 1..=4 {
            reader.read_at(0, &mut [0; 500]).unwrap();
            assert_eq!(clock.now(), Duration::from_millis(500 * part));
        }
    }

    #[test]
    fn reading_and_writing_have_rates_of_their_own() {
        let clock = Arc::new(ManualClock::new());
        let rates = Rates { read: Some(1.0), write: Some(100.0) };
        let store = ThrottledStore::with_clock(Arc::new(NullStore::new()), rates, clock.clone());
        let path = RelativePath::from_user("a").unwrap();
        let writer = store.create(&NewFile { size: 200, ..NewFile::of(path) }).unwrap();
        writer.write_at(0, &[0; 200]).unwrap();
        assert_eq!(clock.now(), Duration::from_secs(2));
    }

    #[test]
    fn each_thread_has_a_rate_of_its_own() {
        let clock = Arc::new(ManualClock::new());
        let store = ThrottledStore::with_clock(Arc::new(ZeroStore::new(1, 10_000)), Rates::both(1000.0), clock.clone());
        let reader = store.open(&RelativePath::from_user("zero-0000").unwrap()).unwrap();
        reader.read_at(0, &mut [0; 500]).unwrap();
        std::thread::scope(|scope| scope.spawn(|| reader.read_at(0, &mut [0; 500]).unwrap()).join().unwrap());
        // One after the other on a clock that only waiting moves: each waited for its own bytes and for no others.
        assert_eq!(clock.now(), Duration::from_secs(1));
        reader.read_at(0, &mut [0; 500]).unwrap();
        // The first thread may catch up no more than its credit of the half second that passed meanwhile.
        assert_eq!(clock.now() + CREDIT, Duration::from_millis(1500));
    }

    #[test]
    fn a_pause_is_not_saved_up() {
        let clock = Arc::new(ManualClock::new());
        let store = ThrottledStore::with_clock(Arc::new(ZeroStore::new(1, 10_000)), Rates::both(1000.0), clock.clone());
        let reader = store.open(&RelativePath::from_user("zero-0000").unwrap()).unwrap();
        reader.read_at(0, &mut [0; 1]).unwrap();
        clock.advance(Duration::from_mins(1));
        let before = clock.now();
        for _ in 0..10 {
            reader.read_at(0, &mut [0; 100]).unwrap();
        }
        assert_eq!(clock.now() + CREDIT, before + Duration::from_secs(1));
    }
}
