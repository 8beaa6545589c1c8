//! Tests of what a receiver makes of the files that were chosen, when it looks at what is there already.

use std::sync::Arc;

use super::*;
use crate::link::{ControlSender, memory};
use crate::options::Symlinks;
use crate::pipeline::journal::Record;
use crate::pipeline::receiver::{Discard, Receiver, ReceiverParts};
use crate::protocol::TransferId;
use crate::protocol::message::ReceiveOptions;
use crate::store::Store;
use crate::store::local::LocalStore;
use crate::store::memory::MemoryStore;

const TRANSFER: TransferId = TransferId([1; 16]);

fn path(text: &str) -> RelativePath {
    RelativePath::from_user(text).unwrap()
}

/// A receiver of these files that compares with what stands there, if `selection` says so.
fn receiver(store: Arc<dyn Store>, control: ControlSender, selection: u8, files: &[&str]) -> Receiver {
    Receiver::new(ReceiverParts {
        store,
        destination: RelativePath::root(),
        options: ReceiveOptions { selection, fsync: 1, ..ReceiveOptions::default() },
        files: Some(files.iter().map(|file| path(file)).collect()),
        transfer: TRANSFER,
        control,
        buffer: 8 << 20,
        account: None,
        copier: None,
        discard: Discard::OnGoodbye,
    })
}

/// Leaves a partial file of each name behind, numbered from 1.
fn begin(store: &LocalStore, staged: &std::path::Path, names: &[&str]) {
    let (mut journal, _) = Journal::open(store.journal(&TRANSFER.key()).unwrap().unwrap(), TRANSFER).unwrap();
    for (number, name) in (1..).zip(names) {
        journal.append(&Record::Begin { number, path: path(name), size: 10, identity: Key([7; 16]), sparse: false });
        std::fs::write(staged.join(number.to_string()), [0; 10]).unwrap();
    }
    journal.sync().unwrap();
}

#[test]
fn partial_files_outside_of_the_choice_are_left_for_another_attempt() {
    for (chosen, kept) in [("inside", true), (".", false)] {
        let place = tempfile::tempdir().unwrap();
        let staged = place.path().join(".edt").join(TRANSFER.key());
        let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
        begin(&store, &staged, &["inside", "outside"]);
        let (near, _far) = memory::pair();
        let receiver = receiver(Arc::clone(&store) as Arc<dyn Store>, near.sender, 0, &[chosen]);
        receiver.shared.prepare().unwrap();
        let verified = |name| receiver.shared.partials.take(&key::of_path(&path(name))).is_some();
        assert_eq!([verified("inside"), verified("outside")], [true, !kept]);
        receiver.shared.finish(true).unwrap();
        receiver.close();
        receiver.goodbye();
        assert_eq!([staged.join("2").exists(), staged.join("journal").exists()], [kept; 2]);
    }
}

#[test]
fn published_files_outside_of_the_choice_are_known_to_another_attempt_as_long_as_they_stand() {
    for (chosen, stands, kept) in [("inside", true, true), ("inside", false, false), (".", true, false)] {
        let place = tempfile::tempdir().unwrap();
        let staged = place.path().join(".edt").join(TRANSFER.key());
        let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
        let (mut journal, _) = Journal::open(store.journal(&TRANSFER.key()).unwrap().unwrap(), TRANSFER).unwrap();
        for (number, name) in (1..).zip(["inside", "outside"]) {
            if name == "inside" || stands {
                std::fs::write(place.path().join(name), [0; 10]).unwrap();
            }
            let identity = Key([number; 16]);
            journal.append(&Record::Done(DoneRecord {
                path: path(name),
                size: 10,
                modified_ns: None,
                identity,
                crc64nvme: 0,
                blake3: None,
            }));
        }
        journal.sync().unwrap();
        drop(journal);
        let (near, far) = memory::pair();
        let receiver = receiver(Arc::clone(&store) as Arc<dyn Store>, near.sender, 0, &[chosen]);
        receiver.shared.prepare().unwrap();
        let told = std::iter::from_fn(|| far.receiver.try_recv().ok()).map(|message| match message {
            Message::Have(have) => have.done.len(),
            other => panic!("{other:?}"),
        });
        assert_eq!(told.sum::<usize>(), if chosen == "." { 2 } else { 1 });
        receiver.shared.finish(true).unwrap();
        receiver.close();
        receiver.goodbye();
        assert_eq!(staged.join("journal").exists(), kept, "{chosen} {stands}");
    }
}

