//! When an interval begins and how long it is.

use super::*;
use crate::optimizer::Beginning;

#[test]
fn long_round_trips_make_long_intervals() {
    for (rtt, interval) in [(10, 1000), (100, 1000), (300, 3000), (900, 5000)] {
        let clock = Arc::new(ManualClock::new());
        let mut plant = SimulatedPlant::new(&clock, 60);
        plant.rtt = Duration::from_millis(rtt);
        let (optimizer, seen) = Scripted::new(&[3; 60], refuse);
        run(&mut plant, optimizer, settings(), &*clock);
        assert!(seen.lock().len() > 5);
        assert!(seen.lock().iter().all(|observation| observation.interval == Duration::from_millis(interval)));
    }
}

/// Stands still from one moment to another, as a process does that is stopped.
struct Stopped(SimulatedPlant, Duration, Duration);

impl Plant for Stopped {
    fn sample(&mut self) -> Result<Sample> {
        let Self(plant, _, again) = self;
        if plant.clock.now() >= *again {
            plant.begin = *again;
        }
        plant.sample()
    }

    fn apply(&mut self, decision: &Decision) -> Result<()> {
        self.0.apply(decision)
    }

    fn finished(&self) -> bool {
        let Self(plant, stopped, again) = self;
        let now = plant.clock.now();
        if (*stopped..*again).contains(&now) {
            plant.clock.advance(again.saturating_sub(now));
        }
        plant.finished()
    }

    fn settled(&self) -> bool {
        self.0.settled()
    }

    fn totals(&self) -> Totals {
        self.0.totals()
    }
}

#[test]
fn an_interval_in_which_the_process_stood_still_is_not_shown_to_the_optimizer() {
    // Most of these moments are within an interval.
    for stopped_ms in [5000, 5400, 5800, 6200] {
        let (clock, stopped) = (Arc::new(ManualClock::new()), Duration::from_millis(stopped_ms));
        let mut plant = Stopped(SimulatedPlant::new(&clock, 90), stopped, Duration::from_secs(65));
        let (optimizer, seen) = Scripted::new(&[2; 90], refuse);
        let outcome = run(&mut plant, optimizer, settings(), &*clock);
        let seen = seen.lock();
        assert!(seen.len() > 10 && outcome.tuning_error.is_none());
        for observation in seen.iter() {
            let share = observation.throughput.network / STREAM / 2.0;
            assert!(observation.interval == Duration::from_secs(1) && (share - 1.0).abs() < 1e-6, "{stopped_ms}: {share}");
        }
    }
}

/// Decides as another one does, but for the pacing.
struct Unpaced(Box<Scripted>);

impl Optimizer for Unpaced {
    fn name(&self) -> &'static str {
        "unpaced"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.0.start(policy)
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        Ok(Decision { pacing: None, ..self.0.decide(observation)? })
    }
}

#[test]
fn at_the_quick_pace_an_interval_waits_until_new_streams_have_repaired_their_losses() {
    let ends = |pace: Pace, interval: Option<Duration>, paced: bool| {
        let clock = Arc::new(ManualClock::new());
        let mut plant = SimulatedPlant::new(&clock, 20);
        plant.rtt = Duration::from_millis(10);
        let (optimizer, seen) = Scripted::new(&[6, 6, 3, 3], refuse);
        let optimizer: Box<dyn Optimizer> = if paced { optimizer } else { Box::new(Unpaced(optimizer)) };
        run(&mut plant, optimizer, Settings { interval, pace, ..settings() }, &*clock);
        let ends: Vec<Duration> = seen.lock().iter().map(|observation| observation.elapsed).collect();
        ends.windows(2).map(|pair| pair[1].saturating_sub(pair[0]).as_millis()).collect::<Vec<_>>()
    };
    // Streams open 200 ms late: more of them, as many, fewer, as many.
    assert_eq!(ends(Pace::Quick, None, false), [1100, 720, 720, 720]);
    assert_eq!(ends(Pace::Quick, None, true), [900, 720, 720, 720], "those that are paced lose little when they begin");
    assert_eq!(ends(Pace::Usual, None, false), [1220; 4]);
    assert_eq!(ends(Pace::Quick, Some(Duration::from_millis(100)), false), [300, 220, 220, 220]);
}

#[test]
fn what_new_streams_lose_before_an_interval_is_told_beside_it() {
    let clock = Arc::new(ManualClock::new());
    let (optimizer, seen) = Scripted::new(&[2, 6, 6, 4], refuse);
    run(&mut SimulatedPlant::new(&clock, 60), optimizer, settings(), &*clock);
    let lost = seen.lock().iter().map(|seen| (seen.loss, seen.loss_before.is_some_and(|lost| lost > 0.0))).collect::<Vec<_>>();
    // The first streams, and when there were four more.
    assert_eq!(lost, [true, false, true, false, false].map(|before| (Some(0.0), before)));
}

