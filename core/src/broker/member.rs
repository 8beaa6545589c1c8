//! The part of one transfer in the sharing: what it tells the others, and what it may have.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::broker::Limits;
use crate::broker::state::{Claim, State, Use};
use crate::optimizer::{Decision, PerStage, Policy};
use crate::sync::{Mutex, MutexGuard};

/// A transfer among the others of its host, or one that takes no part. A clone is the same.
#[derive(Clone, Default)]
pub struct Member(Option<Arc<Place>>);

struct Place {
    /// The process whose transfer it is: one that was forked from it must not speak for it.
    process: u32,
    state: Mutex<State>,
}

impl Member {
    /// Takes a place, if there are to be limits; as long as none can be had the transfer is held to its own.
    pub(crate) fn join(limits: Option<Limits>, claim: Claim) -> Self {
        limits.map_or_else(Self::default, |limits| Self::join_at(None, limits, claim))
    }

    /// One of the transfers that meet in a directory, with such limits.
    #[cfg(test)]
    pub(crate) fn of_a_test(directory: &std::path::Path, streams: Option<u16>, rate: Option<f64>) -> Self {
        let (policy, here) = (crate::optimizer::PolicyName::Fair, PerStage::all(true));
        let claim = Claim { server: String::new(), policy, limit: 64, here, memory: 1 << 20, rate: None };
        Self::join_at(Some(directory.to_owned()), Limits { streams, rate, ..Limits::default() }, claim)
    }

    fn join_at(directory: Option<PathBuf>, limits: Limits, claim: Claim) -> Self {
        let state = Mutex::new(State::join(directory, limits, claim));
        Self(Some(Arc::new(Place { process: std::process::id(), state })))
    }

    /// Whether this transfer takes part.
    pub(crate) fn takes_part(&self) -> bool {
        self.0.is_some()
    }

    /// The policy within what this transfer may have now, until [`Member::settle`] tells what it takes of it.
    pub(crate) fn ask(&self, policy: &Policy, used: Option<Use>) -> Policy {
        let Some(mut state) = self.state() else { return *policy };
        state.ask(used);
        let (share, here) = (state.share.streams, state.claim.here);
        let within = |limit: u16, here: bool| if here { limit.min(share) } else { limit };
        let limit = policy.limit;
        let limit = PerStage {
            read: within(limit.read, here.read),
            network: within(limit.network, here.network),
            write: within(limit.write, here.write),
        };
        Policy { limit, ..*policy }
    }

    /// Takes what was decided, and adds to its reason what the sharing has to do with it.
    pub(crate) fn settle(&self, mut decision: Decision) -> Decision {
        let Some(mut state) = self.state() else { return decision };
        let decided = state.largest(decision.concurrency);
        state.settle(decided);
        if decided >= state.share.streams && state.share.streams < state.claim.limit {
            decision.reason = format!("{}; {}", decision.reason, state.share.reason());
        }
        if state.share.rate.is_some_and(|(rate, _)| state.record.rate_wanted > rate)
            && let Some(reason) = state.share.rate_reason()
        {
            decision.reason = format!("{}; {reason}", decision.reason);
        }
        decision
    }

    /// Tells the others that this transfer lives, and what it uses now.
    pub(crate) fn beat(&self, used: Use) {
        if let Some(mut state) = self.state() {
            state.measured(used);
            state.write();
        }
    }

    /// Gives everything back until the next [`Member::ask`], as between two sessions.
    pub(crate) fn leave(&self) {
        if let Some(mut state) = self.state() {
            state.leave();
        }
    }

    /// The bytes per second that all may move together; `None` for no limit.
    pub(crate) fn host_rate(&self) -> Option<f64> {
        self.state()?.share.rate.map(|(_, total)| total)
    }

