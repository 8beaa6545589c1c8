//! Tests of what a receiver makes of the files that were chosen, when it looks at what is there already.

use std::collections::HashSet;
use std::sync::Arc;

use super::*;
use crate::buffer::Slab;
use crate::link::{ControlSender, Frame, memory};
use crate::options::Symlinks;
use crate::pipeline::journal::Record;
use crate::pipeline::receiver::finish::MIRROR;
use crate::pipeline::receiver::{Arrived, Discard, Receiver, ReceiverParts};
use crate::protocol::TransferId;
use crate::protocol::frame::{FLAG_ZERO, FrameHeader, FrameKind, pack_item};
use crate::protocol::message::{FileHeader, ReceiveOptions};
use crate::store::Store;
use crate::store::local::LocalStore;
use crate::store::memory::MemoryStore;

const TRANSFER: TransferId = TransferId([1; 16]);

fn path(text: &str) -> RelativePath {
    RelativePath::from_user(text).unwrap()
}

/// A receiver of these files that compares with what stands there, if `selection` says so.
fn receiver(store: Arc<dyn Store>, control: ControlSender, selection: u8, files: &[&str]) -> Receiver {
    receiver_with(store, control, ReceiveOptions { selection, fsync: 1, ..ReceiveOptions::default() }, files)
}

fn receiver_with(store: Arc<dyn Store>, control: ControlSender, options: ReceiveOptions, files: &[&str]) -> Receiver {
    Receiver::new(ReceiverParts {
        store,
        destination: RelativePath::root(),
        options,
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
    // What is left under the temporary name and what stands under the final one, which is not to be replaced if the next number is 1:
    // published or not, and what is there to go on with.
    let cases = [
        (None, Some(whole), 0, 1, None),
        (Some(whole), Some(old), 0, 0, Some(10)),
        (None, Some(old), 0, 0, Some(0)),
        (None, None, 0, 0, Some(0)),
        // A file gets a name that must be free as a second one, before the first one goes.
        (Some(whole), Some(whole), 1, 1, None),
        (Some(whole), Some(old), 1, 0, Some(10)),
    ];
    for (temporary, final_name, overwrite, published, there) in cases {
        let place = tempfile::tempdir().unwrap();
        let staged = place.path().join(".edt").join(TRANSFER.key());
        let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
        let (identity, crc64nvme) = (Key([7; 16]), crc64nvme(&whole));
        let (mut journal, _) = Journal::open(store.journal(&TRANSFER.key()).unwrap().unwrap(), TRANSFER).unwrap();
        journal.append(&Record::Begin { number: 1, path: path("file"), size: 10, identity, sparse: false });
        journal.append(&Record::Range { number: 1, offset: 0, length: 10, crc64nvme });
        let second_name = temporary.is_some() && temporary == final_name;
        let modified_ns = second_name.then_some(1_000_000_000);
        let file = DoneRecord { path: path("file"), identity, size: 10, modified_ns, crc64nvme, blake3: None };
        journal.append(&Record::Publish { number: 1, file });
        journal.sync().unwrap();
        drop(journal);
        if let Some(bytes) = temporary {
            std::fs::write(staged.join("1"), bytes).unwrap();
        }
        match final_name {
            Some(_) if second_name => {
                std::fs::hard_link(staged.join("1"), place.path().join("file")).unwrap();
                let file = std::fs::File::options().write(true).open(staged.join("1")).unwrap();
                file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1)).unwrap();
            }
            Some(bytes) => std::fs::write(place.path().join("file"), bytes).unwrap(),
            None => {}
        }
        for attempt in ["first", "second"] {
            let (near, far) = memory::pair();
            let options = ReceiveOptions { overwrite, fsync: 1, ..ReceiveOptions::default() };
            let receiver = receiver_with(Arc::clone(&store) as Arc<dyn Store>, near.sender, options, &["."]);
            receiver.shared.prepare().unwrap();
            let told = std::iter::from_fn(|| far.receiver.try_recv().ok()).map(|message| match message {
                Message::Have(have) => have.done.len(),
                other => panic!("{other:?}"),
            });
            assert_eq!(told.sum::<usize>(), published, "{attempt}");
            // Its name is made durable with those of this attempt.
            assert_eq!(receiver.shared.touched.lock().len(), published, "{attempt}");
            let partial = receiver.shared.partials.take(&key::of_path(&path("file")));
            assert_eq!(partial.map(|file| file.ranges.covered()), there, "{attempt}");
            assert_eq!(staged.join("1").exists(), there.is_some(), "{attempt}");
            receiver.close();
        }
    }
}

#[test]
fn names_that_an_earlier_attempt_gave_are_made_durable_unless_a_mirror_removes_them() {
    let place = tempfile::tempdir().unwrap();
    let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
    let (mut journal, _) = Journal::open(store.journal(&TRANSFER.key()).unwrap().unwrap(), TRANSFER).unwrap();
    for (number, name) in (1..).zip(["stands/file", "gone/file"]) {
        let (path, identity) = (path(name), Key([number; 16]));
        journal.append(&Record::Done(DoneRecord { path, identity, size: 10, modified_ns: None, crc64nvme: 0, blake3: None }));
    }
    journal.sync().unwrap();
    drop(journal);
    std::fs::create_dir(place.path().join("stands")).unwrap();
    std::fs::write(place.path().join("stands/file"), [0; 10]).unwrap();
    let (near, far) = memory::pair();
    let receiver = receiver(store, near.sender, MIRROR, &["."]);
    receiver.shared.prepare().unwrap();
    assert_eq!(*receiver.shared.touched.lock(), HashSet::from([path("stands")]));
    // The source has nothing any more.
    receiver.shared.finish(true).unwrap();
    let complete = std::iter::from_fn(|| far.receiver.try_recv().ok()).find_map(|message| match message {
        Message::Complete(complete) => Some((complete.removed, complete.failed)),
        _ => None,
    });
    assert_eq!(complete, Some((2, Vec::new())));
}

