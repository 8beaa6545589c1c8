//! Stretches of a transfer of edt in the terms of optimizers that learn from history: files in flight, streams for each, pipelining.

use super::Past;
use super::shares::{Amount, Sharing, TELLING_FILES, shared};
use crate::optimizer::SizeClass;

/// Pipelining that stands for no limit: a stream of edt never waits for answers, which is as good as the most that other tools' logs try.
pub(super) const UNLIMITED_PIPELINING: u16 = 32;

/// Bounds of a chunk whose size was left to the sender, in bytes, and the seconds in which the path moves one [EDT §IV-A].
const CHUNK: (f64, f64) = (16.0 * MIB, 64.0 * MIB);
const CHUNK_S: f64 = 0.1;

/// Bytes of a chunk where files are finished one by one.
const ONE_BY_ONE_CHUNK: u64 = 8 << 20;

const MIB: f64 = 1_048_576.0;

/// What is known of a transfer as a whole.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    pub(super) began_s: f64,
    pub(super) source: String,
    pub(super) destination: String,
    pub(super) bandwidth: Option<f64>,
    pub(super) rtt_s: Option<f64>,
    pub(super) tcp_buffer: Option<f64>,
    /// All that was to be moved.
    pub(super) all: Amount,
    /// The same by size, smallest first; nothing if it is not known.
    pub(super) classes: Vec<SizeClass>,
    /// Whether these are all files.
    pub(super) complete: bool,
    /// Whether a file that was begun goes before larger ones: where publishing is a request for each.
    pub(super) one_by_one: bool,
    /// Bytes of a chunk, if they were chosen.
    pub(super) chunk_size: Option<u64>,
}

/// What is looked at of an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    pub(super) elapsed_s: f64,
    pub(super) interval_s: f64,
    /// Streams, averaged over the interval.
    pub(super) streams: f64,
    /// Most chunks of one file in flight, and most unacknowledged ones of a stream; `None`: no limit.
    pub(super) parallelism: Option<u16>,
    pub(super) pipelining: Option<u16>,
    /// Bytes per second that were written.
    pub(super) goodput: f64,
    /// Of the transfer up to the end of the interval.
    pub(super) done: Amount,
    /// Whether it says something of its setting; `None` if nobody judged.
    pub(super) judged: Option<bool>,
}

impl Measured {
    fn setting(&self) -> (u16, Option<u16>, Option<u16>) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the bounds of the type")]
        let streams = self.streams.round().clamp(0.0, f64::from(u16::MAX)) as u16;
        (streams, self.parallelism, self.pipelining)
    }
}

/// Cuts a transfer where its setting changed, and leaves out what says nothing. Where nobody judged that, it is the last interval, which
/// shows how the work ran dry, unless there is no other.
pub(super) fn stretches(facts: &Facts, intervals: &[Measured]) -> Vec<Past> {
    let tells = |at: usize| intervals[at].judged.unwrap_or(at + 1 < intervals.len() || intervals.len() == 1);
    let telling: Vec<usize> = (0..intervals.len()).filter(|at| tells(*at)).collect();
    let together = |one: &usize, next: &usize| *next == one + 1 && intervals[*one].setting() == intervals[*next].setting();
    let of_stretch = |stretch: &[usize]| {
        let (first, last) = (*stretch.first()?, *stretch.last()?);
        let before = first.checked_sub(1).map_or_else(Amount::default, |before| intervals[before].done);
        past(facts, &intervals[first..=last], before)
    };
    telling.chunk_by(together).filter_map(of_stretch).collect()
}

/// A stretch of one setting; `before` is what was done when it began.
fn past(facts: &Facts, stretch: &[Measured], before: Amount) -> Option<Past> {
    let (first, last) = (stretch.first()?, stretch.last()?);
    let seconds: f64 = stretch.iter().map(|interval| interval.interval_s).sum();
    let moved: f64 = stretch.iter().map(|interval| interval.goodput * interval.interval_s).sum();
    let (streams, parallelism, pipelining) = first.setting();
    if streams == 0 || seconds <= 0.0 || moved <= 0.0 {
        return None;
    }
    let goodput = moved / seconds;
    let done =
        Amount { files: last.done.files.saturating_sub(before.files), bytes: last.done.bytes.saturating_sub(before.bytes) };
    let middle =
        Amount { files: u64::midpoint(before.files, last.done.files), bytes: u64::midpoint(before.bytes, last.done.bytes) };
    let chunk = chunk(facts, goodput);
    let sharing = Sharing { streams, parallelism, pipelining, chunk, complete: facts.complete, one_by_one: facts.one_by_one };
    let shared = match alike(facts, done) {
        Some(class) => shared(&[class], middle, done, &sharing),
        None => shared(&facts.classes, middle, done, &sharing),
    };
    let shared = shared.filter(|shared| shared.of.bytes > 0)?;
    Some(Past {
        began_s: facts.began_s + first.elapsed_s - first.interval_s,
        source: facts.source.clone(),
        destination: facts.destination.clone(),
        bandwidth: facts.bandwidth,
        rtt_s: facts.rtt_s,
        tcp_buffer: facts.tcp_buffer,
        files: shared.of.files,
        bytes: shared.of.bytes,
        concurrency: shared.concurrency,
        parallelism: shared.parallelism,
        streams: Some(streams),
        pipelining: pipelining.unwrap_or(UNLIMITED_PIPELINING),
        goodput,
    })
}

