//! What a stage decides after hand-made measurements.

use super::*;
use crate::optimizer::model::fit::{Company, Point, first_noise};
use crate::optimizer::model::seen::Counted;

mod look;
mod queue;

const PRICE: Price = Price { k: 1.02, loss_weight: 10.0, limit: 50 };

fn see(stage: &mut Stage, ran: f64, rate: f64) {
    stage.observe(&Seen::of(ran, rate));
}

/// Ten streams of 80 Mbit/s fill it.
fn settled() -> Stage {
    let mut stage = Stage::new("streams");
    for (ran, units) in [(4.0, 4.0), (12.0, 10.0), (10.0, 10.0), (10.0, 10.0)] {
        see(&mut stage, ran, units * 1e7);
    }
    stage
}

/// The same that looks whether twelve move more.
fn probing() -> Stage {
    let mut stage = settled();
    for ran in [16.0, 12.0, 12.0, 10.0] {
        see(&mut stage, ran, 1e8);
    }
    let due = (0..60).any(|_| {
        see(&mut stage, 10.0, 1e8);
        stage.decide(&PRICE, None).reason.contains("probing 12")
    });
    assert!(due);
    stage
}

#[test]
fn a_reason_names_the_capacity_and_the_rate_of_a_stream() {
    let mut stage = Stage::new("streams");
    see(&mut stage, 4.0, 4e7);
    let next = stage.decide(&PRICE, None);
    assert!((8..=16).contains(&next.workers), "{next:?}");
    assert!(next.reason.contains("each") && next.reason.ends_with("streams"), "{}", next.reason);
    let next = settled().decide(&PRICE, None);
    assert!((9..=10).contains(&next.workers), "{next:?}");
    assert!(next.reason.starts_with("capacity about ") && next.reason.contains("each alone: "), "{}", next.reason);
}

#[test]
fn beside_many_streams_of_others_on_a_full_path_the_end_of_the_capacity_is_in_sight() {
    // Forty streams of others fill it.
    let moved = |own: f64| 1e7 * own * 40.0 / (own + 40.0);
    let points = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0].map(|own| Point::new(own, moved(own), Bound::Exact));
    let fit = Fit::of(&points, first_noise(), Company { told: 1.0, capacity: None });
    assert!(fit.saturation() > 30.0 && fit.full() < 12.0, "{} and {}", fit.saturation(), fit.full());
    let reason = Stage { ran: 12, ..Stage::new("streams") }.reason(&fit, 12);
    assert!(reason.starts_with("capacity about "), "{reason}");
}

#[test]
fn a_surprise_is_measured_again_and_growth_that_brought_less_is_undone() {
    let mut stage = settled();
    see(&mut stage, 10.0, 4e7);
    let next = stage.decide(&PRICE, None);
    assert_eq!(next.workers, 10);
    assert!(next.reason.contains("of what 10 streams should move: measuring again"), "{}", next.reason);
    let mut stage = settled();
    see(&mut stage, 14.0, 4e7);
    assert_eq!(stage.decide(&PRICE, None).workers, 10);
}

#[test]
fn growth_that_lost_much_and_brought_little_is_undone_once_also_where_that_is_in_doubt() {
    let grow = |stage: &mut Stage, loss: f64| {
        let loss = Some(loss);
        stage.observe(&Seen { loss, loss_before: loss, lack: 0.5, ..Seen::of(2.0, 5e7) });
        stage.decide(&PRICE, None).workers
    };
    let begun = || {
        let mut stage = Stage::new("streams");
        see(&mut stage, 1.0, 5e7);
        stage
    };
    assert_eq!([0.0, 0.12].map(|loss| grow(&mut begun(), loss)), [2, 1]);
    let mut stage = begun();
    grow(&mut stage, 0.12);
    see(&mut stage, 1.0, 5e7);
    assert_eq!(stage.lost_then.to_bits(), 0.12_f64.to_bits());
    grow(&mut stage, 0.12);
    assert!(!stage.was_wrong(), "it is measured again");
    // What is lost anyway is not lost by them.
    let mut lossy = begun();
    lossy.only_lost(Some(0.1));
    grow(&mut lossy, 0.12);
    assert!(!lossy.was_wrong());
}

