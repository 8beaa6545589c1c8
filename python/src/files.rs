//! Listing, describing and removing files.

use std::ffi::OsString;

use edt::Endpoint;
use edt::files::Files;
use edt::path::RelativePath;
use edt::store::{Depth, Entry, EntryKind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::interruptible;
use crate::options::transfer_options;

/// Path, kind, size, modification time in nanoseconds, mode, target of a link.
type Row = (OsString, &'static str, u64, Option<i64>, Option<u32>, Option<OsString>);

#[pyfunction]
pub(crate) fn list(py: Python<'_>, url: String, recursive: bool, options: &Bound<'_, PyDict>) -> PyResult<Vec<Row>> {
    let options = transfer_options(options)?;
    interruptible(py, move || {
        Files::open(&Endpoint::new(url), &options)?.list(depth(recursive))?.map(|entry| entry.map(row)).collect()
    })
}

#[pyfunction]
pub(crate) fn stat(py: Python<'_>, url: String, options: &Bound<'_, PyDict>) -> PyResult<Row> {
    let options = transfer_options(options)?;
    interruptible(py, move || Files::open(&Endpoint::new(url), &options)?.stat(&RelativePath::root()).map(row))
}

#[pyfunction]
pub(crate) fn remove(py: Python<'_>, url: String, recursive: bool, options: &Bound<'_, PyDict>) -> PyResult<()> {
    let options = transfer_options(options)?;
    interruptible(py, move || Files::open(&Endpoint::new(url), &options)?.remove(&RelativePath::root(), depth(recursive)))
}

fn depth(recursive: bool) -> Depth {
    if recursive { Depth::Tree } else { Depth::One }
}

fn row(entry: Entry) -> Row {
    let (kind, target) = match entry.kind {
        EntryKind::File => ("file", None),
        EntryKind::Directory => ("directory", None),
        EntryKind::Symlink(target) => ("symlink", Some(name(&target))),
        EntryKind::Other => ("other", None),
    };
    (name(entry.path.as_bytes()), kind, entry.size, entry.modified_ns, entry.mode, target)
}

/// Bytes as Python takes those of a file system, so that a name that is no text survives.
fn name(bytes: &[u8]) -> OsString {
    #[cfg(unix)]
    return std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec());
    #[cfg(not(unix))]
    return String::from_utf8_lossy(bytes).into_owned().into();
}
