//! What all trained agents share: the file they come from, the vector that their network sees, and the way from its answer to a decision.
//!
//! An agent file holds the network and a JSON text that says how to scale an observation and what the outputs mean. The policy is asked
//! once an interval; what it says is rounded and kept within 1, the maximum it was trained for, and the limits of the transfer.

mod features;
mod metadata;
#[cfg(feature = "onnx")]
mod onnx;
mod policy;
mod sampler;

pub use sampler::Sampling;

pub(super) use metadata::Kind;

use super::{Decision, Observation, PerStage, Policy, guard};
use crate::error::Result;
use features::Features;
use metadata::Action;
use policy::PolicyNetwork;
use sampler::{Sampler, softmax};

/// A policy, what it saw last, and what it decided last.
pub(super) struct Agent {
    network: Box<dyn PolicyNetwork>,
    features: Features,
    sampler: Sampler,
    action: Action,
    deviations: Option<Vec<f64>>,
    /// The K that it was trained with.
    k: Option<f64>,
    outputs: Vec<f32>,
    last: Option<PerStage<u16>>,
}

/// A concurrency that an agent with a continuous action chose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    /// The mean of the distribution, as a concurrency.
    mean: f64,
    /// What was drawn from it, rounded, from 1 to the maximum of the agent.
    pub(super) chosen: u16,
}

/// A move that an agent with a discrete action chose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Move {
    pub(super) by: i32,
    pub(super) probability: f64,
}

impl Agent {
    /// Reads an agent of a kind from the bytes of its file, a safetensors file or, with the feature `onnx`, an ONNX file.
    pub(super) fn load(bytes: &[u8], kind: Kind, sampling: Sampling) -> Result<Self> {
        let (metadata, network) = policy::read(bytes, kind)?;
        Ok(Self {
            network,
            features: Features::new(metadata.observation),
            sampler: Sampler::new(sampling),
            action: metadata.action,
            deviations: metadata.log_std.map(|logarithms| logarithms.into_iter().map(f64::exp).collect()),
            k: metadata.k,
            outputs: Vec::new(),
            last: None,
        })
    }

    /// Most streams that the agent was trained for.
    pub(super) fn maximum(&self) -> u16 {
        match self.action {
            Action::Continuous { maximum } | Action::Discrete { maximum, .. } => maximum,
        }
    }

    /// The decision to start with: where exploration would be least wrong, or the last one, when a connection had to be made again.
    pub(super) fn begin(&mut self, policy: &Policy) -> Decision {
        let reason = match (self.last, self.k) {
            (Some(_), _) => "going on".to_owned(),
            (None, Some(k)) if (k - policy.k).abs() > 1e-9 => {
                format!("start; the agent was trained for K = {k}, and the policy has {}", policy.k)
            }
            (None, _) => "start".to_owned(),
        };
        let first = match self.action {
            Action::Continuous { maximum } => (maximum / 4).max(1),
            Action::Discrete { first, maximum, .. } => first.clamp(1, maximum),
        };
        self.decide(self.last.unwrap_or(PerStage::all(first)), policy, reason)
    }

    /// The decision for a concurrency that the agent chose, within the limits of the policy.
    pub(super) fn decide(&mut self, wanted: PerStage<u16>, policy: &Policy, reason: String) -> Decision {
        let limit = policy.limit;
        let concurrency = guard::within(wanted, limit);
        self.last = Some(concurrency);
        let reason = if concurrency == wanted { reason } else { format!("{reason}; the policy's limit is {}", shown(limit)) };
        Decision { concurrency, ..Decision::uniform(1, reason) }
    }

    /// The last decision again, for want of anything to decide by.
    pub(super) fn keep(&mut self, observation: &Observation) -> Decision {
        let kept = self.last.unwrap_or(observation.applied.concurrency);
        self.decide(kept, &observation.policy, format!("nothing usable was measured or answered: staying at {}", shown(kept)))
    }

    /// One concurrency for each output [EDT §IV-D2] [AutoMDT §IV-D2]; `None` if the observation or the answer is no number.
    pub(super) fn choices(&mut self, observation: &Observation) -> Result<Option<Vec<Choice>>> {
        let maximum = self.maximum();
        let Some(means) = self.ask(observation)? else { return Ok(None) };
        let choices = means.into_iter().enumerate().map(|(index, mean)| {
            let deviation = self.deviations.as_ref().and_then(|deviations| deviations.get(index)).copied();
            let action = deviation.map_or(mean, |deviation| self.sampler.normal(mean, deviation));
            Choice { mean: streams(mean, maximum), chosen: rounded(streams(action, maximum), maximum) }
        });
        Ok(Some(choices.collect()))
    }

