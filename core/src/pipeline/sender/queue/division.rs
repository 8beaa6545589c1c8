//! How workers are divided among files of different sizes, where that was decided.
//!
//! Whoever is free goes to the share that has the fewest workers for what it was given. Where there are as many workers as were given in
//! all, each share has its own then, and where there are fewer or more, about as many for each. A share without work leaves its workers to
//! the others.

use super::{Cut, PackItem, Queue, State, Unit};
use crate::optimizer::{SizeShare, exponent};

/// Exponents of sizes: as many as a size has bits.
const EXPONENTS: usize = 64;

/// Who is at what.
pub(super) struct Division {
    /// Smallest files first; without any, nobody minds what others are at.
    shares: Vec<SizeShare>,
    /// Workers at files of 2^n bytes and more, and of less than twice that.
    working: [u16; EXPONENTS],
}

impl Default for Division {
    fn default() -> Self {
        Self { shares: Vec::new(), working: [0; EXPONENTS] }
    }
}

/// One who asks for work. As long as it asks for none it is at what it was given last, even if it waits for an answer to that.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// The exponent of the size of these files.
    at: Option<u8>,
}

/// What is next of a share: the key of a file, and the place of a pack.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    file: Option<(u64, u32)>,
    pack: Option<usize>,
}

impl Division {
    /// The share of files of a size, by its place; 0 where there are none.
    fn share(&self, exponent: u8) -> usize {
        self.shares.partition_point(|share| share.exponent <= exponent).saturating_sub(1)
    }

    /// Most chunks in flight of a file of a size.
    pub(super) fn parallelism(&self, size: u64) -> u16 {
        self.shares.get(self.share(exponent(size))).map_or(u16::MAX, |share| share.parallelism.max(1))
    }

    /// Of some shares, by place, the one with the fewest workers for what it was given, if it had one more; of equal ones the first.
    fn least_served(&self, among: impl Iterator<Item = usize>) -> Option<usize> {
        let mut workers = vec![1; self.shares.len()];
        for (exponent, working) in (0..).zip(self.working) {
            workers[self.share(exponent)] += u64::from(working);
        }
        let given = |share: usize| u64::from(self.shares[share].streams);
        // Quotients compared as products: nothing was given to some.
        among.min_by(|&one, &other| (workers[one] * given(other)).cmp(&(workers[other] * given(one))))
    }

    fn enter(&mut self, worker: &mut Worker, size: u64) {
        let exponent = exponent(size);
        self.working[usize::from(exponent)] += 1;
        worker.at = Some(exponent);
    }

    fn leave(&mut self, worker: &mut Worker) {
        if let Some(exponent) = worker.at.take() {
            self.working[usize::from(exponent)] -= 1;
        }
    }
}

impl Queue {
    /// Divides the workers among files of different sizes from now on, or no more.
    pub(crate) fn divide(&self, shares: impl IntoIterator<Item = SizeShare>) {
        let mut shares: Vec<SizeShare> = shares.into_iter().take(EXPONENTS).collect();
        shares.sort_unstable_by_key(|share| share.exponent);
        self.state.lock().division.shares = shares;
        self.changed.notify_all();
    }

    /// A worker asks for nothing more.
    pub(crate) fn leave(&self, worker: &mut Worker) {
        if worker.at.is_some() {
            self.state.lock().division.leave(worker);
        }
    }
}

impl State {
    /// Work for a worker, which is at that from now on.
    pub(super) fn take_for(&mut self, worker: &mut Worker, cut: Cut) -> Option<Unit> {
        self.division.leave(worker);
        // Where files are finished one by one, that counts for more.
        let is_divided = !self.division.shares.is_empty() && !cut.one_by_one;
        let unit = if is_divided { self.take_share(cut) } else { self.take(cut) }?;
        self.division.enter(worker, size(&unit));
        Some(unit)
    }

