//! Where explored paths and trained agents are kept.

use std::path::PathBuf;

use edt::{Endpoint, history};
use pyo3::prelude::*;

use crate::error::raised;

#[pyfunction]
pub(crate) fn path_file(py: Python<'_>, source: &str, destination: &str, stages: u8) -> PyResult<PathBuf> {
    history::path_file(&Endpoint::new(source), &Endpoint::new(destination), stages).map_err(|error| raised(py, &error))
}

#[pyfunction]
pub(crate) fn agent_file(py: Python<'_>, source: &str, destination: &str, kind: &str) -> PyResult<PathBuf> {
    history::agent_file(&Endpoint::new(source), &Endpoint::new(destination), kind).map_err(|error| raised(py, &error))
}
