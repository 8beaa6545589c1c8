//! Slabs: the pooled, reused blocks of memory that carry file bytes, drawn from one byte budget of the process.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::sync::{Condvar, Mutex};

/// Bytes of a slab, and the largest payload of a frame.
pub const SLAB_SIZE: usize = 256 << 10;

const SLABS_KEPT: usize = 256;

/// The bytes that all transfers of a process may hold together; slabs are reused last in, first out, so that the hot one is taken.
pub struct Budget {
    state: Mutex<BudgetState>,
    freed: Condvar,
    slabs: usize,
}

#[derive(Default)]
struct BudgetState {
    used: usize,
    /// Bytes that are lent in pieces of other sizes than a slab.
    lent: u64,
    free: Vec<Box<[u8]>>,
}

impl Budget {
    /// A budget of at least one slab.
    pub fn new(bytes: u64) -> Arc<Self> {
        let slabs = usize::try_from(bytes / SLAB_SIZE as u64).unwrap_or(usize::MAX).max(1);
        Arc::new(Self { state: Mutex::default(), freed: Condvar::new(), slabs })
    }

    /// The budget of this process: the smaller of 25 % of the memory it may use and 2 GiB.
    pub fn process() -> Arc<Self> {
        static PROCESS: OnceLock<Arc<Budget>> = OnceLock::new();
        Arc::clone(PROCESS.get_or_init(|| Self::new((memory_limit() / 4).min(2 << 30))))
    }

    /// The bytes that may be lent in pieces of any size: the rest is left to slabs, without which nothing moves.
    pub(crate) fn most_lent(&self) -> u64 {
        (self.slabs * SLAB_SIZE) as u64 / 4 * 3
    }

    /// Counts bytes as lent if they fit; [`Budget::restore`] must follow.
    pub(crate) fn try_lend(&self, bytes: u64) -> bool {
        let mut state = self.state.lock();
        let fits = state.lent.saturating_add(bytes) <= self.most_lent();
        if fits {
            state.lent += bytes;
        }
        fits
    }

    /// Counts bytes as lent whether they fit or not.
    pub(crate) fn lend(&self, bytes: u64) {
        self.state.lock().lent += bytes;
    }

    /// Bytes that were lent are given back.
    pub(crate) fn restore(&self, bytes: u64) {
        self.state.lock().lent -= bytes;
        self.freed.notify_all();
    }

    /// Whether no slab may be taken.
    fn is_full(&self, state: &BudgetState) -> bool {
        let lent = state.lent.min(self.most_lent()).div_ceil(SLAB_SIZE as u64);
        state.used as u64 + lent >= self.slabs as u64
    }

    fn take(&self, patience: Duration) -> Option<Box<[u8]>> {
        let mut state = self.state.lock();
        if self.is_full(&state) {
            self.freed.wait_while_for(&mut state, |state| self.is_full(state), patience);
            if self.is_full(&state) {
                return None;
            }
        }
        state.used += 1;
        let reused = state.free.pop();
        drop(state);
        Some(reused.unwrap_or_else(|| vec![0; SLAB_SIZE].into_boxed_slice()))
    }

    #[cfg(test)]
    pub(crate) fn lent(&self) -> u64 {
        self.state.lock().lent
    }

    fn put(&self, memory: Box<[u8]>) {
        let mut state = self.state.lock();
        state.used -= 1;
        if state.free.len() < SLABS_KEPT {
            state.free.push(memory);
        }
        drop(state);
        self.freed.notify_one();
    }
}

/// The memory this process may use: what its control group allows, or the machine's memory.
pub(crate) fn memory_limit() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        group_limit(&groups, Path::new("/sys/fs/cgroup")).min(machine_memory())
    })
}

/// The least that the control groups of a process, which the system lists, and those around them allow: of version 2, or of version 1.
fn group_limit(groups: &str, root: &Path) -> u64 {
    let mut least = u64::MAX;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (mount, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        for around in Path::new(group.trim_start_matches('/')).ancestors() {
            let limit = std::fs::read_to_string(mount.join(around).join(file)).ok().and_then(|text| text.trim().parse().ok());
            least = least.min(limit.unwrap_or(u64::MAX));
        }
    }
    least
}

/// The memory of this machine.
pub(crate) fn machine_memory() -> u64 {
    static MACHINE: OnceLock<u64> = OnceLock::new();
    *MACHINE.get_or_init(|| {
        let told = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
            let kib: u64 =
                text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.split_whitespace().next()?.parse().ok()?;
            Some(kib * 1024)
        });
        told.unwrap_or(8 << 30)
    })
}

/// The share of the budget that one half of one transfer may hold.
#[derive(Clone)]
pub struct SlabPool {
    shared: Arc<PoolShared>,
}

struct PoolShared {
    budget: Arc<Budget>,
    used: Mutex<usize>,
    freed: Condvar,
    slabs: AtomicUsize,
}

impl SlabPool {
    /// A pool of at most `bytes` drawn from `budget`.
    pub fn new(budget: Arc<Budget>, bytes: u64) -> Self {
        let slabs = AtomicUsize::new(slabs(bytes));
        Self { shared: Arc::new(PoolShared { budget, used: Mutex::new(0), freed: Condvar::new(), slabs }) }
    }

    /// Changes how many bytes may be taken; what is taken beyond that comes back in its own time.
    pub(crate) fn resize(&self, bytes: u64) {
        self.shared.slabs.store(slabs(bytes), Ordering::Relaxed);
        self.shared.freed.notify_all();
    }

