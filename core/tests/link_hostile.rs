//! Strangers at the door: whatever they send, the connection ends in an error within its deadline, and the next caller is let in.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod link_support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use edt::ErrorKind;
use edt::auth::identity::Identity;
use edt::link::acceptor::{Accepted, Admission};
use edt::link::client::{self, Opening, Target};
use edt::optimizer::FirstStreams;
use edt::protocol::handshake::{ClientHello, Established, Role, StreamDirection, StreamHello};
use edt::protocol::message::Message;
use link_support::{Caller, LIMITS, LONG, SECRET, TestServer};

fn hasty() -> TestServer {
    TestServer::with(Admission { patience: Duration::from_millis(300), ..Admission::new(LIMITS, 8) })
}

/// Bytes that look like nothing, the same in every run.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(&mut next).take(length).collect()
}

fn openings() -> Vec<(&'static str, Vec<u8>)> {
    let control = Role::Control.preamble();
    let mut cases = vec![
        ("nothing", Vec::new()),
        ("a part of the preamble", control[..5].to_vec()),
        ("the preamble alone", control.to_vec()),
        ("an oversized length", [&control[..], &[0xff; 4]].concat()),
        ("a length just over the limit", [&control[..], &65537u32.to_le_bytes()].concat()),
        ("a message that never comes", [&control[..], &65536u32.to_le_bytes()].concat()),
        ("a message that is none", [&control[..], &4u32.to_le_bytes(), &[0xff; 4]].concat()),
        ("another version's magic", b"EDT\x02C\0\0\0".to_vec()),
        ("another protocol", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ("a stream of no session", [&Role::Stream.preamble()[..], &[0; 18], &[1], &[0; 37]].concat()),
        ("half a stream's hello", [&Role::Stream.preamble()[..], &[0; 20]].concat()),
        ("half a record of TLS", vec![0x16, 3, 1, 2, 0, 1]),
        ("TLS of the wrong version", vec![0x16, 3, 0, 0, 4, 1, 0, 0, 0]),
    ];
    for seed in 0..20 {
        cases.push(("noise", noise(seed, 3000)));
        cases.push(("noise under a TLS header", [&[0x16, 3, 1, 0x10, 0][..], &noise(seed, 4096)].concat()));
    }
    cases
}

#[test]
fn whatever_a_stranger_says_ends_in_an_error_within_the_deadline() {
    let server = hasty();
    for (name, bytes) in openings() {
        let began = Instant::now();
        let mut stranger = TcpStream::connect(server.address).unwrap();
        // The server may hang up in the middle, which is its right.
        let _ = stranger.write_all(&bytes);
        let error = server.next().err().unwrap_or_else(|| panic!("{name} was let in"));
        assert!(
            matches!(error.kind(), ErrorKind::ConnectionLost | ErrorKind::Corrupted | ErrorKind::Protocol | ErrorKind::Refused),
            "{name}: {error}"
        );
        assert!(began.elapsed() < Duration::from_secs(3), "{name} took {:?}", began.elapsed());
    }
    // A machine that is busy may need longer than this server has patience.
    assert!((0..5).any(|_| {
        let called = Caller::new().call(&server.target(true));
        server.next().is_ok() && called.is_ok()
    }));
}

#[test]
fn a_stranger_that_drips_bytes_is_cut_off_at_the_deadline() {
    let server = hasty();
    for first in [0x16, b'E'] {
        let mut stranger = TcpStream::connect(server.address).unwrap();
        let began = Instant::now();
        let record = [&[first, 3, 1, 0x40, 0][..], &[1; 4096]].concat();
        let dripping =
            thread::spawn(move || record.chunks(1).all(|byte| stranger.write_all(byte).is_ok() && began.elapsed() < LONG));
        assert!(matches!(server.next_refusal().kind(), ErrorKind::ConnectionLost | ErrorKind::Corrupted));
        assert!(began.elapsed() < Duration::from_secs(3));
        let _ = dripping.join();
    }
}

/// Passes bytes on between two sockets until both directions end, and keeps what came from the first.
fn relay(mut left: impl Read, mut right: impl Write) -> Vec<u8> {
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = left.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..read]);
        if right.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    seen
}

