//! What a store keeps for a transfer that goes on in another process.
#![allow(clippy::unwrap_used, reason = "a suite fails by panicking")]

use std::io::{Read, Seek, Write};

use super::{content, entries, names, new_file, publish};
use crate::error::ErrorKind;
use crate::options::Fsync;
use crate::store::{Depth, Metadata, NewFile, Partial, Store, Writer};

pub(super) fn a_partial_file_is_continued(store: &dyn Store) {
    if !store.capabilities().reads_back {
        return a_kept_part_is_continued(store);
    }
    let partial = |number| Some(Partial { key: "00ff".to_owned(), number });
    let file = NewFile { resume: partial(7), ..new_file("deep/big", 10) };
    let writer = store.create(&file).unwrap();
    writer.write_at(0, b"01234").unwrap();
    drop(writer);
    assert_eq!(entries(store, "", Depth::Tree), []);
    let writer = store.create(&file).unwrap();
    let mut kept = [0; 5];
    assert_eq!(writer.read_at(0, &mut kept).unwrap(), 5);
    assert_eq!(&kept, b"01234");
    writer.write_at(5, b"56789").unwrap();
    publish(store, writer, Metadata::default(), Fsync::File).unwrap();
    assert_eq!(content(store, "deep/big"), b"0123456789");

    let other = NewFile { resume: partial(8), ..new_file("other", 5) };
    store.create(&other).unwrap().write_at(0, b"stale").unwrap();
    store.create(&other).unwrap().abort();
    let mut fresh = [1; 5];
    let count = store.create(&other).unwrap().read_at(0, &mut fresh).unwrap();
    assert!(fresh[..count].iter().all(|byte| *byte == 0), "an aborted partial file starts afresh");
    if store.capabilities().holes {
        store.create(&other).unwrap().write_at(0, b"stale").unwrap();
        let count = store.create(&NewFile { fresh: true, ..other.clone() }).unwrap().read_at(0, &mut fresh).unwrap();
        assert!(fresh[..count].iter().all(|byte| *byte == 0), "nothing shows of what was left where a file begins");
    }
    store.create(&other).unwrap().write_at(0, b"stale").unwrap();
    store.discard("00ff").unwrap();
    let count = store.create(&other).unwrap().read_at(0, &mut fresh).unwrap();
    assert!(fresh[..count].iter().all(|byte| *byte == 0), "a discarded partial file starts afresh");
    store.discard("00ff").unwrap();
    store.discard("00ff").unwrap();
    assert_eq!(names(&entries(store, "", Depth::Tree)), ["deep", "deep/big"]);
}

/// What a store keeps without reading it back is not written again.
fn a_kept_part_is_continued(store: &dyn Store) {
    const BLOCK: usize = 256 << 10;
    const ATTEMPTS: usize = 10;
    let bytes: Vec<u8> = (0..20u32 << 20).map(|index| (index / 4093 % 251).to_le_bytes()[0]).collect();
    let file = NewFile { resume: Some(Partial { key: "00ff".to_owned(), number: 7 }), ..new_file("deep/big", bytes.len()) };
    let write = |writer: &dyn Writer, blocks: &mut dyn Iterator<Item = usize>| {
        blocks.for_each(|at| writer.write_at((at * BLOCK) as u64, &bytes[at * BLOCK..(at + 1) * BLOCK]).unwrap());
    };
    let resumable = store.capabilities().resumable;
    let is_kept = |writer: &dyn Writer, at: usize| writer.kept().iter().any(|range| range.contains(&((at * BLOCK) as u64)));
    // What is on its way when a writer goes may be lost: a busy service has kept nothing the first time.
    let interrupted = || {
        let writer = store.create(&file).unwrap();
        write(writer.as_ref(), &mut (0..50).filter(|at| !is_kept(writer.as_ref(), *at)));
        drop(writer);
        assert_eq!(entries(store, "", Depth::Tree), []);
        store.create(&file).unwrap()
    };
    let mut attempts = std::iter::repeat_with(interrupted).take(if resumable { ATTEMPTS } else { 1 });
    let writer = attempts.find(|writer| writer.kept().is_empty() != resumable).expect("kept is what was written, if it can be");
    write(writer.as_ref(), &mut (0..80).filter(|at| !is_kept(writer.as_ref(), *at)));
    publish(store, writer, Metadata::default(), Fsync::File).unwrap();
    assert!(content(store, "deep/big") == bytes);

    let other = NewFile { resume: Some(Partial { key: "00ff".to_owned(), number: 8 }), ..new_file("other", bytes.len()) };
    for end in [Writer::abort as fn(Box<dyn Writer>), drop] {
        let writer = store.create(&other).unwrap();
        write(writer.as_ref(), &mut (0..50));
        end(writer);
    }
    store.discard("00ff").unwrap();
    assert_eq!(store.create(&other).unwrap().kept(), []);
    store.discard("00ff").unwrap();
    assert_eq!(names(&entries(store, "", Depth::Tree)), ["deep", "deep/big"]);
}

pub(super) fn a_journal_is_locked_and_kept(store: &dyn Store) {
    let Some(mut journal) = store.journal("a1").unwrap() else {
        assert!(!store.capabilities().resumable);
        return;
    };
    journal.write_all(b"one").unwrap();
    assert_eq!(store.journal("a1").unwrap_err().kind(), ErrorKind::AlreadyExists);
    let other = store.journal("b2").unwrap().unwrap();
    drop(journal);
    let mut journal = store.journal("a1").unwrap().unwrap();
    journal.write_all(b" two").unwrap();
    journal.rewind().unwrap();
    let mut text = String::new();
    journal.read_to_string(&mut text).unwrap();
    assert_eq!(text, "one two");
    assert_eq!(entries(store, "", Depth::Tree), []);
    drop(journal);
    store.discard("a1").unwrap();
    assert_eq!(store.journal("a1").unwrap().unwrap().metadata().unwrap().len(), 0);
    drop(other);
    for bad in ["", "..", "a/b", "tmp"] {
        assert_eq!(store.journal(bad).unwrap_err().kind(), ErrorKind::InvalidInput, "{bad:?}");
    }
}
