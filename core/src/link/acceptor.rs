//! The serving side: lets callers in, one connection at a time, and joins streams to their sessions.

mod failures;
mod sessions;

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use crate::auth::identity::Identity;
use crate::auth::secret::{self, Secret};
use crate::error::{Error, ErrorKind, Result};
use crate::link::client::SOFTWARE;
use crate::link::connection::{Connection, begins_tls};
use crate::link::control::{self, Liveness};
use crate::link::socket::{self, HANDSHAKE_TIMEOUT, Use};
use crate::link::{Control, IncomingStream, StreamEnd, stream, tls};
use crate::options::Plain;
use crate::protocol::handshake::{
    Limits, PREAMBLE_LENGTH, Refusal, Role, STREAM_HELLO_LENGTH, ServerHandshake, SessionId, StreamDirection,
    UnverifiedStreamHello,
};
use crate::sync::Mutex;

use failures::Failures;
pub use failures::network;
use sessions::Sessions;

/// Connections whose handshakes may go on at once; each has a thread and, under TLS, a buffer.
pub(crate) const PENDING: usize = 1024;

/// Those of one address: whoever opens many connections and says nothing keeps nobody else out.
const PENDING_EACH: usize = 512;

/// How long a refused caller may take to read why.
const LINGER: Duration = Duration::from_secs(1);

/// Whom a server lets in, and to what.
#[derive(Debug, Clone, Copy)]
pub struct Admission {
    /// Whether callers beyond loopback may come without encryption.
    pub plain: Plain,
    /// What each session may use.
    pub limits: Limits,
    /// Sessions at once.
    pub max_sessions: usize,
    /// How long all handshakes of a connection may take together; [`HANDSHAKE_TIMEOUT`] unless there is a reason.
    pub patience: Duration,
}

impl Admission {
    /// The usual patience, and plain connections on loopback only.
    pub fn new(limits: Limits, max_sessions: usize) -> Self {
        Self { plain: Plain::LoopbackOnly, limits, max_sessions, patience: HANDSHAKE_TIMEOUT }
    }
}

/// A connection that was let in.
pub enum Accepted {
    /// A new session; whoever takes it calls [`Acceptor::forget`] at its end.
    Control(ControlSession),
    /// A stream of a session.
    Stream {
        /// The session.
        session: SessionId,
        /// The stream.
        stream: IncomingStream,
    },
}

/// The serving end of a session.
pub struct ControlSession {
    /// Messages.
    pub control: Control,
    /// Names the session.
    pub session: SessionId,
    /// Where the caller is.
    pub peer: SocketAddr,
}

