//! Whether there is room for more streams is seen before they lose much.

use super::*;

/// What streams of BBR do on a path of 50 MB/s: the first loses when it begins, more than the path takes lose as long as they are there.
fn lossy_together(applied: &Decision, own: f64, first: bool) -> (f64, f64) {
    let streams = f64::from(applied.concurrency.network);
    let wanted = streams * applied.pacing.map_or(own, |rate| own.min(rate as f64));
    let crowded = wanted > 50e6 && (streams > 1.0 || applied.pacing.is_some());
    let lost = match applied.pacing {
        None if first || crowded => 0.12,
        _ if crowded => (1.0 - 50e6 / wanted) / 4.0,
        _ => 0.0,
    };
    (wanted.min(50e6), lost)
}

#[test]
fn where_streams_that_join_lose_much_it_is_seen_first_whether_there_is_room() {
    for (own, rooms, least, most) in [(60e6, 0, 1, 1), (10e6, 1, 5, 6)] {
        let mut model = Model::new(&Setup { streams: 1, ..Setup::of_a_test() });
        let mut next = model.start(&Policy::new(PolicyName::Fair, 64));
        let (mut crowded, mut looks, mut found) = (0, 0, 0);
        for interval in 0..40 {
            let (rate, lost) = lossy_together(&next, own, interval == 0);
            let observation = Observation { loss: Some(lost), ..Observation::of_a_test(next.clone(), rate, 64) };
            looks += usize::from(next.concurrency.network == 2 && next.pacing.is_some());
            crowded += usize::from(interval > 0 && next.pacing.is_none() && lost > 0.1);
            next = model.decide(&observation).unwrap();
            found += usize::from(next.reason.starts_with("there is room"));
        }
        assert!(looks > 0 && found >= rooms && (rooms > 0 || found == 0), "{own}: {looks} looks, {found} rooms");
        assert!(rooms > 0 || crowded == 0, "{own}: {crowded} intervals lost much");
        assert!((least..=most).contains(&next.concurrency.network), "{own}: {}", next.reason);
    }
}

#[test]
fn looks_in_vain_that_cost_much_come_ever_less_often() {
    let mut model = Model::new(&Setup { streams: 1, ..Setup::of_a_test() });
    let mut next = model.start(&Policy::new(PolicyName::Fair, 64));
    let mut looks = Vec::new();
    for interval in 0..120 {
        if next.concurrency.network > 1 {
            looks.push(interval);
        }
        let (rate, lost) = lossy_together(&next, 60e6, interval == 0);
        next = model.decide(&Observation { loss: Some(lost), ..Observation::of_a_test(next, rate, 64) }).unwrap();
    }
    let waits: Vec<i32> = looks.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(looks.len() >= 4 && waits.iter().skip(1).all(|wait| *wait >= 12), "{looks:?}");
}

/// Streams that each get 10 MB/s of 68 MB/s, and a queue that takes what is too much for a while.
fn queueing(applied: &Decision, told: bool) -> Observation {
    let each = applied.pacing.map_or(10e6, |rate| (rate as f64).min(10e6));
    let wanted = f64::from(applied.concurrency.network) * each;
    let lost = if applied.pacing.is_none() { 0.06 } else { 0.0 };
    let trip = if wanted > 68e6 { 30 } else { 20 };
    let rtt = told.then_some(Duration::from_millis(trip));
    Observation { loss: Some(lost), rtt, ..Observation::of_a_test(applied.clone(), wanted.min(68e6), 64) }
}

#[test]
fn a_queue_shows_that_paced_streams_have_filled_the_path() {
    let crowded = |told: bool| {
        let mut model = Model::new(&Setup { streams: 4, ..Setup::of_a_test() });
        let mut next = model.start(&Policy::new(PolicyName::Fair, 64));
        (0..12).any(|_| {
            next = model.decide(&queueing(&next, told)).unwrap();
            model.pacing.told() == Paced::Crowded
        })
    };
    assert!(crowded(true) && !crowded(false), "{} {}", crowded(true), crowded(false));
}

#[test]
fn a_path_that_is_full_keeps_as_many_paced_streams_as_it_carries() {
    let mut model = Model::new(&Setup { streams: 4, ..Setup::of_a_test() });
    let mut next = model.start(&Policy::new(PolicyName::Fair, 64));
    let late: Vec<u16> = (0..60)
        .map(|_| {
            next = model.decide(&queueing(&next, true)).unwrap();
            next.concurrency.network
        })
        .skip(20)
        .collect();
    let usual = late.iter().filter(|streams| (6..=7).contains(*streams)).count();
    assert!(usual >= 30, "but for looks upwards: {late:?}");
}

#[test]
fn no_more_counts_as_carried_than_paced_streams_were_sent() {
    let decision = |pacing| Decision { pacing, ..Decision::uniform(4, String::new()) };
    let carried = |pacing| carried(&Observation::of_a_test(decision(pacing), 5e6, 64), None);
    for (pacing, rate) in [(None, 5e6), (Some(1_000_000), 4e6), (Some(2_000_000), 5e6)] {
        assert!((carried(pacing) - rate).abs() < 1.0, "{pacing:?}: {}", carried(pacing));
    }
}

