//! Looks upwards while all is quiet: capacity that grows in silence shows itself to nobody who stays below it.

use super::choose::Price;
use crate::optimizer::setting::whole;

/// What a probe multiplies the workers by: where measurements are exact, and where noise would hide what so few more bring.
const FACTOR: (f64, f64) = (1.2, 1.3);

/// The noise from which on it does.
const HIDING: f64 = 0.04;

/// What it multiplies them by where each is paced: what is lost then tells, whatever the noise, and what so many more lose costs far more than they do.
const PACED: f64 = 1.15;

/// Quiet intervals before a probe, of a second or more: at first, and after a change, which may prove to be none. Where the last one in vain cost
/// much, what came of it looks like a change: then at least this part of the intervals over which it costs no more than it may.
const FIRST: f64 = 5.0;
const SOON: f64 = 2.0;
const SOON_COSTLY: f64 = 0.25;

/// What each probe in vain multiplies them by, up to the most: where measurements are exact, and where noise hides what a probe finds.
const BACK_OFF: f64 = 1.5;
const MOST: (f64, f64) = (5.0, 40.0);

/// The noise from which on it does.
const NOISY: f64 = 0.08;

/// The part of what is worth having that probes in vain may cost. One that costs more multiplies the intervals by more, until they are as many
/// that it does not, up to the most of all.
const PART: f64 = 0.04;
const BACK_OFF_COSTLY: f64 = 3.0;
const MOST_COSTLY: f64 = 60.0;

/// Growth by which a decision is a look upwards itself.
const GROWTH: f64 = 1.1;

/// Intervals, of a second or more, without a change of the workers before a look below, at first and at most; each doubles them.
const BELOW: (f64, f64) = (2.0, 32.0);

/// An interval, as far as a probe depends on it: what it counts for where time has to pass, 0 to 1, the relative error of measurements, and
/// whether its workers were paced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) time: f64,
    pub(super) noise: f64,
    pub(super) paced: bool,
}

/// What the workers of a probe are worth, as a part of what they move: without those that are tried, and what these cost alone.
#[derive(Debug, Clone, Copy)]
struct Stake {
    paid: f64,
    more: f64,
    loss_weight: f64,
}

impl Stake {
    /// Over how many intervals, of a second or more, a probe that lost so many seconds of what is sent costs no more than it may. With what
    /// comes before its interval it takes about a second itself, however short that is.
    fn intervals(self, lost: f64) -> f64 {
        let cost = self.more + self.loss_weight * lost;
        (cost / (PART * self.paid)).min(MOST_COSTLY)
    }
}

/// When to probe, and from where.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    quiet: f64,
    gap: f64,
    from: Option<u16>,
    /// Of the last probe, and over how many intervals the last one in vain costs no more than it may.
    stake: Option<Stake>,
    fair: f64,
    /// The same for looks below.
    steady: f64,
    rest: f64,
}

impl Default for Probe {
    fn default() -> Self {
        Self { quiet: 0.0, gap: FIRST, from: None, stake: None, fair: 0.0, steady: 0.0, rest: BELOW.0 }
    }
}

impl Probe {
    /// Whether a probe goes on.
    pub(super) fn is_going_on(&self) -> bool {
        self.from.is_some()
    }

    /// How many quiet intervals, of a second or more, there are before the next one.
    pub(super) fn gap(&self) -> f64 {
        self.gap
    }

    /// Ends the probe that goes on, if any; answers from how many workers it began.
    pub(super) fn end(&mut self) -> Option<u16> {
        let from = self.from.take();
        if from.is_some() {
            self.quiet = 0.0;
        }
        from
    }

    /// Takes note of a probe that found something: what others cost says nothing any more.
    pub(super) fn succeeded(&mut self) {
        self.fair = 0.0;
    }

    /// Takes note of a probe that found nothing, and of how many seconds of what is sent it lost.
    pub(super) fn failed(&mut self, noise: f64, lost: f64) {
        let most = if noise < NOISY { MOST.0 } else { MOST.1 };
        self.fair = self.stake.map_or(0.0, |stake| stake.intervals(lost));
        let back_off = if self.fair > most { BACK_OFF_COSTLY } else { BACK_OFF };
        self.gap = (back_off * self.gap).min(most.max(self.fair));
    }

    /// Probes soon, as after a change.
    pub(super) fn hasten(&mut self) {
        (self.gap, self.quiet) = (self.gap.clamp(SOON, SOON.max(SOON_COSTLY * self.fair)), 0.0);
        (self.rest, self.steady) = (BELOW.0, 0.0);
    }

    /// Counts an interval, for so much, after which as many workers run on, or others; answers whether it is time to see if fewer do as
    /// well.
    pub(super) fn may_look_below(&mut self, stays: bool, time: f64) -> bool {
        self.steady = if stays { self.steady + time } else { 0.0 };
        self.steady >= self.rest
    }

    /// Takes note of a look below.
    pub(super) fn looked_below(&mut self, time: f64) {
        (self.rest, self.steady) = ((2.0 * self.rest).min(BELOW.1), 0.0);
        self.quiet += time;
    }

