//! What the local store does about symbolic links in the paths that it writes, about flushes of directories, and about leftovers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use edt::options::{Fsync, Overwrite, Symlinks};
use edt::path::RelativePath;
use edt::store::local::LocalStore;
use edt::store::{Depth, Metadata, NewFile, Partial, Publication, Store};
use edt::{Error, ErrorKind, Result};
use tempfile::tempdir;

fn path(text: &str) -> RelativePath {
    RelativePath::from_user(text).unwrap()
}

fn both(root: &Path) -> [LocalStore; 2] {
    [LocalStore::open(root, Symlinks::Keep), LocalStore::confined(root, Symlinks::Keep).unwrap()]
}

fn publication(store: &dyn Store, name: &str, resume: Option<Partial>) -> Publication {
    let writer = store.create(&NewFile { size: 3, resume, ..NewFile::of(path(name)) }).unwrap();
    writer.write_at(0, b"new").unwrap();
    Publication::of(writer)
}

fn put(store: &dyn Store, name: &str, overwrite: Overwrite, fsync: Fsync) -> Result<()> {
    let publication = Publication { overwrite, ..publication(store, name, None) };
    store.publish(vec![publication], fsync).remove(0)
}

/// Everything below a directory, with the content of files, links as links.
fn tree(directory: &Path) -> Vec<(PathBuf, Option<String>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        found.push((path.clone(), fs::read_to_string(&path).ok()));
        if path.is_dir() && !path.is_symlink() {
            found.extend(tree(&path));
        }
    }
    found.sort();
    found
}

fn is_link_in_the_way(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::WrongType, "{error}");
    assert_eq!(error.cause(), Some("a symbolic link stands where a directory should be"), "{error}");
    assert!(error.hint().unwrap().starts_with("remove the link"), "{error}");
}

