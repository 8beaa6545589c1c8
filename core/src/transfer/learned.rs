//! What the optimizer of a transfer knows before it: read before anything is connected.

use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::history::{self, KeptFile, Past};
use crate::optimizer::{AGENTS, FirstStreams, Fitted, Optimizer, PolicyName, Sampling, Setup, by_name};
use crate::options::TransferOptions;

/// The optimizers that learn from past transfers.
const HISTORIANS: [&str; 4] = ["harp", "harp-once", "ann", MODEL];

/// The one among them that takes past transfers for measurements of this path, and so wants those of no other.
const MODEL: &str = "model";

/// The optimizer that needs a knowledge file.
const KNOWING: &str = "asm";

/// The one whose beginning is fitted to the work.
const FITTED: &str = "auto";

/// What was read for the optimizer that the options name.
#[derive(Default)]
pub(super) struct Learned {
    agent: Option<Box<dyn Optimizer>>,
    knowledge: Option<KeptFile>,
    history: Vec<Past>,
}

impl Learned {
    /// Reads the agent, the knowledge or the past transfers that the optimizer is made from, if it is made from any.
    pub(super) fn read(options: &TransferOptions, sources: &[Endpoint], destination: &Endpoint) -> Result<Self> {
        let name = options.optimizer.as_str();
        let Some(source) = sources.first().filter(|_| options.policy != PolicyName::Fixed) else { return Ok(Self::default()) };
        if AGENTS.contains(&name) {
            let file = KeptFile::agent(options.agent.as_deref(), source, destination, name)?;
            let made = by_name(name, &Setup { agent: Some(file.bytes()), ..setup(options, 1) });
            return Ok(Self { agent: Some(made.map_err(|error| file.refused(&error))?), ..Self::default() });
        }
        if name == KNOWING {
            return Ok(Self { knowledge: Some(KeptFile::knowledge(options.knowledge.as_deref())?), ..Self::default() });
        }
        if HISTORIANS.contains(&name) {
            let mut history = past_transfers(name, source, destination);
            history.sort_by(|one, other| one.began_s.total_cmp(&other.began_s));
            return Ok(Self { history, ..Self::default() });
        }
        Ok(Self::default())
    }

    /// Makes the optimizer. `first` is what `fixed` keeps and `auto` begins with.
    pub(super) fn optimizer(
        self,
        options: &TransferOptions,
        first: FirstStreams,
        rtt: Option<Duration>,
    ) -> Result<Box<dyn Optimizer>> {
        if let Some(agent) = self.agent {
            return Ok(agent);
        }
        // Where the path is known from before, so is how many streams are best.
        let first = if self.history.is_empty() { first } else { first.without_haste() };
        let trip = rtt.unwrap_or_default();
        let name = if options.policy == PolicyName::Fixed { "fixed" } else { options.optimizer.as_str() };
        let knowledge = self.knowledge.as_ref().map(KeptFile::bytes);
        let made = by_name(name, &Setup { rtt, history: &self.history, knowledge, ..setup(options, first.over(trip)) });
        let made = made.map_err(|error| match &self.knowledge {
            Some(file) => file.refused(&error),
            None => error,
        })?;
        Ok(if name == FITTED { Box::new(Fitted::new(made, first, trip)) } else { made })
    }
}

/// The past transfers, those between these machines first. Without any an optimizer has its own ways, so that a history that cannot be
/// read ends nothing.
fn past_transfers(name: &str, source: &Endpoint, destination: &Endpoint) -> Vec<Past> {
    let read = if name == MODEL { history::pasts_between } else { history::pasts };
    read(source, destination).unwrap_or_else(|error| {
        tracing::warn!("could not learn from past transfers: {error}");
        Vec::new()
    })
}

fn setup(options: &TransferOptions, streams: u16) -> Setup<'static> {
    let sampling = if options.deterministic { Sampling::MostLikely } else { Sampling::Seeded(options.seed) };
    Setup { streams, agent: None, sampling, rtt: None, history: &[], knowledge: None }
}