    /// Counts an interval, for so much, after which there are `next` workers, where lately there were up to `highest`; answers what to try
    /// instead, if it is time, and if as many more would pay if they brought as much as the others.
    pub(super) fn due(&mut self, highest: u16, next: u16, price: &Price, measured: Measured) -> Option<u16> {
        let grows = f64::from(next) > GROWTH * f64::from(highest);
        self.quiet = if grows { 0.0 } else { self.quiet + measured.time };
        let factor = match measured {
            Measured { paced: true, .. } => PACED,
            Measured { noise, .. } if noise < HIDING => FACTOR.0,
            Measured { .. } => FACTOR.1,
        };
        let tried = whole(factor * f64::from(next)).max(next.saturating_add(1)).min(price.limit);
        let more = f64::from(tried) / f64::from(next.max(1));
        let pays = more.ln() > f64::from(tried.saturating_sub(next)) * price.k.ln();
        if self.quiet < self.gap || tried <= next || !pays {
            return None;
        }
        self.stake(next, tried, price);
        (self.quiet, self.from) = (0.0, Some(next));
        Some(tried)
    }

    /// Takes note of what is at stake where so many more workers are tried.
    pub(super) fn stake(&mut self, next: u16, tried: u16, price: &Price) {
        let [paid, less] = [next, tried].map(|workers| price.k.powf(-f64::from(workers)));
        self.stake = Some(Stake { paid, more: paid - less, loss_weight: price.loss_weight });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price { k: 1.02, loss_weight: 10.0, limit: 50 };
    const EXACT: Measured = Measured { time: 1.0, noise: 0.02, paced: false };

    fn waits(probe: &mut Probe, workers: u16) -> usize {
        (1..1000).find(|_| probe.due(workers, workers, &PRICE, EXACT).is_some()).unwrap_or(0)
    }

    #[test]
    fn probes_in_vain_come_less_often_up_to_a_limit_and_soon_after_a_change() {
        let mut probe = Probe::default();
        assert_eq!(waits(&mut probe, 10), 5);
        for (noise, expected) in [(0.02, 5), (0.2, 8), (0.2, 12), (0.2, 17), (0.2, 26), (0.2, 38), (0.2, 40)] {
            assert_eq!(probe.end(), Some(10));
            probe.failed(noise, 0.0);
            assert_eq!(waits(&mut probe, 10), expected);
        }
        assert_eq!((probe.end(), probe.end()), (Some(10), None));
        probe.hasten();
        assert_eq!(waits(&mut probe, 10), 2);
    }

    #[test]
    fn probes_that_lose_much_come_less_often() {
        let mut probe = Probe::default();
        assert_eq!(waits(&mut probe, 10), 5);
        for (lost, expected, hastened) in [(0.01, 5, 2), (0.06, 15, 5), (0.06, 20, 5), (0.12, 38, 10), (1.0, 60, 15), (0.0, 5, 2)]
        {
            probe.failed(EXACT.noise, lost);
            let mut changed = probe.clone();
            changed.hasten();
            assert_eq!((waits(&mut probe, 10), waits(&mut changed, 10)), (expected, hastened));
        }
        // What was costly once is not for ever, and no change makes looks rarer.
        probe.failed(EXACT.noise, 1.0);
        let mut found = probe.clone();
        (probe.gap, found.gap) = (6.0, 6.0);
        found.succeeded();
        probe.hasten();
        found.hasten();
        assert_eq!((waits(&mut probe, 10), waits(&mut found, 10)), (6, 2));
    }

    #[test]
    fn growth_is_a_probe_itself() {
        let mut probe = Probe::default();
        (0..4).for_each(|_| assert_eq!(probe.due(10, 10, &PRICE, EXACT), None));
        assert_eq!(probe.due(10, 20, &PRICE, EXACT), None);
        assert_eq!(waits(&mut probe, 20), 5);
    }

    #[test]
    fn looks_below_come_after_steady_intervals_and_ever_less_often() {
        let mut probe = Probe::default();
        assert!(!probe.may_look_below(true, 1.0) && !probe.may_look_below(false, 1.0) && !probe.may_look_below(true, 1.0));
        assert!(probe.may_look_below(true, 1.0));
        probe.looked_below(1.0);
        assert_eq!((1..100).find(|_| probe.may_look_below(true, 1.0)), Some(4));
    }

    #[test]
    fn a_probe_is_a_fifth_more_or_a_third_where_noise_is_and_less_where_each_is_paced_and_at_least_one() {
        let tried = |workers, price: &Price, noise| {
            let mut probe = Probe::default();
            (0..20).find_map(|_| probe.due(workers, workers, price, Measured { noise, ..EXACT }))
        };
        assert_eq!([10, 1, 30].map(|workers| tried(workers, &PRICE, 0.02)), [Some(12), Some(2), Some(36)]);
        assert_eq!([10, 1, 30].map(|workers| tried(workers, &PRICE, 0.05)), [Some(13), Some(2), Some(39)]);
        let paced = |workers| {
            (0..20).find_map(|_| Probe::default().due(workers, workers, &PRICE, Measured { time: 20.0, paced: true, ..EXACT }))
        };
        assert_eq!([1, 5, 19, 30].map(paced), [2, 6, 22, 35].map(Some), "where each is paced");
        assert_eq!(tried(50, &PRICE, 0.02), None, "at the limit");
        assert_eq!(tried(20, &Price { k: 1.1, ..PRICE }, 0.02), None, "where no more pay");
    }

    #[test]
    fn short_intervals_are_no_reason_to_look_more_often() {
        let waits = |time| {
            let mut probe = Probe::default();
            (1..100).find(|_| probe.due(10, 10, &PRICE, Measured { time, ..EXACT }).is_some())
        };
        assert_eq!([waits(1.0), waits(0.5)], [Some(5), Some(10)]);
        let mut probe = Probe::default();
        assert_eq!((1..100).find(|_| probe.may_look_below(true, 0.5)), Some(4));
    }
}
