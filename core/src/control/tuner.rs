//! Asks the optimizer, and survives it: an error or a panic ends the tuning and nothing else.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, ErrorKind};
use crate::optimizer::{Beginning, Decision, Observation, Optimizer, Policy, guard};

/// Streams where an optimizer fails before its first decision.
const FALLBACK: u16 = 4;

pub(super) struct Tuner {
    /// `None` once it failed.
    optimizer: Option<Box<dyn Optimizer>>,
    name: String,
    pub(super) error: Option<Error>,
    /// The last decision, and what is left of it within the policy of the moment.
    decided: Decision,
    pub(super) last: Decision,
}

impl Tuner {
    /// Takes the start decision.
    pub(super) fn start(mut optimizer: Box<dyn Optimizer>, policy: &Policy) -> Self {
        let name = optimizer.name().to_owned();
        let started = catch_unwind(AssertUnwindSafe(|| optimizer.start(policy)));
        let fallback = Decision::uniform(FALLBACK, "");
        let mut tuner = Self { optimizer: Some(optimizer), name, error: None, decided: fallback.clone(), last: fallback };
        match started {
            Ok(decision) => tuner.decided = decision,
            Err(panic) => {
                let error = tuner.panicked(panic.as_ref());
                tuner.end(error);
            }
        }
        tuner.last = within(&tuner.decided, policy);
        tuner
    }

    /// The next decision; `None` if the tuning has ended before.
    pub(super) fn decide(&mut self, observation: &Observation) -> Option<&Decision> {
        let optimizer = self.optimizer.as_mut()?;
        match catch_unwind(AssertUnwindSafe(|| optimizer.decide(observation))) {
            Ok(Ok(decision)) => {
                self.last = within(&decision, &observation.policy);
                self.decided = decision;
            }
            Ok(Err(error)) => self.end(error),
            Err(panic) => {
                let error = self.panicked(panic.as_ref());
                self.end(error);
            }
        }
        Some(&self.last)
    }

    /// Asks for a limit of new streams that lose much, or of one that is about to; whether there is one now.
    pub(super) fn restrain(&mut self, beginning: &Beginning) -> bool {
        let Some(optimizer) = self.optimizer.as_mut() else { return false };
        match catch_unwind(AssertUnwindSafe(|| optimizer.restrain(beginning))) {
            Ok(None) => false,
            Ok(pacing) => {
                let lost = 100.0 * beginning.loss;
                let why = if beginning.fills {
                    "a new stream fills a queue".to_owned()
                } else {
                    format!("{lost:.0} % of what new streams send is lost")
                };
                self.decided.reason = format!("{why}: each sent as fast as it gets through");
                self.last.reason.clone_from(&self.decided.reason);
                (self.decided.pacing, self.last.pacing) = (pacing, pacing);
                true
            }
            Err(panic) => {
                let error = self.panicked(panic.as_ref());
                self.end(error);
                false
            }
        }
    }

    /// Brings the last decision within a policy that may have become narrower, or wider again; whether that changed what is left of it.
    pub(super) fn narrow(&mut self, policy: &Policy) -> bool {
        let narrowed = within(&self.decided, policy);
        let changed = narrowed != self.last;
        self.last = narrowed;
        changed
    }

    fn end(&mut self, error: Error) {
        self.optimizer = None;
        // How many streams that is depends on the policy of the moment.
        self.last.reason = format!("tuning ended, staying with the last decision: {error}");
        self.decided.reason.clone_from(&self.last.reason);
        // TCP goes on finding out what is right, where nobody does any more.
        (self.last.pacing, self.decided.pacing) = (None, None);
        self.error = Some(error);
    }

    fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Error::new(ErrorKind::Optimizer, format!("the optimizer `{}` failed", self.name))
            .with_cause(text.unwrap_or_else(|| "it panicked".to_owned()))
            .with_hint("choose another with --optimizer; the transfer went on with the last decision")
    }
}

/// The engine's own clamp, whatever was decided: at least one worker a stage, at most the policy's limit, and together what was decided so.
fn within(decision: &Decision, policy: &Policy) -> Decision {
    let mut decision = decision.clone();
    decision.concurrency = guard::within(decision.concurrency, policy.limit);
    decision.parallelism = decision.parallelism.clamp(1, policy.parallelism.max(1));
    decision.pipelining = decision.pipelining.min(policy.pipelining);
    decision
}