/// Lets callers in. Shared by the threads of all connections.
pub struct Acceptor {
    tls: Arc<ServerConfig>,
    secret: Secret,
    admission: Admission,
    sessions: Arc<Sessions>,
    failures: Mutex<Failures>,
    door: Mutex<Door>,
    /// Whether no unfinished upload is there; it is asked for each caller, before the caller has proved anything.
    fresh: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Acceptor {
    /// An acceptor that shows this identity and lets in who knows this secret.
    pub fn new(identity: &Identity, secret: Secret, admission: Admission) -> Result<Self> {
        Ok(Self {
            tls: tls::server_config(identity)?,
            secret,
            admission,
            sessions: Arc::new(Sessions::new(admission.max_sessions, admission.limits.max_streams)),
            failures: Mutex::default(),
            door: Mutex::default(),
            fresh: Box::new(move || admission.limits.fresh),
        })
    }

    /// Tells each caller [`Limits::fresh`] as `fresh` says at that moment; it should cost no more than a look at one name.
    #[must_use]
    pub fn looking(mut self, fresh: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.fresh = Box::new(fresh);
        self
    }

    /// Does the handshakes of a connection, which may take as long as [`Admission::patience`], and a second more for an address that
    /// failed often. An error concerns this connection only, and the caller was told where it can be told.
    pub fn accept(&self, socket: TcpStream) -> Result<Accepted> {
        let peer = socket.peer_addr().map_err(|cause| broken(&"a caller that is gone", &cause))?;
        let _pending = Pending::enter(&self.door, peer)?;
        let delay = self.failures.lock().delay(peer.ip(), Instant::now());
        if let Some(delay) = delay {
            std::thread::sleep(delay);
        }
        let deadline = Instant::now() + self.admission.patience;
        let lost = |cause: io::Error| broken(&peer, &cause);
        // On some systems an accepted socket does not block because its listener does not.
        socket.set_nonblocking(false).map_err(lost)?;
        socket::configure(&socket, Use::Control).map_err(lost)?;
        let encrypted = begins_tls(&socket, deadline).map_err(lost)?;
        let socket = Arc::new(socket);
        let mut connection = if encrypted {
            Connection::tls_server(socket, deadline, Arc::clone(&self.tls)).map_err(lost)?
        } else {
            Connection::plain(socket, deadline)
        };
        let allowed = encrypted || self.admission.plain == Plain::Anywhere || socket::is_loopback(peer.ip());
        let (role, preamble) = connection.read_role().map_err(lost)?;
        match role {
            Role::Control if allowed => self.control(connection, peer, deadline),
            Role::Control => Err(refuse_plain(connection, peer)),
            Role::Stream if allowed => self.stream(connection, preamble, peer, deadline),
            Role::Stream => Err(plain_refused(peer)),
        }
    }

    /// Ends a session: no stream can join it any more.
    pub fn forget(&self, session: SessionId) {
        self.sessions.forget(session);
    }

    fn control(&self, mut connection: Connection, peer: SocketAddr, deadline: Instant) -> Result<Accepted> {
        let lost = |cause: io::Error| broken(&peer, &cause);
        let session = SessionId(secret::random()?);
        let hello = connection.read_message().map_err(lost)?;
        let (welcome, state) = match ServerHandshake::on_hello(&hello, secret::random()?, session, SOFTWARE) {
            Ok(next) => next,
            Err(refusal) => return Err(turn_away(connection, refusal)),
        };
        let binding = connection.binding().map_err(lost)?;
        let limits = Limits { fresh: (self.fresh)(), bbr: connection.sends_by_bbr(), ..self.admission.limits };
        let (accepted, state) = state.prove(self.secret.as_bytes(), &binding, limits);
        // From the welcome on streams may come, even ahead of the caller's proof; they hear its end after the caller has.
        let expected = self.sessions.expect(session);
        connection.write_both(&welcome, &accepted).map_err(lost)?;
        let proof = connection.read_message().map_err(|cause| left(peer, &cause))?;
        let established = match state.on_authenticate(&proof) {
            Ok(established) => established,
            Err(refusal) => return Err(self.fail(connection, refusal, peer.ip())),
        };
        if let Err(full) = expected.open(established.session_key, deadline) {
            return Err(turn_away(connection, Refusal::unaccepted(full)));
        }
        let opened = control::open(connection, &peer.to_string(), Liveness::default()).inspect_err(|_| self.forget(session));
        Ok(Accepted::Control(ControlSession { control: opened?, session, peer }))
    }

    fn fail(&self, connection: Connection, refusal: Refusal, address: IpAddr) -> Error {
        if refusal.error.kind() == ErrorKind::Refused {
            self.failures.lock().record(address, Instant::now());
        }
        turn_away(connection, refusal)
    }

    fn stream(
        &self,
        mut connection: Connection,
        preamble: [u8; PREAMBLE_LENGTH],
        peer: SocketAddr,
        deadline: Instant,
    ) -> Result<Accepted> {
        let lost = |cause: io::Error| broken(&peer, &cause);
        let mut bytes = [0; STREAM_HELLO_LENGTH];
        bytes[..PREAMBLE_LENGTH].copy_from_slice(&preamble);
        connection.read_exact(&mut bytes[PREAMBLE_LENGTH..]).map_err(lost)?;
        let unverified = UnverifiedStreamHello::parse(&bytes)?;
        let session = unverified.session();
        let key = self.sessions.key(session, deadline).ok_or_else(|| {
            Error::new(ErrorKind::Refused, format!("could not let a stream of `{peer}` in"))
                .with_cause("its session is unknown or over")
        })?;
        let hello = unverified.verify(&key, &connection.binding().map_err(lost)?).inspect_err(|_| {
            self.failures.lock().record(peer.ip(), Instant::now());
        })?;
        let guard: Box<dyn Send> = Box::new(self.sessions.claim(session, hello.number)?);
        socket::configure(&connection.socket, Use::Data).map_err(lost)?;
        let name = format!("stream {} of `{peer}`", hello.number);
        let end = match hello.direction {
            StreamDirection::Send => StreamEnd::Source(stream::source(connection, name, Some(guard))?),
            StreamDirection::Receive => StreamEnd::Sink(stream::sink(connection, name, Some(guard))?),
        };
        Ok(Accepted::Stream { session, stream: IncomingStream { number: hello.number, end } })
    }
}

/// How many connections are pending, and how many of them come from each address.
#[derive(Default)]
struct Door {
    all: usize,
    each: HashMap<IpAddr, usize>,
}

/// Counts a connection as pending until it is dropped.
struct Pending<'a> {
    door: &'a Mutex<Door>,
    address: IpAddr,
}

