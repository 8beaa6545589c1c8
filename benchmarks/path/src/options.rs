//! The parameters of a path.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::{Error, Rate, Schedule};

/// The least queue that a limit computed from rate and RTT gets, in bytes.
const LEAST_QUEUE: u64 = 64 * 1024;

/// What a path is like. It is the same in both directions; the schedule changes it while it runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathOptions {
    /// Rate of the bottleneck, counted on IP packets; default 1 Gbit/s.
    #[serde(rename = "rate_bps")]
    pub rate: Rate,
    /// Round trip time of an empty path, half of it per direction; default 67 ms.
    #[serde(rename = "rtt_ms", serialize_with = "as_ms")]
    pub rtt: Duration,
    /// Rate at which each flow is let through on its own, as sites throttle connections; default none.
    #[serde(rename = "stream_rate_bps")]
    pub stream_rate: Rate,
    /// Share of packets lost at random behind the bottleneck; default 0.
    pub loss: f64,
    /// Limit of the bottleneck's queue in bytes; default one product of `rate` and `rtt`. More gives fewer drops and more delay.
    #[serde(rename = "queue_bytes")]
    pub queue: Option<u64>,
    /// Limit of each flow's own queue in bytes; default one product of `stream_rate` and `rtt`.
    #[serde(rename = "stream_queue_bytes")]
    pub stream_queue: Option<u64>,
    /// Largest IP packet in bytes; default 9000. Less costs more CPU time per byte.
    pub mtu: u16,
    /// Congestion control of TCP at both ends, unless a program asks for its own; default cubic.
    pub congestion: Congestion,
    /// A bottleneck that collapses under too many flows; default none.
    pub cliff: Option<Cliff>,
    /// What changes when; default nothing.
    pub schedule: Schedule,
    /// Seed of the random losses; default 1.
    pub seed: u64,
}

impl Default for PathOptions {
    fn default() -> Self {
        Self {
            rate: Rate::bits(1e9),
            rtt: Duration::from_millis(67),
            stream_rate: Rate::UNLIMITED,
            loss: 0.0,
            queue: None,
            stream_queue: None,
            mtu: 9000,
            congestion: Congestion::Cubic,
            cliff: None,
            schedule: Schedule::default(),
            seed: 1,
        }
    }
}

impl PathOptions {
    /// Checks the values and fills in the limits of queues that were left open.
    pub fn validated(mut self) -> Result<Self, Error> {
        if !(0.0..=1.0).contains(&self.loss) {
            return Err(Error::Options(format!("the loss must be a share from 0 to 1, not {}", self.loss)));
        }
        if self.mtu < 576 {
            return Err(Error::Options(format!("the MTU must be at least 576 bytes, not {}", self.mtu)));
        }
        self.queue = self.queue.or_else(|| product(self.rate, self.rtt));
        self.stream_queue = self.stream_queue.or_else(|| product(self.stream_rate, self.rtt));
        Ok(self)
    }
}

/// Bytes that a rate moves in a time, at least [`LEAST_QUEUE`]; `None` where there is no limit.
fn product(rate: Rate, rtt: Duration) -> Option<u64> {
    let bytes = rate.bytes_per_second()? * rtt.as_secs_f64();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a sum of memory, far below 2^64
    Some((bytes.round() as u64).max(LEAST_QUEUE))
}

/// A congestion control of the system's TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// The default of Linux: loss tells it that the path is full.
    Cubic,
    /// Models rate and RTT; random loss hardly slows it.
    Bbr,
    /// The classic: halves on each loss.
    Reno,
}

impl Congestion {
    /// The name by which the system knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Reno => "reno",
        }
    }
}

/// A bottleneck whose rate collapses for a while once too many flows are active, as an overloaded server does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cliff {
    /// Active flows of a direction that it bears.
    pub flows: u32,
    /// Share of the rate that is left beyond.
    pub share: f64,
    /// How long that lasts, from the second in which there were too many.
    #[serde(rename = "lasts_ms", serialize_with = "as_ms")]
    pub lasts: Duration,
}

fn as_ms<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_default_to_one_product_of_rate_and_rtt() {
        let options = PathOptions { stream_rate: Rate::bytes(1e5), ..PathOptions::default() }.validated().unwrap();
        assert_eq!(options.queue, Some(8_375_000));
        assert_eq!(options.stream_queue, Some(LEAST_QUEUE));
    }

    #[test]
    fn impossible_values_are_refused() {
        assert!(PathOptions { loss: 1.5, ..PathOptions::default() }.validated().is_err());
        assert!(PathOptions { loss: f64::NAN, ..PathOptions::default() }.validated().is_err());
        assert!(PathOptions { mtu: 100, ..PathOptions::default() }.validated().is_err());
    }
}