#[test]
fn what_was_left_under_the_number_of_a_new_file_does_not_show_through_its_holes() {
    let place = tempfile::tempdir().unwrap();
    let staged = place.path().join(".edt").join(TRANSFER.key());
    let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
    begin(&store, &staged, &["other"]);
    // The beginning of this one did not reach the journal.
    std::fs::write(staged.join("2"), vec![9; 4 * SLAB_SIZE]).unwrap();
    let (near, _far) = memory::pair();
    let receiver = receiver(store, near.sender, 0, &["."]);
    receiver.start().unwrap();
    let shared = &receiver.shared;
    shared.prepare().unwrap();
    shared.open_file(FileHeader { sparse: true, ..FileHeader::of_a_test(1, 4 * SLAB_SIZE as u64) }).unwrap();
    for block in 0..4 {
        let mut header = FrameHeader::empty(FrameKind::Data);
        (header.file, header.offset, header.flags) = (1, block * SLAB_SIZE as u64, FLAG_ZERO);
        (header.length, header.crc64nvme) = (u32::try_from(SLAB_SIZE).unwrap(), crc64nvme(&vec![0; SLAB_SIZE]));
        assert_eq!(shared.take_data(&Frame { header, payload: None }), Some(SLAB_SIZE as u64));
    }
    shared.close(1, None);
    shared.finish(true).unwrap();
    assert!(!staged.join("2").exists());
    let published = std::fs::read(place.path().join("file 1")).unwrap();
    assert!(published.len() == 4 * SLAB_SIZE && published.iter().all(|byte| *byte == 0));
}

/// A pack of one small file.
fn pack(content: &[u8], modified_ns: i64) -> Arrived {
    let (modified_ns, crc64nvme) = (Some(modified_ns), crc64nvme(content));
    let file = FileHeader { modified_ns, crc64nvme, ..FileHeader::of_a_test(1, content.len() as u64) };
    let (mut payload, mut used) = (vec![0; 1000], 0);
    assert!(pack_item(&mut payload, &mut used, &file, content));
    payload.truncate(used);
    let mut header = FrameHeader::empty(FrameKind::Pack);
    header.length = u32::try_from(used).unwrap();
    Arrived { stream: 1, sequence: 0, frame: Frame { header, payload: Some(Slab::detached(payload)) } }
}

#[test]
fn a_small_file_that_may_not_be_replaced_is_done_if_it_stands_there_as_it_came() {
    for (there, modified, done) in [("small", 5, true), ("other", 5, false), ("small", 6, false)] {
        let place = tempfile::tempdir().unwrap();
        let staged = place.path().join(".edt").join(TRANSFER.key());
        let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
        // The attempt that published it ended before its journal said so.
        begin(&store, &staged, &["another"]);
        let file = place.path().join("file 1");
        std::fs::write(&file, there).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(modified);
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        let (near, far) = memory::pair();
        let options = ReceiveOptions { overwrite: 1, ..ReceiveOptions::default() };
        let receiver = receiver_with(store, near.sender, options, &["."]);
        receiver.shared.prepare().unwrap();
        receiver.shared.take(&pack(b"small", 5_000_000_000));
        receiver.shared.acknowledge();
        let told = std::iter::from_fn(|| far.receiver.try_recv().ok()).find_map(|message| match message {
            Message::Ack(ack) => Some((ack.done.len(), ack.failed.len(), ack.streams)),
            _ => None,
        });
        assert_eq!(told, Some((usize::from(done), usize::from(!done), vec![(1, 1)])), "{there} {modified}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), there);
        assert!(!staged.join(Partial::SMALL_FILES.to_string()).exists());
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
    assert_eq!(receiver.shared.tell_standing(&RelativePath::root()).unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(far.receiver.try_recv().is_err());
}

#[test]
fn a_dry_run_that_compares_lists_the_destination_once() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("directory")).unwrap();
    std::fs::write(place.path().join("file"), "x").unwrap();
    let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
    let (near, far) = memory::pair();
    let options = ReceiveOptions { selection: 1, dry_run: true, ..ReceiveOptions::default() };
    let receiver = receiver_with(store, near.sender, options, &["."]);
    receiver.shared.prepare().unwrap();
    let told = std::iter::from_fn(|| far.receiver.try_recv().ok()).map(|message| match message {
        Message::Have(have) => (have.present.len(), have.taken.unwrap_or_default().len(), have.last),
        other => panic!("{other:?}"),
    });
    // What one listing finds is told together: the file to compare, and in whose way it, the directory and the destination are.
    assert_eq!(told.collect::<Vec<_>>(), [(1, 3, false), (0, 0, true)]);
}
