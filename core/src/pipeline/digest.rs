//! Digests of files that arrive as blocks in any order: combinable crc64nvme, and BLAKE3 by its own tree.

use std::collections::BTreeMap;

use blake3::hazmat::{self, HasherExt, Mode};

use crate::buffer::SLAB_SIZE;
use crate::error::{Error, ErrorKind};
use crate::options::Digest;
use crate::path::RelativePath;

/// Bytes of a block: the aligned unit that frames carry and whose digests are combined.
pub const BLOCK: u64 = SLAB_SIZE as u64;

/// The reflected generator polynomial of CRC-64/NVME.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// x^(2^n) modulo the polynomial, for every n that a 64 bit count of bytes needs.
const POWERS: [u64; 67] = powers();

/// CRC-64/NVME of bytes, as S3 computes it.
pub fn crc64nvme(bytes: &[u8]) -> u64 {
    crc_fast::crc64_nvme(bytes)
}

/// The crc64nvme of two byte strings put together, from that of each and the length of the second.
///
/// Costs one multiplication of polynomials (about 0.1 µs) for each bit set in `second_length`, where `crc_fast` squares matrices for
/// tens of microseconds; the method is that of zlib's `crc32_combine`.
pub fn combine(first: u64, second: u64, second_length: u64) -> u64 {
    let shift = POWERS[3..].iter().enumerate().filter(|(bit, _)| second_length >> bit & 1 == 1);
    shift.fold(first, |crc, (_, power)| multiply(*power, crc)) ^ second
}

const fn powers() -> [u64; 67] {
    let mut powers = [1 << 62; 67];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = multiply(powers[n - 1], powers[n - 1]);
        n += 1;
    }
    powers
}

/// Multiplies two polynomials modulo the generator; bit 63 is x^0.
const fn multiply(a: u64, mut b: u64) -> u64 {
    let mut product = 0;
    let mut bit = 64;
    while bit > 0 {
        bit -= 1;
        product ^= b & (a >> bit & 1).wrapping_neg();
        b = b >> 1 ^ POLYNOMIAL & (b & 1).wrapping_neg();
    }
    product
}

/// The error for a file that came with other bytes than the store of its source keeps.
pub(crate) fn corrupted(path: &RelativePath) -> Error {
    Error::new(ErrorKind::Corrupted, format!("could not read `{path}`"))
        .with_cause("its bytes have another crc64nvme than its store keeps")
        .with_hint("run the same command again; if that fails too, the path to the store or the store itself changes bytes")
}

/// The BLAKE3 of a block that the digest of its file is made from: a file of at most one block has the plain hash, each block of a
/// longer one the chaining value of its subtree.
///
/// `offset` is a multiple of [`BLOCK`]; the block is whole unless it is the last.
pub fn block_blake3(bytes: &[u8], offset: u64, file_size: u64) -> [u8; 32] {
    if file_size <= BLOCK {
        return *blake3::hash(bytes).as_bytes();
    }
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset).update(bytes);
    // An empty subtree has no chaining value; only a caller's mistake asks for one, and no block ever matches these zeros.
    if bytes.is_empty() { [0; 32] } else { hasher.finalize_non_root() }
}

/// Gathers the digests of a file's blocks, in any order, into those of the file. Memory grows with the number of gaps, not of blocks.
#[derive(Debug, Clone)]
pub struct FileDigest {
    size: u64,
    /// Begin to end and crc64nvme of what is there, adjacent ranges merged.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// First block to height and chaining value of the largest complete subtrees below the root.
    subtrees: Option<BTreeMap<u64, (u32, [u8; 32])>>,
}

impl FileDigest {
    /// Begins the digest of a file of `size` bytes.
    pub fn new(size: u64, digest: Digest) -> Self {
        let subtrees = (digest == Digest::Blake3).then(BTreeMap::new);
        Self { size, ranges: BTreeMap::new(), subtrees }
    }

