//! Tests that a queue which comes with more streams tells how many fill the path.

use super::*;

const QUIET_TRIP: Duration = Duration::from_millis(80);
const QUEUE: Duration = Duration::from_millis(140);

/// Four and six streams that carry their pacing without a queue, each at a rate of its own.
fn told() -> (Pacing, f64) {
    let mut pacing = calm();
    for streams in [4, 6, 5] {
        run(&mut pacing, streams, f64::INFINITY, QUIET_TRIP, 0.0);
    }
    assert_eq!(pacing.told(), Paced::Told);
    let rate = pacing.rate().unwrap() as f64;
    (pacing, rate)
}

/// A second of so many streams over a path that carries so much of what they are sent; answers the room that is known.
fn run(pacing: &mut Pacing, streams: u16, most: f64, trip: Duration, lost: f64) -> Option<u16> {
    let rate = (f64::from(streams) * pacing.rate().unwrap() as f64).min(most);
    pacing.observe(&Sent { streams, rate, loss: Some(lost), pacing: pacing.rate(), time: 1.0, trip, ..Sent::default() });
    pacing.room()
}

#[test]
fn where_a_queue_comes_and_each_carries_less_there_is_room_for_as_many_as_carry_it() {
    let (mut pacing, rate) = told();
    assert_eq!(run(&mut pacing, 7, 6.2 * rate, QUEUE, 0.0), Some(6));
    assert!(pacing.is_full() && pacing.decide(7, false).is_none(), "what fills the path is not sent faster");
    // Fewer leave it known.
    assert_eq!(run(&mut pacing, 6, 6.2 * rate, QUIET_TRIP, 0.0), Some(6));
    assert!(!pacing.is_full());
    // A queue of each stream leaves each what it carried, and a path that becomes no longer has none.
    for (most, trip) in [(f64::INFINITY, QUEUE), (6.2 * rate, QUIET_TRIP), (6.2 * rate, Duration::ZERO)] {
        let (mut pacing, _) = told();
        assert_eq!(run(&mut pacing, 7, most, trip, 0.0), None, "{most} {trip:?}");
    }
}

#[test]
fn what_was_lost_and_has_not_arrived_counts_as_carried_by_half_and_those_before_it_fit() {
    let (mut pacing, rate) = told();
    assert_eq!(run(&mut pacing, 7, 5.6 * rate, QUEUE, 0.1), Some(6));
    let (mut pacing, rate) = told();
    assert_eq!(run(&mut pacing, 8, 3.0 * rate, QUEUE, 0.4), Some(5), "also where each carries far less than its pacing");
}

#[test]
fn what_new_streams_may_still_lack_counts_as_carried_until_it_is_measured() {
    let (mut pacing, rate) = told();
    let (own, pacing_now) = (6.2 * rate, pacing.rate());
    let new = Sent { streams: 8, loss: Some(0.0), pacing: pacing_now, time: 1.0, trip: QUEUE, lack: 0.4, ..Sent::default() };
    // Three of eight are new, and have become fast only for the last part of it.
    pacing.observe(&Sent { rate: 0.88 * own, ..new });
    assert_eq!(pacing.room(), Some(6));
    pacing.observe(&Sent { rate: 5.2 * rate, lack: 0.0, ..new });
    assert_eq!(pacing.room(), Some(5), "as many as before tell what they carry");
    pacing.observe(&Sent { rate: 4.2 * rate, lack: 0.0, ..new });
    assert_eq!(pacing.room(), Some(5), "once");
}

#[test]
fn what_is_known_to_fill_the_path_is_forgotten_where_more_is_carried_without_a_queue() {
    let full = || {
        let (mut pacing, rate) = told();
        assert_eq!(run(&mut pacing, 7, 6.2 * rate, QUEUE, 0.0), Some(6));
        (pacing, rate)
    };
    for (most, trip, lost, room) in [
        (f64::INFINITY, QUIET_TRIP, 0.0, None),
        (6.3 * rate_of(&full().0), QUIET_TRIP, 0.0, Some(6)),
        (6.5 * rate_of(&full().0), QUEUE, 0.0, Some(6)),
        (f64::INFINITY, QUIET_TRIP, 0.02, Some(6)),
    ] {
        let (mut pacing, _) = full();
        assert_eq!(run(&mut pacing, 7, most, trip, lost), room, "{most} {trip:?} {lost}");
    }
    let (mut pacing, _) = full();
    pacing.has_grown();
    assert_eq!(pacing.room(), None);
    // Where each carries far less than its pacing, that is not what keeps them from more.
    let (mut pacing, rate) = full();
    assert_eq!(run(&mut pacing, 6, 3.0 * rate, QUIET_TRIP, 0.0), None);
}

#[test]
fn what_streams_carry_that_never_carry_all_of_their_pacing_is_measured_by_what_they_usually_do() {
    let part = 0.95;
    let (mut pacing, rate) = told();
    pacing.part = part;
    assert_eq!(run(&mut pacing, 7, part * 6.2 * rate, QUEUE, 0.0), Some(6));
    // Without the others seven carry what they can.
    assert_eq!(run(&mut pacing, 7, part * 7.0 * rate, QUIET_TRIP, 0.0), None);
}

#[test]
fn a_round_trip_that_stays_longer_is_no_queue_where_all_is_carried() {
    let (mut pacing, rate) = told();
    assert_eq!(run(&mut pacing, 7, 6.2 * rate, QUEUE, 0.0), Some(6));
    assert_eq!(run(&mut pacing, 7, f64::INFINITY, QUEUE, 0.0), None);
}

#[test]
fn streams_that_would_fill_the_path_are_not_sent_faster() {
    for (most, faster) in [(6.0, false), (6.8, true)] {
        let (mut pacing, rate) = told();
        run(&mut pacing, 7, most * rate, QUEUE, 0.0);
        let tried = (0..8).any(|_| {
            run(&mut pacing, 6, most * rate, QUIET_TRIP, 0.0);
            pacing.decide(6, false).is_some()
        });
        assert_eq!(tried, faster, "{most}");
    }
}

fn rate_of(pacing: &Pacing) -> f64 {
    pacing.rate().unwrap() as f64
}