    /// One move [EDT §V-H]; `None` if the observation or the answer is no number.
    pub(super) fn movement(&mut self, observation: &Observation) -> Result<Option<Move>> {
        let Some(logits) = self.ask(observation)? else { return Ok(None) };
        let probabilities = softmax(&logits);
        let index = self.sampler.choice(&probabilities);
        let Action::Discrete { moves, .. } = &self.action else { return Ok(None) };
        Ok(moves.get(index).map(|by| Move { by: *by, probability: probabilities[index] }))
    }

    /// What the agent said of its choices, for people.
    pub(super) fn explain(&self, choices: &[Choice]) -> String {
        let means: Vec<String> = choices.iter().map(|choice| format!("{:.1}", choice.mean)).collect();
        let chosen: Vec<String> = choices.iter().map(|choice| choice.chosen.to_string()).collect();
        let how = if self.is_random() { "sampled" } else { "rounded" };
        format!("the agent's mean is {}; {how} {}", means.join(", "), chosen.join(", "))
    }

    /// Whether its choices are drawn at random.
    pub(super) fn is_random(&self) -> bool {
        let noise = self.deviations.is_some() || matches!(self.action, Action::Discrete { .. });
        self.sampler.is_random() && noise
    }

    fn ask(&mut self, observation: &Observation) -> Result<Option<Vec<f64>>> {
        let Some(inputs) = self.features.vector(observation) else { return Ok(None) };
        self.network.evaluate(inputs, &mut self.outputs)?;
        let finite = self.outputs.iter().all(|output| output.is_finite());
        Ok(finite.then(|| self.outputs.iter().copied().map(f64::from).collect()))
    }
}

/// An action as a concurrency: -1 is none, 0 half of the maximum, 1 the maximum.
fn streams(action: f64, maximum: u16) -> f64 {
    (0.5 + 0.5 * action) * f64::from(maximum)
}

/// As PyTorch rounds in training: halves to the even number.
fn rounded(streams: f64, maximum: u16) -> u16 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = streams.round_ties_even().clamp(1.0, f64::from(maximum)) as u16;
    whole
}

/// A concurrency for people: one number where all stages have as many workers.
pub(super) fn shown(concurrency: PerStage<u16>) -> String {
    let PerStage { read, network, write } = concurrency;
    if read == network && write == network { network.to_string() } else { format!("{read}, {network}, {write}") }
}

#[cfg(test)]
pub(super) mod testing {
    //! Agents whose networks give constants, and what they observe.

    use crate::optimizer::network::testing::file_with;
    use crate::optimizer::{Decision, Observation};

    /// An interval of so many streams and bytes per second, under a limit of 100.
    pub(crate) fn observed(streams: u16, throughput: f64) -> Observation {
        Observation::of_a_test(Decision::uniform(streams, ""), throughput, 100)
    }

