//! The search of the optimizer `asm`, to replay logs with and to hold `edt.learning` to.

use std::collections::HashMap;
use std::time::Duration;

use edt::optimizer::asm::{Bounds, Features, Knowledge, Sample, Search, Setting, Step};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::error::raised;

/// Parallelism, concurrency, pipelining.
type Triple = (u16, u16, u16);

#[pyclass(module = "edt._edt")]
pub(crate) struct AsmSearch {
    knowledge: Knowledge,
    cluster: usize,
    distance: f64,
    search: Search,
    bounds: Bounds,
}

#[pymethods]
impl AsmSearch {
    #[new]
    #[pyo3(signature = (knowledge, features, max_streams=65_535, enough=None))]
    #[expect(clippy::needless_pass_by_value, reason = "it comes from Python")]
    fn new(
        py: Python<'_>,
        knowledge: &[u8],
        features: HashMap<String, f64>,
        max_streams: u16,
        enough: Option<f64>,
    ) -> PyResult<Self> {
        let knowledge = Knowledge::parse(knowledge).map_err(|error| raised(py, &error))?;
        let knowledge = match enough {
            Some(share) => knowledge.with_enough(share.clamp(0.0, 1.0)),
            None => knowledge,
        };
        let known = |name: &str| features.get(name).copied();
        let rtt = known("rtt_s").map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of files; the cast saturates")]
        let files = known("files").map(|files| files as u64);
        let features = Features { bandwidth: known("bandwidth"), rtt, mean_size: known("mean_size"), files };
        let (cluster, distance) = knowledge.nearest(&features);
        let search = Search::new(&knowledge.clusters()[cluster]);
        let bounds = Bounds { streams: max_streams, ..Bounds::NONE };
        Ok(Self { knowledge, cluster, distance, search, bounds })
    }

    #[getter]
    fn cluster(&self) -> usize {
        self.cluster
    }

    #[getter]
    fn distance(&self) -> f64 {
        self.distance
    }

    #[getter]
    fn loads(&self) -> Vec<f64> {
        let cluster = &self.knowledge.clusters()[self.cluster];
        (0..cluster.surfaces()).map(|surface| cluster.load(surface)).collect()
    }

    #[getter]
    fn surface(&self) -> usize {
        self.search.surface()
    }

    #[getter]
    fn candidates(&self) -> usize {
        self.search.candidates()
    }

    fn best(&self, surface: usize) -> PyResult<Triple> {
        self.check(surface)?;
        Ok(triple(self.knowledge.clusters()[self.cluster].best(surface, self.bounds)))
    }

    fn predict(&self, surface: usize, setting: Triple) -> PyResult<(f64, f64)> {
        self.check(surface)?;
        let prediction = self.knowledge.clusters()[self.cluster].predict(surface, of(setting));
        Ok((prediction.throughput, prediction.deviation))
    }

    fn sampled(&mut self, setting: Triple, throughput: f64) -> bool {
        let sample = Sample { setting: of(setting), throughput };
        let step = self.search.sampled(&self.knowledge.clusters()[self.cluster], sample, self.bounds);
        matches!(step, Step::Moved(_))
    }

    fn conclusion(&self) -> (Triple, f64) {
        let Sample { setting, throughput } = self.search.conclusion(&self.knowledge.clusters()[self.cluster], self.bounds);
        (triple(setting), throughput)
    }
}

impl AsmSearch {
    fn check(&self, surface: usize) -> PyResult<()> {
        if surface < self.knowledge.clusters()[self.cluster].surfaces() {
            return Ok(());
        }
        Err(PyIndexError::new_err(format!("there is no surface {surface}")))
    }
}

fn of((parallelism, concurrency, pipelining): Triple) -> Setting {
    Setting { parallelism, concurrency, pipelining }
}

fn triple(setting: Setting) -> Triple {
    (setting.parallelism, setting.concurrency, setting.pipelining)
}
