//! Randomness by a seed: the same observations give the same decisions.

use std::f64::consts::TAU;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

/// How an agent chooses from what its network gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// At random, as the papers do, by a seed [EDT §IV-E3] [AutoMDT §IV-F].
    Seeded(u64),
    /// The mean of a distribution, or the most likely move.
    MostLikely,
}

/// Draws from the distributions of an agent.
pub(super) struct Sampler {
    random: Option<ChaCha8Rng>,
}

impl Sampler {
    pub(super) fn new(sampling: Sampling) -> Self {
        Self {
            random: match sampling {
                Sampling::Seeded(seed) => Some(ChaCha8Rng::seed_from_u64(seed)),
                Sampling::MostLikely => None,
            },
        }
    }

    pub(super) fn is_random(&self) -> bool {
        self.random.is_some()
    }

    /// A number from the normal distribution of this mean, or the mean.
    pub(super) fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let Some(random) = &mut self.random else { return mean };
        // The method of Box and Muller; 1 - u is never 0.
        let (u, v): (f64, f64) = (random.random(), random.random());
        mean + deviation * (-2.0 * (1.0 - u).ln()).sqrt() * (TAU * v).cos()
    }

    /// An index by its probability, or the most probable one.
    pub(super) fn choice(&mut self, probabilities: &[f64]) -> usize {
        let Some(random) = &mut self.random else { return most(probabilities) };
        let mut left: f64 = random.random();
        for (index, probability) in probabilities.iter().enumerate() {
            left -= probability;
            if left < 0.0 {
                return index;
            }
        }
        most(probabilities)
    }
}

/// The first index of the greatest value.
fn most(values: &[f64]) -> usize {
    let better = |best: usize, index: usize| if values[index] > values[best] { index } else { best };
    (0..values.len()).reduce(better).unwrap_or(0)
}

/// Probabilities of logits.
pub(super) fn softmax(logits: &[f64]) -> Vec<f64> {
    let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logits.iter().map(|logit| (logit - greatest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_another_seed_others() {
        let draw = |seed| {
            let mut sampler = Sampler::new(Sampling::Seeded(seed));
            (0..20).map(|_| sampler.normal(1.0, 2.0).to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn normal_numbers_have_the_mean_and_the_deviation_asked_for() {
        let mut sampler = Sampler::new(Sampling::Seeded(1));
        let draws: Vec<f64> = (0..40_000).map(|_| sampler.normal(3.0, 0.5)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((mean - 3.0).abs() < 0.02 && (variance.sqrt() - 0.5).abs() < 0.01, "{mean} {variance}");
        let beyond = draws.iter().filter(|draw| (*draw - 3.0).abs() > 1.0).count() as f64 / draws.len() as f64;
        assert!((beyond - 0.0455).abs() < 0.006, "{beyond} beyond two deviations");
    }

    #[test]
    fn moves_come_as_often_as_their_probability_says() {
        let probabilities = softmax(&[0.0, 2f64.ln(), 1f64.ln()]);
        let mut sampler = Sampler::new(Sampling::Seeded(3));
        let mut counts = [0u32; 3];
        (0..20_000).for_each(|_| counts[sampler.choice(&probabilities)] += 1);
        for (count, probability) in counts.iter().zip([0.25, 0.5, 0.25]) {
            assert!((f64::from(*count) / 20_000.0 - probability).abs() < 0.02, "{counts:?}");
        }
    }

    #[test]
    fn without_randomness_the_mean_and_the_most_probable_are_taken() {
        let mut sampler = Sampler::new(Sampling::MostLikely);
        assert!((sampler.normal(3.0, 0.5) - 3.0).abs() < 1e-12);
        assert_eq!(sampler.choice(&[0.2, 0.4, 0.4]), 1);
    }

    #[test]
    fn huge_logits_have_probabilities() {
        let probabilities = softmax(&[1e30, -1e30, 0.0]);
        assert!((probabilities[0] - 1.0).abs() < 1e-12 && probabilities[1] < 1e-12);
    }
}
