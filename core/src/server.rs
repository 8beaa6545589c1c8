//! The server: one listening port, many clients at once, a root that none of them leaves.

mod registry;
mod requests;
mod session;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::auth::identity::Identity;
use crate::auth::secret::{self, Origin, Secret};
use crate::error::{Error, ErrorKind, Result};
use crate::link::acceptor::{Accepted, Acceptor, Admission, PENDING};
use crate::link::port::Port;
use crate::open;
use crate::options::{Access, ServeOptions, Symlinks};
use crate::pipeline::stop::Stop;
use crate::protocol::handshake::{Limits, SessionId};
use crate::server::registry::Registry;
use crate::store::Store;
use crate::store::local::LocalStore;

/// How often the listening thread looks whether the server is to end.
const TURN: Duration = Duration::from_millis(50);

/// A bound server.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    identity: Identity,
    secret: Secret,
    origin: Origin,
    shared: Arc<Shared>,
}

/// What the sessions of a server share.
struct Shared {
    options: ServeOptions,
    store: Arc<LocalStore>,
    /// The same, as fast as a worker may read and write: what single files are digested, written and copied by.
    paced: Arc<dyn Store>,
    /// The same files, with links followed as far as they stay below the root: what ranges are read from.
    readable: Arc<dyn Store>,
    acceptor: Acceptor,
    registry: Registry,
    /// Set when no new sessions are taken.
    draining: Stop,
    /// Set when running sessions end.
    ending: Stop,
    connections: AtomicUsize,
}