#[test]
fn what_got_through_beyond_gaps_counts_while_there_may_be_gaps() {
    let mut model = Model::new(&Setup::of_a_test());
    let mut carries = |loss, loss_before, received| {
        let of_a_test = Observation::of_a_test(Decision::uniform(4, String::new()), 5e6, 64);
        let observation = Observation { loss, loss_before, received, ..of_a_test };
        let received = model.received(&observation);
        (received.is_some(), carried(&observation, received))
    };
    let (usual, better) = ((false, 5e6), (true, 4e6));
    for (seen, expected) in [
        ((Some(0.0), None, Some(4e6)), usual),
        ((Some(0.0), Some(0.1), Some(4e6)), better),
        ((Some(0.1), None, Some(4e6)), better),
        ((Some(0.1), None, Some(0.0)), usual),
        ((Some(0.0), Some(0.0), Some(4e6)), better),
        ((Some(0.0), Some(0.0), Some(4e6)), usual),
        ((Some(0.1), Some(0.1), None), usual),
        ((None, None, Some(4e6)), better),
        ((None, None, Some(4e6)), usual),
    ] {
        assert_eq!(carries(seen.0, seen.1, seen.2), expected, "{seen:?}");
    }
}

#[test]
fn streams_are_equal_if_there_are_several() {
    let even = |streams, spread| {
        is_even(&Observation { spread, ..Observation::of_a_test(Decision::uniform(streams, String::new()), 1e6, 64) })
    };
    assert!(even(3, Some(0.01)) && even(64, Some(0.0)));
    assert!(!even(3, Some(0.03)) && !even(3, None) && !even(2, Some(0.0)));
}

#[test]
fn equal_streams_tell_of_their_rate_where_there_is_a_queue_that_no_pacing_prevents() {
    let told = |pacing, rtt, loss| {
        let mut model = Model::new(&Setup { rtt: Some(Duration::from_millis(20)), ..Setup::of_a_test() });
        let applied = Decision { pacing, ..Decision::uniform(4, String::new()) };
        let (rtt, loss) = (Some(Duration::from_millis(rtt)), Some(loss));
        model.together(&Observation { spread: Some(0.0), rtt, loss, ..Observation::of_a_test(applied, 4e6, 64) });
        (model.pacing.told(), model.pacing.rate())
    };
    assert_eq!(told(None, 40, 0.02).0, Paced::Alone);
    assert!(told(None, 40, 0.02).1.is_some(), "others join them");
    assert_eq!([told(None, 40, 0.0), told(None, 20, 0.02)], [(Paced::No, None); 2]);
    assert_eq!(told(Some(1_000_000), 40, 0.02).0, Paced::Untold);
}

#[test]
fn a_queue_is_known_by_a_longer_round_trip_time() {
    let model = Model::new(&Setup { rtt: Some(Duration::from_millis(20)), ..Setup::of_a_test() });
    let queued = |rtt: Option<u64>| {
        let decision = Decision::uniform(4, String::new());
        let rtt = rtt.map(Duration::from_millis);
        model.is_queued(&Observation { rtt, ..Observation::of_a_test(decision, 1e6, 64) })
    };
    assert_eq!([None, Some(20), Some(25), Some(27), Some(40)].map(queued), [false, false, false, true, true]);
}

#[test]
fn streams_that_fill_queues_fill_the_path_if_they_share_one_and_do_not_if_they_have_none() {
    let fills = |change: fn(&mut Observation)| {
        let mut model = Model::new(&Setup { rtt: Some(Duration::from_millis(80)), ..Setup::of_a_test() });
        let mut observation = Observation::of_a_test(Decision::uniform(4, String::new()), 5e6, 64);
        (observation.rtt, observation.loss) = (Some(Duration::from_millis(80)), Some(0.001));
        (observation.fills_queues, observation.spread) = (true, Some(0.2));
        change(&mut observation);
        model.has_queued = true;
        let received = model.received(&observation);
        let (rate, pacing) = (carried(&observation, received), observation.applied.pacing);
        model.pacing.observe(&Sent { streams: 4, rate, pacing, ..Sent::default() });
        model.seen(Found::Usual, &observation).fills
    };
    let queue = |seen: &mut Observation| seen.rtt = Some(Duration::from_millis(110));
    assert_eq!([fills(|_| {}), fills(|seen| seen.applied.pacing = Some(2_000_000))], [Some(false); 2]);
    assert_eq!(fills(queue), Some(true));
    let others: [fn(&mut Observation); 7] = [
        |seen| seen.rtt = Some(Duration::from_millis(90)),
        |seen| (seen.rtt, seen.spread) = (Some(Duration::from_millis(110)), Some(0.02)),
        |seen| seen.fills_queues = false,
        |seen| seen.loss = Some(0.0),
        |seen| seen.loss = Some(0.03),
        |seen| seen.cpu_bound = true,
        |seen| seen.applied.pacing = Some(1_250_000),
    ];
    assert_eq!(others.map(fills), [None; 7]);
}

#[test]
fn a_queue_that_was_there_when_the_path_changed_is_not_taken_for_none() {
    let fills = |rtt, queue| {
        let mut model = Model::new(&Setup { rtt: Some(Duration::from_millis(80)), ..Setup::of_a_test() });
        (model.trip, model.has_queued) = (Some(Duration::from_millis(110)), queue);
        let (rtt, loss) = (Some(Duration::from_millis(rtt)), Some(0.001));
        let of_a_test = Observation::of_a_test(Decision::uniform(4, String::new()), 5e6, 64);
        let observation = Observation { rtt, loss, fills_queues: true, ..of_a_test };
        model.received(&observation);
        model.seen(Found::Usual, &observation).fills
    };
    assert_eq!((fills(110, true), fills(82, true), fills(82, false)), (None, Some(false), None));
}
