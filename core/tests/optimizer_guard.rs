//! The guard's rules, each on a path made for it, around optimizers from good to mad.

use std::time::Duration;

use edt::error::{Error, ErrorKind};
use edt::optimizer::falcon::Falcon;
use edt::optimizer::fixed::Fixed;
use edt::optimizer::guard::{Guard, is_nearly_done};
use edt::optimizer::utility::utility;
use edt::optimizer::{Buffers, Decision, Listed, Observation, Optimizer, PerStage, Policy, PolicyName};

const STREAM: f64 = 20e6;

fn policy(limit: u16) -> Policy {
    Policy::new(PolicyName::Fair, limit)
}

fn observed(applied: &Decision, throughput: f64, policy: Policy) -> Observation {
    Observation {
        elapsed: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        applied: applied.clone(),
        workers: applied.concurrency.map(f64::from),
        throughput: PerStage::all(throughput),
        busy: PerStage::all(1.0),
        rtt: None,
        loss: Some(0.0),
        loss_before: None,
        delivery_rate: None,
        received: None,
        fills_queues: false,
        spread: None,
        buffer_free: Buffers::default(),
        bytes_left: None,
        files_left: None,
        listed: Listed::default(),
        held_back: false,
        cpu_bound: false,
        work_unit: None,
        first_window: 14_480.0,
        policy,
    }
}

/// Answers what a function of the interval's number says.
struct Scripted<F>(u32, F);

impl<F: FnMut(u32) -> Decision + Send> Optimizer for Scripted<F> {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn start(&mut self, _: &Policy) -> Decision {
        (self.1)(0)
    }

    fn decide(&mut self, _: &Observation) -> edt::Result<Decision> {
        self.0 += 1;
        Ok((self.1)(self.0))
    }
}

fn scripted(script: impl FnMut(u32) -> Decision + Send + 'static) -> Guard {
    Guard::new(Box::new(Scripted(0, script)))
}

fn uniform(streams: u16) -> Decision {
    Decision::uniform(streams, "scripted")
}

/// Runs a guard on a path, given as throughput by interval and streams; answers streams and throughput of each interval.
fn drive(guard: &mut Guard, intervals: u32, mut path: impl FnMut(u32, u16) -> f64) -> Vec<(Decision, f64)> {
    let policy = policy(64);
    let mut decision = guard.start(&policy);
    (0..intervals)
        .map(|interval| {
            let throughput = path(interval, decision.concurrency.network);
            let next = guard.decide(&observed(&decision, throughput, policy)).expect("what is guarded answers");
            assert!(next.concurrency.read > 0 && next.concurrency.network > 0 && next.concurrency.write > 0);
            (std::mem::replace(&mut decision, next), throughput)
        })
        .collect()
}

fn streams(run: &[(Decision, f64)]) -> Vec<u16> {
    run.iter().map(|(decision, _)| decision.concurrency.network).collect()
}

fn mean_utility(run: &[(Decision, f64)]) -> f64 {
    let policy = policy(64);
    let sum: f64 = run.iter().map(|(d, rate)| utility(*rate, f64::from(d.concurrency.network), None, &policy)).sum();
    sum / run.len() as f64
}

fn linear(streams: u16, best: u16) -> f64 {
    f64::from(streams.min(best)) * STREAM
}

#[test]
fn answers_stay_within_the_policy_and_within_four_times_the_last() {
    let mut guard = scripted(|interval| uniform(if interval == 0 { 2 } else { 5000 }));
    let run = drive(&mut guard, 5, |_, n| linear(n, 64));
    assert_eq!(streams(&run), [2, 8, 32, 64, 64]);
    assert!(run[1].0.reason.contains("guard: 8 instead of 5000"), "{}", run[1].0.reason);
    let mut guard = scripted(|interval| uniform(if interval == 0 { 64 } else { 1 }));
    assert_eq!(streams(&drive(&mut guard, 4, |_, n| linear(n, 1))), [64, 16, 4, 1]);
}

