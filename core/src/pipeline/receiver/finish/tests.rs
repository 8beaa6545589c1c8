//! Tests of the end of a session at the receiver.

use std::sync::Arc;

use super::*;
use crate::buffer::SlabPool;
use crate::link::{Breaker, ControlSender, Frame, FrameSource, memory};
use crate::options::Symlinks;
use crate::pipeline::digest::crc64nvme;
use crate::pipeline::receiver::file::TargetDirectory;
use crate::pipeline::receiver::{Arrived, Receiver, ReceiverParts};
use crate::protocol::TransferId;
use crate::protocol::frame::{FLAG_ZERO, FrameHeader, FrameKind};
use crate::protocol::message::{FileHeader, MAX_MESSAGE, ReceiveOptions};
use crate::store::local::LocalStore;
use crate::store::memory::MemoryStore;
use crate::store::{Metadata, Store};
use crate::testing::faulty::{Faults, FaultyStore};

fn receiver(store: Arc<dyn Store>, control: ControlSender) -> Receiver {
    Receiver::new(ReceiverParts {
        store,
        destination: RelativePath::root(),
        options: ReceiveOptions::default(),
        files: None,
        transfer: TransferId([1; 16]),
        control,
        buffer: 8 << 20,
        account: None,
        copier: None,
        discard: Discard::OnGoodbye,
    })
}

