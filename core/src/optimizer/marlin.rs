//! Marlin: three independent gradient descents, one a stage, the baseline of [AutoMDT §V].
//!
//! The papers describe it in words only. This follows the form that Marlin, AutoMDT and EDT share in their authors' programs: the step is
//! the number of workers times the relative change of utility by worker, at least 1 and at most 5 either way, so that it never rests; every
//! tenth probe goes no higher than the best setting that is remembered. Of reading and writing the utility is `t / K^n`, of the network
//! Falcon's, with the price of loss. K is the policy's for all three, where the program has 1.05 at the sender.
//!
//! Where the program is wrong, this is not: the best is by utility, not by its absolute value, the oldest probe is forgotten first and not
//! the newest, and the slope keeps its sign where the utility is negative.

use std::collections::VecDeque;

use super::{Decision, Observation, Optimizer, PerStage, Policy, utility};
use crate::error::Result;

/// Most that a concurrency changes by in one step.
const LONGEST_STEP: f64 = 5.0;

/// Each time so many probes were made, the best of them limits the next.
const RECALL: u32 = 10;

/// Probes that are remembered.
const MEMORY: usize = 20;

/// Three descents that do not know of each other.
#[derive(Debug, Clone, Default)]
pub struct Marlin {
    read: Descent,
    network: Descent,
    write: Descent,
    probes: u32,
}

/// The descent of one stage.
#[derive(Debug, Clone)]
struct Descent {
    asked: u16,
    previous: Option<Probe>,
    memory: VecDeque<Probe>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Probe {
    workers: u16,
    utility: f64,
}

impl Marlin {
    /// Begins with one worker in each stage.
    pub fn new() -> Self {
        Self::default()
    }

