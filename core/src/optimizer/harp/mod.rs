//! HARP: what similar past transfers say of the best parameters, weighed by a sample of the present one [HARP §2].
//!
//! The files are parted into clusters by size (`cluster`), which run together. The transfer begins with the parameters of a heuristic;
//! when its throughput has settled (`sampling`), past transfers that are like each cluster (`similar`) and met the same load (`groups`)
//! give models (`model`), of which those count most that tell the sample best (`weights`); the parameters where they promise most, lowered
//! as far as that costs little (`relaxation`), are taken (`estimate`), and the channels are distributed over the clusters (`channels`).
//! Later samples change them when four in a row agree (`online`).
//!
//! How this maps onto the engine, which sends chunks of all files over streams that stay open:
//! - A channel moves one file at a time over as many connections as its parallelism. So there are as many streams as the sum of channels
//!   times parallelism over all clusters, at most as the policy permits; reading and writing get as many workers. Each cluster has its
//!   channels' streams and its own parallelism; a stream that finds nothing left of its cluster goes to the others, and where the policy
//!   permits fewer streams in all, each has its part of these. To services, where files are finished one by one, they are not divided.
//! - Pipelining is that of a stream, which goes from file to file, so the largest that a cluster asks for is taken: large files seldom
//!   have to wait for answers. It counts chunks without an answer, at least one, where the paper counts commands ahead of the one that is
//!   being answered, at least none.
//! - All clusters run during the sample too, which so slows nothing down. One throughput is measured for all, and each one's part is that
//!   of its streams.
//! - Until files are listed, of which the heuristic knows nothing, it begins with as many streams as `auto`. Listing goes on during the
//!   transfer: whenever the number of a cluster's files has doubled since, its parameters and the channels of all are worked out anew.
//! - Where no past transfer is similar, the heuristic stays, and online tuning follows what it makes of what becomes known of files and
//!   bandwidth.
//! - Models are learned in the loop that tunes, when the first sample is over and when much more is known of a cluster's files. What is
//!   compared is worked out once for all clusters, and no more is learned from than the 21,000 most similar rows and the newest 256 groups
//!   of them: about a tenth of a second for a cluster, whatever the history holds. Meanwhile the transfer goes on.
//! - A parameter that no similar transfer tried at more than one value is not decided: edt's own, without limits, make none.

pub mod assess;
mod channels;
mod cluster;
mod cost;
mod estimate;
mod groups;
mod maximum;
mod model;
mod online;
mod path;
mod polynomial;
mod relaxation;
mod sampling;
mod similar;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tuned;
mod weights;

use std::collections::BTreeMap;
use std::time::Duration;

pub use cluster::Class;
pub use polynomial::Point;

use super::setting::with_streams;
use super::{Decision, FirstStreams, Observation, Optimizer, Policy, Setup, utility};
use crate::error::Result;
use crate::history::Past;
use channels::{Demand, distribute};
use cluster::partition;
use cost::Costs;
use path::Path;
use sampling::{Interval, MOST_S, Monitor, Sampling};
use similar::Known;
use tuned::Tuned;

/// A gain for which parameters are worth estimating; as all clusters run during a sample, its size matters little [HARP §2.3].
const GAIN: f64 = 0.1;

/// Streams before any file is listed, of which its heuristic could tell.
const BEGINNING: FirstStreams = FirstStreams::by_trip([8, 16, 24]);

/// HARP, with or without online tuning.
#[derive(Debug, Clone)]
pub struct Harp {
    retuning: Retuning,
    known: Known,
    /// The shortest round trip that was measured: queues lengthen others.
    rtt: Option<Duration>,
    first: u16,
    path: Option<Path>,
    /// Bytes per second of the fastest observation.
    fastest: f64,
    stage: Stage,
    monitor: Monitor,
    clusters: BTreeMap<Class, Tuned>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// No file is listed.
    Beginning,
    /// So little is left, as things go, that a sample would not pay.
    Small,
    /// The heuristic's parameters are in force.
    Sampling(Sampling),
    /// Parameters were estimated.
    Tuning,
}

