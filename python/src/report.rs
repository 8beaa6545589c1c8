//! The report of a transfer, kept whole because its manifest stays on disk.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use edt::Error;
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
        detached(py, || {
            let failed = |cause: &std::io::Error| Error::io(format!("could not write the manifest `{}`", path.display()), cause);
            let mut file = BufWriter::new(File::create(&path).map_err(|cause| failed(&cause))?);
            self.0.manifest.write_to(&mut file)?;
            file.flush().map_err(|cause| failed(&cause))
        })
    }
}
