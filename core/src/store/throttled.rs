//! A store in which every worker reads and writes at a limited rate, as on shared storage that caps each client process.
//!
//! It is for experiments with such storage [AutoMDT §V-B1], and for file systems that one does not want to press. A worker is a
//! thread: those of the read pool and of the write pool, and the streams that are fused with one of these stages. A worker that reads
//! and sends is limited in its reading alone.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::control::{Clock, SystemClock};
use crate::error::Result;
use crate::path::RelativePath;
use crate::store::Store;
use crate::store::layered::{Layer, Layered};

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
pub type ThrottledStore = Layered<Limit>;

impl ThrottledStore {
    /// Slows a store down.
    pub fn new(inner: Arc<dyn Store>, rates: Rates) -> Self {
        Self::with_clock(inner, rates, Arc::new(SystemClock::new()))
    }

    /// Slows a store down by a clock of the caller's.
    pub fn with_clock(inner: Arc<dyn Store>, rates: Rates, clock: Arc<dyn Clock>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { inner, layer: Limit { id: NEXT.fetch_add(1, Ordering::Relaxed), rates, clock } }
    }
}

/// The rates of a store, which each of its threads has for itself.
#[derive(Clone)]
pub struct Limit {
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

impl Layer for Limit {
    fn before_open(&self, _: &RelativePath) -> Result<()> {
        Ok(())
    }

    fn before_create(&self, _: &RelativePath) -> Result<()> {
        Ok(())
    }

    fn before_set_metadata(&self, _: &RelativePath) -> Result<()> {
        Ok(())
    }

    fn after_read(&self, read: &mut [u8]) -> Result<()> {
        self.spend(Way::Read, read.len());
        Ok(())
    }

    fn before_write(&self) -> Result<()> {
        Ok(())
    }

    fn after_write(&self, bytes: usize) {
        self.spend(Way::Write, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NewFile;
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