/// Whether estimates after the first one of a cluster, as it is listed, change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retuning {
    /// Where enough of them agree [HARP §3.2].
    Online,
    /// Never.
    Never,
}

impl Harp {
    /// HARP with online tuning [HARP §3.2].
    pub fn new(setup: &Setup<'_>) -> Self {
        Self {
            retuning: Retuning::Online,
            known: Known::of(setup.history.iter().filter(|past| is_usable(past)).cloned().collect()),
            rtt: setup.rtt,
            first: BEGINNING.over(setup.rtt.unwrap_or_default()),
            path: None,
            fastest: 0.0,
            stage: Stage::Beginning,
            monitor: Monitor::default(),
            clusters: BTreeMap::new(),
        }
    }

    /// HARP as it was first: parameters that were estimated stay, unless many more files are listed.
    pub fn once(setup: &Setup<'_>) -> Self {
        Self { retuning: Retuning::Never, ..Self::new(setup) }
    }

    /// What is known of the path after an observation.
    fn path(&mut self, observation: &Observation) -> Path {
        let rtt = self.rtt.into_iter().chain(observation.rtt).min();
        let known = self.path.filter(|_| rtt == self.rtt);
        let mut path = known.unwrap_or_else(|| Path::known(self.known.pasts(), rtt.unwrap_or_default().as_secs_f64()));
        self.fastest = self.fastest.max(utility::arrived(observation));
        path.carries(self.fastest);
        (self.rtt, self.path) = (rtt, Some(path));
        path
    }

    /// Follows the listing: clusters that are new begin with the heuristic's parameters. True if there are any, or fewer than before, or
    /// if one has become much larger.
    fn follow(&mut self, observation: &Observation, path: &Path) -> bool {
        let mut known = std::mem::take(&mut self.clusters);
        let units: f64 = known.values().map(|tuned| tuned.demand().unit_throughput).sum();
        let unit = if known.is_empty() { 1.0 } else { units / known.len() as f64 };
        let mut changed = false;
        for cluster in partition(&observation.listed, path.bdp()) {
            let kept = known.remove(&cluster.class);
            let is_kept = kept.is_some();
            let mut tuned = kept.unwrap_or_else(|| Tuned::begun(cluster, path, &observation.policy, unit));
            changed |= tuned.follow(cluster, path, &observation.policy) || !is_kept;
            self.clusters.insert(cluster.class, tuned);
        }
        changed || !known.is_empty()
    }

    /// Distributes the channels anew. What is being measured began with others, and begins anew too.
    fn redistribute(&mut self) {
        self.distribute();
        self.monitor = Monitor::default();
        if let Stage::Sampling(sampling) = &mut self.stage {
            *sampling = Sampling::default();
        }
    }

    fn distribute(&mut self) {
        let demands: Vec<Demand> = self.clusters.values().map(Tuned::demand).collect();
        for (tuned, channels) in self.clusters.values_mut().zip(distribute(&demands)) {
            tuned.channels = channels;
        }
    }

    /// What a monitor interval leads to, in words.
    fn measured(&mut self, mut interval: Interval, path: &Path, observation: &Observation) -> String {
        if self.stage == Stage::Small {
            if is_small(observation, interval.throughput) {
                return "too little is left to sample".to_owned();
            }
            self.stage = Stage::Sampling(Sampling::default());
        }
        if let Stage::Sampling(sampling) = &mut self.stage {
            let Some(sampled) = sampling.add(interval.throughput) else {
                return "sampling until the throughput has settled".to_owned();
            };
            interval.throughput = sampled;
        }
        self.stage = Stage::Tuning;
        if self.retuning == Retuning::Never && !self.clusters.values().any(Tuned::is_due) {
            return "tuned once".to_owned();
        }
        let changed = self.judge(interval, path, &observation.policy);
        let models: usize = self.clusters.values().map(Tuned::models).sum();
        let source =
            if models == 0 { "the heuristic, for want of similar transfers,".to_owned() } else { format!("{models} models") };
        let what = if changed { "changed parameters" } else { "kept parameters" };
        format!("{source} {what} after {:.1} MB/s", interval.throughput / 1e6)
    }

