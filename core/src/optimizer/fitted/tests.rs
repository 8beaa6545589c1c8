//! Tests of the first decision, of what memory does to the next ones, and of the fewest that stay.

use super::*;
use crate::optimizer::model::Model;
use crate::optimizer::testing::{TestPath, Trial};
use crate::optimizer::{Extent, Haste, Setup};

const LONG: Duration = Duration::from_millis(67);

fn work(items: u64, bytes: u64) -> Extent {
    Extent { items, bytes, complete: true }
}

fn fair() -> Policy {
    Policy::new(PolicyName::Fair, 64)
}

fn model(first: u16) -> Model {
    Model::new(&Setup { streams: first, rtt: Some(LONG), ..Setup::of_a_test() })
}

fn fitted(work: Extent) -> Fitted {
    let first = FirstStreams::AUTO.at_most(64).for_work(Some(work), Haste::Allowed);
    begun(first, &[])
}

fn begun(first: FirstStreams, settled: &[Settled]) -> Fitted {
    Fitted::new(first, Some(LONG), settled, |streams| Ok(Box::new(model(streams)))).unwrap()
}

#[test]
fn the_first_decision_fits_the_work_and_says_why() {
    let one = fitted(work(1, 3_000_000)).start(&fair());
    assert_eq!(one.concurrency, PerStage::all(1));
    assert_eq!(one.reason, "start: 1 stream for 1 item of 3.0 MB");
    let many = fitted(work(863, 500_000_000)).start(&fair());
    assert_eq!(many.concurrency, PerStage::all(48));
    assert_eq!(many.reason, "start: 48 streams for 863 items of 500 MB: many grow sooner over 67 ms");
    let narrow = fitted(work(863, 500_000_000)).start(&Policy::new(PolicyName::Fair, 6));
    assert_eq!((narrow.concurrency, narrow.reason.as_str()), (PerStage::all(6), "start: 6 streams for 863 items of 500 MB"));
    let usual = fitted(work(863, 50 << 30)).start(&fair());
    assert_eq!(usual, model(8).start(&fair()));
}

#[test]
fn from_the_first_observation_on_the_number_is_the_optimizers() {
    let mut fitted = fitted(work(863, 500_000_000));
    let mut decision = fitted.start(&fair());
    let mut trace = Vec::new();
    for _ in 0..12 {
        // Twelve streams fill the path of 1 Gbit/s.
        let rate = 10e6 * f64::from(decision.concurrency.network.min(12));
        decision = fitted.decide(&Observation::of_a_test(decision, rate, 64)).unwrap();
        trace.push(decision.concurrency.network);
    }
    assert!((12..=48).contains(&trace[0]), "{trace:?}");
    assert!(trace[4..].iter().all(|streams| (10..=17).contains(streams)), "{trace:?}");
}

#[test]
fn many_streams_on_a_path_that_few_fill_are_taken_back_at_once() {
    let mut fitted = fitted(work(863, 500_000_000));
    let first = fitted.start(&fair());
    // 20 Mbit/s: 167 kB are under way in 67 ms, a fourth of 48 first windows.
    let second = fitted.decide(&Observation::of_a_test(first, 2.5e6, 64)).unwrap();
    assert_eq!(second.concurrency, PerStage::all(8));
    assert_eq!(second.reason, "48 streams have less under way than their first windows: going on with 8");
    let third = fitted.decide(&Observation::of_a_test(second, 2.5e6, 64)).unwrap();
    assert!((1..=16).contains(&third.concurrency.network), "{}", third.reason);
}

#[test]
fn a_slow_first_interval_takes_nothing_back_where_a_rate_held_it_or_few_streams_ran() {
    let slow = |held_back: bool, ran: u16| {
        let mut fitted = fitted(work(863, 500_000_000));
        let first = fitted.start(&fair());
        let applied = Decision { concurrency: PerStage::all(ran), ..first };
        let reason = fitted.decide(&Observation { held_back, ..Observation::of_a_test(applied, 1e5, 64) }).unwrap().reason;
        reason.contains("first windows")
    };
    assert_eq!([slow(false, 48), slow(true, 48), slow(false, 6), slow(false, 8)], [true, false, false, false]);
}

