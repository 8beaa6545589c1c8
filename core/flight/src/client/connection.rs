//! One connection to a Flight service: TCP, TLS where it is wanted, and HTTP/2 with windows for long fat paths.

use std::io;
use std::net::ToSocketAddrs as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use edt::auth::trust::Trust;
use edt::options::{Plain, TransferOptions};
use edt::{Error, ErrorKind, Result};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};

use super::address::{Encryption, Place};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a connection may be silent before it is asked whether it lives, and how long the answer may take.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// What may be on its way to this side of one call, and of one connection: a fast path of 100 ms is full with it.
const WINDOW: (u32, u32) = (32 << 20, 128 << 20);

/// The longest frame: the default of 16 KiB costs a third more.
const FRAME: u32 = 1 << 20;

/// The largest message that is taken; a batch of a table may be far larger than one of bytes.
const LARGEST: usize = 512 << 20;

/// The protocol under TLS.
const HTTP2: &[u8] = b"h2";

/// Speaks to a Flight service over one connection.
pub(super) type Client = FlightServiceClient<Channel>;

/// Makes connections to one place.
pub(super) struct Connector {
    place: Place,
    trust: Option<Trust>,
    /// Whether all addresses of the host are this machine's.
    local: bool,
    /// Whether it is spoken to without encryption for no other reason than that.
    plain_if_local: bool,
}

/// What HTTP/2 goes over.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type AnyStream = Pin<Box<dyn Stream>>;

impl Connector {
    /// Looks the host up, and what is known of its identity if connections are to be encrypted.
    pub(super) fn new(place: &Place, options: &TransferOptions) -> Result<Self> {
        let (local, anywhere) = (is_loopback(place)?, options.plain == Plain::Anywhere);
        let encrypted = match place.encryption {
            Encryption::Always => true,
            Encryption::Never if anywhere || local => false,
            Encryption::Never => return Err(unencrypted(place)),
            Encryption::BeyondLoopback => !anywhere && !local,
        };
        let trust = encrypted.then(|| Trust::new(&place.name(), HTTP2, options)).transpose()?;
        Ok(Self { place: place.clone(), plain_if_local: !encrypted && !anywhere, local, trust })
    }

    /// Whether who calls `other` with a secret may show it here too: the same host, and no less safe on the way.
    pub(super) fn may_know_callers_of(&self, other: &Self) -> bool {
        let same = self.place.host.eq_ignore_ascii_case(&other.place.host) || (self.local && other.local);
        same && (self.trust.is_some() || other.trust.is_none())
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Makes a connection. Nothing is sent before the identity of who is at its other end is known.
    pub(super) async fn connect(&self) -> Result<Client> {
        let name = self.place.name();
        let late = || self.failed(ErrorKind::Unreachable, &"it took longer than 10 s");
        let stream = timeout(CONNECT, self.open()).await.map_err(|_| late())??;
        let stream = Mutex::new(Some(TokioIo::new(stream)));
        // A connection that breaks is not made again behind the back of who holds it.
        let once = tower::service_fn(move |_: Uri| {
            let taken = stream.lock().ok().and_then(|mut stream| stream.take());
            async move { taken.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionReset)) }
        });
        let endpoint = Endpoint::from_shared(format!("http://{name}"))
            .and_then(|endpoint| endpoint.user_agent(concat!("edt/", env!("CARGO_PKG_VERSION"))))
            .map_err(|cause| self.failed(ErrorKind::InvalidInput, &cause))?
            .initial_stream_window_size(WINDOW.0)
            .initial_connection_window_size(WINDOW.1)
            .max_frame_size(FRAME)
            .http2_keep_alive_interval(KEEPALIVE.0)
            .keep_alive_timeout(KEEPALIVE.1);
        let connecting = timeout(CONNECT, endpoint.connect_with_connector(once)).await.map_err(|_| late())?;
        let channel = connecting.map_err(|cause| self.failed(ErrorKind::Unreachable, &cause))?;
        Ok(FlightServiceClient::new(channel).max_decoding_message_size(LARGEST))
    }

    async fn open(&self) -> Result<AnyStream> {
        let socket = TcpStream::connect((self.place.host.as_str(), self.place.port)).await.map_err(|cause| {
            let hint = format!("check that a Flight service runs there and that no firewall closes port {}", self.place.port);
            self.failed(ErrorKind::Unreachable, &cause).with_hint(hint)
        })?;
        socket.set_nodelay(true).map_err(|cause| self.failed(ErrorKind::Unreachable, &cause))?;
        let Some(trust) = &self.trust else {
            // A name may mean another machine by now than when it was looked up.
            let there = socket.peer_addr().map_err(|cause| self.failed(ErrorKind::Unreachable, &cause))?;
            let safe = !self.plain_if_local || there.ip().to_canonical().is_loopback();
            return if safe { Ok(Box::pin(socket)) } else { Err(unencrypted(&self.place)) };
        };
        let server =
            ServerName::try_from(self.place.host.clone()).map_err(|cause| self.failed(ErrorKind::InvalidInput, &cause))?;
        let stream = TlsConnector::from(trust.config()).connect(server, socket).await;
        let stream = stream.map_err(|cause| trust.refusal().unwrap_or_else(|| self.refused(&cause)))?;
        Ok(Box::pin(stream))
    }

    /// The error of a TLS handshake.
    fn refused(&self, cause: &io::Error) -> Error {
        let kind = if cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some() {
            ErrorKind::Refused
        } else {
            ErrorKind::Unreachable
        };
        let plain = if self.place.encryption == Encryption::Always { "`flight://`" } else { "--plain" };
        self.failed(kind, cause).with_hint(format!(
            "check the server's certificate, and name a file of other roots in SSL_CERT_FILE; with {plain} edt speaks to a service without TLS"
        ))
    }

    /// What may help where something listens that does not answer as a Flight service does.
    pub(super) fn advice(&self) -> String {
        let Place { port, .. } = self.place;
        let other =
            format!("check that port {port} is that of a Flight service: `edt serve --flight` has a native port beside it");
        if self.trust.is_some() {
            other
        } else {
            format!("the server may want TLS: try `flight+tls://` without --plain; or {other}")
        }
    }

    fn failed(&self, kind: ErrorKind, cause: &dyn std::fmt::Display) -> Error {
        Error::new(kind, format!("could not connect to the Flight service `{}`", self.place.name())).with_cause(cause)
    }
}

