//! Connections that are made while the session is still being agreed on, so that its first streams have not to wait for theirs.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::link::client::Way;
use crate::link::connection::Connection;

/// How old a connection may be when its stream says hello: the server waits for it for not much longer.
const FRESH: Duration = Duration::from_secs(3);

/// Connections of a session that no stream uses yet.
#[derive(Default)]
pub(super) struct Standby {
    dialled: Mutex<Vec<JoinHandle<Option<Connection>>>>,
    begun: Option<Instant>,
}

impl Standby {
    /// Begins to make so many connections.
    pub(super) fn dial(way: &Way, count: u16) -> Self {
        let dial = |_| {
            let way = way.clone();
            std::thread::Builder::new().name("edt-dial".to_owned()).spawn(move || way.dial().ok()).ok()
        };
        Self { dialled: Mutex::new((0..count).filter_map(dial).collect()), begun: Some(Instant::now()) }
    }

    /// One of them, waiting until it is made; `None` if none is left that is good for a stream.
    pub(super) fn take(&self) -> Option<Connection> {
        loop {
            let dialled = self.dialled.lock().pop()?;
            let connection = dialled.join().ok().flatten();
            if connection.is_some() && self.begun.is_some_and(|begun| begun.elapsed() < FRESH) {
                return connection;
            }
        }
    }
}
