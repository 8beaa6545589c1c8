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

/// The losses of the last intervals.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    /// Lost shares below a full path.
    below: VecDeque<f64>,
    /// Beyond: load, all streams over those that fill the path, less [`FULL`]; and lost share.
    beyond: VecDeque<(f64, f64)>,
}

/// The lost share by the load.
#[derive(Debug, Clone, Copy)]
pub(super) struct LossLaw {
    base: f64,
    slope: f64,
}

impl Losses {
    /// Takes the loss of an interval of this load; nothing where the system does not tell it.
    pub(super) fn observe(&mut self, load: f64, loss: Option<f64>) {
        let Some(loss) = loss.filter(|loss| loss.is_finite()).map(|loss| loss.clamp(0.0, 1.0)) else { return };
        if load <= FULL {
            push(&mut self.below, loss, WINDOW_BELOW);
        } else {
            push(&mut self.beyond, (load - FULL, loss), WINDOW);
        }
    }

    /// The law: the mean where the path is not near full, and the slope beyond by least squares.
    pub(super) fn law(&self) -> LossLaw {
        let least = || self.beyond.iter().map(|(_, loss)| *loss).fold(USUAL, f64::min);
        let base = if self.below.is_empty() { least() } else { self.below.iter().sum::<f64>() / self.below.len() as f64 };
        let (mut products, mut squares) = (0.0, 0.0);
        for &(over, loss) in &self.beyond {
            products += over * (loss - base);
            squares += over.powi(2);
        }
        let slope = if squares > 0.0 { (products / squares).max(0.0) } else { 0.0 };
        LossLaw { base, slope }
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
        (self.slope * (load - FULL).max(0.0)).min(MOST - self.base).max(0.0)
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
        assert!((law(&[(15.0, 0.15), (15.0, 0.15)]).caused(1.5) - 0.135).abs() < 1e-9);
        assert!(law(&[(15.0, 0.01), (15.0, 0.01)]).caused(1.5) < 1e-9);
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
