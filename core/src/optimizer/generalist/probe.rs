//! Looks upwards on a schedule: what a policy learned in noise stays below capacity that grows in silence, where nothing tempts it to try.
//!
//! Where the rate has long been far below what it was, as beside others with many streams, a probe goes higher. A probe that finds more
//! is where the policy goes on from; nothing is ever brought back, since the policy sees for itself what a probe found.

use super::features::{Features, MOST, RISE};

/// What a probe multiplies the streams by, and the same where the rate has fallen for a while.
const FACTOR: f64 = 1.3;
const STARVED_FACTOR: f64 = 2.0;

/// The share of the highest rate below which it has, for so many intervals.
const STARVED: f64 = 0.3;
const PATIENCE: u32 = 3;

/// Intervals between probes: at first, after one that found more, and at most; each that did not multiplies them.
const GAP: f64 = 10.0;
const SOON: f64 = 3.0;
const LONGEST: f64 = 40.0;
const BACK_OFF: f64 = 1.5;

/// A probe has found more if it gains this part, at least, of what each further stream would bring if it were the first.
const GAIN: f64 = 0.5;

/// Probes wait until the streams change by no more than this part, or by one.
const STEADY: f64 = 0.1;

/// No more streams than this over ln K: even where each brings as much as the first, more than 1 / ln K never pay.
const ROOM: f64 = 1.1;

/// When to probe, and what the last one is compared with.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    gap: f64,
    starved: u32,
    origin: Option<Origin>,
}

/// Streams before a probe, and the logarithm of the rate that they had.
#[derive(Debug, Clone, Copy)]
struct Origin {
    streams: f64,
    rate: f64,
}

/// What a probe found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Found {
    /// There was none, or its streams never ran.
    Nothing,
    /// Streams worth having.
    More,
    /// That the streams before were enough.
    NoMore,
}

impl Probe {
    pub(super) fn new() -> Self {
        Self { gap: GAP, starved: 0, origin: None }
    }

    /// Judges the probe that the last interval was, if it was one, after the interval is in `features`.
    pub(super) fn judge(&mut self, features: &Features, streams: f64, price: f64) -> Found {
        let Some(origin) = self.origin.take().filter(|origin| streams > RISE * origin.streams) else { return Found::Nothing };
        let more = (streams / origin.streams).ln();
        let gain = features.rate - origin.rate;
        if gain > (GAIN * more).max(price * (streams - origin.streams)) {
            self.gap = SOON;
            return Found::More;
        }
        self.gap = (BACK_OFF * self.gap).min(LONGEST);
        Found::NoMore
    }

    /// What to try instead of the `next` streams, if it is time to: after `streams` ran, within the most that are allowed.
    pub(super) fn due(&mut self, features: &Features, (streams, next): (f64, f64), price: f64, most: f64) -> Option<f64> {
        let low = features.rate < features.most_rate + STARVED.ln();
        self.starved = if low { self.starved.saturating_add(1) } else { 0 };
        let starved = self.starved == PATIENCE;
        let factor = if starved { STARVED_FACTOR } else { FACTOR };
        let tried = (factor * next).round_ties_even().max(next + 1.0);
        let pays = (tried / next).ln() > price * (tried - next);
        let steady = (next - streams).abs() <= (STEADY * streams).max(1.0);
        if !(starved || features.quiet >= self.gap) || !steady || !pays || tried > most {
            return None;
        }
        // The moving average is steadier than the last interval, but lags behind a fall.
        let rate = if starved { features.rate } else { features.level + streams.ln() };
        self.origin = Some(Origin { streams, rate });
        Some(tried)
    }
}

/// The most streams that the policy may ask for.
pub(super) fn most(price: f64, limit: u16) -> f64 {
    (ROOM / price).min(MOST).floor().min(f64::from(limit)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::generalist::features::Seen;
    use crate::optimizer::setting::whole;
    use crate::optimizer::{Policy, PolicyName};

    const PRICE: f64 = 0.0198;

    /// Lets intervals pass in which `next` streams are wanted and those that `path` says the rate of run; answers what ran.
    fn pass(probe: &mut Probe, features: &mut Features, intervals: usize, path: impl Fn(f64) -> f64) -> Vec<u16> {
        let policy = Policy::new(PolicyName::Fair, 64);
        let (mut runs, mut all) = (10.0, Vec::new());
        for _ in 0..intervals {
            all.push(whole(runs));
            features.vector(Seen { rate: path(runs), streams: runs, loss: None }, runs.ln(), &policy);
            let next = if probe.judge(features, runs, PRICE) == Found::More { runs } else { 10.0 };
            // A probe leaves the steady state for an interval; what was wanted all along is compared with what ran.
            runs = probe.due(features, (runs, next), PRICE, 55.0).unwrap_or(next);
        }
        all
    }

    fn gaps(run: &[u16]) -> Vec<usize> {
        let probes: Vec<usize> = run.iter().enumerate().filter(|(_, streams)| **streams > 10).map(|(at, _)| at).collect();
        probes.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn probes_in_vain_come_less_and_less_often() {
        let run = pass(&mut Probe::new(), &mut Features::new(), 250, |streams| streams.min(10.0));
        assert!(run.iter().all(|streams| [10, 13].contains(streams)), "{run:?}");
        assert_eq!(run.iter().position(|streams| *streams > 10), Some(11));
        assert_eq!(gaps(&run)[..5], [16, 24, 35, 41, 41]);
    }

    #[test]
    fn a_probe_that_finds_more_is_followed_by_another_soon() {
        let mut probe = Probe::new();
        pass(&mut probe, &mut Features::new(), 13, |streams| streams);
        assert!((probe.gap - SOON).abs() < 1e-12, "{}", probe.gap);
    }

    #[test]
    fn a_gain_that_does_not_pay_for_its_streams_is_none() {
        let mut probe = Probe::new();
        // A further 3 % for 30 % more streams.
        pass(&mut probe, &mut Features::new(), 13, |streams| if streams > 10.0 { 10.3 } else { 10.0 });
        assert!((probe.gap - GAP * BACK_OFF).abs() < 1e-12, "{}", probe.gap);
    }

    #[test]
    fn whoever_is_starved_tries_twice_as_many_once() {
        let (mut probe, mut features) = (Probe::new(), Features::new());
        pass(&mut probe, &mut features, 3, |streams| streams);
        let run = pass(&mut probe, &mut features, 6, |_| 1.0);
        assert_eq!(run, [10, 10, 10, 20, 10, 10]);
    }

    #[test]
    fn no_probe_goes_where_streams_cannot_pay_or_beyond_the_limit() {
        assert!((most(PRICE, 500) - 55.0).abs() < 1e-12 && (most(0.005, 500) - MOST).abs() < 1e-12);
        assert!((most(PRICE, 7) - 7.0).abs() < 1e-12 && (most(2.0, 7) - 1.0).abs() < 1e-12);
        let policy = Policy::new(PolicyName::Fair, 64);
        let mut features = Features::new();
        for _ in 0..50 {
            features.vector(Seen { rate: 1.0, streams: 10.0, loss: None }, 2.3, &policy);
        }
        assert_eq!(Probe::new().due(&features, (10.0, 10.0), PRICE, 12.0), None);
        assert_eq!(Probe::new().due(&features, (10.0, 14.0), PRICE, 55.0), None, "it is not steady");
        assert_eq!(Probe::new().due(&features, (10.0, 10.0), 0.2, 55.0), None, "it does not pay");
        assert_eq!(Probe::new().due(&features, (10.0, 10.0), PRICE, 13.0), Some(13.0));
    }
}
