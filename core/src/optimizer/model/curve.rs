//! Hypotheses about a stage: curves of throughput over workers, each without a scale.
//!
//! With `n` workers, `n*` that fill the stage, `x = n / n*` the load and `r` what a worker moves alone, the curve of a stage that is one's
//! own is `T(n) = r n / (1 + x^p)^(1/p) / (1 + b max(0, x - 1))`. The knee `p` is sharp where a path is capped and soft where queues
//! smooth it; `b` is what too many workers cost.
//!
//! On a path that `m` streams of others share, which `q m` streams fill, each gets the same part as soon as it is full:
//! `T(n) = r n min(1, q m / (n + m))`. What `r` and `q m` are is known from before the others came (`fit`), and so these curves tell others
//! who came from a path that became a worse one.

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

/// The workers that fill a stage, or the streams of others: so many values, evenly spread over their logarithm.
const SATURATIONS: usize = 72;

/// The least and the most of them. Below one, a single worker asks for more than there is.
const RANGE: (f64, f64) = (0.5, 300.0);

/// Curves of a stage of one's own: knee, contention, and how likely the family is before anything was seen.
const OWN: [(f64, f64, f64); 5] = [(2.0, 0.0, 1.0), (6.0, 0.0, 1.0), (30.0, 0.0, 2.0), (30.0, 1.0, 0.7), (6.0, 0.4, 0.7)];

/// Curves of a path among others: streams that fill it as a multiple of those of others, and how likely the family is while nothing tells
/// of others. In the first ones, the others are more than fill it, which only tells from a softer knee who knows what fills it; where there
/// is neither room nor lack, they fill it alone.
const AMONG: [(f64, f64); 10] = [
    (0.4, 0.1),
    (0.55, 0.1),
    (0.75, 0.1),
    (1.0, 0.2),
    (1.25, 0.08),
    (1.5, 0.08),
    (1.75, 0.06),
    (2.0, 0.06),
    (2.5, 0.06),
    (3.3, 0.06),
];

/// The part of others' streams up to which own ones are worth having beyond what the others leave: a little less than theirs, so that two
/// transfers that think alike become fewer together, instead of racing each other.
const FAIR_PART: f64 = 0.8;

/// Where it is known how many streams fill the path, no more than this part of them: several others look like one of many streams, and who
/// wants nearly as many as all of them races them.
const FULL_PART: f64 = 0.8;

/// Up to so many workers what the hypotheses say of them is computed once.
const MOST_COMPUTED: usize = 256;

/// One hypothesis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curve {
    /// Workers that fill the stage; where others share it, their streams.
    pub(super) saturation: f64,
    /// Logarithm of how likely it is, up to a constant, before anything was seen.
    pub(super) prior: f64,
    family: Family,
}

#[derive(Debug, Clone, Copy)]
enum Family {
    /// A stage of one's own.
    Own { knee: f64, contention: f64 },
    /// A path among others that so many times their streams fill.
    Among { room: f64 },
}

impl Curve {
    /// The logarithm of what so many workers move, in units of what one moves alone on an empty stage.
    pub(super) fn bend(&self, workers: f64) -> f64 {
        let load = workers / self.saturation;
        match self.family {
            Family::Own { knee, contention } => {
                let cost = (contention * (load - 1.0).max(0.0)).ln_1p();
                workers.ln() - load.powf(knee).ln_1p() / knee - cost
            }
            Family::Among { room } => workers.ln() + (room.ln() - load.ln_1p()).min(0.0),
        }
    }

    /// The same where no others are, for so few that they do not fill the stage.
    pub(super) fn bend_alone(&self, workers: f64) -> f64 {
        match self.family {
            Family::Own { .. } => self.bend(workers),
            Family::Among { .. } => workers.ln(),
        }
    }

    /// So many workers, or as many of them whose gain is not taken from others: those that others leave room for, and a fair part, by whether
    /// it is known how many streams fill the path.
    pub(super) fn fair(&self, workers: f64, known: bool) -> f64 {
        match self.family {
            Family::Own { .. } => workers,
            Family::Among { room } => {
                let part = if known { FAIR_PART.min(FULL_PART * room) } else { FAIR_PART };
                workers.min((part.max(room - 1.0) * self.saturation).max(1.0))
            }
        }
    }

    /// Workers of one's own that fill the stage: beside others on a full path, none.
    pub(super) fn full(&self) -> f64 {
        match self.family {
            Family::Own { .. } => self.saturation,
            Family::Among { room } => (room - 1.0).max(0.0) * self.saturation,
        }
    }

    /// All workers, so many of one's own among them, as a multiple of those that fill the stage.
    pub(super) fn load(&self, workers: f64) -> f64 {
        match self.family {
            Family::Own { .. } => workers / self.saturation,
            Family::Among { room } => (workers + self.saturation) / (room * self.saturation),
        }
    }

    /// Whether it is one of a path among others.
    pub(super) fn is_among(&self) -> bool {
        matches!(self.family, Family::Among { .. })
    }

    /// Whether it is one of a path that others' streams more than fill.
    pub(super) fn is_overfull(&self) -> bool {
        matches!(self.family, Family::Among { room } if room < 1.0)
    }

