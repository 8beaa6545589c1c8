//! A setting of the three parameters that most papers tune, and how it maps onto the engine.
//!
//! `concurrency` files are in flight at once, each in `parallelism` chunks, so that there are `concurrency * parallelism` streams
//! [Falcon §5.4]; a stream may have `pipelining` chunks unacknowledged. Reading and writing get as many workers as there are streams.

use std::fmt;

use super::falcon::is_far;
use super::guard::within;
use super::{Decision, Observation, PerStage, Policy};

/// Most chunks of one file in flight that a search goes up to.
pub(super) const MOST_PARALLELISM: u16 = 16;

/// Most unacknowledged chunks of a stream that a search goes up to.
pub(super) const MOST_PIPELINING: u16 = 64;

/// A setting of all three parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    /// Files in flight at once.
    pub(super) concurrency: u16,
    /// Chunks of each of them in flight at once.
    pub(super) parallelism: u16,
    /// Chunks that a stream may have unacknowledged.
    pub(super) pipelining: u16,
}

impl Setting {
    pub(super) const fn new(concurrency: u16, parallelism: u16, pipelining: u16) -> Self {
        Self { concurrency, parallelism, pipelining }
    }

    pub(super) fn streams(self) -> u16 {
        self.concurrency.saturating_mul(self.parallelism)
    }

    /// The nearest setting that the policy permits; where there would be too many streams, fewer files are in flight.
    pub(super) fn within(self, policy: &Policy) -> Self {
        let limit = policy.limit.network.max(1);
        let parallelism = self.parallelism.clamp(1, policy.parallelism.clamp(1, limit));
        let concurrency = self.concurrency.clamp(1, limit / parallelism);
        Self { concurrency, parallelism, pipelining: self.pipelining.clamp(1, policy.pipelining.max(1)) }
    }

    /// The decision for this setting, or for the nearest one that the policy permits.
    pub(super) fn decision(self, policy: &Policy, reason: impl Into<String>) -> Decision {
        let permitted = self.within(policy);
        let of_streams = with_streams(permitted.streams(), policy, reason);
        Decision { parallelism: permitted.parallelism, pipelining: permitted.pipelining, ..of_streams }
    }

    /// What ran in an interval for which this was asked: this, or what the guard or a server put in its place; `None` where that had no
    /// limits within streams and files, as after a cut by the guard, so that it is no point of the space that is searched.
    pub(super) fn ran(self, observation: &Observation) -> Option<Self> {
        let Decision { concurrency, parallelism, pipelining, .. } = &observation.applied;
        let (streams, parallelism, pipelining) = (concurrency.network, (*parallelism).max(1), (*pipelining).max(1));
        if (parallelism, pipelining) == (self.parallelism, self.pipelining) && !is_far(streams, self.streams()) {
            return Some(self);
        }
        if parallelism == u16::MAX || pipelining == u16::MAX {
            return None;
        }
        let files = whole(f64::from(streams) / f64::from(parallelism));
        Some(Self::new(files, parallelism, pipelining))
    }

    /// Where it lies in the space of a search: binary logarithms, so that equal steps are equal factors.
    pub(super) fn point(self) -> [f64; 3] {
        [self.concurrency, self.parallelism, self.pipelining].map(|value| f64::from(value.max(1)).log2())
    }

    /// The setting nearest to a point, within the policy and the bounds of a search.
    pub(super) fn nearest(point: [f64; 3], policy: &Policy) -> Self {
        let [concurrency, parallelism, pipelining] = point.map(|value| whole(value.exp2()));
        Self::new(concurrency, parallelism.min(MOST_PARALLELISM), pipelining.min(MOST_PIPELINING)).within(policy)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "concurrency {}, parallelism {}, pipelining {}", self.concurrency, self.parallelism, self.pipelining)
    }
}

/// The decision for so many streams, or as many as the policy permits, without limits within streams and files.
pub(super) fn with_streams(streams: u16, policy: &Policy, reason: impl Into<String>) -> Decision {
    Decision { concurrency: within(PerStage::all(streams), policy.limit), ..Decision::uniform(1, reason) }
}

/// The nearest whole number from 1 to 65,535.
pub(super) fn whole(value: f64) -> u16 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = value.round().clamp(1.0, f64::from(u16::MAX)) as u16;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::PolicyName;

    fn policy(limit: u16) -> Policy {
        Policy::new(PolicyName::Fair, limit)
    }

    #[test]
    fn the_streams_are_files_times_chunks_of_each_and_all_stages_get_as_many_workers() {
        let decision = Setting::new(4, 3, 8).decision(&policy(64), "");
        assert_eq!((decision.concurrency, decision.parallelism, decision.pipelining), (PerStage::all(12), 3, 8));
    }

    #[test]
    fn where_there_are_too_many_streams_fewer_files_are_in_flight() {
        assert_eq!(Setting::new(10, 4, 2).within(&policy(20)), Setting::new(5, 4, 2));
        assert_eq!(Setting::new(10, 40, 2).within(&policy(20)), Setting::new(1, 20, 2));
        let narrow = Policy { parallelism: 1, pipelining: 0, ..policy(20) };
        assert_eq!(Setting::new(10, 4, 9).within(&narrow), Setting::new(10, 1, 1));
    }

    #[test]
    fn a_point_leads_back_to_its_setting_and_none_leads_out_of_the_bounds() {
        for setting in [Setting::new(1, 1, 1), Setting::new(5, 3, 7), Setting::new(4, 16, 64)] {
            assert_eq!(Setting::nearest(setting.point(), &policy(64)), setting);
        }
        assert_eq!(Setting::nearest([99.0, 99.0, 99.0], &policy(64)), Setting::new(4, 16, 64));
        assert_eq!(Setting::nearest([-9.0, f64::NEG_INFINITY, -1.0], &policy(64)), Setting::new(1, 1, 1));
    }

    #[test]
    fn what_ran_is_what_was_asked_for_unless_it_is_far_from_it() {
        let asked = Setting::new(4, 2, 8);
        let observed = |applied: Decision| Observation::of_a_test(applied, 1.0, 64);
        let mut applied = asked.decision(&policy(64), "");
        assert_eq!(asked.ran(&observed(applied.clone())), Some(asked));
        applied.concurrency = PerStage::all(7);
        assert_eq!(asked.ran(&observed(applied.clone())), Some(asked), "a stream that is missing for a moment says nothing");
        applied.concurrency = PerStage::all(20);
        assert_eq!(asked.ran(&observed(applied)), Some(Setting::new(10, 2, 8)));
        assert_eq!(asked.ran(&observed(Decision::uniform(8, "cut"))), None);
    }
}
