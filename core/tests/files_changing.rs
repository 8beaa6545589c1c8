//! Files of a server, written, copied and renamed, over real connections.

mod files_support;
mod link_support;

use std::fs;
use std::time::{Duration, Instant};

use edt::ErrorKind;
use edt::files::{FilesOptions, MOST_WRITTEN};
use edt::link::client::{self, Target};
use edt::options::{Access, Overwrite};
use edt::protocol::message::{Answer, Message, Request};
use edt::store::Depth;
use files_support::{World, asked, content, name, options, other};
use link_support::LONG;

#[test]
fn what_may_not_be_done_twice_is_done_once_a_full_server_has_room() {
    let world = World::with(|options| options.max_sessions = 1);
    let busy = other(&world);
    let files = world.files(FilesOptions::default());
    let leaving = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(400));
        drop(busy);
    });
    files.write(&name("a"), b"alpha", Overwrite::Never).unwrap();
    leaving.join().unwrap();
    assert_eq!(fs::read(world.path("a")).unwrap(), b"alpha");
}

#[test]
fn files_are_written_copied_and_renamed_whole() {
    let world = World::new();
    let files = world.files(FilesOptions::default());
    let bytes = content(MOST_WRITTEN);
    files.write(&name("new/a.bin"), &bytes, Overwrite::Replace).unwrap();
    assert!(fs::read(world.path("new/a.bin")).unwrap() == bytes);
    assert_eq!(files.write(&name("new/a.bin"), b"b", Overwrite::Never).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(
        files.write(&name("b"), &content(MOST_WRITTEN + 1), Overwrite::Never).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    files.copy(&name("new/a.bin"), &name("other/copy"), Overwrite::Replace).unwrap();
    files.rename(&name("other"), &name("moved/there"), Overwrite::Replace).unwrap();
    assert!(fs::read(world.path("moved/there/copy")).unwrap() == bytes);
    files.create_directory(&name("made/by/hand")).unwrap();
    assert!(world.path("made/by/hand").is_dir());
    let found: Vec<_> = files.list(&name("moved"), Depth::Tree).unwrap().map(|entry| entry.unwrap().path.to_string()).collect();
    assert_eq!(found, ["there", "there/copy"]);
    assert_eq!(files.copy(&name("none"), &name("x"), Overwrite::Replace).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_read_only_server_changes_nothing() {
    let world = World::with(|options| options.access = Access::ReadOnly);
    fs::write(world.path("a"), "alpha").unwrap();
    let files = world.files(FilesOptions::default());
    let refusals = [
        files.write(&name("b"), b"b", Overwrite::Replace),
        files.copy(&name("a"), &name("b"), Overwrite::Replace),
        files.rename(&name("a"), &name("b"), Overwrite::Replace),
        files.create_directory(&name("b")),
    ];
    for refusal in refusals {
        assert_eq!(refusal.unwrap_err().kind(), ErrorKind::Refused);
    }
    assert!(!world.path("b").exists());
}

#[test]
fn content_that_was_altered_on_its_way_is_not_written() {
    let world = World::new();
    let request = Request::Write { path: b"a".to_vec(), content: b"alpha".to_vec(), crc32c: 1, overwrite: 0 };
    let Answer::Failed(failed) = asked(&world, request) else { panic!() };
    assert_eq!(failed.kind, ErrorKind::Corrupted.code());
    assert!(!world.path("a").exists());
}

#[test]
fn a_request_whose_session_is_lost_changes_nothing_any_more() {
    let world = World::new();
    let large = fs::File::create(world.path("large")).unwrap();
    large.set_len(1 << 30).unwrap();
    let target = Target { host: "127.0.0.1".to_owned(), port: world.port, tls: false };
    let session = client::connect(&target, &options(), None).unwrap();
    let request = Request::Copy { from: b"large".to_vec(), to: b"copy".to_vec(), overwrite: 0 };
    session.control.sender.send(&Message::Request(request)).unwrap();
    let limit = Instant::now() + LONG;
    while !world.path(".edt/tmp").exists() {
        assert!(Instant::now() < limit);
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(session);
    while world.path(".edt").exists() {
        assert!(Instant::now() < limit, "the copy goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!world.path("copy").exists());
}

#[test]
fn small_changes_leave_a_server_where_nothing_is_to_be_resumed() {
    let world = World::new();
    let files = world.files(FilesOptions::default());
    files.write(&name("a"), b"alpha", Overwrite::Replace).unwrap();
    files.copy(&name("a"), &name("b"), Overwrite::Replace).unwrap();
    assert!(files.write(&name("a"), b"beta", Overwrite::Never).is_err());
    drop(files);
    let limit = Instant::now() + LONG;
    while world.path(".edt").exists() {
        assert!(Instant::now() < limit, "a session that ended leaves `.edt` behind");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn digests_and_copies_keep_to_the_rate_of_a_worker() {
    let world = World::with(|options| options.worker_rate = Some(1e6));
    fs::write(world.path("a"), vec![7u8; 500_000]).unwrap();
    let copy = Request::Copy { from: b"a".to_vec(), to: b"b".to_vec(), overwrite: 0 };
    for request in [Request::Digest(b"a".to_vec()), copy] {
        let (shown, begun) = (format!("{request:?}"), Instant::now());
        let answer = asked(&world, request);
        assert!(!matches!(answer, Answer::Failed(_)), "{answer:?}");
        assert!(begun.elapsed() > Duration::from_millis(400), "{shown}");
    }
}
