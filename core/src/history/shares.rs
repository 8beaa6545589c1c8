//! How a sender shares its streams out among files of different sizes: each stream takes a chunk of the file of which most is left, and
//! small files travel whole in packs. So the sizes of the files tell how many of them were in flight at a moment.

use std::collections::BinaryHeap;

use crate::buffer::SLAB_SIZE;
use crate::optimizer::SizeClass;
use crate::pipeline::sender::feed::SMALL;

/// The files of a pack, at most; its bytes are at most those of a slab.
const PACK_FILES: u64 = 256;

/// The least bytes that chunks are cut down to at the end of the work.
const TAIL_CHUNK: u64 = 1 << 20;

/// Files that must have been finished for their mean size to tell whether packs were sent.
pub(super) const TELLING_FILES: u64 = 8;

/// Who takes chunks, and how these are cut.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sharing {
    pub(super) streams: u16,
    /// Most chunks of one file in flight; `None`: no limit.
    pub(super) parallelism: Option<u16>,
    /// Most unacknowledged chunks of a stream; `None`: no limit.
    pub(super) pipelining: Option<u16>,
    /// Bytes of a chunk as long as much is left.
    pub(super) chunk: u64,
    /// Whether all files are listed: then chunks become smaller towards the end.
    pub(super) complete: bool,
    /// Whether a file that was begun goes before larger ones.
    pub(super) one_by_one: bool,
}

/// Files, and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Amount {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// What the streams were shared out among.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shared {
    /// Files in flight.
    pub(super) concurrency: u16,
    /// Streams of each, rounded.
    pub(super) parallelism: u16,
    /// The files of the sizes that were in flight.
    pub(super) of: Amount,
}

/// How streams are shared out among files of these classes, smallest first, when `sent` of all is done; `moved` of it was done while the
/// setting was the same. `None` without files.
pub(super) fn shared(classes: &[SizeClass], sent: Amount, moved: Amount, sharing: &Sharing) -> Option<Shared> {
    let (small, large) = classes.split_at(classes.partition_point(|class| mean(class) <= SMALL as f64));
    let telling = moved.files >= TELLING_FILES && moved.bytes / moved.files <= SMALL;
    if large.is_empty() || (telling && !small.is_empty()) {
        return packed(small, sharing);
    }
    let small = amount(small);
    let in_packs = small.bytes as f64 * (sent.files as f64 / small.files.max(1) as f64).min(1.0);
    let large: Vec<SizeClass> = large.iter().rev().copied().collect();
    chunked(&large, (sent.bytes as f64 - in_packs).max(0.0), sharing)
}

/// Small files: a stream has one of them in flight, and a pack of them for itself.
fn packed(small: &[SizeClass], sharing: &Sharing) -> Option<Shared> {
    let of = amount(small);
    let full = of.files.div_ceil(PACK_FILES).max(of.bytes.div_ceil(SLAB_SIZE as u64));
    let packs = if sharing.pipelining == Some(0) { of.files } else { full };
    let concurrency = u16::try_from(packs).map_or(sharing.streams, |packs| packs.min(sharing.streams)).max(1);
    (of.files > 0).then_some(Shared { concurrency, parallelism: 1, of })
}

/// Files that are sent in chunks, the largest first.
fn chunked(large: &[SizeClass], sent: f64, sharing: &Sharing) -> Option<Shared> {
    let left = (amount(large).bytes as f64 - sent).max(0.0);
    let drawn = if sharing.one_by_one || sharing.parallelism == Some(1) {
        in_order(begun_in_order(large, sent), sharing, left)
    } else {
        of_most_left(level(large, sent), sharing, left)
    };
    let concurrency = u16::try_from(drawn.files).ok().filter(|files| *files > 0)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a share of a number of streams")]
    let parallelism = (f64::from(drawn.chunks) / f64::from(concurrency)).round() as u16;
    Some(Shared { concurrency, parallelism, of: amount(&large[drawn.first..=drawn.last]) })
}

/// Files of which the same is left. The order is that of what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    /// Bytes of each.
    left: u64,
    files: u64,
    /// Chunks of each in flight.
    chunks: u16,
    /// The first and the last class that they are of.
    first: usize,
    last: usize,
}

/// What streams have taken: chunks, of so many files, of these classes.
#[derive(Debug, Default)]
struct Drawn {
    chunks: u16,
    files: u64,
    first: usize,
    last: usize,
}

