//! The calling side: opens a session with a server and dials its streams.

mod standby;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use crate::auth::known_hosts::{KnownHosts, Pin};
use crate::auth::secret::{self, Secret};
use crate::endpoint::Remote;
use crate::error::{Error, ErrorKind, Result};
use crate::link::connection::Connection;
use crate::link::control::{self, Liveness};
use crate::link::socket::{self, CONNECT_TIMEOUT, Use};
use crate::link::tls::{self, Verifier};
use crate::link::{Control, Dialer, FrameSink, FrameSource, stream};
use crate::optimizer::FirstStreams;
use crate::options::{Plain, TransferOptions};
use crate::protocol::handshake::{ClientHello, Established, Limits, Role, SessionId, SessionKey, StreamDirection, StreamHello};
use crate::protocol::message::Message;

use standby::Standby;

/// How both sides name themselves to each other.
pub(super) const SOFTWARE: &str = concat!("edt ", env!("CARGO_PKG_VERSION"));

/// Which server to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whether to encrypt where it could be left out.
    pub tls: bool,
}

impl Target {
    /// The server's name in errors and known hosts: `host:port`, an IPv6 address in brackets.
    pub fn name(&self) -> String {
        socket::name(&self.host, self.port)
    }
}

impl From<&Remote> for Target {
    fn from(remote: &Remote) -> Self {
        Self { host: remote.host.clone(), port: remote.port, tls: remote.tls }
    }
}

/// What a session is opened for, if that is known beforehand: saying it at once saves a round trip.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// The first messages.
    pub messages: &'a [Message],
    /// Streams that will be dialled first.
    pub streams: FirstStreams,
    /// Whether this side will send on them.
    pub upload: bool,
}

/// An open session with a server; it ends with its control channel.
pub struct Session {
    /// Messages.
    pub control: Control,
    /// Dials the session's streams.
    pub dialer: Arc<dyn Dialer>,
    /// What the server allows.
    pub limits: Limits,
    /// The server, as `host:port`.
    pub peer: String,
    /// Name and version of the server's software, for people.
    pub software: String,
    /// The shortest round trip of the first ones: that of connecting, and of the handshake where the system tells.
    pub rtt: Duration,
    /// The address of this side, if the system tells.
    pub local: Option<IpAddr>,
    /// Whether this side's system sends by BBR, unless it is asked for another congestion control.
    pub bbr: bool,
    /// Most bytes of a segment on the connection to the server, if the system tells.
    pub segment: Option<u32>,
}

/// Opens a session. Plain on loopback, unless the target asks for TLS, and where the options allow plain anywhere; else under TLS, with
/// the server's identity pinned once it has shown that it knows the secret. The messages of `opening` have been sent when this returns. The
/// server's answer is not waited for: one that is full, for example, says so by [`Message::Fail`].
pub fn connect(target: &Target, options: &TransferOptions, opening: Option<Opening>) -> Result<Session> {
    let secret = secret::find(&options.secret)?;
    let peer = target.name();
    let messages = opening.map_or(&[][..], |opening| opening.messages);
    let first = messages.first().map(control::encode).transpose()?.unwrap_or_default();
    let (socket, rtt) = socket::connect(&target.host, target.port)?;
    let failed = |cause: &io::Error| failed(&peer, cause);
    let address = socket.peer_addr().map_err(|cause| failed(&cause))?;
    let local = socket.local_addr().ok().map(|local| local.ip());
    socket::configure(&socket, Use::Control).map_err(|cause| failed(&cause))?;
    let plain = !target.tls && (options.plain == Plain::Anywhere || socket::is_loopback(address.ip()));
    let trust = if plain { None } else { Some(Trust::new(&peer, options)?) };
    let mut way = Way { host: target.host.clone(), address, tls: None, peer: peer.clone() };
    let mut control_way = way.clone();
    if let Some(trust) = &trust {
        control_way.tls = Some(tls::client_config(Arc::clone(&trust.verifier))?);
        way.tls = trust.pinned()?;
    }
    // A server that is met for the first time sees no further connection before it has proved itself.
    let known = trust.is_none() || way.tls.is_some();
    let (bbr, segment) = (socket::sends_by_bbr(&socket), socket::segment(&socket));
    let standby = opening.filter(|_| known).map_or_else(Standby::default, |opening| {
        // What the server's system does is not known yet.
        let by_bbr = socket::by_bbr(options.congestion.as_deref(), opening.upload, bbr, false);
        Standby::dial(&way, opening.streams.sent_by(by_bbr).in_segments(segment).over(rtt))
    });
    let mut connection =
        control_way.open(socket).map_err(|cause| trust.as_ref().and_then(Trust::refusal).unwrap_or_else(|| failed(&cause)))?;
    let (proof, established) = greet(&mut connection, &secret, &peer)?;
    // A single one may have waited for a busy machine.
    let rtt = connection.shortest_trip().map_or(rtt, |shortest| shortest.min(rtt));
    if let Some(trust) = trust.filter(|trust| trust.pin.is_none()) {
        way.tls = Some(trust.settle()?);
    }
    connection.write_both(&proof, &first).map_err(|cause| failed(&cause))?;
    let control = control::open(connection, &peer, Liveness::default())?;
    // Only the first is bound to the time and the room of a handshake: they may be many.
    messages.iter().skip(1).try_for_each(|message| control.sender.send(message))?;
    let Established { session, session_key: key, limits, peer: software, .. } = established;
    let software = software.chars().filter(|c| !c.is_control()).take(100).collect();
    let dialer = Arc::new(TcpDialer { way, session, key, standby });
    Ok(Session { control, dialer, limits, peer, software, rtt, local, bbr, segment })
}

