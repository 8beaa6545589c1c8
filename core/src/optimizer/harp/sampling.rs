//! The adaptive sample: it ends as soon as the throughput has settled [HARP §2.1.1].

use crate::optimizer::{Observation, utility};

/// Length of a monitor interval [HARP §2.1.1]. Measured ones are a little shorter now and then.
const INTERVAL_S: f64 = 3.0;
const NEARLY: f64 = 0.95;

/// How near two intervals in a row must be, as a share of the later [HARP §2.1.1].
const NEAR: f64 = 0.05;

/// Most intervals of a sample: 15 s, the paper's worst case [HARP §2.3].
const MOST_INTERVALS: u32 = 5;

/// The same in seconds.
pub(super) const MOST_S: f64 = 15.0;

/// What was observed since the last monitor interval ended.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Monitor {
    seconds: f64,
    bytes: f64,
    stream_seconds: f64,
    limits: (u16, u16),
}

/// One monitor interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    /// Bytes per second.
    pub(super) throughput: f64,
    /// Streams that ran, on average.
    pub(super) streams: f64,
    /// Most chunks of one file in flight, and most of a stream without an answer, that were in force at its end.
    pub(super) limits: (u16, u16),
}

impl Monitor {
    /// Adds an observation; answers the interval that it completes.
    pub(super) fn add(&mut self, observation: &Observation) -> Option<Interval> {
        let seconds = observation.interval.as_secs_f64();
        self.seconds += seconds;
        self.bytes += utility::arrived(observation) * seconds;
        self.stream_seconds += f64::from(observation.applied.concurrency.network) * seconds;
        self.limits = (observation.applied.parallelism, observation.applied.pipelining);
        if self.seconds < NEARLY * INTERVAL_S {
            return None;
        }
        let Self { seconds, bytes, stream_seconds, limits } = std::mem::take(self);
        Some(Interval { throughput: bytes / seconds, streams: stream_seconds / seconds, limits })
    }
}

/// A sample that is being taken.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Sampling {
    previous: Option<f64>,
    intervals: u32,
}

impl Sampling {
    /// Adds the throughput of a monitor interval; answers that of the sample, the mean of the last two, once these are near.
    pub(super) fn add(&mut self, throughput: f64) -> Option<f64> {
        self.intervals += 1;
        let previous = self.previous.replace(throughput)?;
        let settled = (previous - throughput).abs() < NEAR * throughput;
        (settled || self.intervals >= MOST_INTERVALS).then_some(f64::midpoint(previous, throughput))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::optimizer::Decision;

    #[test]
    fn observations_are_gathered_to_three_seconds() {
        let mut monitor = Monitor::default();
        let limits = (3, 5);
        let observed = |throughput, streams| {
            let applied = Decision { parallelism: 3, pipelining: 5, ..Decision::uniform(streams, "") };
            Observation::of_a_test(applied, throughput, 64)
        };
        assert_eq!(monitor.add(&observed(10.0, 4)), None);
        assert_eq!(monitor.add(&observed(20.0, 4)), None);
        assert_eq!(monitor.add(&observed(60.0, 7)), Some(Interval { throughput: 30.0, streams: 5.0, limits }));
        assert_eq!(monitor.add(&observed(60.0, 7)), None, "the next one begins anew");
        let mut long = observed(8.0, 2);
        long.interval = Duration::from_secs(5);
        assert_eq!(Monitor::default().add(&long), Some(Interval { throughput: 8.0, streams: 2.0, limits }));
    }

    fn sampled(throughputs: &[f64]) -> Vec<Option<f64>> {
        let mut sampling = Sampling::default();
        throughputs.iter().map(|throughput| sampling.add(*throughput)).collect()
    }

    #[test]
    fn the_sample_ends_when_two_intervals_in_a_row_are_within_a_twentieth() {
        assert_eq!(sampled(&[50.0, 80.0, 96.0, 100.0]), [None, None, None, Some(98.0)]);
        assert_eq!(sampled(&[100.0, 97.0]), [None, Some(98.5)]);
        assert_eq!(sampled(&[95.0, 100.0]), [None, None], "a twentieth itself is not near");
    }

    #[test]
    fn the_sample_ends_after_fifteen_seconds_at_the_latest() {
        assert_eq!(sampled(&[10.0, 20.0, 10.0, 20.0, 10.0]), [None, None, None, None, Some(15.0)]);
        assert_eq!(sampled(&[0.0; 5])[4], Some(0.0), "of nothing a twentieth is nothing");
        assert!((MOST_S - INTERVAL_S * f64::from(MOST_INTERVALS)).abs() < 1e-9);
    }
}
