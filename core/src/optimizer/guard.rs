//! The envelope around any optimizer: it caps, bounds, cuts after a collapse, and overrules what does harm.
//!
//! Three rules, in this order of force. Every answer stays within the policy and within a quarter to four times the last one. A
//! collapse right after growth is answered by a cut, and what collapsed is remembered as a knee that is tried again after ever
//! longer gaps. Three intervals far below the best setting seen bring that setting back, unless it no longer delivers either. Intervals
//! that were held back by a rate of the host count for neither.

use super::agent::shown;
use super::{Beginning, Decision, Observation, Optimizer, PerStage, Policy, utility};
use crate::error::Result;

mod harm;
mod knee;

use harm::{Harm, Verdict};
use knee::Knee;

/// Bytes that keep one worker busy long enough to count: the smallest chunk, and the smallest where files are cut finer at the end, unless
/// the plant says how fine.
const WORK_UNIT: u64 = 16 << 20;
const CUT_UNIT: u64 = 1 << 20;

/// Most that a concurrency may grow or shrink by in one decision.
const BOUND: u16 = 4;

/// Wraps an optimizer and answers in its name.
pub struct Guard {
    inner: Box<dyn Optimizer>,
    last: Decision,
    knee: Knee,
    harm: Harm,
}

impl Guard {
    /// Guards `inner`.
    pub fn new(inner: Box<dyn Optimizer>) -> Self {
        Self { inner, last: Decision::uniform(1, ""), knee: Knee::new(), harm: Harm::new() }
    }

    fn judge(&mut self, observation: &Observation, proposed: Decision) -> Decision {
        if is_nearly_done(observation) || !utility::of(observation).is_finite() {
            return proposed;
        }
        if let Some(cut) = self.knee.collapsed(observation) {
            self.harm.forget();
            return cut;
        }
        match self.harm.judge(observation) {
            Verdict::Fine => proposed,
            Verdict::Forgotten(why) => Decision { reason: format!("{why}; {}", proposed.reason), ..proposed },
            // What is overruled by the same goes on for its own reason.
            Verdict::Overruled(decision) if is_same(&decision, &proposed, &observation.policy) => proposed,
            // How fast as many streams are sent is not what did harm.
            Verdict::Overruled(decision) if decision.concurrency == proposed.concurrency => {
                Decision { pacing: proposed.pacing, ..decision }
            }
            Verdict::Overruled(decision) => decision,
        }
    }

    /// The answer to an interval that a rate of the host held back: it says nothing of its setting.
    fn wait(&mut self, policy: &Policy) -> Decision {
        let staying = Decision { reason: "the rate of this host limited: staying".to_owned(), ..self.last.clone() };
        self.last = self.bounded(staying, &self.knee.narrowed(policy));
        self.knee.interrupted(self.last.concurrency);
        self.last.clone()
    }

    fn bounded(&self, decision: Decision, policy: &Policy) -> Decision {
        let asked = decision.concurrency;
        let repaired = mended(asked, self.last.concurrency);
        let step = |n: u16, last: u16| n.clamp(last.div_ceil(BOUND), last.saturating_mul(BOUND));
        let concurrency = within(pairwise(repaired, self.last.concurrency, step), policy.limit);
        let reason = if concurrency == asked {
            decision.reason
        } else {
            format!("{} (guard: {} instead of {} streams)", decision.reason, shown(concurrency), shown(asked))
        };
        let positive = |value: u16, last: u16| if value == 0 { last } else { value };
        Decision {
            concurrency,
            parallelism: positive(decision.parallelism, self.last.parallelism),
            pipelining: positive(decision.pipelining, self.last.pipelining),
            shares: decision.shares,
            pacing: decision.pacing,
            reason,
        }
    }
}