    /// Work of the share that has the fewest workers for what it was given.
    fn take_share(&mut self, cut: Cut) -> Option<Unit> {
        let mut next = vec![Work::default(); self.division.shares.len()];
        for (place, pack) in self.packs.iter().enumerate() {
            next[self.division.share(exponent(pack.mean_size()))].pack.get_or_insert(place);
        }
        // Size by size, and of each no more files than have all their chunks in flight: not all that wait.
        for (exponent, keys) in &self.sizes {
            let share = self.division.share(*exponent);
            let parallelism = self.division.shares[share].within(cut).parallelism;
            let may_be_cut = |key: &&(u64, u32)| self.files.get(key).is_some_and(|file| file.may_be_cut(parallelism));
            next[share].file = next[share].file.max(keys.iter().rev().find(may_be_cut).copied());
        }
        let has_work = |share: &usize| next[*share].file.is_some() || next[*share].pack.is_some();
        // Of equal ones the largest files, which take longest.
        let share = self.division.least_served((0..next.len()).rev().filter(has_work))?;
        let Work { file, pack } = next[share];
        // Packs go first once listing has ended, as without shares.
        match (file, pack) {
            (_, Some(place)) if self.complete => self.take_pack(place),
            (Some(key), _) => self.take_chunk(key, self.division.shares[share].within(cut)),
            (None, place) => self.take_pack(place?),
        }
    }
}

impl SizeShare {
    /// How its files are cut: no more chunks of one in flight than it has.
    fn within(self, cut: Cut) -> Cut {
        Cut { parallelism: cut.parallelism.min(self.parallelism.max(1)), ..cut }
    }
}

/// The size of the files of a unit, in bytes.
fn size(unit: &Unit) -> u64 {
    match unit {
        Unit::Chunk(file, _) => file.header.size,
        Unit::Pack(pack) => mean_size(pack),
    }
}

