//! The handshake by hand: who gets in, who does not, and what both are told.

#![allow(clippy::unwrap_used)]

use edt::ErrorKind;
use edt::protocol::VERSION;
use edt::protocol::handshake::{
    Authenticate, AwaitAccepted, AwaitAuthenticate, ClientHello, Established, Handshake, Hello, Limits, Refusal, Role,
    ServerHandshake, SessionId, StreamDirection, StreamHello, UnverifiedStreamHello, is_tls, read_length,
};
use edt::protocol::message::Message;
use proptest::prelude::*;

const LIMITS: Limits = Limits { max_streams: 64, buffer: 96 << 20, read_only: true, fresh: false, bbr: true };
const SESSION: SessionId = SessionId([5; 16]);

/// The message in bytes that go out, as the other side reads it.
fn message(bytes: &[u8]) -> &[u8] {
    let (prefix, message) = bytes.split_first_chunk().unwrap();
    assert_eq!(read_length(*prefix).unwrap(), message.len());
    message
}

/// Secret and channel binding of one side.
type Side<'a> = (&'a [u8], &'a [u8]);

/// A client that was welcomed, the server's proof, and the server; the client's side first.
fn welcome(client: Side<'_>, server: Side<'_>, nonce: u8) -> (AwaitAccepted, Vec<u8>, AwaitAuthenticate) {
    let (hello, waiting) = ClientHello::new([1; 32], "client 1");
    let (welcome, welcomed) = ServerHandshake::on_hello(message(&hello), [nonce; 32], SESSION, "server 1").unwrap();
    let (accepted, proved) = welcomed.prove(server.0, server.1, LIMITS);
    (waiting.on_welcome(message(&welcome), client.0, client.1).unwrap(), accepted, proved)
}

/// Runs a whole handshake between two sides that know the same; the client's end first.
fn shake(side: Side<'_>) -> (Established, Established) {
    let (client, accepted, server) = welcome(side, side, 2);
    let (proof, at_client) = client.on_accepted(message(&accepted)).unwrap();
    (at_client, server.on_authenticate(message(&proof)).unwrap())
}

/// What a client is told that a server turns away after its own proof.
fn told(refusal: &Refusal) -> edt::Error {
    let Message::Fail(failed) = Message::decode(message(&refusal.reply)).unwrap() else { panic!("not a failure") };
    failed.into()
}

#[test]
fn sides_with_the_same_secret_agree() {
    let (client, server) = shake((b"secret", &[9; 32]));
    assert_eq!((client.session, client.limits, client.version), (SESSION, LIMITS, VERSION));
    assert_eq!((server.session, server.limits, server.version), (SESSION, LIMITS, VERSION));
    assert_eq!((client.peer.as_str(), server.peer.as_str()), ("server 1", "client 1"));
    let hello = StreamHello { session: SESSION, number: 300, direction: StreamDirection::Receive };
    let bytes = hello.encode(&client.session_key, b"stream");
    let unverified = UnverifiedStreamHello::parse(&bytes).unwrap();
    assert_eq!(unverified.session(), SESSION);
    assert_eq!(unverified.verify(&server.session_key, b"stream").unwrap(), hello);
}

