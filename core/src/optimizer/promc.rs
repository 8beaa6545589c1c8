//! ProMC, pro-active multi-chunk: Single Chunk's parameters for all clusters of files at once [HARP §3, reference 20].
//!
//! All channels that the user allows (`--max-streams`; 10 in the paper) are shared out to the clusters by their bytes, with a weight that
//! favours small files, and each channel has the parallelism of its cluster. So small files do not pull down the rest, and the path is
//! filled with as many streams as are allowed, whether they help or not.
//!
//! How this maps onto the engine: there are as many streams as channels times parallelism over all clusters, each cluster has its share of
//! them and its parallelism, and a stream moves to another cluster whenever its own has nothing left, which ProMC does by comparing when
//! the clusters will end. One pipelining holds for all files, the largest that any cluster asks for, since it means little to large ones.

use super::guard::within;
use super::heuristic::{Cluster, Density, PathFacts, clusters, most};
use super::setting::Setting;
use super::{Decision, Observation, Optimizer, PerStage, Policy, Setup, SizeShare};
use crate::error::Result;

/// The heuristic, for all clusters at once.
#[derive(Debug, Clone)]
pub struct ProMc {
    path: PathFacts,
}

/// A cluster with what it gets.
#[derive(Debug, Clone, Copy)]
struct Share {
    cluster: Cluster,
    channels: u16,
    setting: Setting,
}

impl Share {
    fn streams(&self) -> u16 {
        self.channels.saturating_mul(self.setting.parallelism)
    }

    fn of_sizes(&self) -> SizeShare {
        SizeShare { exponent: self.cluster.exponent, streams: self.streams(), parallelism: self.setting.parallelism }
    }
}

impl ProMc {
    /// Takes the round trip time of the path from the setup.
    pub fn new(setup: &Setup<'_>) -> Self {
        Self { path: PathFacts::new(setup.rtt) }
    }

    fn shares(&self, clusters: &[Cluster], channels: u16) -> Vec<Share> {
        let parts = channels_of(clusters, channels);
        let share = |(cluster, channels): (&Cluster, u16)| {
            let setting = cluster.parameters(&self.path, channels);
            Share { cluster: *cluster, channels, setting }
        };
        clusters.iter().zip(parts).map(share).collect()
    }
}

/// How much a byte of a cluster counts where channels are shared out: as in the authors' program.
fn weight(cluster: &Cluster) -> f64 {
    let factor = match cluster.density {
        Density::Small => 3.0,
        Density::Medium => 2.0,
        Density::Large | Density::Huge => 1.0,
    };
    factor * cluster.bytes.max(1) as f64
}

/// The channels of each cluster by weight: rounded down, at least one as long as there are any, and what is left to the heaviest.
fn channels_of(clusters: &[Cluster], channels: u16) -> Vec<u16> {
    let total: f64 = clusters.iter().map(weight).sum();
    let mut left = channels;
    let mut parts: Vec<u16> = Vec::new();
    for cluster in clusters {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let part = (f64::from(channels) * weight(cluster) / total) as u16;
        let part = part.max(1).min(left);
        parts.push(part);
        left -= part;
    }
    let heaviest = (0..clusters.len()).max_by(|a, b| weight(&clusters[*a]).total_cmp(&weight(&clusters[*b])));
    if let Some(heaviest) = heaviest {
        parts[heaviest] += left;
    }
    parts
}

