//! A constant concurrency, for those who know it and as the yardstick of every other optimizer.

use super::guard::within;
use super::{Decision, Observation, Optimizer, PerStage, Policy};
use crate::error::Result;

/// Keeps the concurrency it was made with, within the limits of the policy.
#[derive(Debug, Clone)]
pub struct Fixed {
    concurrency: u16,
}

impl Fixed {
    /// Keeps `concurrency` workers in every stage, at least one.
    pub fn new(concurrency: u16) -> Self {
        Self { concurrency: concurrency.max(1) }
    }

    fn decision(&self, policy: &Policy) -> Decision {
        let concurrency = within(PerStage::all(self.concurrency), policy.limit);
        let reason = if concurrency.network < self.concurrency {
            format!("fixed at {}, limited to {} by the policy", self.concurrency, concurrency.network)
        } else {
            format!("fixed at {}", self.concurrency)
        };
        Decision { concurrency, ..Decision::uniform(1, reason) }
    }
}

impl Optimizer for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.decision(policy)
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        Ok(self.decision(&observation.policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::PolicyName;

    #[test]
    fn the_concurrency_stays_and_obeys_the_limit_of_each_stage() {
        let mut policy = Policy::new(PolicyName::Fixed, 64);
        assert_eq!(Fixed::new(8).start(&policy).concurrency, PerStage::all(8));
        policy.limit = PerStage { read: 2, network: 4, write: 16 };
        let decision = Fixed::new(8).start(&policy);
        assert_eq!(decision.concurrency, PerStage { read: 2, network: 4, write: 4 }, "as many write as are sent");
        assert!(decision.reason.contains("limited to 4"));
        assert_eq!(Fixed::new(0).start(&policy).concurrency, PerStage::all(1));
    }
}