/// What stands for the files where their sizes are not known: the bytes of all, in as many files of the size that was moved as they come to.
fn alike(facts: &Facts, done: Amount) -> Option<SizeClass> {
    if !facts.classes.is_empty() {
        return None;
    }
    let all = if facts.all.files > 0 { facts.all } else { done };
    let size = if done.files < TELLING_FILES || done.bytes == 0 { all } else { done };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is positive, and a number of files")]
    let files = (all.bytes as f64 * size.files as f64 / size.bytes.max(1) as f64).round().max(1.0) as u64;
    Some(SizeClass { exponent: 0, files, bytes: all.bytes })
}

/// Bytes of a chunk as long as much is left.
fn chunk(facts: &Facts, goodput: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the bounds of a chunk")]
    let tenth = (goodput * CHUNK_S).clamp(CHUNK.0, CHUNK.1) as u64;
    let left_to_sender = if facts.one_by_one { ONE_BY_ONE_CHUNK } else { tenth.next_power_of_two() };
    facts.chunk_size.unwrap_or(left_to_sender)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::Listed;

    const MEBIBYTE: u64 = 1 << 20;

    fn facts(files: u64, bytes: u64) -> Facts {
        Facts {
            began_s: 1000.0,
            source: "local".to_owned(),
            destination: "h_1".to_owned(),
            bandwidth: Some(125e6),
            rtt_s: Some(0.04),
            tcp_buffer: None,
            all: Amount { files, bytes },
            classes: Vec::new(),
            complete: true,
            one_by_one: false,
            chunk_size: None,
        }
    }

    fn measured(second: u32, streams: f64, goodput: f64) -> Measured {
        let done = u64::from(second);
        Measured {
            elapsed_s: f64::from(second),
            interval_s: 1.0,
            streams,
            parallelism: None,
            pipelining: None,
            goodput,
            done: Amount { files: done, bytes: done * MEBIBYTE },
            judged: None,
        }
    }

    #[test]
    fn a_stretch_goes_on_as_long_as_the_setting_and_the_end_is_left_out() {
        let intervals =
            [measured(1, 8.1, 1e8), measured(2, 7.9, 2e8), measured(3, 12.0, 3e8), measured(4, 12.4, 3e8), measured(5, 2.0, 1e6)];
        let pasts = stretches(&facts(1000, 1000 * MEBIBYTE), &intervals);
        let found: Vec<_> = pasts.iter().map(|past| (past.began_s, past.concurrency, past.goodput)).collect();
        assert_eq!(found, [(1000.0, 8, 1.5e8), (1002.0, 12, 3e8)]);
        assert!(pasts.iter().all(|past| (past.files, past.parallelism, past.pipelining) == (1000, 1, UNLIMITED_PIPELINING)));
    }

    #[test]
    fn what_was_judged_to_say_nothing_is_left_out_wherever_it_stands() {
        let judged = |second, judged| Measured { judged: Some(judged), ..measured(second, 4.0, f64::from(second) * 1e8) };
        // A session ended in the fourth second, and the work in the seventh.
        let seconds = [(1, true), (2, true), (3, true), (4, false), (5, true), (6, true), (7, false)];
        let intervals = seconds.map(|(second, tells)| judged(second, tells));
        let pasts = stretches(&facts(1000, 1000 * MEBIBYTE), &intervals);
        let found: Vec<_> = pasts.iter().map(|past| (past.began_s, past.goodput)).collect();
        assert_eq!(found, [(1000.0, 2e8), (1004.0, 5.5e8)]);
        assert!(stretches(&facts(1000, 1000 * MEBIBYTE), &[judged(1, false)]).is_empty());
        assert_eq!(stretches(&facts(1000, 1000 * MEBIBYTE), &[judged(1, true)]).len(), 1);
    }

    #[test]
    fn few_large_files_share_the_streams_as_far_as_their_chunks_and_the_limit_go() {
        let of = |files, size, limit| {
            let interval = Measured { parallelism: limit, ..measured(1, 12.0, 1e8) };
            let past = stretches(&facts(files, files * size), &[interval]).remove(0);
            (past.concurrency, past.parallelism)
        };
        assert_eq!(of(3, 1 << 30, None), (3, 4));
        assert_eq!(of(3, 1 << 30, Some(2)), (3, 2));
        assert_eq!(of(3, 20 * MEBIBYTE, None), (3, 4));
        assert_eq!(of(1, 1 << 40, None), (1, 12));
        assert_eq!(of(5000, 1 << 40, Some(4)), (12, 1));
        assert_eq!(of(5000, 1 << 40, Some(1)), (12, 1));
    }

    #[test]
    fn the_streams_are_those_that_ran_where_they_do_not_divide_among_the_files() {
        for (files, measured_streams, streams) in [(5, 8.0, 8), (8, 12.0, 12), (9, 12.2, 12)] {
            let past = stretches(&facts(files, files << 30), &[measured(1, measured_streams, 1e8)]).remove(0);
            assert_eq!((past.streams, past.all_streams()), (Some(streams), streams));
            assert_ne!(past.concurrency * past.parallelism, streams, "{past:?}");
        }
    }

    #[test]
    fn files_of_different_sizes_are_in_flight_as_the_sender_takes_them() {
        let mut listed = Listed::default();
        (0..1000).for_each(|_| listed.add(MEBIBYTE));
        listed.add(20_000 * MEBIBYTE);
        let facts = Facts { classes: listed.classes, ..facts(1001, 21_000 * MEBIBYTE) };
        let at = |second, mebibytes: u64, files, streams| Measured {
            done: Amount { files, bytes: mebibytes * MEBIBYTE },
            judged: Some(true),
            ..measured(second, streams, 1e9)
        };
        // All streams are on the large file until no more is left of it than of the others, though the mean size of all is 21 MiB.
        let pasts = stretches(&facts, &[at(1, 9_000, 0, 8.0), at(2, 18_000, 0, 8.0), at(3, 19_500, 0, 9.0)]);
        let found: Vec<_> = pasts.iter().map(|past| (past.concurrency, past.parallelism, past.files)).collect();
        assert_eq!(found, [(1, 8, 1), (1, 9, 1)]);
        assert_eq!((pasts[0].mean_size(), pasts[0].bytes), (20_000.0 * MIB, 20_000 * MEBIBYTE));
        let late = stretches(&facts, &[at(1, 20_200, 200, 7.0), at(2, 20_800, 800, 12.0)]);
        assert_eq!((late[1].concurrency, late[1].parallelism, late[1].files), (12, 1, 1001));
        let objects = Facts { one_by_one: true, ..facts };
        let one = stretches(&objects, &[at(1, 9_000, 0, 8.0)]).remove(0);
        assert_eq!((one.concurrency, one.parallelism, one.files), (1, 8, 1));
    }

    #[test]
    fn the_files_of_a_stretch_tell_its_size_if_there_are_enough_and_nothing_else_does() {
        let small = Measured { done: Amount { files: 100, bytes: 100 * 1024 }, ..measured(1, 4.0, 1e6) };
        let large = Measured { done: Amount { files: 102, bytes: 100 * 1024 + 2 * MEBIBYTE }, ..measured(2, 5.0, 1e8) };
        let pasts = stretches(&facts(200, 200 * MEBIBYTE), &[small, large, measured(3, 1.0, 1.0)]);
        assert_eq!((pasts[0].mean_size(), pasts[0].bytes), (1024.0, 200 * MEBIBYTE));
        assert_eq!((pasts[1].files, pasts[1].bytes), (200, 200 * MEBIBYTE));
    }

    #[test]
    fn what_moved_nothing_or_nothing_known_is_no_past() {
        assert!(stretches(&facts(10, 10), &[]).is_empty());
        assert!(stretches(&facts(10, 10), &[measured(1, 4.0, 0.0)]).is_empty());
        assert!(stretches(&facts(10, 10), &[measured(1, 0.2, 1e6)]).is_empty());
        let nothing_done = Measured { done: Amount::default(), ..measured(1, 4.0, 1e6) };
        assert!(stretches(&facts(0, 0), &[nothing_done]).is_empty());
        assert_eq!(stretches(&facts(0, 0), &[measured(9, 4.0, 1e6)])[0].files, 9);
    }
}
