//! The suite that every store passes: the contract of [`Store`], one promise a function.
#![allow(clippy::unwrap_used, reason = "a suite fails by panicking")]

mod resuming;

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{ErrorKind, Result};
use crate::options::{Fsync, Overwrite};
use crate::path::RelativePath;
use crate::store::{Depth, Entry, EntryKind, Metadata, NewFile, Prune, Publication, Store, Times, Writer};

type Check = fn(&dyn Store);

const CHECKS: &[(&str, Check)] = &[
    ("a published file reads back", a_published_file_reads_back),
    ("nothing shows before it is published", nothing_shows_before_it_is_published),
    ("missing parents are made at publish", missing_parents_are_made_at_publish),
    ("overwriting follows the rule", overwriting_follows_the_rule),
    ("a directory is never replaced", a_directory_is_never_replaced),
    ("a batch is answered in order", a_batch_is_answered_in_order),
    ("directories are listed before their content", directories_are_listed_before_their_content),
    ("pruned directories are not listed", pruned_directories_are_not_listed),
    ("a file yields itself", a_file_yields_itself),
    ("what is missing is not found", what_is_missing_is_not_found),
    ("directories have time and mode", directories_have_time_and_mode),
    ("links are kept as links", links_are_kept_as_links),
    ("removing reaches as far as asked", removing_reaches_as_far_as_asked),
    ("a partial file is continued", resuming::a_partial_file_is_continued),
    ("a journal is locked and kept", resuming::a_journal_is_locked_and_kept),
    ("threads share a writer and a reader", threads_share_a_writer_and_a_reader),
    ("odd names are kept", odd_names_are_kept),
];

/// Runs the whole suite, each part on a new and empty store.
///
/// # Panics
///
/// Where the store breaks its contract.
pub fn check(make: &dyn Fn() -> Box<dyn Store>) {
    for (name, check) in CHECKS {
        // Shown by the test harness only when the check fails.
        println!("conformance: {name}");
        check(make().as_ref());
    }
}

fn path(text: &str) -> RelativePath {
    RelativePath::from_user(text).unwrap()
}

fn new_file(name: &str, size: usize) -> NewFile {
    NewFile { size: size as u64, ..NewFile::of(path(name)) }
}

fn publication(store: &dyn Store, name: &str, content: &[u8], overwrite: Overwrite) -> Publication {
    let writer = store.create(&new_file(name, content.len())).unwrap();
    writer.write_at(0, content).unwrap();
    Publication { overwrite, ..Publication::of(writer) }
}

