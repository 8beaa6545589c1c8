//! A setting as logs and knowledge name it, what it is in a decision, and what a policy allows of it.
//!
//! The papers' (cc, p, pp) becomes edt's terms like this: cc files with p streams each are cc p streams, of which at most p may
//! work on one file at a time. So the concurrency of all stages is cc p, the parallelism p, the pipelining pp. Where parallelism
//! has no limit, as in edt's other optimizers, the streams do not belong to files, and cc is their number. What other tools log as
//! pipelining 0, one request at a time, is 1 here: edt's 0, a new stream after each chunk, is for a policy alone to ask for.

use crate::optimizer::{Decision, Policy};

/// Stands for no limit of parallelism or pipelining.
const NO_LIMIT: u16 = u16::MAX;

/// The parameters that are tuned: theta = {p, cc, pp} [ASM section 3].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setting {
    /// Streams for each file; `u16::MAX` for no limit.
    pub parallelism: u16,
    /// Files in flight at once; where parallelism has no limit, streams.
    pub concurrency: u16,
    /// Requests that a stream may have unanswered, at least 1 unless a policy leaves none; `u16::MAX` for no limit.
    pub pipelining: u16,
}

impl Setting {
    /// Streams that it takes.
    pub fn streams(self) -> u16 {
        if self.parallelism == NO_LIMIT { self.concurrency } else { self.concurrency.saturating_mul(self.parallelism) }
    }

    /// Which of parallelism and pipelining have no limit.
    pub(super) fn unlimited(self) -> [bool; 2] {
        [self.parallelism == NO_LIMIT, self.pipelining == NO_LIMIT]
    }

    /// Whether it is the same as another, but for a few streams that were opened or closed during an interval.
    pub(super) fn resembles(self, other: Self) -> bool {
        let (few, many) = (self.streams().min(other.streams()), self.streams().max(other.streams()));
        many - few <= many / 8 && (self.parallelism, self.pipelining) == (other.parallelism, other.pipelining)
    }

    /// The setting that was in effect.
    pub(super) fn applied(decision: &Decision) -> Self {
        let streams = decision.concurrency.network.max(1);
        let parallelism = shared(decision.parallelism, streams);
        let concurrency = match parallelism {
            NO_LIMIT => streams,
            p => (streams.saturating_add(p / 2) / p).max(1),
        };
        Self { parallelism, concurrency, pipelining: decision.pipelining }
    }

    pub(super) fn decision(self, reason: String) -> Decision {
        let of_streams = Decision::uniform(self.streams().max(1), reason);
        Decision { parallelism: self.parallelism, pipelining: self.pipelining, ..of_streams }
    }
}

/// For people: `4 x 2 streams, pipelining 8`.
impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.parallelism {
            NO_LIMIT => write!(f, "{} streams", self.concurrency)?,
            p => write!(f, "{} x {p} streams", self.concurrency)?,
        }
        match self.pipelining {
            NO_LIMIT => Ok(()),
            pp => write!(f, ", pipelining {pp}"),
        }
    }
}

/// No more streams can work on a file than there are.
fn shared(parallelism: u16, streams: u16) -> u16 {
    if parallelism == NO_LIMIT { NO_LIMIT } else { parallelism.clamp(1, streams) }
}

/// What a policy allows: cc p at most N, pp at most P [ASM eq. 2].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most streams.
    pub streams: u16,
    /// Most streams for one file; `u16::MAX` for no limit.
    pub parallelism: u16,
    /// Most unanswered requests of a stream; `u16::MAX` for no limit.
    pub pipelining: u16,
}

impl Bounds {
    /// No limits.
    pub const NONE: Self = Self { streams: u16::MAX, parallelism: NO_LIMIT, pipelining: NO_LIMIT };

    /// Those of a policy.
    pub fn of(policy: &Policy) -> Self {
        Self { streams: policy.limit.network.max(1), parallelism: policy.parallelism.max(1), pipelining: policy.pipelining }
    }

    /// Whether a setting keeps to them.
    pub fn allow(self, setting: Setting) -> bool {
        setting.streams() <= self.streams && setting.parallelism <= self.parallelism && setting.pipelining <= self.pipelining
    }

    /// The setting, or what is left of it.
    pub fn within(self, setting: Setting) -> Setting {
        let streams = setting.streams().min(self.streams).max(1);
        let parallelism = shared(setting.parallelism.min(self.parallelism), streams);
        let concurrency = if parallelism == NO_LIMIT { streams } else { (streams / parallelism).max(1) };
        Setting { parallelism, concurrency, pipelining: setting.pipelining.min(self.pipelining) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::{PerStage, PolicyName};

    fn setting(parallelism: u16, concurrency: u16, pipelining: u16) -> Setting {
        Setting { parallelism, concurrency, pipelining }
    }

    #[test]
    fn files_times_their_streams_are_the_streams_of_a_decision_and_back() {
        for (setting, streams) in [(setting(2, 8, 4), 16), (setting(1, 5, 0), 5), (setting(NO_LIMIT, 12, NO_LIMIT), 12)] {
            let decision = setting.decision(String::new());
            assert_eq!((decision.concurrency, setting.streams()), (PerStage::all(streams), streams));
            assert_eq!(Setting::applied(&decision), setting);
        }
        let fewer = Decision { concurrency: PerStage::all(6), ..setting(16, 2, 4).decision(String::new()) };
        assert_eq!(Setting::applied(&fewer), setting(6, 1, 4));
        let uneven = Decision { concurrency: PerStage::all(15), ..setting(4, 4, 4).decision(String::new()) };
        assert_eq!(Setting::applied(&uneven), setting(4, 4, 4));
    }

    #[test]
    fn a_policy_leaves_what_it_allows_of_a_setting() {
        let mut policy = Policy::new(PolicyName::Fair, 20);
        let bounds = Bounds::of(&policy);
        assert!(bounds.allow(setting(4, 5, NO_LIMIT)) && !bounds.allow(setting(4, 6, 1)));
        assert_eq!(bounds.within(setting(4, 5, 9)), setting(4, 5, 9));
        assert_eq!(bounds.within(setting(8, 8, 9)), setting(8, 2, 9));
        assert_eq!(bounds.within(setting(32, 32, 9)), setting(20, 1, 9));
        assert_eq!(bounds.within(setting(NO_LIMIT, 64, 9)), setting(NO_LIMIT, 20, 9));
        (policy.parallelism, policy.pipelining) = (2, 0);
        assert!(!Bounds::of(&policy).allow(setting(NO_LIMIT, 1, 0)));
        assert_eq!(Bounds::of(&policy).within(setting(NO_LIMIT, 8, 9)), setting(2, 4, 0));
    }
}
