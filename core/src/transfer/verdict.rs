//! What a report says of a whole transfer: what limited it, and what would help.

use crate::control::{Outcome, remedy};
use crate::endpoint::{Endpoint, Location};
use crate::event::{Stage, Totals};
use crate::options::TransferOptions;
use crate::report::human_rate;

/// A transfer that was shorter, in seconds, or moved fewer bytes says nothing about what limits.
pub(super) const TELLING: (f64, u64) = (2.0, 64_000_000);

/// Share of the rate limit from which on it is what limits: the beginning and the end of a transfer are slower.
const REACHED: f64 = 0.8;

/// What limited, and what would help.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Verdict {
    pub(super) bottleneck: Option<Stage>,
    pub(super) rate_limited: bool,
    /// The rate that all transfers of the host share is what limited.
    pub(super) host_limited: bool,
    pub(super) advice: Vec<String>,
}

/// Judges a transfer by its totals and by what its controller saw.
pub(super) fn judge(totals: &Totals, outcome: &Outcome, options: &TransferOptions, ends: [&Endpoint; 2]) -> Verdict {
    let mut verdict = Verdict::default();
    if !options.include.is_empty() && totals.files_done + totals.files_skipped + totals.failed == 0 {
        verdict.advice.push("no file matches --include; patterns are relative to the source".to_owned());
    }
    if totals.elapsed_s < TELLING.0 {
        return verdict;
    }
    let rate = totals.bytes_verified as f64 / totals.elapsed_s;
    let held_to = outcome.limited.held_to();
    // Of two rates it is the lower one, which the other is often near.
    let is_lower = |limit: f64| held_to.is_none_or(|host| limit <= host);
    verdict.rate_limited = options.limit_rate.is_some_and(|limit| rate >= REACHED * limit && is_lower(limit));
    if verdict.rate_limited {
        return verdict;
    }
    if let Some(rate) = held_to {
        verdict.host_limited = true;
        verdict.advice.push(format!(
            "all transfers of this host together may move {}: a higher `--host-rate` or `EDT_HOST_RATE`, or fewer of them at once, \
             would move more; `edt jobs` lists them",
            human_rate(rate)
        ));
        return verdict;
    }
    if totals.bytes_verified < TELLING.1 {
        return verdict;
    }
    verdict.bottleneck = outcome.limited.bottleneck();
    let made_up = match verdict.bottleneck {
        Some(Stage::Read) => is_made_up(ends[0]),
        Some(Stage::Write) => is_made_up(ends[1]),
        Some(Stage::Network) | None => false,
    };
    verdict.advice.extend(verdict.bottleneck.filter(|_| !made_up).map(|stage| remedy(stage).to_owned()));
    verdict.advice.extend(outcome.advice.iter().cloned());
    verdict
}

/// Whether there is no storage behind an endpoint.
fn is_made_up(endpoint: &Endpoint) -> bool {
    matches!(endpoint.resolve(), Ok(Location::Null | Location::Zero { .. }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::control::Limited;
    use crate::optimizer::PerStage;

    /// Ten seconds in which a stage limited.
    fn limited(stage: Stage) -> Limited {
        let all = Duration::from_secs(10);
        let of = |one: Stage| if one == stage { all } else { Duration::ZERO };
        let by = PerStage { read: of(Stage::Read), network: of(Stage::Network), write: of(Stage::Write) };
        Limited { all, by, ..Limited::default() }
    }

    fn judged(elapsed_s: f64, bytes_verified: u64, stage: Stage, options: &TransferOptions, ends: [&str; 2]) -> Verdict {
        let totals = Totals { elapsed_s, bytes_verified, files_done: 1, ..Totals::default() };
        let outcome = Outcome { limited: limited(stage), advice: vec!["seen".to_owned()], ..Outcome::default() };
        let [from, to] = ends.map(Endpoint::from);
        judge(&totals, &outcome, options, [&from, &to])
    }

    #[test]
    fn a_long_transfer_names_what_limited_and_what_would_help() {
        let verdict = judged(10.0, 1 << 30, Stage::Write, &TransferOptions::default(), ["a", "b"]);
        assert_eq!((verdict.bottleneck, verdict.rate_limited), (Some(Stage::Write), false));
        assert_eq!(verdict.advice.len(), 2);
        assert!(verdict.advice[0].contains("the destination's storage limits"));
    }

    #[test]
    fn a_short_or_small_transfer_says_nothing() {
        for (elapsed, bytes) in [(1.9, 1 << 30), (10.0, 60_000_000)] {
            let verdict = judged(elapsed, bytes, Stage::Write, &TransferOptions::default(), ["a", "b"]);
            assert_eq!(verdict, Verdict::default());
        }
    }

    #[test]
    fn a_rate_limit_that_is_reached_is_what_limits() {
        let options = TransferOptions { limit_rate: Some(1e6), ..TransferOptions::default() };
        let reached = judged(10.0, 9_000_000, Stage::Read, &options, ["a", "b"]);
        assert_eq!(reached, Verdict { rate_limited: true, ..Verdict::default() });
        let options = TransferOptions { limit_rate: Some(1e9), ..TransferOptions::default() };
        let verdict = judged(10.0, 1_000_000_000, Stage::Read, &options, ["a", "b"]);
        assert_eq!((verdict.bottleneck, verdict.rate_limited), (Some(Stage::Read), false));
    }

    #[test]
    fn a_rate_of_the_host_is_named_as_what_limits_and_no_stage() {
        let totals = Totals { elapsed_s: 10.0, bytes_verified: 9_000_000, files_done: 1, ..Totals::default() };
        let held = Limited { by_host: Duration::from_secs(9), host_rate: Some(1e6), ..limited(Stage::Write) };
        let outcome = Outcome { limited: held, ..Outcome::default() };
        let ends = ["a", "b"].map(Endpoint::from);
        let judged = |options| judge(&totals, &outcome, &options, [&ends[0], &ends[1]]);
        let verdict = judged(TransferOptions::default());
        assert_eq!((verdict.bottleneck, verdict.rate_limited, verdict.host_limited), (None, false, true));
        assert!(verdict.advice[0].contains("together may move 8.0 Mbit/s: a higher `--host-rate`"), "{:?}", verdict.advice);
        // One that its own option holds back has nothing from a higher one.
        let own = judged(TransferOptions { limit_rate: Some(1e6), ..TransferOptions::default() });
        assert_eq!((own.rate_limited, own.host_limited), (true, false));
        let higher = judged(TransferOptions { limit_rate: Some(1.1e6), ..TransferOptions::default() });
        assert_eq!((higher.rate_limited, higher.host_limited), (false, true));
    }

    #[test]
    fn made_up_storage_is_not_to_be_made_faster() {
        for (stage, ends) in [(Stage::Read, ["zero:1G", "b"]), (Stage::Write, ["a", "null:"])] {
            let verdict = judged(10.0, 1 << 30, stage, &TransferOptions::default(), ends);
            assert_eq!((verdict.bottleneck, verdict.advice.as_slice()), (Some(stage), &["seen".to_owned()][..]));
        }
    }

    #[test]
    fn patterns_that_match_nothing_are_said_to() {
        let options = TransferOptions { include: vec!["*.x".to_owned()], ..TransferOptions::default() };
        let ends = ["a", "b"].map(Endpoint::from);
        let verdict = judge(&Totals::default(), &Outcome::default(), &options, [&ends[0], &ends[1]]);
        assert!(verdict.advice[0].contains("--include"));
        assert!(judged(1.0, 0, Stage::Read, &options, ["a", "b"]).advice.is_empty());
    }
}
