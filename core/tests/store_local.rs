//! What the local store promises beyond the suite: confinement, links, staging, and what file systems do to it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use edt::options::{Fsync, Overwrite, Symlinks};
use edt::path::RelativePath;
use edt::store::local::LocalStore;
use edt::store::{Depth, Entry, EntryKind, Metadata, NewFile, Partial, Publication, Store};
use edt::{ErrorKind, Result};
use tempfile::{TempDir, tempdir};

fn path(text: &str) -> RelativePath {
    RelativePath::from_user(text).unwrap()
}

fn new_file(name: &str, size: u64) -> NewFile {
    NewFile { size, ..NewFile::of(path(name)) }
}

fn put(store: &dyn Store, name: &str, content: &[u8], overwrite: Overwrite) -> Result<()> {
    let writer = store.create(&new_file(name, content.len() as u64))?;
    writer.write_at(0, content)?;
    store.publish(vec![Publication { overwrite, ..Publication::of(writer) }], Fsync::None).remove(0)
}

fn list(store: &dyn Store) -> Vec<Result<Entry>> {
    let mut found: Vec<_> = store.list(&path(""), Depth::Tree, Arc::new(|_: &RelativePath| false)).unwrap().collect();
    found.sort_by_key(|entry| entry.as_ref().map_or_else(ToString::to_string, |entry| entry.path.to_string()));
    found
}

fn listed(store: &dyn Store) -> Vec<String> {
    list(store).into_iter().filter_map(|entry| Some(entry.ok()?.path.to_string())).collect()
}

/// A root with every known way out of it, beside a directory that must not be reached.
fn prison() -> (TempDir, LocalStore) {
    let outside = tempdir().unwrap();
    fs::create_dir_all(outside.path().join("root/inside")).unwrap();
    fs::create_dir(outside.path().join("secret")).unwrap();
    fs::write(outside.path().join("secret/file"), "secret").unwrap();
    let root = outside.path().join("root");
    symlink(outside.path().join("secret"), root.join("absolute")).unwrap();
    symlink("../secret", root.join("relative")).unwrap();
    symlink("../../secret", root.join("inside/deeper")).unwrap();
    symlink("..", root.join("up")).unwrap();
    let store = LocalStore::confined(&root, Symlinks::Follow).unwrap();
    (outside, store)
}

const WAYS_OUT: [&str; 4] = ["absolute", "relative", "inside/deeper", "up/secret"];

#[test]
fn nothing_outside_a_confined_root_is_read() {
    let (_outside, store) = prison();
    for way in WAYS_OUT {
        let file = path(&format!("{way}/file"));
        assert!(store.stat(&file).is_err(), "{way}");
        assert!(store.open(&file).is_err(), "{way}");
        assert!(store.stat(&path(way)).is_err(), "{way}");
        assert!(store.list(&path(way), Depth::Tree, Arc::new(|_: &RelativePath| false)).is_err(), "{way}");
    }
    assert_eq!(listed(&store), ["inside"], "links that lead out are not listed as what they lead to");
    assert_eq!(list(&store).iter().filter(|entry| entry.is_err()).count(), 4);
}

#[test]
fn nothing_outside_a_confined_root_is_changed() {
    let (outside, store) = prison();
    for way in WAYS_OUT {
        for (name, overwrite) in [("file", Overwrite::Replace), ("new", Overwrite::Never), ("a/b", Overwrite::Replace)] {
            let name = format!("{way}/{name}");
            assert!(put(&store, &name, b"changed", overwrite).is_err(), "{name}");
            assert!(store.create_symlink(&path(&name), b"x", overwrite).is_err(), "{name}");
        }
        assert!(store.create_directory(&path(&format!("{way}/new"))).is_err(), "{way}");
        assert!(store.remove(&path(&format!("{way}/file")), Depth::One).is_err(), "{way}");
        assert!(store.set_directory_metadata(&path(way), &Metadata { modified_ns: Some(0), mode: Some(0o777) }).is_err());
        assert!(store.sync_directories(&[path(way)]).is_err(), "{way}");
    }
    let left: Vec<_> = fs::read_dir(outside.path().join("secret")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["file"]);
    assert_eq!(fs::read_to_string(outside.path().join("secret/file")).unwrap(), "secret");
}

#[test]
fn removing_a_link_that_leads_out_removes_the_link_alone() {
    let (outside, store) = prison();
    store.remove(&path("absolute"), Depth::Tree).unwrap();
    store.remove(&path("inside"), Depth::Tree).unwrap();
    assert!(outside.path().join("secret/file").is_file());
    assert!(store.remove(&path(""), Depth::Tree).is_err(), "the root stays");
}

