//! What a caller that reads files makes of a server that answers wrongly.

mod link_support;

use std::sync::atomic::{AtomicBool, Ordering};

use edt::files::{Files, FilesOptions};
use edt::link::acceptor::Accepted;
use edt::path::RelativePath;
use edt::protocol::frame::crc32c;
use edt::protocol::message::{Answer, FileState, Message};
use edt::{Endpoint, ErrorKind};
use link_support::{Caller, LONG, TestServer};

const STATE: FileState = FileState { size: 100, modified_ns: Some(1), version: None };

fn part(bytes: &[u8], last: bool) -> Answer {
    Answer::Bytes { state: STATE, bytes: bytes.to_vec(), crc32c: crc32c(bytes), last }
}

/// Reads ten bytes from a server that answers every request with these parts.
fn read_from(answers: &[Answer]) -> edt::Result<Vec<u8>> {
    let (server, caller) = (&TestServer::start(), Caller::new());
    let endpoint = Endpoint::new(format!("edt://{}/", server.address));
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !stop.load(Ordering::Acquire) {
                let Ok(Ok(Accepted::Control(session))) = server.accepted.recv_timeout(LONG / 200) else { continue };
                scope.spawn(move || {
                    while session.control.receiver.recv_timeout(LONG).is_ok() {
                        for answer in answers {
                            let _ = session.control.sender.send(&Message::Answer(answer.clone()));
                        }
                    }
                });
            }
        });
        let read = Files::open_with(&endpoint, &caller.options, FilesOptions::default()).and_then(|files| {
            let reader = files.reader(&RelativePath::from_user("a")?, 0..10)?;
            let mut bytes = vec![0; 10];
            let count = reader.read_at(0, &mut bytes, &|| Ok(()))?;
            bytes.truncate(count);
            Ok(bytes)
        });
        stop.store(true, Ordering::Release);
        read
    })
}

#[test]
fn parts_that_fit_are_read() {
    assert_eq!(read_from(&[part(b"01234", false), part(b"56789", true)]).unwrap(), b"0123456789");
}

#[test]
fn answers_that_do_not_fit_are_errors() {
    let altered = Answer::Bytes { state: STATE, bytes: b"0123456789".to_vec(), crc32c: 7, last: true };
    let other =
        Answer::Bytes { state: FileState { size: 99, ..STATE }, bytes: b"56789".to_vec(), crc32c: crc32c(b"56789"), last: true };
    let sized = |size| Answer::Bytes {
        state: FileState { size, ..STATE },
        bytes: b"0123456789".to_vec(),
        crc32c: crc32c(b"0123456789"),
        last: true,
    };
    for (answers, kind) in [
        (vec![sized(u64::MAX)], ErrorKind::Protocol),
        (vec![sized(1 << 63)], ErrorKind::Protocol),
        (vec![part(b"01234567890", true)], ErrorKind::Protocol),
        (vec![part(b"0123456789", false), part(b"0", true)], ErrorKind::Protocol),
        (vec![part(b"", false)], ErrorKind::Protocol),
        (vec![Answer::Done], ErrorKind::Protocol),
        (vec![part(b"01234", true)], ErrorKind::SourceChanged),
        (vec![part(b"01234", false), other], ErrorKind::SourceChanged),
        (vec![altered], ErrorKind::Corrupted),
    ] {
        assert_eq!(read_from(&answers).unwrap_err().kind(), kind, "{answers:?}");
    }
}
