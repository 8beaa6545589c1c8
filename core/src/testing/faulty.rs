//! A store that fails on purpose: by a script, or at random from a seed.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::Store;
use crate::store::layered::{Layer, Layered};
use crate::store::null::mix;

/// What fails; the default is nothing.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Share of opens, creates, reads and writes that fail with an error that a retry can help, from 0 to 1.
    pub probability: f64,
    /// Which of them: the same seed and order of calls fail the same calls.
    pub seed: u64,
    /// Files that cannot be opened to read, for want of permission.
    pub unreadable: HashSet<RelativePath>,
    /// Files that cannot be created, and directories whose metadata cannot be set, for want of permission.
    pub unwritable: HashSet<RelativePath>,
    /// From this write on, counted from 1, the device is full.
    pub full_from_write: Option<u64>,
    /// In this read, counted from 1, one bit of the first byte is turned, and nothing says so.
    pub corrupt_read: Option<u64>,
    /// How long each read and write takes longer.
    pub delay: Option<Duration>,
}

/// A store with faults.
pub type FaultyStore = Layered<Arc<Plan>>;

impl FaultyStore {
    /// Makes a store faulty.
    pub fn new(inner: Arc<dyn Store>, faults: Faults) -> Self {
        let counter = || AtomicU64::new(0);
        Self { inner, layer: Arc::new(Plan { faults, operations: counter(), reads: counter(), writes: counter() }) }
    }

    /// How many reads and writes were asked for.
    pub fn counts(&self) -> (u64, u64) {
        (self.layer.reads.load(Ordering::Relaxed), self.layer.writes.load(Ordering::Relaxed))
    }
}

/// What fails, and how much was asked for so far.
pub struct Plan {
    faults: Faults,
    operations: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Plan {
    fn chance(&self, operation: &str) -> Result<()> {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        // The upper 53 bits are a number from 0 to 1 without rounding.
        let drawn = (mix(mix(self.faults.seed).wrapping_add(number)) >> 11) as f64 / (1u64 << 53) as f64;
        if drawn < self.faults.probability {
            return Err(Error::new(ErrorKind::ConnectionLost, format!("could not {operation}")).with_cause("a fault on purpose"));
        }
        Ok(())
    }

    fn refuse(paths: &HashSet<RelativePath>, path: &RelativePath, operation: &str) -> Result<()> {
        if paths.contains(path) {
            return Err(Error::new(ErrorKind::PermissionDenied, format!("could not {operation} `{path}`"))
                .with_cause("a fault on purpose"));
        }
        Ok(())
    }
}

impl Layer for Arc<Plan> {
    fn before_open(&self, path: &RelativePath) -> Result<()> {
        Plan::refuse(&self.faults.unreadable, path, "open")?;
        self.chance("open")
    }

    fn before_create(&self, path: &RelativePath) -> Result<()> {
        Plan::refuse(&self.faults.unwritable, path, "create")?;
        self.chance("create")
    }

    fn before_set_metadata(&self, path: &RelativePath) -> Result<()> {
        Plan::refuse(&self.faults.unwritable, path, "set time and mode of")
    }

    fn after_read(&self, read: &mut [u8]) -> Result<()> {
        let number = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(delay) = self.faults.delay {
            std::thread::sleep(delay);
        }
        if let (true, Some(first)) = (self.faults.corrupt_read == Some(number), read.first_mut()) {
            *first ^= 1;
        }
        self.chance("read")
    }

    fn before_write(&self) -> Result<()> {
        let number = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(delay) = self.faults.delay {
            std::thread::sleep(delay);
        }
        if self.faults.full_from_write.is_some_and(|from| number >= from) {
            return Err(Error::new(ErrorKind::NoSpace, "could not write").with_cause("no space left on device, on purpose"));
        }
        self.chance("write")
    }

    fn after_write(&self, _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NewFile;
    use crate::store::null::{NullStore, ZeroStore};

    fn path() -> RelativePath {
        RelativePath::from_user("zero-0000").unwrap()
    }

    fn failures(seed: u64) -> Vec<usize> {
        let faults = Faults { probability: 0.2, seed, ..Faults::default() };
        let store = FaultyStore::new(Arc::new(ZeroStore::new(1, 10)), faults);
        (0..200).filter(|_| store.open(&path()).is_err()).collect()
    }

    #[test]
    fn the_same_seed_fails_the_same_calls() {
        assert_eq!(failures(7), failures(7));
        assert_ne!(failures(7), failures(8));
        assert!((20..60).contains(&failures(7).len()));
    }

    #[test]
    fn the_device_is_full_from_the_given_write_on() {
        let faults = Faults { full_from_write: Some(2), ..Faults::default() };
        let store = FaultyStore::new(Arc::new(NullStore::new()), faults);
        let writer = store.create(&NewFile { size: 2, ..NewFile::of(path()) }).unwrap();
        writer.write_at(0, b"a").unwrap();
        assert_eq!(writer.write_at(1, b"b").unwrap_err().kind(), ErrorKind::NoSpace);
        assert_eq!(store.counts(), (0, 2));
    }

    #[test]
    fn one_read_is_corrupted_in_silence() {
        let faults = Faults { corrupt_read: Some(2), ..Faults::default() };
        let store = FaultyStore::new(Arc::new(ZeroStore::new(1, 10)), faults);
        let reader = store.open(&path()).unwrap();
        let read = || {
            let mut buffer = [0; 10];
            reader.read_at(0, &mut buffer).unwrap();
            buffer
        };
        let (first, second, third) = (read(), read(), read());
        assert_ne!(first, second);
        assert_eq!(first, third);
    }

    #[test]
    fn the_given_files_cannot_be_opened() {
        let faults = Faults { unreadable: [path()].into(), ..Faults::default() };
        let store = FaultyStore::new(Arc::new(ZeroStore::new(2, 10)), faults);
        assert_eq!(store.open(&path()).err().unwrap().kind(), ErrorKind::PermissionDenied);
        assert!(store.open(&RelativePath::from_user("zero-0001").unwrap()).is_ok());
    }
}
