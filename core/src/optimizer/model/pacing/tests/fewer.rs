//! Tests of fewer streams, which carry more each where all share one rate.

use super::*;

#[test]
fn fewer_streams_that_share_a_rate_are_sent_faster() {
    for all in [4e6, 4.4e6] {
        let mut path = Path::new(1e9, all);
        path.send(4, 8);
        path.send(4, 8);
        for (streams, next) in [(8, 4), (4, 2), (2, 1)] {
            path.send(streams, next);
        }
        assert!(is_just_below(path.each(), all), "{}", path.each());
        assert_eq!(path.send(1, 2).0, Found::Usual);
    }
}

/// Paced streams that share one rate, which twice as many have shown.
fn sharing() -> Path {
    let mut path = Path::new(1e9, 4e6);
    path.send(4, 8);
    path.send(4, 8);
    path.send(8, 4);
    path.send(4, 5);
    assert_eq!(path.pacing.enough(), None, "it is not known yet what four lose");
    path.send(4, 5);
    path
}

#[test]
fn where_all_share_one_rate_half_of_them_are_tried_until_one_carries_it() {
    let mut path = sharing();
    for fewer in [2, 1] {
        assert_eq!(path.pacing.enough(), Some(fewer));
        path.send(2 * fewer, fewer);
        path.send(fewer, fewer + 1);
        path.send(fewer, fewer + 1);
    }
    assert_eq!(path.pacing.enough(), None);
    assert!(is_just_below(path.each(), 4e6), "{}", path.each());
}

#[test]
fn half_of_them_are_tried_once_and_judged_when_they_become_no_faster() {
    let (mut path, mut slow) = (sharing(), sharing());
    let before = path.each();
    for path in [&mut path, &mut slow] {
        carry(path, 4, before, 2);
        assert_eq!(carry(path, 2, 1.2 * before, 2), (Found::Usual, None), "they become faster");
    }
    assert_eq!(carry(&mut path, 2, 1.2 * before, 3).0, Found::OwnRate);
    assert!(is_just_below(path.each(), 1.2 * before), "that is what each has");
    // Somebody wants more before that is known.
    carry(&mut slow, 2, 1.3 * before, 4);
    assert!(is_just_below(slow.each(), 1.01 * before));
    for path in [&mut path, &mut slow] {
        for _ in 0..3 {
            carry(path, 4, path.each(), 5);
        }
        assert_eq!(path.pacing.enough(), None);
    }
}

#[test]
fn what_those_that_left_had_put_into_queues_is_not_held_against_the_others() {
    let (mut right, mut wrong) = (sharing(), sharing());
    for (path, lost) in [(&mut right, 0.0), (&mut wrong, 0.1)] {
        let before = path.each();
        path.send(4, 2);
        let carry = |path: &mut Path, loss: f64| {
            let (rate, pacing) = (2.0 * path.each(), path.pacing.rate());
            let found = path.pacing.observe(&Sent { streams: 2, rate, loss: Some(loss), pacing, time: 1.0, ..Sent::default() });
            path.pacing.decide(2, false);
            found
        };
        assert_eq!(carry(path, 0.1), Found::Nothing);
        assert!(path.each() > 1.9 * before);
        let found = carry(path, lost);
        assert_eq!(found, if lost > 0.0 { Found::OwnRate } else { Found::Usual });
        assert_eq!(path.each() > 1.9 * before, lost == 0.0);
    }
}

#[test]
fn half_of_them_are_not_tried_where_some_is_lost_or_each_may_have_its_own() {
    let mut path = sharing();
    path.all = 3.5e6;
    path.send(4, 5);
    assert_eq!(path.pacing.enough(), None);
    let mut path = Path::new(1e6, 5e6);
    path.send(4, 5);
    path.send(4, 5);
    // Rates of their own that just fill the path.
    for _ in 0..4 {
        path.send(5, 5);
    }
    assert_eq!(path.pacing.enough(), None);
}

