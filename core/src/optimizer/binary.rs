//! Binary search for the number of streams, one of Falcon's alternatives [Falcon §4.2].
//!
//! It measures one stream, then as many as are allowed, then the middle, and goes on with half of the range: the lower one where the middle
//! is better than the upper end, the upper one otherwise. That is right for a utility that only rises or only falls. The utility
//! rises and then falls, so it may settle far from the best, as published: at 10 streams where 15 are best [Falcon fig. 7]. It stays
//! where it settled, whatever becomes of the path, and asks a path for its most streams after one. It is here to be compared with.
//!
//! The authors' program goes on measuring the middle of a range that has none left; this stays at the better end, as the figure shows.

use super::falcon::is_far;
use super::setting::with_streams;
use super::{Decision, Observation, Optimizer, Policy, utility};
use crate::error::Result;

/// How often it asks again for streams that do not run, as where a guard lets them grow by and by, before it takes what ran.
const PATIENCE: u8 = 4;

/// Halves the range of streams until nothing is left of it.
#[derive(Debug, Clone)]
pub struct Binary {
    asked: u16,
    missed: u8,
    left: Option<Probe>,
    right: Option<Probe>,
    settled: bool,
}

#[derive(Debug, Clone, Copy)]
struct Probe {
    streams: u16,
    utility: f64,
}

impl Binary {
    /// Begins with one stream.
    pub fn new() -> Self {
        Self { asked: 1, missed: 0, left: None, right: None, settled: false }
    }

    fn ask(&mut self, streams: u16, policy: &Policy, reason: String) -> Decision {
        self.asked = streams.clamp(1, policy.limit.network.max(1));
        with_streams(self.asked, policy, reason)
    }

    /// Takes a probe for one of the ends, or to choose a half with.
    fn take(&mut self, probe: Probe) {
        match self.right {
            _ if self.left.is_none() => self.left = Some(probe),
            Some(right) if probe.utility <= right.utility => self.left = Some(probe),
            _ => self.right = Some(probe),
        }
    }

    /// What to measure next, or where to stay.
    fn next(&mut self, policy: &Policy) -> Decision {
        let Some(left) = self.left else { return self.ask(1, policy, "from the lower end".to_owned()) };
        let Some(right) = self.right else { return self.ask(u16::MAX, policy, "from the upper end".to_owned()) };
        let (lower, upper) = (left.streams, right.streams);
        if upper.saturating_sub(lower) > 1 {
            return self.ask(u16::midpoint(lower, upper), policy, format!("the middle of {lower} and {upper}"));
        }
        self.settled = true;
        let best = if left.utility > right.utility { lower } else { upper };
        self.ask(best, policy, format!("nothing is left between {lower} and {upper}: staying at {best}"))
    }
}

impl Default for Binary {
    fn default() -> Self {
        Self::new()
    }
}

impl Optimizer for Binary {
    fn name(&self) -> &'static str {
        "binary"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.ask(self.asked, policy, "from the lower end".to_owned())
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let (policy, asked) = (&observation.policy, self.asked);
        let probe = Probe { streams: observation.applied.concurrency.network, utility: utility::of(observation) };
        if self.settled {
            return Ok(with_streams(asked, policy, format!("settled at {asked}")));
        }
        if !probe.utility.is_finite() {
            return Ok(self.ask(asked, policy, "nothing usable was measured: once more".to_owned()));
        }
        let far = is_far(probe.streams, asked);
        if far && self.missed < PATIENCE {
            self.missed += 1;
            return Ok(self.ask(asked, policy, format!("{} streams ran instead of {asked}: once more", probe.streams)));
        }
        self.missed = 0;
        self.take(if far { probe } else { Probe { streams: asked, ..probe } });
        Ok(self.next(policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::testing::{TestPath, Trial};

    #[test]
    fn it_settles_at_10_where_15_are_best_as_published() {
        let mut optimizer = Binary::new();
        // Beyond 15 streams packets get lost, so that 10 are better than 20, and the half in which the best lies is given up.
        let path = TestPath { loss: 0.12, ..TestPath::of_streams(15) };
        let mut trial = Trial::new(&mut optimizer, path, 40);
        assert_eq!(trial.streams(11), [1, 40, 20, 10, 5, 7, 8, 9, 10, 10, 10]);
    }

    #[test]
    fn it_finds_the_best_where_the_middle_tells_the_right_half() {
        let mut optimizer = Binary::new();
        let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(15), 40);
        assert_eq!(trial.streams(10), [1, 40, 20, 10, 15, 12, 13, 14, 15, 15]);
    }

    #[test]
    fn it_does_not_follow_a_path_that_changes() {
        let mut optimizer = Binary::new();
        let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(15), 40);
        trial.streams(20);
        trial.path.capacity = 30e6;
        assert_eq!(trial.streams(4), [15; 4]);
    }

    #[test]
    fn a_range_of_one_is_settled_at_once() {
        let mut optimizer = Binary::new();
        assert_eq!(Trial::new(&mut optimizer, TestPath::of_streams(15), 1).streams(4), [1; 4]);
    }

    #[test]
    fn streams_that_grow_by_and_by_are_waited_for_and_then_taken_as_they_are() {
        let mut binary = Binary::new();
        let observed = |streams| Observation::of_a_test(Decision::uniform(streams, ""), 1e6, 40);
        assert_eq!(binary.decide(&observed(1)).unwrap().concurrency.network, 40);
        for streams in [4, 16, 16, 16] {
            assert_eq!(binary.decide(&observed(streams)).unwrap().concurrency.network, 40);
        }
        // One and the 16 that ran, instead of 40, are the ends now.
        assert_eq!(binary.decide(&observed(16)).unwrap().concurrency.network, 8);
    }
}
