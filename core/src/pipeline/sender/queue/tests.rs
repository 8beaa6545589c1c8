//! Tests of the queue.

use proptest::prelude::*;

use super::*;
use crate::pipeline::ranges::Ranges;

fn file(number: u32, size: u64) -> Arc<SourceFile> {
    SourceFile::of_a_test(number, size)
}

fn cut(chunk: u64) -> Cut {
    Cut { chunk, least: TAIL_CHUNK, parallelism: u16::MAX, concurrency: 4, one_by_one: false }
}

/// What a worker gets that was at nothing.
fn take(queue: &Queue, cut: Cut, patience: Duration) -> Next {
    queue.take(&mut Worker::default(), cut, patience)
}

proptest! {
    #[test]
    fn every_byte_is_in_exactly_one_chunk(
        sizes in prop::collection::vec(1u64..40_000_000, 1..5),
        chunk in 300_000u64..20_000_000,
        lose_every in 2usize..7,
    ) {
        let queue = Queue::default();
        for (number, size) in (1u32..).zip(&sizes) {
            queue.add_file(file(number, *size), std::iter::once(0..*size).collect());
        }
        queue.complete();
        let mut seen: Vec<Ranges> = sizes.iter().map(|_| Ranges::default()).collect();
        let (mut taken, mut lost) = (0, 0);
        while let Next::Unit(Unit::Chunk(file, range)) = take(&queue, cut(chunk), Duration::ZERO) {
            taken += 1;
            prop_assert_eq!(range.start % BLOCK, 0);
            if taken % lose_every == 0 && lost < 20 {
                lost += 1;
                queue.put_back(Unit::Chunk(file, range));
                continue;
            }
            let ranges = &mut seen[file.header.file as usize - 1];
            let before = ranges.covered();
            ranges.insert(range.start, range.end);
            prop_assert_eq!(ranges.covered(), before + range.end - range.start);
        }
        for (ranges, size) in seen.iter().zip(&sizes) {
            prop_assert!(ranges.is_complete(*size));
        }
        prop_assert_eq!(queue.left(), Some(0));
    }
}

#[test]
fn at_the_end_of_the_work_chunks_are_cut_finer_and_finer_down_to_the_least() {
    let lengths = [TAIL_CHUNK, BLOCK].map(|least| {
        let queue = Queue::default();
        queue.add_file(file(1, 64 << 20), std::iter::once(0..64 << 20).collect());
        let next = || match take(&queue, Cut { least, ..cut(16 << 20) }, Duration::ZERO) {
            Next::Unit(Unit::Chunk(_, range)) => Some(range.end - range.start),
            _ => None,
        };
        assert_eq!(next(), Some(16 << 20), "more may be listed");
        queue.complete();
        let lengths: Vec<u64> = std::iter::from_fn(next).collect();
        assert_eq!(lengths[0], 6 << 20);
        assert!(lengths.is_sorted_by(|one, next| one >= next), "{lengths:?}");
        assert!(lengths[..lengths.len() - 1].iter().all(|length| *length >= least), "{lengths:?}");
        lengths.len()
    });
    assert!(lengths[0] >= 16 && lengths[1] > lengths[0], "{lengths:?}");
}

#[test]
fn few_files_keep_more_streams_busy_than_there_are_files() {
    for sizes in [&[256u64 << 20][..], &[32 << 20; 8], &[40 << 20, 50 << 20, 60 << 20]] {
        let queue = Queue::default();
        for (number, size) in (1u32..).zip(sizes) {
            queue.add_file(file(number, *size), std::iter::once(0..*size).collect());
        }
        queue.complete();
        let wide = Cut { concurrency: 48, ..cut(16 << 20) };
        let busy = (0..48).filter(|_| matches!(take(&queue, wide, Duration::ZERO), Next::Unit(_))).count();
        assert_eq!(busy, 48, "{sizes:?}");
        assert!(queue.left().unwrap() > 0);
    }
}

#[test]
fn the_largest_file_comes_first() {
    let queue = Queue::default();
    for (number, size) in [(1, 5 << 20), (2, 9 << 20), (3, 7 << 20)] {
        queue.add_file(file(number, size), std::iter::once(0..size).collect());
    }
    let Next::Unit(Unit::Chunk(first, _)) = take(&queue, cut(64 << 20), Duration::ZERO) else { panic!() };
    assert_eq!(first.header.file, 2);
}

#[test]
fn of_many_equal_files_only_some_are_begun_at_a_time() {
    let (queue, files) = (Queue::default(), 1500);
    for number in 1..=files {
        queue.add_file(file(number, 4 << 20), std::iter::once(0..4 << 20).collect());
    }
    let (mut left, mut most) = (std::collections::HashMap::new(), 0);
    for _ in 0..files * 4 {
        let Next::Unit(Unit::Chunk(file, range)) = take(&queue, cut(1 << 20), Duration::ZERO) else { panic!("work is left") };
        let bytes = left.entry(file.header.file).or_insert(4u64 << 20);
        *bytes -= range.end - range.start;
        if *bytes == 0 {
            left.remove(&file.header.file);
        }
        most = most.max(left.len());
    }
    assert_eq!((left.len(), most), (0, MOST_BEGUN));
}

