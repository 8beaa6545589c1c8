//! Recovery of the journal from whatever a crash leaves of it.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use edt::path::RelativePath;
use edt::pipeline::digest::crc64nvme;
use edt::pipeline::journal::{DoneRecord, Journal, Record, Recovered, Restart};
use edt::protocol::TransferId;
use edt::protocol::message::Key;
use proptest::prelude::*;

const TRANSFER: TransferId = TransferId([7; 16]);

fn path(text: &str) -> RelativePath {
    RelativePath::from_user(text).unwrap()
}

fn begin(number: u64, name: &str) -> Record {
    Record::Begin { number, path: path(name), size: 1000, identity: Key([3; 16]), sparse: number.is_multiple_of(2) }
}

fn range(number: u64, offset: u64, bytes: &[u8]) -> Record {
    Record::Range { number, offset, length: bytes.len() as u64, crc64nvme: crc64nvme(bytes) }
}

fn done(name: &str) -> Record {
    Record::Done(done_record(name))
}

fn done_record(name: &str) -> DoneRecord {
    DoneRecord {
        path: path(name),
        identity: Key([3; 16]),
        size: 1000,
        modified_ns: Some(-5),
        crc64nvme: u64::MAX,
        blake3: (name.len() > 1).then_some([0xb3; 32]),
    }
}

fn publish(number: u64, name: &str) -> Record {
    Record::Publish { number, file: done_record(name) }
}

fn sample() -> Vec<Record> {
    vec![
        begin(1, "a"),
        range(1, 0, b"12345"),
        begin(2, "dir/b"),
        range(2, 100, b"xyz"),
        range(1, 5, b"6789"),
        publish(1, "a"),
        done("a"),
        begin(3, "c"),
        publish(3, "c"),
        Record::Forget { number: 2 },
        range(3, 990, b"0123456789"),
    ]
}

