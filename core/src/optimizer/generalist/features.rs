//! What the policy sees of observations: ratios, so that the scale of a path does not matter.
//!
//! `python/edt/training/generalist/features.py` computes the same in the same order, for training.

use crate::optimizer::{Policy, PolicyName};

/// Numbers that the policy takes.
pub(super) const INPUTS: usize = 18;

/// Most streams that the policy was trained for.
pub(super) const MOST: f64 = 100.0;

/// What the logarithms of the highest values lose, and that of the lowest gains, in an interval: paths change.
const AGEING: f64 = 0.01;

/// What a moving average keeps of itself in an interval.
const SMOOTHING: f64 = 0.8;

/// Streams beyond so many times their moving average look upwards.
pub(super) const RISE: f64 = 1.1;

/// Inputs lie between its negative and itself.
const BOUND: f64 = 5.0;

/// The loss that none counts as, and the least that a byte may be worth after the price of streams and loss.
const LEAST_LOSS: f64 = 1e-5;
const LEAST_WORTH: f64 = 0.01;

/// An interval: bytes per second, streams at work on average, and the share that was lost, where the system tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) rate: f64,
    pub(super) streams: f64,
    pub(super) loss: Option<f64>,
}

/// What is remembered of the intervals so far; rates and streams as natural logarithms unless said otherwise.
#[derive(Debug, Clone)]
pub(super) struct Features {
    /// Observations so far.
    age: f64,
    /// Of the last interval.
    pub(super) rate: f64,
    streams: f64,
    /// The highest rate lately, and the highest of one stream.
    pub(super) most_rate: f64,
    most_share: f64,
    /// The highest utility lately, and the streams that had it.
    most_utility: f64,
    best_streams: f64,
    least_loss: f64,
    /// Moving average of the rate of a stream.
    pub(super) level: f64,
    /// Moving average of the streams, as a number.
    usual: f64,
    /// Intervals since the streams were far above it, as a number.
    pub(super) quiet: f64,
    vector: [f32; INPUTS],
}

impl Features {
    pub(super) fn new() -> Self {
        Self {
            age: 0.0,
            rate: 0.0,
            streams: 0.0,
            most_rate: f64::NEG_INFINITY,
            most_share: f64::NEG_INFINITY,
            most_utility: f64::NEG_INFINITY,
            best_streams: 0.0,
            least_loss: f64::INFINITY,
            level: 0.0,
            usual: 0.0,
            quiet: -1.0,
            vector: [0.0; INPUTS],
        }
    }

    /// Whether nothing was observed yet.
    pub(super) fn is_new(&self) -> bool {
        self.age == 0.0
    }

    /// The inputs for an interval whose rate and streams are positive; `target` is what the policy asked for last, as a logarithm.
    pub(super) fn vector(&mut self, seen: Seen, target: f64, policy: &Policy) -> &[f32; INPUTS] {
        let price = policy.k.ln();
        let loss = seen.loss.unwrap_or(0.0);
        let (rate, streams) = (seen.rate.ln(), seen.streams.ln());
        let share = rate - streams;
        let worth = (-price * seen.streams).exp() - policy.loss_weight * loss;
        let utility = rate + worth.max(LEAST_WORTH).ln();
        let logarithm = (loss + LEAST_LOSS).ln();
        if self.is_new() {
            (self.rate, self.streams, self.level, self.usual) = (rate, streams, share, seen.streams);
        }
        self.remember(rate, share, streams, utility);
        self.least_loss = logarithm.min(self.least_loss + AGEING);
        self.quiet = if seen.streams > RISE * self.usual { 0.0 } else { self.quiet + 1.0 };
        let inputs = [
            rate - self.most_rate,
            streams / MOST.ln(),
            rate - self.rate,
            streams - self.streams,
            share - self.most_share,
            price * seen.streams,
            (1000.0 * loss).ln_1p() / 3.0,
            if self.is_new() { 1.0 } else { 0.0 },
            utility - self.most_utility,
            streams - self.best_streams,
            self.most_rate - self.most_share - streams,
            (price / fair_price()).ln(),
            target - streams,
            (logarithm - self.least_loss) / 3.0,
            share - self.level,
            self.quiet.ln_1p() / 3.0,
            if seen.loss.is_some() { 1.0 } else { 0.0 },
            (-self.age / 4.0).exp(),
        ];
        self.level = SMOOTHING * self.level + (1.0 - SMOOTHING) * share;
        self.usual = SMOOTHING * self.usual + (1.0 - SMOOTHING) * seen.streams;
        (self.rate, self.streams) = (rate, streams);
        self.age += 1.0;
        self.vector = inputs.map(narrowed);
        &self.vector
    }