fn publish(store: &dyn Store, writer: Box<dyn Writer>, metadata: Metadata, fsync: Fsync) -> Result<()> {
    let mut answers = store.publish(vec![Publication { metadata, ..Publication::of(writer) }], fsync);
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

fn put(store: &dyn Store, name: &str, content: &[u8]) {
    put_with(store, name, content, Overwrite::Replace).unwrap();
}

fn put_with(store: &dyn Store, name: &str, content: &[u8], overwrite: Overwrite) -> Result<()> {
    store.publish(vec![publication(store, name, content, overwrite)], Fsync::None).remove(0)
}

fn content(store: &dyn Store, name: &str) -> Vec<u8> {
    let reader = store.open(&path(name)).unwrap();
    let size = usize::try_from(reader.stat().unwrap().size).unwrap();
    let mut buffer = vec![0; size + 1];
    assert_eq!(reader.read_at(0, &mut buffer).unwrap(), size, "a read beyond the end is cut");
    buffer.truncate(size);
    buffer
}

fn everything() -> Prune {
    Arc::new(|_: &RelativePath| false)
}

fn entries(store: &dyn Store, below: &str, depth: Depth) -> Vec<Entry> {
    store.list(&path(below), depth, everything()).unwrap().map(|entry| entry.unwrap()).collect()
}

fn names(entries: &[Entry]) -> Vec<String> {
    let mut names: Vec<String> = entries.iter().map(|entry| entry.path.to_string()).collect();
    names.sort();
    names
}

fn a_published_file_reads_back(store: &dyn Store) {
    let bytes: Vec<u8> = (0..300_000u32).map(|index| (index % 251) as u8).collect();
    for (name, fsync) in [("none", Fsync::None), ("file", Fsync::File), ("full", Fsync::Full)] {
        let writer = store.create(&new_file(name, bytes.len())).unwrap();
        let (front, back) = bytes.split_at(100_000);
        let mut parts = [(0, front), (100_000, back)];
        if store.capabilities().random_writes {
            parts.reverse();
        }
        for (offset, part) in parts {
            writer.write_at(offset, part).unwrap();
        }
        let metadata = Metadata { modified_ns: Some(1_234_567_890_000_000_000), mode: Some(0o640) };
        publish(store, writer, metadata, fsync).unwrap();
        assert!(content(store, name) == bytes);
        let entry = store.stat(&path(name)).unwrap();
        assert_eq!((entry.kind, entry.size), (EntryKind::File, 300_000));
        if store.capabilities().times != Times::Written {
            assert_eq!(entry.modified_ns, Some(1_234_567_890_000_000_000));
        }
        assert!(entry.mode.is_none_or(|mode| mode == 0o640));
    }
    let reader = store.open(&path("none")).unwrap();
    let mut middle = [0; 100];
    assert_eq!(reader.read_at(150_000, &mut middle).unwrap(), 100);
    assert!(middle == bytes[150_000..150_100]);
    assert_eq!(reader.read_at(300_000, &mut middle).unwrap(), 0);
    assert_eq!(reader.read_at(1 << 40, &mut middle).unwrap(), 0);
}

fn nothing_shows_before_it_is_published(store: &dyn Store) {
    let writer = store.create(&new_file("a/b", 3)).unwrap();
    writer.write_at(0, b"abc").unwrap();
    assert_eq!(store.stat(&path("a/b")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(entries(store, "", Depth::Tree), []);
    writer.abort();
    drop(store.create(&new_file("c", 3)).unwrap());
    assert_eq!(entries(store, "", Depth::Tree), []);
}

fn missing_parents_are_made_at_publish(store: &dyn Store) {
    put(store, "a/b/c/d", b"deep");
    put(store, "a/b/c/e", b"again");
    assert_eq!(content(store, "a/b/c/d"), b"deep");
    assert_eq!(store.stat(&path("a/b")).unwrap().kind, EntryKind::Directory);
    if store.capabilities().directories {
        let error = put_with(store, "a/b/c/d/below", b"a file is above", Overwrite::Replace).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
    }
}

fn overwriting_follows_the_rule(store: &dyn Store) {
    put(store, "a", b"first");
    put(store, "a", b"second, longer");
    put(store, "a", b"third");
    assert_eq!(content(store, "a"), b"third");
    let refused = put_with(store, "a", b"fourth", Overwrite::Never).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{refused}");
    assert_eq!(content(store, "a"), b"third");
    put_with(store, "b/new", b"free name", Overwrite::Never).unwrap();
    assert_eq!(content(store, "b/new"), b"free name");
    assert_eq!(names(&entries(store, "", Depth::Tree)), ["a", "b", "b/new"]);
}

fn a_directory_is_never_replaced(store: &dyn Store) {
    if !store.capabilities().directories {
        return;
    }
    put(store, "a/inside", b"kept");
    for overwrite in [Overwrite::Replace, Overwrite::Never] {
        let error = put_with(store, "a", b"file", overwrite).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
    }
    assert_eq!(content(store, "a/inside"), b"kept");
    assert_eq!(store.open(&path("a")).err().unwrap().kind(), ErrorKind::WrongType);
}

fn a_batch_is_answered_in_order(store: &dyn Store) {
    let taken = store.capabilities().directories;
    if taken {
        store.create_directory(&path("17")).unwrap();
    }
    for fsync in [Fsync::None, Fsync::File, Fsync::Full] {
        let batch = (0..40).map(|number| publication(store, &number.to_string(), b"x", Overwrite::Replace)).collect();
        let answers = store.publish(batch, fsync);
        let failed: Vec<usize> = (0..answers.len()).filter(|index| answers[*index].is_err()).collect();
        assert_eq!((answers.len(), failed), (40, if taken { vec![17] } else { Vec::new() }), "{fsync:?}");
    }
    assert_eq!(entries(store, "", Depth::One).len(), 40);
}

fn directories_are_listed_before_their_content(store: &dyn Store) {
    for name in ["a/1", "a/b/2", "a-b/3", "c"] {
        put(store, name, b"");
    }
    let empty = if store.capabilities().directories { vec!["empty"] } else { Vec::new() };
    for name in &empty {
        store.create_directory(&path(name)).unwrap();
    }
    let listed = entries(store, "", Depth::Tree);
    let mut seen = HashSet::from([RelativePath::root()]);
    for entry in &listed {
        assert!(seen.contains(&entry.path.parent().unwrap()), "{} came before its directory", entry.path);
        seen.insert(entry.path.clone());
    }
    assert_eq!(names(&listed), [&["a", "a-b", "a-b/3", "a/1", "a/b", "a/b/2", "c"], &empty[..]].concat());
    assert_eq!(names(&entries(store, "", Depth::One)), [&["a", "a-b", "c"], &empty[..]].concat());
    assert_eq!(names(&entries(store, "a", Depth::Tree)), ["a/1", "a/b", "a/b/2"]);
    assert_eq!(names(&entries(store, "a", Depth::One)), ["a/1", "a/b"]);
    for name in empty {
        assert_eq!(entries(store, name, Depth::Tree), []);
    }
}

fn pruned_directories_are_not_listed(store: &dyn Store) {
    for name in ["a/b/1", "a-b/2", "b"] {
        put(store, name, b"");
    }
    let prune: Prune = Arc::new(|directory| directory.name() == Some(b"a") || directory.name() == Some(b"b"));
    let listed: Vec<Entry> = store.list(&path(""), Depth::Tree, prune).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(names(&listed), ["a-b", "a-b/2", "b"], "files are not asked about");
}

fn a_file_yields_itself(store: &dyn Store) {
    put(store, "a/b", b"1234");
    for depth in [Depth::One, Depth::Tree] {
        let listed = entries(store, "a/b", depth);
        assert_eq!(names(&listed), ["a/b"]);
        assert_eq!(listed[0].size, 4);
    }
}

fn what_is_missing_is_not_found(store: &dyn Store) {
    let missing = path("no/such");
    let errors = [
        store.stat(&missing).err(),
        store.open(&missing).err(),
        store.list(&missing, Depth::Tree, everything()).err(),
        store.remove(&missing, Depth::Tree).err(),
        store
            .capabilities()
            .directories
            .then(|| store.set_directory_metadata(&missing, &Metadata::default()))
            .and_then(Result::err),
    ];
    let errors = errors.into_iter().take(if store.capabilities().directories { 5 } else { 4 });
    for (index, error) in errors.enumerate() {
        let error = error.unwrap_or_else(|| panic!("operation {index} found what is missing"));
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.what().contains("such"), "the path is named: {error}");
    }
}

fn directories_have_time_and_mode(store: &dyn Store) {
    if !store.capabilities().directories {
        return;
    }
    store.create_directory(&path("a/b")).unwrap();
    store.create_directory(&path("a/b")).unwrap();
    let metadata = Metadata { modified_ns: Some(987_654_321_000_000_000), mode: Some(0o750) };
    store.set_directory_metadata(&path("a/b"), &metadata).unwrap();
    let entry = store.stat(&path("a/b")).unwrap();
    assert_eq!(entry.kind, EntryKind::Directory);
    if store.capabilities().times == Times::Exact {
        assert_eq!(entry.modified_ns, Some(987_654_321_000_000_000));
    }
    assert!(entry.mode.is_none_or(|mode| mode == 0o750));
    store.sync_directories(&[path(""), path("a"), path("a/b")]).unwrap();
    put(store, "file", b"");
    for taken in ["file", "file/below"] {
        let error = store.create_directory(&path(taken)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
    }
}

fn links_are_kept_as_links(store: &dyn Store) {
    if !store.capabilities().symlinks {
        return;
    }
    let target = |name: &str| match store.stat(&path(name)).unwrap().kind {
        EntryKind::Symlink(target) => target.into_vec(),
        other => panic!("`{name}` is no link but {other:?}"),
    };
    put(store, "file", b"untouched");
    store.create_symlink(&path("d/link"), b"../file", Overwrite::Never).unwrap();
    assert_eq!(target("d/link"), b"../file");
    let refused = store.create_symlink(&path("d/link"), b"other", Overwrite::Never).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{refused}");
    store.create_symlink(&path("d/link"), b"/anywhere/at all", Overwrite::Replace).unwrap();
    assert_eq!(target("d/link"), b"/anywhere/at all");
    assert_eq!(store.open(&path("d/link")).err().unwrap().kind(), ErrorKind::WrongType);
    assert_eq!(names(&entries(store, "", Depth::Tree)), ["d", "d/link", "file"]);
    let error = store.create_symlink(&path("d"), b"x", Overwrite::Replace).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
    store.create_symlink(&path("to-file"), b"file", Overwrite::Replace).unwrap();
    put(store, "to-file", b"replaces the link");
    assert_eq!(content(store, "file"), b"untouched");
    assert_eq!(content(store, "to-file"), b"replaces the link");
    store.remove(&path("d/link"), Depth::Tree).unwrap();
    assert_eq!(names(&entries(store, "", Depth::Tree)), ["d", "file", "to-file"]);
}

fn removing_reaches_as_far_as_asked(store: &dyn Store) {
    for name in ["a/b/c", "a/d", "ab", "e"] {
        put(store, name, b"");
    }
    assert!(store.remove(&path("a"), Depth::One).is_err());
    assert_eq!(entries(store, "", Depth::Tree).len(), 6, "a directory that is not empty stays whole");
    store.remove(&path("e"), Depth::One).unwrap();
    store.remove(&path("a"), Depth::Tree).unwrap();
    assert_eq!(names(&entries(store, "", Depth::Tree)), ["ab"]);
    if store.capabilities().directories {
        store.create_directory(&path("empty")).unwrap();
        store.remove(&path("empty"), Depth::One).unwrap();
        assert_eq!(names(&entries(store, "", Depth::Tree)), ["ab"]);
    }
}

fn threads_share_a_writer_and_a_reader(store: &dyn Store) {
    const PART: usize = 10_000;
    if !store.capabilities().random_writes {
        return;
    }
    let writer = store.create(&new_file("a", 8 * PART)).unwrap();
    std::thread::scope(|scope| {
        for part in 0..8u8 {
            let writer = &writer;
            scope.spawn(move || writer.write_at(u64::from(part) * PART as u64, &[part; PART]).unwrap());
        }
    });
    publish(store, writer, Metadata::default(), Fsync::None).unwrap();
    let reader = store.open(&path("a")).unwrap();
    std::thread::scope(|scope| {
        for part in 0..8u8 {
            let reader = &reader;
            scope.spawn(move || {
                let mut buffer = [0xff; PART];
                assert_eq!(reader.read_at(u64::from(part) * PART as u64, &mut buffer).unwrap(), PART);
                assert!(buffer == [part; PART]);
            });
        }
    });
}

fn odd_names_are_kept(store: &dyn Store) {
    let long = "x".repeat(255);
    let odd = [" ", "ä\u{1f980}", "a b", "-rf", ".hidden", "#", "%41", long.as_str()];
    for name in odd {
        put(store, &format!("d/{name}"), name.as_bytes());
    }
    for name in odd {
        assert_eq!(content(store, &format!("d/{name}")), name.as_bytes());
    }
    assert_eq!(entries(store, "d", Depth::One).len(), odd.len());
    #[cfg(target_os = "linux")]
    {
        let raw = RelativePath::from_bytes(b"d/\xff\\\n\x01").unwrap();
        match store.create_directory(&raw) {
            Ok(()) if !store.capabilities().directories => {}
            Ok(()) => assert!(entries(store, "d", Depth::One).iter().any(|entry| entry.path == raw)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}"),
        }
    }
}
