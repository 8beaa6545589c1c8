//! What decides: optimizers are pure, with time and randomness as arguments, so the same observations give the same decisions.

mod agent;
pub mod ann;
pub mod asm;
pub mod automdt;
pub mod bayes;
pub mod binary;
pub mod drl;
pub mod edt;
pub mod explore;
pub mod falcon;
pub mod falcon_mp;
mod first;
mod fitted;
pub mod fixed;
pub mod generalist;
pub mod globus;
pub mod guard;
pub mod harp;
mod heuristic;
pub mod hill_climb;
mod listed;
pub mod marlin;
mod memory;
pub mod model;
pub mod nelder_mead;
pub mod network;
mod observation;
pub(crate) mod pace;
pub mod pcp;
pub mod promc;
mod setting;
pub mod single_chunk;
#[cfg(test)]
mod testing;
pub mod utility;

pub use agent::Sampling;
pub use first::{Beginning, Extent, FirstStreams, Haste};
pub(crate) use fitted::Fitted;
pub(crate) use listed::exponent;
pub use listed::{Listed, SizeClass, SizeShare};
pub use observation::{Buffers, Observation};
pub use pace::Pace;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::history::Past;

/// The names that `--optimizer` takes. `auto` is `model`, whose beginning is fitted to the work.
pub const NAMES: [&str; 24] = [
    "auto",
    "fixed",
    "edt",
    "automdt",
    "falcon",
    "falcon-printed",
    "falcon-mp",
    "model",
    "generalist",
    "marlin",
    "hill-climb",
    "binary",
    "bayes",
    "nelder-mead",
    "pcp",
    "single-chunk",
    "promc",
    "globus",
    "ann",
    "ann-once",
    "harp",
    "harp-once",
    "asm",
    "drl",
];

/// The names among them whose optimizer is a trained agent.
pub const AGENTS: [&str; 3] = ["edt", "automdt", "drl"];

/// Decides the concurrency of each stage from what was observed since the last decision.
pub trait Optimizer: Send {
    /// The name in options and reports.
    fn name(&self) -> &str;

    /// The decision to start with, before anything was observed.
    fn start(&mut self, policy: &Policy) -> Decision;

    /// Answers an observation with the next decision; an error ends the tuning, never the transfer.
    fn decide(&mut self, observation: &Observation) -> Result<Decision>;

    /// Bytes per second that each stream is sent at most from now on, where new streams lose much before the first observation, or one is about to;
    /// `None`, as with most: as fast as TCP finds right.
    fn restrain(&mut self, _beginning: &Beginning) -> Option<u64> {
        None
    }
}

/// One value for each stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PerStage<T> {
    /// The read stage, at the source.
    pub read: T,
    /// The network stage: streams.
    pub network: T,
    /// The write stage, at the destination.
    pub write: T,
}

impl<T: Copy> PerStage<T> {
    /// The same value for all three stages.
    pub fn all(value: T) -> Self {
        Self { read: value, network: value, write: value }
    }

    /// Applies a function to each value.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> PerStage<U> {
        PerStage { read: f(self.read), network: f(self.network), write: f(self.write) }
    }
}

/// What an optimizer answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Workers of each stage; for the network stage, streams.
    pub concurrency: PerStage<u16>,
    /// Chunks of one file in flight at once; `u16::MAX` for no limit.
    pub parallelism: u16,
    /// Chunks a stream may have unacknowledged; `u16::MAX` for no limit, 0 for a new stream after each chunk.
    pub pipelining: u16,
    /// How streams are divided among files of different sizes, smallest first. Empty, as with most optimizers: each takes what is next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<SizeShare>,
    /// Most bytes per second at which the system sends each stream, without bursts; `None`, as with most optimizers: as fast as TCP finds right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<u64>,
    /// Why, for people.
    pub reason: String,
}

impl Decision {
    /// The same concurrency for all stages, without limits on parallelism and pipelining.
    pub fn uniform(concurrency: u16, reason: impl Into<String>) -> Self {
        let (concurrency, reason) = (PerStage::all(concurrency), reason.into());
        Self { concurrency, parallelism: u16::MAX, pipelining: u16::MAX, shares: Vec::new(), pacing: None, reason }
    }
}

/// How hard a transfer competes, as a user thinks of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// A good neighbour: a stream must bring about 2 % to be kept [Falcon §4.1].
    Fair,
    /// Ahead of others: a stream must bring 0.5 %.
    High,
    /// Behind others: a stream must bring 5 %.
    Low,
    /// A constant concurrency.
    Fixed,
}

/// The numbers behind a policy: inputs of every optimizer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Policy {
    /// The user's word for it.
    pub name: PolicyName,
    /// K of the utility: the gain that a further stream must bring [Falcon eq. 4].
    pub k: f64,
    /// B of the utility: the weight of loss [Falcon eq. 4].
    pub loss_weight: f64,
    /// Most workers of each stage.
    pub limit: PerStage<u16>,
    /// Most chunks of one file in flight; `u16::MAX` for no limit.
    pub parallelism: u16,
    /// Most chunks that a stream may have unacknowledged; `u16::MAX` for no limit.
    pub pipelining: u16,
}

impl Policy {
    /// The numbers of a policy, with at most `max_streams` workers a stage.
    pub fn new(name: PolicyName, max_streams: u16) -> Self {
        let k = match name {
            PolicyName::Fair | PolicyName::Fixed => 1.02,
            PolicyName::High => 1.005,
            PolicyName::Low => 1.05,
        };
        let limit = PerStage::all(max_streams.max(1));
        Self { name, k, loss_weight: 10.0, limit, parallelism: u16::MAX, pipelining: u16::MAX }
    }
}

