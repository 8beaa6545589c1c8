//! The beginning of a transfer: streams that lose much while they find their windows, or one that is about to, are limited before the first
//! interval is over.

use std::time::Duration;

use super::{Controller, Until};
use crate::metrics::Sample;
use crate::optimizer::Beginning;

/// How often new streams are looked at, before the first interval and in it, and from when on; the lost share from which on they lose much, and so
/// many segments at least.
const WATCH: Duration = Duration::from_millis(10);
const EARLIEST: Duration = Duration::from_millis(50);
const HEAVY: f64 = 0.1;
const TELLING: u64 = 4;

/// By how much a stream at least becomes faster in a quarter of a round trip as long as it finds its window, which doubles in a whole one.
const FASTER: f64 = 1.03;
const PART: u32 = 4;

/// How many times the shortest round trip time a queue makes of it that will soon be full.
const QUEUED: f64 = 1.3;

/// The shortest round trip time of which a quarter is seen as it passes.
const VISIBLE: Duration = Duration::from_millis(10);

/// What is known of the first streams, as long as it is looked whether they lose much.
pub(super) struct First {
    /// What was sent when the first bytes arrived.
    sample: Sample,
    /// The most bytes per second that all of them got through, as the system tells; what they got through when they last became faster, and when.
    most: f64,
    level: f64,
    risen: Duration,
    /// From when on it tells how much they lose.
    due: Duration,
}

impl First {
    pub(super) fn new(sample: Sample, now: Duration) -> Self {
        Self { sample, most: 0.0, level: 0.0, risen: now, due: now + EARLIEST }
    }

    /// Takes what they get through now.
    fn see(&mut self, rate: f64, now: Duration) {
        self.most = self.most.max(rate);
        if rate > FASTER * self.level {
            (self.level, self.risen) = (rate, now);
        }
    }

    /// What is lost of all that they sent until this sample, as far as that calls for a limit: much, or nothing yet where one of them fills a queue.
    fn calls(&mut self, sample: &Sample, now: Duration, trip: Duration) -> Option<f64> {
        let loss = sample.since(&self.sample).loss.unwrap_or_default();
        if loss < HEAVY {
            let alone = sample.stages.network.workers == 1;
            return (alone && self.fills(now, trip, sample.rtt().unwrap_or_default())).then_some(0.0);
        }
        let all = |sample: &Sample| sample.tcp.map_or(0, |tcp| tcp.retransmitted);
        let telling = now >= self.due && all(sample).saturating_sub(all(&self.sample)) >= TELLING;
        telling.then_some(loss)
    }

    /// Whether they get through no faster any more, while a queue grows before them.
    fn fills(&self, now: Duration, trip: Duration, rtt: Duration) -> bool {
        trip >= VISIBLE && rtt > trip.mul_f64(QUEUED) && now >= self.due.max(self.risen + trip / PART)
    }
}

impl Controller<'_> {
    /// Waits for so long; false if that was cut short, because the transfer ended or new streams had to be restrained.
    pub(super) fn wait(&mut self, time: Duration) -> bool {
        let end = self.clock.now() + time;
        while self.beginning.is_some() && self.clock.now() < end {
            let left = end.saturating_sub(self.clock.now());
            if self.pause(left.min(WATCH), Until::Finished) || self.restrain() {
                return false;
            }
        }
        !self.pause(end.saturating_sub(self.clock.now()), Until::Finished)
    }

    /// Limits new streams at once where they lose much, or one where it fills a queue; whether it did.
    fn restrain(&mut self) -> bool {
        let (now, trip) = (self.clock.now(), self.trip.unwrap_or_default());
        let Some((first, sample)) = self.beginning.as_mut().zip(self.plant.sample().ok()) else { return false };
        let (streams, rate) = (sample.stages.network.workers, sample.delivery_rate().unwrap_or_default());
        first.see(rate, now);
        // What one gets through at most is what the path lets through; it is less while losses are made up for.
        let rate = if streams == 1 { first.most } else { rate };
        let Some(loss) = first.calls(&sample, now, trip).filter(|_| rate > 0.0) else { return false };
        let restrained = self.tuner.restrain(&Beginning { streams, loss, rate });
        self.beginning = None;
        if restrained {
            self.apply();
            (self.change.grown, self.change.more) = (true, true);
        }
        restrained
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(200);

    #[test]
    fn a_stream_fills_a_queue_where_it_has_got_no_faster_for_a_quarter_of_a_round_trip_and_that_has_become_longer() {
        let seen = |rates: &[f64], rtt_ms: u64| {
            let mut first = First::new(Sample::default(), Duration::ZERO);
            let mut now = Duration::ZERO;
            for rate in rates {
                now += Duration::from_millis(25);
                first.see(*rate, now);
            }
            (first.fills(now, TRIP, Duration::from_millis(rtt_ms)), first.most)
        };
        assert_eq!(seen(&[4e6, 5e6, 5.1e6, 5.1e6], 270), (true, 5.1e6));
        assert_eq!(seen(&[4e6, 5e6, 5.1e6, 5.1e6], 250), (false, 5.1e6), "no queue");
        assert_eq!(seen(&[4e6, 5e6, 5.1e6, 5.4e6], 270), (false, 5.4e6), "it still becomes faster");
        assert_eq!(seen(&[4e6, 5e6, 5.1e6, 2e6], 270), (true, 5.1e6), "losses are made up for");
    }
}