    fn decision(&self, policy: &Policy, reason: String) -> Decision {
        let asked = PerStage { read: self.read.asked, network: self.network.asked, write: self.write.asked };
        let limit = policy.limit;
        let concurrency = PerStage {
            read: asked.read.min(limit.read).max(1),
            network: asked.network.min(limit.network).max(1),
            write: asked.write.min(limit.write).max(1),
        };
        Decision { concurrency, ..Decision::uniform(1, reason) }
    }
}

impl Default for Descent {
    fn default() -> Self {
        Self { asked: 1, previous: None, memory: VecDeque::new() }
    }
}

impl Descent {
    /// Goes along the slope between the last two probes, to at most `limit` workers; answers the change of utility in per cent.
    fn descend(&mut self, probe: Probe, limit: u16, recalls: bool) -> f64 {
        self.memory.push_back(probe);
        if self.memory.len() > MEMORY {
            self.memory.pop_front();
        }
        let step = self.previous.map_or(1.0, |previous| step(previous, probe));
        let change = self.previous.map_or(0.0, |previous| relative(previous, probe));
        self.previous = Some(probe);
        let best = self.memory.iter().max_by(|a, b| a.utility.total_cmp(&b.utility)).map_or(limit, |best| best.workers);
        let highest = if recalls { limit.min(best) } else { limit };
        let target = (f64::from(probe.workers) + step).clamp(1.0, f64::from(highest.max(1)));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let target = target as u16;
        self.asked = target;
        100.0 * change
    }
}

// gradient = (u_k - u_(k-1)) / ((n_k - n_(k-1)) u_(k-1)), step = n_k gradient. Where the number of workers was the same, the change of
// utility stands for the gradient, as in the program.
fn step(previous: Probe, probe: Probe) -> f64 {
    let difference = f64::from(probe.workers) - f64::from(previous.workers);
    let gradient = relative(previous, probe) / if difference == 0.0 { 1.0 } else { difference };
    let step = f64::from(probe.workers) * gradient;
    if gradient == 0.0 && probe.utility == 0.0 {
        // A stage that moves nothing says nothing about its workers.
        return 0.0;
    }
    if step > 0.0 { step.round().clamp(1.0, LONGEST_STEP) } else { step.round().clamp(-LONGEST_STEP, -1.0) }
}

/// The change of utility, as a share of what it was; 1 where there was none before, as in the program, and 0 where there is none still.
fn relative(previous: Probe, probe: Probe) -> f64 {
    match (previous.utility == 0.0, probe.utility == 0.0) {
        (true, true) => 0.0,
        (true, false) => 1.0,
        _ => (probe.utility - previous.utility) / previous.utility.abs(),
    }
}

impl Optimizer for Marlin {
    fn name(&self) -> &'static str {
        "marlin"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.decision(policy, "start".to_owned())
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let (policy, ran, throughput) = (&observation.policy, observation.applied.concurrency, observation.throughput);
        let lossless = |throughput: f64, workers: u16| utility::utility(throughput, f64::from(workers), None, policy);
        let read = Probe { workers: ran.read, utility: lossless(throughput.read, ran.read) };
        let network = Probe { workers: ran.network, utility: utility::of(observation) };
        let write = Probe { workers: ran.write, utility: lossless(throughput.write, ran.write) };
        if [read, network, write].iter().any(|probe| !probe.utility.is_finite()) {
            return Ok(self.decision(policy, "nothing usable was measured: staying".to_owned()));
        }
        self.probes = self.probes.wrapping_add(1);
        let recalls = self.probes.is_multiple_of(RECALL);
        let changes = [
            self.read.descend(read, policy.limit.read, recalls),
            self.network.descend(network, policy.limit.network, recalls),
            self.write.descend(write, policy.limit.write, recalls),
        ];
        let best = if recalls { ", no higher than the best so far" } else { "" };
        let [r, n, w] = changes;
        let reason = format!("utility {r:+.1}, {n:+.1}, {w:+.1} % in reading, network and writing: each along its slope{best}");
        Ok(self.decision(policy, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::agent::testing::observed;
    use crate::optimizer::testing::{TestPath, Trial};

    fn probe(workers: u16, utility: f64) -> Probe {
        Probe { workers, utility }
    }

    #[test]
    fn a_step_is_the_relative_slope_times_the_workers_from_one_to_five() {
        for (previous, now, expected) in [
            (probe(10, 100.0), probe(11, 102.0), 1.0),  // 11 * 0.02, at least 1
            (probe(10, 100.0), probe(12, 150.0), 3.0),  // 12 * 0.25
            (probe(10, 100.0), probe(11, 190.0), 5.0),  // at most 5
            (probe(11, 102.0), probe(10, 100.0), 1.0),  // downwards it got worse
            (probe(10, 100.0), probe(11, 100.0), -1.0), // it never rests
            (probe(10, 100.0), probe(10, 80.0), -2.0),  // 10 * -0.2 without a slope
            (probe(10, -100.0), probe(11, -80.0), 2.0), // better is better below zero too
            (probe(1, 0.0), probe(2, 5.0), 2.0),
        ] {
            let found = step(previous, now);
            assert!((found - expected).abs() < 1e-9, "{previous:?} {now:?}: {found} instead of {expected}");
        }
    }

    #[test]
    fn it_begins_with_one_worker_and_then_two() {
        let mut marlin = Marlin::new();
        let mut observation = observed(1, 10.0);
        assert_eq!(marlin.start(&observation.policy).concurrency, PerStage::all(1));
        observation.applied = marlin.decide(&observation).unwrap();
        assert_eq!(observation.applied.concurrency, PerStage::all(2));
    }

    #[test]
    fn a_recorded_trace_climbs_and_goes_to_and_fro_around_the_best() {
        let mut marlin = Marlin::new();
        let found = Trial::new(&mut marlin, TestPath::of_streams(8), 64).streams(20);
        assert_eq!(found, [1, 2, 4, 6, 7, 8, 9, 8, 7, 8, 8, 7, 8, 9, 8, 7, 8, 9, 8, 7]);
    }

    #[test]
    fn each_stage_follows_its_own_slope() {
        let mut marlin = Marlin::new();
        let mut observation = observed(4, 100.0);
        marlin.decide(&observation).unwrap();
        observation.applied.concurrency = PerStage::all(5);
        observation.throughput = PerStage { read: 150.0, network: 80.0, write: 125.0 };
        let decision = marlin.decide(&observation).unwrap();
        let PerStage { read, network, write } = decision.concurrency;
        assert!(read == 7 && network == 4 && write == 6, "{decision:?}");
        assert!(decision.reason.contains('%'), "{}", decision.reason);
    }

    #[test]
    fn only_the_network_pays_for_loss() {
        let mut marlin = Marlin::new();
        let mut observation = observed(4, 100.0);
        marlin.decide(&observation).unwrap();
        observation.applied.concurrency = PerStage::all(5);
        (observation.throughput, observation.loss) = (PerStage::all(120.0), Some(0.05));
        let PerStage { read, network, write } = marlin.decide(&observation).unwrap().concurrency;
        assert!(read == 6 && write == 6 && network < 5, "{read} {network} {write}");
    }

    #[test]
    fn every_tenth_probe_goes_no_higher_than_the_best() {
        let mut descent = Descent::default();
        for (workers, utility) in [(4, 90.0), (6, 100.0), (20, 10.0), (21, 12.0)] {
            descent.descend(probe(workers, utility), 64, false);
        }
        assert_eq!(descent.asked, 25, "21 + 21 * 0.2");
        descent.descend(probe(25, 20.0), 64, true);
        assert_eq!(descent.asked, 6);
    }

    #[test]
    fn it_forgets_the_oldest_probe_first() {
        let mut descent = Descent::default();
        descent.descend(probe(3, 1000.0), 64, false);
        (0..20).for_each(|_| _ = descent.descend(probe(8, 10.0), 64, false));
        descent.descend(probe(9, 9.0), 64, true);
        assert_eq!(descent.asked, 8);
    }

    #[test]
    fn silence_keeps_it_where_it_is() {
        let mut marlin = Marlin::new();
        let first = marlin.decide(&observed(1, 10.0)).unwrap().concurrency;
        let kept = marlin.decide(&observed(2, f64::NAN)).unwrap();
        assert_eq!(kept.concurrency, first);
    }
}