#[test]
fn a_directory_swapped_for_a_link_while_a_file_is_written_leads_nowhere() {
    let (outside, store) = prison();
    put(&store, "victim/first", b"1", Overwrite::Replace).unwrap();
    let writer = store.create(&new_file("victim/second", 1)).unwrap();
    writer.write_at(0, b"2").unwrap();
    let root = outside.path().join("root");
    fs::rename(root.join("victim"), root.join("moved")).unwrap();
    symlink(outside.path().join("secret"), root.join("victim")).unwrap();
    let publication = Publication::of(writer);
    assert!(store.publish(vec![publication], Fsync::File)[0].is_err());
    assert!(!outside.path().join("secret/second").exists());
}

#[test]
fn the_staging_directory_has_no_name_for_callers() {
    let directory = tempdir().unwrap();
    for store in
        [LocalStore::open(directory.path(), Symlinks::Keep), LocalStore::confined(directory.path(), Symlinks::Keep).unwrap()]
    {
        let journal = store.journal("k").unwrap();
        for name in [".edt", ".edt/k/journal", ".edt/new"] {
            let name = path(name);
            let refused = [
                store.stat(&name).err(),
                store.open(&name).err(),
                store.list(&name, Depth::Tree, Arc::new(|_: &RelativePath| false)).err(),
                store.create(&NewFile::of(name.clone())).err(),
                store.create_directory(&name).err(),
                store.set_directory_metadata(&name, &Metadata::default()).err(),
                store.create_symlink(&name, b"x", Overwrite::Replace).err(),
                store.remove(&name, Depth::Tree).err(),
                store.sync_directories(std::slice::from_ref(&name)).err(),
            ];
            assert!(refused.iter().all(|error| error.as_ref().is_some_and(|error| error.kind() == ErrorKind::NotFound)));
        }
        put(&store, "deeper/.edt", b"only the root's is taken", Overwrite::Replace).unwrap();
        assert_eq!(listed(&store), ["deeper", "deeper/.edt"]);
        drop(journal);
        store.discard("k").unwrap();
    }
    assert!(!directory.path().join(".edt").exists(), "the last transfer removes the staging directory");
}

#[test]
fn a_file_is_private_until_it_is_published() {
    let directory = tempdir().unwrap();
    let store = LocalStore::open(directory.path(), Symlinks::Keep);
    let resume = Some(Partial { key: "k".to_owned(), number: 1 });
    let writer = store.create(&NewFile { resume, ..new_file("a", 3) }).unwrap();
    writer.write_at(0, b"abc").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&directory.path().join(".edt")), 0o700);
    assert_eq!(mode(&directory.path().join(".edt/k/1")), 0o600);
    let metadata = Metadata { modified_ns: None, mode: Some(0o6755) };
    store.publish(vec![Publication { metadata, ..Publication::of(writer) }], Fsync::File).remove(0).unwrap();
    assert_eq!(mode(&directory.path().join("a")), 0o755, "set-user and set-group are not carried over");
    put(&store, "b", b"", Overwrite::Replace).unwrap();
    fs::write(directory.path().join("c"), "").unwrap();
    assert_eq!(mode(&directory.path().join("b")), mode(&directory.path().join("c")), "without a mode the umask decides");
}

#[test]
fn a_dropped_writer_leaves_a_partial_file_only_for_resuming() {
    let directory = tempdir().unwrap();
    let store = LocalStore::open(directory.path(), Symlinks::Keep);
    drop(store.create(&new_file("a", 3)).unwrap());
    assert_eq!(fs::read_dir(directory.path().join(".edt/tmp")).unwrap().count(), 0);
    fs::create_dir(directory.path().join("d")).unwrap();
    assert!(put(&store, "d", b"", Overwrite::Replace).is_err());
    assert_eq!(fs::read_dir(directory.path().join(".edt/tmp")).unwrap().count(), 0, "a refused file is removed");
    let resume = Some(Partial { key: "k".to_owned(), number: 1 });
    let writer = store.create(&NewFile { resume, ..new_file("d", 3) }).unwrap();
    let publication = Publication::of(writer);
    assert_eq!(store.publish(vec![publication], Fsync::None).remove(0).unwrap_err().kind(), ErrorKind::WrongType);
    assert!(directory.path().join(".edt/k/1").exists(), "a refused partial file waits for the next attempt");
    let resume = Some(Partial { key: "k".to_owned(), number: Partial::SMALL_FILES });
    let small = store.create(&NewFile { resume, ..new_file("d", 3) }).unwrap();
    assert!(store.publish(vec![Publication::of(small)], Fsync::None).remove(0).is_err());
    assert_eq!(fs::read_dir(directory.path().join(".edt/k")).unwrap().count(), 1, "no attempt goes on with a small file");
}

