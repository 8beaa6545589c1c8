//! The Flight port of a server, beside the native one.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};

use edt::link::port::Port;
use edt::server::Server;
use edt::{Error, ErrorKind, ServeOptions};
use edt_flight::service::{FlightHandle, FlightServer};

/// A Flight port that is served.
pub struct Flight {
    /// Where it listens.
    pub address: SocketAddr,
    /// The scheme of its URLs, which says whether it is encrypted.
    pub scheme: &'static str,
    handle: FlightHandle,
    serving: JoinHandle<edt::Result<()>>,
}

impl Flight {
    /// Opens the port `listen`; to be called before the server is bound, whose new secret nobody would be shown if it ended here.
    pub fn open(listen: &str) -> edt::Result<Port> {
        Port::open(listen, "--flight")
    }

    /// Serves a port beside the one of `server`, whose options, secret and identity it shares.
    pub fn start(port: Port, options: &ServeOptions, server: &Server) -> edt::Result<Self> {
        let flight = FlightServer::open(options, port, server.shared_secret(), server.identity())?;
        let (address, scheme, handle) = (flight.address(), flight.scheme(), flight.handle());
        let native = server.handle();
        let serving = thread::Builder::new().name("edt-flight".to_owned()).spawn(move || {
            // A server that lost one of its ports ends as a whole, so that whoever keeps it running hears of it.
            flight.run().inspect_err(|_| native.shutdown())
        });
        let serving = serving.map_err(|cause| Error::io("could not start a thread for the Flight port", &cause))?;
        Ok(Self { address, scheme, handle, serving })
    }

    /// What ends it.
    pub fn handle(&self) -> FlightHandle {
        self.handle.clone()
    }

    /// Waits until it has ended.
    pub fn join(self) -> edt::Result<()> {
        let panicked = |_| Err(Error::new(ErrorKind::Io, "the Flight port ended without an answer"));
        self.serving.join().unwrap_or_else(panicked)
    }
}