#[test]
fn no_decision_goes_beyond_a_quarter_and_four_times() {
    let mut stage = Stage::new("streams");
    see(&mut stage, 40.0, 4e7);
    see(&mut stage, 10.0, 4e7);
    see(&mut stage, 40.0, 4e7);
    assert!(stage.decide(&PRICE, None).workers >= 10);
    assert!(stage.decide(&Price { limit: 4, ..PRICE }, None).workers <= 4);
}

#[test]
fn growth_over_a_long_path_is_not_in_vain_because_new_streams_are_slow() {
    let grown = |lack: f64| {
        let mut stage = Stage::new("streams");
        for (ran, rate) in [(4.0, 4e7), (12.0, 9.6e7)] {
            stage.observe(&Seen { lack, ..Seen::of(ran, rate) });
        }
        stage.decide(&PRICE, None).workers
    };
    assert!(grown(0.3) > grown(0.0), "{} and {}", grown(0.3), grown(0.0));
    let seen = Seen { lack: 0.3, ..Seen::of(6.0, 1e8) };
    let (same, grown) = (seen.measured(6, 0.0, false), seen.measured(3, 0.0, false));
    assert!(same.doubt < 1e-12 && grown.doubt > 0.05 && grown.rate > same.rate);
    // Some of what arrives after much was lost is late, unless as much is lost still.
    let [little, much] = [0.04, 0.13].map(|lost| seen.measured(6, lost, false));
    let still = Seen { loss: Some(0.14), ..seen }.measured(6, 0.13, false);
    let exact = Seen { counted: Counted::BeyondGaps, ..seen }.measured(6, 0.13, false);
    assert!(exact.doubt <= same.doubt && (exact.rate - same.rate).abs() < 1e-6, "beyond gaps nothing is late");
    assert!(little.doubt <= same.doubt && still.doubt <= same.doubt && much.doubt > 0.1 && much.rate < same.rate);
    assert!(
        seen.measured(0, 0.0, false).doubt.is_finite() && Seen { ran: 0.0, ..seen }.measured(0, 0.0, false).doubt.is_finite()
    );
}

#[test]
fn where_streams_have_gone_the_others_are_given_time_to_grow_into_their_place() {
    // One stream fills the path, but takes seconds to take the place of others.
    let mut stage = Stage::new("streams");
    let mut asked = Vec::new();
    for (ran, rate) in [(8.0, 1e8), (16.0, 1e8), (4.0, 6e7), (4.0, 8e7), (4.0, 9.5e7), (4.0, 1e8)] {
        see(&mut stage, ran, rate);
        asked.push(stage.decide(&PRICE, None).workers);
    }
    assert!(asked[2..].iter().all(|n| *n <= 4), "{asked:?}");
    // Where they stay below what more have moved, that is what they can.
    let mut stage = Stage::new("streams");
    for (ran, rate) in [(8.0, 1e8), (16.0, 1e8), (4.0, 5e7), (4.0, 5e7), (4.0, 5e7)] {
        see(&mut stage, ran, rate);
    }
    assert!((7..=9).contains(&stage.decide(&PRICE, None).workers), "{:?}", stage.decide(&PRICE, None));
}

#[test]
fn streams_that_move_no_more_each_after_others_have_gone_are_what_limits() {
    // Five streams of 40 Mbit/s each fill it.
    let mut stage = Stage::new("streams");
    for (ran, rate) in [(16.0, 2e8), (8.0, 2e8), (5.0, 2e8), (2.0, 8e7), (2.0, 8e7)] {
        see(&mut stage, ran, rate);
    }
    assert!((4..=6).contains(&stage.decide(&PRICE, None).workers), "{:?}", stage.decide(&PRICE, None));
}