impl Optimizer for Guard {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        let asked = self.inner.start(policy);
        self.last = Decision { concurrency: mended(asked.concurrency, PerStage::all(1)), ..Decision::uniform(1, "") };
        // A connection that was made again goes over the same path.
        self.last = self.bounded(asked, &self.knee.narrowed(policy));
        self.knee.decided(self.last.concurrency);
        self.last.clone()
    }

    fn restrain(&mut self, beginning: &Beginning) -> Option<u64> {
        let pacing = self.inner.restrain(beginning);
        self.last.pacing = pacing.or(self.last.pacing);
        pacing
    }

    /// Passes an error of the guarded optimizer through: whoever runs the loop ends the tuning.
    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        self.harm.saw(observation);
        if observation.held_back {
            return Ok(self.wait(&observation.policy));
        }
        self.knee.age(observation);
        // What is guarded sees the knee as a limit, so that it does not plan with streams that it will not get.
        let mut seen = observation.clone();
        seen.policy = self.knee.narrowed(&observation.policy);
        let proposed = self.inner.decide(&seen)?;
        seen.policy = observation.policy;
        seen.applied.concurrency = evened(observation.applied.concurrency, self.last.concurrency);
        let judged = self.judge(&seen, proposed);
        self.last = self.bounded(judged, &self.knee.narrowed(&observation.policy));
        self.knee.decided(self.last.concurrency);
        Ok(self.last.clone())
    }
}

/// Whether so little work is left that an interval says more about the end of the work than about its setting.
pub fn is_nearly_done(observation: &Observation) -> bool {
    let Some(bytes) = observation.bytes_left else { return false };
    let streams = u64::from(observation.applied.concurrency.network);
    let soon = utility::arrived(observation) * observation.interval.as_secs_f64();
    let unit = observation.work_unit.unwrap_or(CUT_UNIT);
    // Few files keep many streams busy as long as they are cut into enough chunks.
    let few = observation.files_left.is_some_and(|files| {
        let cut = files.saturating_mul(u64::from(observation.applied.parallelism)) >= streams;
        files < streams && bytes < streams.saturating_mul(if cut { unit } else { unit.max(WORK_UNIT) })
    });
    few || (bytes as f64) < soon
}

/// A concurrency within a limit, of at least one worker a stage. Where a stage has as many workers as there are streams it keeps as many, unless
/// its own limit is lower: the engine runs the two in one.
pub(crate) fn within(asked: PerStage<u16>, limit: PerStage<u16>) -> PerStage<u16> {
    let network = asked.network.min(limit.network).max(1);
    let beside = |workers: u16, limit: u16| {
        let wanted = if workers == asked.network { network } else { workers };
        wanted.min(limit).max(1)
    };
    PerStage { read: beside(asked.read, limit.read), network, write: beside(asked.write, limit.write) }
}

/// A measured concurrency, with as many workers as streams in the stages that were to have as many: their numbers differ only by when they began
/// and ended, and who asked for them again would pull the stages apart.
fn evened(measured: PerStage<u16>, decided: PerStage<u16>) -> PerStage<u16> {
    let even = |workers: u16, wanted: u16| if wanted == decided.network { measured.network } else { workers };
    PerStage { read: even(measured.read, decided.read), write: even(measured.write, decided.write), ..measured }
}

/// Whether two decisions come to the same within a policy. How fast as many streams are sent is not what did harm.
fn is_same(one: &Decision, other: &Decision, policy: &Policy) -> bool {
    let limited = |decision: &Decision| {
        let concurrency = within(decision.concurrency, policy.limit);
        (concurrency, decision.parallelism.min(policy.parallelism), decision.pipelining.min(policy.pipelining))
    };
    limited(one) == limited(other) && one.shares == other.shares
}

/// Replaces a concurrency of zero by the last good one.
fn mended(asked: PerStage<u16>, last: PerStage<u16>) -> PerStage<u16> {
    pairwise(asked, last, |n, last| if n == 0 { last.max(1) } else { n })
}

fn pairwise(a: PerStage<u16>, b: PerStage<u16>, f: impl Fn(u16, u16) -> u16) -> PerStage<u16> {
    PerStage { read: f(a.read, b.read), network: f(a.network, b.network), write: f(a.write, b.write) }
}

#[cfg(test)]
mod tests;