#[test]
fn one_stream_is_not_the_last_word() {
    let mut fitted = fitted(work(1, 4 << 20));
    let first = fitted.start(&fair());
    let next = fitted.decide(&Observation::of_a_test(first, 1e5, 64)).unwrap();
    assert!((2..=4).contains(&next.concurrency.network), "{}", next.reason);
}

fn settled(streams: u16, rate: f64) -> Settled {
    Settled { rtt_s: Some(LONG.as_secs_f64()), mean_size: 1e9, streams, rate }
}

/// The streams of a minute over a path that so many fill, with 10 MB/s each, and their mean utility, as a share of the best.
fn minute(best: u16, settled: &[Settled]) -> (Vec<u16>, f64) {
    let path = TestPath { rtt: LONG, ..TestPath::of_streams(best) };
    let mut fitted = begun(FirstStreams::AUTO.at_most(64), settled);
    let decisions = Trial::new(&mut fitted, path.clone(), 64).decisions(60);
    let utility = |decision: &Decision| {
        let (rate, loss) = path.moves(decision);
        utility::utility(rate, f64::from(decision.concurrency.network), Some(loss), &fair())
    };
    let most = utility(&Decision::uniform(best, ""));
    let mean = decisions.iter().map(|decision| utility(decision) / most).sum::<f64>() / 60.0;
    (decisions.iter().map(|decision| decision.concurrency.network).collect(), mean)
}

#[test]
fn a_right_memory_saves_a_part_of_the_search() {
    let saved = [1, 4, 12, 24, 40].map(|best| {
        let (without, unaided) = minute(best, &[]);
        let (with, aided) = minute(best, &[settled(best, 10e6 * f64::from(best))]);
        println!("{best}: {unaided:.4} {aided:.4} {:?} {:?}", &without[..10], &with[..10]);
        assert!(aided > unaided - 0.002, "{best}: {aided} and {unaided}: {with:?} {without:?}");
        aided - unaided
    });
    assert!(saved.iter().sum::<f64>() > 0.015, "{saved:?}");
}

#[test]
fn a_wrong_memory_costs_little() {
    for (best, streams, rate) in [
        (4, 32, 320e6),
        (4, 24, 40e6),
        (4, 64, 10e9),
        (1, 48, 480e6),
        (24, 1, 10e6),
        (24, 4, 40e6),
        (24, 8, 80e6),
        (24, 24, 120e6),
        (40, 1, 10e6),
        (40, 8, 80e6),
    ] {
        let (without, unaided) = minute(best, &[]);
        let (with, aided) = minute(best, &[settled(streams, rate)]);
        println!("{best} {streams} {rate:.0}: {unaided:.4} {aided:.4} {:?} {:?}", &without[..10], &with[..10]);
        assert!(aided > unaided - 0.015, "{best}, not {streams}: {aided} and {unaided}: {with:?} {without:?}");
    }
}

#[test]
fn little_work_and_many_small_files_begin_as_they_do_without_a_memory() {
    let first = |work| FirstStreams::AUTO.at_most(64).for_work(Some(work), Haste::Allowed);
    let (large, many) = (work(1, 20 << 20), work(863, 500_000_000));
    for (work, settled) in [(large, settled(32, 320e6)), (many, Settled { mean_size: 1e5, ..settled(32, 320e6) })] {
        assert_eq!(begun(first(work), &[settled]).start(&fair()), begun(first(work), &[]).start(&fair()));
    }
    // As many as haste asks for, over a path that carries little today.
    let past = Settled { mean_size: 1e5, ..settled(48, 480e6) };
    let rtt = Duration::from_millis(120);
    let past = Settled { rtt_s: Some(rtt.as_secs_f64()), ..past };
    let mut fitted = Fitted::new(first(many), Some(rtt), &[past], |streams| Ok(Box::new(model(streams)))).unwrap();
    let began = fitted.start(&fair());
    assert!(began.reason.contains("1 earlier copy"), "{}", began.reason);
    let next = fitted.decide(&Observation::of_a_test(began, 2.5e6, 64)).unwrap();
    assert!(next.concurrency.network <= 12, "{}", next.reason);
}

