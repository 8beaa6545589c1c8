//! Connections as they come in: plain or encrypted, and no more of them than the server allows.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use edt::auth::identity::Identity;
use edt::link::acceptor::network;
use edt::sync::Mutex;
use edt::{Error, ErrorKind, Result};
use futures_util::Stream;
use rustls::crypto::aws_lc_rs;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Sleep, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// How long a client may take to agree on the encryption.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a connection may go without a call that knows the secret: strangers cannot hold the places of others.
const UNKNOWN: Duration = Duration::from_secs(30);

/// How long to wait after a connection could not be taken, as when there are too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// Connections that one call may open beside each other, on average: clients open one for each endpoint.
const CONNECTIONS_EACH: usize = 4;

/// Connections that any server takes: a client with more streams than there are places is told so, and waits for one.
const LEAST_CONNECTIONS: usize = 64;

/// Whether connections are encrypted.
pub(super) enum Security {
    Plain,
    Tls(TlsAcceptor),
}

impl Security {
    /// TLS with the certificate of `identity`; 1.2 as well, which clients of other languages still speak.
    pub(super) fn tls(identity: &Identity) -> Result<Self> {
        let unusable = |cause: rustls::Error| {
            Error::new(ErrorKind::InvalidInput, "could not set up TLS for the Flight port")
                .with_cause(cause)
                .with_hint("check that the key belongs to the first certificate of the file")
        };
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(identity.chain(), identity.key())
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self::Tls(TlsAcceptor::from(Arc::new(config))))
    }
}

/// The connections of a port. Each agrees on its encryption in a task of its own, so that a slow one holds up nobody.
pub(super) struct Incoming {
    ready: mpsc::Receiver<Connection>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Incoming {
    pub(super) fn new(listener: TcpListener, security: Security, most_calls: usize) -> Self {
        let (tell, ready) = mpsc::channel(16);
        let most = most_calls.saturating_mul(CONNECTIONS_EACH).clamp(LEAST_CONNECTIONS, Semaphore::MAX_PERMITS);
        let strangers = Strangers::new(most);
        // As many again as strangers of one address may hold: they keep nobody else out.
        let places = Arc::new(Semaphore::new(most.saturating_mul(2).min(Semaphore::MAX_PERMITS)));
        let accepting = tokio::spawn(accept(listener, Arc::new(security), places, strangers, tell));
        Self { ready, accepting }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ready.poll_recv(context).map(|connection| connection.map(Ok))
    }
}

async fn accept(
    listener: TcpListener,
    security: Arc<Security>,
    places: Arc<Semaphore>,
    strangers: Strangers,
    tell: mpsc::Sender<Connection>,
) {
    loop {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(cause) => {
                tracing::warn!(%cause, "could not accept a Flight connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(%peer, "refused a Flight connection: the server is at its limit");
            continue;
        };
        let Some(stranger) = strangers.enter(peer.ip()) else {
            tracing::warn!(%peer, "refused a Flight connection: too many of its address have not shown the secret");
            continue;
        };
        let (security, tell) = (Arc::clone(&security), tell.clone());
        tokio::spawn(async move {
            match secured(socket, peer, &security, (permit, stranger)).await {
                Ok(connection) => drop(tell.send(connection).await),
                Err(cause) => tracing::info!(%peer, %cause, "a Flight connection ended"),
            }
        });
    }
}

async fn secured(
    socket: TcpStream,
    peer: SocketAddr,
    security: &Security,
    (permit, stranger): (OwnedSemaphorePermit, Stranger),
) -> io::Result<Connection> {
    socket.set_nodelay(true)?;
    let socket = match security {
        Security::Plain => Socket::Plain(socket),
        Security::Tls(acceptor) => {
            let encrypted = tokio::time::timeout(HANDSHAKE, acceptor.accept(socket)).await;
            Socket::Tls(Box::new(encrypted.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??))
        }
    };
    let peer = Peer { address: peer, known: Arc::default() };
    Ok(Connection { socket, peer, unknown: Some((Box::pin(sleep(UNKNOWN)), stranger)), _permit: permit })
}

/// Connections that have not shown the secret, by the address that they come from.
#[derive(Clone)]
struct Strangers {
    each: Arc<Mutex<HashMap<IpAddr, usize>>>,
    /// Of one address at once.
    most: usize,
}

/// One of them, until it is dropped.
struct Stranger {
    strangers: Strangers,
    address: IpAddr,
}

impl Strangers {
    fn new(most: usize) -> Self {
        Self { each: Arc::default(), most }
    }

    fn enter(&self, address: IpAddr) -> Option<Stranger> {
        let address = network(address);
        let mut each = self.each.lock();
        let before = each.get(&address).copied().unwrap_or(0);
        if before >= self.most {
            return None;
        }
        each.insert(address, before + 1);
        Some(Stranger { strangers: self.clone(), address })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut each = self.strangers.each.lock();
        match each.get(&self.address).copied() {
            Some(before) if before > 1 => {
                each.insert(self.address, before - 1);
            }
            _ => {
                each.remove(&self.address);
            }
        }
    }
}

/// One connection.
pub(super) struct Connection {
    socket: Socket,
    peer: Peer,
    /// When it ends unless a call shows the secret before; `None` once one did.
    unknown: Option<(Pin<Box<Sleep>>, Stranger)>,
    _permit: OwnedSemaphorePermit,
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Who is at the other end, for the calls of a connection.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    /// Whether a call of this connection showed the secret.
    known: Arc<AtomicBool>,
}

impl Peer {
    /// Notes that a call showed the secret: the connection stays.
    pub(super) fn admit(&self) {
        self.known.store(true, Ordering::Relaxed);
    }
}

impl Connection {
    /// Ends the connection of a stranger when its time is over.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some((unknown, _)) = &mut self.unknown else { return Ok(()) };
        if self.peer.known.load(Ordering::Relaxed) {
            self.unknown = None;
        } else if unknown.as_mut().poll(context).is_ready() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no call showed the secret"));
        }
        Ok(())
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Socket::Tls(socket) => Pin::new(socket.as_mut()).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Socket::Tls(socket) => Pin::new(socket.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_write_vectored(context, parts),
            Socket::Tls(socket) => Pin::new(socket.as_mut()).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Plain(socket) => socket.is_write_vectored(),
            Socket::Tls(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_flush(context),
            Socket::Tls(socket) => Pin::new(socket.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Socket::Tls(socket) => Pin::new(socket.as_mut()).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_of_one_address_leave_room_for_those_of_others() {
        let strangers = Strangers::new(2);
        let enter = |host: u8| strangers.enter(IpAddr::from([192, 0, 2, host]));
        let (first, second) = (enter(1), enter(1));
        assert!(first.is_some() && second.is_some());
        assert!(enter(1).is_none() && enter(2).is_some());
        drop(first);
        assert!(enter(1).is_some());
        drop(second);
        assert!(strangers.each.lock().is_empty());
    }
}
