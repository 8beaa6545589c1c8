//! What a client in Python needs to come to a server: the secret, and pinned identities.

use std::borrow::Cow;
use std::path::PathBuf;

use edt::auth::known_hosts::KnownHosts;
use edt::auth::secret::find_if_any;
use edt::options::SecretSource;
use pyo3::prelude::*;

use crate::error::raised;
use crate::options;

#[pyfunction]
#[pyo3(signature = (token_file=None))]
pub(crate) fn secret(py: Python<'_>, token_file: Option<PathBuf>) -> PyResult<Option<Cow<'static, [u8]>>> {
    let source = token_file.map_or(SecretSource::Environment, SecretSource::File);
    let found = find_if_any(&source).map_err(|error| raised(py, &error))?;
    Ok(found.map(|secret| secret.as_bytes().to_vec().into()))
}

#[pyfunction]
#[pyo3(signature = (server, known_hosts=None))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are converted to values")]
pub(crate) fn trusted(py: Python<'_>, server: &str, known_hosts: Option<PathBuf>) -> PyResult<Vec<String>> {
    let found = KnownHosts::new(known_hosts.as_deref()).and_then(|known| known.trusted(server));
    found.map_err(|error| raised(py, &error))
}

#[pyfunction]
pub(crate) fn parse_size(text: &Bound<'_, PyAny>) -> PyResult<u64> {
    options::size(text)
}