    /// The inputs of the last interval.
    #[cfg(test)]
    pub(super) fn last(&self) -> &[f32; INPUTS] {
        &self.vector
    }

    fn remember(&mut self, rate: f64, share: f64, streams: f64, utility: f64) {
        self.most_rate = rate.max(self.most_rate - AGEING);
        self.most_share = share.max(self.most_share - AGEING);
        self.most_utility -= AGEING;
        if utility >= self.most_utility {
            (self.most_utility, self.best_streams) = (utility, streams);
        }
    }
}

/// ln K of the policy `fair`.
fn fair_price() -> f64 {
    Policy::new(PolicyName::Fair, 1).k.ln()
}

fn narrowed(value: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation)]
    let narrow = value.clamp(-BOUND, BOUND) as f32;
    narrow
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rate: f64, streams: f64, loss: Option<f64>) -> Seen {
        Seen { rate, streams, loss }
    }

    fn assert_near(found: &[f32; INPUTS], expected: [f64; INPUTS]) {
        for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "input {index} is {found}, not {expected}");
        }
    }

    #[test]
    fn the_first_interval_is_compared_with_itself() {
        let policy = Policy::new(PolicyName::Fair, 64);
        let mut features = Features::new();
        let (n, k) = (4_f64.ln(), 1.02_f64.ln());
        let found = *features.vector(seen(4e6, 4.0, None), n, &policy);
        let streams = n / 100_f64.ln();
        let expected = [0.0, streams, 0.0, 0.0, 0.0, 4.0 * k, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        assert_near(&found, expected);
    }

    #[test]
    fn a_second_interval_is_compared_with_the_first_by_hand() {
        let policy = Policy::new(PolicyName::Low, 64);
        let mut features = Features::new();
        features.vector(seen(4e6, 4.0, Some(0.0)), 4_f64.ln(), &policy);
        let found = *features.vector(seen(6e6, 8.0, Some(0.01)), 9_f64.ln(), &policy);
        let (n, k) = (8_f64.ln(), 1.05_f64.ln());
        let (first, second) = (4e6_f64.ln() - 4.0 * k, 6e6_f64.ln() + (1.05_f64.powi(-8) - 0.1).ln());
        // The first interval's maxima have aged by 0.01; each of its streams moved 1 MB/s, and now they move 0.75 MB/s.
        let share = 0.75_f64.ln();
        let best = first - 0.01;
        let expected = [
            0.0,
            n / 100_f64.ln(),
            1.5_f64.ln(),
            2_f64.ln(),
            share + 0.01,
            8.0 * k,
            11_f64.ln() / 3.0,
            0.0,
            (second - best).min(0.0),
            if second >= best { 0.0 } else { 2_f64.ln() },
            6_f64.ln() + 0.01 - n,
            (k / 1.02_f64.ln()).ln(),
            9_f64.ln() - n,
            ((0.01_f64 + 1e-5).ln() - 1e-5_f64.ln() - 0.01) / 3.0,
            share,
            0.0,
            1.0,
            (-0.25_f64).exp(),
        ];
        assert_near(&found, expected);
    }

    #[test]
    fn the_scale_of_a_path_does_not_matter() {
        let policy = Policy::new(PolicyName::Fair, 64);
        let run = |scale: f64| {
            let mut features = Features::new();
            [3.0, 5.0, 4.0, 9.0].map(|rate| *features.vector(seen(scale * rate, 2.0 + rate, Some(1e-4)), 1.0, &policy))
        };
        for (small, large) in run(1e3).iter().zip(&run(1e10)) {
            assert!(small.iter().zip(large).all(|(a, b)| (a - b).abs() < 1e-5), "{small:?} {large:?}");
        }
    }

    #[test]
    fn inputs_are_bounded_whatever_happens() {
        let policy = Policy::new(PolicyName::Fair, 64);
        let mut features = Features::new();
        for (rate, streams, loss) in [(1e12, 100.0, 0.0), (1.0, 1.0, 1.0), (1e12, 0.01, 0.5)] {
            let found = features.vector(seen(rate, streams, Some(loss)), 60.0, &policy);
            assert!(found.iter().all(|value| value.is_finite() && value.abs() <= 5.0), "{found:?}");
        }
    }
}