#[test]
fn a_probe_that_did_not_run_counts_for_nothing() {
    let mut stage = probing();
    see(&mut stage, 12.0, 1.2e8);
    assert_eq!(stage.news, News::Changed);
    // It was held near where it began: as much more would have come without any probe, and is measured again.
    let mut stage = probing();
    see(&mut stage, 11.0, 1.3e8);
    assert_eq!((stage.news, stage.probed), (News::Surprise(Side::More), None));
}

#[test]
fn after_a_change_growth_is_careful_until_there_are_enough() {
    let (mut stage, mut ran, mut asked) = (probing(), 12, vec![]);
    for _ in 0..3 {
        see(&mut stage, f64::from(ran), f64::from(ran) * 1e7);
        assert!(stage.brought());
        let next = stage.decide(&PRICE, None).workers;
        asked.push((ran, next));
        ran = next;
    }
    assert!(asked.iter().all(|(ran, next)| f64::from(*next) <= (1.5 * f64::from(*ran)).ceil()), "{asked:?}");
    assert!(ran > 35, "{asked:?}");
    // It brought so little that it may be enough.
    see(&mut stage, f64::from(ran), 3e8);
    assert!(!stage.brought());
    let next = stage.decide(&PRICE, None).workers;
    assert!(next <= ran, "{asked:?} and {next}");
}

#[test]
fn growth_stays_careful_over_surprises_and_where_it_did_not_run() {
    let changed = || {
        let mut stage = probing();
        see(&mut stage, 12.0, 1.2e8);
        assert_eq!((stage.news, stage.decide(&PRICE, None).workers), (News::Changed, 18));
        stage
    };
    // Far more or less than expected: measured again first.
    for (rate, side, next) in [(6e8, Side::More, 18), (9e7, Side::Less, 12)] {
        let mut stage = changed();
        see(&mut stage, 18.0, rate);
        assert_eq!((stage.news, stage.decide(&PRICE, None).workers), (News::Surprise(side), next));
        assert_eq!(stage.growth, Growth::Changed);
    }
    // Somebody else held it where it was.
    let mut stage = changed();
    see(&mut stage, 12.0, 1.19e8);
    assert_eq!(stage.decide(&PRICE, None).workers, 18);
    // All workers are new.
    stage.begin_anew();
    assert_eq!(stage.growth, Growth::Usual);
}

#[test]
fn growth_that_brought_less_is_undone_before_there_are_still_fewer() {
    let mut stage = Stage::new("streams");
    for (ran, rate) in [(11.0, 44e6), (15.0, 27e6)] {
        see(&mut stage, ran, rate);
    }
    assert_eq!(stage.decide(&PRICE, None).workers, 11);
    // That it is less by then as well is believed.
    see(&mut stage, 11.0, 27e6);
    assert_ne!(stage.undone(), 11);
}

#[test]
fn where_the_first_workers_lose_much_half_of_them_tell_whether_they_are_too_many() {
    let next = |loss: f64, seen: &[(f64, f64)]| {
        let mut stage = Stage::new("streams");
        for &(ran, rate) in seen {
            let loss = Some(loss);
            stage.observe(&Seen { loss, ..Seen::of(ran, rate) });
        }
        stage.decide(&PRICE, None).workers
    };
    assert_eq!(next(0.04, &[(16.0, 2e8)]), 8);
    assert!(next(0.001, &[(16.0, 2e8)]) > 10);
    assert_ne!(next(0.04, &[(4.0, 1e8), (16.0, 4e8)]), 8, "two settings tell more than that");
    // Where nothing is known of the path more streams may bring more, but not where much is lost already.
    assert!(next(0.04, &[(4.0, 5e7)]) > 4);
    assert_eq!(next(0.1, &[(4.0, 5e7)]), 2);
    assert!(next(0.1, &[(4.0, 5e7), (2.0, 2.5e7)]) > 2, "fewer lose as much");
}

