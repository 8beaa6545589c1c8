//! Directories for partial files that are one transfer's own, and the names in them.

use super::*;

fn own_directory(key: &str) -> String {
    String::from_utf8(staging::own_directory(key)).unwrap()
}

#[test]
fn where_nothing_is_continued_each_transfer_has_a_directory_of_its_own_and_finds_it_again() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    let own = |name: &str, key: &str| {
        let resume = Some(Partial { key: key.to_owned(), number: 1 });
        NewFile { size: 2 * SLAB_SIZE as u64, resume, ..NewFile::of(path(name)) }
    };
    let (first, second) = (store(place.path(), Taking::AtOnce, "", true), store(place.path(), Taking::AtOnce, "", true));
    let begun = [(&first, own("a", "k")), (&second, own("b", "l"))].map(|(store, file)| {
        let writer = store.create(&file).unwrap();
        writer.write_at(0, &vec![7; SLAB_SIZE]).unwrap();
        writer
    });
    let mut expected = vec![own_directory("k"), own_directory("l")];
    expected.sort_unstable();
    assert_eq!(places(&root), expected);
    assert!(second.list(&RelativePath::root(), Depth::Tree, Arc::new(|_| false)).unwrap().next().is_none());
    // The first one was killed; it is run again, and ends while the second one goes on.
    let [killed, writer] = begun;
    std::mem::forget((killed, first));
    let again = store(place.path(), Taking::AtOnce, "", true);
    again.discard("k").unwrap();
    assert_eq!(places(&root), [own_directory("l")]);
    writer.write_at(SLAB_SIZE as u64, &vec![7; SLAB_SIZE]).unwrap();
    second.publish(vec![Publication::of(writer)], Fsync::None).remove(0).unwrap();
    drop(second);
    assert!(places(&root).is_empty() && fs::read(root.join("b")).unwrap() == vec![7; 2 * SLAB_SIZE]);
}

#[test]
fn directories_of_single_transfers_are_found_below_a_place_and_beside_it() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    for directory in
        [own_directory("k"), format!("b/{}", own_directory("l")), "b/.edt-partial".to_owned(), ".edt-partial-x".to_owned()]
    {
        fs::create_dir_all(root.join("a").join(&directory)).unwrap();
        fs::write(root.join("a").join(directory).join("file"), b"part").unwrap();
    }
    let Location::Service(url) = Endpoint::from("webdav://host/a/b").resolve().unwrap() else { panic!() };
    let mut left = abandoned(Folder::new(root.clone(), Taking::AtOnce), &url).unwrap();
    let items = left.list().unwrap().into_iter().collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(items.len(), 3);
    items.iter().try_for_each(|item| left.remove(item)).unwrap();
    assert!(places(&root.join("a")).is_empty() && places(&root.join("a/b")).is_empty());
    assert!(root.join("a/.edt-partial-x/file").exists(), "it is the user's");
}

#[test]
fn only_what_is_continued_has_a_name_that_another_process_has_too() {
    let place = tempfile::tempdir().unwrap();
    let partial = |number| Some(Partial { key: "k".to_owned(), number });
    for (taking, number, same) in [
        (Taking::InAnyOrder, 5, true),
        (Taking::Appending, 5, true),
        (Taking::AtOnce, 5, false),
        (Taking::InAnyOrder, Partial::SMALL_FILES | 5, false),
        (Taking::AtOnce, Partial::SMALL_FILES | 5, false),
    ] {
        let [first, second] = [(), ()].map(|()| {
            let host = &store(place.path(), taking, "", true).host;
            let name = host.partial_name(partial(number).as_ref());
            host.partial(&name).unwrap()
        });
        assert_eq!(first == second, same, "{taking:?} {number}");
        assert!(first.name().unwrap().starts_with(b"k."), "{first}");
    }
}
