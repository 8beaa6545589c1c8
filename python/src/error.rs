//! Calls of the core without the GIL, and its errors as exceptions, whose classes are in `edt/errors.py`.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use edt::{Error, ErrorKind};
use pyo3::prelude::*;

/// How long a waiting call leaves signals such as Ctrl-C unseen.
const PATIENCE: Duration = Duration::from_millis(100);

/// Makes the exception of an error's kind.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let made = py
        .import("edt.errors")
        .and_then(|module| module.getattr("of_kind"))
        .and_then(|of_kind| of_kind.call1((error.kind().name(), error.what(), error.cause(), error.hint())));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(failure) => failure,
    }
}

/// Runs quick `work` without the GIL and turns its error into an exception.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> edt::Result<T> + Send) -> PyResult<T> {
    edt_cli::start_log();
    py.detach(work).map_err(|error| raised(py, &error))
}

/// Runs `work`, which may wait for a peer, on a thread of its own, so that Ctrl-C ends the call; what it then answers is dropped.
pub(crate) fn interruptible<T, W>(py: Python<'_>, work: W) -> PyResult<T>
where
    T: Send + 'static,
    W: FnOnce() -> edt::Result<T> + Send + 'static,
{
    let answered = begun(py, work)?;
    let received = receive(py, &answered)?;
    answer(py, received)
}

/// Begins `work` on a thread of its own and says where its answer will come.
pub(crate) fn begun<T, W>(py: Python<'_>, work: W) -> PyResult<Receiver<edt::Result<T>>>
where
    T: Send + 'static,
    W: FnOnce() -> edt::Result<T> + Send + 'static,
{
    edt_cli::start_log();
    let (answer, answered) = bounded(1);
    let run = move || {
        let _ = answer.send(work());
    };
    let spawned = thread::Builder::new().name("edt-python".to_owned()).spawn(run);
    spawned.map_err(|cause| raised(py, &Error::io("could not start a thread", &cause)))?;
    Ok(answered)
}

/// Turns what came from such a thread into a value or an exception; nothing comes from one that panicked.
pub(crate) fn answer<T>(py: Python<'_>, received: Option<edt::Result<T>>) -> PyResult<T> {
    match received {
        Some(result) => result.map_err(|error| raised(py, &error)),
        None => Err(raised(py, &Error::new(ErrorKind::Io, "the call panicked").with_hint("report this as a bug"))),
    }
}

/// Waits for the next value without the GIL, but not deaf to signals; `None` from a channel that was closed.
pub(crate) fn receive<T: Send>(py: Python<'_>, channel: &Receiver<T>) -> PyResult<Option<T>> {
    loop {
        match py.detach(|| channel.recv_timeout(PATIENCE)) {
            Ok(value) => return Ok(Some(value)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
        }
    }
}