#[test]
fn a_file_that_may_have_got_its_name_is_told_as_published_if_its_bytes_stand_there() {
    let (whole, old) = ([7; 10], [8; 10]);
    // What is left under the temporary name and what stands under the final one: published or not, and what is there to go on with.
    let cases = [
        (None, Some(whole), 1, None),
        (Some(whole), Some(old), 0, Some(10)),
        (None, Some(old), 0, Some(0)),
        (None, None, 0, Some(0)),
    ];
    for (temporary, final_name, published, there) in cases {
        let place = tempfile::tempdir().unwrap();
        let staged = place.path().join(".edt").join(TRANSFER.key());
        let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
        let (identity, crc64nvme) = (Key([7; 16]), crc64nvme(&whole));
        let (mut journal, _) = Journal::open(store.journal(&TRANSFER.key()).unwrap().unwrap(), TRANSFER).unwrap();
        journal.append(&Record::Begin { number: 1, path: path("file"), size: 10, identity, sparse: false });
        journal.append(&Record::Range { number: 1, offset: 0, length: 10, crc64nvme });
        let file = DoneRecord { path: path("file"), identity, size: 10, modified_ns: None, crc64nvme, blake3: None };
        journal.append(&Record::Publish { number: 1, file });
        journal.sync().unwrap();
        drop(journal);
        if let Some(bytes) = temporary {
            std::fs::write(staged.join("1"), bytes).unwrap();
        }
        if let Some(bytes) = final_name {
            std::fs::write(place.path().join("file"), bytes).unwrap();
        }
        for attempt in ["first", "second"] {
            let (near, far) = memory::pair();
            let receiver = receiver(Arc::clone(&store) as Arc<dyn Store>, near.sender, 0, &["."]);
            receiver.shared.prepare().unwrap();
            let told = std::iter::from_fn(|| far.receiver.try_recv().ok()).map(|message| match message {
                Message::Have(have) => have.done.len(),
                other => panic!("{other:?}"),
            });
            assert_eq!(told.sum::<usize>(), published, "{attempt}");
            // Its name is made durable with those of this attempt.
            let touched = receiver.shared.touched.lock().len();
            assert_eq!(touched, if attempt == "first" { published } else { 0 });
            let partial = receiver.shared.partials.take(&key::of_path(&path("file")));
            assert_eq!(partial.map(|file| file.ranges.covered()), there, "{attempt}");
            assert_eq!(staged.join("1").exists(), there.is_some(), "{attempt}");
            receiver.close();
        }
    }
}

#[test]
fn a_chosen_item_whose_place_cannot_be_looked_at_does_not_end_the_transfer() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("file"), "x").unwrap();
    let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
    let (near, far) = memory::pair();
    let receiver = receiver(store, near.sender, 1, &["a", "file", "file/below"]);
    receiver.shared.prepare().unwrap();
    let present = std::iter::from_fn(|| far.receiver.try_recv().ok()).map(|message| match message {
        Message::Have(have) => have.present.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!(present.sum::<usize>(), 1);
}

#[test]
fn a_transfer_that_ended_looks_at_nothing_any_more() {
    let (near, far) = memory::pair();
    let receiver = receiver(Arc::new(MemoryStore::new()), near.sender, 1, &["."]);
    receiver.shared.stop.set(None);
    assert_eq!(receiver.shared.tell_present(&RelativePath::root()).unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(far.receiver.try_recv().is_err());
}
