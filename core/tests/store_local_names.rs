//! What the local store makes of names that are too long, or taken by what is no file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use edt::options::{Fsync, Overwrite, Symlinks};
use edt::path::RelativePath;
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
