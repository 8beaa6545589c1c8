//! A caller that comes back: the session that it left behind does not stand in its way.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::time::{Duration, Instant};

use edt::TransferOptions;
use edt::link::client::{self, Session, Target};
use edt::options::SecretSource;
use edt::protocol::TransferId;
use edt::protocol::message::{Direction, Key, Message, ReceiveOptions, SendOptions, Start, Tune};
use edt::server::Server;
use edt::{ErrorKind, ServeOptions};

const SECRET: &str = "a secret for tests of sessions";

/// Opens a session that begins the same transfer in a run of its own.
fn begin(target: &Target, run: u8) -> Session {
    let options = TransferOptions { secret: SecretSource::Text(SECRET.to_owned()), ..TransferOptions::default() };
    let session = client::connect(target, &options, None).unwrap();
    let start = Start {
        direction: Direction::Upload,
        transfer: TransferId([7; 16]),
        destination: b"target".to_vec(),
        receive: ReceiveOptions::default(),
        send: SendOptions::default(),
        tune: Tune::default(),
        buffer: 8 << 20,
        run: Key([run; 16]),
    };
    session.control.sender.send(&Message::Start(start)).unwrap();
    session
}

/// The next message that is not about the progress.
fn next(session: &Session) -> Message {
    loop {
        match session.control.receiver.recv_timeout(Duration::from_secs(20)).unwrap() {
            Message::Meters(_) | Message::Ack(_) => {}
            Message::Have(have) if !have.last => {}
            other => return other,
        }
    }
}

#[test]
fn only_a_session_that_is_not_complete_keeps_another_run_of_its_transfer_out() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::bind(ServeOptions {
        listen: "127.0.0.1:0".to_owned(),
        secret: SecretSource::Text(SECRET.to_owned()),
        identity: Some(place.path().join("identity.pem")),
        ..ServeOptions::new(place.path())
    })
    .unwrap();
    let target = Target { host: "127.0.0.1".to_owned(), port: server.address().port(), tls: false };
    let handle = server.handle();
    let serving = std::thread::spawn(move || server.run());

    let running = begin(&target, 1);
    assert!(matches!(next(&running), Message::Have(_)));
    let kept_out = begin(&target, 2);
    assert!(
        matches!(next(&kept_out), Message::Fail(failed) if edt::Error::from(failed.clone()).kind() == ErrorKind::AlreadyExists)
    );

    running.control.sender.send(&Message::Finish(true)).unwrap();
    assert!(matches!(next(&running), Message::Complete(_)));
    // Its caller has not said goodbye: for all that the server knows, it never heard of the completion.
    let began = Instant::now();
    let again = begin(&target, 3);
    assert!(matches!(next(&again), Message::Have(_)));
    assert!(began.elapsed() < Duration::from_secs(3));

    // One that has said goodbye leaves nothing of its transfer, however soon the next one comes.
    again.control.sender.send(&Message::Finish(true)).unwrap();
    assert!(matches!(next(&again), Message::Complete(_)));
    let left = place.path().join(".edt").join(TransferId([7; 16]).key()).join("0");
    std::fs::create_dir_all(left.parent().unwrap()).unwrap();
    std::fs::write(&left, "a part").unwrap();
    again.control.sender.send(&Message::Goodbye).unwrap();
    let last = begin(&target, 4);
    assert!(matches!(next(&last), Message::Have(_)));
    assert!(!left.exists());

    drop((running, kept_out, again, last));
    handle.shutdown();
    serving.join().unwrap().unwrap();
}
