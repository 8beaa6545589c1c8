//! What is known of the files of a transfer: how many, and how large.

use serde::{Deserialize, Serialize};

/// The files that were listed so far, in classes by size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The classes that have any file, smallest first.
    pub classes: Vec<SizeClass>,
    /// Whether these are all files of the transfer.
    pub complete: bool,
}

/// Files whose sizes have the same power of two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeClass {
    /// Files of 2^`exponent` bytes and more, and of less than twice that; empty files are of class 0.
    pub exponent: u8,
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The streams that are to be at files of some sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeShare {
    /// Files of 2^`exponent` bytes and more belong to it, but for those of the next share. The first share has all that are smaller too.
    pub exponent: u8,
    /// How many streams; where there are more or fewer in all, as many of them as this is of all shares.
    pub streams: u16,
    /// Chunks of one file in flight at once, if a decision has no lower limit; `u16::MAX` for none.
    pub parallelism: u16,
}

/// The power of two of a size in bytes, rounded down; 0 of nothing.
pub(crate) fn exponent(size: u64) -> u8 {
    u8::try_from(size.max(1).ilog2()).unwrap_or(u8::MAX)
}

impl Listed {
    /// All files.
    pub fn files(&self) -> u64 {
        self.classes.iter().map(|class| class.files).sum()
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.classes.iter().map(|class| class.bytes).sum()
    }

    /// Mean size in bytes; 0 without files.
    pub fn mean_size(&self) -> f64 {
        self.bytes() as f64 / self.files().max(1) as f64
    }

    /// Counts a file.
    pub fn add(&mut self, size: u64) {
        let exponent = exponent(size);
        let at = self.classes.partition_point(|class| class.exponent < exponent);
        if self.classes.get(at).is_none_or(|class| class.exponent != exponent) {
            self.classes.insert(at, SizeClass { exponent, ..SizeClass::default() });
        }
        let class = &mut self.classes[at];
        (class.files, class.bytes) = (class.files + 1, class.bytes + size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_by_the_power_of_two_of_their_size() {
        let mut listed = Listed::default();
        for size in [1024, 0, 1, 2047, 2048, 1 << 40] {
            listed.add(size);
        }
        let found: Vec<_> = listed.classes.iter().map(|class| (class.exponent, class.files, class.bytes)).collect();
        assert_eq!(found, [(0, 2, 1), (10, 2, 3071), (11, 1, 2048), (40, 1, 1 << 40)]);
        assert_eq!((listed.files(), listed.bytes()), (6, 3071 + 1 + 2048 + (1 << 40)));
    }
}
