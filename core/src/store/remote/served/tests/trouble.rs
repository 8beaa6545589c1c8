//! The adapter where something goes wrong: directories that vanish, names that are taken, connections that break.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

use super::*;

/// A store on a folder, before whose calls something happens.
fn troubled(
    place: &Path,
    taking: Taking,
    before: impl Fn(&str, &RelativePath) -> Result<()> + Send + Sync + 'static,
) -> ServedStore {
    let root = place.join("root");
    fs::create_dir_all(&root).unwrap();
    let folder = Folder { before: Arc::new(before), ..Folder::new(root, taking) };
    ServedStore::new(folder, RelativePath::root(), true, Some(State::at(place.join("state"))))
}

fn publish(store: &ServedStore, writer: Box<dyn Writer>, overwrite: Overwrite) -> Result<()> {
    let metadata = Metadata { modified_ns: Some(1_000_000_000), mode: Some(0o640) };
    store.publish(vec![Publication { metadata, overwrite, ..Publication::of(writer) }], Fsync::None).remove(0)
}

fn sized(name: &str, size: usize) -> NewFile {
    NewFile { size: size as u64, ..NewFile::of(path(name)) }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).map_or(true, |mut found| found.next().is_none())
}

#[test]
fn a_directory_that_other_transfers_remove_again_and_again_is_made_again() {
    for size in [10, SLAB_SIZE * 2] {
        let place = tempfile::tempdir().unwrap();
        let partial = place.path().join("root/.edt-partial");
        let left = AtomicUsize::new(5);
        let store = troubled(place.path(), Taking::InAnyOrder, move |call, _| {
            let again = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
            if call == "write" && again() {
                fs::remove_dir(&partial).unwrap();
            }
            Ok(())
        });
        let writer = store.create(&sized("file", size)).unwrap();
        writer.write_at(0, &vec![7; size]).unwrap();
        publish(&store, writer, Overwrite::Replace).unwrap();
        assert_eq!(fs::read(place.path().join("root/file")).unwrap(), vec![7; size]);
    }
}

