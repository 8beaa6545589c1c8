//! One sentence on a whole transfer: what limited it for how much of its time, and how its streams went.

use std::time::Duration;

use super::verdict::{TELLING, Verdict};
use crate::control::{Limited, Outcome};
use crate::event::{Totals, Tuned};
use crate::report::human_count;

/// A stage that limited for a smaller part of the time, in percent, is not named.
const NAMED: f64 = 20.0;

/// A number of streams is a turn of their way if it is off the one before by this part of it, and by so many.
const TURN: (f64, u16) = (0.2, 3);

/// The same for the last number, which stayed.
const REST: (f64, u16) = (0.1, 2);

/// Most numbers of the way that are told.
const TOLD: usize = 6;

/// The sentence, as in `write-bound at the destination 83 % of the time; 4 -> 22 -> 18 streams`; `None` where too little was moved to tell.
pub(super) fn explain(totals: &Totals, outcome: &Outcome, verdict: &Verdict) -> Option<String> {
    let cause = if totals.elapsed_s < TELLING.0 {
        return None;
    } else if verdict.rate_limited {
        "held to --limit-rate".to_owned()
    } else if verdict.host_limited {
        "held to the rate of this host".to_owned()
    } else if totals.bytes_verified < TELLING.1 {
        return None;
    } else {
        bound(&outcome.limited)
    };
    let parts = [Some(cause), way(&outcome.decisions), guarded(outcome.interventions)];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

/// The stages that limited for a good part of the time, the one that did most of all first.
fn bound(limited: &Limited) -> String {
    let percent = |time: Duration| 100.0 * time.as_secs_f64() / limited.all.as_secs_f64().max(f64::MIN_POSITIVE);
    let mut stages = [
        (percent(limited.by.write), "write-bound at the destination"),
        (percent(limited.by.read), "read-bound at the source"),
        (percent(limited.by.network), "network-bound"),
    ];
    stages.sort_by(|one, other| other.0.total_cmp(&one.0));
    let named: Vec<String> = stages
        .iter()
        .filter(|(percent, _)| *percent >= NAMED)
        .map(|(percent, stage)| format!("{stage} {percent:.0} %"))
        .collect();
    if named.is_empty() { "no stage limited for long".to_owned() } else { format!("{} of the time", named.join(", ")) }
}

/// How the streams went from the first decision to the last; with workers of their own, how all stages did.
fn way(decisions: &[Tuned]) -> Option<String> {
    let (first, last) = (decisions.first()?, decisions.last()?);
    let is_together = |tuned: &Tuned| {
        let workers = tuned.decision.concurrency;
        workers.read == workers.network && workers.write == workers.network
    };
    if !decisions.iter().all(is_together) {
        let workers = |tuned: &Tuned| {
            let each = tuned.decision.concurrency;
            format!("{}/{}/{}", each.read, each.network, each.write)
        };
        return Some(format!("{} -> {} workers (read/network/write)", workers(first), workers(last)));
    }
    let streams: Vec<u16> = decisions.iter().map(|tuned| tuned.decision.concurrency.network).collect();
    let turns = turns(&streams);
    if let [only] = turns.as_slice() {
        return Some(human_count(u64::from(*only), "stream"));
    }
    let told = |turns: &[u16]| turns.iter().map(u16::to_string).collect::<Vec<_>>().join(" -> ");
    let end = turns.len().saturating_sub(2);
    let way = if turns.len() <= TOLD { told(&turns) } else { format!("{} .. {}", told(&turns[..TOLD - 2]), told(&turns[end..])) };
    Some(format!("{way} streams"))
}

/// The first number, those at which a rise became a fall or a fall a rise, and the last; steps to and fro that are small are no turns.
fn turns(streams: &[u16]) -> Vec<u16> {
    let (Some(first), Some(last)) = (streams.first().copied(), streams.last().copied()) else { return Vec::new() };
    let mut turns = vec![first];
    // The furthest number since the last turn, once it is far from it.
    let mut furthest = first;
    let mut rising = None;
    for &next in streams {
        let further = match rising {
            None => is_off(furthest, next, TURN),
            Some(true) => next >= furthest,
            Some(false) => next <= furthest,
        };
        if further {
            (furthest, rising) = (next, Some(next > furthest || (next == furthest && rising == Some(true))));
        } else if rising.is_some() && is_off(furthest, next, TURN) {
            turns.push(furthest);
            (furthest, rising) = (next, Some(next > furthest));
        }
    }
    if is_off(furthest, last, REST) {
        turns.extend(rising.is_some().then_some(furthest));
        turns.push(last);
    } else if rising.is_some() {
        turns.push(last);
    }
    turns
}

/// Whether a number is off another one by a part of it, and by so many.
fn is_off(from: u16, to: u16, (part, least): (f64, u16)) -> bool {
    let by = from.abs_diff(to);
    by >= least && f64::from(by) >= part * f64::from(from)
}

/// How often the guard decided instead of the optimizer, if it did.
fn guarded(interventions: u32) -> Option<String> {
    (interventions > 0).then(|| format!("the guard stepped in {}", human_count(u64::from(interventions), "time")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::{Decision, PerStage};

    fn tuned(streams: u16) -> Tuned {
        Tuned { elapsed_s: 0.0, decision: Decision::uniform(streams, "it grows") }
    }

    fn outcome(streams: &[u16], [read, network, write]: [u64; 3]) -> Outcome {
        let by = PerStage { read, network, write }.map(Duration::from_secs);
        Outcome {
            decisions: streams.iter().map(|streams| tuned(*streams)).collect(),
            limited: Limited { all: Duration::from_secs(100), by, ..Limited::default() },
            ..Outcome::default()
        }
    }

    fn totals() -> Totals {
        Totals { elapsed_s: 100.0, bytes_verified: 1 << 30, ..Totals::default() }
    }

    fn sentence(outcome: &Outcome) -> String {
        explain(&totals(), outcome, &Verdict::default()).unwrap()
    }

    #[test]
    fn what_limited_for_how_long_and_how_the_streams_went() {
        let written = outcome(&[4, 8, 16, 22, 20, 18], [2, 15, 83]);
        assert_eq!(sentence(&written), "write-bound at the destination 83 % of the time; 4 -> 22 -> 18 streams");
        let changing = outcome(&[16], [25, 60, 0]);
        assert_eq!(sentence(&changing), "network-bound 60 %, read-bound at the source 25 % of the time; 16 streams");
        assert_eq!(sentence(&outcome(&[1], [0; 3])), "no stage limited for long; 1 stream");
        assert_eq!(sentence(&Outcome::default()), "no stage limited for long");
    }

    #[test]
    fn limits_of_the_rate_are_named_instead_of_a_stage() {
        let outcome = outcome(&[8, 12], [0, 90, 0]);
        let of = |verdict: Verdict| explain(&totals(), &outcome, &verdict).unwrap();
        assert_eq!(of(Verdict { rate_limited: true, ..Verdict::default() }), "held to --limit-rate; 8 -> 12 streams");
        let host = of(Verdict { host_limited: true, ..Verdict::default() });
        assert_eq!(host, "held to the rate of this host; 8 -> 12 streams");
    }

    #[test]
    fn of_little_nothing_is_said() {
        let outcome = outcome(&[8, 12], [0, 90, 0]);
        for little in [Totals { elapsed_s: 1.0, ..totals() }, Totals { bytes_verified: 1000, ..totals() }] {
            assert_eq!(explain(&little, &outcome, &Verdict::default()), None);
        }
    }

    #[test]
    fn small_steps_to_and_fro_are_no_turns() {
        assert_eq!(turns(&[17, 15, 17, 15, 16, 18, 16]), [17]);
        assert_eq!(turns(&[48, 44, 50, 42, 47, 39, 44, 35, 40, 30, 33, 25, 27, 21, 23]), [48, 23]);
        assert_eq!(turns(&[3, 1, 5, 3, 9, 7, 17, 15, 30, 26, 22, 24, 18, 16, 17, 15]), [3, 30, 15]);
        assert_eq!(turns(&[8, 32, 8]), [8, 32, 8]);
        assert_eq!(turns(&[5]), [5]);
        assert_eq!(turns(&[]), [0u16; 0]);
    }

    #[test]
    fn a_way_of_many_turns_is_shortened_to_its_beginning_and_its_end() {
        let streams: Vec<u16> = (0..20).map(|step| if step % 2 == 0 { 8 } else { 32 }).collect();
        assert_eq!(way(&outcome(&streams, [0; 3]).decisions).unwrap(), "8 -> 32 -> 8 -> 32 .. 8 -> 32 streams");
    }

    #[test]
    fn stages_with_workers_of_their_own_are_told_together() {
        let mut outcome = outcome(&[4, 4], [0; 3]);
        outcome.decisions[1].decision.concurrency = PerStage { read: 5, network: 7, write: 15 };
        assert_eq!(way(&outcome.decisions).unwrap(), "4/4/4 -> 5/7/15 workers (read/network/write)");
    }

    #[test]
    fn how_often_the_guard_stepped_in_is_told() {
        let guarded = |interventions| Outcome { interventions, ..outcome(&[16, 32, 16], [0, 80, 0]) };
        assert!(sentence(&guarded(0)).ends_with("16 -> 32 -> 16 streams"));
        assert!(sentence(&guarded(1)).ends_with("16 -> 32 -> 16 streams; the guard stepped in 1 time"));
        assert!(sentence(&guarded(3)).ends_with("; the guard stepped in 3 times"));
    }
}
