//! Falcon's online gradient descent on the number of streams [Falcon section 4.2].
//!
//! Around a centre `n` it tests `n - 1` and `n + 1` (further off where `n` is large), moves the centre along the slope between
//! them, and never stops testing, so that it follows a path that changes. Reading and writing get as many workers as there are
//! streams.

use std::cmp::Ordering;

use super::guard::within;
use super::utility;
use super::{Decision, Observation, Optimizer, PerStage, Policy};
use crate::error::Result;

/// Online gradient descent on the utility of eq. 4.
#[derive(Debug, Clone)]
pub struct Falcon {
    form: Form,
    centre: u16,
    asked: u16,
    theta: f64,
    direction: Option<Direction>,
    first: Option<Test>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Relative,
    Printed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Direction {
    /// Where a change leads; `None` if there is none, as where nothing moved.
    fn of(change: f64) -> Option<Self> {
        match change.partial_cmp(&0.0) {
            Some(Ordering::Greater) => Some(Self::Up),
            Some(Ordering::Less) => Some(Self::Down),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Test {
    streams: u16,
    utility: f64,
}

impl Falcon {
    /// The form that works: the relative change of utility is taken as a relative change of the number of streams.
    pub fn new() -> Self {
        Self { form: Form::Relative, centre: 2, asked: 2, theta: 1.0, direction: None, first: None }
    }

    /// The step as the paper prints it, for comparison, by the name `falcon-printed`: it divides by n where the authors' program
    /// multiplies by it, so that its steps shrink with the square of n.
    pub fn as_printed() -> Self {
        Self { form: Form::Printed, ..Self::new() }
    }

    /// Begins a pair of tests around the centre, on the side where the last step led; at the start upwards, which costs nothing if
    /// the transfer is over before the second.
    fn test_first(&mut self, policy: &Policy, why: &str) -> Decision {
        self.first = None;
        match self.direction {
            Some(Direction::Down) => self.ask(self.centre - self.reach(), policy, why),
            _ => self.ask(self.centre.saturating_add(self.reach()), policy, why),
        }
    }

    fn test_second(&mut self, policy: &Policy) -> Decision {
        match self.direction {
            Some(Direction::Down) => self.ask(self.centre.saturating_add(self.reach()), policy, ""),
            _ => self.ask(self.centre - self.reach(), policy, ""),
        }
    }

    // The paper tests at a distance of 1 throughout. One stream of many brings less than measurements are wrong by, so beyond 24
    // streams the relative form tests a twelfth of them away.
    fn reach(&self) -> u16 {
        match self.form {
            Form::Relative => (self.centre / 12).max(1),
            Form::Printed => 1,
        }
    }

    fn ask(&mut self, streams: u16, policy: &Policy, why: &str) -> Decision {
        self.asked = streams.clamp(1, policy.limit.network.max(1));
        let concurrency = within(PerStage::all(self.asked), policy.limit);
        let reason = format!("{why}testing {} around {}", self.asked, self.centre);
        Decision { concurrency, ..Decision::uniform(1, reason) }
    }

    fn descend(&mut self, below: Test, above: Test, policy: &Policy) -> Decision {
        let change = self.change(below, above);
        let direction = Direction::of(change);
        self.theta = if direction.is_some() && self.direction == direction { self.theta + 1.0 } else { 1.0 };
        self.direction = direction;
        let from = self.centre;
        self.centre = moved(from, self.step(change), policy.limit.network);
        if self.centre >= policy.limit.network {
            // At the limit nothing is learnt that would justify a leap once the limit rises.
            self.theta = 1.0;
        }
        let percent = 100.0 * (above.utility - below.utility) / scale(below);
        let slope = format!("utility {percent:+.1} % from {} to {} streams: ", below.streams, above.streams);
        let why = if self.centre == from { format!("{slope}staying at {from}, ") } else { slope };
        self.test_first(policy, &why)
    }

    // Falcon section 4.2: gamma = (u2 - u1) / (2 n eps), Delta = gamma / u(n - eps).
    // The relative form leaves out the division by n: gamma = (u2 - u1) / (2 eps).
    fn change(&self, below: Test, above: Test) -> f64 {
        let slope = (above.utility - below.utility) / f64::from(above.streams - below.streams);
        match self.form {
            Form::Relative => slope / scale(below),
            Form::Printed => slope / scale(below) / f64::from(self.centre),
        }
    }

    // Falcon section 4.2: n_new = n + theta Delta. The relative form takes Delta as a share of n, and at least one stream:
    // n_new = n + theta ceil(n Delta).
    fn step(&self, change: f64) -> f64 {
        let n = f64::from(self.centre);
        match self.form {
            Form::Relative if change == 0.0 => 0.0,
            Form::Relative => self.theta * (n * change.abs()).ceil().copysign(change),
            Form::Printed => self.theta * change,
        }
    }
}

/// The utility that changes are relative to; its absolute value, since loss can make it negative without turning the slope around.
fn scale(below: Test) -> f64 {
    below.utility.abs().max(f64::MIN_POSITIVE)
}

/// The centre after a step, which may at most double or halve it: an error of measurement must not throw it far.
fn moved(centre: u16, step: f64, limit: u16) -> u16 {
    let n = f64::from(centre);
    let target = (n + step.clamp(-n / 2.0, n)).round().clamp(1.0, f64::from(limit.max(1)));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let target = target as u16;
    target
}

/// Whether an interval ran at a concurrency that says nothing about the one asked for.
pub(super) fn is_far(streams: u16, asked: u16) -> bool {
    streams.abs_diff(asked) > (asked / 4).max(1)
}

impl Default for Falcon {
    fn default() -> Self {
        Self::new()
    }
}

impl Optimizer for Falcon {
    fn name(&self) -> &'static str {
        match self.form {
            Form::Relative => "falcon",
            Form::Printed => "falcon-printed",
        }
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.centre = self.centre.min(policy.limit.network.max(1));
        self.test_first(policy, "start: ")
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let policy = &observation.policy;
        let limit = policy.limit.network.max(1);
        let test = Test { streams: observation.applied.concurrency.network, utility: utility::of(observation) };
        if !test.utility.is_finite() {
            return Ok(self.test_first(policy, "nothing usable was measured: "));
        }
        if is_far(test.streams, self.asked) {
            let why = format!("{} streams ran instead of {}: going on from there, ", test.streams, self.asked);
            self.centre = test.streams.clamp(1, limit);
            (self.theta, self.direction) = (1.0, None);
            return Ok(self.test_first(policy, &why));
        }
        if self.centre > limit {
            self.centre = limit;
            return Ok(self.test_first(policy, &format!("the limit is {limit} now: ")));
        }
        let Some(first) = self.first.take() else {
            self.first = Some(test);
            return Ok(self.test_second(policy));
        };
        let (below, above) = if first.streams < test.streams { (first, test) } else { (test, first) };
        if below.streams == above.streams {
            let why = format!("both tests ran {} streams: measuring again, ", test.streams);
            return Ok(self.test_first(policy, &why));
        }
        Ok(self.descend(below, above, policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::PolicyName;
    use crate::optimizer::testing::{TestPath, Trial};

    fn observed(applied: Decision, throughput: f64, limit: u16) -> Observation {
        Observation::of_a_test(applied, throughput, limit)
    }

    fn asked(decision: &Decision) -> u16 {
        decision.concurrency.network
    }

    #[test]
    fn it_tests_one_above_and_one_below_and_then_moves() {
        let mut falcon = Falcon::new();
        let first = falcon.start(&Policy::new(PolicyName::Fair, 64));
        assert_eq!(asked(&first), 3);
        let second = falcon.decide(&observed(first, 30.0, 64)).unwrap();
        assert_eq!(asked(&second), 1);
        let third = falcon.decide(&observed(second, 10.0, 64)).unwrap();
        assert_eq!(asked(&third), 5, "the centre is 4 now: {}", third.reason);
        assert!(third.reason.contains("from 1 to 3 streams"), "{}", third.reason);
    }

    #[test]
    fn recorded_traces_of_both_forms_reach_the_best_and_stall_before_it() {
        let trace = |mut falcon: Falcon| Trial::new(&mut falcon, TestPath::of_streams(10), 64).streams(20);
        assert_eq!(trace(Falcon::new()), [3, 1, 5, 3, 9, 7, 12, 10, 9, 11, 12, 10, 9, 11, 12, 10, 9, 11, 12, 10]);
        assert_eq!(trace(Falcon::as_printed()), [3, 1, 3, 1, 4, 2, 4, 2, 5, 3, 5, 3, 5, 3, 6, 4, 6, 4, 6, 4]);
    }

    #[test]
    fn the_same_number_of_streams_twice_is_measured_again_and_not_compared() {
        let mut falcon = Falcon::new();
        let first = falcon.start(&Policy::new(PolicyName::Fair, 1));
        let second = falcon.decide(&observed(first, 10.0, 1)).unwrap();
        let third = falcon.decide(&observed(second, 30.0, 1)).unwrap();
        assert_eq!(asked(&third), 1);
        assert!(third.reason.contains("measuring again"), "{}", third.reason);
    }

    #[test]
    fn it_goes_on_from_the_applied_concurrency_where_that_is_far_from_the_one_asked_for() {
        let mut falcon = Falcon { centre: 40, asked: 39, ..Falcon::new() };
        let next = falcon.decide(&observed(Decision::uniform(10, ""), 10.0, 64)).unwrap();
        assert_eq!(asked(&next), 11);
    }

    #[test]
    fn a_wild_measurement_moves_the_centre_by_no_more_than_its_half_or_its_double() {
        assert_eq!(moved(20, -1e9, 64), 10);
        assert_eq!(moved(20, f64::INFINITY, 64), 40);
        assert_eq!(moved(1, -1e9, 64), 1);
        assert_eq!(moved(60, 1e9, 64), 64);
    }

    #[test]
    fn silence_and_nonsense_leave_it_where_it_is() {
        for throughput in [0.0, f64::NAN] {
            let mut falcon = Falcon { centre: 8, asked: 7, ..Falcon::new() };
            let mut decision = falcon.start(&Policy::new(PolicyName::Fair, 64));
            for _ in 0..6 {
                decision = falcon.decide(&observed(decision, throughput, 64)).unwrap();
                assert!((7..=9).contains(&asked(&decision)));
            }
        }
    }

    #[test]
    fn a_silence_is_no_direction_that_holds() {
        let mut falcon = Falcon { centre: 8, asked: 9, ..Falcon::new() };
        let mut decision = falcon.start(&Policy::new(PolicyName::Fair, 64));
        // Ten pairs of tests in which nothing moves, and then one in which two streams more bring nothing.
        for throughput in [0.0; 20].into_iter().chain([10e6; 2]) {
            decision = falcon.decide(&observed(decision, throughput, 64)).unwrap();
        }
        assert_eq!((falcon.centre, asked(&decision)), (7, 6), "{}", decision.reason);
    }

    #[test]
    fn a_lowered_limit_is_obeyed_at_once() {
        let mut falcon = Falcon { centre: 40, asked: 39, ..Falcon::new() };
        let next = falcon.decide(&observed(Decision::uniform(39, ""), 10.0, 16)).unwrap();
        assert!(asked(&next) <= 16);
    }
}