#[test]
fn a_zero_is_replaced_by_the_last_good_answer() {
    let mut guard = scripted(|interval| {
        let concurrency = if interval == 0 { PerStage::all(6) } else { PerStage { read: 0, network: 5, write: 0 } };
        Decision { concurrency, parallelism: 0, ..uniform(1) }
    });
    let run = drive(&mut guard, 2, |_, n| linear(n, 64));
    assert_eq!(run[1].0.concurrency, PerStage { read: 6, network: 5, write: 6 });
    assert_eq!(run[1].0.parallelism, u16::MAX);
}

#[test]
fn measurements_that_are_no_numbers_are_not_judged() {
    let mut guard = scripted(|_| uniform(8));
    let run = drive(&mut guard, 20, |interval, n| if interval % 2 == 0 { f64::NAN } else { linear(n, 64) });
    assert!(streams(&run).iter().all(|n| *n == 8));
}

#[test]
fn an_error_is_passed_through() {
    struct Failing;
    impl Optimizer for Failing {
        fn name(&self) -> &'static str {
            "failing"
        }
        fn start(&mut self, _: &Policy) -> Decision {
            uniform(3)
        }
        fn decide(&mut self, _: &Observation) -> edt::Result<Decision> {
            Err(Error::new(ErrorKind::Optimizer, "it failed"))
        }
    }
    let mut guard = Guard::new(Box::new(Failing));
    let first = guard.start(&policy(64));
    assert_eq!((first.concurrency.network, guard.name()), (3, "failing"));
    assert_eq!(guard.decide(&observed(&first, 1.0, policy(64))).unwrap_err().what(), "it failed");
}

#[test]
fn a_collapse_after_growth_is_cut_and_its_knee_is_tried_again_after_growing_gaps() {
    let mut guard = scripted(|interval| uniform(if interval == 0 { 16 } else { 32 }));
    let run = drive(&mut guard, 400, |_, n| if n > 24 { STREAM } else { linear(n, 64) });
    let all = streams(&run);
    assert_eq!(all[..3], [16, 32, 16]);
    assert!(run[2].0.reason.starts_with("guard: throughput fell to"), "{}", run[2].0.reason);
    assert_eq!(all[3], 24, "three quarters of what collapsed");
    let collapses: Vec<usize> = all.iter().enumerate().filter(|(_, n)| **n > 24).map(|(at, _)| at).collect();
    assert!((3..=6).contains(&collapses.len()), "{collapses:?}");
    let gaps: Vec<usize> = collapses.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] > pair[0]), "{gaps:?}");
}

#[test]
fn the_last_bytes_are_no_collapse() {
    let mut guard = scripted(|interval| uniform(if interval == 0 { 16 } else { 32 }));
    let first = guard.start(&policy(64));
    let second = guard.decide(&observed(&first, linear(16, 64), policy(64))).unwrap();
    let mut ending = observed(&second, STREAM, policy(64));
    (ending.bytes_left, ending.files_left) = (Some(5_000_000), Some(1));
    assert!(is_nearly_done(&ending));
    assert_eq!(guard.decide(&ending).unwrap().concurrency.network, 32);
}

#[test]
fn one_large_file_is_not_the_end_of_the_work() {
    let mut observation = observed(&uniform(16), linear(16, 64), policy(64));
    (observation.bytes_left, observation.files_left) = (Some(1 << 40), Some(1));
    assert!(!is_nearly_done(&observation));
    (observation.bytes_left, observation.files_left) = (None, None);
    assert!(!is_nearly_done(&observation));
}

#[test]
fn few_files_that_are_cut_into_chunks_are_tuned_while_streams_have_work() {
    // All streams together move 4 MB/s.
    let left = |files, bytes, parallelism| {
        let applied = Decision { parallelism, ..uniform(16) };
        let mut observation = observed(&applied, 4e6, policy(64));
        (observation.bytes_left, observation.files_left) = (Some(bytes), Some(files));
        is_nearly_done(&observation)
    };
    for files in [1, 8] {
        assert!(!left(files, 200_000_000, u16::MAX), "{files} files");
        assert!(left(files, 15_000_000, u16::MAX), "{files} files are nearly through");
        assert!(left(files, 200_000_000, 1), "{files} files keep no more than {files} streams busy");
    }
    assert!(!left(8, 200_000_000, 2));
    assert!(!left(100, 15_000_000, 1), "many files need not be cut");
}