#[test]
fn packs_go_first_once_listing_has_ended() {
    let queue = Queue::default();
    queue.add_file(file(1, 9 << 20), std::iter::once(0..9 << 20).collect());
    (0..2).for_each(|_| assert!(queue.add_pack(Vec::new(), 0)));
    let next = || take(&queue, cut(1 << 20), Duration::ZERO);
    assert!(matches!(next(), Next::Unit(Unit::Chunk(..))));
    queue.complete();
    assert!(matches!(
        (next(), next(), next()),
        (Next::Unit(Unit::Pack(_)), Next::Unit(Unit::Pack(_)), Next::Unit(Unit::Chunk(..)))
    ));
}

#[test]
fn one_by_one_a_file_that_was_begun_goes_before_larger_ones() {
    let taken = |cut: Cut, count: usize| -> Vec<u32> {
        let queue = Queue::default();
        for (number, size) in [(1, 40 << 20), (2, 48 << 20)] {
            queue.add_file(file(number, size), std::iter::once(0..size).collect());
        }
        let next = || match take(&queue, cut, Duration::ZERO) {
            Next::Unit(Unit::Chunk(file, _)) => file.header.file,
            _ => panic!("there is work"),
        };
        (0..count).map(|_| next()).collect()
    };
    assert_eq!(taken(cut(16 << 20), 6), [2, 1, 2, 1, 2, 1]);
    let one_by_one = Cut { one_by_one: true, ..cut(16 << 20) };
    assert_eq!(taken(one_by_one, 6), [2, 2, 2, 1, 1, 1]);
    assert_eq!(taken(Cut { parallelism: 2, ..one_by_one }, 4), [2, 2, 1, 1]);
}

#[test]
fn one_by_one_what_was_put_back_of_a_file_goes_before_what_is_left_of_others() {
    let queue = Queue::default();
    for (number, size) in [(1, 40 << 20), (2, 48 << 20)] {
        queue.add_file(file(number, size), std::iter::once(0..size).collect());
    }
    let next = || match take(&queue, Cut { one_by_one: true, ..cut(16 << 20) }, Duration::ZERO) {
        Next::Unit(Unit::Chunk(file, range)) => (file, range),
        _ => panic!("there is work"),
    };
    let (first, range) = next();
    let numbers: Vec<u32> = (0..3).map(|_| next().0.header.file).collect();
    assert_eq!(numbers, [2, 2, 1]);
    queue.put_back(Unit::Chunk(first, range.start + BLOCK..range.end));
    assert_eq!(next().0.header.file, 2);
}

#[test]
fn parallelism_bounds_the_chunks_of_one_file() {
    let queue = Queue::default();
    queue.add_file(file(1, 64 << 20), std::iter::once(0..64 << 20).collect());
    let cut = Cut { parallelism: 2, ..cut(1 << 20) };
    assert!(matches!(take(&queue, cut, Duration::ZERO), Next::Unit(_)));
    let Next::Unit(Unit::Chunk(file, _)) = take(&queue, cut, Duration::ZERO) else { panic!() };
    assert!(matches!(take(&queue, cut, Duration::ZERO), Next::Nothing));
    file.in_flight.fetch_sub(1, Ordering::Relaxed);
    assert!(matches!(take(&queue, cut, Duration::ZERO), Next::Unit(_)));
}

#[test]
fn half_of_what_is_left_goes_to_whoever_has_nothing_to_do() {
    let queue = Queue::default();
    let whole = 3 * BLOCK..10 * BLOCK + 5;
    let shared = |file: &Arc<SourceFile>, rest: &Range<u64>| queue.share(file, rest.clone(), 2, BLOCK);
    let large = file(1, whole.end);
    assert_eq!(shared(&large, &whole), whole, "nobody waits");
    std::thread::scope(|scope| {
        let idle = scope.spawn(|| take(&queue, cut(64 << 20), Duration::from_secs(20)));
        while queue.idle.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        for last in [9 * BLOCK..10 * BLOCK, 9 * BLOCK..9 * BLOCK + 1] {
            assert_eq!(shared(&large, &last), last, "one block is not divided");
        }
        assert_eq!(queue.share(&large, whole.clone(), 2, TAIL_CHUNK), whole, "the second half would be too short");
        large.in_flight.store(2, Ordering::Relaxed);
        assert_eq!(shared(&large, &whole), whole, "as many chunks of it as may be are in flight");
        large.in_flight.store(1, Ordering::Relaxed);
        assert_eq!(shared(&large, &whole), 3 * BLOCK..7 * BLOCK);
        let Next::Unit(Unit::Chunk(_, given)) = idle.join().unwrap() else { panic!() };
        assert_eq!(given, 7 * BLOCK..whole.end);
    });
}

#[test]
fn without_parallelism_a_file_is_one_chunk() {
    let queue = Queue::default();
    queue.add_file(file(1, 64 << 20), std::iter::once(0..64 << 20).collect());
    queue.complete();
    let cut = Cut { parallelism: 1, ..cut(1 << 20) };
    assert!(matches!(take(&queue, cut, Duration::ZERO), Next::Unit(Unit::Chunk(_, range)) if range == (0..64 << 20)));
}