/// Always asks for the same.
struct Asking(PerStage<u16>);

impl Optimizer for Asking {
    fn name(&self) -> &'static str {
        "asking"
    }

    fn start(&mut self, _: &Policy) -> Decision {
        Decision::uniform(8, "start")
    }

    fn decide(&mut self, _: &Observation) -> Result<Decision> {
        Ok(Decision { concurrency: self.0, ..Decision::uniform(1, "asked") })
    }
}

fn asking(first: FirstStreams, rtt: Duration, asked: PerStage<u16>) -> Fitted {
    let mut fitted = Fitted::new(first, Some(rtt), &[], |_| Ok(Box::new(Asking(asked)))).unwrap();
    fitted.start(&fair());
    fitted
}

/// What is seen of a transfer with so many streams and seconds of work left.
fn seen(ran: u16, seconds: u64) -> Observation {
    let seen = Observation::of_a_test(Decision::uniform(ran, ""), 80e6, 64);
    Observation { bytes_left: Some(seconds * 80_000_000), loss: None, ..seen }
}

#[test]
fn where_workers_make_requests_half_of_them_stay_while_the_work_is_soon_over() {
    let asked = |first: FirstStreams, rtt_ms, observation: Observation| {
        let next = asking(first, Duration::from_millis(rtt_ms), PerStage::all(2)).decide(&observation).unwrap();
        assert_eq!(next.reason.contains("soon over"), next.concurrency.network > 2, "{}", next.reason);
        next.concurrency.network
    };
    let requests = FirstStreams::AUTO_REQUESTS;
    assert_eq!([1, 67, 100].map(|rtt_ms| asked(requests, rtt_ms, seen(48, 50))), [4, 16, 24]);
    assert_eq!(asked(requests, 67, seen(8, 50)), 8, "nor more than ran");
    assert_eq!(asked(requests.at_most(10), 67, seen(10, 50)), 5);
    assert_eq!(asked(requests, 67, seen(32, 70)), 2);
    assert_eq!(asked(requests, 67, Observation { bytes_left: None, ..seen(32, 50) }), 2);
    assert_eq!(asked(requests, 67, Observation { loss: Some(0.05), ..seen(32, 50) }), 2);
    assert_eq!(asked(requests, 67, Observation { loss: Some(0.005), ..seen(32, 50) }), 16);
    assert_eq!(asked(requests, 67, Observation { policy: Policy::new(PolicyName::Low, 64), ..seen(32, 50) }), 2);
    assert_eq!(asked(requests, 67, Observation { policy: Policy::new(PolicyName::Fair, 8), ..seen(8, 50) }), 4);
    assert_eq!(asked(FirstStreams::AUTO, 67, seen(32, 50)), 2, "streams of edt wait for no answer");
    let mut stalled = asking(requests, LONG, PerStage::all(2));
    stalled.decide(&seen(32, 20)).unwrap();
    let slow = Observation { throughput: PerStage::all(8e6), ..seen(32, 20) };
    assert_eq!(stalled.decide(&slow).unwrap().concurrency.network, 16, "one slow interval");
}

