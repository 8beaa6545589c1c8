//! Golden bytes: what version 1 puts on the wire, which never changes. `EDT_WRITE_GOLDEN=1` writes the files of a new kind of message.

#![allow(clippy::unwrap_used)]

mod samples;

use std::fmt::Write as _;
use std::path::PathBuf;

use edt::protocol::frame::pack_item;
use edt::protocol::handshake::{ClientHello, Limits, Refusal, ServerHandshake, SessionId, StreamDirection, StreamHello};
use edt::protocol::hex;

/// Encodings by name.
type Named = Vec<(&'static str, Vec<u8>)>;

/// Compares with the lines `name: hexadecimal digits` of a golden file.
fn compare(name: &str, encodings: &Named) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.hex"));
    let text = encodings.iter().fold(String::new(), |mut text, (name, bytes)| {
        let _ = writeln!(text, "{name}: {}", hex(bytes));
        text
    });
    if std::env::var_os("EDT_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    let golden: Vec<&str> = golden.lines().collect();
    for (made, golden) in text.lines().zip(&golden) {
        assert_eq!(made, *golden, "the wire of version 1 changed");
    }
    assert_eq!(text.lines().count(), golden.len(), "`{}` has other lines than this test", path.display());
}

#[test]
fn frames_are_what_they_were() {
    let frames = samples::frames().into_iter();
    compare("frames", &frames.map(|(name, header, payload)| (name, [&header.encode()[..], &payload].concat())).collect());
}

#[test]
fn a_pack_is_what_it_was() {
    let mut space = vec![0; 4096];
    let mut used = 0;
    assert!(pack_item(&mut space, &mut used, &samples::file_header(), b"12345"));
    assert!(pack_item(&mut space, &mut used, &samples::symlink(), b""));
    space.truncate(used);
    compare("pack", &vec![("file-and-symlink", space)]);
}

#[test]
fn messages_are_what_they_were() {
    compare("messages", &samples::messages().into_iter().map(|(name, message)| (name, message.encode_with_length())).collect());
}

#[test]
fn the_handshake_is_what_it_was() {
    let (secret, binding) = (&b"correct horse battery staple"[..], &[0xbb; 32][..]);
    let (hello, waiting) = ClientHello::new([0xc1; 32], "edt golden client");
    let (welcome, server) =
        ServerHandshake::on_hello(&hello[4..], [0x5e; 32], SessionId([0x5d; 16]), "edt golden server").unwrap();
    let limits = Limits { max_streams: 64, buffer: 96 << 20, read_only: true, fresh: false, bbr: false };
    let (accepted, server) = server.prove(secret, binding, limits);
    let waiting = waiting.on_welcome(&welcome[4..], secret, binding).unwrap();
    let (authenticate, established) = waiting.on_accepted(&accepted[4..]).unwrap();
    server.on_authenticate(&authenticate[4..]).unwrap();
    let stream = StreamHello { session: established.session, number: 0x0102, direction: StreamDirection::Send };
    let stream = stream.encode(&established.session_key, binding).to_vec();
    let refusal = Refusal::unwelcome(
        edt::Error::new(edt::ErrorKind::Refused, "could not let the caller in").with_cause("a cause").with_hint("a hint"),
    );
    compare(
        "handshake",
        &vec![
            ("hello", hello),
            ("welcome", welcome),
            ("authenticate", authenticate),
            ("accepted", accepted),
            ("refuse", refusal.reply),
            ("stream", stream),
        ],
    );
}