/// Restrains so many new streams to what they get through, and keeps what it was told of them.
struct Restraining(u16, Box<Scripted>, Arc<Mutex<Vec<Beginning>>>);

impl Optimizer for Restraining {
    fn name(&self) -> &'static str {
        "restraining"
    }

    fn start(&mut self, _: &Policy) -> Decision {
        Decision::uniform(self.0, "start")
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        self.1.decide(observation)
    }

    fn restrain(&mut self, beginning: &Beginning) -> Option<u64> {
        self.2.lock().push(*beginning);
        Some(7_000_000)
    }
}

#[test]
fn new_streams_that_lose_much_are_restrained_before_the_first_interval_ends() {
    // In the time after the first bytes, in the first interval, and never, for those later lose by something else.
    for (from_ms, restrained) in [(100, true), (1000, true), (2600, false)] {
        let clock = Arc::new(ManualClock::new());
        let mut plant = SimulatedPlant::new(&clock, 20);
        plant.loses = Some(Duration::from_millis(from_ms));
        let (scripted, seen) = Scripted::new(&[2; 20], refuse);
        let told = Arc::default();
        let optimizer = Guard::new(Box::new(Restraining(2, scripted, Arc::clone(&told))));
        let outcome = run(&mut plant, Box::new(optimizer), settings(), &*clock);
        let (told, seen) = (told.lock(), seen.lock());
        assert_eq!(told.len(), usize::from(restrained), "{from_ms}");
        let first = &seen[0];
        assert_eq!(first.applied.pacing, restrained.then_some(7_000_000), "{from_ms}");
        // What was measured before they were restrained is no part of it.
        assert_eq!((first.loss, first.interval), (Some(0.0), Duration::from_secs(1)), "{from_ms}");
        if let Some(beginning) = told.first() {
            assert!(
                beginning.streams == 2 && beginning.loss >= 0.1 && (beginning.rate - 2.0 * STREAM).abs() < 1.0,
                "{beginning:?}"
            );
            let reason = &outcome.decisions[1].decision.reason;
            assert!(reason.contains("of what new streams send is lost"), "{reason}");
        }
    }
}

#[test]
fn one_stream_that_fills_a_queue_is_restrained_before_it_loses() {
    let trip = Some(Duration::from_millis(40));
    // Several may do so to one another, and a short round trip is over before it was seen.
    for (streams, queued, rtt, restrained) in
        [(1, true, trip, true), (1, false, trip, false), (2, true, trip, false), (1, true, Some(Duration::from_millis(4)), false)]
    {
        let clock = Arc::new(ManualClock::new());
        let mut plant = SimulatedPlant::new(&clock, 20);
        plant.queued = queued.then_some(Duration::from_millis(250));
        plant.rtt = rtt.unwrap();
        let (scripted, seen) = Scripted::new(&[1; 20], refuse);
        let told = Arc::default();
        let optimizer = Restraining(streams, scripted, Arc::clone(&told));
        let outcome = run(&mut plant, Box::new(optimizer), Settings { rtt, pace: Pace::Quick, ..settings() }, &*clock);
        let told = told.lock();
        assert_eq!(told.len(), usize::from(restrained), "{streams} {queued} {rtt:?}");
        if let Some(beginning) = told.first() {
            assert!(beginning.loss <= 0.0 && (beginning.rate - STREAM).abs() < 1.0, "{beginning:?}");
            let decision = &outcome.decisions[1];
            assert!(decision.decision.reason.contains("fills a queue") && decision.elapsed_s < 0.4, "{decision:?}");
            assert_eq!(seen.lock()[0].applied.pacing, Some(7_000_000));
        }
    }
}

#[test]
fn over_long_paths_it_is_soon_seen_whether_more_of_paced_streams_gets_through() {
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 60);
    plant.rtt = Duration::from_millis(200);
    // The first ones are not paced, and of the others it is seen how many there are.
    let (optimizer, seen) = Scripted::new(&[2, 4, 4, 3, 5], refuse);
    run(&mut plant, optimizer, Settings { pace: Pace::Quick, ..settings() }, &*clock);
    let intervals: Vec<u128> = seen.lock().iter().map(|observation| observation.interval.as_millis()).collect();
    assert_eq!(intervals, [1600, 1600, 800, 1600, 1600, 800]);
}
