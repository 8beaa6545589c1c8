//! Memory of what waits to be sent, counted in the byte budget of the process: parts that fill, parts on their way, and small files.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::Budget;
use crate::error::Result;
use crate::store::remote::Patience;
use crate::sync::{Condvar, Mutex};

/// Pieces of memory that are kept for the next ones to be filled, and the bytes of one: what is smaller costs nothing to get anew.
const SPARES: usize = 16;
const SPARE: std::ops::RangeInclusive<usize> = 1 << 20..=16 << 20;

/// How often one who waits for memory looks whether waits were ended.
const LOOK: Duration = Duration::from_millis(100);

/// The memory of one bucket. A clone is the same.
#[derive(Clone)]
pub(super) struct Memory {
    shared: Arc<Shared>,
}

struct Shared {
    budget: Arc<Budget>,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    /// Counted as lent.
    spares: Vec<Vec<u8>>,
    /// Requests on their way that end by themselves and free memory then.
    requests: usize,
}

impl Memory {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Self { shared: Arc::new(Shared { budget, state: Mutex::default(), freed: Condvar::new() }) }
    }

    /// The bytes that may be lent before anybody waits.
    pub(super) fn most(&self) -> u64 {
        self.shared.budget.most_lent()
    }

    /// Takes `length` bytes with any content. Where they do not fit into the budget it waits, but only for requests that are on their way:
    /// without one nobody could be waited for but who waits himself, and they are given at once.
    pub(super) fn take(&self, length: usize, patience: &Patience, what: impl Fn() -> String) -> Result<Loan> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(mut bytes) = state.spare(length) {
                bytes.resize(length, 0);
                return Ok(self.loan(bytes));
            }
            if self.shared.budget.try_lend(length as u64) {
                break;
            }
            if let Some(spare) = state.spares.pop() {
                self.shared.budget.restore(spare.capacity() as u64);
                continue;
            }
            if state.requests == 0 {
                self.shared.budget.lend(length as u64);
                break;
            }
            patience.check(&what())?;
            self.shared.freed.wait_for(&mut state, LOOK);
        }
        drop(state);
        Ok(self.loan(vec![0; length]))
    }

    /// Says that a request is on its way until the answer is dropped.
    pub(super) fn request(&self) -> Request {
        self.shared.state.lock().requests += 1;
        Request { memory: self.clone() }
    }

    fn loan(&self, bytes: Vec<u8>) -> Loan {
        Loan { bytes, shared: Arc::clone(&self.shared) }
    }
}

impl State {
    /// Takes a spare that is not far larger than what is needed.
    fn spare(&mut self, length: usize) -> Option<Vec<u8>> {
        let fits = |spare: &Vec<u8>| (length..=length.saturating_mul(2)).contains(&spare.capacity());
        let index = self.spares.iter().rposition(fits)?;
        Some(self.spares.swap_remove(index))
    }
}

/// A request on its way.
pub(super) struct Request {
    memory: Memory,
}

impl Drop for Request {
    fn drop(&mut self) {
        self.memory.shared.state.lock().requests -= 1;
        self.memory.shared.freed.notify_all();
    }
}

/// Memory on loan, which is given back when nobody, and no connection, holds it any more.
pub(super) struct Loan {
    bytes: Vec<u8>,
    shared: Arc<Shared>,
}

