//! Digests that services keep of their objects, compared with what is read.

use std::collections::BTreeMap;

use crc_fast::{CrcAlgorithm, Digest};
use md5::{Digest as _, Md5};

use super::Body;
use crate::error::{Error, ErrorKind, Result};

/// The crc32c of an object that is read in pieces, in any order.
pub(super) struct Pieces {
    size: u64,
    /// Where a piece begins, to where it ends and its crc32c so far; no two overlap.
    found: BTreeMap<u64, (u64, Digest)>,
    /// Whether bytes were read more than once, of which it is not known that they were the same each time.
    repeated: bool,
}

impl Pieces {
    pub(super) fn new(size: u64) -> Self {
        Self { size, found: BTreeMap::new(), repeated: false }
    }

    /// Takes bytes that were read.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        if bytes.is_empty() || self.repeated {
            return;
        }
        if self.found.range(offset + 1..end).next().is_some() {
            self.repeated = true;
            return;
        }
        match self.found.range_mut(..=offset).next_back() {
            Some((_, (piece_end, _))) if *piece_end > offset => self.repeated = true,
            Some((_, (piece_end, digest))) if *piece_end == offset => {
                digest.update(bytes);
                *piece_end = end;
            }
            _ => {
                let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
                digest.update(bytes);
                self.found.insert(offset, (end, digest));
            }
        }
    }

    /// The crc32c of the whole object; `None` while a byte is missing, and once one was read again.
    pub(super) fn finish(&self) -> Option<u32> {
        if self.repeated {
            return None;
        }
        let (mut at, mut sum) = (0, Digest::new(CrcAlgorithm::Crc32Iscsi).finalize());
        for (begin, (end, digest)) in &self.found {
            if *begin != at {
                return None;
            }
            sum = crc_fast::checksum_combine(CrcAlgorithm::Crc32Iscsi, sum, digest.finalize(), end - begin);
            at = *end;
        }
        if at == self.size { u32::try_from(sum).ok() } else { None }
    }
}

/// A body whose bytes are all read, in order.
struct Summed {
    what: String,
    body: Box<dyn Body>,
    left: u64,
    kept: [u8; 16],
    found: Md5,
}

/// Compares what is read of `body`, which is a whole object of `size` bytes, with its MD5; `what` is for the error.
pub(super) fn compared(what: &str, body: Box<dyn Body>, size: u64, kept: [u8; 16]) -> Box<dyn Body> {
    Box::new(Summed { what: what.to_owned(), body, left: size, kept, found: Md5::new() })
}

impl Body for Summed {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.body.read(buffer)?;
        self.found.update(&buffer[..count]);
        self.left = self.left.saturating_sub(count as u64);
        if count > 0 && self.left == 0 && self.found.clone().finalize().as_slice() != self.kept {
            return Err(differs(&self.what));
        }
        Ok(count)
    }

    fn is_lent(&self) -> bool {
        self.body.is_lent()
    }
}

/// The error for bytes that are not those of which the service keeps a digest.
pub(super) fn differs(what: &str) -> Error {
    Error::new(ErrorKind::Corrupted, what)
        .with_cause("its bytes have another digest than the service keeps of them")
        .with_hint("run the same command again; if that fails too, the path to the service or the service itself changes bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(&'static [u8]);

    impl Body for Bytes {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            let count = self.0.len().min(buffer.len()).min(4);
            let (now, rest) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = rest;
            Ok(count)
        }
    }

    fn read(content: &'static [u8]) -> Result<Vec<u8>> {
        let kept = 0x25f9_e794_323b_4538_85f5_181f_1b62_4d0b_u128.to_be_bytes();
        let mut body = compared("could not read `x`", Box::new(Bytes(content)), 9, kept);
        let (mut all, mut buffer) = (Vec::new(), [0; 16]);
        loop {
            match body.read(&mut buffer)? {
                0 => return Ok(all),
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    #[test]
    fn other_bytes_than_the_service_keeps_are_never_read_to_their_end() {
        assert_eq!(read(b"123456789").unwrap(), b"123456789");
        for wrong in [b"123456788", b"023456789"] {
            assert_eq!(read(wrong).unwrap_err().kind(), ErrorKind::Corrupted);
        }
    }

    #[test]
    fn pieces_in_any_order_have_the_checksum_of_the_whole() {
        for order in [&[(0, 9)][..], &[(0, 4), (4, 9)], &[(4, 6), (0, 4), (6, 9)], &[(6, 9), (3, 6), (0, 3)]] {
            let mut pieces = Pieces::new(9);
            for (begin, end) in order {
                assert_eq!(pieces.finish(), None);
                pieces.add(*begin as u64, &b"123456789"[*begin..*end]);
            }
            assert_eq!(pieces.finish(), Some(0xe306_9283), "{order:?}");
        }
        assert_eq!(Pieces::new(0).finish(), Some(0));
    }

    #[test]
    fn bytes_that_were_read_twice_are_not_taken_for_compared() {
        for again in [0..4, 2..6, 6..9, 3..9] {
            let mut pieces = Pieces::new(9);
            for range in [0..4, 4..9, again.clone()] {
                pieces.add(range.start as u64, &b"123456789"[range]);
            }
            assert_eq!(pieces.finish(), None, "{again:?}");
        }
    }
}
