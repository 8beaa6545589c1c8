//! Sets of byte ranges: what of a file is there and what is missing.

use std::collections::BTreeMap;

/// Sorted, disjoint, half-open ranges; adjacent ones are merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges {
    /// Begin to end.
    ranges: BTreeMap<u64, u64>,
    covered: u64,
}

impl Ranges {
    /// No ranges.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `begin..end`, merging it with what it touches; an empty range changes nothing. Returns how many bytes are new.
    pub fn insert(&mut self, begin: u64, end: u64) -> u64 {
        if begin >= end {
            return 0;
        }
        let before = self.covered;
        let (mut first, mut last) = (begin, end);
        while let Some((&other_begin, &other_end)) = self.ranges.range(..=last).next_back()
            && other_end >= first
        {
            self.ranges.remove(&other_begin);
            self.covered -= other_end - other_begin;
            first = first.min(other_begin);
            last = last.max(other_end);
        }
        self.ranges.insert(first, last);
        self.covered += last - first;
        self.covered - before
    }

    /// Whether every byte of `begin..end` is there; true for an empty range.
    pub fn contains(&self, begin: u64, end: u64) -> bool {
        begin >= end || self.ranges.range(..=begin).next_back().is_some_and(|(_, other_end)| *other_end >= end)
    }

    /// The parts of `begin..end` that are not there, in order.
    pub fn missing(&self, begin: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let from = self.ranges.range(..=begin).next_back().map_or(begin, |(first, _)| *first);
        let mut at = begin;
        let mut there = (from < end).then(|| self.ranges.range(from..end)).into_iter().flatten();
        std::iter::from_fn(move || {
            while at < end {
                let (next_begin, next_end) = there.next().map_or((end, end), |(next_begin, next_end)| (*next_begin, *next_end));
                let gap = (at, next_begin);
                at = at.max(next_end);
                if gap.0 < gap.1 {
                    return Some(gap);
                }
            }
            None
        })
    }

    /// How many bytes are there.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// The ranges in order, as begin and end.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(begin, end)| (*begin, *end))
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether every byte of a file of `size` bytes is there.
    pub fn is_complete(&self, size: u64) -> bool {
        self.contains(0, size)
    }
}

impl FromIterator<(u64, u64)> for Ranges {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(ranges: I) -> Self {
        let mut all = Self::new();
        for (begin, end) in ranges {
            all.insert(begin, end);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(at: u64) -> usize {
        usize::try_from(at).unwrap()
    }

    /// Turns a bitmap into the ranges of its set bits.
    fn runs(bits: &[bool]) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (at, _) in bits.iter().enumerate().filter(|(_, set)| **set) {
            let at = at as u64;
            match runs.last_mut() {
                Some(last) if last.1 == at => last.1 += 1,
                _ => runs.push((at, at + 1)),
            }
        }
        runs
    }

    #[test]
    fn the_ends_of_the_number_line_do_not_overflow() {
        let mut ranges = Ranges::new();
        assert_eq!(ranges.insert(0, u64::MAX), u64::MAX);
        assert_eq!(ranges.insert(u64::MAX - 1, u64::MAX), 0);
        assert!(ranges.is_complete(u64::MAX));
        assert_eq!(ranges.missing(5, 3).count(), 0);
    }

    #[test]
    fn an_empty_file_is_always_complete() {
        assert!(Ranges::new().is_complete(0));
        assert!(!Ranges::new().is_complete(1));
    }

    proptest! {
        #[test]
        fn ranges_agree_with_a_bitmap(inserted in prop::collection::vec((0u64..64, 0u64..64), 0..24), from in 0u64..70, to in 0u64..70) {
            let mut ranges = Ranges::new();
            let mut bits = [false; 70];
            for (begin, end) in inserted {
                let new = (begin..end).filter(|at| !bits[index(*at)]).count() as u64;
                prop_assert_eq!(ranges.insert(begin, end), new);
                (begin..end).for_each(|at| bits[index(at)] = true);
            }
            prop_assert_eq!(ranges.iter().collect::<Vec<_>>(), runs(&bits));
            prop_assert_eq!(ranges.covered(), bits.iter().filter(|set| **set).count() as u64);
            prop_assert_eq!(ranges.contains(from, to), (from..to).all(|at| bits[index(at)]));
            let asked: Vec<bool> = (0..70).map(|at| (from..to).contains(&at) && !bits[index(at)]).collect();
            prop_assert_eq!(ranges.missing(from, to).collect::<Vec<_>>(), runs(&asked));
            prop_assert_eq!(&ranges.iter().collect::<Ranges>(), &ranges);
        }
    }
}
