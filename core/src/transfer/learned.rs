//! What the optimizer of a transfer knows before it: read before anything is connected, or meanwhile.

use std::path::Path;
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::history::{self, Beginning, KeptFile, Past, Recollection};
use crate::optimizer::asm::Knowledge;
use crate::optimizer::{AGENTS, FirstStreams, Fitted, Optimizer, PolicyName, Sampling, Setup, by_name};
use crate::options::TransferOptions;

/// The optimizers that learn from past transfers of all kinds.
const HISTORIANS: [&str; 4] = ["harp", "harp-once", "ann", "ann-once"];

/// The optimizer that needs a knowledge file.
const KNOWING: &str = "asm";

/// Those whose beginning is fitted to the work, and to where earlier transfers over the path settled; the first is the default.
const FITTED: [&str; 2] = ["auto", "model"];

/// What was read for the optimizer that the options name.
#[derive(Default)]
pub(super) struct Learned {
    agent: Option<Box<dyn Optimizer>>,
    knowledge: Option<KeptFile>,
    /// Whether there is knowledge, and it is not read any more.
    outdated: bool,
    history: Vec<Past>,
    recollection: Recollection,
}

impl Learned {
    /// Reads the agent, the knowledge or the past transfers that the optimizer is made from, if it is made from any. A history that is to be
    /// told of this transfer's `beginning` is asked where others like it settled.
    pub(super) fn read(
        options: &TransferOptions,
        sources: &[Endpoint],
        destination: &Endpoint,
        beginning: Option<&Beginning>,
    ) -> Result<Self> {
        let name = options.optimizer.as_str();
        let Some(source) = sources.first().filter(|_| options.policy != PolicyName::Fixed) else { return Ok(Self::default()) };
        if AGENTS.contains(&name) {
            let file = KeptFile::agent(options.agent.as_deref(), source, destination, name)?;
            let made = by_name(name, &Setup { agent: Some(file.bytes()), ..setup(options, 1) });
            return Ok(Self { agent: Some(made.map_err(|error| file.refused(&error))?), ..Self::default() });
        }
        if name == KNOWING {
            let named = options.knowledge.as_deref();
            return Ok(Self::of_knowledge(KeptFile::knowledge(named)?, named));
        }
        if HISTORIANS.contains(&name) {
            let mut history = past_transfers(source, destination);
            history.sort_by(|one, other| one.began_s.total_cmp(&other.began_s));
            return Ok(Self { history, ..Self::default() });
        }
        let beginning = beginning.filter(|_| FITTED.contains(&name));
        Ok(Self { recollection: beginning.map(Recollection::begin).unwrap_or_default(), ..Self::default() })
    }

    /// Takes knowledge, but for that which an older edt made and nobody has named: what ran yesterday does not fail because edt is newer.
    fn of_knowledge(file: KeptFile, named: Option<&Path>) -> Self {
        if named.is_some() || !Knowledge::is_outdated(file.bytes()) {
            return Self { knowledge: Some(file), ..Self::default() };
        }
        if let Err(error) = Knowledge::parse(file.bytes()) {
            let refused = file.refused(&error);
            tracing::warn!("{refused}; this transfer is tuned by `{}`: {}", FITTED[0], refused.hint().unwrap_or_default());
        }
        Self { outdated: true, ..Self::default() }
    }

    /// Makes the optimizer. `first` is what `fixed` keeps, and what `auto` and `model` begin with where nothing is remembered of the path.
    pub(super) fn optimizer(
        self,
        options: &TransferOptions,
        first: FirstStreams,
        rtt: Option<Duration>,
    ) -> Result<Box<dyn Optimizer>> {
        if let Some(agent) = self.agent {
            return Ok(agent);
        }
        let first = if self.outdated { FirstStreams::AUTO } else { first };
        let name = match options.policy {
            PolicyName::Fixed => "fixed",
            _ if self.outdated => FITTED[0],
            _ => options.optimizer.as_str(),
        };
        let knowledge = self.knowledge.as_ref().map(KeptFile::bytes);
        let make = |streams| by_name(name, &Setup { rtt, history: &self.history, knowledge, ..setup(options, streams) });
        if FITTED.contains(&name) {
            return Ok(Box::new(Fitted::new(first, rtt, &self.recollection.end(), make)?));
        }
        make(first.over(rtt.unwrap_or_default())).map_err(|error| match &self.knowledge {
            Some(file) => file.refused(&error),
            None => error,
        })
    }
}

/// The past transfers, those between these machines first. Without any an optimizer has its own ways, so that a history that cannot be
/// read ends nothing.
fn past_transfers(source: &Endpoint, destination: &Endpoint) -> Vec<Past> {
    history::pasts(source, destination).unwrap_or_else(|error| {
        tracing::warn!("could not learn from past transfers: {error}");
        Vec::new()
    })
}

fn setup(options: &TransferOptions, streams: u16) -> Setup<'static> {
    let sampling = if options.deterministic { Sampling::MostLikely } else { Sampling::Seeded(options.seed) };
    Setup { streams, agent: None, sampling, rtt: None, history: &[], knowledge: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knowledge_of_an_older_edt_fails_only_a_transfer_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("knowledge.json");
        std::fs::write(&path, r#"{"kind": "asm", "format": 1}"#).unwrap();
        let options = TransferOptions { optimizer: KNOWING.to_owned(), ..TransferOptions::default() };
        let made = |named: Option<&Path>| {
            let learned = Learned::of_knowledge(KeptFile::knowledge(Some(&path)).unwrap(), named);
            learned.optimizer(&options, FirstStreams::always(1), None)
        };
        assert_eq!(made(None).unwrap().name(), by_name(FITTED[0], &setup(&options, 1)).unwrap().name());
        assert!(made(Some(&path)).err().unwrap().hint().unwrap().contains("edt learn --fresh"));
    }
}
