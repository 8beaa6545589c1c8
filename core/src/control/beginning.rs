//! The beginning of a transfer: streams that lose much while they find their windows, or one that is about to, are limited before the first
//! interval is over.

use std::time::Duration;

use super::{Controller, Until};
use crate::metrics::Sample;
use crate::optimizer::Beginning;
use crate::optimizer::pace::New;

/// How often the beginning looks whether bytes arrive.
const FIRST_LOOK: Duration = Duration::from_millis(20);

/// How often new streams are looked at, before the first interval and in it, and how often a single one; from when on that tells how much they
/// lose; the lost share from which on that is much, and so many segments at least.
const WATCH: Duration = Duration::from_millis(50);
const WATCH_ONE: Duration = Duration::from_millis(10);
const EARLIEST: Duration = Duration::from_millis(50);
const HEAVY: f64 = 0.1;
const TELLING: u64 = 4;

/// By how much a stream at least becomes faster in half of a round trip as long as it finds its window, which doubles in a whole one; for how many
/// round trips it does so at most; and the part of its time for which it has something to send then.
const FASTER: f64 = 1.03;
const PART: u32 = 2;
const MOST_TRIPS: u32 = 20;
const BUSY: f64 = 0.5;

/// How many times the shortest round trip time, and how much more, a queue makes of it that will soon be full.
const QUEUED: f64 = 1.3;
const JITTER: Duration = Duration::from_millis(2);

/// The shortest round trip time of which a part is seen as it passes.
const VISIBLE: Duration = Duration::from_millis(10);

/// What is known of the first streams, as long as it is looked whether they lose much, or one is about to.
pub(super) struct First {
    /// What was sent when the first bytes arrived, and until the last look, by the clock of the sender.
    sample: Sample,
    seen: Duration,
    /// Bytes per second that they got through when they last became faster, and when, by the same clock.
    level: f64,
    risen: Duration,
    /// When it tells from then on how much they lose, by the clock of this side, and until when one of them finds its window.
    due: Duration,
    end: Duration,
}

impl First {
    pub(super) fn new(sample: Sample, now: Duration, trip: Duration) -> Self {
        let at = sample.stages.network.at;
        Self { sample, seen: at, level: 0.0, risen: at, due: now + EARLIEST, end: now + MOST_TRIPS * trip }
    }

    /// Takes what they get through, where that was measured again.
    fn see(&mut self, sample: &Sample) {
        let (at, rate) = (sample.stages.network.at, sample.delivery_rate().unwrap_or_default());
        if at > self.seen && rate > FASTER * self.level {
            (self.level, self.risen) = (rate, at);
        }
        self.seen = self.seen.max(at);
    }

    /// Whether they lose much.
    fn lose(&self, sample: &Sample, loss: f64, now: Duration) -> bool {
        let all = |sample: &Sample| sample.tcp.map_or(0, |tcp| tcp.retransmitted);
        now >= self.due && loss >= HEAVY && all(sample).saturating_sub(all(&self.sample)) >= TELLING
    }

    /// Whether a single one gets through no faster any more, while a queue grows before it.
    fn fills(&self, sample: &Sample, now: Duration, trip: Duration) -> bool {
        let (busy, rtt) = (sample.since(&self.sample).busy.network, sample.rtt().unwrap_or_default());
        let steady = self.seen >= self.risen + trip / PART && (self.due..=self.end).contains(&now);
        // A rate that others share is nothing that a queue shows.
        steady && trip >= VISIBLE && rtt > trip.mul_f64(QUEUED) + JITTER && busy >= BUSY && sample.host_rate.is_none()
    }
}