    /// Adds the digests of the `length` bytes from `offset`; `blake3` is as [`block_blake3`] gives it.
    ///
    /// With BLAKE3 the range must be exactly one block, else it can be any. Answers false, and changes nothing, for a range that is
    /// empty, misplaced, or overlaps one that was added: a block that arrives twice counts once.
    pub fn add(&mut self, offset: u64, length: u64, crc64nvme: u64, blake3: &[u8; 32]) -> bool {
        let Some(end) = offset.checked_add(length).filter(|end| length > 0 && *end <= self.size) else { return false };
        let is_block = offset.is_multiple_of(BLOCK) && length == BLOCK.min(self.size - offset);
        if self.subtrees.is_some() && !is_block || self.overlaps(offset, end) {
            return false;
        }
        self.add_range(offset, end, crc64nvme);
        let blocks = self.size.div_ceil(BLOCK);
        if let Some(subtrees) = &mut self.subtrees {
            add_block(subtrees, offset / BLOCK, blocks, *blake3);
        }
        true
    }

    /// Whether every byte was added.
    pub fn is_complete(&self) -> bool {
        self.size == 0 || self.ranges.get(&0).is_some_and(|(end, _)| *end == self.size)
    }

    /// crc64nvme, and BLAKE3 if it was asked for; `None` while a byte is missing.
    pub fn finish(&self) -> Option<(u64, Option<[u8; 32]>)> {
        if !self.is_complete() {
            return None;
        }
        let crc64nvme = self.ranges.get(&0).map_or(0, |(_, crc)| *crc);
        Some((crc64nvme, self.subtrees.as_ref().map(root)))
    }

    fn overlaps(&self, begin: u64, end: u64) -> bool {
        self.ranges.range(..end).next_back().is_some_and(|(_, (other_end, _))| *other_end > begin)
    }

    fn add_range(&mut self, mut begin: u64, mut end: u64, mut crc: u64) {
        if let Some((next_end, next_crc)) = self.ranges.remove(&end) {
            crc = combine(crc, next_crc, next_end - end);
            end = next_end;
        }
        if let Some((&before, &(before_end, before_crc))) = self.ranges.range(..begin).next_back()
            && before_end == begin
        {
            crc = combine(before_crc, crc, end - begin);
            begin = before;
        }
        self.ranges.insert(begin, (end, crc));
    }
}

/// Merges a block with its sibling subtrees, as far up as there are any. The root has other rules and is left to [`root`].
fn add_block(subtrees: &mut BTreeMap<u64, (u32, [u8; 32])>, block: u64, blocks: u64, mut value: [u8; 32]) {
    let (mut first, mut height) = (block, 0);
    while 2u64 << height < blocks {
        let sibling = first ^ (1 << height);
        let Some((_, other)) = subtrees.get(&sibling).filter(|(other_height, _)| *other_height == height) else { break };
        let (left, right) = if sibling < first { (other, &value) } else { (&value, other) };
        value = hazmat::merge_subtrees_non_root(left, right, Mode::Hash);
        subtrees.remove(&sibling);
        first = first.min(sibling);
        height += 1;
    }
    subtrees.insert(first, (height, value));
}