    /// Takes a slab, waiting at most `patience` for one to come back; its content is arbitrary, its length 0.
    pub fn take(&self, patience: Duration) -> Option<Slab> {
        let mut used = self.shared.used.lock();
        if *used >= self.shared.size() {
            self.shared.freed.wait_while_for(&mut used, |used| *used >= self.shared.size(), patience);
            if *used >= self.shared.size() {
                return None;
            }
        }
        *used += 1;
        drop(used);
        let Some(memory) = self.shared.budget.take(patience) else {
            self.shared.release();
            return None;
        };
        Some(Slab { memory, length: 0, pool: Some(Arc::clone(&self.shared)) })
    }

    /// Bytes that can still be taken, and the size of the pool.
    pub fn free(&self) -> (u64, u64) {
        let (used, slabs) = (*self.shared.used.lock(), self.shared.size());
        ((slabs.saturating_sub(used) * SLAB_SIZE) as u64, (slabs * SLAB_SIZE) as u64)
    }
}

/// The slabs of a pool of so many bytes.
fn slabs(bytes: u64) -> usize {
    usize::try_from(bytes / SLAB_SIZE as u64).unwrap_or(usize::MAX).max(2)
}

impl PoolShared {
    fn size(&self) -> usize {
        self.slabs.load(Ordering::Relaxed)
    }

    fn release(&self) {
        *self.used.lock() -= 1;
        self.freed.notify_one();
    }
}

/// A block of memory on loan from a pool; reads as the bytes put in so far.
pub struct Slab {
    memory: Box<[u8]>,
    length: usize,
    pool: Option<Arc<PoolShared>>,
}

impl Slab {
    /// Takes bytes that belong to no pool, for payloads that are small and few.
    pub fn detached(bytes: Vec<u8>) -> Self {
        Self { length: bytes.len().min(SLAB_SIZE), memory: bytes.into_boxed_slice(), pool: None }
    }

    /// Sets how many bytes count, at most as many as the block has; what was in them stays.
    pub fn set_len(&mut self, length: usize) {
        self.length = length.min(self.memory.len());
    }

    /// The whole block, for reading into.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

impl Deref for Slab {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl DerefMut for Slab {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.length]
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.budget.put(std::mem::take(&mut self.memory));
            pool.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_lends_no_more_than_its_share() {
        let pool = SlabPool::new(Budget::new(8 << 20), 2 * SLAB_SIZE as u64);
        let first = pool.take(Duration::ZERO).unwrap();
        let _second = pool.take(Duration::ZERO).unwrap();
        assert!(pool.take(Duration::ZERO).is_none());
        assert_eq!(pool.free().0, 0);
        drop(first);
        assert!(pool.take(Duration::ZERO).is_some());
    }

    #[test]
    fn a_pool_that_shrinks_lends_nothing_until_enough_has_come_back() {
        let pool = SlabPool::new(Budget::new(8 << 20), 4 * SLAB_SIZE as u64);
        let mut held: Vec<Slab> = (0..4).map(|_| pool.take(Duration::ZERO).unwrap()).collect();
        pool.resize(2 * SLAB_SIZE as u64);
        assert_eq!(pool.free(), (0, 2 * SLAB_SIZE as u64));
        held.truncate(2);
        assert!(pool.take(Duration::ZERO).is_none());
        held.truncate(1);
        assert!(pool.take(Duration::ZERO).is_some());
        pool.resize(4 * SLAB_SIZE as u64);
        assert_eq!(pool.free().0, 3 * SLAB_SIZE as u64);
    }

    #[test]
    fn pools_share_one_budget() {
        let budget = Budget::new(2 * SLAB_SIZE as u64);
        let (a, b) = (SlabPool::new(Arc::clone(&budget), 8 << 20), SlabPool::new(budget, 8 << 20));
        let held = (a.take(Duration::ZERO).unwrap(), a.take(Duration::ZERO).unwrap());
        assert!(b.take(Duration::ZERO).is_none());
        drop(held);
        assert!(b.take(Duration::ZERO).is_some());
    }

    #[test]
    fn the_least_limit_of_the_own_group_and_those_around_it_holds() {
        let place = tempfile::tempdir().unwrap();
        let write = |group: &str, file: &str, text: &str| {
            std::fs::create_dir_all(place.path().join(group)).unwrap();
            std::fs::write(place.path().join(group).join(file), text).unwrap();
        };
        let limit = |groups: &str| group_limit(groups, place.path());
        write("job/step", "memory.max", "max\n");
        write("job", "memory.max", "4096\n");
        write("other", "memory.max", "5\n");
        assert_eq!((limit("0::/job/step\n"), limit("0::/none"), limit("")), (4096, u64::MAX, u64::MAX));
        // A container sees its own group in the place of all.
        write("", "memory.max", "2048\n");
        assert_eq!((limit("0::/job/step\n"), limit("0::/not/seen/here\n")), (2048, 2048));
        write("memory/job", "memory.limit_in_bytes", "1024\n");
        assert_eq!(limit("5:devices:/job\n4:memory:/job\n0::/\n"), 1024);
        assert_eq!(limit("5:cpu,memory:/job\n"), 1024);
    }

    #[test]
    fn what_is_lent_leaves_a_quarter_to_slabs() {
        let budget = Budget::new(8 * SLAB_SIZE as u64);
        assert!(budget.try_lend(budget.most_lent()) && !budget.try_lend(1));
        budget.lend(100 * SLAB_SIZE as u64);
        let pool = SlabPool::new(Arc::clone(&budget), 8 << 20);
        let held = [(); 2].map(|()| pool.take(Duration::ZERO).unwrap());
        assert!(pool.take(Duration::ZERO).is_none());
        budget.restore(100 * SLAB_SIZE as u64);
        assert!(pool.take(Duration::ZERO).is_none());
        budget.restore(budget.most_lent());
        assert!(pool.take(Duration::ZERO).is_some());
        drop(held);
    }
}
