//! Files of any endpoint: asking about them, reading, changing and removing them.

use std::cell::RefCell;
use std::ffi::OsString;
use std::sync::Arc;

use edt::Endpoint;
use edt::files::{self, FilesOptions};
use edt::options::Overwrite;
use edt::path::RelativePath;
use edt::store::{Depth, Entry, EntryKind};
use edt::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::error::{interruptible, raised};
use crate::options::transfer_options;

/// Path, kind, size, modification time in nanoseconds, mode, target of a link.
type Row = (OsString, &'static str, u64, Option<i64>, Option<u32>, Option<OsString>);

#[pyfunction]
pub(crate) fn list(py: Python<'_>, url: String, recursive: bool, options: &Bound<'_, PyDict>) -> PyResult<Vec<Row>> {
    let options = transfer_options(options)?;
    interruptible(py, move || {
        let files = files::Files::open(&Endpoint::new(url), &options)?;
        files.list(&RelativePath::root(), depth(recursive))?.map(|entry| entry.map(row)).collect()
    })
}

#[pyfunction]
pub(crate) fn stat(py: Python<'_>, url: String, options: &Bound<'_, PyDict>) -> PyResult<Row> {
    let options = transfer_options(options)?;
    interruptible(py, move || files::Files::open(&Endpoint::new(url), &options)?.stat(&RelativePath::root()).map(row))
}

#[pyfunction]
pub(crate) fn remove(py: Python<'_>, url: String, recursive: bool, options: &Bound<'_, PyDict>) -> PyResult<()> {
    let options = transfer_options(options)?;
    interruptible(py, move || files::Files::open(&Endpoint::new(url), &options)?.remove(&RelativePath::root(), depth(recursive)))
}

#[pyclass(module = "edt._edt", frozen)]
pub(crate) struct Files(Arc<files::Files>);

#[pymethods]
impl Files {
    #[new]
    fn new(py: Python<'_>, url: String, options: &Bound<'_, PyDict>, connections: usize, read_ahead: u64) -> PyResult<Self> {
        let options = transfer_options(options)?;
        let how = FilesOptions { connections, read_ahead };
        interruptible(py, move || files::Files::open_with(&Endpoint::new(url), &options, how)).map(|files| Self(Arc::new(files)))
    }

    fn list(&self, py: Python<'_>, path: OsString, recursive: bool) -> PyResult<Vec<Row>> {
        self.call(py, move |files| files.list(&relative(&path)?, depth(recursive))?.map(|entry| entry.map(row)).collect())
    }

    fn stat(&self, py: Python<'_>, path: OsString) -> PyResult<Row> {
        self.call(py, move |files| files.stat(&relative(&path)?).map(row))
    }

    fn remove(&self, py: Python<'_>, path: OsString, recursive: bool) -> PyResult<()> {
        self.call(py, move |files| files.remove(&relative(&path)?, depth(recursive)))
    }

    fn create_directory(&self, py: Python<'_>, path: OsString) -> PyResult<()> {
        self.call(py, move |files| files.create_directory(&relative(&path)?))
    }

    fn write(&self, py: Python<'_>, path: OsString, content: Vec<u8>, replace: bool) -> PyResult<()> {
        self.call(py, move |files| files.write(&relative(&path)?, &content, rule(replace)))
    }

    fn copy(&self, py: Python<'_>, source: OsString, destination: OsString) -> PyResult<()> {
        self.call(py, move |files| files.copy(&relative(&source)?, &relative(&destination)?, Overwrite::Replace))
    }

    fn rename(&self, py: Python<'_>, source: OsString, destination: OsString) -> PyResult<()> {
        self.call(py, move |files| files.rename(&relative(&source)?, &relative(&destination)?, Overwrite::Replace))
    }

    fn open(&self, py: Python<'_>, path: OsString, first: (u64, u64)) -> PyResult<FileReader> {
        self.call(py, move |files| files.reader(&relative(&path)?, first.0..first.1)).map(FileReader)
    }
}

impl Files {
    fn call<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&files::Files) -> edt::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let files = Arc::clone(&self.0);
        interruptible(py, move || work(&files))
    }
}

#[pyclass(module = "edt._edt", frozen)]
pub(crate) struct FileReader(files::FileReader);

#[pymethods]
impl FileReader {
    #[getter]
    fn size(&self) -> u64 {
        self.0.entry().size
    }

    #[getter]
    fn modified_ns(&self) -> Option<i64> {
        self.0.entry().modified_ns
    }

    /// The bytes object is made first and filled without the GIL, so that they are copied once.
    fn read_at<'py>(&self, py: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let left = self.0.entry().size.saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        PyBytes::new_with(py, length, |buffer| {
            let read = self.fill(py, offset, buffer)?;
            if read == buffer.len() {
                return Ok(());
            }
            Err(raised(py, &Error::new(ErrorKind::SourceChanged, "could not read the file to its end")))
        })
    }

    fn expect(&self, py: Python<'_>, ranges: Vec<(u64, u64)>) -> PyResult<()> {
        let ranges: Vec<_> = ranges.into_iter().map(|(start, end)| start..end).collect();
        py.detach(|| self.0.expect(&ranges)).map_err(|error| raised(py, &error))
    }
}

impl FileReader {
    /// Fills a buffer without the GIL; a signal such as Ctrl-C ends the wait.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method itself is of one lifetime")]
    fn fill(&self, py: Python<'_>, offset: u64, buffer: &mut [u8]) -> PyResult<usize> {
        let (read, signal) = py.detach(|| {
            let signal = RefCell::new(None);
            let go_on = || {
                Python::attach(|py| py.check_signals()).map_err(|raised| {
                    *signal.borrow_mut() = Some(raised);
                    Error::new(ErrorKind::Cancelled, "reading was interrupted")
                })
            };
            let read = self.0.read_at(offset, buffer, &go_on);
            (read, signal.into_inner())
        });
        match signal {
            Some(signal) => Err(signal),
            None => read.map_err(|error| raised(py, &error)),
        }
    }
}

fn relative(path: &OsString) -> edt::Result<RelativePath> {
    let bytes = edt::path::name_bytes(path).ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, format!("could not use the path `{}`", path.display()))
            .with_cause("it is not valid text")
    })?;
    RelativePath::from_bytes(bytes)
}

fn rule(replace: bool) -> Overwrite {
    if replace { Overwrite::Replace } else { Overwrite::Never }
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
