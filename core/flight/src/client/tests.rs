//! The store against edt's own service in the same process, over connections that work and over some that break.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use edt::auth::identity::Identity;
use edt::auth::secret::Secret;
use edt::endpoint::Location;
use edt::link::port::Port;
use edt::options::{Fsync, SecretSource, TransferOptions};
use edt::path::RelativePath;
use edt::store::remote::State;
use edt::store::{Metadata, NewFile, Partial, Publication, Store};
use edt::testing::conformance;
use edt::{Endpoint, ErrorKind, ServeOptions, Transfer};
use tempfile::TempDir;

use super::address::Place;
use super::host::{Host, Service};
use super::store::FlightStore;
use crate::service::{FlightHandle, FlightServer};

const SECRET: &str = "0123456789abcdef";

/// A service over a directory of its own, until it is dropped.
struct Served {
    directory: TempDir,
    address: SocketAddr,
    handle: FlightHandle,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let options = ServeOptions { grace: std::time::Duration::ZERO, ..ServeOptions::new(&root) };
        let identity = Identity::automatic(Some(&directory.path().join("identity.pem"))).unwrap();
        let port = Port::open("127.0.0.1:0", "--flight").unwrap();
        let server = FlightServer::open(&options, port, &Secret::new(SECRET, "a test").unwrap(), &identity).unwrap();
        let (address, handle) = (server.address(), server.handle());
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Self { directory, address, handle, thread }
    }

    fn root(&self) -> std::path::PathBuf {
        self.directory.path().join("root")
    }

    fn store(&self, address: SocketAddr) -> FlightStore {
        let host = greeted(address, &options());
        FlightStore::with_notes(host, State::at(self.directory.path().join("state")))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.shutdown();
        self.handle.shutdown();
        self.thread.take().unwrap().join().unwrap();
    }
}

fn options() -> TransferOptions {
    TransferOptions { secret: SecretSource::Text(SECRET.to_owned()), ..TransferOptions::default() }
}

fn greeted(address: SocketAddr, options: &TransferOptions) -> Arc<Host> {
    super::register();
    let Location::Service(url) = Endpoint::new(format!("flight://{address}/")).resolve().unwrap() else { panic!("no service") };
    let host = Host::new(&Place::of(&url), options).unwrap();
    assert_eq!(host.greet().unwrap(), Service::Own);
    host
}

/// Passes connections on, and cuts each after so many bytes in both directions together.
struct Cutter {
    address: SocketAddr,
    cuts: Arc<AtomicU64>,
}

impl Cutter {
    fn new(to: SocketAddr, after: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, cuts) = (listener.local_addr().unwrap(), Arc::<AtomicU64>::default());
        let counter = Arc::clone(&cuts);
        // Ends with the process: a listener of a test has nobody who would wake it.
        std::thread::spawn(move || {
            for from in listener.incoming() {
                let (from, to, left) = (from.unwrap(), TcpStream::connect(to).unwrap(), Arc::new(AtomicU64::new(after)));
                for (mut from, mut to) in [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)] {
                    let (left, counter) = (Arc::clone(&left), Arc::clone(&counter));
                    std::thread::spawn(move || pass(&mut from, &mut to, &left, &counter));
                }
            }
        });
        Self { address, cuts }
    }
}

fn pass(from: &mut TcpStream, to: &mut TcpStream, left: &AtomicU64, cuts: &AtomicU64) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let taken = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(count as u64));
        if taken.is_err() {
            cuts.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(std::net::Shutdown::Both), to.shutdown(std::net::Shutdown::Both));
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 4093 % 251).to_le_bytes()[0]).collect()
}

fn path(text: &str) -> RelativePath {
    RelativePath::from_user(text).unwrap()
}

fn read(store: &dyn Store, name: &str) -> Vec<u8> {
    let reader = store.open(&path(name)).unwrap();
    let mut bytes = vec![0; usize::try_from(reader.stat().unwrap().size).unwrap()];
    let mut at = 0;
    while at < bytes.len() {
        let end = bytes.len().min(at + (256 << 10));
        at += reader.read_at(at as u64, &mut bytes[at..end]).unwrap();
    }
    bytes
}

#[test]
fn the_store_conforms() {
    let served = std::cell::RefCell::new(Vec::new());
    conformance::check(&|| {
        let one = Served::new();
        let store = one.store(one.address);
        served.borrow_mut().push(one);
        Box::new(store)
    });
}

#[test]
fn reading_goes_on_where_a_connection_broke() {
    let served = Served::new();
    let bytes = content(20 << 20);
    std::fs::write(served.root().join("big"), &bytes).unwrap();
    let cutter = Cutter::new(served.address, 6 << 20);
    let store = served.store(cutter.address);
    assert!(read(&store, "big") == bytes);
    assert!(cutter.cuts.load(Ordering::SeqCst) > 1);
}