/// The bytes of a journal of these records, each flushed alone, and where each ends (the header first).
fn journal_of(records: &[Record]) -> (Vec<u8>, Vec<usize>) {
    let file = tempfile::tempfile().unwrap();
    let mut reader = file.try_clone().unwrap();
    let (mut journal, _) = Journal::open(file, TRANSFER).unwrap();
    let mut ends = vec![usize::try_from(reader.metadata().unwrap().len()).unwrap()];
    for record in records {
        journal.append(record);
        journal.flush().unwrap();
        ends.push(usize::try_from(reader.metadata().unwrap().len()).unwrap());
    }
    let mut bytes = Vec::new();
    reader.seek(SeekFrom::Start(0)).unwrap();
    reader.read_to_end(&mut bytes).unwrap();
    (bytes, ends)
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn recover(bytes: &[u8]) -> Recovered {
    Journal::open(file_of(bytes), TRANSFER).unwrap().1
}

/// What must not depend on how much was cut off.
fn content(recovered: Recovered) -> Recovered {
    Recovered { next_number: 0, restarted: None, cut: 0, ..recovered }
}

#[test]
fn a_journal_gives_back_what_was_put_in() {
    let recovered = recover(&journal_of(&sample()).0);
    assert_eq!((recovered.next_number, recovered.restarted, recovered.cut), (4, None, 0));
    assert_eq!(recovered.done.len(), 1);
    let partial: Vec<_> = recovered.partial.iter().map(|file| (file.number, file.ranges.clone())).collect();
    assert_eq!(partial, [(3, vec![(990, 10, crc64nvme(b"0123456789"))])]);
    assert_eq!(recovered.partial[0].publishing, Some(done_record("c")));
}

#[test]
fn a_truncation_at_any_byte_leaves_the_records_before_it() {
    let (bytes, ends) = journal_of(&sample());
    for length in 0..bytes.len() {
        let whole = ends.iter().filter(|end| **end <= length).count();
        let recovered = recover(&bytes[..length]);
        assert_eq!(recovered.restarted.is_some(), length > 0 && whole == 0, "cut at {length}");
        let expected = if whole == 0 { Recovered::default() } else { recover(&journal_of(&sample()[..whole - 1]).0) };
        assert_eq!(content(recovered), content(expected), "cut at {length}");
    }
}

#[test]
fn a_flipped_bit_hides_its_record_and_those_behind_it() {
    let (bytes, ends) = journal_of(&sample());
    for bit in 0..bytes.len() * 8 {
        let mut broken = bytes.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        let whole = ends.iter().filter(|end| **end <= bit / 8).count();
        let expected = if whole == 0 { Recovered::default() } else { recover(&bytes[..ends[whole - 1]]) };
        assert_eq!(content(recover(&broken)), content(expected), "bit {bit}");
    }
}

#[test]
fn a_recovered_journal_goes_on_behind_its_last_good_record() {
    let (bytes, ends) = journal_of(&sample());
    let file = file_of(&bytes[..ends[4] + 3]);
    let copy = file.try_clone().unwrap();
    let (mut journal, recovered) = Journal::open(file, TRANSFER).unwrap();
    assert_eq!(recovered.cut, 3);
    journal.append(&range(recovered.partial[0].number, 5, b"6789"));
    journal.sync().unwrap();
    let again = Journal::open(copy, TRANSFER).unwrap().1;
    assert_eq!(again.cut, 0);
    assert_eq!(again.partial[0].ranges, [(0, 9, crc64nvme(b"123456789"))]);
}

#[test]
fn numbers_that_were_cut_off_are_not_given_again() {
    let (mut bytes, ends) = journal_of(&[begin(1, "a"), begin(2, "b"), begin(3, "c")]);
    bytes[ends[1] + 6] ^= 1;
    let recovered = recover(&bytes);
    assert_eq!(recovered.partial.len(), 1);
    assert!(recovered.next_number > 3);
}

#[test]
fn another_transfers_journal_is_begun_afresh() {
    let file = file_of(&journal_of(&sample()).0);
    let copy = file.try_clone().unwrap();
    let (_, recovered) = Journal::open(file, TransferId([8; 16])).unwrap();
    assert_eq!((recovered.restarted, recovered.partial.len(), recovered.done.len()), (Some(Restart::OtherTransfer), 0, 0));
    assert_eq!(copy.metadata().unwrap().len(), 28);
    assert_eq!(Journal::open(copy, TransferId([8; 16])).unwrap().1.restarted, None);
    assert_eq!(recover(b"something else entirely, longer than a header").restarted, Some(Restart::NoJournal));
}

#[test]
fn ranges_that_touch_are_written_as_one_record() {
    let file = tempfile::tempfile().unwrap();
    let copy = file.try_clone().unwrap();
    let (mut journal, _) = Journal::open(file, TRANSFER).unwrap();
    journal.append(&begin(1, "a"));
    journal.flush().unwrap();
    let before = copy.metadata().unwrap().len();
    for at in [2, 0, 3, 1, 4] {
        journal.append(&range(1, at, &b"12345"[usize::try_from(at).unwrap()..][..1]));
    }
    journal.flush().unwrap();
    assert!(copy.metadata().unwrap().len() - before < 40);
    assert_eq!(Journal::open(copy, TRANSFER).unwrap().1.partial[0].ranges, [(0, 5, crc64nvme(b"12345"))]);
}

#[test]
fn a_range_that_overlaps_or_leaves_its_file_is_left_out() {
    let records =
        [begin(1, "a"), range(1, 10, b"0123456789"), range(1, 15, b"x"), range(1, 5, b"0123456789"), range(1, 999, b"xy")];
    assert_eq!(recover(&journal_of(&records).0).partial[0].ranges, [(10, 10, crc64nvme(b"0123456789"))]);
}

#[test]
fn a_file_begun_again_loses_its_earlier_ranges() {
    let records = [begin(1, "a"), range(1, 0, b"123"), begin(2, "a"), begin(2, "b"), done("a")];
    let recovered = recover(&journal_of(&records).0);
    let partial: Vec<_> = recovered.partial.iter().map(|file| (file.path.clone(), file.ranges.len())).collect();
    assert_eq!(partial, [(path("b"), 0)]);
}

#[test]
fn complete_files_are_read_back_as_they_were_last_completed() {
    let far = "long names/".repeat(90);
    let many = (0..400).flat_map(|number| {
        let name = format!("{far}{number}");
        [done(&name), begin(number, &format!("{far}begun {number}"))]
    });
    let older = DoneRecord { crc64nvme: 1, ..done_record("twice") };
    let records: Vec<Record> = [Record::Done(older), done("changed"), begin(900, "changed"), done("b")]
        .into_iter()
        .chain(many)
        .chain([done("twice")])
        .collect();
    let (mut journal, recovered) = Journal::open(file_of(&journal_of(&records).0), TRANSFER).unwrap();
    let found: Vec<DoneRecord> = journal.done(&recovered.done).map(Result::unwrap).collect();
    let names = ["b".to_owned()].into_iter().chain((0..400).map(|number| format!("{far}{number}"))).chain(["twice".to_owned()]);
    assert_eq!(found, names.map(|name| done_record(&name)).collect::<Vec<_>>());
    assert_eq!(recovered.done.len(), 402);
}

#[test]
fn reading_complete_files_back_does_not_disturb_what_is_appended() {
    let file = file_of(&journal_of(&[done("a"), done("b")]).0);
    let copy = file.try_clone().unwrap();
    let (mut journal, recovered) = Journal::open(file, TRANSFER).unwrap();
    assert_eq!(journal.done(&recovered.done).next().unwrap().unwrap(), done_record("a"));
    journal.append(&done("c"));
    journal.flush().unwrap();
    let (mut journal, recovered) = Journal::open(copy, TRANSFER).unwrap();
    let found: Vec<DoneRecord> = journal.done(&recovered.done).map(Result::unwrap).collect();
    assert_eq!(found, [done_record("a"), done_record("b"), done_record("c")]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn arbitrary_bytes_behind_a_record_never_fail(tail in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = journal_of(&[begin(1, "a")]).0;
        bytes.extend(&tail);
        let recovered = recover(&bytes);
        prop_assert_eq!(recovered.cut, tail.len() as u64);
        prop_assert_eq!(recovered.partial.len(), 1);
    }

    #[test]
    fn ranges_in_any_order_come_back_whole(order in Just((0..20u64).collect::<Vec<_>>()).prop_shuffle(), flush_every in 1..8usize) {
        let content: Vec<u8> = (0..200).collect();
        let file = tempfile::tempfile().unwrap();
        let copy = file.try_clone().unwrap();
        let (mut journal, _) = Journal::open(file, TRANSFER).unwrap();
        journal.append(&begin(9, "a"));
        for (count, at) in order.iter().enumerate() {
            let offset = at * 10;
            journal.append(&range(9, offset, &content[usize::try_from(offset).unwrap()..][..10]));
            if count % flush_every == 0 {
                journal.flush().unwrap();
            }
        }
        journal.flush().unwrap();
        let recovered = Journal::open(copy, TRANSFER).unwrap().1;
        prop_assert_eq!(&recovered.partial[0].ranges, &vec![(0, 200, crc64nvme(&content))]);
    }
}
