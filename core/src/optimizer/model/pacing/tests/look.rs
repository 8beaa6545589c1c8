//! Tests of looks whether there is room for more streams.

use super::*;

/// Sends so many streams for a second, at the rate that is decided.
fn send(pacing: &mut Pacing, streams: u16, rate: f64, lost: f64) -> Found {
    pacing.observe(&Sent { streams, rate, loss: Some(lost), pacing: pacing.rate(), time: 1.0 })
}

/// A stream that carries 1 MB/s, beside which there is to be another one.
fn looking() -> Pacing {
    let mut pacing = Pacing::default();
    send(&mut pacing, 1, 1e6, 0.0);
    pacing.look(2);
    pacing
}

#[test]
fn more_streams_are_together_sent_a_little_faster_than_those_before_them() {
    let mut pacing = looking();
    assert_eq!(pacing.rate(), Some(575_000));
    assert_eq!(send(&mut pacing, 2, 1.15e6, 0.0), Found::Room);
    assert_eq!(pacing.rate(), None);
}

#[test]
fn where_they_carry_no_more_or_lose_some_there_is_no_room() {
    for (rate, lost) in [(1.05e6, 0.0), (1.15e6, 0.02)] {
        let mut pacing = looking();
        assert_eq!((send(&mut pacing, 2, rate, lost), pacing.rate()), (Found::Full, None), "{rate} {lost}");
    }
}

#[test]
fn streams_that_were_paced_are_sent_as_fast_as_before() {
    let paced = || {
        let mut pacing = Pacing::default();
        pacing.observe(&Sent { streams: 1, rate: 0.95e6, loss: Some(0.0), pacing: Some(1_000_000), time: 1.0 });
        pacing.look(2);
        assert_eq!(pacing.rate(), Some(546_250));
        pacing
    };
    for (rate, found) in [(1.09e6, Found::Room), (0.95e6, Found::Full)] {
        let mut pacing = paced();
        assert_eq!((send(&mut pacing, 2, rate, 0.0), pacing.rate()), (found, Some(1_000_000)));
    }
    // Also where the connection was lost meanwhile.
    let mut pacing = paced();
    pacing.begin_again();
    assert_eq!(pacing.rate(), Some(1_000_000));
}

#[test]
fn there_is_no_look_where_some_is_lost_anyway_or_a_rate_is_being_tried() {
    let mut lossy = Pacing::default();
    (0..2).for_each(|_| assert_eq!(send(&mut lossy, 1, 1e6, 0.02), Found::Usual));
    lossy.look(2);
    assert_eq!(lossy.rate(), None);
    let mut trying = Pacing::default();
    send(&mut trying, 1, 1e6, 0.1);
    assert!(trying.decide(2, false).is_some());
    let rate = trying.rate();
    trying.look(2);
    assert_eq!(trying.rate(), rate);
    // Of many more at once each is slower anyway.
    let mut slow = Pacing::default();
    slow.observe(&Sent { streams: 10, rate: 10e6, loss: Some(0.0), pacing: Some(1_000_000), time: 1.0 });
    slow.look(11);
    assert_eq!(slow.rate(), Some(1_000_000));
}
