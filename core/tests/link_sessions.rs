//! Sessions over real sockets: who is let in, and that frames and messages pass both ways, plain and under TLS.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod link_support;

use std::sync::atomic::Ordering;
use std::time::Instant;

use edt::ErrorKind;
use edt::buffer::SLAB_SIZE;
use edt::link::acceptor::Admission;
use edt::link::client::{self, Opening};
use edt::link::{FrameSink, FrameSource, StreamEnd};
use edt::optimizer::FirstStreams;
use edt::protocol::frame::{FLAG_ZERO, FrameHeader, FrameKind};
use edt::protocol::handshake::Limits;
use edt::protocol::message::Message;
use link_support::{Caller, LIMITS, LONG, TestServer, frame, pool};

fn exchange(mut sink: Box<dyn FrameSink>, mut source: Box<dyn FrameSource>) {
    let lengths = [SLAB_SIZE, 1, SLAB_SIZE - 1, 4096, SLAB_SIZE];
    let sending = std::thread::spawn(move || {
        let pool = pool();
        for (block, length) in (0..).zip(lengths.iter().cycle().take(100)) {
            assert_eq!(u64::from(sink.send(frame(&pool, block, *length, 7)).unwrap()), block);
        }
        let mut zeros = FrameHeader::empty(FrameKind::Data);
        (zeros.flags, zeros.length, zeros.file) = (FLAG_ZERO, 4096, 1);
        sink.send(edt::link::Frame { header: zeros, payload: None }).unwrap();
        #[cfg(target_os = "linux")]
        assert!(sink.tcp().unwrap()().unwrap().segments_out > 0);
        sink.finish().unwrap();
    });
    let pool = pool();
    for (block, length) in (0..).zip(lengths.iter().cycle().take(100)) {
        let frame = source.receive(&pool, &|_| ()).unwrap().unwrap();
        let payload = frame.payload.unwrap();
        frame.header.verify(&payload).unwrap();
        assert_eq!((frame.header.sequence, payload.len()), (block, *length));
        assert!(payload.iter().all(|byte| *byte == 7));
    }
    assert!(source.receive(&pool, &|_| ()).unwrap().unwrap().payload.is_none());
    assert!(source.receive(&pool, &|_| ()).unwrap().is_none());
    sending.join().unwrap();
}

#[test]
fn messages_and_frames_pass_both_ways_plain_and_under_tls() {
    for tls in [false, true] {
        let (server, caller) = (TestServer::start(), Caller::new());
        let session = caller.call(&server.target(tls)).unwrap();
        let accepted = server.next_session();
        assert_eq!(
            (session.limits, session.peer.as_str()),
            (Limits { bbr: session.bbr, ..LIMITS }, server.target(tls).name().as_str())
        );
        assert!(session.software.starts_with("edt ") && session.rtt < LONG);
        session.control.sender.send(&Message::Close(vec![1, 2], None)).unwrap();
        assert_eq!(accepted.control.receiver.recv().unwrap(), Message::Close(vec![1, 2], None));
        accepted.control.sender.send(&Message::Finish(true)).unwrap();
        assert_eq!(session.control.receiver.recv().unwrap(), Message::Finish(true));

        let sink = session.dialer.sink(1).unwrap();
        let incoming = server.next_stream();
        let StreamEnd::Source(source) = incoming.end else { panic!("wrong direction") };
        assert_eq!(incoming.number, 1);
        exchange(sink, source);
        let source = session.dialer.source(2).unwrap();
        let StreamEnd::Sink(sink) = server.next_stream().end else { panic!("wrong direction") };
        exchange(sink, source);
        // Loopback without `edts://` is plain, and a plain connection pins nothing.
        assert_eq!(caller.pins().contains(&server.fingerprint), tls);
    }
}

