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

#[test]
fn at_the_quick_pace_an_interval_waits_until_new_streams_have_repaired_their_losses() {
    let ends = |pace: Pace, interval: Option<Duration>| {
        let clock = Arc::new(ManualClock::new());
        let mut plant = SimulatedPlant::new(&clock, 20);
        plant.rtt = Duration::from_millis(10);
        let (optimizer, seen) = Scripted::new(&[6, 6, 3, 3], refuse);
        run(&mut plant, optimizer, Settings { interval, pace, ..settings() }, &*clock);
        let ends: Vec<Duration> = seen.lock().iter().map(|observation| observation.elapsed).collect();
        ends.windows(2).map(|pair| pair[1].saturating_sub(pair[0]).as_millis()).collect::<Vec<_>>()
    };
    // Streams open 200 ms late: more of them, as many, fewer, as many.
    assert_eq!(ends(Pace::Quick, None), [1100, 720, 720, 720]);
    assert_eq!(ends(Pace::Usual, None), [1220; 4]);
    assert_eq!(ends(Pace::Quick, Some(Duration::from_millis(100))), [300, 220, 220, 220]);
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

/// Restrains new streams to what they get through, and keeps what it was told of them.
struct Restraining(Box<Scripted>, Arc<Mutex<Vec<Beginning>>>);

impl Optimizer for Restraining {
    fn name(&self) -> &'static str {
        "restraining"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.0.start(policy)
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        self.0.decide(observation)
    }

    fn restrain(&mut self, beginning: &Beginning) -> Option<u64> {
        self.1.lock().push(*beginning);
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
        let optimizer = Guard::new(Box::new(Restraining(scripted, Arc::clone(&told))));
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