/// What the sender hears at the end of a transfer that has set these directories.
fn complete(store: Arc<dyn Store>, directories: &[&RelativePath]) -> Complete {
    let (near, far) = memory::pair();
    let receiver = receiver(store, near.sender);
    let targets = directories.iter().map(|path| TargetDirectory { path: (*path).clone(), metadata: Metadata::default() });
    receiver.shared.directories.lock().extend(targets);
    receiver.shared.finish(true).unwrap();
    match far.receiver.recv().unwrap() {
        Message::Complete(complete) => complete,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_directory_of_someone_else_keeps_its_time_and_fails_nothing() {
    let [theirs, missing] = ["theirs", "missing"].map(|name| RelativePath::from_user(name).unwrap());
    let inner = MemoryStore::new();
    inner.create_directory(&theirs).unwrap();
    let faults = Faults { unwritable: [theirs.clone()].into(), ..Faults::default() };
    let store = Arc::new(FaultyStore::new(Arc::new(inner), faults));
    let complete = complete(store, &[&theirs, &missing]);
    let failed: Vec<&[u8]> = complete.failed.iter().map(|item| &item.path[..]).collect();
    assert_eq!(failed, [b"missing"]);
}

#[test]
fn a_complete_transfer_keeps_its_journal_until_the_caller_has_heard() {
    let place = tempfile::tempdir().unwrap();
    let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
    let (near, _far) = memory::pair();
    let receiver = receiver(Arc::clone(&store) as Arc<dyn Store>, near.sender);
    let journal = place.path().join(".edt").join(&receiver.shared.key);
    drop(store.journal(&receiver.shared.key).unwrap());
    receiver.shared.resumable.store(true, Ordering::Relaxed);
    receiver.shared.finish(true).unwrap();
    receiver.close();
    assert!(journal.exists());
    receiver.goodbye();
    assert!(!journal.exists());
}

#[test]
fn what_another_process_goes_on_with_is_not_discarded() {
    let place = tempfile::tempdir().unwrap();
    let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
    let (near, _far) = memory::pair();
    let receiver = receiver(store, near.sender);
    let staged = place.path().join(".edt").join(&receiver.shared.key);
    receiver.shared.resumable.store(true, Ordering::Relaxed);
    receiver.shared.finish(true).unwrap();
    // The same transfer begins again before the caller of this one has said that it heard of its end.
    let other = LocalStore::confined(place.path(), Symlinks::Keep).unwrap();
    let held = other.journal(&receiver.shared.key).unwrap();
    std::fs::write(staged.join("1"), "partial").unwrap();
    receiver.goodbye();
    assert!(staged.join("journal").exists() && staged.join("1").exists());
    drop(held);
    receiver.shared.discard();
    assert!(!staged.exists());
}

#[cfg(unix)]
#[test]
fn a_directory_in_which_something_may_be_missing_can_be_written_to() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let path = RelativePath::from_user("in").unwrap();
    let store: Arc<dyn Store> = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
    store.create_directory(&path).unwrap();
    for (intact, mode) in [(false, 0o755), (true, 0o555)] {
        let (near, _far) = memory::pair();
        let receiver = receiver(Arc::clone(&store), near.sender);
        let metadata = Metadata { mode: Some(0o555), ..Metadata::default() };
        receiver.shared.directories.lock().push(TargetDirectory { path: path.clone(), metadata });
        receiver.shared.finish(intact).unwrap();
        assert_eq!(std::fs::metadata(place.path().join("in")).unwrap().permissions().mode() & 0o777, mode);
    }
}

/// A block of a file that is all zeros.
fn block(number: u32, offset: u64, length: u32) -> Arrived {
    let mut header = FrameHeader::empty(FrameKind::Data);
    (header.file, header.offset, header.length, header.flags) = (number, offset, length, FLAG_ZERO);
    header.crc64nvme = crc64nvme(&vec![0; length as usize]);
    Arrived { stream: 1, sequence: 0, frame: Frame { header, payload: None } }
}

#[test]
fn a_file_that_is_closed_early_is_published_with_the_last_of_its_bytes() {
    let (store, (near, _far)) = (Arc::new(MemoryStore::new()), memory::pair());
    let receiver = receiver(Arc::clone(&store) as Arc<dyn Store>, near.sender);
    let shared = &receiver.shared;
    let (size, first) = (300_000, 1 << 18);
    for (number, opened_before) in [(1, true), (2, false)] {
        let path = RelativePath::from_user(&format!("file {number}")).unwrap();
        if opened_before {
            shared.open_file(FileHeader::of_a_test(number, size)).unwrap();
        }
        shared.close(number, None);
        shared.close(number, None);
        if !opened_before {
            shared.open_file(FileHeader::of_a_test(number, size)).unwrap();
        }
        shared.take(&block(number, first, 300_000 - (1 << 18)));
        assert_eq!(shared.closing.load(Ordering::SeqCst), 1);
        assert!(store.stat(&path).is_err());
        shared.take(&block(number, 0, 1 << 18));
        assert_eq!(shared.closing.load(Ordering::SeqCst), 0);
        assert_eq!(store.stat(&path).unwrap().size, size);
        // A second copy of what is settled changes nothing.
        shared.take(&block(number, 0, 1 << 18));
        shared.close(number, None);
        assert_eq!(shared.closing.load(Ordering::SeqCst), 0);
    }
    assert!(!shared.stop.is_set());
}

#[test]
fn nobody_waits_for_a_closed_file_that_failed_or_was_abandoned() {
    let (near, _far) = memory::pair();
    let receiver = receiver(Arc::new(MemoryStore::new()), near.sender);
    let shared = &receiver.shared;
    shared.open_file(FileHeader::of_a_test(1, 300_000)).unwrap();
    shared.close(1, None);
    shared.close(2, None);
    assert_eq!(shared.closing.load(Ordering::SeqCst), 2);
    shared.abandon(1);
    shared.item_failed(2, b"file 2", &Error::new(ErrorKind::NoSpace, "no space"));
    assert_eq!(shared.closing.load(Ordering::SeqCst), 0);
    shared.close(1, None);
    shared.finish(true).unwrap();
    assert!(shared.complete.load(Ordering::SeqCst));
}

#[test]
fn a_sender_that_closes_what_never_comes_is_given_up() {
    let (near, _far) = memory::pair();
    let receiver = receiver(Arc::new(MemoryStore::new()), near.sender);
    (1..=1 << 20).for_each(|number| receiver.shared.close(number, None));
    assert!(!receiver.shared.stop.is_set());
    receiver.shared.close((1 << 20) + 1, None);
    assert_eq!(receiver.shared.stop.error().unwrap().kind(), ErrorKind::Protocol);
}

#[test]
fn of_more_failures_than_fit_into_the_last_message_their_number_is_told() {
    let error = Error::new(ErrorKind::Io, "could not remove it");
    let failures = |count, length| vec![failure(&RelativePath::from_bytes(&vec![b'x'; length]).unwrap(), &error); count];
    assert_eq!(told(failures(1000, 5)), failures(1000, 5));
    assert_eq!(told(Vec::new()), Vec::new());
    let long = "x/".repeat(2000);
    let long = vec![failure(&RelativePath::from_user(&long).unwrap(), &error); 5000];
    for (all, most) in [(failures(5000, 5), 1001), (long, 200)] {
        let told = told(all);
        let last = &told.last().unwrap().failed.what;
        assert!(told.len() <= most, "{} failures", told.len());
        assert_eq!(*last, format!("{} more items failed at the destination", 5000 - (told.len() - 1)));
        assert!(Message::Complete(Complete { removed: 0, failed: told }).encode().len() < MAX_MESSAGE);
    }
}

/// A stream whose end panics.
struct Panicking;

impl FrameSource for Panicking {
    fn receive(&mut self, _: &SlabPool, _: &dyn Fn(usize)) -> Result<Option<Frame>> {
        panic!("as a test")
    }

    fn shares_memory(&self) -> bool {
        true
    }

    fn breaker(&self) -> Breaker {
        Arc::new(|| {})
    }
}

#[test]
fn a_stream_that_panics_ends_the_session() {
    let (near, _far) = memory::pair();
    let receiver = receiver(Arc::new(MemoryStore::new()), near.sender);
    receiver.shared.ready.store(true, Ordering::SeqCst);
    receiver.attach(1, Box::new(Panicking)).unwrap();
    receiver.shared.streams.join();
    assert_eq!(receiver.shared.stop.error().unwrap().what(), "a thread of the transfer panicked");
}
