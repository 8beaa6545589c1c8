//! How well each hypothesis explains what was measured.
//!
//! The scale of a curve follows from the measurements, so that nothing here knows of bits: `ln T = ln r + bend(n) + e`. The errors `e`
//! have Student's distribution with 4 degrees of freedom, for which a wild measurement is no proof; their size is learnt.

use super::curve::{Curve, curves};

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

/// How much likelier company makes it that there are others on the path; and how much likelier those others are still that leave the path
/// the capacity that it had before they came, which is known with such an error, in logarithms.
const COMPANY: f64 = 8.0;
const KNOWN: f64 = 20.0;
const KNOWN_ERROR: f64 = 0.15;

/// How much less likely, in logarithms, a stage is that was full by a hypothesis whenever it was measured, and was not as no queue told, or the
/// other way round; up to which load it may have had none, and from which on it would have had one.
const QUEUES: f64 = 4.0;
const ROOMY: (f64, f64) = (0.85, 1.05);

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

/// What tells of others on the path.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Company {
    /// How much does, 0 to 1.
    pub(super) told: f64,
    /// Logarithm of the bytes per second that the path carried before they came, where it is known.
    pub(super) capacity: Option<f64>,
}

impl Company {
    /// How much likelier it makes a path among others, in logarithms, of which a hypothesis says what one worker moves alone.
    fn among(self, curve: &Curve, scale: f64) -> f64 {
        if !curve.is_among() {
            return 0.0;
        }
        let told = (COMPANY * self.told).ln_1p();
        let Some(known) = self.capacity else { return if curve.is_overfull() { f64::NEG_INFINITY } else { told } };
        let error = (scale + curve.capacity().ln() - known) / KNOWN_ERROR;
        told + (KNOWN * self.told * (-0.5 * error * error).exp()).ln_1p()
    }
}

/// What so many workers moved in one interval.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) workers: f64,
    pub(super) bound: Bound,
    /// Intervals since then.
    pub(super) age: i32,
    /// Logarithm of the bytes per second, and how far it may be off beside the error of any measurement.
    pub(super) rate: f64,
    pub(super) doubt: f64,
    weight: f64,
    /// Whether it was derived from what others told, and so many have not run.
    pub(super) derived: bool,
    /// Whether it is of so few that others do not matter.
    pub(super) alone: bool,
    /// Whether they filled the stage, where a queue told.
    pub(super) fills: Option<bool>,
    /// What each hypothesis says of so many workers.
    bends: Vec<f64>,
}

impl Point {
    /// A measurement of positive bytes per second.
    pub(super) fn new(workers: f64, rate: f64, bound: Bound) -> Self {
        let (workers, rate) = (workers.max(LEAST_WORKERS), rate.ln());
        let bends = curves().iter().map(|curve| curve.bend(workers)).collect();
        Self { workers, bound, age: 0, rate, doubt: 0.0, weight: 1.0, derived: false, alone: false, fills: None, bends }
    }

    /// The same, counting as a part of a measurement.
    pub(super) fn weighing(self, weight: f64) -> Self {
        Self { weight, ..self }
    }

    /// The same, derived from others: what so few would move if nobody else were there.
    pub(super) fn derived(self) -> Self {
        let bends = curves().iter().map(|curve| curve.bend_alone(self.workers)).collect();
        Self { derived: true, alone: true, bends, ..self }
    }

    /// The same, and whether they filled the stage, if that is known.
    pub(super) fn filling(self, fills: Option<bool>) -> Self {
        Self { fills, ..self }
    }

    /// The same, believed of so many that have not run.
    pub(super) fn believed(self) -> Self {
        Self { derived: true, ..self }
    }

    /// The same, of a rate that is higher by so much and may be off by as much to either side, in logarithms.
    pub(super) fn corrected(self, higher: f64, doubt: f64) -> Self {
        Self { rate: self.rate + higher, doubt, ..self }
    }

    /// The same measurement of a stage that had this part of the workers, of which no queue of the path tells.
    pub(super) fn scaled(&self, part: f64, bound: Bound) -> Self {
        let scaled = Self::new(part * self.workers, 1.0, bound);
        let scaled = if self.alone { scaled.derived() } else { scaled };
        let (age, rate, doubt, weight, derived) = (self.age, self.rate, self.doubt, self.weight, self.derived);
        Self { age, rate, doubt, weight, derived, ..scaled }
    }