#[test]
fn pieces_that_are_not_cut_run_dry_sooner() {
    let left = |files, bytes, work_unit| {
        let mut observation = Observation { work_unit, ..observed(&uniform(16), 4e6, policy(64)) };
        (observation.bytes_left, observation.files_left) = (Some(bytes), Some(files));
        is_nearly_done(&observation)
    };
    for files in [0, 1, 8] {
        assert!(left(files, 120 << 20, Some(8 << 20)), "{files} files in parts of 8 MiB");
        assert!(left(files, 1000 << 20, Some(64 << 20)), "{files} files in parts of 64 MiB");
        assert!(!left(files, 1100 << 20, Some(64 << 20)), "{files} files of which every stream has a part");
    }
    assert!(!left(1, 120 << 20, None));
    assert!(!left(16, 120 << 20, Some(8 << 20)), "every stream has a file");
    assert!(!left(16, 1000 << 20, Some(64 << 20)), "every stream has a part that nobody has begun");
}

#[test]
fn falcon_at_a_cliff_ends_below_it_with_most_of_the_best_fixed_utility() {
    let best = utility(24.0 * STREAM, 24.0, None, &policy(64));
    let mut guard = Guard::new(Box::new(Falcon::new()));
    let run = drive(&mut guard, 300, |_, n| if n > 24 { 2.0 * STREAM } else { linear(n, 64) });
    let late = &run[200..];
    assert!(mean_utility(late) >= 0.8 * best, "{:.2}", mean_utility(late) / best);
    let above = late.iter().filter(|(decision, _)| decision.concurrency.network > 24).count();
    assert!(above <= 3, "{above} of 100 intervals beyond the cliff");
}

#[test]
fn falcon_recovers_from_a_server_that_stays_down_for_thirty_intervals() {
    let best = utility(24.0 * STREAM, 24.0, None, &policy(64));
    let mut down = 0;
    let mut guard = Guard::new(Box::new(Falcon::new()));
    let run = drive(&mut guard, 1600, |_, n| {
        down = if n > 24 { 30 } else { u32::saturating_sub(down, 1) };
        linear(n, 64) * if down > 0 { 0.1 } else { 1.0 }
    });
    for (i, (d, r)) in run.iter().enumerate().take(260) {
        println!("{i} {} {:.1} {}", d.concurrency.network, r / STREAM, d.reason);
    }
    let late = &run[1200..];
    assert!(mean_utility(late) >= 0.8 * best, "{:.2}", mean_utility(late) / best);
}

#[test]
fn who_does_harm_is_overruled_by_the_best_setting_seen() {
    let mut guard = scripted(|interval| uniform(if interval < 5 { 12 } else { 3 }));
    let run = drive(&mut guard, 200, |_, n| linear(n, 12));
    let best = utility(linear(12, 12), 12.0, None, &policy(64));
    assert_eq!(streams(&run)[5..9], [3, 3, 3, 12]);
    assert!(run[8].0.reason.starts_with("guard: "), "{}", run[8].0.reason);
    assert!(mean_utility(&run[100..]) > 0.9 * best, "{:.2}", mean_utility(&run[100..]) / best);
}

#[test]
fn one_lucky_interval_is_no_yardstick() {
    for (lucky, luck) in [(21, 1.4), (21, 1.9), (20, 1.9)] {
        let mut guard = scripted(move |interval| uniform(if interval == 6 { lucky } else { 20 + u16::from(interval > 6) }));
        let run = drive(&mut guard, 40, |interval, streams| linear(streams, 20) * if interval == 6 { luck } else { 1.0 });
        let overruled = run[7..].iter().any(|(decision, _)| decision.reason.starts_with("guard"));
        assert!(!overruled, "{lucky} {luck}: {:?}", streams(&run));
    }
}

