//! Bayesian optimisation of the number of streams, one of Falcon's alternatives [Falcon §4.2].
//!
//! A Gaussian process takes the utilities of the last intervals for a smooth curve with noise, and says of each number of streams what it
//! would bring and how sure that is; the next one to measure is that of which the greatest improvement over the best is to be
//! expected. It finds the best within few intervals, and leaps from few streams to many to do so, which strains the path and
//! whoever shares it: the paper prefers gradient descent for that.
//!
//! The papers leave the details open. As the authors' program this has a Matérn 5/2 kernel, three first
//! measurements, and forgets all but the last 25. Unlike it, it is not random: the first measurements are spread evenly over the
//! logarithm of the range instead of drawn, and the expected improvement alone chooses, where the program draws among three rules. And it
//! stays at the best where no improvement of 1 % is to be expected, where the program goes on to measure what it knows least.

use std::collections::VecDeque;

use super::falcon::is_far;
use super::setting::{whole, with_streams};
use super::{Decision, Observation, Optimizer, Policy, utility};
use crate::error::Result;

mod process;

use process::{Process, Sight};

/// Measurements that it knows at once, as in the authors' program.
const WINDOW: usize = 25;

/// Measurements before the first that the process chooses, as in the authors' program.
const FIRST: usize = 3;

/// The improvement that has to be expected for a measurement elsewhere, as a share of the best utility.
const LEAST_IMPROVEMENT: f64 = 0.01;

/// Measures where the greatest improvement is to be expected.
#[derive(Debug, Clone, Default)]
pub struct Bayes {
    asked: u16,
    known: VecDeque<(u16, f64)>,
}

impl Bayes {
    /// Begins with the fourth root of the limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// The streams of the first measurements: the quarters of the range on a logarithmic scale.
    fn first(&self, policy: &Policy) -> u16 {
        let share = (self.known.len() + 1) as f64 / (FIRST + 1) as f64;
        whole(f64::from(most(policy)).powf(share))
    }

    fn ask(&mut self, streams: u16, policy: &Policy, reason: String) -> Decision {
        self.asked = streams.clamp(1, policy.limit.network.max(1));
        with_streams(self.asked, policy, reason)
    }

    fn learn(&mut self, streams: u16, utility: f64) {
        if self.known.len() == WINDOW {
            self.known.pop_front();
        }
        self.known.push_back((streams.max(1), utility));
    }

    /// The next number of streams by what is known.
    fn next(&mut self, policy: &Policy) -> Decision {
        if self.known.len() < FIRST {
            let streams = self.first(policy);
            let ordinal = self.known.len() + 1;
            return self.ask(streams, policy, format!("measurement {ordinal} of {FIRST} before the first guess"));
        }
        let points: Vec<_> = self.known.iter().map(|(streams, utility)| (place(*streams), *utility)).collect();
        let Some(process) = Process::fit(&points) else {
            let asked = self.asked;
            return self.ask(asked, policy, "what was measured fits no curve: staying".to_owned());
        };
        let mean = |streams: u16| process.sight(place(streams)).mean;
        let (known, best) = greatest(self.known.iter().map(|(streams, _)| (*streams, mean(*streams))));
        let gain = |streams: u16| process.share(improvement(process.sight(place(streams)), best), best);
        let (streams, promised) = greatest((1..=most(policy)).map(|streams| (streams, gain(streams))));
        let percent = 100.0 * promised;
        if promised < LEAST_IMPROVEMENT {
            return self.ask(known, policy, format!("nothing promises more than {percent:.1} % on {known} streams"));
        }
        let reason = format!("{streams} streams promise {percent:.1} % on the best of {} measurements", points.len());
        self.ask(streams, policy, reason)
    }
}

/// The first of the streams with the greatest value.
fn greatest(values: impl Iterator<Item = (u16, f64)>) -> (u16, f64) {
    values.fold((1, f64::NEG_INFINITY), |best, one| if one.1 > best.1 { one } else { best })
}

/// Streams are compared by their ratios: where the utility bends, it bends by them.
fn place(streams: u16) -> f64 {
    f64::from(streams).ln()
}

/// The most streams of the search: beyond those to which the utility is concave none can pay [Falcon eq. 5].
fn most(policy: &Policy) -> u16 {
    let concave = whole(utility::concave_below(policy.k));
    policy.limit.network.clamp(1, concave)
}

/// The expected improvement over the best mean, in standard deviations of what was measured (Jones et al., Journal of Global Optimization
/// 13, 1998, eq. 15) [Falcon, reference 26].
fn improvement(sight: Sight, best: f64) -> f64 {
    let gain = sight.mean - best;
    if sight.deviation <= 0.0 {
        return gain.max(0.0);
    }
    let z = gain / sight.deviation;
    let below = 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    gain * below + sight.deviation * density
}

impl Optimizer for Bayes {
    fn name(&self) -> &'static str {
        "bayes"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.next(policy)
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let policy = &observation.policy;
        let utility = utility::of(observation);
        if utility.is_finite() {
            let ran = observation.applied.concurrency.network;
            self.learn(if is_far(ran, self.asked) { ran } else { self.asked }, utility);
        }
        Ok(self.next(policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::testing::{TestPath, Trial};

    #[test]
    fn the_first_measurements_divide_the_range_and_then_the_process_leads_to_the_best() {
        let mut optimizer = Bayes::new();
        let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(15), 64);
        assert_eq!(trial.streams(12), [3, 8, 23, 47, 20, 17, 17, 15, 1, 15, 15, 15]);
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten_and_a_changed_path_found_again() {
        let mut optimizer = Bayes::new();
        let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(10), 64);
        trial.streams(30);
        trial.path.capacity = 300e6;
        let streams = trial.streams(WINDOW + 20);
        let late = &streams[WINDOW..];
        assert!(late.iter().filter(|n| (26..=36).contains(*n)).count() >= 15, "{streams:?}");
    }

    #[test]
    fn no_more_streams_are_tried_than_can_pay() {
        assert_eq!(most(&Policy::new(crate::optimizer::PolicyName::Fair, 1000)), 101);
        assert_eq!(most(&Policy::new(crate::optimizer::PolicyName::Fair, 64)), 64);
        let mut optimizer = Bayes::new();
        assert_eq!(Trial::new(&mut optimizer, TestPath::of_streams(9), 1).streams(6), [1; 6]);
    }

    #[test]
    fn the_expected_improvement_is_that_of_the_normal_distribution() {
        let expected = |mean, deviation| improvement(Sight { mean, deviation }, 0.0);
        assert!((expected(0.0, 1.0) - 0.398_942_28).abs() < 1e-7);
        assert!((expected(1.0, 0.5) - 1.004_245_5).abs() < 1e-6);
        assert!((expected(-1.0, 0.5) - 0.004_245_5).abs() < 1e-6);
        assert!((expected(0.3, 0.0) - 0.3).abs() < 1e-12 && expected(-0.3, 0.0) == 0.0);
    }

    #[test]
    fn nonsense_is_not_learnt() {
        let mut bayes = Bayes::new();
        let blind = Observation::of_a_test(Decision::uniform(3, ""), f64::NAN, 64);
        assert_eq!(bayes.decide(&blind).unwrap().concurrency.network, 3);
        assert!(bayes.known.is_empty());
    }
}
