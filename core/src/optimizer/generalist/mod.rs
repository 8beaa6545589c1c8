//! The generalist policy: one recurrent network for all paths, trained before, in a simulator of many kinds of them.
//!
//! It sees ratios only (`features`), with K among them, and answers with the change of the streams; a gated recurrent cell remembers what
//! it saw. Its weights are part of this crate, so that nothing has to be explored, trained or installed: `edt train --generalist` makes
//! them with a fixed seed, `report.json` beside them says how they do on paths and laws that were not trained on. The design is that of
//! our feasibility study, with these differences: no random input, an input that says whether loss is told, and probes (`probe`) that
//! belong to the training as they belong to transfers.
//!
//! A probe goes above what the policy asks for now and then, and is kept as the place to go on from if it finds more. What is no number
//! leaves the streams as they are.

use serde::Deserialize;

use super::network::{LayerSpec, Network, Tensors, refused};
use super::setting::{whole, with_streams};
use super::{Decision, FirstStreams, Observation, Optimizer, Policy, Setup, utility};
use crate::error::Result;

mod features;
mod probe;
#[cfg(test)]
mod tests;

use features::{Features, INPUTS, Seen};
use probe::{Found, Probe};

/// The trained policy.
const POLICY: &[u8] = include_bytes!("policy.safetensors");

/// The key of its description.
const KEY: &str = "edt.agent";

/// Most change of the streams in an interval, either way, as a factor.
const STEP: f64 = 4.0;

/// Decides by the trained policy.
pub struct Generalist {
    network: Network,
    features: Features,
    probe: Probe,
    first: u16,
    /// What the policy asks for, as the logarithm of a number that need not be whole.
    target: f64,
    last: Option<u16>,
}

#[derive(Deserialize)]
struct Description {
    network: Vec<LayerSpec>,
}

impl Generalist {
    /// Knows the round trip time alone.
    pub fn new(setup: &Setup<'_>) -> Result<Self> {
        let tensors = Tensors::parse(POLICY)?;
        let text = tensors.text(KEY)?.ok_or_else(|| refused(format!("the policy has no description `{KEY}`")))?;
        let description: Description =
            serde_json::from_str(&text).map_err(|cause| refused("the policy's description cannot be read").with_cause(cause))?;
        let first = FirstStreams::AUTO.over(setup.rtt.unwrap_or_default());
        Ok(Self {
            network: Network::build(&description.network, INPUTS, &tensors)?,
            features: Features::new(),
            probe: Probe::new(),
            first,
            target: 0.0,
            last: None,
        })
    }

    fn answer(&mut self, streams: u16, policy: &Policy, reason: String) -> Decision {
        let decision = with_streams(streams, policy, reason);
        self.last = Some(decision.concurrency.network);
        decision
    }

    /// The policy's answer to an interval, as the logarithm of the streams that it wants next.
    fn asks(&mut self, seen: Seen, policy: &Policy, most: f64) -> f64 {
        let streams = seen.streams.ln();
        if self.features.is_new() {
            self.target = streams;
        }
        // What ran may be far from what was asked for, as where the guard or a server decides.
        let near = self.target.min(streams + STEP.ln()).max(streams - STEP.ln());
        let inputs = self.features.vector(seen, near, policy);
        let answer = self.network.evaluate(inputs).first().map_or(0.0, |answer| f64::from(*answer));
        let change = if answer.is_finite() { STEP.ln() * answer.tanh() } else { 0.0 };
        (near + change).max(0.0).min(most.ln())
    }
}

impl Optimizer for Generalist {
    fn name(&self) -> &'static str {
        "generalist"
    }

    /// Few streams, or the last decision when a connection had to be made again.
    fn start(&mut self, policy: &Policy) -> Decision {
        let reason = if self.last.is_some() { "going on" } else { "start: nothing is known of the path" };
        self.answer(self.last.unwrap_or(self.first), policy, reason.to_owned())
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let policy = &observation.policy;
        let Some(seen) = seen(observation) else {
            let streams = self.last.unwrap_or(self.first);
            let why = if observation.held_back { "others of this host limited" } else { "nothing usable was measured" };
            return Ok(self.answer(streams, policy, format!("{why}: staying at {streams}")));
        };
        let price = policy.k.ln();
        let most = probe::most(price, policy.limit.network);
        let wanted = self.asks(seen, policy, most);
        let found = self.probe.judge(&self.features, seen.streams, price);
        self.target = if found == Found::More { wanted.max(seen.streams.ln()) } else { wanted };
        // What ran may be more than the limit is now.
        let next = self.target.exp().round_ties_even().min(f64::from(policy.limit.network));
        if let Some(tried) = self.probe.due(&self.features, (seen.streams, next), price, most) {
            let reason = format!("probing {tried:.0} streams for an interval instead of {next:.0}");
            return Ok(self.answer(whole(tried), policy, reason));
        }
        let share = 100.0 * (self.features.rate - self.features.most_rate).exp();
        let probed = match found {
            Found::Nothing => "",
            Found::More => "the probe found more; ",
            Found::NoMore => "the probe found no more; ",
        };
        let ran = seen.streams;
        let reason = format!("{probed}{ran:.0} streams moved {share:.0} % of the most lately: the agent asks for {next:.0}");
        Ok(self.answer(whole(next), policy, reason))
    }
}

/// What the policy takes of an observation; `None` if it says nothing of the streams that ran.
fn seen(observation: &Observation) -> Option<Seen> {
    let rate = utility::arrived(observation);
    let workers = observation.workers.network;
    let applied = f64::from(observation.applied.concurrency.network);
    let streams = if workers.is_finite() && workers > 0.0 { workers } else { applied };
    let usable = rate.is_finite() && rate > 0.0 && streams > 0.0 && !observation.held_back;
    let loss = observation.loss.filter(|loss| loss.is_finite()).map(|loss| loss.clamp(0.0, 1.0));
    usable.then_some(Seen { rate, streams, loss })
}
