//! Files of a server, read by ranges, over real connections.

mod files_support;
mod link_support;

use std::fs;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use edt::files::{Files, FilesOptions};
use edt::link::client::{self, Target};
use edt::options::SecretSource;
use edt::path::RelativePath;
use edt::protocol::message::{Answer, Message, Request};
use edt::store::Depth;
use edt::{Error, ErrorKind, ServeOptions};
use files_support::{MIB, SECRET, World, asked, content, name, options, other, serve};
use link_support::LONG;

fn read(reader: &edt::files::FileReader, offset: usize, length: usize) -> edt::Result<Vec<u8>> {
    let mut buffer = vec![0; length];
    let count = reader.read_at(offset as u64, &mut buffer, &|| Ok(()))?;
    buffer.truncate(count);
    Ok(buffer)
}

#[test]
fn a_file_is_read_from_anywhere_and_to_its_end() {
    let world = World::new();
    let bytes = content(9 * MIB + 17);
    fs::write(world.path("a.bin"), &bytes).unwrap();
    let files = world.files(FilesOptions::default());
    let reader = files.reader(&name("a.bin"), 0..1000).unwrap();
    assert_eq!(reader.entry().size, bytes.len() as u64);
    for (offset, length) in
        [(0, 10), (5 * MIB - 3, 70_000), (990, 20), (9 * MIB, 100), (0, bytes.len()), (9 * MIB + 17, 5), (20 * MIB, 1)]
    {
        let end = (offset + length).min(bytes.len());
        assert!(read(&reader, offset, length).unwrap() == bytes[offset.min(end)..end], "{length} bytes from {offset}");
    }
}

#[test]
fn a_reader_that_goes_on_gets_every_byte_whatever_its_step() {
    let world = World::new();
    let bytes = content(6 * MIB + 1);
    fs::write(world.path("a.bin"), &bytes).unwrap();
    for (step, how) in [(10_000, FilesOptions::default()), (MIB, FilesOptions { connections: 1, read_ahead: 0 })] {
        let reader = world.files(how).reader(&name("a.bin"), 0..0).unwrap();
        let parts: Vec<u8> = (0..bytes.len()).step_by(step).flat_map(|at| read(&reader, at, step).unwrap()).collect();
        assert!(parts == bytes, "in steps of {step}");
    }
}

#[test]
fn threads_share_a_reader() {
    let world = World::new();
    let bytes = Arc::new(content(8 * MIB));
    fs::write(world.path("a.bin"), &*bytes).unwrap();
    let files = world.files(FilesOptions::default());
    let reader = Arc::new(files.reader(&name("a.bin"), 0..0).unwrap());
    files.reader(&name("a.bin"), 0..0).unwrap().expect(&[0..100, 5..10, 0..u64::MAX]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (reader, bytes) = (Arc::clone(&reader), Arc::clone(&bytes));
            scope.spawn(move || {
                for turn in 0..20usize {
                    let at = (turn * 7 + thread * 3) * 262_139 % (7 * MIB);
                    assert!(read(&reader, at, 300_000).unwrap() == bytes[at..at + 300_000]);
                }
            });
        }
    });
}