#[test]
fn fewer_streams_that_never_were_leave_the_rate_as_it_was() {
    let mut path = Path::new(1e9, 4e6);
    path.send(4, 8);
    path.send(4, 8);
    path.send(8, 3);
    path.send(5, 4);
    path.send(4, 2);
    assert!(is_just_below(path.each(), 2e6), "{}", path.each());
}

#[test]
fn fewer_streams_that_carry_no_more_each_go_back_to_the_rate_of_before() {
    let mut path = Path::new(1e6, 5e6);
    path.send(5, 5);
    path.send(5, 4);
    assert!(path.each() > 1.1e6);
    path.send(4, 5);
    assert!(is_just_below(path.each(), 1e6), "{}", path.each());
    path.send(5, 4);
    assert!(is_just_below(path.each(), 1e6), "{}", path.each());
}

/// So many streams carry so much each for a second, where `next` are to run then.
fn carry(path: &mut Path, streams: u16, each: f64, next: u16) -> (Found, Option<&'static str>) {
    let (rate, pacing) = (each * f64::from(streams), path.pacing.rate());
    let found = path.pacing.observe(&Sent { streams, rate, loss: Some(0.0), pacing, time: 1.0, ..Sent::default() });
    (found, path.pacing.decide(next, false))
}

#[test]
fn fewer_streams_that_carry_far_more_each_are_too_few_and_have_no_rate_of_their_own() {
    let (mut waited, mut undecided) = (sharing(), sharing());
    let before = waited.each();
    for (path, next) in [(&mut waited, 2), (&mut undecided, 4)] {
        carry(path, 4, before, 2);
        carry(path, 2, 1.6 * before, next);
    }
    // They stay as fast as long as no more are wanted.
    for next in [2, 2, 2, 4] {
        assert_eq!(carry(&mut waited, 2, 1.6 * before, next).0, Found::Usual);
        assert_eq!(waited.each() > 1.8 * before, next == 2);
    }
    for path in [&mut waited, &mut undecided] {
        assert!(is_just_below(path.each(), 1.01 * before) && !path.pacing.rates.own);
        for _ in 0..3 {
            carry(path, 4, path.each(), 5);
        }
        assert!(path.pacing.enough().is_none() && path.pacing.slower.is_none() && path.pacing.quiet > 0.0, "it is tried once");
        // Where two are wanted nevertheless, they are sent faster.
        let each = path.each();
        carry(path, 4, each, 2);
        assert!(path.each() > 1.8 * each);
    }
}

#[test]
fn a_look_upwards_from_fewer_streams_leaves_the_rate_that_these_have() {
    let mut path = sharing();
    path.send(4, 2);
    for next in [2, 2, 3] {
        path.send(2, next);
    }
    let each = path.each();
    path.send(3, 2);
    assert!(is_just_below(path.each(), 1.01 * each), "{} after {each}", path.each());
}

#[test]
fn fewer_streams_that_fill_queues_of_their_own_have_the_rate_that_each_carries() {
    let told = |each: f64, queued: bool, even: bool, loss: f64| {
        let mut path = sharing();
        let before = path.each();
        path.pacing.decide(2, false);
        let (rate, pacing) = (2.0 * each * before, path.pacing.rate());
        let sent = Sent { streams: 2, rate, loss: Some(loss), pacing, time: 1.0, queued, even, ..Sent::default() };
        // They may still become faster in the first interval.
        let first = path.pacing.observe(&sent);
        let found = if first == Found::OwnRate { first } else { path.pacing.observe(&sent) };
        (found, path.pacing.rates.own, path.each() / before)
    };
    let (found, own, each) = told(1.6, true, true, 0.0);
    assert!(found == Found::OwnRate && own && is_just_below(each, 1.6), "{each}");
    assert!(!told(1.6, false, true, 0.0).1 && !told(1.6, true, false, 0.0).1);
    let (found, own, each) = told(1.7, true, false, 0.1);
    assert!(found == Found::OwnRate && own && is_just_below(each, 1.7), "what they lose is beyond that: {each}");
}
