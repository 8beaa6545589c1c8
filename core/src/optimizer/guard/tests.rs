//! What the guard makes of decisions for several stages, and how it says so.

use super::*;
use crate::optimizer::PolicyName;

/// Answers what a function of the interval's number says.
struct Scripted<F>(u32, F);

impl<F: FnMut(u32) -> PerStage<u16> + Send> Optimizer for Scripted<F> {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn start(&mut self, _: &Policy) -> Decision {
        decided((self.1)(0))
    }

    fn decide(&mut self, _: &Observation) -> Result<Decision> {
        self.0 += 1;
        Ok(decided((self.1)(self.0)))
    }
}

fn decided(concurrency: PerStage<u16>) -> Decision {
    Decision { concurrency, ..Decision::uniform(1, "scripted") }
}

fn scripted(script: impl FnMut(u32) -> PerStage<u16> + Send + 'static) -> Guard {
    Guard::new(Box::new(Scripted(0, script)))
}

/// What a guard decides after each of so many intervals in which each stream brings as much up to the 24th, and all beyond break the path.
fn decisions(mut guard: Guard, intervals: usize, measured: impl Fn(PerStage<u16>) -> PerStage<u16>) -> Vec<Decision> {
    let mut next = guard.start(&Policy::new(PolicyName::Fair, 64));
    let mut found = Vec::new();
    for _ in 0..intervals {
        let streams = next.concurrency.network;
        let throughput = if streams > 24 { 20e6 } else { 20e6 * f64::from(streams) };
        let applied = Decision { concurrency: measured(next.concurrency), ..next };
        next = guard.decide(&Observation::of_a_test(applied, throughput, 64)).unwrap();
        found.push(next.clone());
    }
    found
}

/// Reading began late, and writing ended late.
fn unevenly(decided: PerStage<u16>) -> PerStage<u16> {
    PerStage { read: decided.read - 1, network: decided.network, write: decided.write + 1 }
}

#[test]
fn what_the_guard_brings_back_is_what_was_decided_and_not_what_was_measured_of_each_stage() {
    let found = decisions(scripted(|interval| PerStage::all(if interval < 5 { 12 } else { 3 })), 12, unevenly);
    let back: Vec<&Decision> = found.iter().filter(|decision| decision.reason.starts_with("guard: ")).collect();
    assert!(!back.is_empty() && back.iter().all(|decision| decision.concurrency == PerStage::all(12)), "{back:?}");
}

#[test]
fn what_the_guard_cuts_stays_as_one() {
    let found = decisions(scripted(|interval| PerStage::all(if interval == 0 { 16 } else { 32 })), 3, unevenly);
    assert!(found[1].reason.starts_with("guard: throughput fell to"), "{}", found[1].reason);
    assert!(found[1..].iter().map(|decision| decision.concurrency).eq([PerStage::all(16), PerStage::all(24)]), "{found:?}");
}

#[test]
fn stages_that_were_decided_apart_are_brought_back_apart() {
    let apart = |network: u16| PerStage { read: network, network, write: network + 4 };
    let found = decisions(scripted(move |interval| apart(if interval < 5 { 12 } else { 3 })), 12, |decided| decided);
    let back: Vec<&Decision> = found.iter().filter(|decision| decision.reason.starts_with("guard: ")).collect();
    assert!(!back.is_empty() && back.iter().all(|decision| decision.concurrency == apart(12)), "{back:?}");
}

#[test]
fn a_limit_pulls_no_stages_apart_that_were_decided_as_one() {
    let limit = PerStage { write: 64, ..PerStage::all(6) };
    assert_eq!(within(PerStage::all(20), limit), PerStage::all(6));
    assert_eq!(within(PerStage::all(0), limit), PerStage::all(1));
    assert_eq!(within(PerStage { read: 3, network: 20, write: 30 }, limit), PerStage { read: 3, network: 6, write: 30 });
    // A stage cannot have more than its own limit.
    let fewer = PerStage { read: 4, ..limit };
    assert_eq!(within(PerStage::all(20), fewer), PerStage { read: 4, network: 6, write: 6 });
    let policy = Policy { limit, ..Policy::new(PolicyName::Fair, 64) };
    assert_eq!(scripted(|_| PerStage::all(20)).start(&policy).concurrency, PerStage::all(6));
}

#[test]
fn where_stages_differ_all_of_them_are_named() {
    let asked = |interval: u32| PerStage { write: if interval == 0 { 9 } else { 64 }, ..PerStage::all(9) };
    let found = decisions(scripted(asked), 1, |decided| decided);
    assert_eq!(found[0].reason, "scripted (guard: 9, 9, 36 instead of 9, 9, 64 streams)");
    let found = decisions(scripted(|interval| PerStage::all(if interval == 0 { 2 } else { 50 })), 1, |decided| decided);
    assert_eq!(found[0].reason, "scripted (guard: 8 instead of 50 streams)");
}