#[test]
fn what_a_session_is_for_is_said_at_once_but_never_to_an_unknown_server() {
    let (server, caller) = (TestServer::start(), Caller::new());
    let message = Message::Close(vec![7], None);
    let opening = Opening { messages: std::slice::from_ref(&message), streams: FirstStreams::always(2), upload: false };
    let made = || server.connections.load(Ordering::Acquire);
    // Plain, under TLS with a server that is met for the first time, and again.
    for (tls, beforehand) in [(false, 2), (true, 0), (true, 2)] {
        let before = made();
        let session = client::connect(&server.target(tls), &caller.options, Some(opening)).unwrap();
        let accepted = server.next_session();
        assert_eq!(accepted.control.receiver.recv_timeout(LONG).unwrap(), message);
        // Both ends are of one system.
        assert_eq!(session.limits.bbr, session.bbr);
        let limit = Instant::now() + LONG;
        while made() < before + 1 + beforehand && Instant::now() < limit {
            std::thread::yield_now();
        }
        assert_eq!(made(), before + 1 + beforehand);
        for number in 1..=3 {
            let sink = session.dialer.sink(number).unwrap();
            let StreamEnd::Source(source) = server.next_stream().end else { panic!("wrong direction") };
            exchange(sink, source);
        }
        assert_eq!(made(), before + 4);
    }
}

#[test]
fn a_session_begins_with_more_than_a_handshake_could_hold() {
    let names: Vec<_> = (0..4000).map(|number| format!("{number:0>200}/").repeat(20).into_bytes().into()).collect();
    let messages: Vec<_> = names.chunks(100).map(|names| Message::Choose(names.to_vec())).collect();
    assert!(messages.iter().map(|message| message.encode().len()).sum::<usize>() > 12 << 20);
    let opening = Opening { messages: &messages, streams: FirstStreams::always(1), upload: false };
    for tls in [false, true] {
        let (server, caller) = (TestServer::start(), Caller::new());
        let target = server.target(tls);
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| client::connect(&target, &caller.options, Some(opening)).unwrap());
            let accepted = server.next_session();
            for message in &messages {
                assert!(accepted.control.receiver.recv_timeout(LONG).unwrap() == *message);
            }
            calling.join().unwrap();
        });
    }
}

#[test]
fn a_wrong_secret_is_refused_with_a_hint_and_pins_nothing() {
    for tls in [false, true] {
        let (server, caller) = (TestServer::start(), Caller::knowing("not the same secret"));
        let error = caller.call(&server.target(tls)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.hint().unwrap().contains("same secret"), "{}", error.explain());
        // The caller knows it by itself and leaves without a word.
        let left = server.next_refusal();
        assert_eq!(left.kind(), ErrorKind::ConnectionLost);
        assert!(left.cause().unwrap().contains("another secret"), "{left}");
        assert_eq!(caller.pins(), "");
    }
}

#[test]
fn an_identity_is_pinned_on_first_use_and_a_changed_one_is_refused() {
    let (server, caller) = (TestServer::start(), Caller::new());
    let target = server.target(true);
    for _ in 0..2 {
        caller.call(&target).unwrap();
        server.next_session();
        assert_eq!(caller.pins(), format!("{} {}\n", target.name(), server.fingerprint));
    }
    let other = "SHA256:00";
    let changed = caller.pins().replace(&server.fingerprint, other);
    std::fs::write(caller.directory.path().join("known_hosts"), &changed).unwrap();
    let error = caller.call(&target).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.cause().unwrap().contains(&server.fingerprint) && error.cause().unwrap().contains(other));
    assert!(error.hint().unwrap().contains("remove line 1 of"), "{}", error.explain());
    assert_eq!(caller.pins(), changed);
}

