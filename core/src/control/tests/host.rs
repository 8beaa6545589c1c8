//! What the other transfers of a host have to do with the control loop of one.

use super::*;

/// Wants twelve streams, and fails when it is asked again.
struct Wanting;

impl Optimizer for Wanting {
    fn name(&self) -> &'static str {
        "wanting"
    }

    fn start(&mut self, _: &Policy) -> Decision {
        Decision::uniform(12, "start")
    }

    fn decide(&mut self, _: &Observation) -> Result<Decision> {
        refuse()
    }
}

/// Two transfers of a host that has sixteen streams; the first has ten of them.
fn two_of_sixteen(place: &tempfile::TempDir) -> [Member; 2] {
    let [other, member] = [(); 2].map(|()| Member::of_a_test(place.path(), Some(16), None));
    other.ask(&Policy::new(PolicyName::Fair, 64), None);
    other.settle(Decision::uniform(10, "ten"));
    [other, member]
}

#[test]
fn what_others_of_the_host_leave_limits_every_decision() {
    let place = tempfile::tempdir().unwrap();
    let [_other, member] = two_of_sixteen(&place);
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 10);
    let outcome = run(&mut plant, Box::new(Fixed::new(20)), Settings { member, ..settings() }, &*clock);
    let decided = streams(&outcome);
    assert!(decided.len() > 3 && decided.iter().all(|n| *n == 6), "{decided:?}");
    let reason = &outcome.decisions[1].decision.reason;
    assert!(reason.ends_with("6 of 16 streams: 2 transfers share this host"), "{reason}");
}

#[test]
fn what_others_give_back_is_taken_near_the_end_and_after_the_tuning_has_ended_too() {
    for (total, fails) in [(Some(0), false), (None, true)] {
        let place = tempfile::tempdir().unwrap();
        let [other, member] = two_of_sixteen(&place);
        let clock = Arc::new(ManualClock::new());
        let mut plant = SimulatedPlant::new(&clock, 30);
        (plant.total, plant.neighbour) = (total, Some((other, Duration::from_secs(10))));
        let outcome = run(&mut plant, Box::new(Wanting), Settings { member, ..settings() }, &*clock);
        let decided = streams(&outcome);
        assert_eq!((decided.first(), decided.last()), (Some(&6), Some(&12)), "{decided:?}");
        assert_eq!(outcome.tuning_error.is_some(), fails);
        let reason = &outcome.decisions.last().unwrap().decision.reason;
        assert!(reason.contains("tuning ended") == fails && !reason.contains("at 6"), "{reason}");
    }
}

#[test]
fn what_others_leave_pulls_no_stages_apart_that_were_decided_as_one() {
    let policy = Policy::new(PolicyName::Fair, 64);
    let mut tuner = Tuner::start(Box::new(Wanting), &policy);
    // The writers are at another host.
    let limit = PerStage { write: 64, ..PerStage::all(6) };
    assert!(tuner.narrow(&Policy { limit, ..policy }));
    assert_eq!(tuner.last.concurrency, PerStage::all(6));
}

#[test]
fn what_others_give_back_is_taken_before_the_first_bytes_arrive_too() {
    let place = tempfile::tempdir().unwrap();
    let [other, member] = two_of_sixteen(&place);
    let clock = Arc::new(ManualClock::new());
    let mut plant = SimulatedPlant::new(&clock, 30);
    (plant.begin, plant.neighbour) = (Duration::from_secs(20), Some((other, Duration::from_secs(5))));
    let outcome = run(&mut plant, Box::new(Wanting), Settings { member, ..settings() }, &*clock);
    let wide = outcome.decisions.iter().find(|tuned| tuned.decision.concurrency.network == 12).unwrap();
    assert!((5.0..7.0).contains(&wide.elapsed_s), "{}", wide.elapsed_s);
}

#[test]
fn intervals_in_which_a_rate_of_the_host_held_the_transfer_back_say_nothing_of_a_setting() {
    // Of two streams, which move 20 MB/s, and then of one.
    for (rate, told) in [(15e6, [true, true, false, false]), (20e6, [false; 4]), (100e6, [false; 4])] {
        let place = tempfile::tempdir().unwrap();
        let member = Member::of_a_test(place.path(), None, Some(rate));
        let clock = Arc::new(ManualClock::new());
        let mut plant = SimulatedPlant::new(&clock, 30);
        plant.member = member.clone();
        let (optimizer, seen) = Scripted::new(&[1; 60], refuse);
        let (recorder, judged) = Recorder::of_a_test();
        run(&mut plant, optimizer, Settings { recorder, member, ..settings() }, &*clock);
        let seen: Vec<bool> = seen.lock().iter().map(|observation| observation.held_back).collect();
        let says: Vec<bool> = judged().iter().map(|judged| *judged == Judged::No).collect();
        assert_eq!((&seen[..4], &says[..4]), (&told[..], &told[..]));
    }
}

#[test]
fn a_rate_of_the_host_that_holds_a_transfer_back_most_of_the_time_is_told() {
    // The streams carry 20 MB/s.
    for (rate, told) in [(15e6, Some(15e6)), (20e6, None), (24e6, None), (100e6, None)] {
        let place = tempfile::tempdir().unwrap();
        let member = Member::of_a_test(place.path(), None, Some(rate));
        let clock = Arc::new(ManualClock::new());
        let mut plant = SimulatedPlant::new(&clock, 30);
        plant.member = member.clone();
        let outcome = run(&mut plant, Box::new(Fixed::new(2)), Settings { member, ..settings() }, &*clock);
        assert_eq!(outcome.limited.held_to(), told);
        let mut all = Outcome::default();
        all.extend(outcome);
        all.extend(Outcome::default());
        assert_eq!(all.limited.held_to(), told, "a session that measured nothing says nothing");
    }
}
