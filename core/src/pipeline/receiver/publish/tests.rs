//! Tests of what is counted of files that are published.

use super::*;
use crate::buffer::Slab;
use crate::event::EventSender;
use crate::link::{Frame, memory};
use crate::options::Symlinks;
use crate::pipeline::account::Account;
use crate::pipeline::manifest::Manifest;
use crate::pipeline::receiver::{Discard, Receiver, ReceiverParts};
use crate::protocol::TransferId;
use crate::protocol::frame::{FrameHeader, FrameKind, pack_item};
use crate::protocol::message::ReceiveOptions;
use crate::store::local::LocalStore;

const CONTENT: &[u8] = b"content";

/// A pack of one file, as it comes on a stream.
fn pack(stream: u16, header: &FileHeader) -> Arrived {
    let (mut payload, mut used) = (vec![0; 4096], 0);
    assert!(pack_item(&mut payload, &mut used, header, CONTENT));
    payload.truncate(used);
    let mut frame = FrameHeader::empty(FrameKind::Pack);
    frame.length = u32::try_from(used).unwrap();
    Arrived { stream, sequence: 0, frame: Frame { header: frame, payload: Some(Slab::detached(payload)) } }
}

/// The bytes that count when these headers have come, each on a stream of its own, before the first of them is published.
fn counted(headers: &[FileHeader], overwrite: u8) -> (u64, u64) {
    let place = tempfile::tempdir().unwrap();
    let (near, _far) = memory::pair();
    let account = Arc::new(Account::new(EventSender::silent(), Manifest::default()));
    let receiver = Receiver::new(ReceiverParts {
        store: Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap()),
        destination: RelativePath::root(),
        options: ReceiveOptions { fsync: 1, overwrite, ..ReceiveOptions::default() },
        files: None,
        transfer: TransferId([1; 16]),
        control: near.sender,
        buffer: 8 << 20,
        account: Some(Arc::clone(&account)),
        copier: None,
        discard: Discard::AtOnce,
    });
    for (stream, header) in (1..).zip(headers) {
        receiver.shared.take(&pack(stream, header));
    }
    receiver.publisher.start();
    receiver.publisher.join();
    receiver.shared.acknowledge();
    let totals = account.totals();
    (totals.bytes_verified, totals.files_done)
}

fn header(number: u32) -> FileHeader {
    let crc64nvme = crc64nvme(CONTENT);
    FileHeader { path: b"file".to_vec(), crc64nvme, ..FileHeader::of_a_test(number, CONTENT.len() as u64) }
}

#[test]
fn bytes_of_a_pack_that_comes_twice_before_it_is_published_count_once() {
    assert_eq!(counted(&[header(1), header(1)], 0), (CONTENT.len() as u64, 1));
}

#[test]
fn bytes_of_an_item_that_cannot_be_published_do_not_count() {
    let other = FileHeader { modified_ns: Some(1), ..header(2) };
    assert_eq!(counted(&[header(1), other], 1), (CONTENT.len() as u64, 1));
}
