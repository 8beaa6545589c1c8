//! The shipped policy: it answers as in training, and does what it is for on hand-made paths.

use std::collections::BTreeSet;

use super::*;
use crate::optimizer::testing::{TestPath, Trial};
use crate::optimizer::{PerStage, PolicyName};

/// Observations and what the trainer's own evaluation made of them, as `edt train --generalist` wrote them with the policy.
const RECORD: &[u8] = include_bytes!("record.safetensors");

fn generalist() -> Generalist {
    Generalist::new(&Setup::of_a_test()).unwrap()
}

/// A column of the record, of one number an interval: `[path][interval]`.
fn column(tensors: &Tensors<'_>, name: &str) -> Vec<Vec<f64>> {
    let tensor = tensors.tensor(name).unwrap();
    let rows = tensor.values.chunks_exact(tensor.values.len() / tensor.shape[0]);
    rows.map(|row| row.iter().copied().map(f64::from).collect()).collect()
}

fn observed(streams: f64, rate: f64, loss: Option<f64>, policy: Policy) -> Observation {
    let applied = Decision::uniform(whole(streams), "");
    let workers = PerStage::all(streams);
    Observation { workers, loss, policy, ..Observation::of_a_test(applied, rate, policy.limit.network) }
}

#[test]
fn features_targets_and_decisions_are_those_of_the_training() {
    let tensors = Tensors::parse(RECORD).unwrap();
    let [rates, streams, losses, told] = ["rate", "streams", "loss", "told"].map(|name| column(&tensors, name));
    let [inputs, targets, asked, prices] = ["inputs", "target", "asked", "price"].map(|name| column(&tensors, name));
    let (mut probes, mut decisions) = (0, 0);
    for path in 0..rates.len() {
        let mut generalist = generalist();
        let policy = Policy { k: prices[path][0].exp(), ..Policy::new(PolicyName::Fair, 100) };
        for interval in 0..rates[path].len() {
            let loss = (told[path][interval] > 0.5).then_some(losses[path][interval]);
            let observation = observed(streams[path][interval], rates[path][interval], loss, policy);
            let decision = generalist.decide(&observation).unwrap();
            let place = format!("path {path}, interval {interval}");
            let expected = &inputs[path][INPUTS * interval..INPUTS * (interval + 1)];
            let found = generalist.features.last();
            assert!(found.iter().zip(expected).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-3), "{place}: {found:?} {expected:?}");
            let target = targets[path][interval];
            assert!((generalist.target - target).abs() < 1e-3, "{place}: {} instead of {target}", generalist.target);
            let (made, wanted) = (f64::from(decision.concurrency.network), asked[path][interval].round());
            // The nearest number of streams may be another where the trainer's was a hair from a half.
            assert!((made - wanted).abs() < 0.5 || (target.exp().fract() - 0.5).abs() < 0.05, "{place}: {made} {wanted}");
            decisions += 1;
            probes += u32::from(decision.reason.contains("probing"));
        }
    }
    assert!(decisions >= 480 && probes >= 8, "{probes} probes among {decisions} decisions");
}

#[test]
fn a_recorded_trace_is_repeated() {
    let run = || {
        let mut optimizer = generalist();
        Trial::new(&mut optimizer, TestPath::of_streams(15), 64).streams(30)
    };
    assert_eq!(run(), TRACE);
    assert_eq!(run(), run());
}

/// What runs on a path that 15 streams fill.
const TRACE: [u16; 30] =
    [4, 9, 23, 20, 10, 11, 14, 17, 19, 17, 15, 14, 15, 16, 16, 17, 16, 16, 15, 15, 15, 15, 16, 16, 15, 15, 18, 15, 15, 15];

/// The mean share of the best rate, less the price of streams, over some seconds.
fn share(trial: &mut Trial<'_>, seconds: usize, best: u16) -> f64 {
    let worth = |streams: u16, rate: f64| rate / 1.02_f64.powi(i32::from(streams));
    let path = trial.path.clone();
    let found = trial.decisions(seconds);
    let sum: f64 = found.iter().map(|one| worth(one.concurrency.network, path.moves(one).0)).sum();
    let most = worth(best, path.moves(&Decision::uniform(best, "")).0);
    sum / (most * seconds as f64)
}

#[test]
fn it_is_near_the_best_within_seconds_whatever_fills_the_path() {
    for best in [1, 3, 8, 15, 30, 45] {
        let mut optimizer = generalist();
        let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(best), 64);
        trial.streams(8);
        let found = share(&mut trial, 40, best);
        assert!(found > 0.9, "{found} of the best where {best} streams fill the path");
    }
}