impl<'a> Pending<'a> {
    fn enter(door: &'a Mutex<Door>, peer: SocketAddr) -> Result<Self> {
        let address = network(peer.ip());
        let mut state = door.lock();
        let before = state.each.get(&address).copied().unwrap_or(0);
        if state.all < PENDING && before < PENDING_EACH {
            state.all += 1;
            state.each.insert(address, before + 1);
            return Ok(Self { door, address });
        }
        Err(Error::new(ErrorKind::Throttled, format!("could not let `{peer}` in"))
            .with_cause("too many callers are at the door at once"))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let mut state = self.door.lock();
        state.all -= 1;
        match state.each.get(&self.address).copied() {
            Some(before) if before > 1 => {
                state.each.insert(self.address, before - 1);
            }
            _ => {
                state.each.remove(&self.address);
            }
        }
    }
}

/// Tells a caller why it may not come in, and waits a little until it has read it.
fn turn_away(mut connection: Connection, refusal: Refusal) -> Error {
    if connection.write_both(&refusal.reply, &[]).and_then(|()| connection.end_writing()).is_ok() {
        connection.linger(LINGER);
    }
    refusal.error
}

fn refuse_plain(mut connection: Connection, peer: SocketAddr) -> Error {
    let error = plain_refused(peer);
    // The hello is read first: an answer over unread bytes could be lost with the connection.
    match connection.read_message() {
        Ok(_) => turn_away(connection, Refusal::unwelcome(error)),
        Err(_) => error,
    }
}

fn plain_refused(peer: SocketAddr) -> Error {
    Error::new(ErrorKind::Refused, format!("could not let `{}` in without encryption", peer.ip()))
        .with_cause("the server takes plain connections from its own machine only")
        .with_hint("leave out --plain at the client, or start `edt serve` with --plain on a network that you trust")
}

/// What to think of a caller that ended its connection when it had heard this side's proof.
fn left(peer: SocketAddr, cause: &io::Error) -> Error {
    let error = broken(&peer, cause);
    match cause.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            error.with_cause("it left without a proof of the secret, as one does that has another secret")
        }
        _ => error,
    }
}

fn broken(peer: &dyn std::fmt::Display, cause: &io::Error) -> Error {
    stream::lost(&format!("could not let `{peer}` in"), cause)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::protocol::handshake::ClientHello;

    #[test]
    fn a_plain_caller_from_elsewhere_is_told_why_it_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        let plain = |socket| Connection::plain(Arc::new(socket), Instant::now() + Duration::from_secs(10));
        let refusing = std::thread::spawn(move || {
            let mut connection = plain(server);
            assert_eq!(connection.read_role().unwrap().0, Role::Control);
            refuse_plain(connection, "192.0.2.1:9".parse().unwrap())
        });
        let (hello, state) = ClientHello::new([1; 32], SOFTWARE);
        let mut connection = plain(client);
        connection.write_both(&Role::Control.preamble(), &hello).unwrap();
        let error = state.on_welcome(&connection.read_message().unwrap(), b"", &[]).err().unwrap();
        drop(connection);
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.hint().unwrap().contains("--plain"));
        assert_eq!(refusing.join().unwrap().kind(), ErrorKind::Refused);
    }

    #[test]
    fn callers_at_the_door_are_counted_and_bounded_and_one_address_leaves_room_for_others() {
        let door = Mutex::<Door>::default();
        let enter = |host: u8| Pending::enter(&door, SocketAddr::from(([192, 0, 2, host], 9)));
        let refused = |host: u8| enter(host).err().map(|error| error.kind());
        let mut waiting: Vec<Pending<'_>> = (0..PENDING_EACH).map(|_| enter(1).unwrap()).collect();
        assert_eq!((refused(1), refused(2)), (Some(ErrorKind::Throttled), None));
        drop(waiting.pop());
        assert_eq!(refused(1), None);
        waiting.extend((waiting.len()..PENDING - 1).map(|_| enter(2).unwrap()));
        assert_eq!(refused(3), None);
        waiting.push(enter(1).unwrap());
        assert_eq!(refused(3), Some(ErrorKind::Throttled));
        drop(waiting);
        let left = door.lock();
        assert_eq!((left.all, left.each.len()), (0, 0));
    }
}