#[test]
fn a_file_that_changed_since_it_was_opened_is_an_error() {
    let world = World::new();
    let files = world.files(FilesOptions::default());
    let changes: [&dyn Fn(&Path); 4] = [
        &|path| fs::write(path, content(3 * MIB + 1)).unwrap(),
        &|path| fs::write(path, content(MIB)).unwrap(),
        &|path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(5)).unwrap();
        },
        &|path| {
            fs::write(path.with_extension("new"), content(3 * MIB)).unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        fs::write(world.path("a.bin"), content(3 * MIB)).unwrap();
        let reader = files.reader(&name("a.bin"), 0..0).unwrap();
        read(&reader, 0, 10).unwrap();
        change(&world.path("a.bin"));
        assert_eq!(read(&reader, 2 * MIB, 10).unwrap_err().kind(), ErrorKind::SourceChanged, "change {number}");
    }
    let reader = files.reader(&name("a.bin"), 0..0).unwrap();
    fs::remove_file(world.path("a.bin")).unwrap();
    assert_eq!(read(&reader, 2 * MIB, 10).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_local_file_that_changed_since_it_was_opened_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let (path, bytes) = (place.path().join("a.bin"), content(6 * MIB));
    fs::write(&path, &bytes).unwrap();
    let files = Files::open(&place.path().into(), &options()).unwrap();
    let reader = files.reader(&name("a.bin"), 0..0).unwrap();
    assert!(read(&reader, 0, 100).unwrap() == bytes[..100]);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(5)).unwrap();
    assert_eq!(read(&reader, 5 * MIB, 100).unwrap_err().kind(), ErrorKind::SourceChanged);
    let reader = files.reader(&name("a.bin"), 0..0).unwrap();
    fs::write(path.with_extension("new"), content(10)).unwrap();
    fs::rename(path.with_extension("new"), &path).unwrap();
    assert!(read(&reader, 5 * MIB, 100).unwrap() == bytes[5 * MIB..5 * MIB + 100], "the file that was opened is as it was");
}

#[test]
fn what_is_no_file_below_the_root_is_not_read() {
    let world = World::new();
    fs::create_dir(world.path("directory")).unwrap();
    fs::write(world.path("a.bin"), "alpha").unwrap();
    fs::write(world.place.path().join("outside"), "secret").unwrap();
    let kind = |path: &str| world.files(FilesOptions::default()).reader(&name(path), 0..10).err().map(|error| error.kind());
    assert_eq!(kind("none"), Some(ErrorKind::NotFound));
    assert_eq!(kind("directory"), Some(ErrorKind::WrongType));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("a.bin", world.path("inside")).unwrap();
        std::os::unix::fs::symlink("../outside", world.path("escaping")).unwrap();
        assert_eq!(kind("inside"), None);
        assert!(kind("escaping").is_some());
    }
}

#[test]
fn a_server_that_went_away_and_came_back_is_asked_again() {
    let mut world = World::new();
    let bytes = content(4 * MIB);
    fs::write(world.path("a.bin"), &bytes).unwrap();
    let files = world.files(FilesOptions::default());
    let reader = files.reader(&name("a.bin"), 0..0).unwrap();
    assert!(read(&reader, 0, 100).unwrap() == bytes[..100]);
    world.end();
    let options = ServeOptions {
        listen: format!("127.0.0.1:{}", world.port),
        secret: SecretSource::Text(SECRET.to_owned()),
        identity: Some(world.place.path().join("identity.pem")),
        ..ServeOptions::new(world.path(""))
    };
    let (_, handle, _) = serve(options);
    assert!(read(&reader, 2 * MIB, MIB).unwrap() == bytes[2 * MIB..3 * MIB]);
    handle.shutdown();
    handle.shutdown();
}

