//! Tests of what a queue says, and streams that are growing into the place of others.

use super::*;

/// What comes after the first interval of four streams.
fn second(seen: Seen) -> u16 {
    let mut stage = Stage::new("streams");
    stage.observe(&seen);
    stage.decide(&PRICE, None).workers
}

#[test]
fn where_some_is_lost_and_there_is_a_queue_half_of_the_streams_tell_whether_they_fill_the_path() {
    let first = Seen { loss: Some(0.02), ..Seen::of(4.0, 5e7) };
    assert_eq!(second(first), 8);
    let queued = Seen { queued: true, ..first };
    assert_eq!(second(queued), 2);
    assert!(second(Seen { loss: Some(0.0), ..queued }) >= 8, "it may be that of others");
    assert_eq!(second(Seen { ran: 1.0, working: 1.0, ..queued }), 2, "there is no half of one");
    assert!(second(Seen { paced: Paced::Untold, ..queued }) >= 4, "paced streams may have queues of their own");
}

#[test]
fn equal_streams_each_have_a_rate_of_their_own_whatever_they_lose() {
    let first = Seen { queued: true, paced: Paced::Alone, loss: Some(0.08), ..Seen::of(6.0, 6e6) };
    let asked = [first, Seen { paced: Paced::No, ..first }, Seen { cpu_bound: true, ..first }].map(second);
    assert_eq!(asked, [8, 3, 3], "those that wait for processors do so equally");
    // Where more of them bring no more, they share it equally.
    let mut stage = Stage::new("streams");
    let asked = [first, Seen { ran: 12.0, working: 12.0, ..first }].map(|seen| {
        stage.observe(&seen);
        stage.decide(&PRICE, None).workers
    });
    assert!(asked[0] == 8 && asked[1] <= 7, "{asked:?}");
}

#[test]
fn where_equal_streams_lose_much_there_are_as_many_as_fill_the_path() {
    let mut stage = Stage::new("streams");
    let (mut ran, mut asked) = (6, Vec::new());
    for _ in 0..9 {
        let (streams, full) = (f64::from(ran), f64::from(ran) > 20.0);
        let paced = if full { Paced::No } else { Paced::Alone };
        let seen = Seen { queued: true, paced, loss: Some(0.03), ..Seen::of(streams, 1e6 * streams.min(20.0)) };
        stage.observe(&seen);
        ran = stage.decide(&PRICE, None).workers;
        asked.push(ran);
    }
    assert!(asked[..2] == [8, 10] && asked[6..].iter().all(|ran| (17..=21).contains(ran)), "{asked:?}");
}

#[test]
fn where_half_of_them_bring_half_there_are_more_although_each_has_a_queue() {
    let mut stage = Stage::new("streams");
    let mut asked = Vec::new();
    for ran in [4.0, 2.0, 8.0] {
        stage.observe(&Seen { queued: true, loss: Some(0.02), ..Seen::of(ran, 1e7 * ran) });
        asked.push(stage.decide(&PRICE, None).workers);
    }
    assert!(asked[0] == 2 && asked[1] == 8 && asked[2] > 8, "{asked:?}");
}

#[test]
fn what_streams_that_are_left_will_carry_is_seen_before_others_join_them() {
    let mut stage = Stage::new("streams");
    for (ran, rate) in [(4.0, 1e8), (8.0, 1e8), (3.0, 1e8), (2.0, 1e8)] {
        see(&mut stage, ran, rate);
    }
    stage.probe.hasten();
    let asked = [6e7, 7.5e7, 8.6e7].map(|rate| {
        see(&mut stage, 1.0, rate);
        stage.decide(&PRICE, None).workers
    });
    assert_eq!(asked, [1, 1, 1]);
    // They grow no more.
    let after = [8.6e7; 6].map(|rate| {
        see(&mut stage, 1.0, rate);
        stage.decide(&PRICE, None).workers
    });
    assert!(after.contains(&2), "{after:?}");
}

#[test]
fn half_of_the_streams_that_share_one_rate_come_before_a_look_upwards_and_not_while_they_grow() {
    let looks = |half: Option<u16>| {
        let mut stage = probing();
        stage.probe.end();
        let reasons: Vec<String> = (0..60)
            .map(|_| {
                stage.observe(&Seen { half, ..Seen::of(10.0, 1e8) });
                stage.decide(&PRICE, None).reason
            })
            .filter(|reason| reason.contains("staying at 10"))
            .collect();
        ["probing", "trying 5"].map(|look| reasons.iter().any(|reason| reason.contains(look)))
    };
    assert_eq!([None, Some(5)].map(looks), [[true, false], [false, true]]);
    let mut stage = probing();
    stage.probe.end();
    stage.observe(&Seen { half: Some(2), ..Seen::of(5.0, 6e7) });
    assert!(stage.growing > 0 && stage.decide(&PRICE, None).workers == 5);
}
