use std::net::TcpListener;

use super::*;
use crate::auth::identity::Identity;
use crate::link::tls::{self, Verifier};

const QUICK: Liveness = Liveness { ping: Duration::from_millis(20), silence: Duration::from_millis(300) };
/// Of pairs that are not to be lost, also where a thread wakes late.
const PATIENT: Liveness = Liveness { silence: Duration::from_secs(1), ..QUICK };

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn plain(socket: TcpStream) -> Connection {
    Connection::plain(Arc::new(socket), soon())
}

fn plain_pair() -> (Control, Control) {
    let (client, server) = sockets();
    (open(plain(client), "server", PATIENT).unwrap(), open(plain(server), "client", PATIENT).unwrap())
}

fn tls_pair() -> (Control, Control) {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity::automatic(Some(&directory.path().join("identity.pem"))).unwrap();
    let (client, server) = sockets();
    let config = tls::server_config(&identity).unwrap();
    let serving = thread::spawn(move || Connection::tls_server(Arc::new(server), soon(), config).unwrap());
    let config = tls::client_config(Verifier::new(Some(identity.fingerprint().to_owned()))).unwrap();
    let client = Connection::tls_client(Arc::new(client), soon(), config, tls::server_name("localhost")).unwrap();
    (open(client, "server", PATIENT).unwrap(), open(serving.join().unwrap(), "client", PATIENT).unwrap())
}

fn message(number: u32) -> Message {
    Message::Close(vec![number; 1000], None)
}

#[test]
fn floods_in_both_directions_at_once_arrive_in_order() {
    for (left, right) in [plain_pair(), tls_pair()] {
        thread::scope(|scope| {
            for control in [&left, &right] {
                scope.spawn(|| (0..3000).for_each(|number| control.sender.send(&message(number)).unwrap()));
                scope.spawn(|| (0..3000).for_each(|number| assert_eq!(control.receiver.recv().unwrap(), message(number))));
            }
        });
    }
}

#[test]
fn a_quiet_channel_stays_alive_by_pings_that_nobody_sees() {
    for (left, right) in [plain_pair(), tls_pair()] {
        assert_eq!(left.receiver.recv_timeout(2 * PATIENT.silence), Err(RecvTimeoutError::Timeout));
        left.sender.send(&message(1)).unwrap();
        assert_eq!(right.receiver.recv().unwrap(), message(1));
        assert!(left.sender.failure().is_none() && right.sender.failure().is_none());
    }
}

#[test]
fn the_reason_that_the_peer_gave_is_why_the_channel_broke() {
    for (left, right) in [plain_pair(), tls_pair()] {
        let reason = Error::new(ErrorKind::Throttled, "could not begin a session").with_hint("try again");
        left.sender.send(&Message::Fail((&reason).into())).unwrap();
        left.sender.close();
        assert!(matches!(right.receiver.recv().unwrap(), Message::Fail(_)));
        assert!(right.receiver.recv().is_err());
        for error in [right.sender.failure().unwrap(), right.sender.send(&message(1)).unwrap_err()] {
            assert_eq!((error.kind(), error.hint()), (reason.kind(), reason.hint()));
        }
    }
}

#[test]
fn a_peer_that_falls_silent_is_lost() {
    let (client, _silent) = sockets();
    let control = open(plain(client), "server", QUICK).unwrap();
    assert!(control.receiver.recv().is_err());
    let failure = control.sender.failure().unwrap();
    assert_eq!((failure.kind(), failure.cause()), (ErrorKind::ConnectionLost, Some("the peer fell silent")));
    assert!(control.sender.send(&message(1)).is_err());
}

#[test]
fn the_last_message_before_a_close_arrives_over_unread_ones() {
    for (left, right) in [plain_pair(), tls_pair()] {
        for number in 0..100 {
            left.sender.send(&message(number)).unwrap();
        }
        right.sender.send(&message(7)).unwrap();
        drop(right);
        assert_eq!(left.receiver.recv().unwrap(), message(7));
        assert!(left.receiver.recv().is_err());
        assert_eq!(left.sender.failure().unwrap().kind(), ErrorKind::ConnectionLost);
    }
}

#[test]
fn a_close_ends_the_own_receiver_without_a_failure() {
    let (left, _right) = plain_pair();
    left.sender.close();
    assert!(left.receiver.recv().is_err());
    assert!(left.sender.failure().is_none());
    assert!(left.sender.send(&message(1)).is_err());
}

#[test]
fn a_send_blocks_while_the_peer_takes_nothing_and_a_close_ends_it() {
    let (left, right) = plain_pair();
    let sender = Arc::clone(&left.sender);
    // More than both queues and the kernel's buffers hold.
    let blocked = thread::spawn(move || (0..200_000).try_for_each(|number| sender.send(&message(number))));
    while right.receiver.len() < MESSAGES {
        thread::yield_now();
    }
    left.sender.close();
    assert!(blocked.join().unwrap().is_err());
    assert_eq!(right.receiver.recv().unwrap(), message(0));
}

#[test]
fn hostile_bytes_end_the_channel_with_a_protocol_error() {
    for bytes in [&[0xff; 64][..], &[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]] {
        let (client, mut hostile) = sockets();
        let control = open(plain(client), "server", QUICK).unwrap();
        hostile.write_all(bytes).unwrap();
        assert!(control.receiver.recv().is_err());
        assert_eq!(control.sender.failure().unwrap().kind(), ErrorKind::Protocol);
    }
}

#[test]
fn altered_records_end_the_channel() {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity::automatic(Some(&directory.path().join("identity.pem"))).unwrap();
    let (client, server) = sockets();
    let mut injected = client.try_clone().unwrap();
    let config = tls::server_config(&identity).unwrap();
    let serving = thread::spawn(move || Connection::tls_server(Arc::new(server), soon(), config).unwrap());
    let config = tls::client_config(Verifier::new(None)).unwrap();
    let _client = Connection::tls_client(Arc::new(client), soon(), config, tls::server_name("localhost")).unwrap();
    let control = open(serving.join().unwrap(), "client", QUICK).unwrap();
    injected.write_all(&[0x17, 3, 3, 0, 32]).and_then(|()| injected.write_all(&[0; 32])).unwrap();
    assert!(control.receiver.recv().is_err());
    assert_eq!(control.sender.failure().unwrap().kind(), ErrorKind::Corrupted);
}
