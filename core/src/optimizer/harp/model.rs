//! One model of throughput for each group of past transfers [HARP §2.2.3].

use rand::SeedableRng as _;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom as _;

use super::groups::Group;
use super::maximum::maximum;
use super::polynomial::{Bounds, Measured, Point, Polynomial, coefficients, r_squared};
use super::relaxation::relaxed;

/// Degrees in the order in which they are tried [HARP §2.2.3].
const DEGREES: [u8; 3] = [2, 3, 4];

/// The share of the variance that a model must explain, of both parts of a group [HARP §2.2.3].
const ACCURATE: f64 = 0.7;

/// Per cent of a group that a model is fitted to; the rest validates it [HARP §2.2.3].
const TRAINING_PERCENT: usize = 70;

/// Rows that a coefficient takes: from fewer, noise is fitted.
const ROWS_EACH: usize = 2;

/// The fewest rows that validate anything.
const LEAST_VALIDATING: usize = 3;

/// A model that promises more than so many times what was ever measured is wrong, as in the authors' program.
const MOST_PROMISED: f64 = 2.0;

/// A group in two parts, at random but always the same.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parts<T> {
    pub(super) training: Vec<T>,
    pub(super) validation: Vec<T>,
}

impl<T: Clone> Parts<T> {
    /// The parts of rows, or of anything else that there is one of for each row: which are in which part depends on their number alone.
    pub(super) fn of(rows: &[T]) -> Self {
        let mut training = rows.to_vec();
        training.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
        let validation = training.split_off(rows.len() * TRAINING_PERCENT / 100);
        Self { training, validation }
    }
}

/// Whether so many rows can have a model at all.
pub(super) fn are_enough(rows: usize) -> bool {
    rows - rows * TRAINING_PERCENT / 100 >= LEAST_VALIDATING
}

/// The polynomial of the lowest degree that explains a group.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fitted {
    pub(super) polynomial: Polynomial,
    pub(super) degree: u8,
    /// R² of both parts.
    pub(super) training: f64,
    pub(super) validation: f64,
}

impl Fitted {
    /// `None` if no degree explains the group: it is an outlier.
    pub(super) fn by_rising_degree(parts: &Parts<Measured>) -> Option<Self> {
        let mut fitted = DEGREES.into_iter().filter_map(|degree| Self::of_degree(parts, degree));
        fitted.find(|fitted| fitted.training > ACCURATE && fitted.validation > ACCURATE)
    }

    /// `None` if there are too few rows for the degree.
    fn of_degree(parts: &Parts<Measured>, degree: u8) -> Option<Self> {
        let Parts { training, validation } = parts;
        if training.len() < ROWS_EACH * coefficients(training, degree) || validation.len() < LEAST_VALIDATING {
            return None;
        }
        let polynomial = Polynomial::fit(training, degree);
        let explained = |rows: &[Measured]| r_squared(rows, |at| polynomial.value(at));
        let (training, validation) = (explained(training), explained(validation));
        Some(Self { polynomial, degree, training, validation })
    }
}

/// What a group tells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    pub(super) fitted: Fitted,
    bounds: Bounds,
    /// The row with the most throughput.
    highest: Measured,
}

/// Where a model promises most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Peak {
    /// The parameters there, within what was measured and permitted.
    pub(super) best: Point,
    /// Lower parameters that keep enough of that.
    pub(super) relaxed: Point,
}

impl Model {
    /// The model of a group; `None` if the group is an outlier.
    pub(super) fn of(group: &Group) -> Option<Self> {
        let fitted = Fitted::by_rising_degree(&Parts::of(&group.rows))?;
        let highest = *highest(&group.rows)?;
        Some(Self { fitted, bounds: Bounds::around(&group.rows), highest })
    }

    /// Where it promises most with at most `limit` files in flight; `None`, as for an outlier, if what it promises there cannot be true.
    pub(super) fn peak(&self, limit: u16) -> Option<Peak> {
        let (bounds, value) = (self.permitted(limit), |at: Point| self.fitted.polynomial.value(at));
        // The authors' program climbs from the least alone.
        let best = maximum(&self.fitted.polynomial, &bounds, &[bounds.least, bounds.middle(), self.highest.at]);
        let is_sound = value(best) > 0.0 && value(best) < MOST_PROMISED * self.highest.throughput;
        is_sound.then(|| Peak { best, relaxed: relaxed(value, bounds.least, best) })
    }

    /// The box of what was measured with at most `limit` files in flight, or as few as there ever were.
    pub(super) fn permitted(&self, limit: u16) -> Bounds {
        let mut bounds = self.bounds;
        bounds.most[0] = bounds.most[0].min(f64::from(limit)).max(bounds.least[0]);
        bounds
    }

    /// Bytes per second with some parameters, or the nearest to them that were ever measured.
    pub(super) fn throughput(&self, at: Point) -> f64 {
        self.fitted.polynomial.value(self.bounds.clamp(at))
    }

    /// Whether it was measured with more than one value of a parameter; otherwise it says nothing of it.
    pub(super) fn knows(&self, variable: usize) -> bool {
        self.bounds.half(variable) > 0.0
    }

    /// Bytes per second of one channel: with a concurrency of 1, or the share of one in the least that was measured.
    pub(super) fn unit_throughput(&self, at: Point) -> f64 {
        let least = self.bounds.least[0].max(1.0);
        self.throughput([least, at[1], at[2]]) / least
    }
}

/// The row with the most throughput.
pub(super) fn highest(rows: &[Measured]) -> Option<&Measured> {
    rows.iter().max_by(|a, b| a.throughput.total_cmp(&b.throughput))
}

#[cfg(test)]
mod tests {
    use super::super::testing::grid;
    use super::*;

