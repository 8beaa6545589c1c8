mod host;
mod outcome;
mod pace;

use std::sync::Arc;

use super::*;
use crate::error::ErrorKind;
use crate::event::Stage;
use crate::metrics::sampler::StageSample;
use crate::optimizer::falcon::Falcon;
use crate::optimizer::fixed::Fixed;
use crate::optimizer::guard::Guard;
use crate::optimizer::{Buffers, Listed, Observation, Pace, PerStage, PolicyName};
use crate::protocol::message::{RateMeters, TcpMeters};
use crate::sync::Mutex;
use crate::testing::clock::ManualClock;

const STREAM: f64 = 10e6;

/// A path that gives each stream 10 MB/s up to a capacity, and opens its streams late.
struct SimulatedPlant {
    clock: Arc<ManualClock>,
    best: f64,
    delay: Duration,
    /// No byte arrives before.
    begin: Duration,
    /// Nor after this.
    still: Duration,
    end: Duration,
    bytes: f64,
    streams: u16,
    wanted: (u16, Duration),
    worker_time: Duration,
    now: Duration,
    total: Option<u64>,
    failing: bool,
    /// Segments that new streams lost when they began: as many as they are.
    retransmitted: u64,
    /// From when on streams lose half of what they send unless they are paced, and whether they are.
    loses: Option<Duration>,
    pacing: Option<u64>,
    lost: f64,
    rtt: Duration,
    /// From when on a queue makes half as much again of it.
    queued: Option<Duration>,
    /// Another transfer of the host, and when it ends.
    neighbour: Option<(Member, Duration)>,
    /// Whose rate its streams keep to, and what that does to them.
    member: Member,
    host_rate: Option<RateMeters>,
}

impl SimulatedPlant {
    fn new(clock: &Arc<ManualClock>, seconds: u64) -> Self {
        Self {
            clock: Arc::clone(clock),
            best: 12.0,
            delay: Duration::from_millis(200),
            begin: Duration::ZERO,
            still: Duration::MAX,
            end: Duration::from_secs(seconds),
            bytes: 0.0,
            streams: 0,
            wanted: (0, Duration::ZERO),
            worker_time: Duration::ZERO,
            now: Duration::ZERO,
            total: None,
            failing: false,
            retransmitted: 0,
            loses: None,
            pacing: None,
            lost: 0.0,
            rtt: Duration::from_millis(40),
            queued: None,
            neighbour: None,
            member: Member::default(),
            host_rate: None,
        }
    }

    fn run_until(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.now);
        self.worker_time += passed * u32::from(self.streams);
        let flowed = now.min(self.still).saturating_sub(self.now.max(self.begin));
        let moved = f64::from(self.streams).min(self.best) * STREAM;
        let flowed_bytes = flowed.as_secs_f64() * self.within_rate(moved, flowed);
        self.bytes += flowed_bytes;
        if self.pacing.is_none() && self.loses.is_some_and(|from| now > from) {
            self.lost += 0.5 * flowed_bytes;
        }
        self.now = now.max(self.now);
    }

    /// What the rate of the host leaves of so many bytes per second, by the waiting of streams.
    fn within_rate(&mut self, moved: f64, time: Duration) -> f64 {
        let Some(meters) = &mut self.host_rate else { return moved };
        let rate = meters.rate as f64;
        let part = |share: f64| u64::try_from(time.mul_f64(share.max(0.0)).as_micros()).unwrap();
        meters.waited_us += u64::from(self.streams) * part(1.0 - rate / moved);
        meters.lapsed_us += part(1.0 - moved / rate);
        moved.min(rate)
    }

    fn advance(&mut self) {
        let (streams, at) = self.wanted;
        let now = self.clock.now();
        if now >= at {
            self.run_until(at);
            self.retransmitted += u64::from(streams.saturating_sub(self.streams));
            self.streams = streams;
        }
        self.run_until(now);
    }
}

impl Plant for SimulatedPlant {
    fn sample(&mut self) -> Result<Sample> {
        if self.failing {
            return Err(Error::new(ErrorKind::ConnectionLost, "could not read the meters"));
        }
        self.advance();
        self.neighbour.take_if(|(_, end)| self.now >= *end);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let (bytes, lost) = (self.bytes as u64, self.lost as u64);
        let stage =
            StageSample { at: self.now, bytes, busy: self.worker_time, workers_time: self.worker_time, workers: self.streams };
        let queued = self.pacing.is_none() && self.queued.is_some_and(|from| self.now > from);
        let rtt_us = u64::try_from(self.rtt.mul_f64(if queued { 1.5 } else { 1.0 }).as_micros()).unwrap();
        Ok(Sample {
            stages: PerStage::all(stage),
            arrived: stage,
            tcp: Some(TcpMeters {
                segments: bytes / 1448,
                retransmitted: self.retransmitted + lost / 1448,
                rtt_us,
                delivery_rate: u64::from(self.streams) * 10_000_000,
                received: None,
                fills_queues: None,
            }),
            delivered: Vec::new(),
            buffers: Buffers::default(),
            bytes_left: self.total.map(|total| total.saturating_sub(bytes)),
            files_left: None,
            listed: Listed::default(),
            host_rate: self.host_rate,
            work_unit: None,
            processors: None,
        })
    }

