//! Whether a rate that the transfers of a host share is what limited between two samples.
//!
//! A throughput near the rate does not tell: a path may carry just that by itself. Streams that wait for the rate do, unless it lapses
//! meanwhile: a stream whose socket takes much at once waits in between, and yet its path is what limits. So it is where less arrives than
//! streams send, since sockets fill.

use crate::buffer::SLAB_SIZE;
use crate::metrics::sampler::{Rates, Sample};

/// Least share of their time for which streams wait where the rate holds them back. Workers that work and wait in turn would do a ninth more
/// without it, and less is what intervals differ by anyway; streams whose sockets take what they have wait nearly all of their time.
const WAITED: f64 = 0.1;

/// Most of the rate that lapses there, as a share of the time: a burst of the limiter in an interval of a second.
const LAPSED: f64 = 0.05;

/// Most of what streams send that does not arrive in the interval, besides a frame.
const STAYED: f64 = 0.05;

/// By which share of the higher one two rates differ that are not the same for streams.
const CHANGED: f64 = 0.1;

/// Whether streams waited for a notable part of the time, what they sent arrived, and either all of the rate was used or it was another one
/// before.
pub(super) fn is_held_back(before: &Sample, after: &Sample, rates: &Rates) -> bool {
    let Some(now) = after.host_rate else { return false };
    let then = before.host_rate.unwrap_or_default();
    let passed_s = rates.interval.as_secs_f64();
    let waited_s = now.waited_us.saturating_sub(then.waited_us) as f64 / 1e6;
    let lapsed_s = now.lapsed_us.saturating_sub(then.lapsed_us) as f64 / 1e6;
    let waited = waited_s > 0.0 && waited_s >= WAITED * rates.concurrency.network * passed_s;
    let sent = after.stages.network.bytes.saturating_sub(before.stages.network.bytes) as f64;
    let arrives = sent - rates.throughput.network * passed_s <= STAYED * sent + SLAB_SIZE as f64;
    waited && arrives && (lapsed_s <= LAPSED * passed_s || has_changed(then.rate, now.rate))
}