    /// All settings of a grid, each with the throughput that `f` tells.
    fn group(f: impl Fn(Point) -> f64) -> Group {
        let rows = grid(f);
        Group { indices: (0..rows.len()).collect(), rows }
    }

    /// A hill with its top of 1,000 at concurrency 20, parallelism 8, whatever the pipelining.
    fn hill([cc, p, _]: Point) -> f64 {
        1000.0 - (cc - 20.0).powi(2) - 0.5 * (p - 8.0).powi(2)
    }

    /// A number between -1 and 1 that looks like chance.
    fn noise([cc, p, pp]: Point) -> f64 {
        ((cc * 12.9 + p * 78.2 + pp * 37.7).sin() * 43_758.5).fract()
    }

    #[test]
    fn seven_tenths_train_and_every_row_is_in_one_part() {
        let rows = group(hill).rows;
        let parts = Parts::of(&rows);
        assert_eq!((parts.training.len(), parts.validation.len()), (151, 65));
        let mut all = [parts.training.clone(), parts.validation.clone()].concat();
        all.sort_by(|a, b| a.at.partial_cmp(&b.at).unwrap());
        let mut expected = rows.clone();
        expected.sort_by(|a, b| a.at.partial_cmp(&b.at).unwrap());
        assert_eq!(all, expected);
        assert_eq!(Parts::of(&rows), parts, "the same rows, the same parts");
        let numbers = Parts::of(&(0..rows.len()).collect::<Vec<_>>());
        assert_eq!(numbers.validation.iter().map(|row| rows[*row]).collect::<Vec<_>>(), parts.validation);
    }

    #[test]
    fn the_lowest_degree_that_explains_is_taken() {
        let degree = |f: fn(Point) -> f64| Fitted::by_rising_degree(&Parts::of(&group(f).rows)).map(|fitted| fitted.degree);
        assert_eq!(degree(hill), Some(2));
        assert_eq!(degree(|[cc, ..]| ((cc - 16.0) / 10.0).powi(3) - 2.0 * cc / 10.0), Some(3));
        assert_eq!(degree(noise), None, "an outlier");
        assert_eq!(degree(|_| 5.0), None, "of what does not change there is nothing to explain");
    }

    #[test]
    fn too_few_rows_are_an_outlier() {
        let mut few = group(hill);
        few.rows = few.rows.into_iter().step_by(9).collect();
        assert_eq!(few.rows.len(), 24, "16 to train nine coefficients");
        assert_eq!(Model::of(&few), None);
        assert!(are_enough(7) && !are_enough(6) && !are_enough(0), "four to train two coefficients, three to validate them");
    }

    #[test]
    fn the_model_of_a_hill_has_its_top_and_relaxes_below_it() {
        let peak = Model::of(&group(hill)).unwrap().peak(64).unwrap();
        let [cc, p, _] = peak.best;
        assert!((cc - 20.0).abs() < 0.01 && (p - 8.0).abs() < 0.01, "{:?}", peak.best);
        // pp has no part in it; 700 needs no more than p = 1 (975.5); 0.7 * 975.5 = 682.85 needs cc = 3 (975.5 - 289 = 686.5).
        assert_eq!(peak.relaxed.map(f64::round).as_slice(), [3.0, 1.0, 1.0].as_slice());
    }

    #[test]
    fn the_limit_bounds_what_is_best_and_not_what_is_told_of_a_sample() {
        let model = Model::of(&group(hill)).unwrap();
        let best = [10, 64, 10].map(|limit| model.peak(limit).unwrap().best[0]);
        assert!(best.iter().zip([10.0, 20.0, 10.0]).all(|(found, expected)| (found - expected).abs() < 0.01), "{best:?}");
        let told = |cc: f64| model.throughput([cc, 8.0, 1.0]) - hill([cc, 8.0, 1.0]);
        assert!(told(10.0).abs() < 1e-6 && told(32.0).abs() < 1e-6, "both were measured");
        assert!((model.throughput([99.0, 8.0, 1.0]) - hill([32.0, 8.0, 1.0])).abs() < 1e-6, "nothing is told beyond that");
    }

    #[test]
    fn a_peak_that_is_far_above_what_was_measured_is_none() {
        let mut model = Model::of(&group(hill)).unwrap();
        model.highest.throughput = 450.0;
        assert_eq!(model.peak(64), None);
        assert!(model.peak(1).is_some(), "639 at one file in flight are below twice 450");
    }

    #[test]
    fn of_a_parameter_that_never_varied_it_knows_nothing() {
        let rows: Vec<_> =
            (1..=40u8).map(|cc| Measured { at: [cc.into(), 1.0, 32.0], throughput: 10.0 * f64::from(cc) + 5.0 }).collect();
        let model = Model::of(&Group { indices: (0..40).collect(), rows }).unwrap();
        assert_eq!([0, 1, 2].map(|variable| model.knows(variable)), [true, false, false]);
        assert!((model.throughput([18.0, 3.0, 4.0]) - 185.0).abs() < 1e-6);
        // 0.7 * 405 = 283.5
        assert_eq!(model.peak(64).unwrap().relaxed.map(f64::round).as_slice(), [28.0, 1.0, 32.0].as_slice());
    }

    #[test]
    fn a_channel_has_what_one_has_by_itself() {
        let linear = |[cc, ..]: Point| 10.0 * cc;
        let model = Model::of(&group(linear)).unwrap();
        assert!((model.unit_throughput([9.0, 1.0, 1.0]) - 10.0).abs() < 1e-6);
        let mut many = group(linear);
        many.rows.retain(|row| row.at[0] > 3.0);
        let model = Model::of(&many).unwrap();
        assert!((model.unit_throughput([9.0, 1.0, 1.0]) - 10.0).abs() < 1e-6, "a quarter of what four have");
    }
}