#[test]
fn a_recorded_hello_of_a_stream_opens_nothing() {
    let (server, caller) = (TestServer::start(), Caller::new());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut target = server.target(false);
    target.port = listener.local_addr().unwrap().port();
    let address = server.address;
    let recording = thread::spawn(move || {
        let mut recorded = Vec::new();
        for socket in listener.incoming().take(2) {
            let (left, right) = (socket.unwrap(), TcpStream::connect(address).unwrap());
            let back = (right.try_clone().unwrap(), left.try_clone().unwrap());
            thread::spawn(move || relay(back.0, back.1));
            recorded.push(thread::spawn(move || {
                let seen = relay(&left, &right);
                let _ = right.shutdown(Shutdown::Both);
                seen
            }));
        }
        recorded.pop().unwrap().join().unwrap()
    });
    let session = caller.call(&target).unwrap();
    let accepted = server.next_session();
    drop((session.dialer.sink(1).unwrap(), server.next_stream()));
    let hello = recording.join().unwrap();
    assert_eq!(hello.len(), 64);
    for replayed in [hello.clone(), [&hello[..24], &[2], &hello[25..]].concat()] {
        TcpStream::connect(address).unwrap().write_all(&replayed).unwrap();
        assert_eq!(server.next_refusal().kind(), ErrorKind::Refused);
    }
    drop((session, accepted));
}

#[test]
fn a_man_in_the_middle_of_tls_is_refused_and_not_pinned() {
    let (server, caller) = (TestServer::start(), Caller::new());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut target = server.target(true);
    target.port = listener.local_addr().unwrap().port();
    let address = server.address;
    let middle = thread::spawn(move || {
        let client = accept_tls(listener.accept().unwrap().0);
        let server = connect_tls(TcpStream::connect(address).unwrap());
        relay_handshake(client, server)
    });
    let error = caller.call(&target).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Refused, "{}", error.explain());
    assert_eq!(server.next_refusal().kind(), ErrorKind::ConnectionLost);
    assert_eq!(caller.pins(), "");
    assert!(middle.join().unwrap().is_empty(), "a caller says nothing more to a server that did not prove itself");
}

#[test]
fn connections_that_lead_elsewhere_are_not_trusted_and_change_no_pin() {
    let (server, impostor, caller) = (TestServer::start(), TestServer::start(), Caller::new());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target { port: listener.local_addr().unwrap().port(), ..server.target(true) };
    let addresses = [server.address, server.address, impostor.address, impostor.address, impostor.address];
    thread::spawn(move || {
        for (made, (socket, address)) in listener.incoming().zip(addresses).enumerate() {
            let (left, right) = (socket.unwrap(), TcpStream::connect(address).unwrap());
            let back = (right.try_clone().unwrap(), left.try_clone().unwrap());
            thread::spawn(move || relay(back.0, back.1));
            thread::spawn(move || {
                // The control connection of the second session answers last.
                thread::sleep(Duration::from_millis(if made == 1 { 300 } else { 0 }));
                relay(left, right)
            });
        }
    });
    drop(caller.call(&target).unwrap());
    let pins = caller.pins();
    assert!(pins.contains(&server.fingerprint));
    let message = Message::Close(vec![7], None);
    let opening = Opening { messages: &[message], streams: FirstStreams::always(2), upload: false };
    let session = client::connect(&target, &caller.options, Some(opening)).unwrap();
    assert!(session.dialer.sink(1).is_err());
    assert_eq!(caller.pins(), pins);
    while let Ok(connection) = impostor.accepted.recv_timeout(Duration::from_millis(100)) {
        assert!(connection.is_err(), "the impostor was let in on something");
    }
}

/// Passes on what each side says in a handshake, preamble and hello, welcome and the server's proof, and returns what comes then.
fn relay_handshake(mut client: impl Read + Write, mut server: impl Read + Write) -> Vec<u8> {
    let mut preamble = [0; 8];
    client.read_exact(&mut preamble).unwrap();
    server.write_all(&preamble).unwrap();
    let pass = |from: &mut dyn Read, to: &mut dyn Write| to.write_all(&said(from)).and_then(|()| to.flush()).unwrap();
    pass(&mut client, &mut server);
    pass(&mut server, &mut client);
    pass(&mut server, &mut client);
    let mut rest = Vec::new();
    // Under TLS an end without a goodbye is an error, which does not matter here.
    let _ = client.read_to_end(&mut rest);
    rest
}

/// The next message, with its length before it.
fn said(by: &mut dyn Read) -> Vec<u8> {
    let mut length = [0; 4];
    by.read_exact(&mut length).unwrap();
    let mut message = vec![0; u32::from_le_bytes(length) as usize];
    by.read_exact(&mut message).unwrap();
    [&length[..], &message].concat()
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn accept_tls(socket: TcpStream) -> impl Read + Write {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("identity.pem");
    Identity::automatic(Some(&path)).unwrap();
    let pem = std::fs::read(&path).unwrap();
    let certificate = rustls_pki_types::pem::PemObject::from_pem_slice(&pem).unwrap();
    let key = rustls_pki_types::pem::PemObject::from_pem_slice(&pem).unwrap();
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"edt/1".to_vec()];
    rustls::StreamOwned::new(rustls::ServerConnection::new(Arc::new(config)).unwrap(), socket)
}