/// Does the client's part of the handshake up to its own proof, which is returned: it is said once the server has proved itself.
fn greet(connection: &mut Connection, secret: &Secret, peer: &str) -> Result<(Vec<u8>, Established)> {
    let failed = |cause: io::Error| failed(peer, &cause);
    let (hello, state) = ClientHello::new(secret::random()?, SOFTWARE);
    connection.write_both(&Role::Control.preamble(), &hello).map_err(failed)?;
    let welcome = connection.read_message().map_err(failed)?;
    let state = state.on_welcome(&welcome, secret.as_bytes(), &connection.binding().map_err(failed)?)?;
    state.on_accepted(&connection.read_message().map_err(failed)?)
}

fn failed(peer: &str, cause: &io::Error) -> Error {
    let what = format!("could not open a session with `{peer}`");
    match cause.kind() {
        io::ErrorKind::InvalidData => Error::new(ErrorKind::Protocol, what)
            .with_cause(cause)
            .with_hint("check that `edt serve` listens on this port, in a version that is not much older or newer"),
        _ => stream::lost(&what, cause),
    }
}

/// What a client knows and learns of a server's identity.
struct Trust {
    known: KnownHosts,
    peer: String,
    pin: Option<Pin>,
    verifier: Arc<Verifier>,
}

impl Trust {
    fn new(peer: &str, options: &TransferOptions) -> Result<Self> {
        let known = KnownHosts::new(options.known_hosts.as_deref())?;
        let pin = known.find(peer)?;
        let verifier = Verifier::new(pin.as_ref().map(|pin| pin.fingerprint.clone()));
        Ok(Self { known, peer: peer.to_owned(), pin, verifier })
    }

    /// The error if the server showed another identity than the pinned one.
    fn refusal(&self) -> Option<Error> {
        let (pin, seen) = (self.pin.as_ref()?, self.verifier.seen()?);
        (pin.fingerprint != seen).then(|| self.known.changed(&self.peer, &seen, pin))
    }

    /// A configuration for more connections to a server that is known. Its verifier is not that of the control connection: what others
    /// show there must not count as what this server showed.
    fn pinned(&self) -> Result<Option<Arc<ClientConfig>>> {
        let known = self.pin.as_ref().map(|pin| Verifier::new(Some(pin.fingerprint.clone())));
        known.map(tls::client_config).transpose()
    }

    /// Pins what was seen, now that the server is trusted, and returns a configuration for more connections to the same server.
    fn settle(&self) -> Result<Arc<ClientConfig>> {
        let seen = self.verifier.seen().unwrap_or_default();
        self.known.pin(&self.peer, &seen)?;
        tracing::warn!("pinned the identity of `{}`, {seen}: compare it with what the server shows", self.peer);
        tls::client_config(Verifier::new(Some(seen)))
    }
}

/// How connections to one server are opened.
#[derive(Clone)]
struct Way {
    host: String,
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    peer: String,
}

impl Way {
    fn open(&self, socket: TcpStream) -> io::Result<Connection> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let socket = Arc::new(socket);
        match &self.tls {
            None => Ok(Connection::plain(socket, deadline)),
            Some(config) => Connection::tls_client(socket, deadline, Arc::clone(config), tls::server_name(&self.host)),
        }
    }

    /// Makes a connection for a stream, up to its hello.
    fn dial(&self) -> Result<Connection> {
        let socket = socket::connect_again(self.address)?;
        let open = socket::configure(&socket, Use::Data).and_then(|()| self.open(socket));
        open.map_err(|cause| stream::lost(&format!("could not connect to `{}`", self.peer), &cause))
    }
}

struct TcpDialer {
    way: Way,
    session: SessionId,
    key: SessionKey,
    standby: Standby,
}

impl TcpDialer {
    /// Opens a connection and binds it to the session. The server answers nothing: if it refuses, the stream breaks.
    fn dial(&self, number: u16, direction: StreamDirection) -> Result<(Connection, String)> {
        let name = format!("stream {number} to `{}`", self.way.peer);
        let mut connection = match self.standby.take() {
            Some(connection) => connection,
            None => self.way.dial()?,
        };
        let mut greet = || {
            let hello = StreamHello { session: self.session, number, direction };
            let bytes = hello.encode(&self.key, &connection.binding()?);
            connection.write_both(&bytes, &[])
        };
        greet().map_err(|cause| stream::lost(&format!("could not open {name}"), &cause))?;
        Ok((connection, name))
    }
}

impl Dialer for TcpDialer {
    fn sink(&self, number: u16) -> Result<Box<dyn FrameSink>> {
        let (connection, name) = self.dial(number, StreamDirection::Send)?;
        stream::sink(connection, name, None)
    }

    fn source(&self, number: u16) -> Result<Box<dyn FrameSource>> {
        let (connection, name) = self.dial(number, StreamDirection::Receive)?;
        stream::source(connection, name, None)
    }
}
