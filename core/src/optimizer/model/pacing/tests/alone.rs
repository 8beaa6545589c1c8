//! Tests of a single stream, which may lose only when it begins.

use super::*;

/// Sends one stream for a second.
fn one(pacing: &mut Pacing, each: f64, lost: f64) -> Found {
    pacing.observe(&Sent { streams: 1, rate: each, loss: Some(lost), pacing: pacing.rate(), time: 1.0, ..Sent::default() })
}

/// The same, and decides where two are to follow.
fn send(pacing: &mut Pacing, each: f64, lost: f64) -> (Found, Option<&'static str>) {
    (one(pacing, each, lost), pacing.decide(2, false))
}

/// One that lost a tenth when it began, is paced, and is then sent without that.
fn freed() -> Pacing {
    let mut pacing = Pacing::default();
    assert!(send(&mut pacing, 0.9e6, 0.1).1.is_some() && pacing.rate() == Some(855_000));
    one(&mut pacing, 0.855e6, 0.0);
    assert!(pacing.decide(1, false).is_some() && pacing.rate().is_none());
    pacing
}

#[test]
fn a_single_stream_that_is_worth_more_without_pacing_is_not_paced() {
    let mut pacing = freed();
    assert_eq!(send(&mut pacing, 1e6, 0.0), (Found::Usual, None));
    assert_eq!(pacing.rate(), None);
    // And it is not tried again at once.
    assert_eq!((send(&mut pacing, 1e6, 0.06).1, pacing.rate()), (None, None));
}

#[test]
fn whether_there_is_room_for_another_is_seen_first() {
    let mut pacing = Pacing::default();
    send(&mut pacing, 0.9e6, 0.1);
    assert_eq!(send(&mut pacing, 0.855e6, 0.0), (Found::Calm, None));
    pacing.look(2, false);
    let two = Sent { streams: 2, rate: 0.9e6, loss: Some(0.05), pacing: pacing.rate(), time: 1.0, ..Sent::default() };
    assert_eq!((pacing.observe(&two), pacing.rate()), (Found::Full, Some(855_000)));
    // There is none, so that it may be what holds this one back.
    one(&mut pacing, 0.855e6, 0.0);
    assert!(pacing.decide(1, false).is_some() && pacing.rate().is_none());
}

#[test]
fn where_there_is_room_for_another_the_first_is_not_freed_later() {
    let mut pacing = Pacing::default();
    send(&mut pacing, 0.9e6, 0.1);
    send(&mut pacing, 0.855e6, 0.0);
    pacing.look(2, false);
    let two = Sent { streams: 2, rate: 0.98e6, loss: Some(0.0), pacing: pacing.rate(), time: 1.0, ..Sent::default() };
    assert_eq!(pacing.observe(&two), Found::Room);
    one(&mut pacing, 0.855e6, 0.0);
    assert_eq!((pacing.decide(1, true), pacing.rate()), (None, Some(855_000)));
}

#[test]
fn one_that_still_loses_or_carries_no_more_is_paced_again() {
    for (each, lost, found) in [(1e6, 0.06, Found::Nothing), (0.93e6, 0.0, Found::Usual)] {
        let mut pacing = freed();
        assert_eq!(send(&mut pacing, each, lost), (found, None));
        assert_eq!(pacing.rate(), Some(855_000));
        // It is seen once, and what it has put into queues is no reason to go down.
        one(&mut pacing, 0.855e6, 0.02);
        assert_eq!((pacing.decide(1, true), pacing.rate()), (None, Some(855_000)));
    }
    // A connection that was lost meanwhile tells nothing.
    let mut pacing = freed();
    pacing.begin_again();
    assert_eq!(pacing.rate(), Some(855_000));
}

#[test]
fn a_rate_that_was_found_in_steps_stays() {
    let mut pacing = Pacing::default();
    send(&mut pacing, 0.9e6, 0.1);
    assert_eq!(send(&mut pacing, 0.855e6, 0.04).0, Found::Nothing);
    assert_eq!(one(&mut pacing, 0.81e6, 0.0), Found::Calm);
    assert_eq!((pacing.decide(1, true), pacing.rate()), (None, Some(812_250)));
}

#[test]
fn where_pacing_is_tried_anew_it_is_not_seen_again_at_once() {
    let mut pacing = freed();
    send(&mut pacing, 1e6, 0.1);
    // Its window is small for what it lost, so that another rate is tried.
    assert!(send(&mut pacing, 0.5e6, 0.1).1.is_some());
    let rate = pacing.rate();
    one(&mut pacing, 0.475e6, 0.0);
    assert_eq!(pacing.decide(1, true), None);
    assert!(rate.is_some() && pacing.rate() == rate, "{:?}", pacing.rate());
}

#[test]
fn streams_that_still_lose_are_not_sent_faster() {
    let mut pacing = freed();
    send(&mut pacing, 0.86e6, 0.0);
    let paced = |lost| Sent { streams: 1, rate: 0.855e6, loss: Some(lost), pacing: Some(855_000), time: 1.0, ..Sent::default() };
    for (lost, raised) in [(0.0, true), (0.02, false)] {
        let mut pacing = pacing.clone();
        pacing.observe(&paced(lost));
        assert_eq!(pacing.decide(1, false).is_some(), raised, "{lost}");
    }
}
