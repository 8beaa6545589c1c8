//! What a caller holds of a running transfer.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::Receiver;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::pipeline::stop::Stop;
use crate::report::Report;
use crate::transfer::runner::cancelled;

/// A running transfer. Dropping it cancels.
pub struct TransferHandle {
    events: Receiver<Event>,
    canceller: Canceller,
    thread: Option<JoinHandle<Result<Report>>>,
}

impl TransferHandle {
    /// Starts the thread of a transfer.
    pub(super) fn spawn(
        events: Receiver<Event>,
        stop: Arc<Stop>,
        run: impl FnOnce() -> Result<Report> + Send + 'static,
    ) -> Result<Self> {
        let thread = std::thread::Builder::new()
            .name("edt-transfer".to_owned())
            .spawn(run)
            .map_err(|cause| Error::io("could not start the transfer's thread", &cause))?;
        Ok(Self { events, canceller: Canceller { stop }, thread: Some(thread) })
    }

    /// The events; the channel is bounded, lossy, and closes after [`Event::Finished`].
    pub fn events(&self) -> Receiver<Event> {
        self.events.clone()
    }

    /// Asks the transfer to stop; what was verified is kept for resuming.
    pub fn cancel(&self) {
        self.canceller.cancel();
    }

    /// A handle that cancels from another thread.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Whether [`TransferHandle::join`] would return at once.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end.
    pub fn join(mut self) -> Result<Report> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Err(Error::new(ErrorKind::Io, "the transfer's thread panicked")),
        }
    }
}

impl Drop for TransferHandle {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.canceller.cancel();
            let _ = thread.join();
        }
    }
}

/// Cancels a transfer from any thread.
#[derive(Clone)]
pub struct Canceller {
    stop: Arc<Stop>,
}

impl Canceller {
    pub(crate) fn new(stop: Arc<Stop>) -> Self {
        Self { stop }
    }

    /// Asks the transfer to stop; may be called any number of times.
    pub fn cancel(&self) {
        self.stop.set(Some(cancelled()));
    }
}
