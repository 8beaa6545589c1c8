//! A running transfer.

use crossbeam_channel::Receiver;
use edt::sync::Mutex;
use edt::transfer::Canceller;
use edt::{Endpoint, Error, ErrorKind, Event, Transfer, TransferHandle};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{answer, begun, interruptible, raised, receive};
use crate::optimizer::PythonOptimizer;
use crate::options::transfer_options;
use crate::report::Report;

/// The most events that one call hands over.
const BATCH: usize = 256;

/// Starts a transfer.
#[pyfunction]
#[pyo3(signature = (sources, destination, options, optimizer=None, resumable=true))]
#[expect(clippy::too_many_arguments, reason = "they are those that Python gives, and the token of its lock")]
pub(crate) fn start(
    py: Python<'_>,
    sources: Vec<String>,
    destination: String,
    options: &Bound<'_, PyDict>,
    optimizer: Option<&Bound<'_, PyAny>>,
    resumable: bool,
) -> PyResult<Handle> {
    let sources = sources.into_iter().map(Endpoint::new).collect();
    let mut transfer = Transfer::from_many(sources, destination).with_options(transfer_options(options)?);
    if let Some(adapter) = optimizer {
        transfer = transfer.with_optimizer(PythonOptimizer::new(adapter)?);
    }
    if !resumable {
        transfer = transfer.without_resuming();
    }
    let handle = interruptible(py, move || transfer.start())?;
    let (events, canceller) = (handle.events(), handle.canceller());
    Ok(Handle { events, canceller, running: Mutex::new(Some(handle)), joining: Mutex::new(None) })
}

#[pyclass(module = "edt._edt", frozen)]
pub(crate) struct Handle {
    events: Receiver<Event>,
    canceller: Canceller,
    /// `None` once it was joined.
    running: Mutex<Option<TransferHandle>>,
    /// Where the outcome comes while it is waited for; a call that was interrupted leaves it to the next one.
    joining: Mutex<Option<Receiver<edt::Result<edt::Report>>>>,
}

#[pymethods]
impl Handle {
    /// Waits for an event and takes those that came with it, each as JSON; an empty list after the last one.
    fn next_events(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let first = receive(py, &self.events)?;
        Ok(first.into_iter().chain(self.events.try_iter()).take(BATCH).map(|event| json(&event)).collect())
    }

    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.canceller.cancel());
    }

    fn join(&self, py: Python<'_>) -> PyResult<Report> {
        let running = self.running.lock().take();
        if let Some(handle) = running {
            *self.joining.lock() = Some(begun(py, move || handle.join())?);
        }
        let joining = self.joining.lock().clone();
        let outcome = joining.ok_or_else(|| raised(py, &taken()))?;
        let received = receive(py, &outcome)?;
        *self.joining.lock() = None;
        answer(py, received).map(Report)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let handle = self.running.lock().take();
        // The thread of a call that was interrupted waits for the end.
        if self.joining.lock().is_some() {
            self.canceller.cancel();
        }
        // Ending may wait for a thread that waits for the GIL, to ask an optimizer written in Python.
        if Python::try_attach(|py| py.detach(|| drop(handle))).is_none() {
            self.canceller.cancel();
        }
    }
}

fn json(event: &Event) -> String {
    serde_json::to_string(event).expect("an event holds only numbers and text")
}

fn taken() -> Error {
    Error::new(ErrorKind::InvalidInput, "could not join the transfer").with_cause("it was joined before")
}