#[test]
fn the_best_setting_is_held_for_seconds_and_not_for_a_number_of_intervals() {
    let held = |interval: Duration| {
        let (policy, mut guard) = (policy(64), scripted(|interval| uniform(if interval < 5 { 12 } else { 3 })));
        let mut decision = guard.start(&policy);
        let reasons = (0..40).map(|_| {
            let seen = Observation { interval, ..observed(&decision, linear(decision.concurrency.network, 12), policy) };
            decision = guard.decide(&seen).expect("what is guarded answers");
            decision.reason.clone()
        });
        reasons.skip_while(|reason| !reason.contains("for a while")).take_while(|reason| reason.contains("for a while")).count()
    };
    let (whole, half) = (held(Duration::from_secs(1)), held(Duration::from_millis(500)));
    assert!(whole >= 8 && half.abs_diff(2 * whole) <= 1, "{whole} {half}");
}

/// Eight streams fill the path, and all beyond lose a tenth.
fn overruled_on_a_lossy_path(script: impl FnMut(u32) -> Decision + Send + 'static, intervals: u32) -> Option<usize> {
    let (policy, mut guard) = (policy(64), scripted(script));
    let mut decision = guard.start(&policy);
    (0..intervals as usize).find(|_| {
        let streams = decision.concurrency.network;
        let loss = Some(if streams > 8 { 0.1 } else { 0.0 });
        let seen = Observation { loss, ..observed(&decision, linear(streams, 8), policy) };
        decision = guard.decide(&seen).expect("what is guarded answers");
        decision.reason.contains("back to them")
    })
}

#[test]
fn the_loss_of_new_streams_is_no_harm_but_growth_to_and_fro_or_without_end_is() {
    let saw = |interval: u32| uniform(if interval < 5 { 8 } else { [14, 16][interval as usize % 2] });
    assert!(overruled_on_a_lossy_path(saw, 14).is_some());
    let climb = |interval: u32| uniform((5..=interval).fold(8, |streams, _| streams + 3));
    assert!(overruled_on_a_lossy_path(climb, 14).is_some());
    let probe = |interval: u32| uniform(if interval > 4 && interval.is_multiple_of(3) { 10 } else { 8 });
    assert_eq!(overruled_on_a_lossy_path(probe, 60), None);
}

#[test]
fn a_path_that_lost_half_of_its_capacity_is_not_fought() {
    let mut guard = scripted(|interval| uniform(if interval < 20 { 20 } else { 10 }));
    let run = drive(&mut guard, 60, |interval, n| linear(n, if interval < 20 { 20 } else { 10 }));
    let all = streams(&run);
    let rechecks = all[21..].iter().filter(|n| **n == 20).count();
    assert!(rechecks <= 1, "{all:?}");
    assert!(all[30..].iter().all(|n| *n == 10), "{all:?}");
    assert!(run.iter().any(|(decision, _)| decision.reason.contains("forgotten")));
}

#[test]
fn a_limit_that_others_of_the_host_lower_is_not_fought() {
    let mut guard = scripted(|_| uniform(32));
    let mut decision = guard.start(&policy(64));
    for interval in 0..40 {
        let limited = policy(if interval < 10 { 64 } else { 8 });
        let rate = linear(decision.concurrency.network, 64);
        decision = guard.decide(&observed(&decision, rate, limited)).expect("what is guarded answers");
        assert_eq!(decision.concurrency.network, if interval < 10 { 32 } else { 8 });
        assert!(!decision.reason.contains("back to them"), "{interval}: {}", decision.reason);
    }
}

#[test]
fn a_rate_that_others_of_the_host_lower_is_no_collapse_and_no_harm() {
    let guarded = |held_back: bool| {
        let mut guard = scripted(|n| uniform(4 + u16::try_from(n).expect("a few intervals")));
        let mut decision = guard.start(&policy(64));
        (0..20).any(|interval| {
            let free = linear(decision.concurrency.network, 64);
            let (rate, held_back) = if interval < 4 { (free, false) } else { (0.2 * free, held_back) };
            let observation = Observation { held_back, ..observed(&decision, rate, policy(64)) };
            decision = guard.decide(&observation).expect("what is guarded answers");
            decision.reason.starts_with("guard: ")
        })
    };
    assert!(guarded(false) && !guarded(true));
}