#[test]
fn a_file_that_cannot_have_its_size_leaves_only_what_was_there() {
    let directory = tempdir().unwrap();
    let store = LocalStore::open(directory.path(), Symlinks::Keep);
    let partial = |fresh, size| {
        let resume = Some(Partial { key: "k".to_owned(), number: 1 });
        store.create(&NewFile { resume, fresh, ..new_file("large", size) })
    };
    let staged = directory.path().join(".edt/k/1");
    // No system takes such a length.
    assert!(partial(true, 1 << 63).is_err());
    assert!(!staged.exists());
    partial(true, 3).unwrap().write_at(0, b"old").unwrap();
    assert!(partial(false, 1 << 63).is_err());
    assert_eq!(fs::read(&staged).unwrap(), b"old");
}

#[test]
fn a_removed_staging_directory_is_made_again() {
    let directory = tempdir().unwrap();
    for store in
        [LocalStore::open(directory.path(), Symlinks::Keep), LocalStore::confined(directory.path(), Symlinks::Keep).unwrap()]
    {
        put(&store, "a", b"1", Overwrite::Replace).unwrap();
        fs::remove_dir_all(directory.path().join(".edt")).unwrap();
        put(&store, "a", b"2", Overwrite::Replace).unwrap();
        store.create_symlink(&path("a"), b"b", Overwrite::Replace).unwrap();
    }
}

#[test]
fn followed_links_end_at_loops() {
    let directory = tempdir().unwrap();
    fs::create_dir_all(directory.path().join("a/b")).unwrap();
    fs::write(directory.path().join("a/file"), "x").unwrap();
    symlink("../..", directory.path().join("a/b/loop")).unwrap();
    symlink("self", directory.path().join("self")).unwrap();
    symlink("nowhere", directory.path().join("dangling")).unwrap();
    symlink("a", directory.path().join("again")).unwrap();
    for store in
        [LocalStore::open(directory.path(), Symlinks::Follow), LocalStore::confined(directory.path(), Symlinks::Follow).unwrap()]
    {
        let found = list(&store);
        let errors: Vec<String> = found.iter().filter_map(|entry| entry.as_ref().err()).map(ToString::to_string).collect();
        for named in ["dangling", "self", "a/b/loop", "again/b/loop"] {
            assert!(errors.iter().any(|error| error.contains(named)), "{named} is not in {errors:?}");
        }
        let names = listed(&store);
        assert!(names.contains(&"again/file".to_owned()));
        assert!(found.iter().flatten().all(|entry| !matches!(entry.kind, EntryKind::Symlink(_))));
        assert_eq!(store.stat(&path("again/file")).unwrap().size, 1);
    }
}

#[test]
fn skipped_links_are_left_out() {
    let directory = tempdir().unwrap();
    fs::write(directory.path().join("file"), "x").unwrap();
    symlink("file", directory.path().join("link")).unwrap();
    assert_eq!(listed(&LocalStore::open(directory.path(), Symlinks::Skip)), ["file"]);
    assert_eq!(listed(&LocalStore::open(directory.path(), Symlinks::Keep)), ["file", "link"]);
}

