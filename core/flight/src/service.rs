//! The service: a served directory for any Flight client, beside the native port and with the same secret, identity and limits.

mod actions;
mod blocking;
mod bytes;
mod calls;
mod gate;
mod info;
mod listener;
mod put;
mod root;
mod tables;
mod uploads;
mod wire;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use edt::auth::identity::Identity;
use edt::auth::secret::Secret;
use edt::link::port::Port;
use edt::options::Plain;
use edt::{Error, ErrorKind, Result, ServeOptions};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tonic::transport::Server;

use calls::Calls;
use gate::Gate;
use listener::Incoming;
use root::Root;

/// Threads that move bytes between sockets and buffers; files are read and written by others, which may block.
const NETWORK_THREADS: usize = 2;

/// Bytes that may be under way on one stream and on one connection before the receiver must answer: 1 Gbit/s at 250 ms.
const STREAM_WINDOW: u32 = 32 << 20;
const CONNECTION_WINDOW: u32 = 128 << 20;

/// The largest frame that is taken: one for a row of a file.
const MAX_FRAME: u32 = 1 << 20;

/// The largest message that is taken.
const MAX_MESSAGE: usize = 64 << 20;

/// After this time without a sign of a client it is asked for one, and gone if it gives none.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How long calls that were ended may take to notice.
const ENDING: Duration = Duration::from_secs(5);

/// A Flight port that is open, and not yet served.
pub struct FlightServer {
    listener: TcpListener,
    address: SocketAddr,
    incoming: listener::Security,
    root: Arc<Root>,
    gate: gate::Admission,
    grace: Duration,
    most_calls: usize,
    phase: watch::Sender<Phase>,
}

/// How far a server has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// It takes calls.
    Serving,
    /// It lets calls end, and takes those that follow on them: a copy is many calls.
    Draining,
    /// It ends the calls that are left.
    Ending,
}

impl FlightServer {
    /// Opens the root of `options`, to be served at `port`; `secret` and `identity` are those of the native port.
    ///
    /// Connections are encrypted if the address is not loopback or a certificate was given, unless `options` allow plain ones anywhere.
    pub fn open(options: &ServeOptions, port: Port, secret: &Secret, identity: &Identity) -> Result<Self> {
        options.validate()?;
        let Port { listener, address } = port;
        let plain = options.plain == Plain::Anywhere || (address.ip().is_loopback() && options.certificate.is_none());
        let incoming = if plain { listener::Security::Plain } else { listener::Security::tls(identity)? };
        Ok(Self {
            listener,
            address,
            incoming,
            root: Arc::new(Root::open(options, secret)?),
            gate: gate::Admission::new(secret.clone(), options.max_sessions),
            grace: options.grace,
            most_calls: options.max_sessions,
            phase: watch::Sender::new(Phase::Serving),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL that clients name it by, with the scheme that says whether it is encrypted.
    pub fn scheme(&self) -> &'static str {
        match self.incoming {
            listener::Security::Plain => "flight",
            listener::Security::Tls(_) => "flight+tls",
        }
    }

    /// A handle that ends the server from another thread.
    pub fn handle(&self) -> FlightHandle {
        FlightHandle { phase: self.phase.clone() }
    }

    /// Serves until it is shut down.
    pub fn run(self) -> Result<()> {
        let failed = |cause: std::io::Error| Error::io("could not start the Flight service", &cause);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(NETWORK_THREADS)
            .max_blocking_threads(self.most_calls.max(NETWORK_THREADS))
            .thread_name("edt-flight")
            .enable_all()
            .build()
            .map_err(failed)?;
        let outcome = runtime.block_on(self.serve());
        end(runtime);
        outcome
    }

    async fn serve(self) -> Result<()> {
        let Self { listener, incoming, root, gate, grace, most_calls, phase, .. } = self;
        let failed = |cause: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Io, "could not serve the Flight port").with_cause(cause.to_string())
        };
        let listener = tokio::net::TcpListener::from_std(listener).map_err(|cause| failed(&cause))?;
        // One more than may run, so that a client that asks for too many on one connection is told so and does not wait for ever.
        let most_streams = u32::try_from(most_calls).unwrap_or(u32::MAX).saturating_add(1);
        let calls = FlightServiceServer::new(Calls::new(Arc::clone(&root))).max_decoding_message_size(MAX_MESSAGE);
        let admission = gate.clone();
        let drained = async {
            reached(phase.subscribe(), Phase::Draining).await;
            admission.quiet().await;
        };
        let expiry = tokio::spawn(uploads::expire(Arc::clone(&root)));
        let served = Server::builder()
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(MAX_FRAME)
            .max_concurrent_streams(most_streams)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE))
            .serve_with_incoming_shutdown(Gate::new(calls, gate, root), Incoming::new(listener, incoming, most_calls), drained);
        let ended = async {
            reached(phase.subscribe(), Phase::Draining).await;
            tokio::select! {
                () = tokio::time::sleep(grace) => {}
                () = reached(phase.subscribe(), Phase::Ending) => {}
            }
        };
        let outcome = tokio::select! {
            served = served => served.map_err(|cause| failed(&cause)),
            () = ended => Ok(()),
        };
        expiry.abort();
        outcome
    }
}

/// Ends what still runs; files that are being read or written end first, for a limited time.
fn end(runtime: Runtime) {
    runtime.shutdown_timeout(ENDING);
}

async fn reached(mut phase: watch::Receiver<Phase>, wanted: Phase) {
    // The sender lives in a handle or in the server; without either nobody can ask for the end.
    if phase.wait_for(|phase| *phase >= wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Ends a Flight server from another thread.
#[derive(Clone)]
pub struct FlightHandle {
    phase: watch::Sender<Phase>,
}

impl FlightHandle {
    /// Ends once no calls run, and none follow on those that ran; at the latest after the grace time. A second call ends at once.
    pub fn shutdown(&self) {
        self.phase.send_modify(|phase| {
            *phase = if *phase == Phase::Serving { Phase::Draining } else { Phase::Ending };
        });
    }
}
