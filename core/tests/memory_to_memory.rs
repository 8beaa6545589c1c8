//! Transfers from memory to memory: the server makes up or throws away what travels, and its files stay as they are.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use edt::options::{Access, SecretSource};
use edt::protocol::message::MadeUp;
use edt::server::{Server, ServerHandle};
use edt::{Endpoint, ErrorKind, Report, Result, ServeOptions, Transfer, TransferOptions};

const SECRET: &str = "a secret for tests of memory";

const MADE_UP: MadeUp = MadeUp { count: 20, size: 700_001 };

/// A server that ends with the test.
struct Served {
    url: Endpoint,
    handle: ServerHandle,
    thread: Option<std::thread::JoinHandle<Result<()>>>,
}

impl Served {
    fn start(place: &Path, access: Access) -> Self {
        let root = place.join("root");
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("kept"), "kept").unwrap();
        let server = Server::bind(ServeOptions {
            listen: "127.0.0.1:0".to_owned(),
            secret: SecretSource::Text(SECRET.to_owned()),
            identity: Some(place.join("identity.pem")),
            access,
            // Memory is no storage: this slows no transfer down.
            worker_rate: Some(100e3),
            ..ServeOptions::new(&root)
        })
        .unwrap();
        // The path of the URL does not count.
        let url = Endpoint::new(format!("edt://{}/no/such/place", server.address()));
        let handle = server.handle();
        Self { url, handle, thread: Some(std::thread::spawn(move || server.run())) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.shutdown();
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn run(source: &Endpoint, destination: &Endpoint, made_up: MadeUp) -> Result<Report> {
    let options = TransferOptions { secret: SecretSource::Text(SECRET.to_owned()), ..TransferOptions::default() };
    Transfer::memory_to_memory(source, destination, made_up)?.with_options(options).run()
}

#[test]
fn made_up_files_go_up_and_down_and_touch_no_file() {
    let place = tempfile::tempdir().unwrap();
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let served = Served::start(place.path(), access);
        let here = Endpoint::new("./a/path/of/this/machine");
        for (source, destination) in [(&here, &served.url), (&served.url, &here), (&here, &here)] {
            let report = run(source, destination, MADE_UP).unwrap();
            assert!(report.is_complete(), "{:?}", report.failures);
            assert_eq!((report.totals.files_done, report.totals.bytes_done), (20, 20 * 700_001));
        }
        let names: Vec<_> =
            std::fs::read_dir(place.path().join("root")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["kept"]);
    }
    assert!(!Path::new("a/path").exists());
}

#[test]
fn a_server_makes_up_no_more_than_it_can_count() {
    let place = tempfile::tempdir().unwrap();
    let served = Served::start(place.path(), Access::ReadWrite);
    let null = Endpoint::new("null:");
    for (count, size) in [(u64::MAX, 2), (u64::MAX, 0), (1 << 32, 1), (2, u64::MAX / 2 + 1), (1, u64::MAX)] {
        let error = run(&served.url, &null, MadeUp { count, size }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert!(run(&served.url, &null, MADE_UP).is_ok());
}