impl Optimizer for ProMc {
    fn name(&self) -> &'static str {
        "promc"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        let channels = most(policy);
        Setting::new(channels, 1, 1).decision(policy, format!("no file is listed yet: all {channels} channels"))
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        self.path.learn(observation);
        let policy = &observation.policy;
        let mut shares = self.shares(&clusters(&observation.listed, self.path.bandwidth), most(policy));
        for share in &mut shares {
            share.setting = share.setting.within(policy);
        }
        if shares.is_empty() {
            return Ok(self.start(policy));
        }
        let streams = shares.iter().map(Share::streams);
        let streams = streams.fold(0, u16::saturating_add).min(policy.limit.network.max(1));
        let parallelism = shares.iter().map(|share| share.setting.parallelism).max().unwrap_or(1);
        let pipelining = shares.iter().map(|share| share.setting.pipelining).max().unwrap_or(1);
        let told: Vec<_> =
            shares.iter().map(|share| format!("{} for {} files", share.channels, share.cluster.density.name())).collect();
        let reason = format!("channels: {}; parallelism {parallelism}, pipelining {pipelining}", told.join(", "));
        let concurrency = within(PerStage::all(streams), policy.limit);
        let of_sizes = if shares.len() > 1 { shares.iter().map(Share::of_sizes).collect() } else { Vec::new() };
        Ok(Decision { concurrency, parallelism, pipelining, shares: of_sizes, pacing: None, reason })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::optimizer::Listed;
    use crate::optimizer::testing::{TestPath, Trial};

    const GB: u64 = 1_000_000_000;

    fn setup() -> Setup<'static> {
        Setup { rtt: Some(Duration::from_millis(80)), ..Setup::of_a_test() }
    }

    fn cluster(density: Density, bytes: u64) -> Cluster {
        Cluster { density, exponent: 0, files: 10, bytes }
    }

    #[test]
    fn streams_are_counted_with_the_parallelism_that_the_policy_permits() {
        let mut observation = Observation::of_a_test(crate::optimizer::Decision::uniform(1, ""), 1e9, 64);
        observation.policy.parallelism = 1;
        observation.listed.add(100 * GB);
        let decision = ProMc::new(&setup()).decide(&observation).unwrap();
        assert_eq!((decision.concurrency.network, decision.parallelism), (most(&observation.policy), 1));
    }

    #[test]
    fn channels_go_by_bytes_and_small_files_count_three_times() {
        let of = |clusters: &[Cluster], channels| channels_of(clusters, channels);
        let equal = [cluster(Density::Small, GB), cluster(Density::Medium, GB), cluster(Density::Huge, GB)];
        assert_eq!(of(&equal, 12), [6, 4, 2]);
        assert_eq!(of(&equal, 10), [6, 3, 1], "5, 3, 1, and what is left to the heaviest");
        assert_eq!(of(&[cluster(Density::Small, 1), cluster(Density::Huge, 9 * GB)], 10), [1, 9]);
        assert_eq!(of(&equal, 2), [1, 1, 0]);
        assert_eq!(of(&[cluster(Density::Large, GB)], 10), [10]);
    }

    #[test]
    fn all_channels_run_from_the_start_and_keep_running() {
        let path = TestPath { file_size: 1 << 20, rtt: Duration::from_millis(80), ..TestPath::of_streams(4) };
        let mut optimizer = ProMc::new(&setup());
        assert_eq!(Trial::new(&mut optimizer, path, 10).settings(4), [(10, 1, 1), (10, 1, 10), (10, 1, 10), (10, 1, 10)]);
    }

    #[test]
    fn every_cluster_has_its_streams_and_parallelism_and_the_files_share_the_largest_pipelining() {
        let mut optimizer = ProMc::new(&setup());
        let mut observation = Observation::of_a_test(Decision::uniform(8, ""), 100e6, 64);
        let mut listed = Listed { complete: true, ..Listed::default() };
        (0..1000).for_each(|_| listed.add(1_000_000));
        (0..3).for_each(|_| listed.add(GB));
        observation.listed = listed;
        observation.policy.limit.network = 16;
        let decision = optimizer.decide(&observation).unwrap();
        // Equal weights: 8 channels each, of 1 and of 3 streams, within the 16 that are allowed.
        assert_eq!((decision.concurrency.network, decision.parallelism, decision.pipelining), (16, 3, 10));
        assert_eq!(decision.reason, "channels: 8 for small files, 8 for huge files; parallelism 3, pipelining 10");
        let share = |exponent, streams, parallelism| SizeShare { exponent, streams, parallelism };
        assert_eq!(decision.shares, [share(19, 8, 1), share(29, 24, 3)], "from 2^19 bytes on, and from 2^29");
        observation.policy.limit.network = 64;
        assert_eq!(optimizer.decide(&observation).unwrap().concurrency.network, 64);
    }
}
