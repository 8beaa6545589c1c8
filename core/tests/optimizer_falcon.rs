//! Falcon on simulated paths: how fast it finds the best number of streams, and how it follows a path that changes.

use std::time::Duration;

use edt::optimizer::falcon::Falcon;
use edt::optimizer::{Buffers, Decision, Listed, Observation, Optimizer, PerStage, Policy, PolicyName};

const STREAM: f64 = 20e6;
const SEEDS: u64 = 30;

/// A path that gives each stream 20 MB/s up to its capacity.
struct Path {
    best: f64,
    noise: f64,
    random: u64,
}

impl Path {
    fn new(best: u16, noise: f64, seed: u64) -> Self {
        Self { best: f64::from(best), noise, random: (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    fn share(&self, streams: u16) -> f64 {
        (f64::from(streams) / self.best).min(1.0)
    }

    fn observe(&mut self, applied: Decision, policy: &Policy) -> Observation {
        let noise = 1.0 + self.noise * self.gaussian();
        let throughput = self.share(applied.concurrency.network) * self.best * STREAM * noise;
        Observation {
            elapsed: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            workers: applied.concurrency.map(f64::from),
            applied,
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
            policy: *policy,
        }
    }

    /// The sum of twelve uniform numbers, which is normal enough.
    fn gaussian(&mut self) -> f64 {
        let sum: f64 = (0..12).map(|_| self.uniform()).sum();
        sum - 6.0
    }

    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// One optimizer on one path, probe by probe.
struct Run {
    optimizer: Falcon,
    policy: Policy,
    path: Path,
    next: Decision,
}

impl Run {
    fn new(mut optimizer: Falcon, path: Path) -> Self {
        let policy = Policy::new(PolicyName::Fair, 100);
        let next = optimizer.start(&policy);
        Self { optimizer, policy, path, next }
    }

    /// The share of the capacity that each probe used.
    fn probe(&mut self, count: usize) -> Vec<f64> {
        (0..count)
            .map(|_| {
                let share = self.path.share(self.next.concurrency.network);
                let observation = self.path.observe(self.next.clone(), &self.policy);
                self.next = self.optimizer.decide(&observation).expect("falcon answers everything");
                assert!(!self.next.reason.is_empty());
                share
            })
            .collect()
    }

    /// How many probes it takes to arrive where the next one uses the wanted share.
    fn probes_to(&mut self, wanted: f64) -> usize {
        self.probe(200).iter().position(|share| *share >= wanted).unwrap_or(usize::MAX)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn median(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    values[values.len() / 2]
}

#[test]
fn it_reaches_ninety_percent_as_fast_as_the_authors_program_does() {
    for (best, probes) in [(14, 8), (25, 12), (50, 19)] {
        let reached = Run::new(Falcon::new(), Path::new(best, 0.0, 1)).probes_to(0.9);
        assert!(reached <= probes, "best {best}: {reached} probes instead of {probes}");
    }
}

#[test]
fn noise_of_two_percent_delays_it_little_and_does_not_drive_it_away() {
    for (best, probes) in [(14, 8), (25, 12), (50, 19)] {
        let runs = || (0..SEEDS).map(|seed| Run::new(Falcon::new(), Path::new(best, 0.02, seed)));
        let reached = median(runs().map(|mut run| run.probes_to(0.9)).collect());
        let late: Vec<f64> = runs().map(|mut run| mean(&run.probe(120)[60..])).collect();
        println!("best {best}: median {reached} probes, {:.3} of the capacity", mean(&late));
        assert!(reached <= probes, "best {best}: median {reached} probes instead of {probes}");
        assert!(mean(&late) >= 0.9, "best {best}: used {:.2} of the capacity", mean(&late));
    }
}

#[test]
fn the_printed_step_stalls_where_the_relative_one_arrives() {
    let printed = Run::new(Falcon::as_printed(), Path::new(50, 0.0, 1)).probe(60);
    let relative = Run::new(Falcon::new(), Path::new(50, 0.0, 1)).probe(60);
    println!("printed {:.3}, relative {:.3}", mean(&printed[40..]), mean(&relative[40..]));
    assert!(mean(&printed[40..]) < 0.3, "printed: {:.2}", mean(&printed[40..]));
    assert!(mean(&relative[40..]) > 0.9, "relative: {:.2}", mean(&relative[40..]));
}

#[test]
fn a_capacity_that_doubles_is_taken() {
    for seed in 0..SEEDS {
        let mut run = Run::new(Falcon::new(), Path::new(14, 0.02, seed));
        run.probe(40);
        run.path.best *= 2.0;
        let reached = run.probe(30).iter().position(|share| *share >= 0.9);
        assert!(reached.is_some(), "seed {seed}");
    }
}

#[test]
fn a_capacity_that_halves_frees_the_streams_that_bring_nothing() {
    for seed in 0..SEEDS {
        let mut run = Run::new(Falcon::new(), Path::new(40, 0.02, seed));
        run.probe(60);
        run.path.best /= 2.0;
        let mut streams = Vec::new();
        for _ in 0..60 {
            run.probe(1);
            streams.push(f64::from(run.next.concurrency.network));
        }
        let late = mean(&streams[30..]);
        assert!((14.0..28.0).contains(&late), "seed {seed}: {late} streams where 20 are best");
    }
}

#[test]
fn it_never_stops_testing() {
    let mut run = Run::new(Falcon::new(), Path::new(14, 0.0, 1));
    run.probe(100);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..10 {
        run.probe(1);
        seen.insert(run.next.concurrency.network);
    }
    assert!(seen.len() >= 2, "{seen:?}");
}