#[test]
fn what_was_before_many_intervals_that_the_host_held_back_makes_no_collapse_of_what_is_after_them() {
    let grown = |interruptions: u32| {
        let mut guard = scripted(|interval| uniform(if interval < 5 { 8 } else { 12 }));
        let mut decision = guard.start(&policy(64));
        let mut reasons = Vec::new();
        let mut pass = |rate: f64, held_back: bool| {
            decision = guard.decide(&Observation { held_back, ..observed(&decision, rate, policy(64)) }).unwrap();
            reasons.push(decision.reason.clone());
        };
        (0..4).for_each(|_| pass(8.0 * STREAM, false));
        (0..interruptions).for_each(|_| pass(STREAM, true));
        (0..4).for_each(|_| pass(2.0 * STREAM, false));
        reasons.iter().any(|reason| reason.contains("throughput fell"))
    };
    assert!(grown(0) && grown(1) && !grown(30));
}

#[test]
fn falcon_takes_no_interval_that_the_host_held_back_for_a_test() {
    let mut guard = Guard::new(Box::new(Falcon::new()));
    let mut decision = guard.start(&policy(64));
    let begun = decision.concurrency.network;
    for _ in 0..60 {
        let observation = Observation { held_back: true, ..observed(&decision, 4.0 * STREAM, policy(64)) };
        decision = guard.decide(&observation).unwrap();
        assert_eq!(decision.concurrency.network, begun, "{}", decision.reason);
    }
}

#[test]
fn loss_that_streams_do_not_cause_is_no_harm() {
    for base in [0.03, 0.05, 0.10, 0.15] {
        let mut guard = scripted(|interval| uniform(if interval < 5 { 8 } else { 28 }));
        let limits = policy(64);
        let mut decision = guard.start(&limits);
        for _ in 0..60 {
            let rate = linear(decision.concurrency.network, 40);
            let lossy = Observation { loss: Some(base), ..observed(&decision, rate, limits) };
            decision = guard.decide(&lossy).unwrap();
        }
        assert_eq!(decision.concurrency.network, 28, "loss of {base}: {}", decision.reason);
    }
}

#[test]
fn falcon_under_guard_follows_a_capacity_that_halves_and_doubles() {
    let mut guard = Guard::new(Box::new(Falcon::new()));
    let capacity = |interval: u32| if (100..200).contains(&interval) { 12 } else { 24 };
    let run = drive(&mut guard, 300, |interval, n| linear(n, capacity(interval)));
    for (range, best) in [(60..100, 24), (160..200, 12), (260..300, 24)] {
        let reached = mean_utility(&run[range]) / utility(linear(best, best), f64::from(best), None, &policy(64));
        assert!(reached > 0.9, "{best}: {reached:.2}");
    }
}

#[test]
fn a_sound_fixed_setting_is_left_alone() {
    let mut guard = Guard::new(Box::new(Fixed::new(8)));
    let run = drive(&mut guard, 100, |interval, n| linear(n, 16) * if interval % 7 == 3 { 0.7 } else { 1.0 });
    assert!(run.iter().all(|(decision, _)| decision.concurrency.network == 8 && decision.reason == "fixed at 8"));
}

#[test]
fn a_path_that_loses_so_much_that_every_utility_is_below_zero_is_no_harm() {
    let mut guard = scripted(|interval| uniform(if interval < 10 { 8 } else { 7 }));
    let limits = policy(64);
    let mut decision = guard.start(&limits);
    for interval in 1..60_u32 {
        let lossy = Observation { loss: Some(0.12), ..observed(&decision, linear(decision.concurrency.network, 64), limits) };
        decision = guard.decide(&lossy).unwrap();
        let wanted = if interval < 10 { 8 } else { 7 };
        assert_eq!(decision.concurrency.network, wanted, "interval {interval}: {}", decision.reason);
    }
}
