//! Uploads that begin before the server has told what it has.

#![expect(clippy::unwrap_used, reason = "a test")]

mod link_support;

use std::fs;
use std::num::NonZeroU16;
use std::path::Path;

use edt::link::StreamEnd;
use edt::link::acceptor::{Accepted, Admission};
use edt::options::SecretSource;
use edt::protocol::frame::FrameKind;
use edt::protocol::handshake::Limits;
use edt::protocol::message::Message;
use edt::server::{Server, ServerHandle};
use edt::{Report, ServeOptions, Transfer, TransferOptions};

use link_support::{Caller, LIMITS, LONG, SECRET, TestServer, pool};

/// Serves a directory, and answers with the URL of the root.
fn serve(directory: &Path) -> (String, ServerHandle) {
    let server = Server::bind(ServeOptions {
        listen: "127.0.0.1:0".to_owned(),
        secret: SecretSource::Text(SECRET.to_owned()),
        identity: Some(directory.join("identity.pem")),
        ..ServeOptions::new(directory.join("served"))
    })
    .unwrap();
    let (url, handle) = (format!("edt://{}/", server.address()), server.handle());
    std::thread::spawn(move || server.run());
    (url, handle)
}

fn upload(directory: &Path, to: &str) -> Report {
    let options = TransferOptions { secret: SecretSource::Text(SECRET.to_owned()), ..TransferOptions::default() };
    let from = directory.join("source").to_str().unwrap().to_owned();
    Transfer::new(from, to).with_options(options).run().unwrap()
}

#[test]
fn bytes_arrive_at_a_server_without_unfinished_uploads_that_has_told_nothing_yet() {
    let server = TestServer::with(Admission::new(Limits { fresh: true, ..LIMITS }, 8));
    let caller = Caller::new();
    let file = caller.directory.path().join("file");
    fs::write(&file, vec![7; 300_000]).unwrap();
    let options = TransferOptions { retries: 0, max_streams: NonZeroU16::MIN, ..caller.options.clone() };
    let to = format!("edt://{}/", server.address);
    let transfer = Transfer::new(file.to_str().unwrap(), to).with_options(options).start().unwrap();
    let (mut session, mut source) = (None, None);
    while session.is_none() || source.is_none() {
        match server.next().unwrap() {
            Accepted::Control(control) => session = Some(control),
            Accepted::Stream { stream, .. } => source = source.or(Some(stream)),
        }
    }
    let (session, StreamEnd::Source(mut source)) = (session.unwrap(), source.unwrap().end) else { panic!("it receives") };
    assert!(matches!(session.control.receiver.recv_timeout(LONG).unwrap(), Message::Start(_)));
    let pool = pool();
    let mut kinds = std::iter::from_fn(|| source.receive(&pool, &|_| ()).unwrap()).map(|frame| frame.header.kind);
    assert_eq!(kinds.next(), Some(FrameKind::Open));
    assert_eq!(kinds.next(), Some(FrameKind::Data));
    transfer.cancel();
    drop(kinds);
    drop((session, source));
    transfer.join().unwrap_err();
}

#[test]
fn what_a_server_refuses_of_an_upload_that_began_ahead_fails_alone() {
    let place = tempfile::tempdir().unwrap();
    let (source, target) = (place.path().join("source"), place.path().join("served/target"));
    fs::create_dir(&source).unwrap();
    for (name, size) in [("small", 5), ("large", 700_001)] {
        fs::write(source.join(name), vec![7; size]).unwrap();
        fs::write(source.join(format!("blocked {name}")), vec![8; size]).unwrap();
        fs::create_dir_all(target.join(format!("blocked {name}/full"))).unwrap();
    }
    let (url, handle) = serve(place.path());
    for done in [2, 0] {
        // The journal of the first attempt lies there at the second, which therefore hears what is there before it begins.
        let report = upload(place.path(), &format!("{url}target"));
        assert_eq!((report.totals.files_done, report.totals.files_skipped, report.totals.failed), (done, 2 - done, 2));
        assert!(report.failures.iter().all(|failure| failure.path.starts_with("blocked")), "{:?}", report.failures);
    }
    assert_eq!(fs::read(target.join("large")).unwrap(), vec![7; 700_001]);
    assert_eq!(fs::read(target.join("small")).unwrap(), [7; 5]);
    handle.shutdown();
}

#[test]
fn an_upload_that_is_through_before_the_server_is_ready_completes() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("source")).unwrap();
    fs::create_dir(place.path().join("served")).unwrap();
    let (url, handle) = serve(place.path());
    for _ in 0..20 {
        let report = upload(place.path(), &format!("{url}new"));
        assert_eq!((report.totals.failed, report.totals.retries), (0, 0));
    }
    handle.shutdown();
}
