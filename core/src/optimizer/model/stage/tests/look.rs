//! Tests of looks whether there is room for more workers.

use super::*;

/// A stream that lost a tenth when it began, and nothing since.
fn costly() -> Stage {
    let mut stage = Stage::new("streams");
    stage.observe(&Seen { loss: Some(0.1), ..Seen::of(1.0, 1e7) });
    stage.observe(&Seen { loss: Some(0.0), ..Seen::of(1.0, 1e7) });
    stage
}

#[test]
fn whether_there_is_room_is_seen_first_where_a_second_stream_or_a_look_upwards_may_lose_much() {
    assert!(costly().is_costly_look(2) && !costly().is_costly_look(1));
    let mut lossless = Stage::new("streams");
    see(&mut lossless, 1.0, 1e7);
    assert!(!lossless.is_costly_look(2));
    // More than one show what they bring beside each other.
    assert!(!Stage { ran: 4, ..costly() }.is_costly_look(8));
    let mut probing = Stage { ran: 4, ..costly() };
    let _ = probing.probe.due(4, 4, &PRICE, Measured { time: 99.0, noise: 0.02, paced: false });
    assert!(probing.is_costly_look(6));
}

#[test]
fn a_look_that_found_no_room_is_undone_and_not_repeated_soon() {
    let mut stage = costly();
    // As many as before carry less, so that a second one would be worth having again.
    let mut see = |ran: f64, paced: Paced| {
        let rate = if paced == Paced::Look { 1.2e7 } else { 0.6e7 };
        stage.observe(&Seen { paced, loss: Some(0.0), ..Seen::of(ran, rate) });
        let next = stage.decide(&PRICE, None);
        (next.workers, stage.vain > 0.0, next.reason.contains("probing"))
    };
    assert_eq!(see(2.0, Paced::Look), (1, true, false));
    let after: Vec<(u16, bool, bool)> = (0..12).map(|_| see(1.0, Paced::No)).collect();
    assert!(after.iter().all(|(workers, waits, probes)| (*workers == 1) == (*waits && !probes)), "{after:?}");
    assert!(
        after.iter().take(2).all(|(workers, ..)| *workers == 1) && after.iter().any(|(workers, ..)| *workers == 2),
        "{after:?}"
    );
}

#[test]
fn only_a_second_one_waits_after_a_look_in_vain() {
    let mut stage = Stage { ran: 8, ..costly() };
    stage.observe(&Seen { paced: Paced::Look, loss: Some(0.0), ..Seen::of(10.0, 1e7) });
    assert!(stage.vain <= 0.0);
    let mut missed = costly();
    missed.wait_to_look();
    assert!(missed.vain > 0.0);
    missed.found_room();
    missed.begin_anew();
    assert!(!missed.has_room);
}

#[test]
fn what_those_lose_for_whom_there_was_room_is_not_what_others_would() {
    let mut stage = costly();
    stage.found_room();
    stage.observe(&Seen { loss: Some(0.0), ..Seen::of(2.0, 2e7) });
    assert_eq!((stage.ran, stage.losses.joining.is_costly(1, 2)), (2, true));
}

#[test]
fn where_those_that_join_lose_much_there_are_twice_as_many_at_most() {
    let grown = |lost: f64| {
        let mut stage = Stage::new("streams");
        stage.observe(&Seen { loss: Some(lost), ..Seen::of(3.0, 3e7) });
        stage.observe(&Seen { loss: Some(0.0), ..Seen::of(3.0, 3e7) });
        stage.decide(&PRICE, None).workers
    };
    assert!(grown(0.0) > 6 && grown(0.2) == 6, "{} {}", grown(0.0), grown(0.2));
}
