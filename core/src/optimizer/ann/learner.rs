//! A network of one hidden layer that learns by gradient descent: full batches, Adam (Kingma and Ba, ICLR 2015), a fixed seed, so that the
//! same rows give the same network.

use nalgebra::DMatrix;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

/// Inputs of the network that are measured.
pub(super) const INPUTS: usize = 6;

/// Columns of what goes into the network: the inputs, whether it is of this transfer, and 1 for the bias.
const COLUMNS: usize = INPUTS + 2;

/// Units of the hidden layer.
const HIDDEN: usize = 12;

/// Step size of Adam, its two decay rates and what keeps it from dividing by zero.
const RATE: f64 = 0.02;
const DECAYS: (f64, f64) = (0.9, 0.999);
const EPSILON: f64 = 1e-8;

/// How much large weights cost: settings that nobody has tried are between those that somebody has.
const WEIGHT_COST: f64 = 1e-3;

/// How far a value may be from the mean, in standard deviations: what lies beyond counts as this far.
const FURTHEST: f64 = 4.0;

/// Where a measurement is from. What is different now than it was before, as the load of the path, the network learns as the effect of this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// A past transfer.
    Before,
    /// This transfer.
    Now,
}

/// One measurement; inputs that are not known count as the mean of the others.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) when: When,
    pub(super) inputs: [Option<f64>; INPUTS],
    pub(super) output: f64,
}

/// A network and the rows that it was made for.
pub(super) struct Learner {
    scale: Scale,
    past: Vec<Row>,
    /// Weights into the hidden layer, with the bias as the last row: `[columns, hidden]`.
    first: Weights,
    /// Weights out of it, likewise: `[hidden + 1, 1]`.
    second: Weights,
    /// Rounds of training so far.
    epochs: i32,
}

/// Means and standard deviations of inputs and output.
struct Scale {
    inputs: [(f64, f64); INPUTS],
    output: (f64, f64),
}

/// Weights and the moments of their gradients.
struct Weights {
    values: DMatrix<f64>,
    mean: DMatrix<f64>,
    square: DMatrix<f64>,
}

impl Learner {
    /// A network that knows nothing of these rows but their scale.
    pub(super) fn new(rows: Vec<Row>) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let first = Weights::random(INPUTS, COLUMNS, HIDDEN, &mut random);
        let second = Weights::random(HIDDEN, HIDDEN + 1, 1, &mut random);
        Self { scale: Scale::of(&rows), past: rows, first, second, epochs: 0 }
    }

    /// How many rows it was made for.
    pub(super) fn rows(&self) -> usize {
        self.past.len()
    }

    /// Trains for so many rounds on the rows that it was made for and on `recent` ones, which together count as much as all others.
    pub(super) fn train(&mut self, recent: &[Row], epochs: u32) {
        let rows: Vec<&Row> = self.past.iter().chain(recent).collect();
        let input = |row: usize, column| self.scale.column(rows[row].when, &rows[row].inputs, column);
        let inputs = DMatrix::from_fn(rows.len(), COLUMNS, input);
        let outputs = DMatrix::from_fn(rows.len(), 1, |row, _| scaled(rows[row].output, self.scale.output));
        let shares = DMatrix::from_fn(rows.len(), 1, |row, _| share(row, self.past.len(), recent.len()));
        for _ in 0..epochs {
            self.epochs = self.epochs.saturating_add(1);
            let hidden = self.hidden(&inputs);
            let errors = (&hidden * &self.second.values - &outputs).component_mul(&shares);
            let slopes = hidden.columns(0, HIDDEN).map(|value| 1.0 - value * value);
            let back = (&errors * self.second.values.rows(0, HIDDEN).transpose()).component_mul(&slopes);
            self.second.step(&hidden.tr_mul(&errors), self.epochs);
            self.first.step(&inputs.tr_mul(&back), self.epochs);
        }
    }

    /// The output for these inputs.
    pub(super) fn predict(&self, when: When, inputs: &[Option<f64>; INPUTS]) -> f64 {
        let row = DMatrix::from_fn(1, COLUMNS, |_, column| self.scale.column(when, inputs, column));
        let output = (self.hidden(&row) * &self.second.values)[(0, 0)];
        self.scale.output.0 + self.scale.output.1 * output
    }

    /// The hidden layer for each row, and a column of ones for the bias: `[rows, hidden + 1]`.
    fn hidden(&self, inputs: &DMatrix<f64>) -> DMatrix<f64> {
        (inputs * &self.first.values).map(f64::tanh).insert_column(HIDDEN, 1.0)
    }
}

/// What a row counts: each of the two parts a half, or the past all where nothing is recent.
fn share(row: usize, past: usize, recent: usize) -> f64 {
    match recent {
        0 => 1.0 / past as f64,
        _ if row < past => 0.5 / past as f64,
        _ => 0.5 / recent as f64,
    }
}