impl Controller<'_> {
    /// Waits until the first bytes have arrived and the first streams have found their windows: what comes before that says nothing about
    /// a decision. True if the transfer ended.
    pub(super) fn warm_up(&mut self) -> bool {
        let mut asked = self.clock.now();
        loop {
            if self.pause(FIRST_LOOK, Until::Finished) {
                return true;
            }
            if self.clock.now() >= asked + self.interval() {
                asked = self.clock.now();
                let policy = self.settings.member.ask(&self.settings.policy, None);
                self.keep_within(&policy, false);
            }
            if let Ok(sample) = self.plant.sample()
                && sample.arrived.bytes > 0
            {
                self.saw(sample.clone());
                self.beginning = Some(First::new(sample, self.clock.now(), self.trip.unwrap_or_default()));
                return self.ramp(New::First);
            }
        }
    }

    /// Waits for so long; false if that was cut short, because the transfer ended or new streams had to be restrained.
    pub(super) fn wait(&mut self, time: Duration) -> bool {
        let end = self.clock.now() + time;
        while let Some(first) = &self.beginning
            && self.clock.now() < end
        {
            let left = end.saturating_sub(self.clock.now());
            let watch = if self.is_alone() && self.clock.now() < first.end { WATCH_ONE } else { WATCH };
            if self.pause(left.min(watch), Until::Finished) || self.restrain() {
                return false;
            }
        }
        !self.pause(end.saturating_sub(self.clock.now()), Until::Finished)
    }

    /// Whether there is to be a single stream.
    fn is_alone(&self) -> bool {
        self.tuner.last.concurrency.network == 1
    }

    /// Limits new streams at once where they lose much, or one where it fills a queue; whether it did.
    fn restrain(&mut self) -> bool {
        let (now, trip, alone) = (self.clock.now(), self.trip.unwrap_or_default(), self.is_alone());
        let Some((first, sample)) = self.beginning.as_mut().zip(self.plant.sample().ok()) else { return false };
        first.see(&sample);
        let (streams, loss) = (sample.stages.network.workers, sample.since(&first.sample).loss.unwrap_or_default());
        let lossy = first.lose(&sample, loss, now);
        let fills = alone && streams == 1 && loss < HEAVY && first.fills(&sample, now, trip);
        let Some(rate) = sample.delivery_rate().filter(|_| lossy || fills) else { return false };
        self.beginning = None;
        let restrained = self.tuner.restrain(&Beginning { streams, loss, rate, fills });
        if restrained {
            self.apply();
            self.change.restrained();
        }
        restrained
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::TcpMeters;

    const TRIP: Duration = Duration::from_millis(200);

    /// A stream with something to send for so much of the time, that gets so much through.
    fn sample(at_ms: u64, busy: f64, rate: u64, rtt_ms: u64) -> Sample {
        let mut sample = Sample::default();
        let at = Duration::from_millis(at_ms);
        (sample.stages.network.at, sample.stages.network.workers_time) = (at, at);
        sample.stages.network.busy = at.mul_f64(busy);
        sample.tcp = Some(TcpMeters { delivery_rate: rate, rtt_us: 1000 * rtt_ms, ..TcpMeters::default() });
        sample
    }

    /// Whether one fills a queue that got these kilobytes per second through, measured every so many milliseconds and seen every 25.
    fn fills(rates: &[u64], every_ms: u64, busy: f64, rtt_ms: u64) -> bool {
        let mut first = First::new(sample(0, busy, 0, 200), Duration::ZERO, TRIP);
        let (mut now, mut found) = (Duration::ZERO, false);
        while now < Duration::from_millis(every_ms * rates.len() as u64) {
            now += Duration::from_millis(25);
            let at = u64::try_from(now.as_millis()).unwrap() / every_ms;
            let rate = at.checked_sub(1).map_or(0, |last| rates[usize::try_from(last).unwrap()]);
            let seen = sample(at * every_ms, busy, 1000 * rate, rtt_ms);
            first.see(&seen);
            found |= first.fills(&seen, now, TRIP);
        }
        found
    }

    #[test]
    fn a_stream_fills_a_queue_where_it_gets_no_faster_for_half_a_round_trip_and_that_has_become_longer() {
        let steady = [4000, 5000, 5100, 5100, 5100, 5100];
        assert!(fills(&steady, 25, 1.0, 270));
        assert!(!fills(&steady, 25, 1.0, 250), "no queue");
        assert!(!fills(&steady, 25, 0.3, 270), "its source is why");
        assert!(!fills(&[4000, 5000, 5100, 5400, 5700, 6000], 25, 1.0, 270), "it still becomes faster");
        assert!(fills(&[9000, 5000, 5100, 5100, 5100], 25, 1.0, 270), "a burst passed before");
    }

    #[test]
    fn what_was_not_measured_again_is_no_sign_that_a_stream_gets_no_faster() {
        assert!(!fills(&[4000, 5000, 7000, 9000], 100, 1.0, 270));
        assert!(fills(&[4000, 5000, 5000, 5000], 100, 1.0, 270));
    }
}
