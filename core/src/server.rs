//! The server: one listening port, many clients at once, a root that none of them leaves.

use std::net::SocketAddr;

use crate::error::Result;
use crate::options::ServeOptions;

/// A bound server.
pub struct Server {}

impl Server {
    /// Opens the root, the secret, the identity and the port.
    pub fn bind(options: ServeOptions) -> Result<Self> {
        let _ = options;
        todo!()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        todo!()
    }

    /// SHA-256 of the server's certificate, as clients pin it.
    pub fn fingerprint(&self) -> &str {
        todo!()
    }

    /// Where the secret came from, and the secret itself if it was generated just now.
    pub fn secret(&self) -> &crate::auth::secret::Origin {
        todo!()
    }

    /// A handle that ends the server from another thread.
    pub fn handle(&self) -> ServerHandle {
        todo!()
    }

    /// Serves until it is shut down.
    pub fn run(self) -> Result<()> {
        todo!()
    }
}

/// Ends a server from another thread.
#[derive(Clone)]
pub struct ServerHandle {}

impl ServerHandle {
    /// Takes no new sessions, lets running ones go on for the grace time, then ends. A second call ends at once.
    pub fn shutdown(&self) {
        todo!()
    }
}