#[test]
fn where_processors_are_busy_there_are_no_more_workers_and_half_of_the_first_ones_tell_whether_fewer_do() {
    let decide = |stage: &mut Stage, ran: f64, rate: f64, cpu_bound: bool| {
        stage.observe(&Seen { cpu_bound, ..Seen::of(ran, rate) });
        stage.decide(&PRICE, None)
    };
    for (rate, next) in [(1.4e9, 1..=4), (0.7e9, 7..=8)] {
        let mut stage = Stage::new("streams");
        let first = decide(&mut stage, 8.0, 1.4e9, true);
        assert_eq!(first.workers, 4);
        assert!(first.reason.starts_with("the processors of this host are busy, "), "{}", first.reason);
        // Four do as well, or leave processors idle and move half: then eight come back, and no more.
        let second = decide(&mut stage, 4.0, rate, rate > 1e9);
        assert!(next.contains(&second.workers), "{second:?}");
    }
    for cpu_bound in [true, false] {
        let mut stage = settled();
        let probes = (0..20).any(|_| decide(&mut stage, 10.0, 1e8, cpu_bound).reason.contains("probing"));
        assert_ne!(probes, cpu_bound);
    }
}

#[test]
fn what_is_lost_while_streams_join_is_no_law_and_what_many_lose_for_long_is() {
    let caused = |time: f64, losses: &[(f64, f64)]| {
        let mut stage = settled();
        for &(ran, loss) in losses {
            let (rate, bound) = (1e8, Bound::Exact);
            stage.observe(&Seen { loss: Some(loss), bound, time, ..Seen::of(ran, rate) });
        }
        stage.losses.law(|workers| workers / 10.0).caused(1.4)
    };
    let joining = [(10.0, 0.01), (14.0, 0.3), (14.0, 0.3), (10.0, 0.2), (10.0, 0.01)];
    assert!(caused(0.5, &joining) < 0.05, "{}", caused(0.5, &joining));
    // After longer intervals they have found their rate.
    assert!(caused(1.0, &[(10.0, 0.01), (14.0, 0.3), (14.0, 0.3), (10.0, 0.01)]) > 0.2);
    assert!(caused(0.5, &[(14.0, 0.3); 4]) > 0.2);
}

#[test]
fn a_stage_that_only_waited_gets_fewer_workers() {
    let mut stage = Stage::new("writers");
    let (ran, bound) = (20.0, Bound::AtLeast);
    stage.observe(&Seen { bound, ..Seen::of(ran, 1e8) });
    assert_eq!(stage.decide(&PRICE, Some(1e8)).workers, 16);
    assert_eq!(stage.capability(&PRICE), None);
}

#[test]
fn a_stage_that_works_for_a_part_of_the_time_needs_a_part_of_the_workers() {
    let readers = settled().told_of("readers", 0.3, Bound::Exact);
    let found = readers.filter.fit().unwrap();
    assert!((2.5..3.5).contains(&found.saturation()), "{}", found.saturation());
}

#[test]
fn where_new_streams_lost_much_before_the_interval_there_are_twice_as_many_at_most() {
    let grown = |loss_before: f64| {
        let mut stage = Stage::new("streams");
        stage.observe(&Seen { loss: Some(0.0), loss_before: Some(loss_before), time: 0.5, ..Seen::of(4.0, 4e7) });
        stage.decide(&PRICE, None).workers
    };
    assert!(grown(0.0) > 8 && grown(0.2) == 8, "{} {}", grown(0.0), grown(0.2));
}

#[test]
fn few_streams_become_twice_as_many_at_most() {
    let grown = |ran: f64| {
        let mut stage = Stage::new("streams");
        stage.observe(&Seen::of(ran, 1e7 * ran));
        stage.decide(&PRICE, None).workers
    };
    assert_eq!([1.0, 2.0].map(grown), [2, 4]);
    assert!(grown(3.0) > 6);
}