fn connect_tls(socket: TcpStream) -> impl Read + Write {
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Careless))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"edt/1".to_vec()];
    let name = rustls_pki_types::ServerName::try_from("edt").unwrap();
    rustls::StreamOwned::new(rustls::ClientConnection::new(Arc::new(config), name).unwrap(), socket)
}

/// Trusts everyone.
#[derive(Debug)]
struct Careless;

impl rustls::client::danger::ServerCertVerifier for Careless {
    fn verify_server_cert(
        &self,
        _: &rustls_pki_types::CertificateDer<'_>,
        _: &[rustls_pki_types::CertificateDer<'_>],
        _: &rustls_pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls_pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls_pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls_pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A caller that was welcomed and has not answered: the connection, its proof, and the session that it could have.
fn welcomed(server: &TestServer) -> (TcpStream, Vec<u8>, Established) {
    let mut socket = TcpStream::connect(server.address).unwrap();
    let (hello, state) = ClientHello::new([7; 32], "a test");
    socket.write_all(&[&Role::Control.preamble()[..], &hello].concat()).unwrap();
    let state = state.on_welcome(&said(&mut socket)[4..], SECRET.as_bytes(), &[]).unwrap();
    let (proof, established) = state.on_accepted(&said(&mut socket)[4..]).unwrap();
    (socket, proof, established)
}

/// Opens a stream of a session.
fn stream(server: &TestServer, session: &Established, number: u16) -> TcpStream {
    let hello = StreamHello { session: session.session, number, direction: StreamDirection::Send };
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket.write_all(&hello.encode(&session.session_key, &[])).unwrap();
    socket
}

/// Whether a stream is still neither let in nor refused.
fn waits(server: &TestServer) -> bool {
    server.accepted.recv_timeout(Duration::from_millis(100)).is_err()
}

#[test]
fn streams_that_overtake_the_proof_of_their_session_wait_for_it() {
    let server = TestServer::start();
    let (mut socket, proof, session) = welcomed(&server);
    let streams = [1, 2].map(|number| stream(&server, &session, number));
    assert!(waits(&server));
    socket.write_all(&proof).unwrap();
    let came: Vec<_> = (0..3).map(|_| server.next().unwrap()).collect();
    let of_session = |accepted: &&Accepted| matches!(accepted, Accepted::Stream { session: id, .. } if *id == session.session);
    assert_eq!(came.iter().filter(of_session).count(), 2);
    // Once the session is over, nothing waits for it.
    server.acceptor.forget(session.session);
    let began = Instant::now();
    let late = stream(&server, &session, 3);
    assert!(server.next_refusal().to_string().contains("unknown or over"));
    assert!(began.elapsed() < Duration::from_secs(2));
    drop((streams, late));
}

#[test]
fn streams_of_a_session_that_is_never_proved_are_refused_after_a_while() {
    let server = TestServer::start();
    let (socket, _, session) = welcomed(&server);
    let began = Instant::now();
    let _patient = stream(&server, &session, 1);
    assert!(server.next_refusal().to_string().contains("unknown or over"));
    assert!(began.elapsed() >= Duration::from_secs(2) && began.elapsed() < Duration::from_secs(5));
    let _stranded = stream(&server, &session, 2);
    assert!(waits(&server));
    drop(socket);
    let refusals = [server.next_refusal(), server.next_refusal()].map(|error| error.to_string());
    assert!(refusals.iter().any(|text| text.contains("unknown or over")), "{refusals:?}");
    assert!(refusals.iter().any(|text| text.contains("without a proof")), "{refusals:?}");
}

#[test]
fn a_stream_waits_no_longer_than_its_connection_may() {
    let server = TestServer::with(Admission { patience: Duration::from_secs(1), ..Admission::new(LIMITS, 8) });
    let (_socket, _, session) = welcomed(&server);
    let began = Instant::now();
    let _stream = stream(&server, &session, 1);
    server.next_refusal();
    server.next_refusal();
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[test]
fn an_address_that_keeps_failing_has_to_wait() {
    let server = TestServer::start();
    let fail = || {
        let (mut socket, mut proof, _) = welcomed(&server);
        *proof.last_mut().unwrap() ^= 1;
        socket.write_all(&proof).unwrap();
        let Message::Fail(failed) = Message::decode(&said(&mut socket)[4..]).unwrap() else { panic!("not a failure") };
        assert_eq!(edt::Error::from(failed).kind(), ErrorKind::Refused);
        drop(socket);
        assert_eq!(server.next_refusal().kind(), ErrorKind::Refused);
    };
    (0..5).for_each(|_| fail());
    let began = Instant::now();
    fail();
    assert!(began.elapsed() >= Duration::from_secs(1));
}
