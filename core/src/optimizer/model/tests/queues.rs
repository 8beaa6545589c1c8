//! In a closed loop: streams that have rates and queues of their own, and those that share a fair queue equally.

use super::*;

const TRIP: Duration = Duration::from_millis(20);

/// A path of so many bytes per second a stream, each with a queue, and of all, whose queue is fair or not. TCP fills the first queue that there is.
struct Queues {
    own: f64,
    all: f64,
    fair: bool,
}

/// What an interval was like: streams, the part of the capacity that they carried, and the lost share.
struct Passed {
    streams: u16,
    carried: f64,
    lost: f64,
}

impl Queues {
    fn carry(&self, applied: Decision, before: u16) -> Observation {
        let streams = applied.concurrency.network;
        let most = self.own.min(self.all / f64::from(streams));
        let wanted = applied.pacing.map_or(1.04 * most, |rate| rate as f64);
        let (fills, lost) = (wanted > most, (1.0 - most / wanted).max(0.0));
        let rate = f64::from(streams) * wanted.min(most);
        let differ = fills && most < self.own && !self.fair;
        let begin = applied.pacing.is_none() && streams > before;
        Observation {
            rtt: Some(if fills { 2 * TRIP } else { TRIP }),
            loss: Some(lost),
            loss_before: Some(if begin { 0.2 } else { lost }),
            received: Some(rate),
            fills_queues: true,
            spread: Some(if differ { 0.3 } else { 0.002 }),
            ..Observation::of_a_test(applied, rate, 64)
        }
    }

    fn pass(&self, intervals: usize) -> Vec<Passed> {
        let mut model = Model::new(&Setup { rtt: Some(TRIP), ..Setup::of_a_test() });
        let mut next = model.start(&Policy::new(PolicyName::Fair, 64));
        let (mut before, mut passed) = (0, Vec::new());
        for _ in 0..intervals {
            let streams = next.concurrency.network;
            let seen = self.carry(next, before);
            before = streams;
            next = model.decide(&seen).unwrap();
            let (carried, lost) = (seen.throughput.network / self.all, seen.loss.unwrap_or(0.0));
            passed.push(Passed { streams, carried, lost });
        }
        passed
    }
}

/// The mean of something over some intervals.
fn mean_of(passed: &[Passed], what: impl Fn(&Passed) -> f64) -> f64 {
    passed.iter().map(what).sum::<f64>() / passed.len() as f64
}

fn streams(passed: &[Passed]) -> Vec<u16> {
    passed.iter().map(|one| one.streams).collect()
}

#[test]
fn streams_with_queues_of_their_own_become_as_many_as_fill_the_path() {
    let passed = Queues { own: 1.25e6, all: 25e6, fair: false }.pass(60);
    let ran = streams(&passed);
    let filled = passed.iter().position(|one| one.carried > 0.85);
    assert!(filled.is_some_and(|at| at <= 8), "{filled:?}: {ran:?}");
    let late = &passed[20..];
    let [carried, lost] = [mean_of(late, |one| one.carried), mean_of(late, |one| one.lost)];
    assert!(carried > 0.9 && lost < 0.03, "{carried} {lost}: {ran:?}");
    assert!((17.0..24.0).contains(&mean(&ran[20..])), "{ran:?}");
}

#[test]
fn streams_that_share_a_fair_queue_equally_are_not_taken_for_ones_with_rates_of_their_own() {
    let passed = Queues { own: 1e9, all: 10e6, fair: true }.pass(60);
    let ran = streams(&passed);
    assert!(ran.iter().all(|streams| *streams <= 8) && mean(&ran[10..]) <= 6.0, "{ran:?}");
    let carried = mean_of(&passed[10..], |one| one.carried);
    assert!(carried > 0.85, "{carried}: {ran:?}");
}
