//! Tests of looks whether there is room for more streams.

use super::*;

/// Sends so many streams for a second, at the rate that is decided.
fn send(pacing: &mut Pacing, streams: u16, rate: f64, lost: f64) -> Found {
    pacing.observe(&Sent { streams, rate, loss: Some(lost), pacing: pacing.rate(), time: 1.0, ..Sent::default() })
}

/// A stream that carries 1 MB/s, beside which there is to be another one.
fn looking() -> Pacing {
    let mut pacing = Pacing::default();
    send(&mut pacing, 1, 1e6, 0.0);
    pacing.look(2, false);
    pacing
}

#[test]
fn more_streams_are_together_sent_a_little_faster_than_those_before_them() {
    let mut pacing = looking();
    assert_eq!(pacing.rate(), Some(575_000));
    assert_eq!((send(&mut pacing, 2, 1.15e6, 0.0), pacing.rate()), (Found::Room, Some(1_000_000)));
}

#[test]
fn where_there_is_room_each_is_sent_as_fast_as_those_before_them_until_it_is_seen_what_each_carries() {
    for (rate, lost, told, each) in [
        (2e6, 0.0, Paced::Told, Some(1_000_000)),
        // They have less than that, and lose the rest.
        (1.6e6, 0.1, Paced::Untold, Some(800_000)),
        // All share one rate.
        (1.2e6, 0.0, Paced::Untold, None),
    ] {
        let mut pacing = looking();
        send(&mut pacing, 2, 1.15e6, 0.0);
        send(&mut pacing, 2, rate, lost);
        assert_eq!((pacing.told(), pacing.rate()), (told, each), "{rate} {lost}");
    }
    // What they share, as it was shown where they lost, is no rate of each; nor is it where a few more had seemed to have one.
    let mut shared = looking();
    for (streams, rate, lost) in [(2, 1.15e6, 0.0), (2, 1.2e6, 0.1), (2, 1.2e6, 0.0)] {
        send(&mut shared, streams, rate, lost);
    }
    assert_eq!((shared.told(), shared.rate()), (Paced::Untold, Some(600_000)));
    let mut many = Pacing::default();
    send(&mut many, 10, 10e6, 0.0);
    many.look(12, false);
    for (streams, told) in [(12, Paced::Untold), (12, Paced::Told), (15, Paced::Untold), (15, Paced::Untold)] {
        let lost = if streams == 15 && many.rate() == Some(1_000_000) { 0.24 } else { 0.0 };
        send(&mut many, streams, 11.4e6, lost);
        assert_eq!(many.told(), told, "{streams}");
    }
    // Of two intervals the one that carried less tells more, unless it carried far less.
    for (before, expected) in [(0.95e6, 950_000), (0.5e6, 900_000)] {
        let mut pacing = Pacing::default();
        send(&mut pacing, 1, before, 0.0);
        send(&mut pacing, 1, 1e6, 0.0);
        pacing.look(2, false);
        assert_eq!((send(&mut pacing, 2, 1.15e6, 0.0), pacing.rate()), (Found::Room, Some(expected)));
    }
}

#[test]
fn what_was_guessed_stays_once_it_is_told_that_each_carries_it_and_with_new_streams() {
    let mut told = looking();
    for (rate, lost) in [(1.15e6, 0.0), (2e6, 0.0), (0.6e6, 0.0)] {
        send(&mut told, 2, rate, lost);
    }
    assert_eq!(told.rate(), Some(1_000_000), "something else than their rate held them back");
    let mut new = looking();
    send(&mut new, 2, 1.15e6, 0.0);
    new.begin_again();
    send(&mut new, 2, 0.6e6, 0.0);
    assert_eq!(new.rate(), Some(1_000_000));
    // For so long as they lose nothing it is no guess any more.
    let mut known = looking();
    for rate in [1.15e6, 2e6, 2e6, 2e6] {
        send(&mut known, 2, rate, 0.0);
    }
    send(&mut known, 3, 2e6, 0.2);
    assert_eq!(known.rate(), Some(1_000_000));
}