    /// An agent of 64 streams at most, whose network gives these outputs whatever it sees; the form of its action as JSON.
    pub(crate) fn agent_file(kind: &str, stages: u8, form: &str, outputs: &[f32]) -> Vec<u8> {
        let text = format!(
            r#"{{"format":1,"kind":"{kind}","stages":{stages},
            "observation":[{{"name":"throughput","offset":0,"scale":1e9}},{{"name":"concurrency","offset":0,"scale":64}}],
            "action":{{"form":{form},"maximum":64}},"network":[{{"kind":"dense","weight":"w","bias":"b"}}],
            "log_std":null,"k":1.02,"loss_weight":10}}"#
        );
        let zeros = vec![0.0; 2 * outputs.len()];
        let tensors = [("w", &[outputs.len(), 2][..], &zeros[..]), ("b", &[outputs.len()][..], outputs)];
        file_with(&[("edt.agent", &text)], &tensors)
    }

    /// The same with a continuous action and without noise.
    pub(crate) fn constant(kind: &str, stages: u8, outputs: &[f32]) -> Vec<u8> {
        agent_file(kind, stages, "\"continuous\"", outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{agent_file, constant, observed};
    use super::*;
    use crate::optimizer::PolicyName;

    /// An agent of this mean, and a text of four characters for the deviation.
    fn agent(mean: f32, deviation: &str, sampling: Sampling) -> Agent {
        let mut bytes = constant("edt", 1, &[mean]);
        let at = bytes.windows(4).position(|four| four == b"null").unwrap();
        bytes[at..at + 4].copy_from_slice(deviation.as_bytes());
        Agent::load(&bytes, Kind::Edt, sampling).unwrap()
    }

    fn policy(limit: u16) -> Policy {
        Policy::new(PolicyName::Fair, limit)
    }

    #[test]
    fn an_action_is_a_share_of_the_maximum_rounded_and_clamped() {
        for (mean, mid, chosen) in [(0.0, 32.0, 32), (1.0, 64.0, 64), (-1.0, 0.0, 1), (3.0, 128.0, 64), (-0.59375, 13.0, 13)] {
            let choices = agent(mean, "null", Sampling::Seeded(0)).choices(&observed(4, 1e9)).unwrap().unwrap();
            assert_eq!(choices, [Choice { mean: mid, chosen }]);
        }
        assert_eq!((rounded(2.5, 64), rounded(3.5, 64)), (2, 4));
    }

    #[test]
    fn sampling_spreads_around_the_mean_and_repeats_with_its_seed() {
        let draw = |sampling| {
            let mut agent = agent(0.0, "[-2]", sampling);
            let mut draws = Vec::new();
            for _ in 0..200 {
                draws.push(agent.choices(&observed(4, 1e9)).unwrap().unwrap()[0].chosen);
            }
            draws
        };
        let draws = draw(Sampling::Seeded(5));
        assert_eq!(draws, draw(Sampling::Seeded(5)));
        assert_ne!(draws, draw(Sampling::Seeded(6)));
        let mean = draws.iter().map(|draw| f64::from(*draw)).sum::<f64>() / 200.0;
        let deviation = (draws.iter().map(|draw| (f64::from(*draw) - mean).powi(2)).sum::<f64>() / 200.0).sqrt();
        // e^-2 of half of 64 streams.
        assert!((mean - 32.0).abs() < 1.0 && (deviation - 4.33).abs() < 0.8, "{mean} {deviation}");
        assert_eq!(draw(Sampling::MostLikely), [32; 200]);
    }

    #[test]
    fn the_first_decision_is_a_quarter_of_the_maximum_within_the_limit() {
        let mut agent = agent(0.0, "null", Sampling::Seeded(0));
        assert_eq!(agent.begin(&policy(100)).concurrency, PerStage::all(16));
        let mut other = self::agent(0.0, "null", Sampling::Seeded(0));
        let limited = other.begin(&policy(10));
        assert_eq!(limited.concurrency, PerStage::all(10));
        assert!(limited.reason.contains("limit is 10"), "{}", limited.reason);
        // What others of a host leave of it limits two stages, and they all stay together.
        let shared = Policy { limit: PerStage { write: 64, ..PerStage::all(6) }, ..policy(64) };
        assert_eq!(other.begin(&shared).concurrency, PerStage::all(6));
    }

    #[test]
    fn a_new_connection_begins_with_the_last_decision() {
        let mut agent = agent(0.0, "null", Sampling::Seeded(0));
        agent.begin(&policy(100));
        agent.decide(PerStage { read: 3, network: 4, write: 5 }, &policy(100), String::new());
        assert_eq!(agent.begin(&policy(100)).concurrency, PerStage { read: 3, network: 4, write: 5 });
    }

    #[test]
    fn another_k_than_the_agent_was_trained_for_is_said() {
        let mut agent = agent(0.0, "null", Sampling::Seeded(0));
        let reason = agent.begin(&Policy::new(PolicyName::Low, 100)).reason;
        assert!(reason.contains("K = 1.02") && reason.contains("1.05"), "{reason}");
    }

    #[test]
    fn a_move_is_drawn_by_its_logit() {
        let form = r#""discrete","first":4,"moves":[-3,-1,0,1,3]"#;
        let bytes = agent_file("drl", 1, form, &[0.0, 0.0, 0.0, 2.0, 0.0]);
        let mut agent = Agent::load(&bytes, Kind::Drl, Sampling::MostLikely).unwrap();
        let chosen = agent.movement(&observed(4, 1e9)).unwrap().unwrap();
        assert_eq!(chosen.by, 1);
        assert!((chosen.probability - 0.6488).abs() < 1e-4, "{}", chosen.probability);
        assert_eq!(agent.begin(&policy(100)).concurrency, PerStage::all(4));
    }

    #[test]
    fn what_is_no_number_is_no_choice() {
        let mut agent = agent(0.0, "null", Sampling::Seeded(0));
        agent.begin(&policy(100));
        let blind = observed(4, f64::NAN);
        assert_eq!(agent.choices(&blind).unwrap(), None);
        let kept = agent.keep(&blind);
        assert_eq!(kept.concurrency, PerStage::all(16));
        assert!(kept.reason.contains("staying at 16"), "{}", kept.reason);
    }
}
