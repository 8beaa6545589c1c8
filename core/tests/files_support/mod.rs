//! A server of files, what is in them, and sessions beside those of who reads and changes them.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test binary uses its own part, and may panic")]

use std::fs;
use std::path::PathBuf;
use std::thread::JoinHandle;

use edt::files::{Files, FilesOptions};
use edt::link::client::{self, Target};
use edt::options::SecretSource;
use edt::path::RelativePath;
use edt::protocol::message::{Answer, Message, Request};
use edt::server::{Server, ServerHandle};
use edt::{Endpoint, ServeOptions, TransferOptions};

use super::link_support::LONG;

pub const SECRET: &str = "a secret for tests of files";
pub const MIB: usize = 1 << 20;

/// A server of a directory of its own.
pub struct World {
    pub place: tempfile::TempDir,
    pub port: u16,
    pub handle: ServerHandle,
    thread: Option<JoinHandle<edt::Result<()>>>,
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut ServeOptions)) -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("root")).unwrap();
        let mut options = ServeOptions::new(place.path().join("root"));
        "127.0.0.1:0".clone_into(&mut options.listen);
        options.secret = SecretSource::Text(SECRET.to_owned());
        options.identity = Some(place.path().join("identity.pem"));
        change(&mut options);
        let (port, handle, thread) = serve(options);
        Self { place, port, handle, thread: Some(thread) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join("root").join(name)
    }

    pub fn files(&self, how: FilesOptions) -> Files {
        let endpoint = Endpoint::new(format!("edt://127.0.0.1:{}/", self.port));
        Files::open_with(&endpoint, &options(), how).unwrap()
    }

    pub fn end(&mut self) {
        self.handle.shutdown();
        self.handle.shutdown();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.handle.shutdown();
        self.handle.shutdown();
    }
}

pub fn serve(options: ServeOptions) -> (u16, ServerHandle, JoinHandle<edt::Result<()>>) {
    let server = Server::bind(options).unwrap();
    let (port, handle) = (server.address().port(), server.handle());
    (port, handle, std::thread::spawn(move || server.run()))
}

pub fn options() -> TransferOptions {
    TransferOptions { secret: SecretSource::Text(SECRET.to_owned()), ..TransferOptions::default() }
}

pub fn name(text: &str) -> RelativePath {
    RelativePath::from_user(text).unwrap()
}

/// Bytes that tell where they belong.
pub fn content(length: usize) -> Vec<u8> {
    let mut state = 7u64;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    })
    .take(length)
    .collect()
}

/// A session beside those of the files.
pub fn other(world: &World) -> client::Session {
    let target = Target { host: "127.0.0.1".to_owned(), port: world.port, tls: false };
    let session = client::connect(&target, &options(), None).unwrap();
    session.control.sender.send(&Message::Request(Request::Stat(Vec::new()))).unwrap();
    assert!(matches!(session.control.receiver.recv_timeout(LONG).unwrap(), Message::Answer(_)));
    session
}

/// Asks on a session of its own, past every check of this side.
pub fn asked(world: &World, request: Request) -> Answer {
    let target = Target { host: "127.0.0.1".to_owned(), port: world.port, tls: false };
    let session = client::connect(&target, &options(), None).unwrap();
    session.control.sender.send(&Message::Request(request)).unwrap();
    match session.control.receiver.recv_timeout(LONG).unwrap() {
        Message::Answer(answer) => answer,
        other => panic!("{other:?}"),
    }
}