#[test]
fn nothing_is_written_through_a_link_below_the_root() {
    let directory = tempdir().unwrap();
    let root = directory.path().join("root");
    fs::create_dir_all(root.join("releases/1/sub")).unwrap();
    fs::create_dir_all(root.join("plain")).unwrap();
    fs::create_dir_all(directory.path().join("home/sub")).unwrap();
    fs::write(root.join("releases/1/file"), "old").unwrap();
    fs::write(directory.path().join("home/file"), "old").unwrap();
    symlink("releases/1", root.join("current")).unwrap();
    symlink("../releases/1", root.join("plain/current")).unwrap();
    symlink(directory.path().join("home"), root.join("home")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    for store in both(&root) {
        put(&store, "x", Overwrite::Replace, Fsync::None).unwrap();
        store.remove(&path("x"), Depth::One).unwrap();
        fs::remove_dir_all(root.join(".edt")).unwrap();
        let before = tree(directory.path());
        for link in ["current", "plain/current", "home", "dangling", "current/sub", "home/sub"] {
            for name in ["file", "new", "new/deeper"] {
                let name = format!("{link}/{name}");
                for overwrite in [Overwrite::Replace, Overwrite::Never] {
                    is_link_in_the_way(&put(&store, &name, overwrite, Fsync::Full).unwrap_err());
                    is_link_in_the_way(&store.create_symlink(&path(&name), b"x", overwrite).unwrap_err());
                }
                is_link_in_the_way(&store.create_directory(&path(&name)).unwrap_err());
                is_link_in_the_way(&store.remove(&path(&name), Depth::Tree).unwrap_err());
                is_link_in_the_way(&store.set_directory_metadata(&path(&name), &Metadata::default()).unwrap_err());
            }
            is_link_in_the_way(&store.create_directory(&path(link)).unwrap_err());
            let metadata = Metadata { modified_ns: Some(0), mode: Some(0o777) };
            is_link_in_the_way(&store.set_directory_metadata(&path(link), &metadata).unwrap_err());
        }
        fs::remove_dir_all(root.join(".edt")).unwrap();
        assert_eq!(tree(directory.path()), before);
    }
}

#[test]
fn no_link_leads_a_client_into_the_staging_directory() {
    let directory = tempdir().unwrap();
    let root = directory.path();
    fs::create_dir_all(root.join(".edt/key")).unwrap();
    fs::create_dir_all(root.join("sub/deeper")).unwrap();
    fs::write(root.join(".edt/key/1"), "of another client").unwrap();
    fs::write(root.join("plain"), "plain").unwrap();
    for (link, target) in
        [("staged", ".edt"), ("partial", ".edt/key/1"), ("here", "."), ("sub/up", ".."), ("sub/deeper/over", "../../.edt/key")]
    {
        symlink(target, root.join(link)).unwrap();
    }
    for symlinks in [Symlinks::Keep, Symlinks::Follow, Symlinks::Skip] {
        let store = LocalStore::confined(root, symlinks).unwrap();
        let names = |name: &str, depth| -> Vec<String> {
            let listing = store.list(&path(name), depth, std::sync::Arc::new(|_: &RelativePath| false)).unwrap();
            listing.flatten().map(|entry| entry.path.to_string()).collect()
        };
        for reading in ["here/plain", "sub/up/plain", "here/sub/up/plain"] {
            assert_eq!(store.open(&path(reading)).unwrap().stat().unwrap().size, 5, "{reading}");
            assert_eq!((store.stat(&path(reading)).unwrap().size, names(reading, Depth::One).len()), (5, 1), "{reading}");
        }
        let hidden = ["staged/key", "staged/key/1", "here/.edt", "here/.edt/key/1", "sub/up/.edt/key", "sub/deeper/over/1"];
        let followed = ["staged", "partial", "sub/deeper/over"].iter().filter(|_| symlinks == Symlinks::Follow);
        for hidden in hidden.iter().chain(followed) {
            let nothing = std::sync::Arc::new(|_: &RelativePath| false);
            assert_eq!(store.stat(&path(hidden)).unwrap_err().kind(), ErrorKind::NotFound, "{hidden}");
            assert_eq!(store.open(&path(hidden)).err().unwrap().kind(), ErrorKind::NotFound, "{hidden}");
            assert_eq!(store.list(&path(hidden), Depth::Tree, nothing).err().unwrap().kind(), ErrorKind::NotFound, "{hidden}");
        }
        for (name, depth) in [(".", Depth::Tree), ("sub", Depth::Tree), ("sub/up/sub", Depth::Tree), ("sub/up/.", Depth::One)] {
            let found = names(name, depth);
            let leading = |found: &String| found.contains(".edt") || found.contains("key") || found.ends_with("/1");
            assert!(!found.iter().any(leading), "{name}: {found:?}");
            assert!(symlinks == Symlinks::Skip || !found.is_empty(), "{name}");
        }
    }
}

#[test]
fn a_link_in_the_way_stops_its_own_files_alone() {
    let directory = tempdir().unwrap();
    fs::create_dir(directory.path().join("aside")).unwrap();
    symlink("aside", directory.path().join("link")).unwrap();
    for store in both(directory.path()) {
        let batch = ["a/1", "link/2", "a/3", "4"].map(|name| publication(&store, name, None));
        let published: Vec<bool> = store.publish(batch.into(), Fsync::Full).iter().map(Result::is_ok).collect();
        assert_eq!(published, [true, false, true, true]);
        assert_eq!(fs::read_dir(directory.path().join("aside")).unwrap().count(), 0);
    }
}

#[test]
fn a_link_is_replaced_and_removed_where_it_stands() {
    let directory = tempdir().unwrap();
    fs::create_dir(directory.path().join("aside")).unwrap();
    fs::write(directory.path().join("aside/file"), "old").unwrap();
    for store in both(directory.path()) {
        symlink("aside/file", directory.path().join("link")).unwrap();
        symlink("aside", directory.path().join("tree")).unwrap();
        put(&store, "link", Overwrite::Replace, Fsync::None).unwrap();
        assert_eq!(fs::read(directory.path().join("link")).unwrap(), b"new");
        store.remove(&path("tree"), Depth::Tree).unwrap();
        store.remove(&path("link"), Depth::One).unwrap();
        assert_eq!(fs::read(directory.path().join("aside/file")).unwrap(), b"old");
    }
}

#[test]
fn a_link_that_stands_there_already_needs_no_replacing() {
    let directory = tempdir().unwrap();
    for store in both(directory.path()) {
        for _ in 0..2 {
            store.create_symlink(&path("d/link"), b"../target", Overwrite::Never).unwrap();
        }
        let other = store.create_symlink(&path("d/link"), b"../targe", Overwrite::Never).unwrap_err();
        assert_eq!(other.kind(), ErrorKind::AlreadyExists);
        put(&store, "file", Overwrite::Replace, Fsync::None).unwrap();
        let file = store.create_symlink(&path("file"), b"../target", Overwrite::Never).unwrap_err();
        assert_eq!(file.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_link(directory.path().join("d/link")).unwrap(), Path::new("../target"));
    }
}

#[test]
fn directories_that_were_made_and_removed_again_do_not_fail_a_flush() {
    let directory = tempdir().unwrap();
    let root = directory.path().join("made/with/it");
    for store in [LocalStore::open(&root, Symlinks::Keep), LocalStore::confined(directory.path(), Symlinks::Keep).unwrap()] {
        store.create_directory(&path("a/b/c")).unwrap();
        store.create_directory(&path("x/y")).unwrap();
        store.create_symlink(&path("l/link"), b"target", Overwrite::Never).unwrap();
        store.remove(&path("a"), Depth::Tree).unwrap();
        store.remove(&path("x"), Depth::Tree).unwrap();
        store.create_symlink(&path("x"), b"l", Overwrite::Never).unwrap();
        store.sync_directories(&[path("l")]).unwrap();
        store.create_directory(&path("m/n")).unwrap();
        put(&store, "m/n/file", Overwrite::Never, Fsync::Full).unwrap();
        assert!(store.sync_directories(&[path("a")]).is_err(), "what the caller names must be there");
    }
}

#[test]
fn discarding_removes_the_staged_small_files() {
    let directory = tempdir().unwrap();
    for store in both(directory.path()) {
        let journal = store.journal("k").unwrap();
        let staged = |number: u64| Some(Partial { key: "k".to_owned(), number: (1 << 63) | number });
        let mut files: Vec<Publication> =
            (0..20).map(|number| publication(&store, &format!("small/{number}"), staged(number))).collect();
        assert_eq!(fs::read_dir(directory.path().join(".edt/k")).unwrap().count(), 21);
        let kept = files.split_off(10);
        assert!(store.publish(files, Fsync::None).iter().all(Result::is_ok));
        drop((kept, journal));
        assert_eq!(fs::read_dir(directory.path().join(".edt/k")).unwrap().count(), 11);
        store.discard("k").unwrap();
        assert!(!directory.path().join(".edt").exists());
        assert_eq!(fs::read_dir(directory.path().join("small")).unwrap().count(), 10);
    }
}

#[test]
fn discarding_succeeds_though_something_in_the_staging_directory_stays() {
    let directory = tempdir().unwrap();
    for store in both(directory.path()) {
        drop(store.journal("k").unwrap());
        drop(publication(&store, "file", Some(Partial { key: "k".to_owned(), number: 1 })));
        // Stands for what cannot be removed, as a file that NFS keeps because it is open elsewhere.
        let stuck = directory.path().join(".edt/k/.nfs0001");
        fs::create_dir_all(&stuck).unwrap();
        store.discard("k").unwrap();
        let left: Vec<_> = fs::read_dir(directory.path().join(".edt/k")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [stuck]);
        drop(store.journal("k").unwrap().expect("the key is free for the next transfer"));
    }
}

#[test]
fn a_journal_that_cannot_be_removed_fails_the_discarding() {
    let directory = tempdir().unwrap();
    for store in both(directory.path()) {
        fs::create_dir_all(directory.path().join(".edt/k/journal")).unwrap();
        assert!(store.discard("k").is_err());
    }
}
