//! The observation as an agent's network takes it: a vector of scaled values, each chosen by name.

use serde::Deserialize;

use crate::error::Result;
use crate::optimizer::network::refused;
use crate::optimizer::{Observation, utility};

/// One input of a network: `(value - offset) / scale`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(super) struct Feature {
    name: Name,
    offset: f64,
    scale: f64,
}

/// What there is to observe. Rates are bytes per second; concurrency is what was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    /// Of the network stage [EDT §IV-D1].
    Throughput,
    /// Of the network stage [EDT §IV-D1].
    Concurrency,
    /// Against the previous observation [EDT §IV-D1].
    ThroughputChange,
    /// Against the previous observation [EDT §IV-D1].
    ConcurrencyChange,
    /// Unused share of the sender's buffer [AutoMDT §IV-D1].
    BufferFreeSender,
    /// Unused share of the receiver's buffer [AutoMDT §IV-D1].
    BufferFreeReceiver,
    ThroughputRead,
    ThroughputNetwork,
    ThroughputWrite,
    ConcurrencyRead,
    ConcurrencyNetwork,
    ConcurrencyWrite,
}

impl Feature {
    /// Checks that the scaling gives numbers.
    pub(super) fn check(&self) -> Result<()> {
        if !self.scale.is_normal() || !self.offset.is_finite() {
            let (name, offset, scale) = (self.name, self.offset, self.scale);
            return Err(refused(format!("its input {name:?} has the offset {offset} and the scale {scale}")));
        }
        Ok(())
    }
}

/// The inputs of a network, and the observation that changes are counted from.
#[derive(Debug, Clone)]
pub(super) struct Features {
    wanted: Vec<Feature>,
    /// Throughput and concurrency of the previous observation.
    previous: Option<(f64, f64)>,
    vector: Vec<f32>,
}

impl Features {
    pub(super) fn new(features: Vec<Feature>) -> Self {
        Self { wanted: features, previous: None, vector: Vec::new() }
    }

    /// The vector of an observation; `None`, and nothing remembered, if something in it is no finite number.
    pub(super) fn vector(&mut self, observation: &Observation) -> Option<&[f32]> {
        let now = (utility::arrived(observation), f64::from(observation.applied.concurrency.network));
        let before = self.previous.unwrap_or(now);
        self.vector.clear();
        for feature in &self.wanted {
            let scaled = (value(feature.name, observation, now, before) - feature.offset) / feature.scale;
            #[allow(clippy::cast_possible_truncation)]
            self.vector.push(scaled as f32);
        }
        if !now.0.is_finite() || self.vector.iter().any(|value| !value.is_finite()) {
            return None;
        }
        self.previous = Some(now);
        Some(&self.vector)
    }
}

fn value(name: Name, observation: &Observation, now: (f64, f64), before: (f64, f64)) -> f64 {
    let (throughput, concurrency, free) = (observation.throughput, observation.applied.concurrency, observation.buffer_free);
    match name {
        Name::Throughput | Name::ThroughputNetwork => now.0,
        Name::Concurrency | Name::ConcurrencyNetwork => now.1,
        Name::ThroughputChange => now.0 - before.0,
        Name::ConcurrencyChange => now.1 - before.1,
        Name::BufferFreeSender => share(free.sender, free.sender_capacity),
        Name::BufferFreeReceiver => share(free.receiver, free.receiver_capacity),
        Name::ThroughputRead => throughput.read,
        Name::ThroughputWrite => throughput.write,
        Name::ConcurrencyRead => f64::from(concurrency.read),
        Name::ConcurrencyWrite => f64::from(concurrency.write),
    }
}

/// The free share of a buffer; a stage without one is never held up by it.
fn share(free: u64, capacity: u64) -> f64 {
    if capacity == 0 { 1.0 } else { (free as f64 / capacity as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::agent::testing::observed;
    use crate::optimizer::{Buffers, PerStage};

    fn features(names: &[&str]) -> Features {
        let features = names.iter().map(|name| {
            let text = format!(r#"{{"name":"{name}","offset":1.0,"scale":2.0}}"#);
            serde_json::from_str(&text).unwrap()
        });
        Features::new(features.collect())
    }

    fn assert_near(found: Option<&[f32]>, expected: &[f32]) {
        let found = found.unwrap();
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} instead of {expected:?}");
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn one_stage_is_seen_with_its_changes_against_the_previous_observation() {
        let mut features = features(&["throughput", "concurrency", "throughput_change", "concurrency_change"]);
        assert_near(features.vector(&observed(4, 101.0)), &[50.0, 1.5, -0.5, -0.5]);
        assert_near(features.vector(&observed(7, 121.0)), &[60.0, 3.0, 9.5, 1.0]);
    }

    #[test]
    fn three_stages_are_seen_with_the_free_share_of_both_buffers() {
        let mut features = features(&[
            "buffer_free_sender",
            "buffer_free_receiver",
            "throughput_read",
            "throughput_network",
            "throughput_write",
            "concurrency_read",
            "concurrency_network",
            "concurrency_write",
        ]);
        let mut observation = observed(5, 0.0);
        observation.throughput = PerStage { read: 11.0, network: 21.0, write: 31.0 };
        observation.applied.concurrency = PerStage { read: 3, network: 5, write: 7 };
        observation.buffer_free = Buffers { sender: 25, sender_capacity: 100, receiver: 9, receiver_capacity: 0 };
        assert_near(features.vector(&observation), &[-0.375, 0.0, 5.0, 10.0, 15.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn what_is_no_number_is_not_seen_and_not_remembered() {
        let mut features = features(&["throughput_change", "concurrency"]);
        assert_near(features.vector(&observed(4, 100.0)), &[-0.5, 1.5]);
        assert!(features.vector(&observed(4, f64::NAN)).is_none());
        assert!(features.vector(&observed(4, f64::INFINITY)).is_none());
        assert_near(features.vector(&observed(4, 103.0)), &[1.0, 1.5]);
    }
}