#[test]
fn a_full_server_says_so_in_the_session() {
    for tls in [false, true] {
        let server = TestServer::with(Admission::new(LIMITS, 1));
        let caller = Caller::new();
        let _first = caller.call(&server.target(tls)).unwrap();
        let first = server.next_session();
        let turned_away = caller.call(&server.target(tls)).unwrap();
        let Message::Fail(failed) = turned_away.control.receiver.recv_timeout(LONG).unwrap() else { panic!("not a failure") };
        let error = edt::Error::from(failed);
        assert_eq!(error.kind(), ErrorKind::Throttled);
        assert!(error.hint().unwrap().contains("try again"));
        drop(turned_away);
        server.next_refusal();
        server.acceptor.forget(first.session);
        let _second = caller.call(&server.target(tls)).unwrap();
        server.next_session();
    }
}

#[test]
fn a_stream_needs_an_unused_number_and_a_session_that_lives() {
    for tls in [false, true] {
        let (server, caller) = (TestServer::start(), Caller::new());
        let session = caller.call(&server.target(tls)).unwrap();
        let accepted = server.next_session();
        let mut streams = vec![(session.dialer.sink(3).unwrap(), server.next_stream())];
        let mut refused = session.dialer.source(3).unwrap();
        assert_eq!(server.next_refusal().kind(), ErrorKind::Refused);
        assert_eq!(refused.receive(&pool(), &|_| ()).err().unwrap().kind(), ErrorKind::ConnectionLost);
        for number in 4..11 {
            streams.push((session.dialer.sink(number).unwrap(), server.next_stream()));
        }
        let _too_many = session.dialer.sink(11).unwrap();
        assert!(server.next_refusal().to_string().contains("as many streams as it may"));
        drop(streams);
        let _room_again = (session.dialer.sink(12).unwrap(), server.next_stream());
        server.acceptor.forget(accepted.session);
        let _late = session.dialer.sink(13).unwrap();
        assert!(server.next_refusal().to_string().contains("unknown or over"));
    }
}

#[test]
fn breakers_end_blocked_streams_and_the_other_end_notices() {
    for tls in [false, true] {
        let (server, caller) = (TestServer::start(), Caller::new());
        let session = caller.call(&server.target(tls)).unwrap();
        let _accepted = server.next_session();
        let mut sink = session.dialer.sink(1).unwrap();
        let StreamEnd::Source(mut source) = server.next_stream().end else { panic!("wrong direction") };
        let breaker = sink.breaker();
        let blocked = std::thread::spawn(move || {
            let pool = pool();
            (0..).map(|block| sink.send(frame(&pool, block, SLAB_SIZE, 1))).find_map(Result::err)
        });
        // A source whose pool is empty waits for memory, and the sink then for the source.
        let pool = pool();
        let held: Vec<_> = std::iter::from_fn(|| pool.take(std::time::Duration::ZERO)).collect();
        let waiting = source.breaker();
        let starving = std::thread::spawn({
            let pool = pool.clone();
            move || source.receive(&pool, &|_| ()).err()
        });
        breaker();
        waiting();
        let began = Instant::now();
        assert_eq!(blocked.join().unwrap().unwrap().kind(), ErrorKind::ConnectionLost);
        assert_eq!(starving.join().unwrap().unwrap().kind(), ErrorKind::ConnectionLost);
        assert!(began.elapsed() < LONG);
        drop(held);
    }
}

#[test]
fn a_stream_that_ends_without_finish_is_an_error_even_while_its_breaker_is_kept() {
    for tls in [false, true] {
        let (server, caller) = (TestServer::start(), Caller::new());
        let session = caller.call(&server.target(tls)).unwrap();
        let _accepted = server.next_session();
        let mut sink = session.dialer.sink(1).unwrap();
        let StreamEnd::Source(mut source) = server.next_stream().end else { panic!("wrong direction") };
        sink.send(frame(&pool(), 0, 100, 1)).unwrap();
        let _kept = sink.breaker();
        drop(sink);
        assert_eq!(source.receive(&pool(), &|_| ()).unwrap().unwrap().header.length, 100);
        assert_eq!(source.receive(&pool(), &|_| ()).err().unwrap().kind(), ErrorKind::ConnectionLost);
    }
}
