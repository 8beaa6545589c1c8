//! What an interrupt leaves undone.

use super::*;

#[test]
fn a_part_whose_upload_was_begun_before_an_interrupt_is_not_sent_after_it() {
    let place = Place::new();
    let store = place.store(Purpose::Write);
    *place.service.interrupted.lock() = Some(store.bucket.patience.clone());
    let writer = store.create(&NewFile { size: 20 << 20, ..NewFile::of(path("f")) }).unwrap();
    assert_eq!(writer.write_at(0, &vec![1; 8 << 20]).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(place.service.requests(), ["begin f"]);
    writer.abort();
    assert_eq!(place.service.requests(), ["abort f"], "what was begun is given up all the same");
}

#[test]
fn nothing_is_published_after_an_interrupt() {
    let place = Place::new();
    let store = place.store(Purpose::Write);
    let writer = store.create(&NewFile { size: 3, ..NewFile::of(path("f")) }).unwrap();
    writer.write_at(0, b"abc").unwrap();
    store.interrupt();
    assert_eq!(publish(&store, writer, Overwrite::Replace).unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(place.service.requests().is_empty());
}