    fn weighed(&self, noise: f64) -> Weight {
        let count = self.weight * AGEING.0.powi(self.age).max(AGEING.1);
        Weight { count, size: noise.hypot(self.doubt) }
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

/// What a measurement counts, and the usual size of its error.
struct Weight {
    count: f64,
    size: f64,
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
    /// Whether it is known what the path carried before others came, and so how many streams fill it.
    pub(super) filled: bool,
    /// The likeliest hypothesis.
    best: usize,
}

impl Fit {
    /// The fit to at least one measurement; `noise` is what errors were before.
    pub(super) fn of(points: &[Point], noise: f64, company: Company) -> Self {
        let weights: Vec<Weight> = points.iter().map(|point| point.weighed(noise)).collect();
        let mut scales = Vec::with_capacity(curves().len());
        let mut belief = Vec::with_capacity(curves().len());
        for (index, curve) in curves().iter().enumerate() {
            let scale = scale(points, &weights, index);
            let likely = |(point, weight): (&Point, &Weight)| {
                let error = point.residual(index, scale) / weight.size;
                weight.count * likelihood(error)
            };
            let prior = curve.prior + company.among(curve, scale) - QUEUES * misjudged(points, &weights, curve);
            belief.push(prior + points.iter().zip(&weights).map(likely).sum::<f64>());
            scales.push(scale);
        }
        let best = (0..belief.len()).fold(0, |best, index| if belief[index] > belief[best] { index } else { best });
        let noise = learnt(points, &weights, (best, scales[best]), noise);
        let most = belief[best];
        let likely = belief.iter().map(|one| (one - most).exp());
        let sum: f64 = likely.clone().sum();
        let belief = likely.map(|one| one / sum).collect();
        Self { belief, scales, noise, filled: company.capacity.is_some(), best }
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

    /// Workers that fill the stage, by the likeliest hypothesis; where others share it, their streams.
    pub(super) fn saturation(&self) -> f64 {
        curves()[self.best].saturation
    }

    /// Workers of one's own that fill it, by the same.
    pub(super) fn full(&self) -> f64 {
        curves()[self.best].full()
    }

    /// All workers, so many of one's own among them, as a multiple of those that fill it, by the same.
    pub(super) fn load(&self, workers: f64) -> f64 {
        curves()[self.best].load(workers)
    }

    /// Bytes per second of a full stage, by the likeliest hypothesis.
    pub(super) fn capacity(&self) -> f64 {
        curves()[self.best].capacity() * self.scales[self.best].exp()
    }

    /// The mean over all hypotheses.
    pub(super) fn mean(&self, value: impl Fn(usize) -> f64) -> f64 {
        self.belief.iter().enumerate().map(|(index, belief)| belief * value(index)).sum()
    }
}

/// The part of what was measured, 0 to 1, in which so many workers did not fill the stage and would have by a hypothesis, or the other way round.
fn misjudged(points: &[Point], weights: &[Weight], curve: &Curve) -> f64 {
    let ran = || points.iter().zip(weights).filter(|(point, _)| !point.derived);
    let wrong = |point: &Point| {
        let full = ((curve.load(point.workers) - ROOMY.0) / (ROOMY.1 - ROOMY.0)).clamp(0.0, 1.0);
        point.fills.map_or(0.0, |fills| if fills { 1.0 - full } else { full })
    };
    let sum: f64 = ran().map(|(point, weight)| weight.count * wrong(point)).sum();
    sum / ran().map(|(_, weight)| weight.count).sum::<f64>().max(f64::MIN_POSITIVE)
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
fn scale(points: &[Point], weights: &[Weight], index: usize) -> f64 {
    let exact = points.iter().any(|point| point.bound == Bound::Exact);
    let unscaled = points.iter().map(|point| point.rate - point.bends[index]);
    if !exact {
        return unscaled.fold(f64::NEG_INFINITY, f64::max);
    }
    let mean = |weigh: &dyn Fn(&Point, &Weight, f64) -> f64| {
        let mut sums = (0.0, 0.0);
        for ((point, weight), value) in points.iter().zip(weights).zip(unscaled.clone()) {
            let part = weight.count * weigh(point, weight, value) / (weight.size * weight.size);
            sums = (sums.0 + part * value, sums.1 + part);
        }
        sums.0 / sums.1
    };
    let mut scale = mean(&|point, _, _| if point.bound == Bound::Exact { 1.0 } else { 0.0 });
    for _ in 0..ROUNDS {
        let centre = scale;
        scale = mean(&|point, weight, value| {
            let error = (value - centre) / weight.size;
            let silent = point.bound == Bound::AtLeast && error < 0.0;
            if silent { 0.0 } else { (FREEDOM + 1.0) / (FREEDOM + error * error) }
        });
    }
    scale
}

/// The size of the errors that the likeliest hypothesis leaves, wild ones cut off. Those of another day, which count as little, do not
/// tell, for days differ by more than intervals; nor do those that are in doubt themselves.
fn learnt(points: &[Point], weights: &[Weight], (best, scale): (usize, f64), noise: f64) -> f64 {
    let (usual, worth) = NOISE;
    let mut sums = (worth * usual * usual, worth);
    let own = |point: &Point| point.bound == Bound::Exact && point.weight >= OWN && point.doubt < noise;
    for (point, Weight { count, .. }) in points.iter().zip(weights).filter(|(point, _)| own(point)) {
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
        Fit::of(&points, first_noise(), Company::default())
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
        let (free, _) = Fit::of(&points, first_noise(), Company::default()).predict(20.0);
        assert!(free > 90.0_f64.ln(), "{}", free.exp());
        points[1].bound = Bound::Exact;
        let (bound, _) = Fit::of(&points, first_noise(), Company::default()).predict(20.0);
        assert!((bound.exp() / 60.0 - 1.0).abs() < 0.05, "{}", bound.exp());
    }

    #[test]
    fn a_measurement_in_doubt_says_little_against_growth_in_proportion() {
        let grown = |doubt: f64| {
            let young = Point::new(12.0, 95.0, Bound::Exact).corrected(doubt, doubt);
            Fit::of(&[Point::new(4.0, 40.0, Bound::Exact), young], first_noise(), Company::default()).predict(24.0).0.exp()
        };
        assert!(grown(0.0) < 130.0, "{}", grown(0.0));
        assert!(grown(0.12) > 150.0, "{}", grown(0.12));
    }

    #[test]
    fn company_decides_between_a_soft_knee_and_others_where_measurements_do_not() {
        let points: Vec<Point> =
            [(1.0, 10.0), (9.0, 53.0), (10.0, 56.0)].map(|(workers, rate)| Point::new(workers, rate, Bound::Exact)).into();
        let among = |company: f64| {
            let fit = Fit::of(&points, first_noise(), Company { told: company, capacity: None });
            fit.mean(|index| if curves()[index].is_among() { 1.0 } else { 0.0 })
        };
        assert!(among(0.0) < 0.5 && among(1.0) > 0.6, "{} {}", among(0.0), among(1.0));
    }

    #[test]
    fn what_the_path_carried_before_tells_others_from_a_path_that_became_a_worse_one() {
        // A stream alone moves ten; ten of them moved a hundred, and move fifty now.
        let alone = Point::new(1.0, 10.0, Bound::Exact).weighing(0.5).derived();
        let among = |more: &[(f64, f64)], capacity: Option<f64>| {
            let measured = [(10.0, 50.0)].iter().chain(more).map(|&(workers, rate)| Point::new(workers, rate, Bound::Exact));
            let points: Vec<Point> = [alone.clone()].into_iter().chain(measured).collect();
            let fit = Fit::of(&points, first_noise(), Company { told: 1.0, capacity });
            fit.mean(|index| if curves()[index].is_among() { 1.0 } else { 0.0 })
        };
        let known = Some(100.0_f64.ln());
        assert!(among(&[], known) > 0.8 && among(&[], known) > among(&[], None), "{} {}", among(&[], known), among(&[], None));
        // Ten of others would leave 33 to five, and a path of half the capacity is full of five.
        assert!(among(&[(5.0, 33.3)], known) > 0.9 && among(&[(5.0, 50.0)], known) < 0.2);
    }

    #[test]
    fn a_part_of_the_workers_is_bent_as_all_are_and_no_queue_tells_of_it() {
        let [all, half] = [8.0, 4.0].map(|workers| Point::new(workers, 80.0, Bound::Exact));
        let of = |point: &Point| (point.derived, point.bends.clone(), point.fills);
        let part = |point: &Point| of(&point.scaled(0.5, Bound::Exact));
        assert_eq!(part(&all.clone().filling(Some(false))), of(&half));
        assert_eq!(part(&all.clone().believed()), of(&half.clone().believed()));
        assert_eq!(part(&all.derived()), of(&half.clone().derived()));
        assert_ne!(half.clone().derived().bends, half.bends);
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