/// Joins the subtrees of a complete file, the smallest on the right first; a single one is the plain hash of a file of one block.
fn root(subtrees: &BTreeMap<u64, (u32, [u8; 32])>) -> [u8; 32] {
    let mut values = subtrees.values().rev().map(|(_, value)| *value);
    let Some(mut right) = values.next() else { return *blake3::hash(b"").as_bytes() };
    let mut left = values.next();
    while let Some(value) = left {
        left = values.next();
        right = match left {
            Some(_) => hazmat::merge_subtrees_non_root(&value, &right, Mode::Hash),
            None => *hazmat::merge_subtrees_root(&value, &right, Mode::Hash).as_bytes(),
        };
    }
    right
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(size: usize) -> Vec<u8> {
        (0..size as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    fn digest_in_order(bytes: &[u8], order: &[usize], digest: Digest) -> FileDigest {
        let size = bytes.len() as u64;
        let mut file = FileDigest::new(size, digest);
        let blocks: Vec<&[u8]> = bytes.chunks(SLAB_SIZE).collect();
        for index in order {
            assert!(file.finish().is_none());
            let offset = *index as u64 * BLOCK;
            let block = blocks[*index];
            assert!(file.add(offset, block.len() as u64, crc64nvme(block), &block_blake3(block, offset, size)));
            assert!(!file.add(offset, block.len() as u64, crc64nvme(block), &block_blake3(block, offset, size)));
        }
        file
    }

    #[test]
    fn combining_agrees_with_the_library() {
        assert_eq!(crc64nvme(b"123456789"), 0xae8b_1486_0a79_9888);
        assert_eq!(combine(crc64nvme(b"1234"), crc64nvme(b"56789"), 5), crc64nvme(b"123456789"));
        assert_eq!(combine(7, 0, 0), 7);
        for length in [1, 1 << 18, (1 << 18) + 12345, (1 << 45) + 7, u64::MAX] {
            assert_eq!(combine(3, 5, length), crc_fast::checksum_combine(crc_fast::CrcAlgorithm::Crc64Nvme, 3, 5, length));
        }
    }

    #[test]
    fn every_size_around_a_block_has_the_digest_of_its_bytes() {
        for size in
            [0, 1, SLAB_SIZE - 1, SLAB_SIZE, SLAB_SIZE + 1, 2 * SLAB_SIZE, 3 * SLAB_SIZE, 4 * SLAB_SIZE, 7 * SLAB_SIZE + 5]
        {
            let bytes = content(size);
            let order: Vec<usize> = (0..size.div_ceil(SLAB_SIZE)).rev().collect();
            let expected = Some((crc64nvme(&bytes), Some(*blake3::hash(&bytes).as_bytes())));
            assert_eq!(digest_in_order(&bytes, &order, Digest::Blake3).finish(), expected, "{size} bytes");
        }
    }

    #[test]
    fn memory_grows_with_gaps_and_not_with_blocks() {
        let size = BLOCK << 20;
        let mut digest = FileDigest::new(size, Digest::Blake3);
        for block in 0..100_000 {
            assert!(digest.add(block * BLOCK, BLOCK, 0, &[0; 32]));
        }
        assert_eq!(digest.ranges.len(), 1);
        assert!(digest.subtrees.unwrap().len() <= 20);
    }

    #[test]
    fn what_is_no_block_of_the_file_is_refused() {
        let mut digest = FileDigest::new(BLOCK + 10, Digest::Blake3);
        for (offset, length) in [(0, 0), (0, 10), (1, BLOCK), (BLOCK, 11), (BLOCK, 9), (2 * BLOCK, 1), (u64::MAX, 2)] {
            assert!(!digest.add(offset, length, 0, &[0; 32]), "{length} bytes at {offset} passed");
        }
        let mut crc_only = FileDigest::new(100, Digest::None);
        assert!(crc_only.add(10, 20, 1, &[0; 32]) && !crc_only.add(29, 5, 1, &[0; 32]) && !crc_only.add(5, 50, 1, &[0; 32]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn blocks_in_any_order_give_the_digest_of_the_file(
            tail in 1..SLAB_SIZE,
            order in (1usize..18).prop_flat_map(|blocks| Just((0..blocks).collect::<Vec<_>>()).prop_shuffle()),
        ) {
            let bytes = content((order.len() - 1) * SLAB_SIZE + tail);
            let expected = (crc64nvme(&bytes), Some(*blake3::hash(&bytes).as_bytes()));
            prop_assert_eq!(digest_in_order(&bytes, &order, Digest::Blake3).finish(), Some(expected));
            prop_assert_eq!(digest_in_order(&bytes, &order, Digest::None).finish(), Some((expected.0, None)));
        }
    }
}