    /// What a full stage moves, in the same units.
    pub(super) fn capacity(&self) -> f64 {
        match self.family {
            Family::Own { .. } => self.saturation,
            Family::Among { room } => room * self.saturation,
        }
    }
}

/// All hypotheses, family by family.
pub(super) fn curves() -> &'static [Curve] {
    static CURVES: LazyLock<Vec<Curve>> = LazyLock::new(|| {
        let (least, most) = RANGE;
        let step = (most / least).ln() / (SATURATIONS - 1) as f64;
        let own = OWN.iter().map(|&(knee, contention, weight)| (Family::Own { knee, contention }, weight));
        let among = AMONG.iter().map(|&(room, weight)| (Family::Among { room }, weight));
        let of_family = |(family, weight): (Family, f64)| {
            (0..SATURATIONS).map(move |index| Curve {
                saturation: least * (step * index as f64).exp(),
                prior: weight.ln(),
                family,
            })
        };
        own.chain(among).flat_map(of_family).collect()
    });
    &CURVES
}

/// What so many workers move that are worth having, by each hypothesis, in units of what one moves alone on an empty stage, and by whether
/// it is known how many streams fill the path.
pub(super) fn worths(workers: u16, known: bool) -> Cow<'static, [f64]> {
    static COMPUTED: [[OnceLock<Box<[f64]>>; MOST_COMPUTED]; 2] = [const { [const { OnceLock::new() }; MOST_COMPUTED] }; 2];
    let n = f64::from(workers);
    let compute = || curves().iter().map(|curve| curve.bend(curve.fair(n, known)).exp()).collect::<Box<[f64]>>();
    match COMPUTED[usize::from(known)].get(usize::from(workers)) {
        Some(computed) => Cow::Borrowed(computed.get_or_init(compute)),
        None => Cow::Owned(compute().into_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(saturation: f64, knee: f64, contention: f64) -> Curve {
        Curve { saturation, prior: 0.0, family: Family::Own { knee, contention } }
    }

    fn among(others: f64, room: f64) -> Curve {
        Curve { saturation: others, prior: 0.0, family: Family::Among { room } }
    }

    #[test]
    fn a_sharp_curve_rises_in_proportion_and_then_no_more() {
        let units = |workers: f64| own(10.0, 30.0, 0.0).bend(workers).exp();
        assert!((units(1.0) - 1.0).abs() < 1e-9 && (units(5.0) - 5.0).abs() < 1e-6);
        assert!((units(20.0) - 10.0).abs() < 1e-6 && (units(300.0) - 10.0).abs() < 1e-6);
    }

    #[test]
    fn among_others_streams_get_a_share_once_the_path_is_full() {
        // Eight streams of others on a path that twelve fill.
        let curve = among(8.0, 1.5);
        for (workers, moved) in [(1.0, 1.0), (4.0, 4.0), (8.0, 6.0), (16.0, 8.0)] {
            assert!((curve.bend(workers).exp() - moved).abs() < 1e-9, "{workers}");
        }
        assert!((curve.capacity() - 12.0).abs() < 1e-9 && (curve.bend(1e9).exp() - 12.0).abs() < 1e-3);
    }

    #[test]
    fn what_others_leave_is_worth_having_and_a_fair_part_of_theirs() {
        let fair = |others, room, known| among(others, room).fair(100.0, known);
        // Ten of others on paths that thirty, ten and four fill.
        for (room, unknown, known) in [(3.0, 20.0, 20.0), (1.0, 8.0, 8.0), (0.4, 8.0, 3.2)] {
            assert!((fair(10.0, room, false) - unknown).abs() < 1e-9 && (fair(10.0, room, true) - known).abs() < 1e-9, "{room}");
        }
        assert!((among(10.0, 1.25).fair(2.0, false) - 2.0).abs() < 1e-9 && (fair(0.5, 1.0, true) - 1.0).abs() < 1e-9);
        assert!((own(10.0, 30.0, 0.0).fair(100.0, true) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn the_load_of_a_path_among_others_is_theirs_too_and_one_where_own_streams_fill_what_is_left() {
        let (alone, roomy, filled) = (own(10.0, 2.0, 0.0), among(8.0, 1.5), among(8.0, 1.0));
        for (curve, full) in [(alone, 10.0), (roomy, 4.0), (filled, 0.0)] {
            assert!((curve.full() - full).abs() < 1e-9 && (curve.load(full) - 1.0).abs() < 1e-9, "{curve:?}");
        }
        assert!((alone.load(5.0) - 0.5).abs() < 1e-9 && (roomy.load(16.0) - 2.0).abs() < 1e-9);
        assert!((filled.load(2.0) - 1.25).abs() < 1e-9);
    }

    #[test]
    fn contention_makes_too_many_worse_than_enough() {
        let curve = own(10.0, 30.0, 1.0);
        assert!(curve.bend(20.0) < curve.bend(10.0) && curve.bend(10.0) > curve.bend(5.0));
    }

    #[test]
    fn every_curve_is_finite_for_any_number_of_workers() {
        for workers in [0.01, 1.0, 65_535.0] {
            assert!(curves().iter().all(|curve| curve.bend(workers).is_finite()), "{workers}");
        }
    }
}