    fn apply(&mut self, decision: &Decision) -> Result<()> {
        self.advance();
        self.wanted = (decision.concurrency.network, self.clock.now() + self.delay);
        self.pacing = decision.pacing;
        if let Some(rate) = self.member.rate() {
            self.host_rate.get_or_insert_default().rate = rate;
        }
        Ok(())
    }

    fn finished(&self) -> bool {
        self.clock.now() >= self.end
    }

    fn settled(&self) -> bool {
        self.clock.now() >= self.wanted.1
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }
}

/// Answers from a script, keeps what it was shown, and fails where the script ends.
struct Scripted {
    answers: Vec<u16>,
    failure: fn() -> Result<Decision>,
    seen: Arc<Mutex<Vec<Observation>>>,
}

impl Scripted {
    fn new(answers: &[u16], failure: fn() -> Result<Decision>) -> (Box<Self>, Arc<Mutex<Vec<Observation>>>) {
        let seen = Arc::default();
        let answers = answers.iter().rev().copied().collect();
        (Box::new(Self { answers, failure, seen: Arc::clone(&seen) }), seen)
    }
}

impl Optimizer for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn start(&mut self, _: &Policy) -> Decision {
        Decision::uniform(2, "start")
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        self.seen.lock().push(observation.clone());
        let decided = |streams| Ok(Decision { pacing: Some(1000), ..Decision::uniform(streams, "scripted") });
        self.answers.pop().map_or_else(self.failure, decided)
    }
}

fn settings() -> Settings {
    let (policy, events) = (Policy::new(PolicyName::Fair, 64), EventSender::silent());
    Settings {
        policy,
        set_by: SetBy::Option,
        interval: None,
        pace: Pace::Usual,
        rtt: None,
        events,
        recorder: Recorder::default(),
        member: Member::default(),
    }
}

fn streams(outcome: &Outcome) -> Vec<u16> {
    outcome.decisions.iter().map(|tuned| tuned.decision.concurrency.network).collect()
}

fn refuse() -> Result<Decision> {
    Err(Error::new(ErrorKind::Optimizer, "no more answers"))
}

fn panic() -> Result<Decision> {
    panic!("out of answers")
}

#[test]
fn falcon_finds_the_best_number_of_streams_of_a_simulated_plant() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 120);
    let outcome = run(&mut plant, Box::new(Falcon::new()), settings(), &*clock);
    let all = streams(&outcome);
    let late = &all[all.len() - 20..];
    assert!(late.iter().all(|n| (9..=17).contains(n)), "{late:?}");
    assert!(outcome.tuning_error.is_none() && outcome.timeline.len() > 60);
}

#[test]
fn what_is_observed_is_what_was_applied_from_the_first_to_the_last_moment_of_the_interval() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 30);
    let (optimizer, seen) = Scripted::new(&[6, 3, 9], refuse);
    run(&mut plant, optimizer, settings(), &*clock);
    let seen = seen.lock();
    let applied: Vec<u16> = seen.iter().map(|observation| observation.applied.concurrency.network).collect();
    assert_eq!(applied, [2, 6, 3, 9]);
    for observation in seen.iter() {
        let share = observation.throughput.network / STREAM / f64::from(observation.applied.concurrency.network);
        assert!((share - 1.0).abs() < 1e-6, "{share}");
        assert_eq!(observation.interval, Duration::from_secs(1));
    }
}

#[test]
fn what_comes_before_the_first_bytes_is_no_part_of_an_observation() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 30);
    plant.begin = Duration::from_millis(3300);
    let (optimizer, seen) = Scripted::new(&[6], refuse);
    run(&mut plant, optimizer, settings(), &*clock);
    let seen = seen.lock();
    assert!((seen[0].throughput.network / STREAM / 2.0 - 1.0).abs() < 1e-6);
    assert!(seen[0].elapsed > Duration::from_millis(4300 + 200));
}

#[test]
fn a_plant_slower_than_the_interval_is_observed_with_what_it_had() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 30);
    plant.delay = Duration::from_millis(2500);
    let (optimizer, seen) = Scripted::new(&[10, 10, 10, 10], refuse);
    run(&mut plant, optimizer, settings(), &*clock);
    let applied: Vec<u16> = seen.lock().iter().map(|observation| observation.applied.concurrency.network).collect();
    assert!(applied.iter().any(|n| *n < 10) && !applied.contains(&64), "{applied:?}");
}

