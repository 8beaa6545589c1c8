//! The agent of EDT: one policy for one concurrency, trained offline for a path [EDT §IV-D, §IV-E].
//!
//! At each step the network answers the state with the mean of a distribution over the concurrency; an action is drawn from it, rounded and
//! applied [EDT §IV-E3]. Reading and writing get as many workers as there are streams, so that the stages may run as one. The state is scaled
//! as the file says, so that the network sees numbers around 1 whatever the path.

use super::agent::{Agent, Kind, Sampling};
use super::{Decision, Observation, Optimizer, PerStage, Policy};
use crate::error::Result;

/// A trained EDT agent.
pub struct Edt {
    agent: Agent,
}

impl Edt {
    /// Reads the agent from the bytes of its file.
    pub fn new(bytes: &[u8], sampling: Sampling) -> Result<Self> {
        Ok(Self { agent: Agent::load(bytes, Kind::Edt, sampling)? })
    }
}

impl Optimizer for Edt {
    fn name(&self) -> &'static str {
        Kind::Edt.name()
    }

    /// A quarter of the agent's maximum: it has seen nothing yet, and the first observation is near whatever the optimum is.
    fn start(&mut self, policy: &Policy) -> Decision {
        self.agent.begin(policy)
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let Some(choices) = self.agent.choices(observation)? else { return Ok(self.agent.keep(observation)) };
        let [choice] = choices.as_slice() else { return Ok(self.agent.keep(observation)) };
        let reason = self.agent.explain(&choices);
        Ok(self.agent.decide(PerStage::all(choice.chosen), &observation.policy, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::agent::testing::{constant, observed};

    #[test]
    fn all_stages_get_the_one_concurrency_with_its_reason() {
        let mut edt = Edt::new(&constant("edt", 1, &[-0.59375]), Sampling::Seeded(0)).unwrap();
        let decision = edt.decide(&observed(16, 1e9)).unwrap();
        assert_eq!(decision.concurrency, PerStage::all(13));
        assert_eq!(decision.reason, "the agent's mean is 13.0; rounded 13");
        assert_eq!((decision.parallelism, decision.pipelining), (u16::MAX, u16::MAX));
    }

    #[test]
    fn an_agent_of_another_kind_is_refused() {
        let error = Edt::new(&constant("automdt", 3, &[0.0; 3]), Sampling::Seeded(0)).err().unwrap();
        assert_eq!(error.hint(), Some("use it with --optimizer automdt"));
    }

    #[test]
    fn without_a_measurement_the_last_decision_stays() {
        let mut edt = Edt::new(&constant("edt", 1, &[0.0]), Sampling::Seeded(0)).unwrap();
        edt.decide(&observed(16, 1e9)).unwrap();
        let kept = edt.decide(&observed(16, f64::NAN)).unwrap();
        assert_eq!(kept.concurrency, PerStage::all(32));
        assert!(kept.reason.contains("staying at 32"), "{}", kept.reason);
    }
}