#[test]
fn a_name_that_is_taken_is_found_out_before_anything_is_sent() {
    for size in [0, 10, SLAB_SIZE * 2] {
        let place = tempfile::tempdir().unwrap();
        let store = troubled(place.path(), Taking::InAnyOrder, |call, path| {
            assert_ne!(call, "write", "{path}");
            Ok(())
        });
        fs::write(place.path().join("root/file"), b"there").unwrap();
        let writer = store.create(&NewFile { overwrite: Overwrite::Never, ..sized("file", size) }).unwrap();
        let written = writer.write_at(0, &vec![7; size]);
        let refused = written.and_then(|()| publish(&store, writer, Overwrite::Never)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert!(refused.hint().is_some());
    }
}

#[test]
fn a_file_whose_name_was_taken_meanwhile_leaves_nothing() {
    for size in [10, SLAB_SIZE * 2] {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("root/file");
        let store = troubled(place.path(), Taking::InAnyOrder, move |call, _| {
            if call == "rename" {
                fs::write(&target, b"first").unwrap();
            }
            Ok(())
        });
        let writer = store.create(&NewFile { overwrite: Overwrite::Never, ..file("file", size, 1) }).unwrap();
        writer.write_at(0, &vec![7; size]).unwrap();
        assert_eq!(publish(&store, writer, Overwrite::Never).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(is_empty(&place.path().join("root/.edt-partial")));
        drop(store);
        assert!(!place.path().join("root/.edt-partial").exists(), "the directory goes with the transfer");
    }
}

#[test]
fn a_partial_file_never_has_the_time_of_its_source() {
    let place = tempfile::tempdir().unwrap();
    let store = troubled(place.path(), Taking::InAnyOrder, |call, path| {
        assert!(call != "set_metadata" || !path.components().any(staging::is_directory), "{path}");
        Ok(())
    });
    let writer = store.create(&sized("file", 10)).unwrap();
    writer.write_at(0, &[7; 10]).unwrap();
    publish(&store, writer, Overwrite::Replace).unwrap();
    let metadata = fs::metadata(place.path().join("root/file")).unwrap();
    assert_eq!((metadata.mtime(), metadata.mode() & 0o777), (1, 0o640));
}

#[test]
fn an_upload_goes_on_at_the_end_of_what_the_server_got() {
    const LOST: u64 = 3 * SLAB_SIZE as u64 + 17;
    for taking in [Taking::InAnyOrder, Taking::Appending] {
        let place = tempfile::tempdir().unwrap();
        let partial = place.path().join("root/.edt-partial/k.1");
        let calls = AtomicUsize::new(0);
        let store = troubled(place.path(), taking, move |call, _| {
            let breaks = call == "write_at" && [5, 9, 20].contains(&calls.fetch_add(1, Ordering::Relaxed));
            if breaks && taking == Taking::Appending {
                let there = fs::metadata(&partial).unwrap().len();
                OpenOptions::new().write(true).open(&partial).unwrap().set_len(there.saturating_sub(LOST)).unwrap();
            }
            if breaks { Err(Error::new(ErrorKind::ConnectionLost, "the connection broke")) } else { Ok(()) }
        });
        let content: Vec<u8> = (0..SLAB_SIZE * 20 + 5).map(|index| (index / 997 % 251).to_le_bytes()[0]).collect();
        let writer = store.create(&file("big", content.len(), 1)).unwrap();
        write(writer.as_ref(), &content, &mut (0..=20));
        publish(&store, writer, Overwrite::Replace).unwrap();
        assert!(fs::read(place.path().join("root/big")).unwrap() == content, "{taking:?}");
    }
}

#[test]
fn a_file_that_cannot_go_on_is_a_lost_connection_for_which_it_begins_again() {
    let place = tempfile::tempdir().unwrap();
    let broken = AtomicBool::new(false);
    let store = troubled(place.path(), Taking::AtOnce, move |call, _| {
        let breaks = call == "write_at" && !broken.swap(true, Ordering::Relaxed);
        if breaks { Err(Error::new(ErrorKind::ConnectionLost, "the connection broke")) } else { Ok(()) }
    });
    assert!(!store.capabilities().resumable);
    let writer = store.create(&file("big", SLAB_SIZE * 2, 1)).unwrap();
    let failed = writer.write_at(0, &vec![7; SLAB_SIZE]).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::ConnectionLost);
    writer.abort();
    let places = places(&place.path().join("root"));
    assert!(places.len() == 1 && is_empty(&place.path().join("root").join(&places[0])));
}

#[test]
fn after_an_interrupt_nothing_is_sent_and_what_was_sent_in_vain_is_removed() {
    for (taking, kept) in [(Taking::AtOnce, 0), (Taking::InAnyOrder, 1)] {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        let store = troubled(place.path(), taking, |_, _| Ok(()));
        let writer = store.create(&file("big", SLAB_SIZE * 2, 1)).unwrap();
        let block = vec![7; SLAB_SIZE];
        writer.write_at(0, &block).unwrap();
        store.interrupt();
        assert_eq!(writer.write_at(SLAB_SIZE as u64, &block).unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(publish(&store, writer, Overwrite::Replace).is_err());
        let left = |directory: &String| fs::read_dir(root.join(directory)).unwrap().count();
        assert_eq!(places(&root).iter().map(left).sum::<usize>(), kept, "{taking:?}");
        store.discard("k").unwrap();
        assert!(places(&root).is_empty(), "{taking:?}");
    }
}

#[test]
fn an_old_file_of_the_same_size_is_not_taken_for_one_that_was_lost_before_it_was_renamed() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    let (calls, partials) = (AtomicUsize::new(0), root.join(".edt-partial"));
    let store = troubled(place.path(), Taking::InAnyOrder, move |call, _| {
        match (call == "rename").then(|| calls.fetch_add(1, Ordering::Relaxed)) {
            Some(0) => Err(Error::new(ErrorKind::ConnectionLost, "the answer was lost")),
            Some(1) => {
                fs::remove_dir_all(&partials).unwrap();
                Ok(())
            }
            _ => Ok(()),
        }
    });
    fs::write(root.join("file"), [1; 10]).unwrap();
    let writer = store.create(&sized("file", 10)).unwrap();
    writer.write_at(0, &[7; 10]).unwrap();
    publish(&store, writer, Overwrite::Replace).unwrap();
    assert_eq!(fs::read(root.join("file")).unwrap(), [7; 10]);
}

#[test]
fn what_cannot_be_listed_is_told_beside_the_rest() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    for directory in ["a/.edt-partial", "b/.edt-partial", "c/.edt-partial", "d"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("b/.edt-partial/k.1"), b"part").unwrap();
    let before: Before = Arc::new(|call, path| {
        let hidden = call == "children" && [b"a".as_slice(), b"c/.edt-partial"].contains(&path.as_bytes());
        if hidden { Err(Error::new(ErrorKind::PermissionDenied, format!("could not list `{path}`"))) } else { Ok(()) }
    });
    let Location::Service(url) = Endpoint::from("sftp://host/").resolve().unwrap() else { panic!() };
    let folder = Folder { before, ..Folder::new(root.clone(), Taking::InAnyOrder) };
    let mut left = abandoned(folder, &url).unwrap();
    let (items, failed): (Vec<_>, Vec<_>) = left.list().unwrap().into_iter().partition(Result::is_ok);
    let names: HashSet<String> = items.into_iter().flatten().map(|item| item.name).collect();
    assert_eq!(names, HashSet::from(["folder:///b/.edt-partial/k.1".to_owned()]));
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().filter_map(|failed| failed.as_ref().err()).all(|error| error.kind() == ErrorKind::PermissionDenied));
}

#[test]
fn an_empty_directory_for_partial_files_is_found_and_removed() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    for directory in ["a/.edt-partial", ".edt-partial"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    let Location::Service(url) = Endpoint::from("sftp://host/a").resolve().unwrap() else { panic!() };
    let mut left = abandoned(Folder::new(root.clone(), Taking::InAnyOrder), &url).unwrap();
    let items = left.list().unwrap().into_iter().collect::<Result<Vec<_>>>().unwrap();
    let names: HashSet<&str> = items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, HashSet::from(["folder:///a/.edt-partial/", "folder:///.edt-partial/"]));
    assert!(items.iter().all(|item| item.begun_ns.is_some()));
    // Somebody begins to use one of them.
    fs::write(root.join(".edt-partial/k.1"), b"part").unwrap();
    items.iter().try_for_each(|item| left.remove(item)).unwrap();
    assert!(!root.join("a/.edt-partial").exists() && root.join(".edt-partial/k.1").exists());
}
