//! Hill climbing on the number of streams, the simplest of Falcon's alternatives [Falcon §4.2].
//!
//! From one stream on it takes one more as long as the utility rises; where it no longer does, one less, and so on to and fro. So it stays
//! within a stream or two of the best setting and follows a path that changes, but a step an interval is slow: the paper finds it to take
//! up to seven times as long as gradient descent.
//!
//! The authors' program turns around, once it has done so before, only where the utility changed by more than 10 %; the paper does not
//! say so, and this follows the paper.

use super::falcon::is_far;
use super::setting::with_streams;
use super::{Decision, Observation, Optimizer, Policy, utility};
use crate::error::Result;

/// One step an interval, up or down.
#[derive(Debug, Clone)]
pub struct HillClimb {
    asked: u16,
    direction: Direction,
    previous: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl HillClimb {
    /// Begins with one stream.
    pub fn new() -> Self {
        Self { asked: 1, direction: Direction::Up, previous: None }
    }

    /// The direction after an interval with `streams` of at most `limit`: the other one if the utility did not rise, and the only one at
    /// an end of the range.
    fn turned(&self, utility: f64, streams: u16, limit: u16) -> Direction {
        let rose = self.previous.is_none_or(|previous| utility > previous);
        match (rose, self.direction) {
            _ if streams <= 1 => Direction::Up,
            _ if streams >= limit => Direction::Down,
            (true, direction) => direction,
            (false, Direction::Up) => Direction::Down,
            (false, Direction::Down) => Direction::Up,
        }
    }
}

impl Default for HillClimb {
    fn default() -> Self {
        Self::new()
    }
}

impl Optimizer for HillClimb {
    fn name(&self) -> &'static str {
        "hill-climb"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        with_streams(self.asked, policy, "start")
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let policy = &observation.policy;
        let utility = utility::of(observation);
        if !utility.is_finite() {
            return Ok(with_streams(self.asked, policy, "nothing usable was measured: staying"));
        }
        let ran = observation.applied.concurrency.network;
        let from = if is_far(ran, self.asked) { ran } else { self.asked };
        self.direction = self.turned(utility, from, policy.limit.network.max(1));
        let change = self.previous.map_or(0.0, |previous| 100.0 * (utility - previous) / previous.abs().max(f64::MIN_POSITIVE));
        self.previous = Some(utility);
        let (target, word) = match self.direction {
            Direction::Up => (from.saturating_add(1), "up"),
            Direction::Down => (from.saturating_sub(1), "down"),
        };
        self.asked = target.clamp(1, policy.limit.network.max(1));
        Ok(with_streams(self.asked, policy, format!("utility {change:+.1} % with {from} streams: {word} to {}", self.asked)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::testing::{TestPath, Trial};

    #[test]
    fn it_climbs_by_one_and_goes_to_and_fro_around_the_best() {
        let mut optimizer = HillClimb::new();
        let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(5), 64);
        assert_eq!(trial.streams(15), [1, 2, 3, 4, 5, 6, 5, 4, 5, 6, 5, 4, 5, 6, 5]);
    }

    #[test]
    fn it_follows_a_path_that_gives_less_and_then_more() {
        let mut optimizer = HillClimb::new();
        let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(5), 64);
        trial.streams(11);
        trial.path.capacity = 30e6;
        assert_eq!(trial.streams(8), [4, 5, 4, 3, 2, 3, 4, 3]);
        trial.path.capacity = 60e6;
        assert_eq!(trial.streams(7), [2, 3, 4, 5, 6, 7, 6]);
    }

    #[test]
    fn it_turns_around_at_both_ends_of_the_range() {
        let mut optimizer = HillClimb::new();
        let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(20), 3);
        assert_eq!(trial.streams(7), [1, 2, 3, 2, 3, 2, 3]);
        let mut optimizer = HillClimb::new();
        let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(1), 64);
        assert_eq!(trial.streams(6), [1, 2, 1, 2, 1, 2]);
        let mut optimizer = HillClimb::new();
        assert_eq!(Trial::new(&mut optimizer, TestPath::of_streams(9), 1).streams(4), [1, 1, 1, 1]);
    }

    #[test]
    fn it_goes_on_from_what_ran_where_that_is_far_from_what_it_asked_for() {
        let mut climb = HillClimb { asked: 12, ..HillClimb::new() };
        let held = Observation::of_a_test(Decision::uniform(4, ""), 40e6, 64);
        assert_eq!(climb.decide(&held).unwrap().concurrency.network, 5);
    }

    #[test]
    fn nonsense_leaves_it_where_it_is() {
        let mut climb = HillClimb { asked: 7, ..HillClimb::new() };
        let blind = Observation::of_a_test(Decision::uniform(7, ""), f64::NAN, 64);
        assert_eq!(climb.decide(&blind).unwrap().concurrency.network, 7);
    }
}
