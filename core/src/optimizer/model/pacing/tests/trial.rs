//! Tests of trials.

use super::*;
use crate::optimizer::Beginning;

#[test]
fn a_trial_that_was_too_fast_is_repeated_with_what_got_through_and_not_for_ever() {
    let mut path = Path::new(1e6, 1e9);
    // Queues took a quarter more than gets through.
    path.carry(1.25e6, 0.2);
    assert!(path.pacing.decide(4, false).is_some());
    assert_eq!(path.send(4, 4), (Found::Nothing, None));
    assert!(is_just_below(path.each(), 1e6), "{}", path.each());
    assert_eq!(path.send(4, 4).0, Found::Calm);
    // Something else than their rate is why they lose.
    let mut random = Path::new(1e6, 1e9);
    random.carry(1e6, 0.06);
    assert!(random.pacing.decide(4, false).is_some());
    let paced: Vec<Option<u64>> = (0..3)
        .map(|_| {
            let each = 0.9 * random.each();
            random.carry(each, 0.06);
            random.pacing.rate()
        })
        .collect();
    assert!(paced[0] > paced[1] && paced[1] > Some(690_000) && paced[2].is_none(), "{paced:?}");
}

#[test]
fn a_trial_goes_on_while_ever_less_of_what_was_lost_before_is_sent_again() {
    let mut path = Path::new(1e6, 1e9);
    path.carry(1.05e6, 0.5);
    assert!(path.pacing.decide(4, false).is_some());
    let rate = path.pacing.rate();
    for (lost, found) in [(0.4, Found::Nothing), (0.3, Found::Nothing), (0.015, Found::Calm)] {
        assert_eq!((path.carry(1e6, lost), path.pacing.rate()), (found, rate), "{lost}");
    }
    // Where it does not become less, it is not for that.
    path.pacing = Pacing::default();
    path.carry(1.05e6, 0.5);
    path.pacing.decide(4, false);
    assert_eq!((path.carry(1e6, 0.48), path.pacing.rate()), (Found::Nothing, None));
}

#[test]
fn a_trial_that_is_right_and_still_loses_much_is_repeated_with_less() {
    let mut path = Path::new(1e6, 1e9);
    path.carry(1.2e6, 0.4);
    assert!(path.pacing.decide(4, false).is_some());
    assert_eq!(path.carry(1.1e6, 0.1), Found::Nothing);
    assert!(is_just_below(path.each(), 1.05e6), "{}", path.each());
    // Where less is no better, what was right is kept.
    let mut same = path.pacing.clone();
    let sent = Sent { streams: 4, rate: 4e6, loss: Some(0.3), pacing: same.rate(), time: 1.0, ..Sent::default() };
    for _ in 0..2 {
        same.observe(&Sent { pacing: same.rate(), ..sent });
    }
    assert_eq!(same.rate(), Some(1_140_000));
    // A little is what a path may lose by itself.
    assert_eq!(path.carry(1.0e6, 0.015), Found::Calm);
    assert!(is_just_below(path.each(), 1.05e6), "{}", path.each());
}

#[test]
fn a_trial_that_was_too_fast_goes_on_with_what_gets_through_at_the_end() {
    // A limit of 1 MB/s has let a burst through. Far less is what TCP sends while it makes up for it.
    for (delivered, rate) in
        [(Some(4e6), Some(950_000)), (Some(1e6), Some(758_100)), (Some(6e6), Some(1_140_000)), (None, Some(1_140_000))]
    {
        let mut pacing = Pacing::default();
        let sent = |loss| Sent { streams: 4, rate: 4.8e6, loss: Some(loss), delivered, time: 1.0, ..Sent::default() };
        pacing.observe(&sent(0.2));
        assert!(pacing.decide(4, false).is_some() && pacing.rate() == Some(1_140_000));
        pacing.observe(&Sent { rate: 4.56e6, pacing: pacing.rate(), ..sent(0.15) });
        assert_eq!(pacing.rate(), rate, "{delivered:?}");
    }
}