fn mean_size(pack: &[PackItem]) -> u64 {
    pack.iter().map(|item| item.header.size).sum::<u64>() / (pack.len() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::super::{Next, SourceFile, TAIL_CHUNK};
    use super::*;
    use crate::protocol::message::FileHeader;

    const CUT: Cut = Cut { chunk: 16 << 20, least: TAIL_CHUNK, parallelism: u16::MAX, concurrency: 7, one_by_one: false };

    fn share(exponent: u8, streams: u16) -> SizeShare {
        SizeShare { exponent, streams, parallelism: u16::MAX }
    }

    /// Files of 256 KiB, 1 MiB and 64 MiB, or as many of each as are named.
    fn queue(counts: [u32; 3]) -> Queue {
        let queue = Queue::default();
        let mut number = 0;
        for (count, size) in counts.into_iter().zip([256u64 << 10, 1 << 20, 64 << 20]) {
            for _ in 0..count {
                number += 1;
                queue.add_file(SourceFile::of_a_test(number, size), std::iter::once(0..size).collect());
            }
        }
        queue.complete();
        queue
    }

    fn pack(count: usize, size: u64) -> Vec<PackItem> {
        let file = SourceFile::of_a_test(1_000_000, size);
        vec![PackItem { header: FileHeader::of_a_test(1_000_000, size), entry: file.entry.clone() }; count]
    }

    fn next(queue: &Queue, worker: &mut Worker) -> Option<u64> {
        match queue.take(worker, CUT, Duration::ZERO) {
            Next::Unit(unit) => {
                if let Unit::Chunk(file, _) = &unit {
                    file.in_flight.fetch_sub(1, Ordering::Relaxed);
                }
                Some(size(&unit))
            }
            Next::Nothing => None,
        }
    }

    /// How many workers are at files of each of the three sizes, after each of them has asked so often.
    fn at(queue: &Queue, workers: &mut [Worker], rounds: usize) -> [usize; 3] {
        for _ in 0..rounds {
            for worker in &mut *workers {
                next(queue, worker);
            }
        }
        [18, 20, 26].map(|exponent| workers.iter().filter(|worker| worker.at == Some(exponent)).count())
    }

    fn workers(count: usize) -> Vec<Worker> {
        std::iter::repeat_with(Worker::default).take(count).collect()
    }

    // The example of the paper: 7 channels, of which the clusters get four, two and one [HARP section 2.1].
    #[test]
    fn each_share_has_the_workers_that_it_was_given_whoever_asks_when() {
        let queue = queue([900, 900, 9]);
        queue.divide([share(26, 1), share(18, 4), share(20, 2)]);
        let mut seven = workers(7);
        for rounds in [1, 1, 7] {
            assert_eq!(at(&queue, &mut seven, rounds), [4, 2, 1]);
        }
        // One of them asks again and again, and comes back to where it was missed.
        for _ in 0..9 {
            next(&queue, &mut seven[3]);
        }
        assert_eq!(at(&queue, &mut seven, 0), [4, 2, 1]);
    }

    #[test]
    fn more_workers_or_fewer_are_shared_alike_and_none_is_idle() {
        let queue = queue([900, 900, 90]);
        queue.divide([share(0, 4), share(20, 2), share(26, 1)]);
        assert_eq!(at(&queue, &mut workers(14), 1), [8, 4, 2]);
        let queue = self::queue([900, 900, 90]);
        queue.divide([share(0, 4), share(20, 2), share(26, 0)]);
        assert_eq!(at(&queue, &mut workers(3), 1), [2, 1, 0]);
        let queue = self::queue([0, 3, 0]);
        queue.divide([share(0, 4), share(20, 1), share(26, 1)]);
        assert_eq!(at(&queue, &mut workers(3), 1), [0, 3, 0], "what others were given is taken where they have nothing to do");
    }

    #[test]
    fn a_worker_that_leaves_is_missed_and_without_shares_the_largest_goes_first() {
        let queue = queue([900, 900, 9]);
        queue.divide([share(18, 1), share(20, 1)]);
        let mut two = workers(2);
        assert_eq!(at(&queue, &mut two, 1), [1, 0, 1], "the largest belong to the last share");
        let small = two.iter_mut().find(|worker| worker.at == Some(18)).unwrap();
        queue.leave(small);
        assert_eq!(next(&queue, &mut Worker::default()), Some(256 << 10));
        queue.divide([]);
        assert_eq!(at(&queue, &mut two, 1), [0, 0, 2]);
    }

    #[test]
    fn each_share_has_a_parallelism_of_its_own() {
        let queue = queue([0, 0, 2]);
        queue.divide([SizeShare { parallelism: 2, ..share(0, 8) }]);
        let taken = |patience| match queue.take(&mut Worker::default(), CUT, patience) {
            Next::Unit(Unit::Chunk(file, _)) => Some(file),
            _ => None,
        };
        let chunks: Vec<Arc<SourceFile>> = std::iter::from_fn(|| taken(Duration::ZERO)).collect();
        assert_eq!(chunks.len(), 4, "two of each");
        queue.divide([SizeShare { parallelism: 1, ..share(0, 8) }]);
        chunks[0].in_flight.store(1, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let idle = scope.spawn(|| taken(Duration::from_secs(20)).is_none());
            while queue.idle.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            let rest = 4 << 20..16 << 20;
            let kept = queue.share(&chunks[0], rest.clone(), u16::MAX, 1 << 20);
            queue.close();
            assert_eq!(kept, rest, "no second worker may have a part of it");
            assert!(idle.join().unwrap(), "nor another chunk");
        });
    }

    #[test]
    fn a_pack_behind_others_of_another_size_is_found() {
        let queue = queue([0, 0, 0]);
        for size in [100_000, 1000] {
            (0..9).for_each(|_| assert!(queue.add_pack(pack(2, size), 2 * size)));
        }
        queue.divide([share(0, 1), share(16, 1)]);
        let mut two = workers(2);
        for _ in 0..9 {
            let sizes: Vec<_> = two.iter_mut().map(|worker| next(&queue, worker).unwrap()).collect();
            assert_eq!(sizes, [100_000, 1000]);
        }
        assert_eq!((next(&queue, &mut two[0]), queue.left()), (None, Some(0)));
    }

    #[test]
    fn files_are_found_by_their_sizes_until_nothing_is_left() {
        let queue = queue([2, 2, 2]);
        queue.divide([share(0, 1)]);
        let mut worker = Worker::default();
        let mut left = queue.left().unwrap();
        while let Next::Unit(Unit::Chunk(file, range)) = queue.take(&mut worker, CUT, Duration::ZERO) {
            file.in_flight.fetch_sub(1, Ordering::Relaxed);
            left -= range.end - range.start;
            let state = queue.state.lock();
            let sizes: Vec<(u64, u32)> = state.sizes.values().flatten().copied().collect();
            assert!(sizes.len() == state.files.len() && sizes.iter().all(|key| state.files.contains_key(key)));
        }
        assert_eq!((left, queue.left()), (0, Some(0)));
    }

    #[test]
    fn packs_count_by_the_mean_size_of_what_is_in_them() {
        let queue = queue([0, 0, 2]);
        (0..9).for_each(|_| assert!(queue.add_pack(pack(4, 1000), 4000)));
        queue.divide([share(0, 1), share(20, 2)]);
        let mut three = workers(3);
        let sizes: Vec<_> = three.iter_mut().map(|worker| next(&queue, worker).unwrap()).collect();
        assert_eq!(sizes, [64 << 20, 64 << 20, 1000]);
        assert_eq!(next(&queue, &mut three[2]), Some(1000));
        // Of one share packs go first at the end of the work.
        queue.divide([share(0, 1)]);
        assert_eq!(next(&queue, &mut three[0]), Some(1000));
    }
}
