//! The report of a transfer, kept whole because its manifest stays on disk.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::detached;

#[pyclass(module = "edt._edt", frozen)]
pub(crate) struct Report(pub(crate) edt::Report);

#[pymethods]
impl Report {
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    fn summary(&self) -> String {
        self.0.summary()
    }

    fn manifest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let lines = detached(py, || {
            let mut lines = Vec::new();
            self.0.manifest.write_to(&mut lines).map(|()| lines)
        })?;
        Ok(PyBytes::new(py, &lines))
    }

    #[expect(clippy::needless_pass_by_value, reason = "it comes from Python")]
    fn save_manifest(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.0.manifest.save(&path))
    }
}
