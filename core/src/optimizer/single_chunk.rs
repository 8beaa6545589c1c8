//! Single Chunk: the three parameters by formula, for one cluster of files after the other [HARP §3, reference 20] [ASM §5].
//!
//! pp = BDP / mean size, p = min(BDP / buffer, mean size / buffer), cc = BDP / mean size within 2, the number of files and what the
//! user allows (`--max-streams`). Nothing is measured but the path's bandwidth and delay, so that neither storage nor
//! the traffic of others has a say, and large files get two streams wherever one buffer holds the product of bandwidth and delay.
//!
//! The engine decides which files go first, and every stream takes whatever is next. So "one cluster after the other" is here: the
//! parameters are those of the cluster that is being sent, by what was sent in the last intervals. The bandwidth is the highest throughput seen,
//! and 1 Gbit/s until more was; the papers have the user name it.

use super::heuristic::{AtWork, PathFacts, clusters, most, nearest};
use super::setting::Setting;
use super::{Decision, Observation, Optimizer, Policy, Setup};
use crate::error::Result;
use crate::report::{human_bytes, human_count};

/// The heuristic, for the files at work.
#[derive(Debug, Clone)]
pub struct SingleChunk {
    path: PathFacts,
    work: AtWork,
}

impl SingleChunk {
    /// Takes the round trip time of the path from the setup.
    pub fn new(setup: &Setup<'_>) -> Self {
        Self { path: PathFacts::new(setup.rtt), work: AtWork::default() }
    }
}

impl Optimizer for SingleChunk {
    fn name(&self) -> &'static str {
        "single-chunk"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        Setting::new(2, 1, 1).decision(policy, "no file is listed yet: two at once")
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        self.path.learn(observation);
        let policy = &observation.policy;
        let size = self.work.mean_size(observation);
        let Some(cluster) = nearest(&clusters(&observation.listed, self.path.bandwidth), size) else {
            return Ok(self.start(policy));
        };
        let setting = cluster.parameters(&self.path, most(policy)).within(policy);
        let reason = format!(
            "{} at work, of {} on average, against {} in flight on a full path: {setting}",
            human_count(cluster.files, &format!("{} file", cluster.density.name())),
            human_bytes(whole_bytes(cluster.mean_size())),
            human_bytes(whole_bytes(self.path.product())),
        );
        Ok(setting.decision(policy, reason))
    }
}

fn whole_bytes(bytes: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = bytes.max(0.0).round() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::optimizer::Listed;
    use crate::optimizer::testing::{TestPath, Trial};

    fn setup() -> Setup<'static> {
        Setup { rtt: Some(Duration::from_millis(80)), ..Setup::of_a_test() }
    }

    #[test]
    fn one_setting_by_formula_from_the_first_observation_on() {
        // 1 MiB files over 80 ms: 1.25e8 B/s * 0.08 s / 2^20 B = 9.5.
        let path = TestPath { file_size: 1 << 20, rtt: Duration::from_millis(80), ..TestPath::of_streams(20) };
        let mut optimizer = SingleChunk::new(&setup());
        let mut trial = Trial::new(&mut optimizer, path, 64);
        assert_eq!(trial.settings(5), [(2, 1, 1), (10, 1, 10), (10, 1, 10), (10, 1, 10), (10, 1, 10)]);
        // A path that turns out to be wider has a larger product.
        trial.path.stream = 50e6;
        trial.path.capacity = 250e6;
        assert_eq!(trial.settings(3), [(10, 1, 10), (19, 1, 19), (19, 1, 19)]);
    }

    #[test]
    fn the_parameters_follow_the_files_that_are_sent() {
        let mut optimizer = SingleChunk::new(&setup());
        let mut observation = Observation::of_a_test(Decision::uniform(2, ""), 100e6, 64);
        let mut listed = Listed { complete: true, ..Listed::default() };
        (0..4).for_each(|_| listed.add(1 << 30));
        (0..1000).for_each(|_| listed.add(1 << 20));
        observation.listed = listed;
        let mut streams = |bytes_left: u64, files_left| {
            (observation.bytes_left, observation.files_left) = (Some(bytes_left), Some(files_left));
            let decision = optimizer.decide(&observation).unwrap();
            (decision.concurrency.network, decision.parallelism, decision.pipelining, decision.reason)
        };
        let total = (4 << 30) + (1000 << 20);
        streams(total, 1004);
        let large = streams(1100 << 20, 1000);
        assert_eq!((large.0, large.1, large.2), (6, 3, 1));
        assert!(large.3.starts_with("4 huge files at work, of 1.1 GB on average"), "{}", large.3);
        (1..6).for_each(|step| _ = streams((1000 - 100 * step) << 20, 1000 - 100 * step));
        let small = streams(400 << 20, 400);
        assert_eq!((small.0, small.1, small.2), (10, 1, 10));
    }

    #[test]
    fn no_more_streams_than_allowed() {
        let path = TestPath { file_size: 1 << 14, rtt: Duration::from_millis(80), ..TestPath::of_streams(20) };
        let mut optimizer = SingleChunk::new(&setup());
        assert_eq!(Trial::new(&mut optimizer, path, 8).settings(3), [(2, 1, 1), (8, 1, 100), (8, 1, 100)]);
    }
}