impl Drawn {
    fn add(&mut self, file: &Alike, chunks: u16) {
        (self.first, self.last) = match self.files {
            0 => (file.first, file.last),
            _ => (self.first.min(file.first), self.last.max(file.last)),
        };
        self.files += 1;
        self.chunks += chunks;
    }
}

/// What is left of files when so many bytes are on their way: chunks come off the largest, so that of those the same is left.
fn level(large: &[SizeClass], sent: f64) -> Vec<Alike> {
    let mut above = Amount::default();
    for (last, class) in large.iter().enumerate() {
        above = above.and(class);
        let left = (above.bytes as f64 - sent) / above.files.max(1) as f64;
        let next = large.get(last + 1).map_or(0.0, mean);
        if left >= next || last + 1 == large.len() {
            let highest = Alike { left: whole(left).max(1), files: above.files, chunks: 0, first: 0, last };
            let rest = large.iter().enumerate().skip(last + 1).map(|(at, class)| untouched(at, class));
            return std::iter::once(highest).chain(rest).collect();
        }
    }
    Vec::new()
}

/// What is left of files that are sent one after another, the largest first: half of the one that was begun.
fn begun_in_order(large: &[SizeClass], mut sent: f64) -> Vec<Alike> {
    let mut files = Vec::new();
    for (at, class) in large.iter().enumerate() {
        let is_last = at + 1 == large.len();
        if files.is_empty() && sent >= class.bytes as f64 && !is_last {
            sent -= class.bytes as f64;
            continue;
        }
        let whole_files = untouched(at, class);
        if files.is_empty() {
            let done = whole(sent / mean(class).max(1.0)).min(class.files - 1);
            files.push(Alike { left: whole_files.left.div_ceil(2), files: 1, ..whole_files });
            files.push(Alike { files: class.files - done - 1, ..whole_files });
        } else {
            files.push(whole_files);
        }
    }
    files
}

/// Each stream takes a chunk of the file of which most is left.
fn of_most_left(files: Vec<Alike>, sharing: &Sharing, left: f64) -> Drawn {
    let (chunk, limit) = (chunk(sharing, left), sharing.parallelism.unwrap_or(u16::MAX));
    let mut files = BinaryHeap::from(files);
    let mut drawn = Drawn::default();
    while drawn.chunks < sharing.streams
        && let Some(most) = files.pop()
    {
        if most.files > 1 {
            files.push(Alike { files: most.files - 1, ..most });
        }
        if most.chunks == 0 {
            drawn.add(&most, 1);
        } else {
            drawn.chunks += 1;
        }
        let taken = Alike { left: most.left.saturating_sub(chunk), files: 1, chunks: most.chunks + 1, ..most };
        if taken.left > 0 && taken.chunks < limit {
            files.push(taken);
        }
    }
    drawn
}

/// The streams take all chunks of a file before those of the next, as far as there may be more of one in flight.
fn in_order(files: Vec<Alike>, sharing: &Sharing, left: f64) -> Drawn {
    let (chunk, limit) = (chunk(sharing, left), sharing.parallelism.unwrap_or(u16::MAX));
    let mut drawn = Drawn::default();
    for alike in files {
        let chunks = u16::try_from(alike.left.div_ceil(chunk)).unwrap_or(u16::MAX).clamp(1, limit.max(1));
        let mut untaken = alike.files;
        while untaken > 0 && drawn.chunks < sharing.streams {
            drawn.add(&alike, chunks.min(sharing.streams - drawn.chunks));
            untaken -= 1;
        }
    }
    drawn
}

/// Bytes of a chunk when so many are left in all.
fn chunk(sharing: &Sharing, left: f64) -> u64 {
    if sharing.parallelism == Some(1) {
        return u64::MAX;
    }
    let share = if sharing.complete { whole(left / (2.0 * f64::from(sharing.streams.max(1)))).max(TAIL_CHUNK) } else { u64::MAX };
    sharing.chunk.min(share).max(SLAB_SIZE as u64)
}

fn untouched(at: usize, class: &SizeClass) -> Alike {
    Alike { left: whole(mean(class)).max(1), files: class.files, chunks: 0, first: at, last: at }
}

fn mean(class: &SizeClass) -> f64 {
    class.bytes as f64 / class.files.max(1) as f64
}

