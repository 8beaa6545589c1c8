//! When decisions are due and what is measured of them, which the control loop keeps to and optimizers may rely on.

use std::time::Duration;

/// Round trips of the default interval at each pace, as the path has them where nothing waits in its queues, and the shortest; those of the quick
/// pace where more paced streams are sent more than those before, which get through or do not; the longest.
const USUAL: (u32, Duration) = (10, Duration::from_secs(1));
const QUICK: (u32, Duration) = (8, Duration::from_millis(500));
const MORE: (u32, Duration) = (4, Duration::from_millis(500));
const LONGEST: Duration = Duration::from_secs(5);

/// Round trips that streams get to find their window before an interval begins: after each decision, and besides after the first bytes, or where
/// they were restrained.
const RAMP_TRIPS: (u32, u32) = (2, 5);

/// Longest time for either, and longest that paced streams get.
const RAMP: Duration = Duration::from_secs(1);
const PACED_RAMP: Duration = Duration::from_secs(2);

/// Bytes that a stream sends in its first round trip where segments are of Ethernet frames [RFC 6928].
pub(crate) const FIRST_WINDOW: f64 = 14_480.0;

/// What new streams that are not paced get at least at the quick pace, unless intervals are shorter: they begin by sending too much, and
/// what was lost is sent again after 200 ms at the earliest where nothing else tells of it [RFC 6298 §2.4 with Linux's least timeout]. How
/// much they lose then says little of their number.
const REPAIR: Duration = Duration::from_millis(400);

/// The same of those that are paced, which hardly lose anything then.
const PACED_REPAIR: Duration = Duration::from_millis(200);

/// How soon decisions follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// A second or more of measurements, as the papers' optimizers are made for.
    Usual,
    /// Half a second or more, which begins when new streams have repaired their first losses.
    Quick,
}

impl Pace {
    /// The pace of the optimizer of a name.
    pub fn of(name: &str) -> Self {
        match name {
            "auto" | "model" => Self::Quick,
            _ => Self::Usual,
        }
    }

    /// Time between two decisions over a path of this round trip time, where more paced streams are sent more than those before, or not.
    pub(crate) fn interval(self, rtt: Duration, more: bool) -> Duration {
        let (trips, shortest) = match self {
            Self::Usual => USUAL,
            Self::Quick if more => MORE,
            Self::Quick => QUICK,
        };
        (trips * rtt).clamp(shortest, LONGEST)
    }

    /// Time that streams get after a decision took effect, before the next interval begins, which takes `interval`. New ones that are paced at
    /// `pacing` first windows a second get at least as many round trips as it takes to double them until that is what they send.
    pub(crate) fn ramp(self, rtt: Duration, new: New, interval: Duration, pacing: Option<f64>) -> Duration {
        let pacing = pacing.filter(|_| self == Self::Quick && new != New::None);
        let (trips, repair) = match new {
            New::None => (RAMP_TRIPS.0, Duration::ZERO),
            New::Some if pacing.is_some() => (RAMP_TRIPS.0, PACED_REPAIR.min(interval)),
            New::Some => (RAMP_TRIPS.0, self.repair(interval)),
            New::First => (RAMP_TRIPS.1, self.repair(interval)),
        };
        let usual = (trips * rtt).min(RAMP).max(repair);
        match pacing {
            Some(rate) => usual.max(found(rate, rtt).min(PACED_RAMP)),
            None => usual,
        }
    }

    fn repair(self, interval: Duration) -> Duration {
        match self {
            Self::Usual => Duration::ZERO,
            Self::Quick => REPAIR.min(interval),
        }
    }
}

/// How long a new stream takes to find a rate of so many first windows a second.
fn found(rate: f64, rtt: Duration) -> Duration {
    let doublings = (rate * rtt.as_secs_f64()).log2();
    if doublings > 0.0 { rtt.mul_f64(doublings.min(64.0)) } else { Duration::ZERO }
}

/// Which streams are new when an interval is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum New {
    /// None of them.
    None,
    /// Those that the last decision added.
    Some,
    /// All of them, and the first bytes have just arrived; or they were restrained when they had.
    First,
}

/// What an interval counts for where intervals are counted to let time pass: its seconds, and 1 at most.
pub(crate) fn weight(interval: Duration) -> f64 {
    interval.as_secs_f64().min(USUAL.1.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_have_longer_intervals_and_ramps_within_bounds() {
        let of = |pace: Pace, rtt_ms| {
            let rtt = Duration::from_millis(rtt_ms);
            let interval = pace.interval(rtt, false);
            let ramp = |new| pace.ramp(rtt, new, interval, None);
            [interval, pace.interval(rtt, true), ramp(New::None), ramp(New::Some), ramp(New::First)].map(|time| time.as_millis())
        };
        assert_eq!(of(Pace::Usual, 0), [1000, 1000, 0, 0, 0]);
        assert_eq!(of(Pace::Usual, 20), [1000, 1000, 40, 40, 100]);
        assert_eq!(of(Pace::Usual, 200), [2000, 2000, 400, 400, 1000]);
        assert_eq!(of(Pace::Usual, 800), [5000, 5000, 1000, 1000, 1000]);
        assert_eq!(of(Pace::Quick, 0), [500, 500, 0, 400, 400]);
        assert_eq!(of(Pace::Quick, 100), [800, 500, 200, 400, 500]);
        assert_eq!(of(Pace::Quick, 900), [5000, 3600, 1000, 1000, 1000]);
    }

    #[test]
    fn short_intervals_that_somebody_asked_for_wait_no_longer_than_they_last() {
        let interval = Duration::from_millis(50);
        assert_eq!([New::Some, New::First].map(|new| Pace::Quick.ramp(Duration::ZERO, new, interval, None)), [interval; 2]);
    }

    #[test]
    fn new_streams_that_are_paced_get_the_time_to_find_their_rate() {
        let ramp = |pace: Pace, rate: f64, new| {
            pace.ramp(Duration::from_millis(200), new, Duration::from_secs(1), Some(rate)).as_millis()
        };
        // Once, 8, 64 and far more times a first window in a round trip.
        assert_eq!([5.0, 40.0, 320.0, 1e30].map(|rate| ramp(Pace::Quick, rate, New::Some)), [400, 600, 1200, 2000]);
        assert_eq!([0.0, f64::NAN, f64::MAX].map(|rate| ramp(Pace::Quick, rate, New::Some)), [400, 400, 2000]);
        assert_eq!(ramp(Pace::Quick, 40.0, New::First), 1000);
        assert_eq!([ramp(Pace::Quick, 320.0, New::None), ramp(Pace::Usual, 320.0, New::Some)], [400; 2]);
    }

    #[test]
    fn the_default_is_quick_and_what_the_papers_propose_is_not() {
        assert_eq!(["auto", "model"].map(Pace::of), [Pace::Quick; 2]);
        assert_eq!(["falcon", "edt", "generalist"].map(Pace::of), [Pace::Usual; 3]);
    }

    #[test]
    fn a_short_interval_counts_for_its_seconds_and_a_long_one_for_one() {
        for (milliseconds, counts) in [(250, 0.25), (1000, 1.0), (5000, 1.0)] {
            assert!((weight(Duration::from_millis(milliseconds)) - counts).abs() < 1e-9);
        }
    }
}
