//! One half of a session, whichever it is: what a session does with both alike.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;

use crate::error::{Error, ErrorKind, Result};
use crate::link::Control;
use crate::pipeline::receiver::Receiver;
use crate::pipeline::sender::Sender;
use crate::pipeline::stop::Stop;
use crate::pipeline::streams::Streams;
use crate::protocol::message::{Message, Meters, Tune};

/// A sender or a receiver.
#[derive(Clone)]
pub(crate) enum Half {
    Sender(Arc<Sender>),
    Receiver(Arc<Receiver>),
}

impl Half {
    pub(crate) fn handle(&self, message: Message) -> Result<()> {
        match self {
            Self::Sender(half) => half.handle(message),
            Self::Receiver(half) => half.handle(message),
        }
    }

    pub(crate) fn tune(&self, tune: &Tune) {
        match self {
            Self::Sender(half) => half.tune(tune),
            Self::Receiver(half) => half.tune(tune),
        }
    }

    /// Changes how many bytes this half may hold in buffers.
    pub(crate) fn hold(&self, bytes: u64) {
        match self {
            Self::Sender(half) => half.hold(bytes),
            Self::Receiver(half) => half.hold(bytes),
        }
    }

    pub(crate) fn meters(&self) -> Meters {
        match self {
            Self::Sender(half) => half.meters(),
            Self::Receiver(half) => half.meters(),
        }
    }

    pub(crate) fn streams(&self) -> &Arc<Streams> {
        match self {
            Self::Sender(half) => half.streams(),
            Self::Receiver(half) => half.streams(),
        }
    }

    pub(crate) fn stop(&self) -> &Stop {
        match self {
            Self::Sender(half) => half.stop(),
            Self::Receiver(half) => half.stop(),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Sender(half) => half.is_complete(),
            Self::Receiver(half) => half.is_complete(),
        }
    }

    /// Whether the end of the session is being worked on beside the messages.
    fn is_finishing(&self) -> bool {
        matches!(self, Self::Receiver(receiver) if receiver.is_finishing())
    }

    /// The caller has heard that the transfer is complete.
    pub(crate) fn goodbye(&self) {
        if let Self::Receiver(receiver) = self {
            receiver.goodbye();
        }
    }

    pub(crate) fn close(&self) {
        match self {
            Self::Sender(half) => half.close(),
            Self::Receiver(half) => half.close(),
        }
    }

    /// Gives the half its messages until it is complete, or the session fails; `other` takes those that are not for a half.
    pub(crate) fn pump(&self, control: &Control, mut other: impl FnMut(Message) -> Option<Message>) -> Result<()> {
        if let Self::Receiver(receiver) = self {
            receiver.prepare_beside()?;
        }
        loop {
            let patience = Duration::from_millis(if self.is_finishing() { 2 } else { 50 });
            match control.receiver.recv_timeout(patience) {
                Ok(message) => {
                    if let Some(message) = other(message) {
                        self.handle(message)?;
                    }
                }
                Err(RecvTimeoutError::Disconnected) if !self.is_complete() => {
                    return Err(self.stop().error().unwrap_or_else(|| lost(control)));
                }
                Err(_) => {}
            }
            if self.is_complete() {
                return Ok(());
            }
            if self.stop().is_set() {
                return Err(self.stop().error().unwrap_or_else(|| lost(control)));
            }
        }
    }
}

fn lost(control: &Control) -> Error {
    control.sender.failure().unwrap_or_else(|| {
        Error::new(ErrorKind::ConnectionLost, "the peer closed the connection before the transfer was complete")
    })
}