fn has_changed(then: u64, now: u64) -> bool {
    let [then, now] = [then, now].map(|rate| if rate == 0 { f64::INFINITY } else { rate as f64 });
    then.min(now) < (1.0 - CHANGED) * then.max(now)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::pipeline::limiter::Limiter;
    use crate::protocol::message::{Meters, RateMeters, StageMeters};

    /// Bytes per second of the host, and of a frame.
    const RATE: u64 = 1_000_000;
    const FRAME: usize = 2_000;

    const SECOND: Duration = Duration::from_secs(1);

    /// One stream over a path that takes some frames at once.
    struct Path {
        limiter: Limiter,
        begun: Instant,
        now: Instant,
        frames: u32,
    }

    impl Path {
        fn new(own: Option<f64>, frames: u32) -> Self {
            let begun = Instant::now();
            let limiter = Limiter::new(own);
            limiter.limit(RATE, begun);
            let mut path = Self { limiter, begun, now: begun, frames };
            path.carry(1e6, SECOND);
            path
        }

        /// Sends for some time as fast as the path and the limiter allow.
        fn carry(&mut self, path: f64, time: Duration) {
            let end = self.now + time;
            let taken = Duration::from_secs_f64(f64::from(self.frames) * FRAME as f64 / path);
            while self.now < end {
                let sent = self.now + taken;
                for _ in 0..self.frames {
                    let booking = self.limiter.book(FRAME, self.now);
                    while let Some(wait) = self.limiter.wait(booking, self.now) {
                        self.now += wait.max(Duration::from_micros(1));
                    }
                }
                self.now = self.now.max(sent);
            }
        }

        fn sample(&self) -> Sample {
            let at_us = u64::try_from((self.now - self.begun).as_micros()).unwrap();
            let network = StageMeters { workers_us: at_us, workers: 1, ..StageMeters::default() };
            let meters = Meters { at_us, network, host_rate: self.limiter.meters(self.now), ..Meters::default() };
            Sample::from_halves(&meters, &meters)
        }

        /// Whether the rate held back what happens meanwhile.
        fn held_back(&mut self, happens: impl FnOnce(&mut Self)) -> bool {
            let before = self.sample();
            happens(self);
            let after = self.sample();
            is_held_back(&before, &after, &after.since(&before))
        }
    }

    #[test]
    fn a_path_that_carries_less_than_the_rate_is_not_held_back_by_it() {
        for share in [0.5, 0.8, 0.85, 0.9, 0.97] {
            let held_back = Path::new(None, 1).held_back(|path| path.carry(share * 1e6, SECOND));
            assert!(!held_back, "{share} of the rate");
        }
    }

    #[test]
    fn a_path_that_carries_more_than_the_rate_is_held_back_by_it() {
        for share in [1.25, 2.0, 100.0] {
            let held_back = Path::new(None, 1).held_back(|path| path.carry(share * 1e6, SECOND));
            assert!(held_back, "{share} of the rate");
        }
    }

    #[test]
    fn a_stream_that_waits_between_bursts_is_held_back_only_where_the_rate_is_used_up() {
        // Two fifths of a second at once: they pass the limiter in less than that, and wait there for most of it.
        let mut path = Path::new(None, 150);
        let before = path.sample();
        assert!(!path.held_back(|path| path.carry(0.75e6, 4 * SECOND)));
        let waited = path.sample().host_rate.unwrap().waited_us - before.host_rate.unwrap().waited_us;
        assert!(waited > 2_000_000, "{waited}");
        assert!(Path::new(None, 150).held_back(|path| path.carry(2e6, 4 * SECOND)));
    }

    #[test]
    fn a_path_whose_sockets_fill_is_not_held_back() {
        let sample = |at_us: u64, sent: u64, arrived: u64| {
            let network = |bytes: u64| StageMeters { bytes, busy_us: 0, workers_us: at_us, workers: 1 };
            let host_rate = Some(RateMeters { rate: 9_000_000, waited_us: at_us / 2, lapsed_us: 0 });
            let sender = Meters { at_us, network: network(sent), host_rate, ..Meters::default() };
            let receiver = Meters { at_us, network: network(arrived), ..Meters::default() };
            Sample::from_halves(&sender, &receiver)
        };
        let held_back = |arrived: u64| {
            let (before, after) = (sample(1_000_000, 0, 0), sample(2_000_000, 9_000_000, arrived));
            is_held_back(&before, &after, &after.since(&before))
        };
        assert!(held_back(9_000_000) && held_back(8_400_000), "a frame is on its way");
        assert!(!held_back(8_000_000) && !held_back(5_000_000));
    }

    #[test]
    fn a_rate_that_changes_has_held_back_whoever_waited_for_one_of_the_two() {
        for (first, then) in [(RATE, RATE / 2), (RATE / 2, RATE), (RATE / 2, 0)] {
            let mut path = Path::new(None, 1);
            path.limiter.limit(first, path.now);
            let changing = |share: f64| {
                move |path: &mut Path| {
                    path.carry(share * 1e6, SECOND / 2);
                    path.limiter.limit(then, path.now);
                    path.carry(share * 1e6, SECOND / 2);
                }
            };
            assert!(path.held_back(changing(0.8)), "{first} and {then}");
            path.limiter.limit(first, path.now);
            assert!(!path.held_back(changing(0.2)), "{first} and {then}");
        }
    }

    #[test]
    fn a_limit_of_the_transfer_itself_or_none_is_no_rate_of_the_host() {
        let own = Path::new(Some(1e5), 1).held_back(|path| path.carry(1e6, SECOND));
        assert!(!own);
        let mut free = Path::new(None, 1);
        free.limiter.limit(0, free.now);
        assert!(!free.held_back(|path| path.carry(1e6, SECOND)));
        assert!(!is_held_back(&Sample::default(), &Sample::default(), &Sample::default().since(&Sample::default())));
    }
}
