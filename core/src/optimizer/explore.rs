//! Exploration: random concurrencies, to learn what a path gives at each [EDT §IV-E1, AutoMDT §IV-A]. It tunes nothing, so it is no
//! optimizer to choose for a transfer.
//!
//! The papers draw every setting independently. Here each eight draws of one stage, from the first on, cover the eight parts of its range in random
//! order (Latin hypercube sampling, Technometrics 21, 1979): each draw by itself is as uniform, and an exploration of seconds
//! sees few and many streams as one of minutes does.

use std::sync::Arc;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

use super::{Decision, Observation, Optimizer, PerStage, Policy};
use crate::error::Result;
use crate::sync::Mutex;

/// Parts of the range that as many draws in a row cover.
const PARTS: u8 = 8;

/// How many stages have a concurrency of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stages {
    /// One number for all three: reading and writing are fused with the streams [EDT §IV-D].
    One,
    /// Three numbers: read, network, write [AutoMDT §IV-D].
    Three,
}

impl Stages {
    /// As a number, as files say it.
    pub fn count(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Three => 3,
        }
    }
}

/// Asks for random concurrencies, uniform from 1 to the limit of each stage, and records what came of them.
pub struct Explore {
    stages: Stages,
    draws: PerStage<Draws>,
    recording: Recording,
}

/// What an [`Explore`] observed so far; shared with it.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    observations: Arc<Mutex<Vec<Observation>>>,
}

impl Recording {
    /// Hands out what was recorded since the last call.
    pub fn take(&self) -> Vec<Observation> {
        std::mem::take(&mut self.observations.lock())
    }
}

impl Explore {
    /// Explores one stage or three; the same seed asks for the same numbers.
    pub fn new(stages: Stages, seed: u64) -> Self {
        // No two stages of two seeds share a sequence.
        let draws = |stage: u64| {
            let random = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(3).wrapping_add(stage));
            Draws { random, parts: Vec::new() }
        };
        Self { stages, draws: PerStage { read: draws(0), network: draws(1), write: draws(2) }, recording: Recording::default() }
    }

    /// Where the observations go.
    pub fn recording(&self) -> Recording {
        self.recording.clone()
    }

    fn draw(&mut self, policy: &Policy) -> Decision {
        let limit = policy.limit;
        let network = self.draws.network.below(limit.network);
        let (concurrency, reason) = match self.stages {
            Stages::One => (PerStage::all(network), format!("exploring: {network} of 1 to {}", limit.network)),
            Stages::Three => {
                let (read, write) = (self.draws.read.below(limit.read), self.draws.write.below(limit.write));
                let reason = format!("exploring: {read}, {network}, {write} of 1 to {}", limit.network);
                (PerStage { read, network, write }, reason)
            }
        };
        Decision { concurrency, ..Decision::uniform(1, reason) }
    }
}

impl Optimizer for Explore {
    fn name(&self) -> &'static str {
        "explore"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.draw(policy)
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        self.recording.observations.lock().push(observation.clone());
        Ok(self.draw(&observation.policy))
    }
}

/// A sequence of random numbers of one stage.
struct Draws {
    random: ChaCha8Rng,
    /// The parts of the range that are still to come.
    parts: Vec<u8>,
}

impl Draws {
    /// A number from 1 to `limit`, at least 1.
    fn below(&mut self, limit: u16) -> u16 {
        if self.parts.is_empty() {
            self.parts = (0..PARTS).collect();
        }
        let part = self.parts.swap_remove(self.random.random_range(0..self.parts.len()));
        let share = (f64::from(part) + self.random.random::<f64>()) / f64::from(PARTS);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to less than the limit")]
        let below = (share * f64::from(limit)) as u16;
        below.min(limit.saturating_sub(1)) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::PolicyName;

    fn numbers(stages: Stages, seed: u64, limit: u16, count: usize) -> Vec<PerStage<u16>> {
        let policy = Policy::new(PolicyName::Fair, limit);
        let mut explore = Explore::new(stages, seed);
        (0..count).map(|_| explore.start(&policy).concurrency).collect()
    }

    fn observation(limit: u16) -> Observation {
        Observation::of_a_test(Decision::uniform(3, "applied"), 1e6, limit)
    }

    #[test]
    fn the_same_seed_draws_the_same_numbers_and_another_one_others() {
        assert_eq!(numbers(Stages::Three, 7, 64, 50), numbers(Stages::Three, 7, 64, 50));
        assert_ne!(numbers(Stages::Three, 7, 64, 50), numbers(Stages::Three, 8, 64, 50));
    }

    #[test]
    fn one_stage_has_one_number_and_three_stages_have_numbers_of_their_own() {
        assert!(numbers(Stages::One, 1, 64, 50).iter().all(|n| *n == PerStage::all(n.network)));
        let three = numbers(Stages::Three, 1, 64, 200);
        let equal = three.iter().filter(|n| n.read == n.network || n.network == n.write).count();
        assert!(equal < 20, "{equal} of 200 pairs are equal");
    }

    #[test]
    fn every_number_up_to_the_limit_comes_as_often_as_any_other() {
        for limit in [1, 3, 8, 64] {
            let rounds = 400;
            let mut counts = vec![0; usize::from(limit) + 1];
            let all = numbers(Stages::One, 3, limit, rounds * usize::from(limit));
            for n in all {
                counts[usize::from(n.network)] += 1;
            }
            assert_eq!(counts[0], 0);
            // Five standard deviations of independent draws are 100.
            assert!(counts[1..].iter().all(|count| (300..=500).contains(count)), "{limit}: {counts:?}");
        }
    }

    #[test]
    fn any_round_of_draws_covers_the_range() {
        for seed in 0..100 {
            let mut eighths: Vec<u16> = numbers(Stages::One, seed, 64, 8).iter().map(|n| (n.network - 1) / 8).collect();
            eighths.sort_unstable();
            assert_eq!(eighths, [0, 1, 2, 3, 4, 5, 6, 7]);
        }
    }

    #[test]
    fn what_is_observed_is_recorded_and_the_limit_of_the_moment_holds() {
        let mut explore = Explore::new(Stages::One, 1);
        let recording = explore.recording();
        for _ in 0..20 {
            assert!(explore.decide(&observation(2)).unwrap().concurrency.network <= 2);
        }
        assert_eq!(recording.take(), vec![observation(2); 20]);
        assert!(recording.take().is_empty());
    }
}