    /// Asks the models of each cluster that may change what they make of an interval; true if any parameter changes.
    fn judge(&mut self, interval: Interval, path: &Path, policy: &Policy) -> bool {
        let asked: u32 = self.clusters.values().map(|tuned| tuned.streams(policy)).sum();
        let (mut changed, retuning) = (false, self.retuning);
        for tuned in self.clusters.values_mut().filter(|tuned| retuning == Retuning::Online || tuned.is_due()) {
            let sample = tuned.sample(&interval, asked, policy);
            changed |= tuned.judge(&self.known, path, sample, policy);
        }
        if changed {
            self.distribute();
        }
        changed
    }

    fn decision(&self, policy: &Policy, reason: &str) -> Decision {
        if self.clusters.is_empty() {
            return with_streams(self.first, policy, reason);
        }
        let streams: u32 = self.clusters.values().map(|tuned| tuned.streams(policy)).sum();
        let streams = u16::try_from(streams).unwrap_or(u16::MAX);
        let parallelism = self.clusters.values().map(|tuned| tuned.chosen.limits.0).max().unwrap_or(1);
        let pipelining = self.clusters.values().map(|tuned| tuned.chosen.limits.1).max().unwrap_or(1);
        let words = self.clusters.values().map(|tuned| {
            let (name, channels, setting) = (tuned.cluster.class.name(), tuned.channels, tuned.chosen.setting);
            format!("{name} {channels} x {} pipelining {}", setting.parallelism, setting.pipelining)
        });
        let reason = format!("{reason}: {}", words.collect::<Vec<_>>().join(", "));
        let shares = self.clusters.values().map(|tuned| tuned.share(policy));
        Decision {
            parallelism: parallelism.min(policy.parallelism).max(1),
            pipelining: pipelining.min(policy.pipelining).max(1),
            // Alone there is nothing to be shared.
            shares: if self.clusters.len() > 1 { shares.collect() } else { Vec::new() },
            ..with_streams(streams, policy, reason)
        }
    }
}

/// Whether a past transfer tells anything.
fn is_usable(past: &Past) -> bool {
    past.goodput.is_finite() && past.goodput > 0.0 && past.bytes > 0 && past.concurrency > 0 && past.parallelism > 0
}

/// Whether so little is left that at a throughput, in bytes per second, it ends before a sample would, so that estimating anything cannot
/// pay [HARP table 4].
fn is_small(observation: &Observation, throughput: f64) -> bool {
    let costs = Costs { sampling_s: MOST_S, estimating_s: 0.0, gain: GAIN, slowdown: 0.0 };
    let least = costs.least_size_s() * throughput;
    observation.listed.complete && observation.bytes_left.is_some_and(|bytes| (bytes as f64) < least)
}

impl Optimizer for Harp {
    fn name(&self) -> &'static str {
        match self.retuning {
            Retuning::Online => "harp",
            Retuning::Never => "harp-once",
        }
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.decision(policy, "start, until files are listed")
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let policy = &observation.policy;
        if !utility::arrived(observation).is_finite() {
            return Ok(self.decision(policy, "nothing usable was measured, staying"));
        }
        let path = self.path(observation);
        let is_another = self.follow(observation, &path);
        if is_another {
            self.redistribute();
        }
        if self.clusters.is_empty() {
            return Ok(self.decision(policy, "no file is listed yet"));
        }
        if self.stage == Stage::Beginning {
            let (stage, reason) = if is_small(observation, utility::arrived(observation)) {
                (Stage::Small, "too little is left to sample, the heuristic's parameters")
            } else {
                (Stage::Sampling(Sampling::default()), "a sample with the heuristic's parameters")
            };
            self.stage = stage;
            return Ok(self.decision(policy, reason));
        }
        if is_another {
            return Ok(self.decision(policy, "more is known of the files"));
        }
        let reason = match self.monitor.add(observation) {
            Some(interval) => self.measured(interval, &path, observation),
            None => "measuring".to_owned(),
        };
        Ok(self.decision(policy, &reason))
    }
}
