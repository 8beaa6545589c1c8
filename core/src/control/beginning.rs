//! The beginning of a transfer: streams that lose much while they find their windows are limited before the first interval is over.

use std::time::Duration;

use super::{Controller, Until};
use crate::metrics::Sample;
use crate::optimizer::Beginning;

/// How often it is looked whether new streams lose much, before the first interval and in it; the lost share from which on that is so, and so many
/// segments at least.
const WATCH: Duration = Duration::from_millis(50);
const HEAVY: f64 = 0.1;
const TELLING: u64 = 4;

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

    /// Limits new streams at once where they lose much; whether it did.
    fn restrain(&mut self) -> bool {
        let sample = self.plant.sample().ok();
        let Some((first, now)) = self.beginning.as_ref().zip(sample.as_ref()) else { return false };
        let (streams, loss) = (now.stages.network.workers, now.since(first).loss.unwrap_or_default());
        let all = |sample: &Sample| sample.tcp.map_or(0, |tcp| tcp.retransmitted);
        let repeated = all(now).saturating_sub(all(first));
        let Some(rate) = now.delivery_rate().filter(|_| repeated >= TELLING && loss >= HEAVY) else { return false };
        self.beginning = None;
        let restrained = self.tuner.restrain(&Beginning { streams, loss, rate });
        if restrained {
            self.grown = true;
            self.apply();
        }
        restrained
    }
}