#[test]
fn a_server_that_is_gone_is_an_error_within_seconds() {
    let mut world = World::new();
    fs::write(world.path("a.bin"), content(MIB)).unwrap();
    let files = world.files(FilesOptions::default());
    let reader = files.reader(&name("a.bin"), 0..0).unwrap();
    world.end();
    let began = Instant::now();
    assert_eq!(read(&reader, 0, 10).unwrap_err().kind(), ErrorKind::Unreachable);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let stop = || Err(Error::new(ErrorKind::Cancelled, "no more"));
    let cancelled = reader.read_at(600_000, &mut [0; 10], &stop).unwrap_err();
    assert_eq!(cancelled.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_server_that_takes_few_sessions_is_read_with_those() {
    let world = World::with(|options| options.max_sessions = 2);
    let bytes = content(12 * MIB);
    fs::write(world.path("a.bin"), &bytes).unwrap();
    let reader = world.files(FilesOptions::default()).reader(&name("a.bin"), 0..0).unwrap();
    assert!(read(&reader, 0, bytes.len()).unwrap() == bytes);
}

#[test]
fn who_asks_while_it_lists_does_not_wait_for_itself_once_a_full_server_has_room() {
    let world = World::with(|options| options.max_sessions = 2);
    fs::write(world.path("a.bin"), content(8 * MIB)).unwrap();
    (0..200).for_each(|number| fs::write(world.path(&number.to_string()), "x").unwrap());
    let busy = other(&world);
    let files = world.files(FilesOptions::default());
    let reader = files.reader(&name("a.bin"), 0..0).unwrap();
    read(&reader, 0, 8 * MIB).unwrap();
    drop(busy);
    let (done, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut listing = files.list(&RelativePath::root(), Depth::One).unwrap();
        listing.next().unwrap().unwrap();
        done.send(files.stat(&name("a.bin")).map(|entry| entry.size)).unwrap();
        done.send(Ok(listing.count() as u64)).unwrap();
    });
    assert_eq!(asked.recv_timeout(LONG).unwrap().unwrap(), 8 << 20);
    assert_eq!(asked.recv_timeout(LONG).unwrap().unwrap(), 200);
}

#[test]
fn a_range_that_claims_everything_costs_the_server_one_part() {
    let world = World::with(|options| options.max_streams = NonZeroU16::MIN);
    fs::write(world.path("a"), "alpha").unwrap();
    let ask = |offset, length| asked(&world, Request::Read { path: b"a".to_vec(), offset, length });
    let ranges: [(u64, u64, &[u8]); 4] =
        [(0, u64::MAX >> 1, b"alpha"), (3, 1 << 62, b"ha"), (1 << 62, 1 << 62, b""), (2, 0, b"")];
    for (offset, length, expected) in ranges {
        if let Answer::Bytes { bytes, last, state, .. } = ask(offset, length) {
            assert_eq!((&bytes[..], last, state.size), (expected, true, 5));
        } else {
            // A file system may refuse to look behind the largest file that it could hold.
            assert_eq!(offset, 1 << 62);
        }
    }
    for (offset, length) in [(u64::MAX, 1), (1, u64::MAX), (1 << 63, 0)] {
        let Answer::Failed(failed) = ask(offset, length) else { panic!() };
        assert_eq!(failed.kind, ErrorKind::InvalidInput.code());
    }
    let Answer::Failed(outside) = asked(&world, Request::Read { path: b"../a".to_vec(), offset: 0, length: 1 }) else { panic!() };
    assert_eq!(outside.kind, ErrorKind::InvalidInput.code());
}

#[test]
fn a_digest_that_nobody_waits_for_keeps_no_place_at_the_server() {
    let world = World::with(|options| {
        options.max_sessions = 1;
        options.worker_rate = Some(4e6);
    });
    // Reading it takes a minute at that rate, on a machine of any speed.
    fs::File::create(world.path("large")).unwrap().set_len(256 << 20).unwrap();
    let waiting = other(&world);
    waiting.control.sender.send(&Message::Request(Request::Digest(b"large".to_vec()))).unwrap();
    assert!(waiting.control.receiver.recv_timeout(Duration::from_millis(200)).is_err());
    drop(waiting);
    let begun = Instant::now();
    while stands(&world).is_none() {
        assert!(begun.elapsed() < LONG, "the server still reads what nobody waits for");
    }
}

/// What the server says of its root; nothing if it takes no session.
fn stands(world: &World) -> Option<Answer> {
    let target = Target { host: "127.0.0.1".to_owned(), port: world.port, tls: false };
    let session = client::connect(&target, &options(), None).ok()?;
    session.control.sender.send(&Message::Request(Request::Stat(Vec::new()))).ok()?;
    match session.control.receiver.recv_timeout(LONG).ok()? {
        Message::Answer(answer) => Some(answer),
        _ => None,
    }
}
