//! The agent of AutoMDT: one policy for the concurrencies of reading, network and writing together [AutoMDT §IV-D, §IV-F].
//!
//! Its state holds what one-stage optimizers lack: how full the buffers are on both sides of the network, which tells the stage that limits
//! from those that only wait [AutoMDT §IV-D1].

use super::agent::{Agent, Kind, Sampling};
use super::{Decision, Observation, Optimizer, PerStage, Policy};
use crate::error::Result;

/// A trained AutoMDT agent.
pub struct AutoMdt {
    agent: Agent,
}

impl AutoMdt {
    /// Reads the agent from the bytes of its file.
    pub fn new(bytes: &[u8], sampling: Sampling) -> Result<Self> {
        Ok(Self { agent: Agent::load(bytes, Kind::Automdt, sampling)? })
    }
}

impl Optimizer for AutoMdt {
    fn name(&self) -> &'static str {
        Kind::Automdt.name()
    }

    /// A quarter of the agent's maximum in every stage: it has seen nothing yet.
    fn start(&mut self, policy: &Policy) -> Decision {
        self.agent.begin(policy)
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let Some(choices) = self.agent.choices(observation)? else { return Ok(self.agent.keep(observation)) };
        let [read, network, write] = choices.as_slice() else { return Ok(self.agent.keep(observation)) };
        let wanted = PerStage { read: read.chosen, network: network.chosen, write: write.chosen };
        let reason = self.agent.explain(&choices);
        Ok(self.agent.decide(wanted, &observation.policy, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::agent::testing::{constant, observed};

    #[test]
    fn each_stage_gets_its_own_concurrency_with_the_reason() {
        let bytes = constant("automdt", 3, &[-0.59375, -0.778_125, -0.84375]);
        let mut automdt = AutoMdt::new(&bytes, Sampling::Seeded(0)).unwrap();
        let decision = automdt.decide(&observed(16, 1e9)).unwrap();
        assert_eq!(decision.concurrency, PerStage { read: 13, network: 7, write: 5 });
        assert_eq!(decision.reason, "the agent's mean is 13.0, 7.1, 5.0; rounded 13, 7, 5");
    }

    #[test]
    fn the_limit_of_each_stage_holds() {
        let mut automdt = AutoMdt::new(&constant("automdt", 3, &[1.0; 3]), Sampling::Seeded(0)).unwrap();
        let mut observation = observed(16, 1e9);
        observation.policy.limit = PerStage { read: 4, network: 80, write: 9 };
        let decision = automdt.decide(&observation).unwrap();
        assert_eq!(decision.concurrency, PerStage { read: 4, network: 64, write: 9 });
        assert!(decision.reason.contains("the policy's limit is 4, 80, 9"), "{}", decision.reason);
    }

    #[test]
    fn an_agent_for_one_stage_is_refused() {
        let error = AutoMdt::new(&constant("edt", 1, &[0.0]), Sampling::Seeded(0)).err().unwrap();
        assert!(error.what().contains("`edt`, not `automdt`"), "{error}");
    }
}