#[test]
fn where_they_carry_no_more_or_lose_some_there_is_no_room() {
    for (rate, lost) in [(1.05e6, 0.0), (1.15e6, 0.02)] {
        let mut pacing = looking();
        assert_eq!((send(&mut pacing, 2, rate, lost), pacing.rate()), (Found::Full, None), "{rate} {lost}");
    }
}

#[test]
fn those_that_are_slow_to_find_their_rate_have_another_interval() {
    for (rate, found, then) in [(1.05e6, Found::Full, None), (1.1e6, Found::Room, Some(1_000_000))] {
        let mut pacing = Pacing::default();
        send(&mut pacing, 1, 1e6, 0.0);
        pacing.look(2, true);
        assert_eq!((send(&mut pacing, 2, 0.8e6, 0.0), pacing.rate()), (Found::Nothing, Some(575_000)));
        assert_eq!((send(&mut pacing, 2, rate, 0.0), pacing.rate()), (found, then));
    }
}

#[test]
fn what_a_look_lost_is_no_reason_to_pace_those_that_stay() {
    let mut pacing = Pacing::default();
    send(&mut pacing, 1, 1e6, 0.0);
    pacing.look(2, true);
    send(&mut pacing, 2, 0.8e6, 0.0);
    assert_eq!(send(&mut pacing, 2, 1.05e6, 0.02), Found::Full);
    assert_eq!((pacing.decide(1, false), pacing.rate()), (None, None));
}

#[test]
fn a_look_that_others_kept_from_having_so_many_streams_tells_nothing() {
    let mut pacing = looking();
    assert_eq!((send(&mut pacing, 1, 0.575e6, 0.0), pacing.rate()), (Found::Missed, None));
}

#[test]
fn what_more_streams_carried_is_not_what_fewer_do() {
    let mut pacing = Pacing::default();
    send(&mut pacing, 2, 2e6, 0.0);
    send(&mut pacing, 1, 1e6, 0.0);
    pacing.look(2, false);
    assert_eq!(pacing.rate(), Some(575_000));
}

#[test]
fn streams_that_were_paced_are_sent_as_fast_as_before() {
    let paced = || {
        let mut pacing = Pacing::default();
        pacing.observe(&Sent { streams: 1, rate: 1e6, loss: Some(0.0), pacing: Some(1_000_000), time: 1.0, ..Sent::default() });
        pacing.look(2, false);
        assert_eq!(pacing.rate(), Some(575_000));
        pacing
    };
    for (rate, lost, found) in [(1.15e6, 0.0, Found::Room), (1e6, 0.02, Found::Full)] {
        let mut pacing = paced();
        assert_eq!((send(&mut pacing, 2, rate, lost), pacing.rate()), (found, Some(1_000_000)));
    }
    // Also where the connection was lost meanwhile.
    let mut pacing = paced();
    pacing.begin_again();
    assert_eq!(pacing.rate(), Some(1_000_000));
    let mut free = looking();
    free.begin_again();
    assert_eq!(free.rate(), None);
}

#[test]
fn there_is_no_look_where_some_is_lost_anyway_or_a_rate_is_being_tried() {
    let mut lossy = Pacing::default();
    (0..2).for_each(|_| assert_eq!(send(&mut lossy, 1, 1e6, 0.02), Found::Usual));
    lossy.look(2, false);
    assert_eq!(lossy.rate(), None);
    let mut trying = Pacing::default();
    send(&mut trying, 1, 1e6, 0.1);
    assert!(trying.decide(2, false).is_some());
    let rate = trying.rate();
    trying.look(2, false);
    assert_eq!(trying.rate(), rate);
    // So few more are sent no faster than they are.
    let mut slow = Pacing::default();
    slow.observe(&Sent { streams: 10, rate: 10e6, loss: Some(0.0), pacing: Some(1_000_000), time: 1.0, ..Sent::default() });
    slow.look(11, false);
    assert_eq!(slow.rate(), Some(1_000_000));
}