#[test]
fn of_stages_that_are_parted_the_one_that_makes_requests_keeps_its_workers_and_all_stay_parted() {
    let kept = |read, network, write| {
        let asked = PerStage { read, network, write };
        let PerStage { read, network, write } = no_fewer(16, asked, PerStage { read: 20, network: 20, write: 24 });
        (read, network, write)
    };
    assert_eq!(kept(4, 12, 8), (4, 12, 16));
    assert_eq!(kept(5, 4, 19), (5, 4, 19));
    assert_eq!(kept(16, 16, 14), (16, 16, 17), "not as many as the streams, which would be their own");
    assert_eq!(kept(9, 4, 4), (16, 4, 4));
    assert_eq!(kept(9, 4, 6), (16, 4, 6));
    assert_eq!(kept(3, 3, 3), (16, 16, 16));
}

#[test]
fn stages_that_have_been_parted_stay_so() {
    let parted = PerStage { read: 16, network: 2, write: 2 };
    let mut fitted = Fitted::new(FirstStreams::AUTO, Some(LONG), &[settled(8, 80e6)], |_| Ok(Box::new(Asking(parted)))).unwrap();
    let first = fitted.start(&fair());
    assert!(fitted.memory.is_some());
    let next = fitted.decide(&Observation::of_a_test(first, 80e6, 64)).unwrap();
    assert_eq!(next.concurrency, parted);
}

#[test]
fn the_reasons_name_the_memory_and_what_became_of_it() {
    let mut right = begun(FirstStreams::AUTO, &[settled(12, 120e6), settled(12, 130e6)]);
    let first = right.start(&fair());
    assert_eq!(first.reason, "start: 12 streams, as 2 earlier copies on this path settled at 12 streams");
    let mut wrong = begun(FirstStreams::AUTO, &[settled(32, 320e6)]);
    let first = wrong.start(&fair());
    assert_eq!(first.concurrency, PerStage::all(32));
    let next = wrong.decide(&Observation::of_a_test(first, 40e6, 64)).unwrap();
    assert!(next.concurrency.network <= 8, "{}", next.reason);
    assert!(
        next.reason.contains("(320 Mbit/s of about 2.6 Gbit/s that earlier copies had, forgotten: 8 instead of"),
        "{}",
        next.reason
    );
    // Streams that are new over a long path have not found their windows in the first interval.
    let mut growing = begun(FirstStreams::AUTO, &[settled(8, 800e6)]);
    growing.rtt = Duration::from_millis(800);
    let of_long =
        |decision, rate| Observation { rtt: Some(Duration::from_millis(800)), ..Observation::of_a_test(decision, rate, 64) };
    let first = growing.start(&fair());
    let _ = growing.decide(&of_long(first, 500e6)).unwrap();
    assert!(growing.memory.is_some());
    // Where much is lost it is nothing to hold on to.
    let mut lossy = begun(FirstStreams::AUTO, &[settled(32, 320e6)]);
    let first = lossy.start(&fair());
    let lost = Observation { loss: Some(0.05), ..Observation::of_a_test(first, 300e6, 64) };
    assert!(lossy.decide(&lost).unwrap().concurrency.network <= 16);
    // In a further session there is nothing to remember, nor for little work.
    let mut again = begun(FirstStreams::AUTO, &[settled(12, 120e6)]);
    again.start(&fair());
    assert_eq!(again.start(&fair()).reason, "going on with 12 streams");
    let little = begun(FirstStreams::AUTO.for_work(Some(work(1, 5 << 20)), Haste::Allowed), &[settled(12, 120e6)]).start(&fair());
    assert_eq!((little.concurrency, little.reason.as_str()), (PerStage::all(5), "start: 5 streams for 1 item of 5.2 MB"));
}

#[test]
fn new_streams_are_restrained_only_where_bbr_sends_them() {
    let beginning = Beginning { streams: 1, loss: 0.4, rate: 1e6, fills: false };
    let restrained = |bbr| begun(FirstStreams::AUTO.sent_by(bbr), &[]).restrain(&beginning);
    assert_eq!([true, false].map(restrained), [Some(950_000), None]);
}
