//! Connections that are made while the session is still being agreed on, so that its first streams have not to wait for theirs.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};

use crate::link::client::Way;
use crate::link::connection::Connection;

/// How long a connection waits for its stream: the server waits for the stream's hello for not much longer.
const FRESH: Duration = Duration::from_secs(3);

/// Connections of a session that no stream uses yet.
#[derive(Default)]
pub(super) struct Standby {
    /// Each is offered by the thread that made it, until it is taken or too old; disconnected when none is left.
    offered: Option<Receiver<Connection>>,
}

impl Standby {
    /// Begins to make so many connections.
    pub(super) fn dial(way: &Way, count: u16) -> Self {
        let (offer, offered) = bounded(0);
        for _ in 0..count {
            let (way, offer) = (way.clone(), offer.clone());
            // Whatever fails here is tried again where the stream is dialled.
            let _ = std::thread::Builder::new().name("edt-dial".to_owned()).spawn(move || {
                let begun = Instant::now();
                if let Ok(connection) = way.dial() {
                    let _ = offer.send_deadline(connection, begun + FRESH);
                }
            });
        }
        Self { offered: Some(offered) }
    }

    /// One of them, waiting until it is made; `None` if none is left that is good for a stream.
    pub(super) fn take(&self) -> Option<Connection> {
        self.offered.as_ref()?.iter().find(Connection::is_open)
    }
}