#[test]
fn short_intervals_of_a_trial_may_lose_what_was_sent_before_them() {
    for (time, passes) in [(0.5, 2), (1.0, 0)] {
        let mut pacing = Pacing::default();
        let sent = Sent { streams: 4, rate: 4e6, loss: Some(0.2), time, ..Sent::default() };
        pacing.observe(&sent);
        pacing.observe(&sent);
        assert!(pacing.decide(4, false).is_some());
        for _ in 0..passes {
            pacing.observe(&Sent { pacing: pacing.rate(), ..sent });
            assert_eq!(pacing.rate(), Some(950_000));
        }
        pacing.observe(&Sent { pacing: pacing.rate(), ..sent });
        assert_eq!(pacing.rate(), None, "{time}");
    }
}

#[test]
fn new_streams_that_are_restrained_are_on_trial_in_their_first_interval() {
    let beginning = Beginning { streams: 4, loss: 0.4, rate: 4e6, fills: false };
    let mut path = Path::new(1e6, 1e9);
    assert_eq!(path.pacing.restrain(&beginning), Some(950_000));
    assert_eq!(path.pacing.clone().restrain(&beginning), None, "they are already");
    assert_eq!(path.carry(0.95e6, 0.0), Found::Calm);
    assert_eq!(path.pacing.rate(), Some(950_000));
    // Where that is no better, TCP finds out what is.
    path.pacing = Pacing::default();
    path.pacing.restrain(&beginning);
    assert_eq!((path.carry(0.95e6, 0.4), path.pacing.rate()), (Found::Nothing, None));
    // Where it was tried in vain a queue is no reason to try it again at once.
    assert_eq!(path.pacing.restrain(&Beginning { fills: true, ..beginning }), None);
    for rate in [0.0, f64::NAN] {
        assert_eq!(Pacing::default().restrain(&Beginning { rate, ..beginning }), None);
    }
}

#[test]
fn a_trial_that_fills_queues_is_too_fast_although_nothing_is_lost() {
    let tried = |queued: bool, uneven: bool| {
        let mut path = Path::new(1e6, 1e9);
        path.carry(1.2e6, 0.2);
        path.pacing.decide(4, false);
        let (rate, pacing, loss) = (path.each(), path.pacing.rate(), Some(0.0));
        path.pacing.observe(&Sent { streams: 4, rate: 4e6, loss, pacing, time: 1.0, queued, uneven, ..Sent::default() });
        (rate, path.each())
    };
    let (first, next) = tried(true, false);
    assert!(first > 1.1e6 && is_just_below(next, 1e6), "{first} {next}");
    assert!(tried(false, false).1 < 1.0, "something else is why they carry less");
    assert!(tried(true, true).1 < 1.0, "those that share a queue may be making up for what they have lost");
}

#[test]
fn equal_streams_that_overflow_queues_are_known_to_have_rates_of_their_own_once_pacing_empties_these() {
    let told = |even: bool, queued: bool| {
        let mut pacing = Pacing::default();
        let sent = Sent { rate: 4e6, time: 1.0, queued: true, even, ..Sent::default() };
        // More streams than before lose little in the first interval that is seen of them.
        pacing.observe(&Sent { streams: 2, rate: 2e6, loss: Some(0.0), ..sent });
        pacing.observe(&Sent { streams: 4, loss: Some(0.03), ..sent });
        pacing.decide(4, false)?;
        let pacing_of_each = pacing.rate();
        assert_eq!(pacing_of_each, Some(930_000));
        pacing.observe(&Sent { streams: 4, rate: 3.7e6, loss: Some(0.0), pacing: pacing_of_each, queued, ..sent });
        Some(pacing.told())
    };
    assert_eq!([told(true, false), told(true, true)], [Some(Paced::Told), Some(Paced::Untold)]);
    assert_eq!(told(false, false), None);
}