impl Deref for Loan {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut state = self.shared.state.lock();
        if state.spares.len() < SPARES && SPARE.contains(&bytes.capacity()) {
            state.spares.push(bytes);
        } else {
            self.shared.budget.restore(bytes.capacity() as u64);
        }
        drop(state);
        self.shared.freed.notify_all();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for spare in self.state.get_mut().spares.drain(..) {
            self.budget.restore(spare.capacity() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::buffer::SLAB_SIZE;
    use crate::error::ErrorKind;
    use crate::store::remote::Part;
    use crate::store::remote::objects::parts::{Parts, Taken};

    const PART: usize = 1 << 20;

    /// Memory with room for so many parts.
    fn memory(parts: usize) -> Memory {
        Memory::new(Budget::new((parts * PART * 4).div_ceil(3).next_multiple_of(SLAB_SIZE) as u64))
    }

    fn take(memory: &Memory, length: usize) -> Loan {
        memory.take(length, &Patience::new(), what).unwrap()
    }

    fn what() -> String {
        "could not write `x`".to_owned()
    }

    fn lent(memory: &Memory) -> u64 {
        memory.shared.budget.lent()
    }

    #[test]
    fn what_does_not_fit_waits_for_a_request_and_not_without_one() {
        let memory = memory(2);
        let (first, second) = (take(&memory, PART), take(&memory, PART));
        let third = take(&memory, PART);
        assert_eq!(lent(&memory), 3 * PART as u64, "nothing is on its way that could be waited for");
        drop(third);
        let request = memory.request();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| take(&memory, 3 * PART).len());
            while memory.shared.state.try_lock().is_none_or(|state| !state.spares.is_empty()) {
                std::thread::yield_now();
            }
            drop((first, second));
            drop(request);
            assert_eq!(waits.join().unwrap(), 3 * PART);
        });
    }

    #[test]
    fn an_interrupt_ends_who_waits() {
        let (memory, patience) = (memory(1), Patience::new());
        let _full = take(&memory, PART);
        let _request = memory.request();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| memory.take(PART, &patience, what).map(drop));
            patience.interrupt();
            assert_eq!(waits.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
        });
    }

    #[test]
    fn a_spare_serves_what_is_about_as_large_and_goes_before_others_wait() {
        let memory = memory(2);
        drop(take(&memory, PART));
        assert_eq!(lent(&memory), PART as u64);
        assert_eq!(take(&memory, 1).bytes.capacity(), 1, "a byte takes no part's memory");
        assert_eq!(take(&memory, PART / 2 + 1).bytes.capacity(), PART);
        assert_eq!(lent(&memory), PART as u64);
        let request = memory.request();
        let large = take(&memory, 2 * PART);
        assert_eq!((large.len(), lent(&memory)), (2 * PART, 2 * PART as u64));
        let budget = Arc::clone(&memory.shared.budget);
        drop((large, request, memory));
        assert_eq!(budget.lent(), 0);
    }

    const WRITERS: usize = 16;
    const BLOCK: usize = PART / 2;

    /// Takes any of the jobs that are to be done.
    fn any(jobs: &Mutex<Vec<Vec<u64>>>) -> Option<Vec<u64>> {
        let mut jobs = jobs.lock();
        let count = u32::try_from(jobs.len()).unwrap();
        (count > 0).then(|| jobs.swap_remove((getrandom::u32().unwrap() % count) as usize))
    }

    /// Writes 64 parts, each of which fails by chance and comes again, in jobs of so many blocks of half a part; answers with what was lent
    /// at most.
    fn write(memory: &Memory, blocks: usize) -> u64 {
        let (parts, most) = (Parts::new(64 * PART as u64, PART as u64), AtomicU64::new(0));
        let cut = |range: Range<u64>| range.collect::<Vec<_>>().chunks(blocks).map(<[u64]>::to_vec).collect::<Vec<_>>();
        let jobs = Mutex::new(cut(0..128));
        let send = |taken: Taken<'_>| {
            let _request = memory.request();
            most.fetch_max(lent(memory), Ordering::SeqCst);
            std::thread::yield_now();
            let (number, first) = (taken.number, 2 * u64::from(taken.number - 1));
            if getrandom::u32().unwrap().is_multiple_of(2) {
                return taken.arrived(Part { number, size: PART as u64, tag: String::new(), crc64nvme: None });
            }
            drop(taken);
            jobs.lock().extend(cut(first..first + 2));
        };
        let write = |block: u64| {
            let piece = &parts.cut(block * BLOCK as u64, BLOCK)[0];
            let bytes = vec![7; BLOCK];
            let filled = parts.fill(piece.number, piece.offset, &bytes, |length| memory.take(length, &Patience::new(), what));
            if filled.unwrap() {
                parts.take(piece.number).into_iter().for_each(send);
            }
        };
        let work = || {
            while parts.kept().first().is_none_or(|kept| kept.end - kept.start < 64 * PART as u64) {
                any(&jobs).map_or_else(std::thread::yield_now, |job| job.into_iter().for_each(write));
            }
        };
        std::thread::scope(|scope| (0..WRITERS).for_each(|_| drop(scope.spawn(work))));
        assert!(parts.complete().is_some());
        most.into_inner()
    }

    #[test]
    fn many_writers_with_little_memory_come_to_an_end_in_whatever_order_blocks_come() {
        write(&memory(3), 1);
    }

    #[test]
    fn little_more_is_lent_than_there_is_where_each_writer_fills_one_part_after_another() {
        let memory = memory(3);
        let most = write(&memory, 2);
        assert!(most <= memory.most() + (WRITERS * PART) as u64, "{most}");
    }
}