#[test]
fn a_client_with_another_secret_or_tls_connection_says_nothing_more_and_knows_why() {
    for (client, server) in [
        ((&b"a"[..], &[9u8; 32][..]), (&b"b"[..], &[9u8; 32][..])),
        ((b"a", &[9; 32]), (b"a", &[8; 32])),
        ((b"a", b""), (b"a", &[8; 32])),
    ] {
        let (client, accepted, _) = welcome(client, server, 2);
        let error = client.on_accepted(message(&accepted)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert_eq!(error.to_string(), "could not trust the server: its proof of the secret is wrong");
        assert_eq!(error.hint(), Some("give both sides the same secret: EDT_TOKEN or --token-file"));
    }
}

#[test]
fn a_client_that_does_not_know_the_secret_is_refused_and_told_in_the_session() {
    let (_, accepted, server) = welcome((b"a", b""), (b"b", b""), 2);
    let Handshake::Accepted(heard) = minicbor::decode(message(&accepted)).unwrap() else { panic!() };
    // The best that an impostor can do is to send the server's own proof back.
    for (method, proof) in [(1, heard.proof), (1, [0; 32]), (2, heard.proof)] {
        let (_, _, server) = welcome((b"a", b""), (b"b", b""), 2);
        let proof = Handshake::Authenticate(Authenticate { method, proof });
        let refusal = server.on_authenticate(&minicbor::to_vec(proof).unwrap()).unwrap_err();
        assert_eq!(refusal.error.kind(), ErrorKind::Refused);
        assert_eq!(refusal.error.hint(), Some("give both sides the same secret: EDT_TOKEN or --token-file"));
        assert_eq!(told(&refusal).explain(), refusal.error.explain());
    }
    assert_eq!(told(&server.on_authenticate(message(&accepted)).unwrap_err()).kind(), ErrorKind::Protocol);
}

#[test]
fn a_proof_is_worth_nothing_in_another_handshake() {
    let side: Side<'_> = (b"secret", b"");
    let (client, accepted, _) = welcome(side, side, 2);
    let (other, accepted_there, server_there) = welcome(side, side, 3);
    let (proof, _) = client.on_accepted(message(&accepted)).unwrap();
    assert_eq!(server_there.on_authenticate(message(&proof)).unwrap_err().error.kind(), ErrorKind::Refused);
    assert!(other.on_accepted(message(&accepted)).is_err());
    let (client, ..) = welcome(side, side, 2);
    assert!(client.on_accepted(message(&accepted_there)).is_err());
}

#[test]
fn another_major_version_is_told_which_side_to_upgrade() {
    for (major, hint) in [(2, "upgrade edt on the server"), (0, "upgrade edt on the calling side")] {
        let version = edt::protocol::Version { major, minor: 7 };
        let hello = Handshake::Hello(Hello { version, capabilities: 0, nonce: [0; 32], software: String::new() });
        let refusal = ServerHandshake::on_hello(&minicbor::to_vec(hello).unwrap(), [2; 32], SESSION, "server").err().unwrap();
        assert_eq!((refusal.error.kind(), refusal.error.hint()), (ErrorKind::Unsupported, Some(hint)));
        let (_, waiting) = ClientHello::new([1; 32], "client");
        let told = waiting.on_welcome(message(&refusal.reply), b"", b"").err().unwrap();
        assert_eq!(told.hint(), Some(hint));
    }
}

#[test]
fn a_hello_of_a_future_form_is_still_answered_by_its_version() {
    // [0, [{0: [2, 0], 1: "no longer a number"}]]
    let hello = [&[0x82, 0x00, 0x81, 0xa2, 0x00, 0x82, 0x02, 0x00, 0x01, 0x72][..], b"no longer a number"].concat();
    let refusal = ServerHandshake::on_hello(&hello, [2; 32], SESSION, "server").err().unwrap();
    assert_eq!(refusal.error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_newer_minor_version_with_unknown_fields_capabilities_and_methods_gets_in() {
    let mut hello = minicbor::Encoder::new(Vec::new());
    hello.array(2).unwrap().u8(0).unwrap().array(1).unwrap().map(5).unwrap();
    hello.u8(0).unwrap().array(2).unwrap().u16(1).unwrap().u16(9).unwrap();
    hello.u8(1).unwrap().u64(u64::MAX).unwrap().u8(2).unwrap().bytes(&[1; 32]).unwrap();
    hello.u8(3).unwrap().str("newer").unwrap().u8(200).unwrap().array(1).unwrap().str("x").unwrap();
    let (welcome, _) = ServerHandshake::on_hello(&hello.into_writer(), [2; 32], SESSION, "server").unwrap();
    let Handshake::Welcome(mut welcome) = minicbor::decode(message(&welcome)).unwrap() else { panic!() };
    welcome.methods = vec![77, 1];
    welcome.capabilities = u64::MAX;
    let (_, waiting) = ClientHello::new([1; 32], "client");
    assert!(waiting.on_welcome(&minicbor::to_vec(Handshake::Welcome(welcome)).unwrap(), b"", b"").is_ok());
}

#[test]
fn a_message_out_of_order_is_a_breach_of_the_protocol() {
    let (hello, waiting) = ClientHello::new([1; 32], "client");
    assert_eq!(waiting.on_welcome(message(&hello), b"", b"").err().unwrap().kind(), ErrorKind::Protocol);
    let refusal = Refusal::unwelcome(edt::Error::new(ErrorKind::Refused, "could not let the caller in"));
    assert_eq!(
        ServerHandshake::on_hello(message(&refusal.reply), [2; 32], SESSION, "").err().unwrap().error.kind(),
        ErrorKind::Protocol
    );
    let (client, ..) = welcome((b"s", b""), (b"s", b""), 2);
    assert_eq!(client.on_accepted(message(&hello)).unwrap_err().kind(), ErrorKind::Protocol);
}

#[test]
fn a_changed_bit_in_the_hello_of_a_stream_is_refused() {
    let (established, _) = shake((b"s", b""));
    let (other, _) = shake((b"t", b""));
    let bytes =
        StreamHello { session: SESSION, number: 1, direction: StreamDirection::Send }.encode(&established.session_key, b"tls");
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes;
        changed[bit / 8] ^= 1 << (bit % 8);
        let verified = UnverifiedStreamHello::parse(&changed).and_then(|hello| hello.verify(&established.session_key, b"tls"));
        assert!(verified.is_err(), "bit {bit}");
    }
    for (key, binding) in [(&other.session_key, &b"tls"[..]), (&established.session_key, b""), (&established.session_key, b"tlt")]
    {
        assert_eq!(UnverifiedStreamHello::parse(&bytes).unwrap().verify(key, binding).unwrap_err().kind(), ErrorKind::Refused);
    }
}

#[test]
fn the_first_bytes_tell_what_a_connection_is_for() {
    for role in [Role::Control, Role::Stream] {
        assert_eq!(Role::from_preamble(role.preamble()).unwrap(), role);
        assert!(!is_tls(role.preamble()[0]));
    }
    assert!(is_tls(0x16));
    assert_eq!(Role::from_preamble(*b"GET / HT").unwrap_err().kind(), ErrorKind::Protocol);
    assert_eq!(Role::from_preamble(*b"EDT\x02C\0\0\0").unwrap_err().kind(), ErrorKind::Protocol);
}

#[test]
fn a_long_message_is_refused_before_it_is_read() {
    assert!(read_length((64u32 << 10).to_le_bytes()).is_ok());
    assert!(read_length(((64u32 << 10) + 1).to_le_bytes()).is_err());
}

#[test]
fn keys_do_not_show_themselves() {
    let (established, _) = shake((b"s", b""));
    assert!(format!("{established:?}").contains("SessionKey(..)"));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_, waiting) = ClientHello::new([1; 32], "client");
        let (welcomed, _, server) = welcome((b"s", b""), (b"s", b""), 2);
        prop_assert!(server.on_authenticate(&bytes).is_err());
        prop_assert!(welcomed.on_accepted(&bytes).is_err());
        prop_assert!(waiting.on_welcome(&bytes, b"s", b"").is_err());
        let _ = ServerHandshake::on_hello(&bytes, [2; 32], SESSION, "server");
        if let Some(hello) = bytes.first_chunk() {
            prop_assert!(UnverifiedStreamHello::parse(hello).is_err());
        }
    }
}