/// What an optimizer is made from.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// What `fixed` keeps, and `auto` and `model` begin with.
    pub streams: u16,
    /// The bytes of an agent file, for those of [`AGENTS`].
    pub agent: Option<&'a [u8]>,
    /// How an agent chooses.
    pub sampling: Sampling,
    /// Round trip time to the other side, as measured when it was called; `None` where there is no network between.
    pub rtt: Option<Duration>,
    /// Past transfers that `harp`, `harp-once`, `ann` and `ann-once` learn from, oldest first.
    pub history: &'a [Past],
    /// The bytes of a knowledge file, for `asm`.
    pub knowledge: Option<&'a [u8]>,
}

#[cfg(test)]
impl Setup<'_> {
    /// A setup in which nothing is known.
    pub(crate) fn of_a_test() -> Self {
        Self { streams: 4, agent: None, sampling: Sampling::Seeded(0), rtt: None, history: &[], knowledge: None }
    }
}

/// Makes the optimizer of a name.
pub fn by_name(name: &str, setup: &Setup<'_>) -> Result<Box<dyn Optimizer>> {
    let agent = || setup.agent.ok_or_else(|| untrained(name));
    let made: Box<dyn Optimizer> = match name {
        "fixed" => Box::new(fixed::Fixed::new(setup.streams)),
        "auto" | "model" => Box::new(model::Model::new(setup)),
        "falcon" => Box::new(falcon::Falcon::new()),
        "falcon-printed" => Box::new(falcon::Falcon::as_printed()),
        "falcon-mp" => Box::new(falcon_mp::FalconMp::new()),
        "generalist" => Box::new(generalist::Generalist::new(setup)?),
        "marlin" => Box::new(marlin::Marlin::new()),
        "hill-climb" => Box::new(hill_climb::HillClimb::new()),
        "binary" => Box::new(binary::Binary::new()),
        "bayes" => Box::new(bayes::Bayes::new()),
        "nelder-mead" => Box::new(nelder_mead::NelderMead::new()),
        "pcp" => Box::new(pcp::Pcp::new()),
        "single-chunk" => Box::new(single_chunk::SingleChunk::new(setup)),
        "promc" => Box::new(promc::ProMc::new(setup)),
        "globus" => Box::new(globus::Globus::new()),
        "ann" => Box::new(ann::Ann::new(setup)?),
        "ann-once" => Box::new(ann::Ann::once(setup)?),
        "harp" => Box::new(harp::Harp::new(setup)),
        "harp-once" => Box::new(harp::Harp::once(setup)),
        "asm" => Box::new(asm::Asm::new(setup)?),
        "edt" => Box::new(self::edt::Edt::new(agent()?, setup.sampling)?),
        "automdt" => Box::new(automdt::AutoMdt::new(agent()?, setup.sampling)?),
        "drl" => Box::new(drl::Drl::new(agent()?, setup.sampling)?),
        _ => return Err(unknown(name)),
    };
    Ok(made)
}

/// The error for a name that is not one of [`NAMES`].
pub fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("there is no optimizer `{name}`"))
        .with_hint(format!("choose one of {}", NAMES.join(", ")))
}

/// The error for an optimizer that is a trained agent, without one.
fn untrained(name: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("the optimizer `{name}` needs a trained agent")).with_hint(how_to_train(name))
}

/// What to do to have knowledge for the optimizer `asm`.
pub(crate) const HOW_TO_LEARN: &str = "run `edt learn` first, or name a file with --knowledge";

/// What to do to have an agent for the optimizer of a name.
pub(crate) fn how_to_train(name: &str) -> String {
    let (explore, train) = match name {
        "automdt" => ("edt explore --stages 3 SRC DST", "edt train --agent automdt SRC DST"),
        "drl" => ("edt explore SRC DST", "edt train --agent drl SRC DST"),
        _ => ("edt explore SRC DST", "edt train SRC DST"),
    };
    format!("run `{explore}` and `{train}` first, or name a file with --agent")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_makes_an_optimizer_of_that_name_or_says_what_it_learns_from() {
        let setup = Setup::of_a_test();
        for name in NAMES {
            match by_name(name, &setup) {
                Ok(optimizer) => assert_eq!(optimizer.name(), if name == "auto" { "model" } else { name }),
                Err(error) => {
                    let learnt = [("asm", "edt learn"), ("ann", "edt history"), ("ann-once", "edt history")];
                    let how = learnt.iter().find(|(other, _)| *other == name).map_or("edt train", |(_, how)| how);
                    assert!(AGENTS.contains(&name) || how != "edt train", "{error}");
                    assert_eq!(error.kind(), ErrorKind::InvalidInput);
                    assert!(error.hint().unwrap().contains(how), "{error:?}");
                }
            }
        }
        assert!(by_name("magic", &setup).is_err());
    }

    #[test]
    fn an_agent_makes_its_optimizer() {
        let bytes = agent::testing::constant("edt", 1, &[0.0]);
        let setup = Setup { agent: Some(&bytes), ..Setup::of_a_test() };
        assert_eq!(by_name("edt", &setup).unwrap().name(), "edt");
        assert!(by_name("automdt", &setup).is_err());
    }
}
