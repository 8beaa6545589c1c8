//! What streams lose: a base that more streams do not raise, and what comes of too many.

use std::collections::VecDeque;

/// Intervals that are remembered: near a full path, and below.
const WINDOW: usize = 20;
const WINDOW_BELOW: usize = 4;

/// The load from which on loss is held for congestion; below, for the base. Queues overflow before the path is full on average, and until
/// fewer streams have lost as much, many that lose much are the likelier cause.
const FULL: f64 = 0.75;

/// The base where none was seen, if no more is lost: so much is usual.
const USUAL: f64 = 0.015;

/// Most that is held possible.
const MOST: f64 = 0.9;

/// How loss may grow beyond the base: from which load on, and with which power of what is beyond. Some queues overflow well before the path
/// is full on average and some only then, and what far too many streams lose says little of a path that is just full.
const SHAPES: [(f64, i32); 4] = [(FULL, 1), (FULL, 2), (1.0, 1), (1.0, 2)];

/// Another shape has to explain what was seen so much better than the one before it: with the same errors the one counts that costs more.
const BETTER: f64 = 0.7;

/// Errors up to this share say nothing: two shapes through few points differ by less than what is lost by chance.
const EXACT: f64 = 0.003;

/// The losses of the last intervals.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    /// Lost shares below a full path.
    below: VecDeque<f64>,
    /// Beyond: load, all streams over those that fill the path, and lost share.
    beyond: VecDeque<(f64, f64)>,
}

/// The lost share by the load.
#[derive(Debug, Clone, Copy)]
pub(super) struct LossLaw {
    base: f64,
    onset: f64,
    power: i32,
    slope: f64,
}

impl Losses {
    /// Takes the loss of an interval of this load; nothing where the system does not tell it.
    pub(super) fn observe(&mut self, load: f64, loss: Option<f64>) {
        let Some(loss) = loss.filter(|loss| loss.is_finite()).map(|loss| loss.clamp(0.0, 1.0)) else { return };
        if load <= FULL {
            push(&mut self.below, loss, WINDOW_BELOW);
        } else {
            push(&mut self.beyond, (load, loss), WINDOW);
        }
    }

    /// The law: the mean where the path is not near full, and beyond it the shape that explains best what was lost.
    pub(super) fn law(&self) -> LossLaw {
        let least = || self.beyond.iter().map(|(_, loss)| *loss).fold(USUAL, f64::min);
        let base = if self.below.is_empty() { least() } else { self.below.iter().sum::<f64>() / self.below.len() as f64 };
        let [first, others @ ..] = SHAPES.map(|(onset, power)| self.shaped(base, onset, power));
        let exact = self.beyond.len() as f64 * EXACT.powi(2);
        let best = others.into_iter().fold(first, |best, other| if other.1 + exact < BETTER * best.1 { other } else { best });
        best.0
    }

    /// The law of a shape by least squares, and what it leaves unexplained: the sum of the squares of its errors.
    fn shaped(&self, base: f64, onset: f64, power: i32) -> (LossLaw, f64) {
        let over = |load: f64| (load - onset).max(0.0).powi(power);
        let (mut products, mut squares) = (0.0, 0.0);
        for &(load, loss) in &self.beyond {
            products += over(load) * (loss - base);
            squares += over(load).powi(2);
        }
        let slope = if squares > 0.0 { (products / squares).max(0.0) } else { 0.0 };
        let error = |(load, loss): &(f64, f64)| (loss - base - slope * over(*load)).powi(2);
        (LossLaw { base, onset, power, slope }, self.beyond.iter().map(error).sum())
    }
}

/// Adds a value; of more than `most` the oldest goes.
fn push<T>(values: &mut VecDeque<T>, value: T, most: usize) {
    if values.len() == most {
        values.pop_front();
    }
    values.push_back(value);
}

impl LossLaw {
    /// The lost share that streams cause at a load, beyond the base: what fewer of them would not lose.
    pub(super) fn caused(&self, load: f64) -> f64 {
        (self.slope * (load - self.onset).max(0.0).powi(self.power)).min(MOST - self.base).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(seen: &[(f64, f64)]) -> LossLaw {
        let mut losses = Losses::default();
        for &(workers, loss) in seen {
            losses.observe(workers / 10.0, Some(loss));
        }
        losses.law()
    }

    #[test]
    fn loss_that_is_the_same_for_all_is_the_base() {
        let found = law(&[(4.0, 0.01), (7.0, 0.012), (20.0, 0.011), (10.0, 0.011)]);
        assert!((found.base - 0.011).abs() < 1e-3 && found.caused(0.3) < 1e-9 && found.caused(3.0) < 1e-3);
    }

    #[test]
    fn loss_beyond_what_fills_the_path_grows_with_the_load() {
        let found = law(&[(5.0, 0.01), (10.0, 0.035), (15.0, 0.085), (20.0, 0.135)]);
        assert!(found.caused(0.7) < 1e-9 && (found.caused(2.75) - 0.2).abs() < 1e-9);
        assert!(found.caused(100.0) <= MOST);
        // Many that lose much, before fewer were tried.
        let many = law(&[(15.0, 0.15), (15.0, 0.15)]);
        assert!((many.caused(1.5) - 0.135).abs() < 1e-9 && (many.caused(1.2) - 0.081).abs() < 1e-9, "{many:?}");
        assert!(law(&[(15.0, 0.01), (15.0, 0.01)]).caused(1.5) < 1e-9);
    }

    #[test]
    fn what_far_too_many_lose_is_no_price_of_a_path_that_is_just_full() {
        // Ten streams fill it: 2.5 % are lost up to there, and far more beyond.
        let found = law(&[(5.0, 0.025), (16.0, 0.15), (12.0, 0.06), (10.0, 0.026), (8.0, 0.025), (9.0, 0.025)]);
        assert!(found.caused(1.0) < 0.012 && found.caused(1.2) > 0.02 && found.caused(1.6) > 0.1, "{found:?}");
    }

    #[test]
    fn however_much_is_lost_streams_never_cause_less_than_none() {
        let found = law(&[(5.0, 0.95), (10.0, 1.0), (15.0, 1.0)]);
        assert!(found.caused(0.5) < 1e-12 && found.caused(100.0) < 1e-12);
    }

    #[test]
    fn nothing_known_and_nonsense_are_no_loss() {
        let mut losses = Losses::default();
        losses.observe(0.4, None);
        losses.observe(0.4, Some(f64::NAN));
        assert!(losses.law().caused(99.0) < 1e-12);
    }
}