#[test]
fn it_follows_a_path_that_gives_less_and_one_that_grows_in_silence() {
    let mut optimizer = generalist();
    let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(15), 64);
    trial.streams(20);
    trial.path.capacity = 70e6;
    trial.streams(5);
    let less = share(&mut trial, 20, 7);
    trial.path.capacity = 240e6;
    trial.streams(20);
    let more = share(&mut trial, 20, 24);
    assert!(less > 0.88 && more > 0.85, "{less} of the best with less, {more} with more");
}

#[test]
fn the_price_of_streams_decides_how_many_are_worth_it() {
    let most = |name: PolicyName| {
        let mut optimizer = generalist();
        let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(90), 100);
        trial.policy = Policy::new(name, 100);
        let streams = trial.streams(40);
        streams[20..].iter().map(|streams| u32::from(*streams)).sum::<u32>() / 20
    };
    let (high, fair, low) = (most(PolicyName::High), most(PolicyName::Fair), most(PolicyName::Low));
    assert!(high > fair && fair > low, "{high}, {fair} and {low} streams");
    assert!(low <= 22, "more than 1.1 / ln K = 22 streams never pay, and {low} run");
}

#[test]
fn it_begins_by_the_round_trip_time_and_stays_within_the_limit() {
    for (milliseconds, streams) in [(0, 4), (60, 8), (200, 12)] {
        let rtt = Some(std::time::Duration::from_millis(milliseconds));
        let mut optimizer = Generalist::new(&Setup { rtt, ..Setup::of_a_test() }).unwrap();
        assert_eq!(optimizer.start(&Policy::new(PolicyName::Fair, 64)).concurrency, PerStage::all(streams));
    }
    let mut optimizer = generalist();
    let streams = Trial::new(&mut optimizer, TestPath::of_streams(30), 6).streams(40);
    assert!(streams.iter().all(|streams| (1..=6).contains(streams)), "{streams:?}");
    assert_eq!(optimizer.start(&Policy::new(PolicyName::Fair, 64)).reason, "going on");
}

#[test]
fn what_is_no_number_changes_nothing_and_is_not_remembered() {
    let policy = Policy::new(PolicyName::Fair, 64);
    let (mut one, mut other) = (generalist(), generalist());
    one.start(&policy);
    other.start(&policy);
    for interval in 0..20 {
        let observation = observed(f64::from(4 + interval), 1e8, None, policy);
        let decision = one.decide(&observation).unwrap();
        assert_eq!(decision, other.decide(&observation).unwrap());
        for rate in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            let kept = one.decide(&observed(5.0, rate, None, policy)).unwrap();
            assert_eq!(kept.concurrency, decision.concurrency);
            assert!(kept.reason.contains("staying"), "{}", kept.reason);
        }
        let held_back = Observation { held_back: true, ..observed(5.0, 1e7, None, policy) };
        assert_eq!(one.decide(&held_back).unwrap().concurrency, decision.concurrency);
        let plain = observed(6.0, 1e8, None, policy);
        let odd = Observation { workers: PerStage::all(f64::NAN), loss: Some(f64::NAN), ..plain.clone() };
        assert_eq!(one.decide(&odd).unwrap(), other.decide(&plain).unwrap());
    }
}

#[test]
fn each_decision_says_why() {
    let mut optimizer = generalist();
    let decisions = Trial::new(&mut optimizer, TestPath::of_streams(12), 64).decisions(60);
    let kinds: BTreeSet<&str> = decisions.iter().filter_map(|one| one.reason.split(' ').next()).collect();
    assert!(kinds.contains("start:") && kinds.contains("probing"), "{kinds:?}");
    assert!(decisions.iter().any(|one| one.reason.contains("the agent asks for")));
    assert!(decisions.iter().any(|one| one.reason.contains("the probe found no more")));
}

#[test]
fn the_policy_is_small_and_says_how_it_was_trained() {
    let tensors = Tensors::parse(POLICY).unwrap();
    let text: serde_json::Value = serde_json::from_str(&tensors.text(KEY).unwrap().unwrap()).unwrap();
    assert!(POLICY.len() < 128 << 10);
    assert_eq!(text["kind"], "generalist");
    assert!(text["training"]["seed"].is_u64() && text["training"]["agent_intervals"].as_u64().unwrap() > 1_000_000, "{text}");
}
