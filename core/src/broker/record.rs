//! What a slot of the table holds: one transfer, in CBOR, behind its length and a checksum.

use minicbor::{Decode, Encode};

use crate::broker::Limits;
use crate::protocol::frame::crc32c;

/// Bytes of a slot.
pub(super) const SLOT: usize = 256;

/// Before the CBOR: its length (u16) and its crc32c (u32), little endian.
const HEADER: usize = 6;

/// Most bytes of the name of a server.
const LONGEST: usize = 64;

/// One transfer of this host, as it tells of itself.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode)]
#[cbor(map)]
pub(super) struct Record {
    /// The number of its slot.
    #[n(0)]
    pub(super) slot: u16,
    /// Its process.
    #[n(1)]
    pub(super) process: u32,
    /// When it began, in milliseconds since 1970.
    #[n(2)]
    pub(super) began_ms: u64,
    /// When it last said something, likewise.
    #[n(3)]
    pub(super) beat_ms: u64,
    /// The server or service at the other side; empty where there is none.
    #[n(4)]
    pub(super) server: String,
    /// Its weight among the others.
    #[n(5)]
    pub(super) weight: u8,
    /// Most streams that it may have by its own options.
    #[n(6)]
    pub(super) limit: u16,
    /// Streams that it would use.
    #[n(7)]
    pub(super) wanted: u16,
    /// Streams that it may be using now: nobody else has them.
    #[n(8)]
    pub(super) held: u16,
    /// Streams that it used when it was last measured.
    #[n(9)]
    pub(super) used: u16,
    /// Streams that it may have.
    #[n(10)]
    pub(super) share: u16,
    /// Bytes per second that it moved when it was last measured.
    #[n(11)]
    pub(super) rate: f64,
    /// Bytes per second that it would move.
    #[n(12)]
    pub(super) rate_wanted: f64,
    /// Bytes per second that it may move; infinite without a limit.
    #[n(13)]
    pub(super) rate_held: f64,
    /// Bytes that it would hold in buffers.
    #[n(14)]
    pub(super) memory_wanted: u64,
    /// Bytes that it may hold.
    #[n(15)]
    pub(super) memory_held: u64,
    /// What its options say of the limits of the host.
    #[n(16)]
    pub(super) limits: Limits,
}

impl Record {
    /// The bytes of its slot; `None` if it does not fit, which only a name that was not [`shortened`] brings about.
    pub(super) fn encode(&self) -> Option<[u8; SLOT]> {
        let mut bytes = [0; SLOT];
        let mut cursor = minicbor::encode::write::Cursor::new(&mut bytes[HEADER..]);
        minicbor::encode(self, &mut cursor).ok()?;
        let length = cursor.position();
        let sum = crc32c(&bytes[HEADER..HEADER + length]);
        bytes[..2].copy_from_slice(&u16::try_from(length).ok()?.to_le_bytes());
        bytes[2..HEADER].copy_from_slice(&sum.to_le_bytes());
        Some(bytes)
    }

    /// What a slot holds, if it holds anything that is whole.
    pub(super) fn decode(slot: &[u8]) -> Option<Self> {
        let (length, rest) = slot.split_first_chunk()?;
        let (sum, rest) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes(*length));
        let bytes = rest.get(..length).filter(|_| length > 0)?;
        (crc32c(bytes) == u32::from_le_bytes(*sum)).then(|| minicbor::decode(bytes).ok()).flatten()
    }
}

/// The name of a server as far as a slot has room for it.
pub(super) fn shortened(server: &str) -> String {
    server[..server.floor_char_boundary(LONGEST)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn largest() -> Record {
        Record {
            slot: u16::MAX,
            process: u32::MAX,
            began_ms: u64::MAX,
            beat_ms: u64::MAX,
            server: shortened(&"x".repeat(200)),
            weight: u8::MAX,
            limit: u16::MAX,
            wanted: u16::MAX,
            held: u16::MAX,
            used: u16::MAX,
            share: u16::MAX,
            rate: 1.5e9,
            rate_wanted: f64::INFINITY,
            rate_held: f64::INFINITY,
            memory_wanted: u64::MAX,
            memory_held: u64::MAX,
            limits: Limits {
                streams: Some(u16::MAX),
                server_streams: Some(u16::MAX),
                memory: Some(u64::MAX),
                rate: Some(f64::MAX),
            },
        }
    }

    #[test]
    fn the_largest_record_fits_and_comes_back() {
        for record in [largest(), Record::default()] {
            assert_eq!(Record::decode(&record.encode().unwrap()), Some(record));
        }
        assert!(Record { server: "x".repeat(200), ..largest() }.encode().is_none());
    }

    #[test]
    fn what_is_empty_or_torn_is_no_record() {
        let whole = largest().encode().unwrap();
        assert_eq!(Record::decode(&[0; SLOT]), None);
        assert_eq!(Record::decode(&whole[..40]), None);
        for broken in [0, 1, 3, HEADER + 5] {
            let mut torn = whole;
            torn[broken] ^= 1;
            assert_eq!(Record::decode(&torn), None, "{broken}");
        }
    }

    #[test]
    fn a_long_name_is_cut_between_two_letters() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"é".repeat(40));
        assert_eq!(long.len(), 64);
        assert_eq!(shortened(&format!("x{}", "é".repeat(40))).len(), 63);
    }
}