/// A value in standard deviations from the mean, no further away than anything is that was learnt from; 0 where all values were the same,
/// so that nothing can be known of others.
fn scaled(value: f64, (mean, deviation): (f64, f64)) -> f64 {
    if deviation == 0.0 { 0.0 } else { ((value - mean) / deviation).clamp(-FURTHEST, FURTHEST) }
}

impl Scale {
    fn of(rows: &[Row]) -> Self {
        let of = |column: usize| spread(rows.iter().filter_map(|row| row.inputs[column]));
        Self { inputs: std::array::from_fn(of), output: spread(rows.iter().map(|row| row.output)) }
    }

    /// What goes into the network in a column.
    fn column(&self, when: When, inputs: &[Option<f64>; INPUTS], column: usize) -> f64 {
        match inputs.get(column) {
            Some(value) => value.map_or(0.0, |value| scaled(value, self.inputs[column])),
            None if column == INPUTS => f64::from(u8::from(when == When::Now)),
            None => 1.0,
        }
    }
}

/// Mean and standard deviation, which is 0 where all values are as good as the same or there are none.
fn spread(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let deviation = (values.map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
    (mean, if deviation > 1e-9 { deviation } else { 0.0 })
}

impl Weights {
    /// The first rows, of the `inputs`, uniform within the bounds of Glorot and Bengio (AISTATS 2010), the others zero.
    fn random(inputs: usize, rows: usize, columns: usize, random: &mut ChaCha8Rng) -> Self {
        let bound = (6.0 / (inputs + columns) as f64).sqrt();
        let zeros = DMatrix::zeros(rows, columns);
        let values = DMatrix::from_fn(rows, columns, |row, _| {
            let drawn: f64 = random.random();
            if row < inputs { bound * (2.0 * drawn - 1.0) } else { 0.0 }
        });
        Self { values, mean: zeros.clone(), square: zeros }
    }

    // Kingma and Ba, algorithm 1.
    /// One step of Adam against the gradient, with the cost of large weights added to it.
    fn step(&mut self, gradient: &DMatrix<f64>, epoch: i32) {
        let gradient = gradient + &self.values * WEIGHT_COST;
        let (slow, slower) = DECAYS;
        self.mean = &self.mean * slow + &gradient * (1.0 - slow);
        self.square = &self.square * slower + gradient.component_mul(&gradient) * (1.0 - slower);
        let (first, second) = (1.0 - slow.powi(epoch), 1.0 - slower.powi(epoch));
        let change = self.mean.zip_map(&self.square, |mean, square| RATE * (mean / first) / ((square / second).sqrt() + EPSILON));
        self.values -= change;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a hill over the fourth input, with nothing known of the first.
    fn rows(offset: f64) -> Vec<Row> {
        (0..40).map(|step| f64::from(step) / 8.0).map(|x| row(When::Before, x, offset - (x - 3.0).powi(2))).collect()
    }

    fn row(when: When, x: f64, output: f64) -> Row {
        Row { when, inputs: at(x), output }
    }

    fn at(x: f64) -> [Option<f64>; INPUTS] {
        [None, Some(2.0), Some(3.0), Some(x), Some(0.0), Some(0.0)]
    }

    #[test]
    fn it_learns_a_curve() {
        let mut learner = Learner::new(rows(10.0));
        learner.train(&[], 400);
        for (x, expected) in [(0.5, 3.75), (2.0, 9.0), (3.0, 10.0), (4.5, 7.75)] {
            let found = learner.predict(When::Before, &at(x));
            assert!((found - expected).abs() < 0.7, "{found} instead of {expected} at {x}");
        }
    }

    #[test]
    fn recent_rows_move_it_at_once() {
        let mut learner = Learner::new(rows(10.0));
        learner.train(&[], 400);
        let before = learner.predict(When::Now, &at(3.0));
        learner.train(&[row(When::Now, 3.0, 2.0)], 60);
        let after = learner.predict(When::Now, &at(3.0));
        assert!(after < before - 4.0, "{before} and then {after}");
        let remembered = learner.predict(When::Before, &at(3.0));
        assert!((remembered - before).abs() < 1.5, "{before} and then {remembered}");
    }

    #[test]
    fn the_gradient_is_that_of_the_error() {
        let mut learner = Learner::new(rows(10.0));
        let loss = |learner: &Learner| {
            let error = |row: &Row| learner.predict(row.when, &row.inputs) - row.output;
            learner.past.iter().map(|row| error(row).powi(2)).sum::<f64>()
        };
        let before = loss(&learner);
        learner.train(&[], 1);
        assert!(loss(&learner) < before);
        learner.train(&[], 50);
        assert!(loss(&learner) < 0.5 * before, "{} of {before}", loss(&learner));
    }

    #[test]
    fn the_same_rows_give_the_same_network() {
        let trained = || {
            let mut learner = Learner::new(rows(1.0));
            learner.train(&[], 50);
            learner.predict(When::Before, &at(1.0)).to_bits()
        };
        assert_eq!(trained(), trained());
    }
}