#[test]
fn those_that_join_equal_streams_with_queues_of_their_own_are_paced_at_what_each_carries() {
    let sent = Sent { streams: 4, rate: 4e6, time: 1.0, queued: true, even: true, loss: Some(0.0), ..Sent::default() };
    let join = |first: Sent| {
        let mut pacing = Pacing::default();
        pacing.observe(&first);
        (pacing.told(), pacing.decide(5, false), pacing.rate(), pacing)
    };
    for loss in [Sent { loss: Some(0.2), ..sent }, Sent { loss_before: Some(0.4), ..sent }] {
        let (told, trial, rate, pacing) = join(loss);
        assert_eq!((told, trial, rate), (Paced::Alone, None, Some(960_000)));
        let next = |rate: f64, loss: f64| {
            let mut pacing = pacing.clone();
            let (loss, now) = (Some(loss), pacing.rate());
            pacing.observe(&Sent { streams: 5, rate, loss, pacing: now, queued: false, ..sent });
            (pacing.told(), pacing.rate())
        };
        assert_eq!(next(4.8e6, 0.0), (Paced::Told, Some(960_000)));
        assert_eq!(next(4e6, 0.0).1, None, "they share one rate");
        assert_eq!(next(4e6, 0.17).1, Some(800_000));
    }
    for other in [sent, Sent { queued: false, ..sent }, Sent { even: false, loss: Some(0.02), ..sent }] {
        assert_eq!(join(other).2, None);
    }
    let mut pacing = Pacing::default();
    pacing.observe(&Sent { loss_before: Some(0.4), ..sent });
    pacing.decide(5, true);
    assert_eq!(pacing.rate(), None, "a look upwards has a pacing of its own");
}

#[test]
fn what_crowded_streams_lose_is_no_reason_to_send_them_slower_nor_what_the_first_of_fewer_lose() {
    let pacing = || {
        let mut path = Path::new(1e6, 1e9);
        path.send(4, 8);
        path.send(4, 8);
        path.send(8, 16);
        path
    };
    let carries = |path: &mut Path, streams: u16, each: f64, uneven: bool| {
        let (rate, pacing) = (each * path.each() * f64::from(streams), path.pacing.rate());
        let sent = Sent { streams, rate, loss: Some(0.05), pacing, time: 1.0, queued: true, uneven, ..Sent::default() };
        path.pacing.observe(&sent);
    };
    let mut path = pacing();
    let rate = path.each();
    assert!(path.pacing.rates.own);
    carries(&mut path, 16, 0.8, true);
    carries(&mut path, 16, 0.8, true);
    assert!((path.each() - rate).abs() < 1.0, "they share the path");
    carries(&mut path, 8, 1.0, false);
    assert!((path.each() - rate).abs() < 1.0, "it is what those that left had sent");
    carries(&mut path, 8, 1.0, false);
    assert!(path.each() < 0.98 * rate);
    let mut path = pacing();
    carries(&mut path, 8, 0.8, false);
    assert!(path.each() < 0.98 * rate, "something else than the path");
}

#[test]
fn what_more_of_them_carried_as_much_of_is_no_guess_any_more() {
    let mut pacing = Pacing::default();
    let sent = Sent { streams: 4, rate: 4e6, time: 0.5, queued: true, even: true, loss: Some(0.02), ..Sent::default() };
    pacing.observe(&sent);
    pacing.decide(5, false);
    let now = pacing.rate();
    pacing.observe(&Sent { streams: 5, rate: 4.8e6, loss: Some(0.0), pacing: now, ..sent });
    pacing.observe(&Sent { streams: 8, rate: 6.8e6, loss: Some(0.03), pacing: now, ..sent });
    assert_eq!((pacing.rate(), pacing.told()), (now, Paced::Crowded));
}

#[test]
fn where_no_more_streams_come_than_there_are_these_get_faster_nevertheless() {
    let mut path = Path::new(1e6, 1e9);
    path.send(4, 8);
    path.send(4, 5);
    let before = path.each();
    path.own = 4e6;
    for _ in 0..60 {
        path.send(4, 5);
    }
    assert!(path.each() > 2.0 * before, "{}", path.each());
}

#[test]
fn what_streams_lose_that_differ_is_seen_anew_in_the_end() {
    let mut path = Path::new(1e6, 1e9);
    for (streams, next) in [(4, 8), (4, 8), (8, 8)] {
        path.send(streams, next);
    }
    let trial = |path: &mut Path| {
        let (rate, pacing) = (0.75 * path.each() * 8.0, path.pacing.rate());
        let sent = Sent { streams: 8, rate, loss: Some(0.25), pacing, time: 1.0, queued: true, uneven: true, ..Sent::default() };
        path.pacing.observe(&sent);
        path.pacing.decide(8, false)
    };
    assert!((0..6).any(|_| trial(&mut path).is_some()));
}
