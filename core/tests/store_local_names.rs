//! What the local store makes of names that are reserved, too long, or taken by what is no file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use edt::options::{Fsync, Overwrite, Symlinks};
use edt::path::RelativePath;
use edt::plan::Filter;
use edt::plan::walk::walk;
use edt::protocol::message::Root;
use edt::store::local::LocalStore;
use edt::store::{Depth, Entry, EntryKind, NewFile, Publication, Store};
use edt::{Error, ErrorKind, Result};
use tempfile::tempdir;

fn path(text: &str) -> RelativePath {
    RelativePath::from_user(text).unwrap()
}

fn put(store: &dyn Store, name: &str, content: &[u8], overwrite: Overwrite) -> Result<()> {
    let writer = store.create(&NewFile { size: content.len() as u64, ..NewFile::of(path(name)) })?;
    writer.write_at(0, content)?;
    store.publish(vec![Publication { overwrite, ..Publication::of(writer) }], Fsync::None).remove(0)
}

/// The same directory as a user's own and as the root of a server.
fn both(root: &Path) -> [LocalStore; 2] {
    [LocalStore::open(root, Symlinks::Keep), LocalStore::confined(root, Symlinks::Keep).unwrap()]
}

/// What is found below the root, and what is told as failed.
fn listed(store: &dyn Store) -> (Vec<Entry>, Vec<Error>) {
    let all = store.list(&path(""), Depth::Tree, Arc::new(|_: &RelativePath| false)).unwrap();
    let (found, failed): (Vec<_>, Vec<_>) = all.partition(Result::is_ok);
    (found.into_iter().flatten().collect(), failed.into_iter().filter_map(Result::err).collect())
}

#[test]
fn a_path_that_is_too_long_fails_and_what_is_beside_it_is_listed() {
    let directory = tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    let (name, mode) = ("d".repeat(200), rustix::fs::Mode::RWXU);
    let flags = rustix::fs::OFlags::DIRECTORY;
    let mut at = rustix::fs::open(directory.path(), flags, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..22 {
        rustix::fs::mkdirat(&at, &name, mode).unwrap();
        at = rustix::fs::openat(&at, &name, flags, rustix::fs::Mode::empty()).unwrap();
    }
    for store in both(directory.path()) {
        let (found, failed) = listed(&store);
        assert_eq!(found.len(), 21);
        assert_eq!(failed.len(), 1, "nothing below it is told: {failed:?}");
        assert_eq!((failed[0].kind(), failed[0].path().unwrap().as_bytes().len()), (ErrorKind::InvalidInput, 21 * 201 - 1));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_in_the_way_is_not_replaced() {
    let directory = tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    for store in both(directory.path()) {
        put(&store, "file", b"file", Overwrite::Replace).unwrap();
        put(&store, "file", b"file again", Overwrite::Replace).unwrap();
        for overwrite in [Overwrite::Replace, Overwrite::Never] {
            assert_eq!(put(&store, "pipe", b"file", overwrite).unwrap_err().kind(), ErrorKind::WrongType);
        }
        assert_eq!(store.create_symlink(&path("pipe"), b"file", Overwrite::Replace).unwrap_err().kind(), ErrorKind::WrongType);
        assert_eq!(store.create_directory(&path("pipe")).unwrap_err().kind(), ErrorKind::WrongType);
        let renamed = store.rename(&path("file"), &path("pipe"), Overwrite::Replace);
        assert_eq!(renamed.unwrap_err().kind(), ErrorKind::WrongType);
        assert_eq!(store.stat(&path("pipe")).unwrap().kind, EntryKind::Other);
        assert_eq!(fs::read(directory.path().join("file")).unwrap(), b"file again");
    }
}

/// What a copy of the whole root sends, and what it tells as failed.
fn copied(store: &dyn Store, exclude: &[&str]) -> (Vec<String>, Vec<Error>) {
    let exclude: Vec<_> = exclude.iter().map(|text| (*text).to_owned()).collect();
    let root = Root { path: "".into(), prefix: "p".into() };
    let all = walk(store, &[root], &Filter::new(&[], &exclude).unwrap()).unwrap();
    let (found, failed): (Vec<_>, Vec<_>) = all.partition(Result::is_ok);
    let names = found.into_iter().flatten().map(|item| item.destination.to_string());
    let failed = failed.into_iter().filter_map(Result::err).map(|(destination, error)| {
        assert_eq!(destination, path("p/.edt"));
        error
    });
    (names.collect(), failed.collect())
}

#[test]
fn what_a_user_has_under_the_name_of_the_staging_directory_is_told_by_copies_alone() {
    let directory = tempdir().unwrap();
    let (root, theirs) = (directory.path(), directory.path().join(".edt"));
    fs::write(root.join("file"), "").unwrap();
    let told = |told: bool| {
        for store in both(root) {
            let (found, failed) = copied(&store, &[]);
            assert_eq!(found, ["p", "p/file"]);
            assert!(failed.iter().all(|error| error.kind() == ErrorKind::Unsupported && error.path() == Some(&path(".edt"))));
            assert_eq!(failed.len(), usize::from(told));
            assert!(copied(&store, &[".edt"]).1.is_empty());
            assert!(listed(&store).1.is_empty(), "whoever only looks is not bothered");
        }
    };
    for files in [&["notes"][..], &["deep/er/file", "more"]] {
        for file in files {
            fs::create_dir_all(theirs.join(file).parent().unwrap()).unwrap();
            fs::write(theirs.join(file), "").unwrap();
        }
        told(true);
        fs::remove_dir_all(&theirs).unwrap();
    }
    for made in ["", "00112233445566778899aabbccddeeff", "tmp", "staging", "flight-0011223344556677889900112233445566778899"] {
        fs::create_dir_all(theirs.join(made)).unwrap();
        told(false);
        fs::remove_dir_all(&theirs).unwrap();
    }
    fs::write(&theirs, "a file").unwrap();
    told(true);
    fs::remove_file(&theirs).unwrap();
    symlink("file", &theirs).unwrap();
    told(true);
}