fn amount(classes: &[SizeClass]) -> Amount {
    classes.iter().fold(Amount::default(), Amount::and)
}

impl Amount {
    fn and(self, class: &SizeClass) -> Self {
        Self { files: self.files.saturating_add(class.files), bytes: self.bytes.saturating_add(class.bytes) }
    }
}

/// As a whole number; what is negative is 0, and what is too large is the largest.
fn whole(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "that is meant")]
    let whole = number.floor() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::*;
    use crate::optimizer::Listed;
    use crate::pipeline::sender::queue::{Cut, Next, Queue, SourceFile, Unit, Worker};

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    const EIGHT: Sharing =
        Sharing { streams: 8, parallelism: None, pipelining: None, chunk: 16 * MIB, complete: true, one_by_one: false };

    fn classes(files: &[(u32, u64)]) -> Vec<SizeClass> {
        let mut listed = Listed::default();
        for (count, size) in files {
            (0..*count).for_each(|_| listed.add(*size));
        }
        listed.classes
    }

    fn derived(files: &[(u32, u64)], sent: u64, sharing: &Sharing) -> Shared {
        let sent = Amount { files: 0, bytes: sent };
        shared(&classes(files), sent, Amount::default(), sharing).unwrap()
    }

    /// Streams that take turns at the queue of a sender, each with a chunk: the mean files in flight, and chunks, while so many bytes
    /// are sent.
    fn simulated(files: &[(u32, u64)], sent: &Range<u64>, sharing: &Sharing) -> (f64, f64) {
        let queue = Queue::default();
        let sizes = files.iter().flat_map(|(count, size)| std::iter::repeat_n(*size, *count as usize));
        for (number, size) in (1..).zip(sizes) {
            queue.add_file(SourceFile::of_a_test(number, size), std::iter::once(0..size).collect());
        }
        queue.complete();
        let parallelism = sharing.parallelism.unwrap_or(u16::MAX);
        let (chunk, concurrency, one_by_one) = (sharing.chunk, sharing.streams, sharing.one_by_one);
        let cut = Cut { chunk, least: TAIL_CHUNK, parallelism, concurrency, one_by_one };
        let mut flying: VecDeque<Arc<SourceFile>> = VecDeque::new();
        let (mut bytes, mut seen) = (0, Vec::new());
        loop {
            while flying.len() < usize::from(sharing.streams)
                && let Next::Unit(Unit::Chunk(file, range)) = queue.take(&mut Worker::default(), cut, Duration::ZERO)
            {
                bytes += range.end - range.start;
                flying.push_back(file);
            }
            if sent.contains(&bytes) {
                let numbers: BTreeSet<u32> = flying.iter().map(|file| file.header.file).collect();
                seen.push((numbers.len() as f64, flying.len() as f64));
            }
            let Some(file) = flying.pop_front() else { break };
            file.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
        assert!(seen.len() > 10, "{files:?}");
        let (in_flight, chunks) = seen.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (in_flight / seen.len() as f64, chunks / seen.len() as f64)
    }

    /// Files of a size, the bytes that are looked at, and how they are shared out.
    type Mix = (&'static [(u32, u64)], Range<u64>, Sharing);

    #[test]
    fn files_in_flight_are_those_that_the_queue_of_a_sender_has_in_flight() {
        let twelve = Sharing { streams: 12, ..EIGHT };
        let objects = Sharing { one_by_one: true, chunk: 8 * MIB, ..EIGHT };
        let mixes: [Mix; 10] = [
            // One large file has all streams until no more is left of it than of the others.
            (&[(1, 10 * GIB), (1000, 10 * MIB)], GIB..9 * GIB, EIGHT),
            (&[(1, 10 * GIB), (1000, 10 * MIB)], 11 * GIB..15 * GIB, EIGHT),
            (&[(3, GIB), (100, 40 * MIB)], GIB..2 * GIB, twelve),
            (&[(3, 70 * MIB), (900, 40 * MIB)], GIB..20 * GIB, Sharing { chunk: 64 * MIB, ..twelve }),
            // What large files may have no more chunks of goes to smaller ones.
            (&[(2, 4 * GIB), (900, 20 * MIB)], GIB..7 * GIB, Sharing { parallelism: Some(2), ..twelve }),
            (&[(900, 100 * MIB)], GIB..60 * GIB, twelve),
            (&[(5, 100 * GIB)], GIB..400 * GIB, twelve),
            (&[(900, 16 * MIB), (50, 100 * MIB)], GIB..10 * GIB, Sharing { parallelism: Some(1), ..EIGHT }),
            (&[(300, 104 * MIB)], GIB..20 * GIB, objects),
            (&[(900, 16 * MIB)], GIB..10 * GIB, objects),
        ];
        for (files, sent, sharing) in mixes {
            let (concurrency, chunks) = simulated(files, &sent, &sharing);
            let found = derived(files, u64::midpoint(sent.start, sent.end), &sharing);
            let about = |found: u16, exact: f64| (f64::from(found) - exact).abs() <= 0.5 + 0.1 * exact;
            assert!(about(found.concurrency, concurrency), "{files:?}: {found:?}, and not {concurrency} files");
            let parallelism = chunks / f64::from(found.concurrency);
            assert!(about(found.parallelism, parallelism), "{files:?}: {found:?}, and not {parallelism} streams of each");
        }
    }

    #[test]
    fn what_few_files_have_no_chunks_for_goes_to_smaller_ones() {
        let files = [(3, GIB), (100, 40 * MIB)];
        let halves = Sharing { streams: 12, chunk: GIB / 2, complete: false, ..EIGHT };
        let found = derived(&files, 0, &halves);
        // Two chunks of each of the three, and six others.
        assert_eq!((found.concurrency, found.parallelism, found.of.files), (9, 1, 103));
        let cut_finer = derived(&files, 0, &Sharing { complete: true, ..halves });
        assert_eq!((cut_finer.concurrency, cut_finer.parallelism, cut_finer.of.files), (3, 4, 3));
    }

    #[test]
    fn the_data_set_is_of_the_sizes_that_were_in_flight() {
        let files = [(1, 10 * GIB), (1000, 10 * MIB)];
        let large = derived(&files, GIB, &EIGHT);
        assert_eq!((large.concurrency, large.parallelism), (1, 8));
        assert_eq!(large.of, Amount { files: 1, bytes: 10 * GIB });
        let all = derived(&files, 15 * GIB, &EIGHT);
        assert_eq!((all.concurrency, all.parallelism), (8, 1));
        assert_eq!(all.of, Amount { files: 1001, bytes: 10 * GIB + 10_000 * MIB });
    }

    #[test]
    fn small_files_travel_in_packs_of_which_each_stream_has_one() {
        let files = classes(&[(10_000, 4096), (4, GIB)]);
        let at = |sent, moved| shared(&files, sent, moved, &EIGHT).unwrap();
        let some = Amount { files: 5000, bytes: 5000 * 4096 };
        let packs = at(some, some);
        assert_eq!((packs.concurrency, packs.parallelism), (8, 1));
        assert_eq!(packs.of, Amount { files: 10_000, bytes: 10_000 * 4096 });
        let later = at(Amount { files: 10_000, bytes: GIB }, Amount { files: 0, bytes: GIB });
        assert_eq!((later.concurrency, later.parallelism, later.of.files), (4, 2, 4));
        let few = classes(&[(300, 100)]);
        assert_eq!(shared(&few, Amount::default(), Amount::default(), &EIGHT).unwrap().concurrency, 2);
        let alone = Sharing { pipelining: Some(0), ..EIGHT };
        assert_eq!(shared(&few, Amount::default(), Amount::default(), &alone).unwrap().concurrency, 8);
    }

    #[test]
    fn without_files_nothing_is_shared_and_at_the_end_something_still_is() {
        assert_eq!(shared(&[], Amount::default(), Amount::default(), &EIGHT), None);
        for sharing in [EIGHT, Sharing { one_by_one: true, ..EIGHT }, Sharing { parallelism: Some(1), ..EIGHT }] {
            let found = derived(&[(3, 10 * MIB), (1, GIB)], u64::MAX, &sharing);
            assert!(found.concurrency >= 1 && found.parallelism >= 1, "{found:?}");
        }
        let absurd = [SizeClass { exponent: 63, files: u64::MAX, bytes: u64::MAX }; 2];
        assert!(shared(&absurd, Amount { files: 1, bytes: 1 }, Amount::default(), &EIGHT).is_some());
    }
}
