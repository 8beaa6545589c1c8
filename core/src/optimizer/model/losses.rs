//! What streams lose: a base that more streams do not raise, and what comes of too many.

use std::collections::VecDeque;

/// Intervals that are remembered.
const WINDOW: usize = 20;

/// The load from which on loss is held for congestion; below, for the base.
const FULL: f64 = 1.1;

/// Most that is held possible.
const MOST: f64 = 0.9;

/// The losses of the last intervals.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    /// Load, all streams over those that fill the path, and lost share.
    seen: VecDeque<(f64, f64)>,
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
        let Some(loss) = loss.filter(|loss| loss.is_finite()) else { return };
        if self.seen.len() == WINDOW {
            self.seen.pop_front();
        }
        self.seen.push_back((load, loss.clamp(0.0, 1.0)));
    }

    /// The law: the mean where the path is not full, and the slope beyond by least squares.
    pub(super) fn law(&self) -> LossLaw {
        let (mut below, mut count, mut least) = (0.0, 0.0, f64::INFINITY);
        for &(load, loss) in &self.seen {
            least = least.min(loss);
            if load <= FULL {
                (below, count) = (below + loss, count + 1.0);
            }
        }
        let base = match (self.seen.is_empty(), count > 0.0) {
            (true, _) => 0.0,
            (_, true) => below / count,
            _ => least,
        };
        let (mut products, mut squares) = (0.0, 0.0);
        for &(load, loss) in self.seen.iter().filter(|(load, _)| *load > FULL) {
            products += (load - 1.0) * (loss - base);
            squares += (load - 1.0).powi(2);
        }
        let slope = if squares > 0.0 { (products / squares).max(0.0) } else { 0.0 };
        LossLaw { base, slope }
    }
}

impl LossLaw {
    /// The lost share that streams cause at a load, beyond the base: what fewer of them would not lose.
    pub(super) fn caused(&self, load: f64) -> f64 {
        (self.slope * (load - 1.0).max(0.0)).min(MOST - self.base).max(0.0)
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
        let found = law(&[(4.0, 0.01), (8.0, 0.012), (20.0, 0.011), (10.0, 0.011)]);
        assert!((found.base - 0.011).abs() < 1e-3 && found.caused(0.3) < 1e-9 && found.caused(3.0) < 1e-3);
    }

    #[test]
    fn loss_beyond_what_fills_the_path_grows_with_the_load() {
        let found = law(&[(5.0, 0.0), (10.0, 0.0), (15.0, 0.05), (20.0, 0.1)]);
        assert!(found.caused(0.9) < 1e-9 && (found.caused(3.0) - 0.2).abs() < 1e-9);
        assert!(found.caused(100.0) <= MOST);
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
