//! What streams lose: a base that more streams do not raise, and what comes of too many.

use std::collections::VecDeque;

use super::joining::Joining;

/// Intervals that are remembered, and of which the newest tell: near a full path, and below.
const WINDOW: usize = 24;
const NEAR: usize = 20;
const BELOW: usize = 4;

/// Numbers of workers up to this factor apart are about the same.
const ALIKE: f64 = 1.05;

/// The load from which on loss is held for congestion; below, for the base. Queues overflow before the path is full on average, and until
/// fewer streams have lost as much, many that lose much are the likelier cause.
const FULL: f64 = 0.75;

/// The base where none was seen, if no more is lost: so much is usual, or what is lost below although workers joined, up to so much. Of the
/// losses near a full path about the least are the base, but chance makes the very least less than it is.
const USUAL: f64 = 0.015;
const MOST_USUAL: f64 = 0.025;
const LEAST: f64 = 0.25;
const MIDDLE: f64 = 0.5;

/// Most that is held possible.
const MOST: f64 = 0.9;

/// How loss may grow beyond the base: from which load on, and with which power of what is beyond. Some queues overflow well before the path
/// is full on average and some only then, and what far too many streams lose says little of a path that is just full.
const SHAPES: [(f64, i32); 4] = [(FULL, 1), (FULL, 2), (1.0, 1), (1.0, 2)];

/// Another shape has to explain what was seen so much better than the one before it: with the same errors the one counts that costs more.
const BETTER: f64 = 0.7;

/// Errors up to this share say nothing: two shapes through few points differ by less than what is lost by chance.
const EXACT: f64 = 0.003;

/// The losses of the last intervals: workers, and lost share.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    /// Where no workers had joined.
    seen: Window,
    /// Where some had: what is lost without that is no more.
    joined: Window,
    /// What those cost that join others.
    pub(super) joining: Joining,
    /// Whether they are sent no faster than each gets through: then no queue overflows before the path is full.
    pub(super) paced: bool,
}

/// Whether workers have joined others lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    /// None has.
    Long,
    /// Some have, and lose by that.
    Free,
    /// Some have, none sent faster than it gets through: what they lose is for being too many.
    Paced,
}

/// The lost share by the load.
#[derive(Debug, Clone, Copy)]
pub(super) struct LossLaw {
    base: f64,
    onset: f64,
    power: i32,
    slope: f64,
}

/// Intervals in their order: workers, and lost share.
#[derive(Debug, Clone, Default)]
struct Window(VecDeque<(f64, f64)>);

impl Window {
    /// Adds one. Of the most frequent number of workers the oldest makes room.
    fn push(&mut self, workers: f64, loss: f64) {
        let seen = &mut self.0;
        seen.push_back((workers, loss));
        if seen.len() <= WINDOW {
            return;
        }
        let crowd = |one: f64| seen.iter().filter(|(other, _)| (one / other).ln().abs() < ALIKE.ln()).count();
        let crowds: Vec<usize> = seen.iter().map(|(workers, _)| crowd(*workers)).collect();
        let fullest = crowds.iter().copied().max();
        if let Some(oldest) = crowds.iter().position(|size| Some(*size) == fullest) {
            seen.remove(oldest);
        }
    }
}

impl Losses {
    /// Takes the loss of an interval with so many workers, and whether some of them had joined lately; nothing where the system does not tell.
    pub(super) fn observe(&mut self, workers: f64, loss: Option<f64>, joined: Joined) {
        let Some(loss) = loss.filter(|loss| loss.is_finite()).map(|loss| loss.clamp(0.0, 1.0)) else { return };
        match joined {
            Joined::Long => {
                self.joining.rested(loss);
                self.seen.push(workers, loss);
            }
            Joined::Paced => self.seen.push(workers, loss),
            Joined::Free => self.joined.push(workers, loss),
        }
    }

    /// The same where only what it costs to join is still known.
    pub(super) fn forgotten(&self) -> Self {
        Self { joining: self.joining, paced: self.paced, ..Self::default() }
    }

    /// The same where what was lost says nothing any more.
    pub(super) fn calm(&self) -> Self {
        Self { joining: self.joining.forgotten(), paced: self.paced, ..Self::default() }
    }