fn unencrypted(place: &Place) -> Error {
    Error::new(ErrorKind::Refused, format!("could not connect to the Flight service `{}`", place.name()))
        .with_cause("it is not on this machine, and is spoken to without encryption")
        .with_hint("let it use TLS, or allow plain connections with --plain")
}

/// Whether all addresses of a host are its own.
fn is_loopback(place: &Place) -> Result<bool> {
    let found = (place.host.as_str(), place.port).to_socket_addrs().map_err(|cause| {
        Error::new(ErrorKind::Unreachable, format!("could not connect to the Flight service `{}`", place.name()))
            .with_cause(cause)
            .with_hint("check the spelling of the host name")
    })?;
    let found: Vec<_> = found.collect();
    Ok(!found.is_empty() && found.iter().all(|address| address.ip().to_canonical().is_loopback()))
}

/// Makes a connector that its holders share.
pub(super) fn connector(place: &Place, options: &TransferOptions) -> Result<Arc<Connector>> {
    Connector::new(place, options).map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(uri: &str) -> Result<Connector> {
        let directory = tempfile::tempdir().unwrap();
        let options = TransferOptions { known_hosts: Some(directory.path().join("known")), ..TransferOptions::default() };
        Connector::new(&Place::of_location(uri).unwrap(), &options)
    }

    #[test]
    fn only_the_host_itself_learns_who_calls() {
        let plain = to("grpc+tcp://127.0.0.1:1").unwrap();
        let tls = to("grpc+tls://192.0.2.1:1").unwrap();
        for (uri, after_plain, after_tls) in [
            ("grpc+tcp://127.0.0.1:2", true, false),
            ("grpc+tls://127.0.0.2:2", true, false),
            ("grpc+tls://192.0.2.1:2", false, true),
            ("grpc+tls://192.0.2.2:1", false, false),
        ] {
            let other = to(uri).unwrap();
            assert_eq!((other.may_know_callers_of(&plain), other.may_know_callers_of(&tls)), (after_plain, after_tls), "{uri}");
        }
        let encrypted_here = to("grpc+tls://127.0.0.1:1").unwrap();
        assert!(!plain.may_know_callers_of(&encrypted_here));
    }

    #[test]
    fn a_location_elsewhere_without_encryption_is_refused() {
        let error = to("grpc+tcp://192.0.2.1:1").err().unwrap();
        assert!(error.kind() == ErrorKind::Refused && error.explain().contains("--plain"), "{error}");
    }
}
