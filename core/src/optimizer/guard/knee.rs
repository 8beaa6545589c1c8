//! The collapse rule: a setting that broke the path is cut and remembered, and tried again after ever longer gaps.

use super::pairwise;
use crate::optimizer::{Decision, Observation, PerStage, Policy, pace, utility};

/// Below this share of what fewer or as many workers delivered before, an interval right after growth is a collapse.
const COLLAPSE: f64 = 0.5;

/// Intervals after growth in which a collapse is blamed on it: buffers can hide the first.
const BLAME: u32 = 2;

/// Intervals over which earlier deliveries are compared.
const RECENT: usize = 8;

/// Intervals, of a second or more, before what collapsed is tried again, at first and at most; each further collapse doubles the gap.
const GAPS: (f64, f64) = (20.0, 640.0);

/// Such intervals between two steps by which a bound rises after its gap.
const STEP: f64 = 8.0;

/// Such intervals that a path may take to recover from a collapse before what it gives then is taken for its new state.
const RECOVERY: f64 = 60.0;

pub(super) struct Knee {
    bound: Option<PerStage<u16>>,
    /// Intervals, of a second or more, until the bound rises, and how many it will be after the next collapse.
    wait: f64,
    gap: f64,
    /// Bytes per second that a stream moved before the collapse, and for how many intervals they have not come back.
    sound: f64,
    sick: f64,
    last: PerStage<u16>,
    since_growth: u32,
    /// Intervals in a row that show nothing.
    interruptions: usize,
    /// Streams and bytes per second of the last intervals.
    recent: Vec<(u16, f64)>,
}

impl Knee {
    pub(super) fn new() -> Self {
        Self {
            bound: None,
            wait: 0.0,
            gap: GAPS.0,
            sound: 0.0,
            sick: 0.0,
            last: PerStage::all(0),
            since_growth: 0,
            interruptions: 0,
            recent: Vec::new(),
        }
    }

    /// Counts an interval towards the end of the gap, where the bound rises step by step; a path that is still down is not tempted.
    pub(super) fn age(&mut self, observation: &Observation) {
        let streams = f64::from(observation.applied.concurrency.network);
        if self.sick < RECOVERY && utility::arrived(observation) < COLLAPSE * self.sound * streams {
            self.sick += pace::weight(observation.interval);
            return;
        }
        self.wait -= pace::weight(observation.interval);
        if self.wait > 0.0 {
            return;
        }
        (self.sound, self.wait) = (0.0, STEP);
        self.bound = self.bound.map(|bound| bound.map(|n| n.saturating_add(n / 3 + 1)));
        if self.bound.is_some_and(|bound| bound.network >= observation.policy.limit.network) {
            self.bound = None;
        }
    }

    /// The policy with the knee, if there is one, as its limit.
    pub(super) fn narrowed(&self, policy: &Policy) -> Policy {
        let limit = self.bound.map_or(policy.limit, |bound| pairwise(bound, policy.limit, u16::min));
        Policy { limit, ..*policy }
    }

    /// Takes note of what was decided.
    pub(super) fn decided(&mut self, concurrency: PerStage<u16>) {
        self.interruptions = 0;
        self.since_growth = if concurrency.network > self.last.network { 0 } else { self.since_growth.saturating_add(1) };
        self.last = concurrency;
    }

    /// Takes note of what was decided after an interval that shows nothing. After many of them the path may be another one, and what streams
    /// moved before says nothing any more.
    pub(super) fn interrupted(&mut self, concurrency: PerStage<u16>) {
        self.interruptions += 1;
        if self.interruptions > RECENT {
            self.recent.clear();
        }
        self.last = concurrency;
    }

    /// The cut, if the interval shows that growth broke the path.
    pub(super) fn collapsed(&mut self, observation: &Observation) -> Option<Decision> {
        let applied = observation.applied.concurrency;
        let arrived = utility::arrived(observation);
        let fewer = self.recent.iter().filter(|(n, _)| *n <= applied.network);
        let (streams, before) = fewer.fold((1, 0.0), |best, one| if one.1 > best.1 { *one } else { best });
        // As many streams that fared well a moment ago acquit growth: then the path has changed, and the optimizer shall follow it.
        let acquitted = self.recent.iter().any(|(n, rate)| *n >= applied.network && *rate >= COLLAPSE * before);
        if acquitted || self.since_growth >= BLAME || arrived >= COLLAPSE * before {
            self.remember(applied.network, arrived);
            return None;
        }
        let bound = applied.map(|n| (n - n.div_ceil(4)).max(1));
        self.bound = Some(bound);
        self.wait = self.gap;
        (self.sound, self.sick) = (before / f64::from(streams.max(1)), 0.0);
        let reason = format!(
            "guard: throughput fell to {:.0} % of what fewer streams moved when {} ran: cut, and at most {} for {:.0} intervals of a second or more",
            100.0 * arrived / before,
            applied.network,
            bound.network,
            self.gap
        );
        self.gap = (2.0 * self.gap).min(GAPS.1);
        self.since_growth = BLAME;
        self.recent.clear();
        Some(Decision { concurrency: applied.map(|n| (n / 2).max(1)), ..Decision::uniform(1, reason) })
    }

    fn remember(&mut self, streams: u16, rate: f64) {
        if self.recent.len() == RECENT {
            self.recent.remove(0);
        }
        self.recent.push((streams, rate));
    }
}
