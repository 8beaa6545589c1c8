//! Every store passes the suite, and so does every wrapper around one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use edt::options::Symlinks;
use edt::store::Store;
use edt::store::local::LocalStore;
use edt::store::memory::MemoryStore;
use edt::store::throttled::{Rates, ThrottledStore};
use edt::testing::conformance::check;
use edt::testing::faulty::{Faults, FaultyStore};
use tempfile::TempDir;

/// Checks a store that is made in a new directory each time.
fn check_in_directories(make: impl Fn(PathBuf) -> Box<dyn Store>) {
    let directories: RefCell<Vec<TempDir>> = RefCell::default();
    check(&|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        directories.borrow_mut().push(directory);
        make(path)
    });
}

#[test]
fn the_memory_store_conforms() {
    check(&|| Box::new(MemoryStore::new()));
}

#[test]
fn the_local_store_conforms() {
    check_in_directories(|path| Box::new(LocalStore::open(&path, Symlinks::Keep)));
}

#[test]
fn the_local_store_makes_a_root_that_does_not_exist() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("not/yet");
    let store = LocalStore::open(&root, Symlinks::Keep);
    store.create_directory(&edt::path::RelativePath::from_user("a").unwrap()).unwrap();
    assert!(root.join("a").is_dir());
}

#[test]
fn the_confined_local_store_conforms() {
    check_in_directories(|path| Box::new(LocalStore::confined(&path, Symlinks::Keep).unwrap()));
}

#[test]
fn the_throttled_store_conforms() {
    let rates = Rates { read: Some(1e9), write: Some(1e9) };
    check(&|| Box::new(ThrottledStore::new(Arc::new(MemoryStore::new()), rates)));
    check_in_directories(|path| Box::new(ThrottledStore::new(Arc::new(LocalStore::open(&path, Symlinks::Keep)), rates)));
}

#[test]
fn the_faulty_store_without_faults_conforms() {
    check(&|| Box::new(FaultyStore::new(Arc::new(MemoryStore::new()), Faults::default())));
}
