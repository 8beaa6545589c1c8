//! Hypotheses about a stage: curves of throughput over workers, each without a scale.
//!
//! With `n` workers, `n*` that fill the stage, `x = n / n*` the load and `r` what a worker moves alone, a curve is
//! `T(n) = r n / (1 + x^p)^(1/p) / (1 + b max(0, x - 1))`. The knee `p` is sharp where a path is capped and soft where queues and others
//! smooth it; `b` is what too many workers cost. With `p = 1` it is `r n* n / (n + n*)`, which is also the share of `n` streams in a full
//! path beside `n*` streams of others: these curves stand for competition.

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

/// The workers that fill a stage: so many values, evenly spread over their logarithm.
const SATURATIONS: usize = 72;

/// The least and the most of them. Below one, a single worker asks for more than there is.
const RANGE: (f64, f64) = (0.5, 300.0);

/// Knee, contention, and how likely the family is before anything was seen.
const FAMILIES: [(f64, f64, f64); 6] =
    [(1.0, 0.0, 0.2), (2.0, 0.0, 1.0), (6.0, 0.0, 1.0), (30.0, 0.0, 2.0), (30.0, 1.0, 0.7), (6.0, 0.4, 0.7)];

/// The part of others' streams up to which own ones are worth having: a little less than theirs, so that two transfers that think alike
/// become fewer together, instead of racing each other.
const FAIR_PART: f64 = 0.8;

/// Up to so many workers what the hypotheses say of them is computed once.
const MOST_KNOWN: usize = 256;

/// One hypothesis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curve {
    /// Workers that fill the stage; where others share it, their streams.
    pub(super) saturation: f64,
    /// Logarithm of how likely it is, up to a constant, before anything was seen.
    pub(super) prior: f64,
    knee: f64,
    contention: f64,
    /// Whether it stands for a path that is full of others' streams.
    shared: bool,
}

impl Curve {
    /// The logarithm of what so many workers move, in units of what one moves alone on an empty stage.
    pub(super) fn bend(&self, workers: f64) -> f64 {
        let load = workers / self.saturation;
        let knee = load.powf(self.knee).ln_1p() / self.knee;
        let cost = (self.contention * (load - 1.0).max(0.0)).ln_1p();
        workers.ln() - knee - cost
    }

    /// So many workers, or as many of them whose gain is not taken from others.
    pub(super) fn fair(&self, workers: f64) -> f64 {
        if self.shared { workers.min((FAIR_PART * self.saturation).max(1.0)) } else { workers }
    }
}

/// All hypotheses, family by family.
pub(super) fn curves() -> &'static [Curve] {
    static CURVES: LazyLock<Vec<Curve>> = LazyLock::new(|| {
        let (least, most) = RANGE;
        let step = (most / least).ln() / (SATURATIONS - 1) as f64;
        let families = FAMILIES.iter().enumerate();
        let of_family = |(family, &(knee, contention, weight)): (usize, &(f64, f64, f64))| {
            (0..SATURATIONS).map(move |index| Curve {
                saturation: least * (step * index as f64).exp(),
                prior: weight.ln(),
                knee,
                contention,
                shared: family == 0,
            })
        };
        families.flat_map(of_family).collect()
    });
    &CURVES
}

/// What so many workers move that are worth having, by each hypothesis, in units of what one moves alone on an empty stage.
pub(super) fn worths(workers: u16) -> Cow<'static, [f64]> {
    static KNOWN: [OnceLock<Box<[f64]>>; MOST_KNOWN] = [const { OnceLock::new() }; MOST_KNOWN];
    let n = f64::from(workers);
    let compute = || curves().iter().map(|curve| curve.bend(curve.fair(n)).exp()).collect::<Box<[f64]>>();
    match KNOWN.get(usize::from(workers)) {
        Some(known) => Cow::Borrowed(known.get_or_init(compute)),
        None => Cow::Owned(compute().into_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sharp_curve_rises_in_proportion_and_then_no_more() {
        let curve = Curve { saturation: 10.0, prior: 0.0, knee: 30.0, contention: 0.0, shared: false };
        let units = |workers: f64| curve.bend(workers).exp();
        assert!((units(1.0) - 1.0).abs() < 1e-9 && (units(5.0) - 5.0).abs() < 1e-6);
        assert!((units(20.0) - 10.0).abs() < 1e-6 && (units(300.0) - 10.0).abs() < 1e-6);
    }

    #[test]
    fn the_softest_curve_is_a_share_among_others() {
        let curve = curves().iter().find(|curve| curve.shared && curve.saturation > 8.0).unwrap();
        let (n, others) = (4.0, curve.saturation);
        assert!((curve.bend(n).exp() - others * n / (n + others)).abs() < 1e-9);
        assert!((curve.fair(100.0) - 0.8 * others).abs() < 1e-9 && (curve.fair(2.0) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn contention_makes_too_many_worse_than_enough() {
        let curve = Curve { saturation: 10.0, prior: 0.0, knee: 30.0, contention: 1.0, shared: false };
        assert!(curve.bend(20.0) < curve.bend(10.0) && curve.bend(10.0) > curve.bend(5.0));
    }

    #[test]
    fn every_curve_is_finite_for_any_number_of_workers() {
        for workers in [0.01, 1.0, 65_535.0] {
            assert!(curves().iter().all(|curve| curve.bend(workers).is_finite()), "{workers}");
        }
    }
}
