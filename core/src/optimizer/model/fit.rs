//! How well each hypothesis explains what was measured.
//!
//! The scale of a curve follows from the measurements, so that nothing here knows of bits: `ln T = ln r + bend(n) + e`. The errors `e`
//! have Student's distribution with 4 degrees of freedom, for which a wild measurement is no proof; their size is learnt.

use super::curve::curves;

/// Degrees of freedom of Student's distribution.
const FREEDOM: f64 = 4.0;

/// Rounds in which a scale settles among measurements some of which are wild.
const ROUNDS: usize = 3;

/// The relative error of a measurement before any was made, how many measurements that is worth, and its bounds.
const NOISE: (f64, f64) = (0.03, 3.0);
const NOISE_BOUNDS: (f64, f64) = (0.02, 0.4);

/// What an interval that is so many intervals old counts: this to their power, and never less than the last number, so that rare
/// settings stay known while nothing contradicts them.
const AGEING: (f64, f64) = (0.97, 0.25);

/// The least part of a measurement that one of this transfer counts as.
const OWN: f64 = 0.5;

/// Fewest workers that count as having worked.
const LEAST_WORKERS: f64 = 0.05;

/// Whether a stage moved what it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// It did.
    Exact,
    /// It waited for a neighbour, and could have moved more.
    AtLeast,
}

/// What so many workers moved in one interval.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) workers: f64,
    pub(super) bound: Bound,
    /// Intervals since then.
    pub(super) age: i32,
    /// Logarithm of the bytes per second.
    pub(super) rate: f64,
    weight: f64,
    /// What each hypothesis says of so many workers.
    bends: Vec<f64>,
}

impl Point {
    /// A measurement of positive bytes per second.
    pub(super) fn new(workers: f64, rate: f64, bound: Bound) -> Self {
        let workers = workers.max(LEAST_WORKERS);
        let bends = curves().iter().map(|curve| curve.bend(workers)).collect();
        Self { workers, bound, age: 0, rate: rate.ln(), weight: 1.0, bends }
    }

    /// The same, counting as a part of a measurement.
    pub(super) fn weighing(self, weight: f64) -> Self {
        Self { weight, ..self }
    }

    /// The same measurement of a stage that had this part of the workers.
    pub(super) fn scaled(&self, part: f64, bound: Bound) -> Self {
        let scaled = Self::new(part * self.workers, 1.0, bound);
        Self { age: self.age, rate: self.rate, weight: self.weight, ..scaled }
    }

    fn counts(&self) -> f64 {
        self.weight * AGEING.0.powi(self.age).max(AGEING.1)
    }

    /// What a hypothesis of a scale leaves unexplained; nothing, where it promises more than a stage moved that waited.
    fn residual(&self, index: usize, scale: f64) -> f64 {
        let residual = self.rate - self.bends[index] - scale;
        match self.bound {
            Bound::Exact => residual,
            Bound::AtLeast => residual.max(0.0),
        }
    }
}

/// How likely each hypothesis is after what was measured.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    /// Probability of each hypothesis.
    pub(super) belief: Vec<f64>,
    /// Logarithm of the bytes per second that a worker moves alone, by each hypothesis.
    pub(super) scales: Vec<f64>,
    /// Relative error of a measurement.
    pub(super) noise: f64,
    /// The likeliest hypothesis.
    best: usize,
}

impl Fit {
    /// The fit to at least one measurement; `noise` is what errors were before.
    pub(super) fn of(points: &[Point], noise: f64) -> Self {
        let counts: Vec<f64> = points.iter().map(Point::counts).collect();
        let mut scales = Vec::with_capacity(curves().len());
        let mut belief = Vec::with_capacity(curves().len());
        for (index, curve) in curves().iter().enumerate() {
            let scale = scale(points, &counts, index, noise);
            let likely = |(point, count): (&Point, &f64)| count * likelihood(point.residual(index, scale) / noise);
            belief.push(curve.prior + points.iter().zip(&counts).map(likely).sum::<f64>());
            scales.push(scale);
        }
        let best = (0..belief.len()).fold(0, |best, index| if belief[index] > belief[best] { index } else { best });
        let noise = learnt(points, &counts, (best, scales[best]), noise);
        let most = belief[best];
        let likely = belief.iter().map(|one| (one - most).exp());
        let sum: f64 = likely.clone().sum();
        let belief = likely.map(|one| one / sum).collect();
        Self { belief, scales, noise, best }
    }

    /// The logarithm of the rate that so many workers will move, and its standard deviation.
    pub(super) fn predict(&self, workers: f64) -> (f64, f64) {
        let workers = workers.max(LEAST_WORKERS);
        let rates: Vec<f64> = curves().iter().zip(&self.scales).map(|(curve, scale)| scale + curve.bend(workers)).collect();
        let mean = self.mean(|index| rates[index]);
        let variance = self.mean(|index| (rates[index] - mean).powi(2));
        (mean, (variance + self.noise.powi(2)).sqrt())
    }

    /// Bytes per second of one worker alone, in the geometric mean.
    pub(super) fn worker_rate(&self) -> f64 {
        self.mean(|index| self.scales[index]).exp()
    }

    /// Workers that fill the stage, by the likeliest hypothesis.
    pub(super) fn saturation(&self) -> f64 {
        curves()[self.best].saturation
    }

