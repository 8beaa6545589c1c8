//! Stretches of a transfer of edt in the terms of optimizers that learn from history: files in flight, streams for each, pipelining.

use super::Past;

/// Pipelining that stands for no limit: a stream of edt never waits for answers, which is as good as the most that other tools' logs try.
pub(super) const UNLIMITED_PIPELINING: u16 = 32;

/// Files that must have been finished in a stretch for their mean size to count instead of that of all files.
const TELLING_FILES: u64 = 8;

/// Bounds of a chunk whose size was left to the sender, in bytes, and the seconds in which the path moves one [EDT §IV-A].
const CHUNK: (f64, f64) = (16.0 * MIB, 64.0 * MIB);
const CHUNK_S: f64 = 0.1;

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
    /// Files and bytes of all that was to be moved.
    pub(super) files: u64,
    pub(super) bytes: u64,
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
    pub(super) files_done: u64,
    pub(super) bytes_verified: u64,
}

impl Measured {
    fn setting(&self) -> (u16, Option<u16>, Option<u16>) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the bounds of the type")]
        let streams = self.streams.round().clamp(0.0, f64::from(u16::MAX)) as u16;
        (streams, self.parallelism, self.pipelining)
    }
}

/// Cuts a transfer where its setting changed. The last interval shows how the work ran dry, and counts only if there is no other.
pub(super) fn stretches(facts: &Facts, intervals: &[Measured]) -> Vec<Past> {
    let telling = if intervals.len() > 1 { &intervals[..intervals.len() - 1] } else { intervals };
    let mut before = (0, 0);
    let mut pasts = Vec::new();
    for stretch in telling.chunk_by(|one, next| one.setting() == next.setting()) {
        pasts.extend(past(facts, stretch, before));
        before = stretch.last().map_or(before, |last| (last.files_done, last.bytes_verified));
    }
    pasts
}

/// A stretch of one setting; `before` are the files and bytes that were done when it began.
fn past(facts: &Facts, stretch: &[Measured], before: (u64, u64)) -> Option<Past> {
    let (first, last) = (stretch.first()?, stretch.last()?);
    let seconds: f64 = stretch.iter().map(|interval| interval.interval_s).sum();
    let moved: f64 = stretch.iter().map(|interval| interval.goodput * interval.interval_s).sum();
    let (streams, limit, pipelining) = first.setting();
    if streams == 0 || seconds <= 0.0 || moved <= 0.0 {
        return None;
    }
    let goodput = moved / seconds;
    let done = (last.files_done.saturating_sub(before.0), last.bytes_verified.saturating_sub(before.1));
    let (files, bytes) = data_set(facts, done)?;
    let (concurrency, parallelism) = divided(streams, files, chunks(facts, bytes as f64 / files as f64, goodput), limit);
    Some(Past {
        began_s: facts.began_s + first.elapsed_s - first.interval_s,
        source: facts.source.clone(),
        destination: facts.destination.clone(),
        bandwidth: facts.bandwidth,
        rtt_s: facts.rtt_s,
        tcp_buffer: facts.tcp_buffer,
        files,
        bytes,
        concurrency,
        parallelism,
        pipelining: pipelining.unwrap_or(UNLIMITED_PIPELINING),
        goodput,
    })
}

/// The data set that a stretch stands for: the bytes of all, in as many files of the size that was moved in it as they come to.
fn data_set(facts: &Facts, done: (u64, u64)) -> Option<(u64, u64)> {
    let (files, bytes) = if facts.files > 0 { (facts.files, facts.bytes) } else { done };
    if files == 0 || bytes == 0 {
        return None;
    }
    if done.0 < TELLING_FILES || done.1 == 0 {
        return Some((files, bytes));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is positive, and a number of files")]
    let alike = (bytes as f64 / (done.1 as f64 / done.0 as f64)).round().max(1.0) as u64;
    Some((alike, bytes))
}

/// Chunks of a file of that size.
fn chunks(facts: &Facts, size: f64, goodput: f64) -> f64 {
    let chunk = facts.chunk_size.map_or((goodput * CHUNK_S).clamp(CHUNK.0, CHUNK.1), |bytes| bytes as f64);
    (size / chunk).ceil().max(1.0)
}

/// Files in flight and streams for each, as the sender divides its streams: each takes a chunk of the file of which most is left, so files of
/// a size get one stream each while there are as many files as streams, and share the streams where there are fewer.
fn divided(streams: u16, files: u64, chunks: f64, limit: Option<u16>) -> (u16, u16) {
    let concurrency = u16::try_from(files).map_or(streams, |files| files.min(streams)).max(1);
    let most = f64::from(limit.unwrap_or(u16::MAX)).min(chunks).max(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 1 and a number of streams")]
    let parallelism = (f64::from(streams) / f64::from(concurrency)).round().clamp(1.0, most) as u16;
    (concurrency, parallelism)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    fn facts(files: u64, bytes: u64) -> Facts {
        Facts {
            began_s: 1000.0,
            source: "local".to_owned(),
            destination: "h_1".to_owned(),
            bandwidth: Some(125e6),
            rtt_s: Some(0.04),
            tcp_buffer: None,
            files,
            bytes,
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
            files_done: done,
            bytes_verified: done * MEBIBYTE,
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
    fn few_large_files_share_the_streams_as_far_as_their_chunks_and_the_limit_go() {
        let of = |files, size, limit| {
            let interval = Measured { parallelism: limit, ..measured(1, 12.0, 1e8) };
            let past = stretches(&facts(files, files * size), &[interval]).remove(0);
            (past.concurrency, past.parallelism)
        };
        assert_eq!(of(3, 1 << 30, None), (3, 4));
        assert_eq!(of(3, 1 << 30, Some(2)), (3, 2));
        assert_eq!(of(3, 20 * MEBIBYTE, None), (3, 2));
        assert_eq!(of(1, 1 << 40, None), (1, 12));
        assert_eq!(of(5000, 1 << 40, Some(4)), (12, 1));
    }

    #[test]
    fn the_files_of_a_stretch_tell_its_size_if_there_are_enough() {
        let small = Measured { files_done: 100, bytes_verified: 100 * 1024, ..measured(1, 4.0, 1e6) };
        let large = Measured { files_done: 102, bytes_verified: 100 * 1024 + 2 * MEBIBYTE, ..measured(2, 5.0, 1e8) };
        let pasts = stretches(&facts(200, 200 * MEBIBYTE), &[small, large, measured(3, 1.0, 1.0)]);
        assert_eq!((pasts[0].mean_size(), pasts[0].bytes), (1024.0, 200 * MEBIBYTE));
        assert_eq!((pasts[1].files, pasts[1].bytes), (200, 200 * MEBIBYTE));
    }

    #[test]
    fn what_moved_nothing_or_nothing_known_is_no_past() {
        assert!(stretches(&facts(10, 10), &[]).is_empty());
        assert!(stretches(&facts(10, 10), &[measured(1, 4.0, 0.0)]).is_empty());
        assert!(stretches(&facts(10, 10), &[measured(1, 0.2, 1e6)]).is_empty());
        let nothing_done = Measured { files_done: 0, ..measured(1, 4.0, 1e6) };
        assert!(stretches(&facts(0, 0), &[nothing_done]).is_empty());
        assert_eq!(stretches(&facts(0, 0), &[measured(9, 4.0, 1e6)])[0].files, 9);
    }
}