#[test]
fn an_optimizer_that_fails_or_panics_ends_the_tuning_and_not_the_transfer() {
    for failure in [refuse as fn() -> Result<Decision>, panic] {
        let clock = Arc::new(ManualClock::new());
        let mut plant = SimulatedPlant::new(&clock, 60);
        let (optimizer, seen) = Scripted::new(&[5], failure);
        let outcome = run(&mut plant, optimizer, settings(), &*clock);
        assert!(outcome.tuning_error.is_some());
        assert_eq!(seen.lock().len(), 2);
        assert_eq!(streams(&outcome), [2, 5, 5]);
        let pacing = outcome.decisions.iter().map(|tuned| tuned.decision.pacing);
        assert!(pacing.eq([None, Some(1000), None]), "nobody finds out any more what is right");
        let last = &outcome.decisions[2].decision.reason;
        assert!(last.contains("tuning ended") && last.contains("answers"), "{last}");
        assert!(outcome.timeline.last().unwrap().elapsed_s >= 59.0);
        assert_eq!(plant.streams, 5);
    }
}

#[test]
fn the_end_of_the_work_is_not_shown_to_the_optimizer() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 30);
    plant.total = Some(100_000_000);
    let (optimizer, seen) = Scripted::new(&[2; 40], refuse);
    let outcome = run(&mut plant, optimizer, settings(), &*clock);
    let least = seen.lock().iter().map(|observation| observation.bytes_left.unwrap()).min().unwrap();
    assert!(least >= 20_000_000, "{least}");
    assert!(seen.lock().len() < 6 && outcome.timeline.len() > 20);
}

#[test]
fn what_is_not_shown_to_the_optimizer_is_kept_as_saying_nothing() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 30);
    plant.total = Some(100_000_000);
    let (optimizer, seen) = Scripted::new(&[2; 40], refuse);
    let (recorder, judged) = Recorder::of_a_test();
    let outcome = run(&mut plant, optimizer, Settings { recorder, ..settings() }, &*clock);
    let judged = judged();
    assert_eq!(judged.len(), outcome.timeline.len());
    let (telling, rest) = judged.split_at(seen.lock().len());
    assert!(!telling.is_empty() && telling.iter().all(|judged| *judged == Judged::Yes));
    assert!(!rest.is_empty() && rest.iter().all(|judged| *judged == Judged::No));
}

#[test]
fn a_guard_that_brings_a_setting_back_and_keeps_it_has_stepped_in_once() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 19);
    let (optimizer, _) = Scripted::new(&[[12_u16; 3].as_slice(), &[1; 60]].concat(), refuse);
    let outcome = run(&mut plant, Box::new(Guard::new(optimizer)), settings(), &*clock);
    let by_guard = outcome.decisions.iter().filter(|tuned| tuned.decision.reason.starts_with("guard: ")).count();
    assert!(by_guard > 4 && outcome.interventions == 1, "{by_guard} decisions, {} times", outcome.interventions);
}

#[test]
fn a_guard_that_has_only_the_same_setting_to_bring_back_has_not_stepped_in() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 30);
    plant.still = Duration::from_secs(12);
    let outcome = run(&mut plant, Box::new(Guard::new(Box::new(Fixed::new(8)))), settings(), &*clock);
    let reasons: Vec<&str> = outcome.decisions.iter().map(|tuned| tuned.decision.reason.as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("forgotten; fixed at 8")), "{reasons:?}");
    assert!(!reasons.iter().any(|reason| reason.starts_with("guard: too long")), "{reasons:?}");
    assert_eq!(outcome.interventions, 0);
}

#[test]
fn the_engine_clamps_what_an_unguarded_optimizer_answers() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 10);
    let (optimizer, _) = Scripted::new(&[0, 5000], refuse);
    let outcome = run(&mut plant, optimizer, settings(), &*clock);
    assert_eq!(streams(&outcome)[..3], [2, 1, 64]);
}

#[test]
fn a_watcher_hears_something_every_half_second_and_at_the_end() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 30);
    let (events, watcher) = EventSender::channel();
    let slow = Settings { interval: Some(Duration::from_secs(4)), events, ..settings() };
    run(&mut plant, Box::new(Fixed::new(4)), slow, &*clock);
    let times: Vec<f64> = watcher
        .try_iter()
        .filter_map(|event| if let Event::Sampled(sampled) = event { Some(sampled.elapsed_s) } else { None })
        .collect();
    let gap = times.windows(2).map(|pair| pair[1] - pair[0]).fold(times[0], f64::max);
    assert!(gap <= 0.52, "{gap}");
    assert!(times[times.len() - 1] >= 29.9);
}

#[test]
fn a_transfer_shorter_than_an_interval_is_in_the_timeline() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 0);
    plant.end = Duration::from_millis(300);
    plant.delay = Duration::ZERO;
    let outcome = run(&mut plant, Box::new(Fixed::new(4)), settings(), &*clock);
    assert_eq!((outcome.timeline.len(), outcome.decisions.len()), (1, 1));
    assert!(outcome.timeline[0].throughput.network > 0.0);
}

#[test]
fn without_meters_nothing_is_decided_and_nothing_breaks() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 10);
    plant.failing = true;
    let outcome = run(&mut plant, Box::new(Falcon::new()), settings(), &*clock);
    assert_eq!((outcome.timeline.len(), outcome.decisions.len()), (0, 1));
    assert!(outcome.limited.bottleneck().is_none());
}