    /// The base, by what was lost below and beyond, and how many measurements that is worth. One interval below that lost less may have done so
    /// by chance.
    fn base(&self, below: &[(f64, f64)], beyond: &[(f64, f64)], load: impl Fn(f64) -> f64) -> (f64, usize) {
        let joined: Vec<(f64, f64)> = self.joined.0.iter().filter(|(workers, _)| load(*workers) <= FULL).copied().collect();
        let usual = quantile(&joined, MIDDLE).clamp(USUAL, MOST_USUAL).min(quantile(beyond, LEAST));
        let count = below.len() as f64;
        let sum: f64 = below.iter().map(|(_, loss)| loss).sum();
        let base = if sum < usual * count || below.is_empty() { (sum + usual) / (count + 1.0) } else { sum / count };
        (base, below.len().max(usize::from(!joined.is_empty())))
    }

    /// The law, by the load of so many workers: the mean where the path is not near full, and beyond it the shape that explains best what was
    /// lost. What chance may have made of it is not held for congestion.
    pub(super) fn law(&self, load: impl Fn(f64) -> f64 + Copy) -> LossLaw {
        let newest = self.seen.0.iter().rev().map(|(workers, loss)| (load(*workers), *loss));
        let (mut below, mut beyond): (Vec<_>, Vec<_>) = newest.partition(|(load, _)| *load <= FULL);
        below.truncate(BELOW);
        beyond.truncate(NEAR);
        let (base, told) = self.base(&below, &beyond, load);
        let least = if self.paced { 1.0 } else { FULL };
        let [first, others @ ..] = SHAPES.map(|(onset, power)| shaped(&beyond, base, onset.max(least), power));
        let exact = beyond.len() as f64 * EXACT.powi(2);
        let (best, errors) =
            others.into_iter().fold(first, |best, other| if other.1 + exact < BETTER * best.1 { other } else { best });
        let all = errors + below.iter().map(|(_, loss)| (loss - base).powi(2)).sum::<f64>();
        best.less_by_chance(&beyond, told, all)
    }
}

/// The loss of these that has this part of them below it; the usual one of none.
fn quantile(seen: &[(f64, f64)], part: f64) -> f64 {
    let mut losses: Vec<f64> = seen.iter().map(|(_, loss)| *loss).collect();
    losses.sort_by(f64::total_cmp);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let at = (part * losses.len() as f64) as usize;
    losses.get(at).copied().unwrap_or(USUAL)
}

/// The law of a shape by least squares, and what it leaves unexplained: the sum of the squares of its errors.
fn shaped(beyond: &[(f64, f64)], base: f64, onset: f64, power: i32) -> (LossLaw, f64) {
    let law = LossLaw { base, onset, power, slope: 1.0 };
    let (mut products, mut squares) = (0.0, 0.0);
    for &(load, loss) in beyond {
        products += law.over(load) * (loss - base);
        squares += law.over(load).powi(2);
    }
    let slope = if squares > 0.0 { (products / squares).max(0.0) } else { 0.0 };
    let error = |(load, loss): &(f64, f64)| (loss - base - slope * law.over(*load)).powi(2);
    (LossLaw { slope, ..law }, beyond.iter().map(error).sum())
}

impl LossLaw {
    /// How far a load is beyond where loss begins to grow, to the power with which it does.
    fn over(&self, load: f64) -> f64 {
        (load - self.onset).max(0.0).powi(self.power)
    }

    /// The same with the slope that is certain but for one standard deviation, where the errors of all, so many that tell of the base and the
    /// others beyond, have this sum of squares. An error of the base makes one of the slope; one that was never seen is not doubted.
    fn less_by_chance(self, beyond: &[(f64, f64)], told: usize, errors: f64) -> Self {
        let overs = beyond.iter().map(|(load, _)| self.over(*load));
        let (sum, squares) = overs.fold((0.0, 0.0), |(sum, squares), over| (sum + over, squares + over * over));
        if squares <= 0.0 {
            return self;
        }
        let variance = (errors / (beyond.len() + told).saturating_sub(1).max(1) as f64).max(EXACT.powi(2));
        let of_base = if told > 0 { variance / told as f64 * (sum / squares).powi(2) } else { 0.0 };
        Self { slope: (self.slope - (variance / squares + of_base).sqrt()).max(0.0), ..self }
    }

