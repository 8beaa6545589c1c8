//! Exploring a path: what it gives at random concurrencies, for one stage or for three, as the material of training an agent
//! [EDT §IV-E1, AutoMDT §IV-A].

mod estimate;
mod path;
mod report;
mod run;
mod scratch;

use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::optimizer::explore::Stages;
use crate::optimizer::{Policy, PolicyName};
use crate::options::TransferOptions;

pub use estimate::{Estimate, estimate};
pub use path::{BufferSizes, ExploredPath, PathSample, prepare};
pub use report::from_reports;
pub use run::{Exploration, Progress};

/// How to explore.
#[derive(Debug, Clone)]
pub struct ExploreOptions {
    /// How long; default 5 minutes, as in the paper [EDT §IV-E1].
    pub duration: Duration,
    /// Whether the stages have one concurrency or one each; default one.
    pub stages: Stages,
    /// The same seed draws the same concurrencies; default 0.
    pub seed: u64,
    /// Of the transfers: how to connect, `interval` (default 1 s), `max_streams`, and with three stages `worker_rate`.
    pub transfer: TransferOptions,
}

impl Default for ExploreOptions {
    fn default() -> Self {
        let transfer = TransferOptions { interval: Some(Duration::from_secs(1)), ..TransferOptions::default() };
        Self { duration: Duration::from_mins(5), stages: Stages::One, seed: 0, transfer }
    }
}

/// What was measured between two endpoints, and for how many seconds.
struct Measured {
    samples: Vec<PathSample>,
    buffers: BufferSizes,
    seconds: f64,
}

impl Measured {
    fn into_path(self, source: &Endpoint, destination: &Endpoint, stages: Stages) -> Result<ExploredPath> {
        // The papers' K = 1.02 is that of a fair transfer.
        let k = Policy::new(PolicyName::Fair, 1).k;
        Ok(ExploredPath {
            format: path::FORMAT,
            source: source.to_string(),
            destination: destination.to_string(),
            stages: stages.count(),
            seconds: self.seconds,
            k,
            estimate: estimate(&self.samples, stages, k)?,
            samples: self.samples,
            buffers: self.buffers,
        })
    }
}