    /// Bytes per second of a full stage, by the likeliest hypothesis.
    pub(super) fn capacity(&self) -> f64 {
        curves()[self.best].saturation * self.scales[self.best].exp()
    }

    /// The mean over all hypotheses.
    pub(super) fn mean(&self, value: impl Fn(usize) -> f64) -> f64 {
        self.belief.iter().enumerate().map(|(index, belief)| belief * value(index)).sum()
    }
}

/// The relative error of a measurement before any was made.
pub(super) fn first_noise() -> f64 {
    NOISE.0
}

/// The logarithm of how likely an error is, in units of their usual size, up to a constant.
fn likelihood(error: f64) -> f64 {
    -0.5 * (FREEDOM + 1.0) * (error * error / FREEDOM).ln_1p()
}

/// The scale by which a hypothesis explains the measurements best, found by weighing wild ones less and less; those that tell but a least
/// count where they exceed it.
fn scale(points: &[Point], counts: &[f64], index: usize, noise: f64) -> f64 {
    let exact = points.iter().any(|point| point.bound == Bound::Exact);
    let unscaled = points.iter().map(|point| point.rate - point.bends[index]);
    if !exact {
        return unscaled.fold(f64::NEG_INFINITY, f64::max);
    }
    let mean = |weigh: &dyn Fn(&Point, f64) -> f64| {
        let mut sums = (0.0, 0.0);
        for ((point, count), value) in points.iter().zip(counts).zip(unscaled.clone()) {
            let weight = count * weigh(point, value);
            sums = (sums.0 + weight * value, sums.1 + weight);
        }
        sums.0 / sums.1
    };
    let mut scale = mean(&|point, _| if point.bound == Bound::Exact { 1.0 } else { 0.0 });
    for _ in 0..ROUNDS {
        let centre = scale;
        scale = mean(&|point, value| {
            let error = (value - centre) / noise;
            let silent = point.bound == Bound::AtLeast && error < 0.0;
            if silent { 0.0 } else { (FREEDOM + 1.0) / (FREEDOM + error * error) }
        });
    }
    scale
}

/// The size of the errors that the likeliest hypothesis leaves, wild ones cut off. Those of another day, which count as little,
/// do not tell: days differ by more than intervals.
fn learnt(points: &[Point], counts: &[f64], (best, scale): (usize, f64), noise: f64) -> f64 {
    let (usual, worth) = NOISE;
    let mut sums = (worth * usual * usual, worth);
    let own = |point: &Point| point.bound == Bound::Exact && point.weight >= OWN;
    for (point, count) in points.iter().zip(counts).filter(|(point, _)| own(point)) {
        let error = point.residual(best, scale).abs().min(3.0 * noise);
        sums = (sums.0 + count * error * error, sums.1 + count);
    }
    (sums.0 / sums.1).sqrt().clamp(NOISE_BOUNDS.0, NOISE_BOUNDS.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(points: &[(f64, f64)]) -> Fit {
        let points: Vec<Point> = points.iter().map(|&(workers, rate)| Point::new(workers, rate, Bound::Exact)).collect();
        Fit::of(&points, first_noise())
    }

    #[test]
    fn two_points_on_either_side_of_a_knee_tell_where_it_is_at_any_scale() {
        for stream in [1e3, 1e6, 1e10] {
            let found = fit(&[(4.0, 4.0 * stream), (8.0, 8.0 * stream), (20.0, 10.0 * stream), (14.0, 10.0 * stream)]);
            assert!((found.saturation() / 10.0 - 1.0).abs() < 0.1, "{}", found.saturation());
            assert!((found.worker_rate() / stream - 1.0).abs() < 0.05);
            let (twelve, _) = found.predict(12.0);
            assert!((twelve.exp() / (10.0 * stream) - 1.0).abs() < 0.05);
            let sum: f64 = found.belief.iter().sum();
            assert!((sum - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn what_a_waiting_stage_moved_bounds_its_curve_from_below_alone() {
        let mut points = vec![Point::new(5.0, 50.0, Bound::Exact), Point::new(20.0, 60.0, Bound::AtLeast)];
        let (free, _) = Fit::of(&points, first_noise()).predict(20.0);
        assert!(free > 90.0_f64.ln(), "{}", free.exp());
        points[1].bound = Bound::Exact;
        let (bound, _) = Fit::of(&points, first_noise()).predict(20.0);
        assert!((bound.exp() / 60.0 - 1.0).abs() < 0.05, "{}", bound.exp());
    }

    #[test]
    fn a_wild_measurement_moves_the_curve_little_and_noise_is_learnt() {
        let steady: Vec<(f64, f64)> = (0..10).map(|index| (8.0, if index % 2 == 0 { 75.0 } else { 85.0 })).collect();
        let quiet = fit(&[(8.0, 80.0); 10]);
        let noisy = fit(&steady);
        assert!(quiet.noise < 0.03 && noisy.noise > 0.04, "{} {}", quiet.noise, noisy.noise);
        let mut wild = steady.clone();
        wild.push((8.0, 20.0));
        let (mean, _) = fit(&wild).predict(8.0);
        assert!((mean.exp() / 80.0 - 1.0).abs() < 0.05, "{}", mean.exp());
    }
}
