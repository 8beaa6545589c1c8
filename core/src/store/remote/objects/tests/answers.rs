//! Answers that are lost, that hide something from who may not look, and that tell a checksum.

use super::*;

#[test]
fn a_copy_whose_answer_was_lost_is_found() {
    let place = Place::new();
    place.put("from", b"content");
    let url = service_url("s3://b/");
    let copier = copier::copier(Arc::clone(&place.service), &url);
    let metadata = Metadata { modified_ns: Some(5_000_000_000), mode: None };
    let file = NewFile { size: 7, metadata, ..NewFile::of(path("to")) };
    place.service.lost.store(1, Ordering::SeqCst);
    copier.copy(&path("from"), &file, Overwrite::Never).unwrap();
    assert_eq!(place.service.requests(), ["copy to", "copy to", "head to"]);
    let refused = copier.copy(&path("from"), &file, Overwrite::Never);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::AlreadyExists, "it stood there before");
}

#[test]
fn who_may_write_and_not_look_can_write() {
    let place = Place::new();
    place.service.blind.store(true, Ordering::SeqCst);
    let url = service_url("s3://b/new/");
    let opened = open(Arc::clone(&place.service), &url, Purpose::Write).unwrap();
    assert_eq!(opened.store.stat(&path("new")).unwrap_err().kind(), ErrorKind::NotFound);
    let listed = opened.store.list(&path("new"), Depth::Tree, Arc::new(|_| false));
    assert_eq!(listed.err().unwrap().kind(), ErrorKind::PermissionDenied);
    let store = place.store(Purpose::Write);
    let writer = store.create(&NewFile { size: 3, ..NewFile::of(path("new/a")) }).unwrap();
    writer.write_at(0, b"new").unwrap();
    publish(&store, writer, Overwrite::Replace).unwrap();
    assert!(place.service.objects.lock().contains_key("new/a"));
    let reading = place.store(Purpose::Read);
    assert_eq!(reading.stat(&path("new")).unwrap_err().kind(), ErrorKind::PermissionDenied);
}

#[test]
fn what_is_not_there_is_said_in_words() {
    let place = Place::new();
    place.put("a", b"x");
    let store = place.store(Purpose::Read);
    let listed = store.list(&path("b"), Depth::One, Arc::new(|_| false)).err().unwrap();
    for error in [listed, store.stat(&path("b")).unwrap_err()] {
        assert_eq!((error.kind(), error.cause()), (ErrorKind::NotFound, Some("there is nothing under that name")));
        assert!(error.what().ends_with("`mem://b/b`") && error.hint().is_some(), "{error}");
    }
}

#[test]
fn the_checksum_of_an_object_is_asked_for_only_if_it_came_in_pieces() {
    let place = Place::new();
    place.put("a", b"content");
    let store = place.store(Purpose::Read);
    let checksum = Some(crc_fast::crc64_nvme(b"content"));
    for (borders, requests) in [(&[0, 7][..], &["get a"][..]), (&[0, 4, 7], &["get a", "get a", "crc64nvme a"])] {
        store.stat(&path("a")).unwrap();
        place.service.requests();
        let reader = store.open(&path("a")).unwrap();
        for piece in borders.windows(2) {
            reader.expect(piece[0]..piece[1]);
            let length = usize::try_from(piece[1] - piece[0]).unwrap();
            assert_eq!(reader.read_at(piece[0], &mut vec![0; length]).unwrap(), length);
        }
        assert_eq!(reader.crc64nvme().unwrap(), checksum);
        assert_eq!(place.service.requests(), requests);
    }
}