    /// Most bytes per second that this transfer may move, 0 for no limit any more; `None` if there has never been one.
    pub(crate) fn rate(&self) -> Option<u64> {
        let state = self.state()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is at least 1, and the cast saturates"
        )]
        let rate = |(share, _): (f64, f64)| share as u64;
        state.limited.then(|| state.share.rate.map_or(0, rate))
    }

    /// Bytes that this transfer may hold in buffers, of both halves together where both are here; `None` where nothing limits them.
    pub(crate) fn memory(&self) -> Option<u64> {
        let state = self.state()?;
        Some(state.share.memory.min(state.claim.memory))
    }

    fn state(&self) -> Option<MutexGuard<'_, State>> {
        let place = self.0.as_ref().filter(|place| place.process == std::process::id())?;
        Some(place.state.lock())
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Member" } else { "Member(apart)" })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.state.get_mut().leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::PolicyName;

    fn claim(limit: u16) -> Claim {
        let (policy, here) = (PolicyName::Fair, PerStage { read: true, network: true, write: false });
        Claim { server: "dtn_7632".to_owned(), policy, limit, here, memory: 96 << 20, rate: None }
    }

    fn joined(place: &tempfile::TempDir, limits: Limits) -> Member {
        Member::join_at(Some(place.path().join("edt")), limits, claim(64))
    }

    fn of_sixteen() -> Limits {
        Limits { streams: Some(16), ..Limits::default() }
    }

    fn policy() -> Policy {
        Policy::new(PolicyName::Fair, 64)
    }

    /// An interval with so many streams; what is decided is as much as may be.
    fn interval(member: &Member, used: u16) -> (u16, String) {
        let used = Use { workers: PerStage::all(f64::from(used)), rate: 1e6 };
        let limit = member.ask(&policy(), Some(used)).limit;
        let decision = member.settle(Decision::uniform(limit.network, "as many as may be"));
        assert_eq!((limit.read, limit.write), (limit.network, 64));
        (limit.network, decision.reason)
    }

    #[test]
    fn two_share_and_one_has_all_again_when_the_other_has_ended() {
        let place = tempfile::tempdir().unwrap();
        let one = joined(&place, of_sixteen());
        assert_eq!(interval(&one, 1), (16, "as many as may be; 16 of 16 streams: the limit of this host".to_owned()));
        let two = joined(&place, of_sixteen());
        assert_eq!(interval(&two, 1).0, 1);
        assert_eq!(interval(&one, 16).0, 8);
        // What the first has given up it still uses.
        assert_eq!(interval(&two, 1).0, 1);
        one.beat(Use { workers: PerStage::all(8.0), rate: 1e6 });
        let both = "as many as may be; 8 of 16 streams: 2 transfers share this host";
        assert_eq!(interval(&two, 1), (8, both.to_owned()));
        drop(one);
        assert_eq!(interval(&two, 8).0, 16);
    }

    #[test]
    fn one_who_was_killed_leaves_its_share_at_once() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (joined(&place, of_sixteen()), joined(&place, of_sixteen()));
        assert_eq!((interval(&one, 1).0, interval(&two, 1).0), (15, 1));
        let mut killed = Arc::into_inner(one.0.unwrap()).unwrap();
        // Of another process nothing is given back, and only its files are closed: as the system does it.
        killed.process = 0;
        drop(killed);
        assert_eq!(interval(&two, 1).0, 16);
    }

    #[test]
    fn one_who_is_silent_for_long_is_not_counted() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (joined(&place, of_sixteen()), joined(&place, of_sixteen()));
        interval(&one, 1);
        one.state().unwrap().fall_silent();
        assert_eq!(interval(&two, 1).0, 16);
        // And what it comes back to is not what it had, whatever it says first.
        assert_eq!(interval(&one, 1).0, 1);
        interval(&two, 1);
        assert_eq!(interval(&one, 1).0, 8);
        one.state().unwrap().fall_silent();
        assert_eq!(interval(&two, 1).0, 16);
        one.beat(Use { workers: PerStage::all(1.0), rate: 1e6 });
        assert_eq!(interval(&one, 1).0, 1);
    }

    #[test]
    fn a_rate_of_the_host_is_told_and_given_up_again() {
        let place = tempfile::tempdir().unwrap();
        let limits = Limits { rate: Some(10e6), ..Limits::default() };
        let one = joined(&place, Limits::default());
        interval(&one, 1);
        assert_eq!(one.rate(), None);
        let two = joined(&place, limits);
        interval(&two, 1);
        let (_, reason) = interval(&one, 1);
        assert!(one.rate().unwrap() >= 2_500_000 && reason.contains("the rate of this host"), "{reason}");
        drop(two);
        interval(&one, 1);
        assert_eq!(one.rate(), Some(0));
    }

    #[test]
    fn between_two_sessions_nothing_is_held() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (joined(&place, of_sixteen()), joined(&place, of_sixteen()));
        interval(&one, 1);
        assert_eq!(interval(&two, 1).0, 1);
        one.leave();
        one.beat(Use { workers: PerStage::all(9.0), rate: 1e6 });
        assert_eq!(interval(&two, 1).0, 16);
        assert_eq!(interval(&one, 1).0, 1);
    }

    #[test]
    #[cfg(unix)]
    fn who_finds_no_place_keeps_to_a_part_of_the_limits_and_takes_a_place_when_there_is_one() {
        let place = tempfile::tempdir().unwrap();
        let (one, obstacle) = (joined(&place, of_sixteen()), place.path().join("edt").join("transfers-1.lock"));
        std::fs::remove_file(&obstacle).unwrap();
        std::fs::create_dir(&obstacle).unwrap();
        let limits = Limits { rate: Some(10e6), memory: Some(32 << 20), ..of_sixteen() };
        let two = joined(&place, limits);
        for _ in 0..2 {
            let (streams, reason) = interval(&two, 1);
            assert_eq!(streams, 4);
            assert!(reason.contains("4 of 16 streams: the other transfers of this host cannot be seen"), "{reason}");
            assert_eq!((two.rate(), two.memory()), (Some(2_500_000), Some(16 << 20)));
        }
        std::fs::remove_dir(&obstacle).unwrap();
        let mut used = [1, 4];
        for _ in 0..6 {
            used = [interval(&one, used[0]).0, interval(&two, used[1]).0];
        }
        assert_eq!(used, [8, 8]);
    }

    #[test]
    #[cfg(unix)]
    fn who_loses_its_place_keeps_the_share_that_it_had() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (joined(&place, of_sixteen()), joined(&place, of_sixteen()));
        let mut used = [1, 1];
        for _ in 0..6 {
            used = [interval(&one, used[0]).0, interval(&two, used[1]).0];
        }
        assert_eq!(used, [8, 8]);
        std::fs::remove_dir_all(place.path().join("edt")).unwrap();
        std::fs::write(place.path().join("edt"), "").unwrap();
        for member in [&one, &two] {
            assert_eq!((interval(member, 8).0, interval(member, 8).0), (8, 8));
        }
        std::fs::remove_file(place.path().join("edt")).unwrap();
        drop(two);
        assert_eq!((interval(&one, 8).0, interval(&one, 8).0), (16, 16));
    }

    #[test]
    fn without_limits_and_without_a_place_nothing_is_limited() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "").unwrap();
        let apart = Member::join_at(Some(place.path().join("file").join("edt")), Limits::default(), claim(64));
        let policy = policy();
        assert_eq!(apart.ask(&policy, None), policy);
        assert_eq!(apart.settle(Decision::uniform(64, "x")), Decision::uniform(64, "x"));
        assert_eq!(apart.rate(), None);
        assert_eq!(format!("{:?}", Member::default()), "Member(apart)");
    }

    #[test]
    #[cfg(unix)]
    fn what_was_removed_is_made_again_and_all_meet_there() {
        for name in ["transfers-1", "transfers-1.lock", "transfer-0.lock", ""] {
            let place = tempfile::tempdir().unwrap();
            let (one, two) = (joined(&place, of_sixteen()), joined(&place, of_sixteen()));
            interval(&one, 1);
            let removed = place.path().join("edt").join(name);
            let remove = if name.is_empty() { std::fs::remove_dir_all } else { std::fs::remove_file };
            remove(removed).unwrap();
            let three = joined(&place, of_sixteen());
            let mut used = [15, 1, 1];
            for _ in 0..6 {
                used = [interval(&one, used[0]).0, interval(&two, used[1]).0, interval(&three, used[2]).0];
            }
            used.sort_unstable();
            assert_eq!(used, [5, 5, 6], "{name}");
        }
    }

    #[test]
    fn of_a_share_of_a_rate_the_whole_is_told() {
        let place = tempfile::tempdir().unwrap();
        let one = joined(&place, Limits { rate: Some(10e6), ..Limits::default() });
        let _two = joined(&place, Limits::default());
        one.ask(&policy(), None);
        assert!(one.rate().unwrap() < 9_000_000);
        assert_eq!((one.host_rate(), Member::default().host_rate()), (Some(10e6), None));
    }

    #[test]
    fn memory_is_what_a_transfer_asks_for_unless_there_is_too_little() {
        let place = tempfile::tempdir().unwrap();
        let one = joined(&place, Limits { memory: Some(128 << 20), ..Limits::default() });
        interval(&one, 1);
        assert_eq!(one.memory(), Some(96 << 20));
        let _two = joined(&place, Limits::default());
        interval(&one, 1);
        assert_eq!(one.memory(), Some(64 << 20));
    }
}