#[test]
fn an_upload_goes_on_where_a_connection_broke() {
    let served = Served::new();
    let bytes = content(20 << 20);
    let cutter = Cutter::new(served.address, 7 << 20);
    let store = served.store(cutter.address);
    let writer = store.create(&NewFile { size: bytes.len() as u64, ..NewFile::of(path("a/big")) }).unwrap();
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (writer, bytes) = (&writer, &bytes);
            scope.spawn(move || {
                for at in (half * (10 << 20)..(half + 1) * (10 << 20)).step_by(256 << 10) {
                    writer.write_at(at as u64, &bytes[at..at + (256 << 10)]).unwrap();
                }
            });
        }
    });
    let crc64nvme = Some(edt::pipeline::digest::crc64nvme(&bytes));
    let metadata = Metadata { modified_ns: Some(1_000_000_000), mode: None };
    store.publish(vec![Publication { crc64nvme, metadata, ..Publication::of(writer) }], Fsync::None).remove(0).unwrap();
    assert!(cutter.cuts.load(Ordering::SeqCst) > 1);
    assert!(std::fs::read(served.root().join("a/big")).unwrap() == bytes);
}

#[test]
fn an_upload_is_continued_by_another_process() {
    let served = Served::new();
    let bytes = content(12 << 20);
    let resume = Some(Partial { key: "00ff".to_owned(), number: 3 });
    let file = NewFile { size: bytes.len() as u64, resume, ..NewFile::of(path("big")) };
    let write = |store: &FlightStore, ranges: &[std::ops::Range<usize>]| {
        let writer = store.create(&file).unwrap();
        for range in ranges {
            writer.write_at(range.start as u64, &bytes[range.clone()]).unwrap();
        }
        writer
    };
    let first = served.store(served.address);
    // What is sent behind more than a window has been acknowledged in part.
    drop(write(&first, &[0..4 << 20, 8 << 20..12 << 20, 0..4 << 20, 0..4 << 20, 0..4 << 20, 0..4 << 20]));
    drop(first);
    let second = served.store(served.address);
    let kept = second.create(&file).unwrap().kept();
    assert!(!kept.is_empty(), "nothing is left of the first attempt");
    let missing: Vec<_> = (0..12)
        .map(|mebibyte| mebibyte << 20..(mebibyte + 1) << 20)
        .filter(|range| !kept.iter().any(|kept| kept.start <= range.start as u64 && range.end as u64 <= kept.end))
        .collect();
    let writer = write(&second, &missing);
    second.publish(vec![Publication::of(writer)], Fsync::None).remove(0).unwrap();
    assert!(std::fs::read(served.root().join("big")).unwrap() == bytes);
}

#[test]
fn bytes_that_are_not_those_that_were_meant_are_not_published() {
    let served = Served::new();
    let store = served.store(served.address);
    for size in [1000, 1 << 20] {
        let writer = store.create(&NewFile { size, ..NewFile::of(path("a")) }).unwrap();
        writer.write_at(0, &content(usize::try_from(size).unwrap())).unwrap();
        let publication = Publication { crc64nvme: Some(7), ..Publication::of(writer) };
        let error = store.publish(vec![publication], Fsync::None).remove(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupted, "{error}");
    }
    assert!(!served.root().join("a").exists());
}

#[test]
fn a_wrong_secret_is_refused_with_a_hint() {
    let served = Served::new();
    let wrong = TransferOptions { secret: SecretSource::Text("another secret!!".to_owned()), ..options() };
    let url = format!("flight://{}/", served.address);
    super::register();
    let error = edt::files::Files::open(&Endpoint::new(url), &wrong).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn a_tree_is_copied_there_and_back() {
    let served = Served::new();
    super::register();
    let local = served.directory.path().join("local");
    std::fs::create_dir_all(local.join("deep/empty")).unwrap();
    for (name, length) in [("none", 0), ("small", 1000), ("deep/large", 40 << 20)] {
        std::fs::write(local.join(name), content(length)).unwrap();
    }
    let url = format!("flight://{}/there", served.address);
    let copy = |from: &str, to: &str| Transfer::new(from, to).with_options(options()).run().unwrap();
    let back = served.directory.path().join("back");
    for report in [copy(local.to_str().unwrap(), &url), copy(&url, back.to_str().unwrap())] {
        assert!(report.is_complete(), "{:?}", report.failures);
        assert_eq!(report.totals.files_done, 3);
    }
    let same = |name: &str| std::fs::read(local.join(name)).unwrap() == std::fs::read(back.join(name)).unwrap();
    assert!(same("none") && same("small") && same("deep/large") && back.join("deep/empty").is_dir());
    assert_eq!(modified(&local.join("small")), modified(&back.join("small")));
}

fn modified(path: &Path) -> std::time::SystemTime {
    path.metadata().unwrap().modified().unwrap()
}
