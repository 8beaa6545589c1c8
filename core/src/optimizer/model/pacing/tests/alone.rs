//! Tests of a single stream, which may lose only when it begins.

use super::*;

/// Sends one stream for a second, and decides where two are to follow.
fn send(pacing: &mut Pacing, each: f64, lost: f64) -> (Found, Option<&'static str>) {
    let found = pacing.observe(&Sent { streams: 1, rate: each, loss: Some(lost), pacing: pacing.rate(), time: 1.0 });
    (found, pacing.decide(2, false))
}

/// One that lost a tenth when it began, is paced, and is then sent without that.
fn freed() -> Pacing {
    let mut pacing = Pacing::default();
    assert!(send(&mut pacing, 0.9e6, 0.1).1.is_some() && pacing.rate() == Some(855_000));
    assert!(send(&mut pacing, 0.855e6, 0.0).1.is_some() && pacing.rate().is_none());
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
fn one_that_still_loses_or_carries_no_more_is_paced_again() {
    for (each, lost) in [(1e6, 0.06), (0.93e6, 0.0)] {
        let mut pacing = freed();
        assert_eq!(send(&mut pacing, each, lost), (Found::Nothing, None));
        assert_eq!(pacing.rate(), Some(855_000));
        // It is seen once.
        send(&mut pacing, 0.855e6, 0.0);
        assert!(pacing.rate().is_some());
    }
    // A connection that was lost meanwhile tells nothing.
    let mut pacing = freed();
    pacing.begin_again();
    assert_eq!(pacing.rate(), Some(855_000));
}

#[test]
fn what_hardly_sent_anything_is_no_reason_to_pace_no_more() {
    let mut pacing = Pacing::default();
    send(&mut pacing, 0.9e6, 0.1);
    // It is right but still loses some, and what comes then is slow by chance.
    assert_eq!(send(&mut pacing, 0.855e6, 0.04).0, Found::Nothing);
    assert!(send(&mut pacing, 0.01e6, 0.0).1.is_some() && pacing.rate().is_none());
    assert_eq!(send(&mut pacing, 0.86e6, 0.0).0, Found::Nothing);
    assert_eq!(pacing.rate(), Some(855_000));
}

#[test]
fn streams_that_still_lose_are_not_sent_faster() {
    let mut pacing = freed();
    send(&mut pacing, 0.86e6, 0.0);
    let paced = |lost| Sent { streams: 1, rate: 0.855e6, loss: Some(lost), pacing: Some(855_000), time: 1.0 };
    for (lost, raised) in [(0.0, true), (0.02, false)] {
        let mut pacing = pacing.clone();
        pacing.observe(&paced(lost));
        assert_eq!(pacing.decide(1, false).is_some(), raised, "{lost}");
    }
}
