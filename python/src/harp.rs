//! HARP's models of a history, to say of logs what its paper says of its own.

use std::collections::HashSet;

use edt::history::Past;
use edt::optimizer::harp::assess;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

const JSON: &str = "numbers, words and lists of them are always JSON";

#[pyclass(module = "edt._edt", frozen)]
pub(crate) struct HarpHistory(Vec<Past>);

#[pymethods]
impl HarpHistory {
    #[new]
    fn new(rows: &str) -> PyResult<Self> {
        serde_json::from_str(rows).map(Self).map_err(|error| PyValueError::new_err(format!("no past transfers: {error}")))
    }

    #[pyo3(signature = (limit=65_535))]
    fn groups(&self, py: Python<'_>, limit: u16) -> String {
        py.detach(|| serde_json::to_string(&assess::assessed(&self.0, limit)).expect(JSON))
    }

    #[pyo3(signature = (degree, fitted=None, told=None))]
    fn global_fit(
        &self,
        py: Python<'_>,
        degree: u8,
        fitted: Option<Vec<usize>>,
        told: Option<Vec<usize>>,
    ) -> PyResult<(f64, f64)> {
        let fitted = fitted.unwrap_or_else(|| (0..self.0.len()).collect());
        let told = told.unwrap_or_else(|| fitted.clone());
        if let Some(row) = fitted.iter().chain(&told).find(|row| **row >= self.0.len()) {
            return Err(PyIndexError::new_err(format!("there is no row {row}")));
        }
        let found = py.detach(|| assess::globally(&self.0, degree, &fitted, &told));
        Ok((found.r_squared, found.residual_variance))
    }

    #[pyo3(signature = (sample, without, limit=65_535))]
    fn choice(&self, py: Python<'_>, sample: usize, without: Vec<usize>, limit: u16) -> PyResult<Option<String>> {
        let without: HashSet<usize> = without.into_iter().collect();
        let sample = self.0.get(sample).ok_or_else(|| PyIndexError::new_err(format!("there is no row {sample}")))?;
        let chosen = py.detach(|| {
            let known = self.0.iter().enumerate().filter(|(row, _)| !without.contains(row));
            let known: Vec<Past> = known.map(|(_, past)| past.clone()).collect();
            assess::chosen(known, sample, limit)
        });
        Ok(chosen.map(|chosen| serde_json::to_string(&chosen).expect(JSON)))
    }
}