    /// The lost share that streams cause at a load, beyond the base: what fewer of them would not lose.
    pub(super) fn caused(&self, load: f64) -> f64 {
        (self.slope * self.over(load)).min(MOST - self.base).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(seen: &[(f64, f64)]) -> LossLaw {
        let mut losses = Losses::default();
        for &(workers, loss) in seen {
            losses.observe(workers, Some(loss), Joined::Long);
        }
        losses.law(|workers| workers / 10.0)
    }

    #[test]
    fn what_far_too_many_paced_streams_lose_is_not_held_against_those_that_just_fill_the_path() {
        let mut losses = Losses::default();
        for (workers, loss) in [(9.0, 0.0), (11.5, 0.07)] {
            losses.observe(workers, Some(loss), Joined::Paced);
        }
        let caused = |losses: &Losses| losses.law(|workers| workers / 11.0).caused(0.9);
        assert!(caused(&losses) > 0.0);
        losses.paced = true;
        assert!(caused(&losses) < 1e-9 && losses.law(|workers| workers / 11.0).caused(1.2) > 0.05);
    }

    #[test]
    fn loss_that_is_the_same_for_all_is_the_base() {
        let found = law(&[(4.0, 0.01), (7.0, 0.012), (20.0, 0.011), (10.0, 0.011)]);
        assert!((found.base - 0.011).abs() < 1e-3 && found.caused(0.3) < 1e-9 && found.caused(3.0) < 1e-3);
    }

    #[test]
    fn loss_beyond_what_fills_the_path_grows_with_the_load() {
        let found = law(&[(5.0, 0.015), (10.0, 0.04), (15.0, 0.09), (20.0, 0.14)]);
        assert!(found.caused(0.7) < 1e-9 && (found.caused(2.75) - 0.2).abs() < 0.015, "{found:?}");
        assert!(found.caused(100.0) <= MOST);
        // Many that lose much, before fewer were tried.
        let many = law(&[(15.0, 0.15), (15.0, 0.15)]);
        assert!((many.caused(1.5) - 0.135).abs() < 0.003 && (many.caused(1.2) - 0.081).abs() < 0.003, "{many:?}");
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
    fn what_chance_makes_of_a_constant_loss_is_no_congestion() {
        let wild = [0.022, 0.01, 0.045, 0.016, 0.03, 0.012, 0.038, 0.009, 0.027, 0.02];
        let mut seen = vec![(4.0, 0.004)];
        seen.extend(wild.map(|loss| (10.0, loss)));
        assert!(law(&seen).caused(1.0) < 0.008, "{:?}", law(&seen));
        seen.extend(wild.map(|loss| (14.0, loss + 0.1)));
        assert!(law(&seen).caused(1.4) > 0.07, "{:?}", law(&seen));
    }

    #[test]
    fn what_is_lost_below_a_full_path_while_workers_join_is_the_base_up_to_a_bound() {
        let caused = |joined: f64| {
            let mut losses = Losses::default();
            (0..3).for_each(|_| losses.observe(4.0, Some(joined), Joined::Free));
            (0..5).for_each(|_| losses.observe(10.0, Some(0.024), Joined::Long));
            losses.law(|workers| workers / 10.0).caused(1.0)
        };
        assert!((0.004..0.009).contains(&caused(0.0)) && caused(0.02) < 0.002 && caused(0.3) < 1e-9, "{}", caused(0.0));
        let mut many = Losses::default();
        many.observe(4.0, Some(0.3), Joined::Free);
        (0..5).for_each(|_| many.observe(14.0, Some(0.15), Joined::Long));
        assert!(many.law(|workers| workers / 10.0).caused(1.4) > 0.1);
    }

    #[test]
    fn rare_numbers_of_workers_stay_known() {
        let mut losses = Losses::default();
        losses.observe(4.0, Some(0.2), Joined::Long);
        (0..100).for_each(|_| losses.observe(10.0, Some(0.2), Joined::Long));
        assert!(losses.law(|workers| workers / 10.0).caused(1.0) < 1e-9);
    }

    #[test]
    fn nothing_known_and_nonsense_are_no_loss() {
        let mut losses = Losses::default();
        losses.observe(0.4, None, Joined::Long);
        losses.observe(0.4, Some(f64::NAN), Joined::Long);
        assert!(losses.law(|load| load).caused(99.0) < 1e-12);
    }
}
