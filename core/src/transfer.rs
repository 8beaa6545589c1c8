//! A transfer from one endpoint to another: the entry point of the crate.

use crossbeam_channel::Receiver;

use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::event::Event;
use crate::optimizer::Optimizer;
use crate::options::TransferOptions;
use crate::report::Report;

/// What to move, and how.
pub struct Transfer {
    sources: Vec<Endpoint>,
    destination: Endpoint,
    options: TransferOptions,
    optimizer: Option<Box<dyn Optimizer>>,
}

impl Transfer {
    /// A file to a file, or a directory's content into a directory.
    pub fn new(source: impl Into<Endpoint>, destination: impl Into<Endpoint>) -> Self {
        Self::from_many(vec![source.into()], destination)
    }

    /// Several sources of one store (all local, or all on one server) into a directory, each under its own name.
    pub fn from_many(sources: Vec<Endpoint>, destination: impl Into<Endpoint>) -> Self {
        Self { sources, destination: destination.into(), options: TransferOptions::default(), optimizer: None }
    }

    /// Replaces the options.
    #[must_use]
    pub fn with_options(mut self, options: TransferOptions) -> Self {
        self.options = options;
        self
    }

    /// Tunes with this optimizer instead of the one that the options name.
    #[must_use]
    pub fn with_optimizer(mut self, optimizer: impl Optimizer + 'static) -> Self {
        self.optimizer = Some(Box::new(optimizer));
        self
    }

    /// Starts the transfer on threads of its own. Fails at once on options, endpoints, secrets and connections that cannot work.
    pub fn start(self) -> Result<TransferHandle> {
        todo!()
    }

    /// Runs the transfer to its end. Items that failed are in the report; an error means that the transfer as a whole ended early.
    pub fn run(self) -> Result<Report> {
        self.start()?.join()
    }
}

/// A running transfer. Dropping it cancels.
pub struct TransferHandle {
    events: Receiver<Event>,
}

impl TransferHandle {
    /// The events; the channel is bounded, lossy, and closes after [`Event::Finished`].
    pub fn events(&self) -> Receiver<Event> {
        self.events.clone()
    }

    /// Asks the transfer to stop; what was verified is kept for resuming.
    pub fn cancel(&self) {
        self.canceller().cancel();
    }

    /// A handle that cancels from another thread.
    pub fn canceller(&self) -> Canceller {
        todo!()
    }

    /// Waits for the end.
    pub fn join(self) -> Result<Report> {
        todo!()
    }
}

/// Cancels a transfer from any thread.
#[derive(Clone)]
pub struct Canceller {}

impl Canceller {
    /// Asks the transfer to stop; may be called any number of times.
    pub fn cancel(&self) {
        todo!()
    }
}