#[test]
fn a_root_is_reached_through_links() {
    let (directory, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    symlink(elsewhere.path(), directory.path().join("link")).unwrap();
    fs::create_dir(elsewhere.path().join("deeper")).unwrap();
    for root in ["link", "link/deeper", "link/new"] {
        let store = LocalStore::open(&directory.path().join(root), Symlinks::Keep);
        put(&store, "sub/file", b"through", Overwrite::Replace).unwrap();
        store.set_directory_metadata(&path(""), &Metadata::default()).unwrap();
        store.sync_directories(&[path(""), path("sub")]).unwrap();
    }
    for sub in ["sub", "deeper/sub", "new/sub"] {
        assert_eq!(fs::read(elsewhere.path().join(sub).join("file")).unwrap(), b"through");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_crosses_to_another_file_system_whole() {
    let memory = Path::new("/dev/shm");
    let directory = tempdir().unwrap();
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    if device(memory).is_none() || device(memory) == device(directory.path()) {
        return;
    }
    let other = tempfile::tempdir_in(memory).unwrap();
    symlink(other.path(), directory.path().join(".edt")).unwrap();
    let store = LocalStore::open(directory.path(), Symlinks::Keep);
    put(&store, "a/file", b"first", Overwrite::Replace).unwrap();
    put(&store, "a/file", b"second", Overwrite::Replace).unwrap();
    assert_eq!(put(&store, "a/file", b"third", Overwrite::Never).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(directory.path().join("a/file")).unwrap(), b"second");
    assert_eq!(fs::read_dir(directory.path().join("a")).unwrap().count(), 1, "nothing else is left there");
    assert_eq!(fs::read_dir(other.path().join("tmp")).unwrap().count(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn pipes_are_neither_opened_nor_waited_for() {
    let directory = tempdir().unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, directory.path().join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    for store in
        [LocalStore::open(directory.path(), Symlinks::Keep), LocalStore::confined(directory.path(), Symlinks::Keep).unwrap()]
    {
        assert_eq!(store.open(&path("pipe")).err().unwrap().kind(), ErrorKind::WrongType);
        assert_eq!(store.stat(&path("pipe")).unwrap().kind, EntryKind::Other);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn holes_are_kept_and_found() {
    const SIZE: u64 = 64 << 20;
    let directory = tempdir().unwrap();
    let store = LocalStore::open(directory.path(), Symlinks::Keep);
    let writer = store.create(&NewFile { sparse: true, ..new_file("a", SIZE) }).unwrap();
    writer.write_at(32 << 20, &vec![1; 65536]).unwrap();
    store.publish(vec![Publication::of(writer)], Fsync::File);
    let entry = store.stat(&path("a")).unwrap();
    assert!(entry.sparse && entry.size == SIZE);
    let reader = store.open(&path("a")).unwrap();
    assert_eq!(reader.hole(0), Some(32 << 20));
    assert_eq!(reader.hole(32 << 20), None);
    assert_eq!(reader.hole(48 << 20), Some(SIZE));
    assert_eq!(reader.hole(SIZE), None);
    let dense = store.create(&new_file("b", 8 << 20)).unwrap();
    store.publish(vec![Publication::of(dense)], Fsync::None);
    let blocks = fs::metadata(directory.path().join("b")).unwrap().blocks();
    assert!(blocks * 512 >= 8 << 20, "space for a dense file is taken at once");
}

#[test]
fn an_unreadable_directory_does_not_end_the_listing() {
    let directory = tempdir().unwrap();
    for name in ["a", "b", "c"] {
        fs::create_dir(directory.path().join(name)).unwrap();
        fs::write(directory.path().join(name).join("file"), "").unwrap();
    }
    let locked = directory.path().join("b");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser reads it all the same.
    let readable = fs::read_dir(&locked).is_ok();
    let (names, found) = {
        let store = LocalStore::open(directory.path(), Symlinks::Keep);
        (listed(&store), list(&store))
    };
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
    if !readable {
        assert_eq!(names, ["a", "a/file", "b", "c", "c/file"]);
        let error = found.into_iter().find_map(Result::err).unwrap();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.what().contains("/b`"), "{error}");
    }
}

#[test]
fn a_root_that_is_a_file_is_all_there_is() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "content").unwrap();
    let store = LocalStore::open(&file, Symlinks::Keep);
    assert_eq!(list(&store).len(), 1);
    let mut buffer = [0; 7];
    store.open(&path("")).unwrap().read_at(0, &mut buffer).unwrap();
    assert_eq!(&buffer, b"content");
}

#[test]
fn only_what_is_old_in_all_its_parts_is_abandoned() {
    let directory = tempdir().unwrap();
    let store = LocalStore::open(directory.path(), Symlinks::Keep);
    let now = SystemTime::now();
    let hour = Duration::from_hours(1);
    let below = |name: &str| directory.path().join(".edt").join(name);
    let age = |name: &str| fs::File::open(below(name)).unwrap().set_modified(now - 2 * hour).unwrap();
    let abandoned = || {
        let mut keys = store.abandoned("flight-", now - hour).unwrap();
        keys.sort();
        keys
    };
    assert_eq!(abandoned(), [""; 0]);
    for key in ["flight-a", "flight-b", "other"] {
        drop(store.journal(key).unwrap());
    }
    // One that begins at this moment: its journal is not there yet.
    fs::create_dir(below("flight-c")).unwrap();
    assert_eq!(abandoned(), [""; 0]);
    for part in ["flight-a/journal", "flight-b", "other/journal", "other"] {
        age(part);
    }
    assert_eq!(abandoned(), [""; 0]);
    age("flight-a");
    age("flight-c");
    assert_eq!(abandoned(), ["flight-a", "flight-c"]);
}
