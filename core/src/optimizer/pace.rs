//! When decisions are due and what is measured of them, which the control loop keeps to and optimizers may rely on.

use std::time::Duration;

/// Round trips of the default interval, as the path has them where nothing waits in its queues, if that is within [`INTERVAL`].
const TRIPS: u32 = 10;

/// Shortest and longest default interval.
const INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// Round trips that streams get to find their window before an interval begins: after each decision, and besides after the first bytes.
const RAMP_TRIPS: (u32, u32) = (2, 5);

/// Longest time for either.
const RAMP: Duration = Duration::from_secs(1);

/// Time between two decisions over a path of this round trip time.
pub(crate) fn interval(rtt: Duration) -> Duration {
    (TRIPS * rtt).clamp(INTERVAL.0, INTERVAL.1)
}

/// Time that new streams get after a decision took effect, before the next interval begins.
pub(crate) fn ramp(rtt: Duration) -> Duration {
    (RAMP_TRIPS.0 * rtt).min(RAMP)
}

/// Further time that the first streams get after the first bytes have arrived.
pub(crate) fn first_ramp(rtt: Duration) -> Duration {
    (RAMP_TRIPS.1 * rtt).min(RAMP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_have_longer_intervals_and_ramps_within_bounds() {
        let of = |rtt_ms| {
            let rtt = Duration::from_millis(rtt_ms);
            [interval(rtt), ramp(rtt), first_ramp(rtt)].map(|time| time.as_millis())
        };
        assert_eq!(of(0), [1000, 0, 0]);
        assert_eq!(of(20), [1000, 40, 100]);
        assert_eq!(of(200), [2000, 400, 1000]);
        assert_eq!(of(800), [5000, 1000, 1000]);
    }
}
