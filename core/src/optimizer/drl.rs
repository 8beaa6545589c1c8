//! The discrete agent: a policy that moves the concurrency by -3, -1, 0, +1 or +3 [EDT §V-H].
//!
//! It is the ablation that shows why EDT's action is continuous, and stands for the DRL baseline, whose moves are of this kind. What else
//! that baseline lacks is set by options: `--parallelism 1` (no chunks) and `--pipelining 0` (a new connection for each file).

use super::agent::{Agent, Kind, Sampling};
use super::{Decision, Observation, Optimizer, PerStage, Policy};
use crate::error::Result;

/// A trained discrete agent.
pub struct Drl {
    agent: Agent,
}

impl Drl {
    /// Reads the agent from the bytes of its file.
    pub fn new(bytes: &[u8], sampling: Sampling) -> Result<Self> {
        Ok(Self { agent: Agent::load(bytes, Kind::Drl, sampling)? })
    }
}

impl Optimizer for Drl {
    fn name(&self) -> &'static str {
        Kind::Drl.name()
    }

    /// At the concurrency that the agent's file names.
    fn start(&mut self, policy: &Policy) -> Decision {
        self.agent.begin(policy)
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let Some(chosen) = self.agent.movement(observation)? else { return Ok(self.agent.keep(observation)) };
        let from = observation.applied.concurrency.network;
        let streams = moved(from, chosen.by, self.agent.maximum());
        let how = if self.agent.is_random() { "sampled" } else { "the most likely" };
        let percent = 100.0 * chosen.probability;
        let reason = format!("the agent's move is {:+}, {how} with {percent:.0} %: from {from} to {streams}", chosen.by);
        Ok(self.agent.decide(PerStage::all(streams), &observation.policy, reason))
    }
}

/// The concurrency after a move, from 1 to the maximum.
fn moved(from: u16, by: i32, maximum: u16) -> u16 {
    let to = i32::from(from).saturating_add(by).clamp(1, i32::from(maximum));
    u16::try_from(to).unwrap_or(maximum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::agent::testing::{agent_file, constant, observed};

    fn drl(logits: &[f32]) -> Drl {
        let form = r#""discrete","first":4,"moves":[-3,-1,0,1,3]"#;
        Drl::new(&agent_file("drl", 1, form, logits), Sampling::MostLikely).unwrap()
    }

    #[test]
    fn it_moves_from_the_applied_concurrency_and_says_so() {
        let mut drl = drl(&[0.0, 0.0, 0.0, 0.0, 5.0]);
        let decision = drl.decide(&observed(6, 1e9)).unwrap();
        assert_eq!(decision.concurrency, PerStage::all(9));
        assert_eq!(decision.reason, "the agent's move is +3, the most likely with 97 %: from 6 to 9");
    }

    #[test]
    fn it_stays_between_one_and_its_maximum() {
        assert_eq!(drl(&[5.0, 0.0, 0.0, 0.0, 0.0]).decide(&observed(2, 1e9)).unwrap().concurrency, PerStage::all(1));
        assert_eq!(drl(&[0.0, 0.0, 0.0, 0.0, 5.0]).decide(&observed(63, 1e9)).unwrap().concurrency, PerStage::all(64));
        assert_eq!(moved(u16::MAX, i32::MAX, 64), 64);
        assert_eq!(moved(1, i32::MIN, 64), 1);
    }

    #[test]
    fn an_agent_with_a_continuous_action_is_refused() {
        let error = Drl::new(&constant("drl", 1, &[0.0]), Sampling::Seeded(0)).err().unwrap();
        assert!(error.what().contains("discrete action"), "{error}");
    }
}
