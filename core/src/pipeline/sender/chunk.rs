//! How large chunks are: what the path moves in a tenth of a second, and at the end of the work what a stream moves in a moment.
//!
//! The rule is that of EDT: a chunk of 10 % of what the path moves in a second is long enough not to be cut for nothing, and what is left
//! over at the end is through soon [EDT §IV-A]. It goes further than the paper in three ways. The rate is that of the last moments and no
//! constant, so that chunks follow the path. Where less than two chunks are left for each stream, they are cut finer. And a stream that has
//! nothing to do takes half of what another one has left of its chunk (`Queue::share`).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::pipeline::sender::Shared;
use crate::pipeline::sender::queue::{BLOCK, Cut, TAIL_CHUNK};
use crate::sync::Mutex;

/// The chunk size before anything was measured, and the bounds of the rule: below them more chunks only cost more, above them files wait
/// longer for their last one.
const CHUNK: std::ops::RangeInclusive<u64> = 16 << 20..=64 << 20;

/// The chunk size where files are finished one by one: a part of an object, so that no file waits long for its last chunk.
const ONE_BY_ONE: u64 = 8 << 20;

/// Seconds in which the path moves a chunk [EDT §IV-A], and a stream the shortest one.
const CHUNK_S: f64 = 0.1;
const SHORTEST_S: f64 = 0.25;

/// Over so much time the rate is measured.
const WINDOW: Duration = Duration::from_millis(500);

/// How fast the path is, by what was put on the streams lately.
pub(super) struct Pace(Mutex<Mark>);

struct Mark {
    at: Instant,
    sent: u64,
    rate: Option<f64>,
}

impl Pace {
    /// Begins to measure.
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(Mark { at: now, sent: 0, rate: None }))
    }

    /// Bytes per second lately, given all bytes that were sent by now; `None` before the first window is over.
    fn rate(&self, sent: u64, now: Instant) -> Option<f64> {
        let mut mark = self.0.lock();
        let passed = now.saturating_duration_since(mark.at);
        if passed >= WINDOW {
            let rate = sent.saturating_sub(mark.sent) as f64 / passed.as_secs_f64();
            *mark = Mark { at: now, sent, rate: Some(rate) };
        }
        mark.rate
    }
}

impl Shared {
    /// How chunks are cut now.
    pub(super) fn cut(&self) -> Cut {
        let rate = self.pace.rate(self.sent.load(Ordering::Relaxed), Instant::now());
        let streams = self.streams.target();
        let usual = if self.one_by_one { ONE_BY_ONE } else { usual(rate) };
        Cut {
            chunk: self.options.chunk_size.unwrap_or(usual),
            // A part of an object is a request.
            least: if self.one_by_one { TAIL_CHUNK } else { shortest(rate, streams).max(self.least_share) },
            parallelism: self.parallelism.load(Ordering::Relaxed),
            concurrency: streams,
            one_by_one: self.one_by_one,
        }
    }

    /// A part of an object, where these are written: however fine it is cut, one worker brings it to the service.
    pub(super) fn work_unit(&self) -> Option<u64> {
        self.one_by_one.then_some(ONE_BY_ONE)
    }
}

/// The chunk of a path with so many bytes per second.
fn usual(rate: Option<f64>) -> u64 {
    rate.map_or(*CHUNK.start(), |rate| bytes(CHUNK_S * rate).next_power_of_two().clamp(*CHUNK.start(), *CHUNK.end()))
}

/// The shortest chunk where so many streams share so many bytes per second: a slow stream has not the end of the work for itself.
fn shortest(rate: Option<f64>, streams: u16) -> u64 {
    let moved = |rate: f64| bytes(SHORTEST_S * rate / f64::from(streams.max(1)));
    rate.map_or(TAIL_CHUNK, |rate| moved(rate).clamp(BLOCK, TAIL_CHUNK) / BLOCK * BLOCK)
}

fn bytes(value: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast keeps to the range of a u64")]
    let whole = value.min(1e15) as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_chunk_is_what_the_path_moves_in_a_tenth_of_a_second() {
        assert_eq!(usual(None), 16 * MIB);
        assert_eq!([1e6, 125e6, 250e6, 500e6, 5e9].map(|rate| usual(Some(rate)) / MIB), [16, 16, 32, 64, 64]);
    }

    #[test]
    fn the_shortest_chunk_is_what_a_stream_moves_in_a_quarter_of_a_second() {
        assert_eq!(shortest(None, 16), MIB);
        assert_eq!(shortest(Some(125e6), 16), MIB);
        assert_eq!(shortest(Some(40e6), 16), 2 * BLOCK);
        assert_eq!(shortest(Some(1e6), 16), BLOCK);
        assert_eq!(shortest(Some(0.0), 0), BLOCK);
    }

    #[test]
    fn the_rate_is_that_of_the_last_moments() {
        let begun = Instant::now();
        let pace = Pace::new(begun);
        let rate = |sent, ms| pace.rate(sent, begun + Duration::from_millis(ms));
        assert_eq!(rate(50, 499), None);
        assert_eq!(rate(100, 500), Some(200.0));
        assert_eq!(rate(900, 999), Some(200.0));
        assert_eq!(rate(1100, 1000), Some(2000.0));
        assert_eq!(rate(1100, 3000), Some(0.0));
        assert_eq!(rate(0, 2000), Some(0.0), "a moment that another thread took earlier");
    }
}