#[test]
fn paced_streams_become_a_quarter_more_or_half_as_many_again_while_they_are_few_and_it_is_told_what_more_of_them_carry() {
    let next = |ran: u16, paced: Paced| {
        let mut stage = Stage::new("streams");
        stage.observe(&Seen { paced, loss: Some(0.0), ..Seen::of(f64::from(ran), 1e6 * f64::from(ran)) });
        stage.decide(&PRICE, None).workers
    };
    assert_eq!([4, 8].map(|ran| next(ran, Paced::Untold)), [5, 10]);
    assert_eq!([1, 2, 4, 5, 8].map(|ran| next(ran, Paced::Told)), [2, 4, 6, 8, 12], "half as many again while they are few");
    assert!([(13, 17), (16, 20)].iter().all(|(ran, most)| next(*ran, Paced::Told) <= *most), "in steps that overshoot by little");
    assert_eq!([4, 8].map(|ran| next(ran, Paced::Crowded)), [4, 8], "where the path is full there are no more");
    assert!(next(4, Paced::No) > 10);
}

#[test]
fn there_are_no_more_than_a_queue_has_shown_to_have_room() {
    let next = |ran: u16, room: Option<u16>| {
        let mut stage = Stage::new("streams");
        for ran in [2, 4, ran] {
            stage.observe(&Seen { paced: Paced::Told, room, loss: Some(0.0), ..Seen::of(f64::from(ran), 1e6 * f64::from(ran)) });
        }
        stage.decide(&PRICE, None).workers
    };
    assert_eq!([(6, None), (6, Some(7)), (6, Some(5)), (6, Some(1))].map(|(ran, room)| next(ran, room)), [9, 7, 5, 2]);
}

#[test]
fn what_paced_streams_lose_that_have_joined_others_is_for_being_too_many() {
    let lost = |paced: Paced, time: f64| {
        let mut stage = Stage::new("streams");
        for (ran, loss) in [(4, 0.0), (5, 0.0), (6, 0.03), (6, 0.05)] {
            let rate = 1e6 * f64::from(ran.min(5));
            stage.observe(&Seen { paced, time, loss: Some(loss), ..Seen::of(f64::from(ran), rate) });
        }
        stage.losses.law(|workers| workers / 5.0).caused(1.2)
    };
    assert!([Paced::No, Paced::Untold].iter().all(|paced| lost(*paced, 0.4) < 1e-9));
    for (paced, time) in [(Paced::Told, 0.4), (Paced::Told, 1.0), (Paced::Crowded, 0.4)] {
        assert!(lost(paced, time) > 0.02, "{paced:?} {time}: {}", lost(paced, time));
    }
    // All streams of a new session are new, and none of them has joined others.
    let mut stage = Stage::new("streams");
    let see = |stage: &mut Stage, loss: f64| {
        stage.observe(&Seen { paced: Paced::Told, loss: Some(loss), ..Seen::of(6.0, 5e6) });
    };
    see(&mut stage, 0.0);
    stage.begin_anew();
    see(&mut stage, 0.1);
    assert!(stage.losses.law(|workers| workers / 5.0).caused(1.2) < 1e-9);
}

#[test]
fn a_look_upwards_that_paced_streams_lose_in_is_in_vain() {
    for (lost, waits) in [(0.0, false), (0.05, true)] {
        let mut stage = Stage::new("streams");
        let see = |stage: &mut Stage, ran: u16, lost: f64| {
            stage.observe(&Seen { paced: Paced::Told, loss: Some(lost), ..Seen::of(f64::from(ran), 1e6 * f64::from(ran)) });
            stage.decide(&Price { limit: 12, ..PRICE }, None)
        };
        (0..4).for_each(|_| drop(see(&mut stage, 10, 0.0)));
        (stage.probed, stage.pending) = (None, None);
        let _ = stage.probe.due(10, 10, &PRICE, Measured { time: 99.0, noise: 0.02, paced: true });
        see(&mut stage, 12, lost);
        assert_eq!(stage.probed.is_some(), waits, "{lost}");
    }
}
