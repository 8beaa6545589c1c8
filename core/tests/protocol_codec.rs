//! The wire codec: round trips, and what it makes of hostile bytes.

#![allow(clippy::unwrap_used)]

mod samples;

use edt::ErrorKind;
use edt::protocol::frame::{
    FLAG_ZERO, FrameHeader, FrameKind, HEADER_LENGTH, MAX_PAYLOAD, crc32c, decode_file_header, pack_item, pack_items,
};
use edt::protocol::message::{FileHeader, MAX_MESSAGE, Message, read_length};
use proptest::prelude::*;

/// Changes an encoded header and makes its checksum right again.
fn forged(header: &FrameHeader, change: impl FnOnce(&mut [u8; HEADER_LENGTH])) -> [u8; HEADER_LENGTH] {
    let mut bytes = header.encode();
    change(&mut bytes);
    let crc = crc32c(&bytes[..68]);
    bytes[68..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn kind_of(result: edt::Result<FrameHeader>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn every_message_comes_back_as_it_was() {
    let samples = samples::messages();
    let tags: std::collections::BTreeSet<u8> = samples.iter().map(|(_, message)| message.encode()[1]).collect();
    assert_eq!(tags, (0..=19).collect(), "a message is without sample");
    for (name, message) in samples {
        assert_eq!(Message::decode(&message.encode()).unwrap(), message, "{name}");
        let framed = message.encode_with_length();
        assert_eq!(read_length(*framed.first_chunk().unwrap()).unwrap(), framed.len() - 4);
        assert_eq!(framed[4..], message.encode());
    }
}

#[test]
fn a_message_longer_than_the_limit_is_refused_by_its_length() {
    let limit = u32::try_from(MAX_MESSAGE).unwrap();
    assert!(read_length(limit.to_le_bytes()).is_ok());
    assert_eq!(read_length((limit + 1).to_le_bytes()).unwrap_err().kind(), ErrorKind::Protocol);
    assert!(read_length([0xff; 4]).is_err());
}

#[test]
fn an_unknown_field_is_skipped_and_an_unknown_message_refused() {
    // Listed { items: 1, bytes: 2, complete: true } with a field 99 that holds a nested array.
    let newer = [0x82, 0x02, 0x81, 0xa4, 0x00, 0x01, 0x01, 0x02, 0x18, 99, 0x82, 0x81, 0x01, 0xa0, 0x02, 0xf5];
    let Message::Listed(listed) = Message::decode(&newer).unwrap() else { panic!() };
    assert_eq!((listed.items, listed.bytes, listed.complete), (1, 2, true));
    let unknown = [0x82, 0x18, 99, 0x80];
    assert_eq!(Message::decode(&unknown).unwrap_err().kind(), ErrorKind::Protocol);
}

#[test]
fn an_optional_field_may_be_null_or_left_out() {
    // Ack { streams: [], done: [{file: 1, crc64nvme: 2}, {the same, blake3: null}], failed: [], lost: [] }
    let ack =
        [0x82, 0x07, 0x81, 0xa4, 0x00, 0x80, 0x01, 0x82, 0xa2, 0, 1, 1, 2, 0xa3, 0, 1, 1, 2, 2, 0xf6, 0x02, 0x80, 0x03, 0x80];
    let Message::Ack(ack) = Message::decode(&ack).unwrap() else { panic!() };
    assert_eq!((ack.done[0].blake3, ack.done[1].blake3), (None, None));
}

#[test]
fn bytes_behind_a_message_are_refused() {
    let mut bytes = Message::Finish(true).encode();
    bytes.push(0);
    assert!(Message::decode(&bytes).unwrap_err().cause().unwrap().contains("follow"));
}

#[test]
fn claimed_lengths_are_not_believed() {
    let huge = [0xff; 8];
    for prefix in [
        &[0x82, 0x03, 0x81, 0x9b][..],                     // Close of 2^64 - 1 numbers
        &[0x82, 0x05, 0x81, 0x9b],                         // Keep of as many keys
        &[0x82, 0x07, 0x81, 0xa1, 0x00, 0x9b],             // Ack of as many streams
        &[0x82, 0x07, 0x81, 0xbb],                         // Ack with as many fields
        &[0x82, 0x09, 0x81, 0xa1, 0x0a, 0xa1, 0x00, 0x9b], // Meters with as many size classes
        &[0x82, 0x0b, 0x81, 0xa2, 0x00, 0x01, 0x01, 0x7b], // Fail with a text of as many bytes
        &[0x82, 0x0e, 0x81, 0x82, 0x01, 0x81, 0x5b],       // Request with a path of as many bytes
        &[0x82, 0x0e, 0x81, 0x82, 0x07, 0x84, 0x40, 0x5b], // Request to write as many bytes
        &[0x82, 0x0f, 0x81, 0x82, 0x04, 0x84, 0xa0, 0x5b], // Answer with as many bytes of a file
    ] {
        let bytes = [prefix, &huge, &[0x01; 16]].concat();
        assert_eq!(Message::decode(&bytes).unwrap_err().kind(), ErrorKind::Protocol);
    }
}

#[test]
fn deep_nesting_in_an_unknown_field_is_skipped_without_recursion() {
    for opener in [0x81, 0x9f, 0xbf, 0xd8] {
        let mut bytes = vec![0x82, 0x02, 0x81, 0xa4, 0x18, 99];
        bytes.extend(std::iter::repeat_n(opener, MAX_MESSAGE / 2));
        assert!(Message::decode(&bytes).is_err());
    }
}

#[test]
fn a_frame_comes_back_as_it_was() {
    for (name, header, payload) in samples::frames() {
        let decoded = FrameHeader::decode(&header.encode()).unwrap();
        assert_eq!(decoded, header, "{name}");
        assert_eq!(decoded.wire_length(), payload.len());
        decoded.verify(&payload).unwrap();
    }
}

#[test]
fn a_flipped_bit_in_a_header_is_corruption() {
    let good = samples::frames()[1].1.encode();
    for bit in 0..HEADER_LENGTH * 8 {
        let mut bytes = good;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(kind_of(FrameHeader::decode(&bytes)), Some(ErrorKind::Corrupted), "bit {bit}");
    }
}

#[test]
fn a_header_that_breaks_a_rule_is_refused() {
    let data = samples::frames()[1].1;
    let too_long = u32::try_from(MAX_PAYLOAD).unwrap() + 1;
    let rules: [(&str, [u8; HEADER_LENGTH]); 9] = [
        ("version", forged(&data, |bytes| bytes[0] = 2)),
        ("kind 0", forged(&data, |bytes| bytes[1] = 0)),
        ("kind 6", forged(&data, |bytes| bytes[1] = 6)),
        ("flags", FrameHeader { flags: 2, ..data }.encode()),
        ("length", FrameHeader { length: too_long, ..data }.encode()),
        ("length of zeros", FrameHeader { flags: FLAG_ZERO, length: too_long, ..data }.encode()),
        ("offset", FrameHeader { offset: 1, ..data }.encode()),
        ("end", FrameHeader { offset: u64::MAX - (u64::MAX % MAX_PAYLOAD as u64), length: too_long - 1, ..data }.encode()),
        ("payload of ping", FrameHeader { length: 1, ..FrameHeader::empty(FrameKind::Ping) }.encode()),
    ];
    for (rule, bytes) in rules {
        assert_eq!(kind_of(FrameHeader::decode(&bytes)), Some(ErrorKind::Protocol), "{rule}");
    }
    assert!(FrameHeader::decode(&forged(&data, |_| ())).is_ok());
}

#[test]
fn a_payload_that_differs_is_corruption() {
    let (_, header, mut payload) = samples::frames().swap_remove(1);
    payload[4] ^= 1;
    assert_eq!(header.verify(&payload).unwrap_err().kind(), ErrorKind::Corrupted);
    assert_eq!(header.verify(&payload[1..]).unwrap_err().kind(), ErrorKind::Protocol);
}

#[test]
fn an_item_that_does_not_fit_leaves_the_pack_as_it_was() {
    let header = samples::file_header();
    let mut space = vec![0; MAX_PAYLOAD];
    let mut whole = 0;
    assert!(pack_item(&mut space, &mut whole, &header, b"12345"));
    for size in 0..whole {
        let mut used = 0;
        assert!(!pack_item(&mut space[..size], &mut used, &header, b"12345"), "{size} bytes held it");
        assert_eq!(used, 0);
    }
    let mut beyond = MAX_PAYLOAD + 1;
    assert!(!pack_item(&mut space, &mut beyond, &header, b"12345"));
    assert!(!pack_item(&mut space, &mut whole, &header, b"1234"), "content of another size than the header says passed");
}

#[test]
fn a_pack_cut_at_any_byte_ends_with_an_error_or_whole_items() {
    let mut space = vec![0; 4096];
    let mut used = 0;
    let mut ends = vec![0];
    for header in [samples::file_header(), samples::symlink(), samples::file_header()] {
        assert!(pack_item(&mut space, &mut used, &header, &b"12345"[..usize::try_from(header.size).unwrap()]));
        ends.push(used);
    }
    for length in 0..=used {
        let items: Vec<_> = pack_items(&space[..length]).collect();
        let whole = ends.iter().filter(|end| **end <= length).count() - 1;
        assert_eq!(items.iter().filter(|item| item.is_ok()).count(), whole);
        assert_eq!(items.len() > whole, !ends.contains(&length), "cut at {length}");
    }
}

fn small_file() -> impl Strategy<Value = (FileHeader, Vec<u8>)> {
    (prop::collection::vec(any::<u8>(), 0..300), prop::collection::vec(any::<u8>(), 0..40), any::<u32>(), any::<Option<i64>>())
        .prop_map(|(content, path, file, modified_ns)| {
            let header = FileHeader { file, path, modified_ns, size: content.len() as u64, ..samples::file_header() };
            (header, content)
        })
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Message::decode(&bytes);
        let _ = decode_file_header(&bytes);
        prop_assert!(pack_items(&bytes).count() <= bytes.len());
        if let Some(header) = bytes.first_chunk() {
            let _ = FrameHeader::decode(header);
        }
    }

    #[test]
    fn mutated_messages_never_panic(index in any::<prop::sample::Index>(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let samples = samples::messages();
        let mut bytes = index.get(&samples).1.encode();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(message) = Message::decode(&bytes) {
            let _ = Message::decode(&message.encode()).unwrap();
        }
    }

    #[test]
    fn forged_headers_decode_to_themselves_or_not_at_all(bytes in prop::array::uniform32(any::<u8>()), tail in prop::array::uniform32(any::<u8>())) {
        let header = forged(&FrameHeader::empty(FrameKind::Data), |out| {
            out[2..34].copy_from_slice(&bytes);
            out[36..68].copy_from_slice(&tail);
        });
        if let Ok(decoded) = FrameHeader::decode(&header) {
            prop_assert_eq!(decoded.encode(), header);
        }
    }

    #[test]
    fn packed_items_come_back_in_order(files in prop::collection::vec(small_file(), 0..20)) {
        let mut space = vec![0; MAX_PAYLOAD];
        let mut used = 0;
        for (header, content) in &files {
            prop_assert!(pack_item(&mut space, &mut used, header, content));
        }
        let unpacked: Vec<_> = pack_items(&space[..used]).map(|item| item.map(|(header, content)| (header, content.to_vec())).unwrap()).collect();
        prop_assert_eq!(unpacked, files);
    }
}
