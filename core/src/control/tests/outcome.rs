//! The account of a transfer of several sessions.

use super::*;

#[test]
fn files_of_a_later_session_are_all_only_if_none_was_listed_before() {
    let of = |files: u64, complete| {
        let mut listed = Listed { complete, ..Listed::default() };
        (0..files).for_each(|_| listed.add(1000));
        Outcome { listed, ..Outcome::default() }
    };
    let after = |first, later| {
        let mut outcome = Outcome::default();
        outcome.extend(first);
        outcome.extend(later);
        (outcome.listed.files(), outcome.listed.complete)
    };
    assert_eq!(after(of(5, true), of(3, true)), (5, true));
    assert_eq!(after(of(5, false), of(9, true)), (9, false));
    assert_eq!(after(of(5, false), of(3, true)), (5, false));
    assert_eq!(after(of(0, false), of(9, true)), (9, true));
}

#[test]
fn what_limited_over_several_sessions_is_what_did_for_most_of_their_time() {
    let seconds = Duration::from_secs;
    let held = || {
        let (by_host, host_rate) = (seconds(5), Some(2e6));
        let limited = Limited { all: seconds(5), by_host, host_rate, ..Limited::default() };
        Outcome { limited, advice: vec!["short".to_owned()], ..Outcome::default() }
    };
    let long = || {
        let by = PerStage { read: seconds(100), network: seconds(3400), write: seconds(100) };
        Outcome { limited: Limited { all: seconds(3600), by, ..Limited::default() }, interventions: 2, ..Outcome::default() }
    };
    assert_eq!((held().limited.held_to(), held().limited.bottleneck()), (Some(2e6), None));
    for sessions in [[held(), long()], [long(), held()]] {
        let mut outcome = Outcome::default();
        for session in sessions {
            outcome.extend(session);
        }
        assert_eq!((outcome.limited.held_to(), outcome.limited.bottleneck()), (None, Some(Stage::Network)));
        assert_eq!((outcome.advice.len(), outcome.interventions), (0, 2));
    }
}

#[test]
fn the_account_of_many_sessions_is_no_longer_than_that_of_one() {
    let tuned = |second: u32| Tuned { elapsed_s: f64::from(second), decision: Decision::uniform(1, "as a test") };
    let mut outcome = Outcome::default();
    for session in 0..5 {
        let decisions = (session * 2000..(session + 1) * 2000).map(tuned).collect();
        outcome.extend(Outcome { decisions, ..Outcome::default() });
    }
    let kept = &outcome.decisions;
    assert!((1000..=2000).contains(&kept.len()), "{}", kept.len());
    assert_eq!((kept.first(), kept.last()), (Some(&tuned(0)), Some(&tuned(9999))));
}
