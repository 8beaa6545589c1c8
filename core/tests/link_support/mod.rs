//! A server that only accepts, and callers for it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test binary uses its own part, and may panic")]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use edt::auth::identity::Identity;
use edt::auth::secret::Secret;
use edt::buffer::{Budget, Slab, SlabPool};
use edt::link::acceptor::{Accepted, Acceptor, Admission, ControlSession};
use edt::link::client::{self, Session, Target};
use edt::link::{Frame, IncomingStream};
use edt::options::SecretSource;
use edt::protocol::frame::{FrameHeader, FrameKind, crc32c};
use edt::protocol::handshake::Limits;
use edt::{Result, TransferOptions};

pub const SECRET: &str = "a secret of both sides";

pub const LIMITS: Limits = Limits { max_streams: 4, buffer: 64 << 20, read_only: false, fresh: false, bbr: false };

/// Far longer than any of these tests needs.
pub const LONG: Duration = Duration::from_secs(20);

pub struct TestServer {
    pub address: SocketAddr,
    pub acceptor: Arc<Acceptor>,
    pub accepted: Receiver<Result<Accepted>>,
    pub fingerprint: String,
    /// How many connections were made.
    pub connections: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    pub fn start() -> Self {
        Self::with(Admission::new(LIMITS, 8))
    }

    pub fn with(admission: Admission) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let identity = Identity::automatic(Some(&directory.path().join("identity.pem"))).unwrap();
        let acceptor = Arc::new(Acceptor::new(&identity, Secret::new(SECRET, "a test").unwrap(), admission).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (results, accepted) = unbounded();
        let stop = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let thread = thread::spawn({
            let (acceptor, stop, connections) = (Arc::clone(&acceptor), Arc::clone(&stop), Arc::clone(&connections));
            move || {
                thread::scope(|scope| {
                    for socket in listener.incoming().take_while(|_| !stop.load(Ordering::Acquire)) {
                        connections.fetch_add(1, Ordering::AcqRel);
                        let (acceptor, results) = (&acceptor, &results);
                        scope.spawn(move || results.send(acceptor.accept(socket.unwrap())).unwrap_or_default());
                    }
                });
            }
        });
        Self {
            address,
            acceptor,
            accepted,
            fingerprint: identity.fingerprint().to_owned(),
            connections,
            stop,
            thread: Some(thread),
        }
    }

    pub fn target(&self, tls: bool) -> Target {
        Target { host: "127.0.0.1".to_owned(), port: self.address.port(), tls }
    }

    pub fn next(&self) -> Result<Accepted> {
        self.accepted.recv_timeout(LONG).expect("a connection ends in time")
    }

    pub fn next_session(&self) -> ControlSession {
        match self.next().expect("the caller is let in") {
            Accepted::Control(session) => session,
            Accepted::Stream { .. } => panic!("a stream came instead of a session"),
        }
    }

    pub fn next_stream(&self) -> IncomingStream {
        match self.next().expect("the stream is let in") {
            Accepted::Stream { stream, .. } => stream,
            Accepted::Control(_) => panic!("a session came instead of a stream"),
        }
    }

    pub fn next_refusal(&self) -> edt::Error {
        self.next().err().expect("the connection is refused")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()), "accepting panicked");
    }
}

/// Where a caller keeps its pins, and what it knows.
pub struct Caller {
    pub directory: tempfile::TempDir,
    pub options: TransferOptions,
}

impl Caller {
    pub fn new() -> Self {
        Self::knowing(SECRET)
    }

    pub fn knowing(secret: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = TransferOptions {
            secret: SecretSource::Text(secret.to_owned()),
            known_hosts: Some(directory.path().join("known_hosts")),
            ..TransferOptions::default()
        };
        Self { directory, options }
    }

    pub fn call(&self, target: &Target) -> Result<Session> {
        client::connect(target, &self.options, None)
    }

    /// What is pinned, empty if nothing is.
    pub fn pins(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("known_hosts")).unwrap_or_default()
    }
}

pub fn pool() -> SlabPool {
    SlabPool::new(Budget::new(32 << 20), 32 << 20)
}

/// A frame of `length` bytes that all are `fill`, at block `block` of file 1.
pub fn frame(pool: &SlabPool, block: u64, length: usize, fill: u8) -> Frame {
    let mut slab: Slab = pool.take(LONG).unwrap();
    slab.set_len(length);
    slab.fill(fill);
    let mut header = FrameHeader::empty(FrameKind::Data);
    (header.file, header.offset) = (1, block * edt::buffer::SLAB_SIZE as u64);
    (header.length, header.payload_crc32c) = (u32::try_from(length).unwrap(), crc32c(&slab));
    Frame { header, payload: Some(slab) }
}