impl Server {
    /// Opens the root, the port, the identity and the secret. The secret comes last: one that is made for a server which ends here would be
    /// shown to nobody.
    pub fn bind(options: ServeOptions) -> Result<Self> {
        options.validate()?;
        crate::limits::raise_open_files();
        let store = Arc::new(LocalStore::confined(&options.root, Symlinks::Keep)?);
        let followed = Arc::new(LocalStore::confined(&options.root, Symlinks::Follow)?);
        let readable = open::throttled(followed, options.worker_rate);
        let paced = open::throttled(Arc::clone(&store) as Arc<dyn Store>, options.worker_rate);
        let Port { listener, address } = Port::open(&options.listen, "--listen")?;
        let identity = match &options.certificate {
            Some((certificate, key)) => Identity::from_files(certificate, key)?,
            None => Identity::automatic(options.identity.as_deref())?,
        };
        let (secret, origin) = secret::find_or_generate(&options.secret)?;
        let limits = Limits {
            max_streams: options.max_streams.get(),
            buffer: options.buffer,
            read_only: options.access == Access::ReadOnly,
            fresh: false,
            bbr: false,
        };
        let admission = Admission { plain: options.plain, ..Admission::new(limits, options.max_sessions) };
        let uploads = Arc::clone(&store);
        let acceptor = Acceptor::new(&identity, secret.clone(), admission)?.looking(move || uploads.is_clear());
        let shared = Arc::new(Shared {
            options,
            store,
            paced,
            readable,
            acceptor,
            registry: Registry::default(),
            draining: Stop::default(),
            ending: Stop::default(),
            connections: AtomicUsize::new(0),
        });
        Ok(Self { listener, address, identity, secret, origin, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// SHA-256 of the server's certificate, as clients pin it.
    pub fn fingerprint(&self) -> &str {
        self.identity.fingerprint()
    }

    /// The certificate and key that it shows, for a further port of the same server.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The secret that callers must know, for a further port of the same server.
    pub fn shared_secret(&self) -> &Secret {
        &self.secret
    }

    /// Where the secret came from, and the secret itself if it was generated just now.
    pub fn secret(&self) -> &Origin {
        &self.origin
    }

    /// A handle that ends the server from another thread.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle { shared: Arc::clone(&self.shared) }
    }

    /// Serves until it is shut down.
    pub fn run(self) -> Result<()> {
        let shared = &self.shared;
        while !shared.draining.is_set() {
            match self.listener.accept() {
                Ok((socket, peer)) => shared.welcome(socket, peer),
                Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock => wait(&self.listener),
                // Too many open files, or a caller that left again: neither ends the server.
                Err(cause) => {
                    tracing::warn!(%cause, "could not accept a connection");
                    shared.draining.wait(TURN);
                }
            }
        }
        let deadline = Instant::now() + shared.options.grace;
        while shared.registry.count() > 0 && Instant::now() < deadline && !shared.ending.wait(TURN) {
            while let Ok((socket, peer)) = self.listener.accept() {
                shared.welcome(socket, peer);
            }
        }
        shared.ending.set(None);
        let deadline = Instant::now() + Duration::from_secs(10);
        while shared.connections.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Waits until somebody connects, or a turn has passed.
fn wait(listener: &TcpListener) {
    #[cfg(unix)]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let turn = Timespec { tv_sec: 0, tv_nsec: i64::from(TURN.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&turn));
    }
    #[cfg(not(unix))]
    {
        let _ = listener;
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Shared {
    /// Takes a connection on a thread of its own, so that one slow caller holds up nobody.
    fn welcome(self: &Arc<Self>, socket: TcpStream, peer: SocketAddr) {
        let most = self.options.max_sessions.saturating_mul(usize::from(self.options.max_streams.get()) + 2);
        // Strangers are connections too until they are known for what they are; they take no place of a session.
        let most = most.saturating_add(PENDING);
        if self.connections.load(Ordering::SeqCst) >= most {
            tracing::warn!(%peer, "refused a connection: the server is at its limit");
            return;
        }
        let counted = Counted::enter(self);
        let thread = std::thread::Builder::new().name("edt-session".to_owned()).spawn(move || {
            if let Err(error) = counted.shared().serve(socket) {
                tracing::info!(%peer, %error, "a connection ended");
            }
        });
        if let Err(cause) = thread {
            tracing::warn!(%cause, "could not start a thread for a connection");
        }
    }

    fn serve(&self, socket: TcpStream) -> Result<()> {
        socket.set_nonblocking(false).map_err(|cause| Error::io("could not set up a connection", &cause))?;
        match self.acceptor.accept(socket)? {
            Accepted::Stream { session, stream } => self.registry.attach(session, stream),
            Accepted::Control(control) => {
                let _begun = Begun { shared: self, session: control.session };
                if self.draining.is_set() { session::refuse(&control.control, &leaving()) } else { self.session(&control) }
            }
        }
    }
}

/// Counts a connection until it is dropped, be it that the thread of the connection panics.
struct Counted(Arc<Shared>);

impl Counted {
    fn enter(shared: &Arc<Shared>) -> Self {
        shared.connections.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }

    fn shared(&self) -> &Shared {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends a session when it is dropped, likewise: another one has its place then.
struct Begun<'a> {
    shared: &'a Shared,
    session: SessionId,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.shared.registry.remove(self.session);
        self.shared.acceptor.forget(self.session);
    }
}

/// What sessions are told that a shutdown ends.
fn leaving() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the server is shutting down").with_hint("run the same command again to resume")
}

/// Ends a server from another thread.
#[derive(Clone)]
pub struct ServerHandle {
    shared: Arc<Shared>,
}

impl ServerHandle {
    /// Takes no new sessions, lets running ones go on for the grace time, then ends. A second call ends at once.
    pub fn shutdown(&self) {
        if self.shared.draining.is_set() {
            self.shared.ending.set(Some(leaving()));
        }
        self.shared.draining.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SecretSource;

    #[test]
    fn a_connection_and_a_session_whose_thread_panics_give_their_places_back() {
        let place = tempfile::tempdir().unwrap();
        let server = Server::bind(ServeOptions {
            listen: "127.0.0.1:0".to_owned(),
            secret: SecretSource::Text("a secret of a test".to_owned()),
            identity: Some(place.path().join("identity.pem")),
            ..ServeOptions::new(place.path())
        });
        let server = server.unwrap();
        let (shared, session) = (&server.shared, SessionId([1; 16]));
        let ended = std::thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let _counted = Counted::enter(shared);
                let _begun = Begun { shared, session };
                shared.registry.add(session);
                assert_eq!((shared.connections.load(Ordering::SeqCst), shared.registry.count()), (1, 1));
                assert!(shared.registry.count() > 1, "a defect of a session");
            });
            panicking.join()
        });
        assert_eq!(*ended.unwrap_err().downcast::<&str>().unwrap(), "a defect of a session");
        assert_eq!((shared.connections.load(Ordering::SeqCst), shared.registry.count()), (0, 0));
    }
}
