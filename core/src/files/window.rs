//! How far ahead of a reader to read: nothing for one that jumps about, and for one that goes on as much as keeps it from waiting.

use std::ops::Range;

/// What a window begins with.
const FIRST: u64 = 4 << 20;

/// The least and the most bytes of one piece.
pub(super) const LEAST_PIECE: u64 = 256 << 10;
pub(super) const MOST_PIECE: u64 = 4 << 20;

/// Pieces that a window is cut into: more than one connection has something to do, and its own delay hurts nobody.
const PIECES: u64 = 8;

/// The window of one reader. Pure: it hears of reads, and answers how far to read ahead.
#[derive(Debug)]
pub(super) struct Window {
    /// What keeps the reader from waiting, as far as it is known.
    size: u64,
    most: u64,
    /// Where the last read ended.
    end: u64,
    /// Bytes that were read in a row.
    row: u64,
}

/// What to do about one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Advice {
    /// Bytes to read ahead behind its end.
    pub(super) ahead: u64,
    /// Bytes of one piece.
    pub(super) piece: u64,
    /// Whether the reader went somewhere else: what was to be read ahead is not wanted any more.
    pub(super) jumped: bool,
    /// Whether it went on, but left something out: what was read ahead of that is not wanted any more.
    pub(super) skipped: bool,
}

impl Window {
    /// A window that grows to at most so many bytes; 0 reads nothing ahead.
    pub(super) fn new(most: u64) -> Self {
        Self { size: FIRST.min(most), most, end: 0, row: 0 }
    }

    /// Hears of a read before it is done.
    ///
    /// What begins where the last one ended goes on, and so does what skips no more than was read in the row, as readers of columns do.
    /// The first reads of a row look ahead by little: twice what was read, as Linux does.
    pub(super) fn advise(&mut self, read: &Range<u64>) -> Advice {
        let skipped = read.start.saturating_sub(self.end);
        let goes_on = read.start >= self.end && skipped <= self.row && self.row > 0;
        let jumped = !goes_on && self.row > 0;
        let length = read.end - read.start;
        self.row = if goes_on { self.row.saturating_add(length) } else { length };
        self.end = read.end;
        let ahead = if goes_on { self.row.saturating_mul(2).max(LEAST_PIECE).min(self.size) } else { 0 };
        Advice { ahead, piece: piece(ahead.max(length)), jumped, skipped: goes_on && skipped > 0 }
    }

    /// Hears that the reader had to wait for what had been read ahead for it: more has to be on its way.
    pub(super) fn starved(&mut self) {
        self.size = self.size.saturating_mul(2).min(self.most);
    }

    /// What may be here or on its way without having been read.
    pub(super) fn most(&self) -> u64 {
        self.most.max(FIRST)
    }
}

fn piece(window: u64) -> u64 {
    (window / PIECES).next_multiple_of(LEAST_PIECE).clamp(LEAST_PIECE, MOST_PIECE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The advice for reads of one length, one behind the other.
    fn in_a_row(window: &mut Window, length: u64, reads: u64) -> Vec<u64> {
        (0..reads).map(|read| window.advise(&(read * length..(read + 1) * length)).ahead).collect()
    }

    #[test]
    fn a_row_of_reads_looks_ahead_by_more_and_more_up_to_the_window() {
        let mut window = Window::new(64 * MIB);
        assert_eq!(in_a_row(&mut window, MIB, 4), [0, 4 * MIB, 4 * MIB, 4 * MIB]);
        assert_eq!(in_a_row(&mut Window::new(64 * MIB), 100 << 10, 3), [0, 400 << 10, 600 << 10]);
        assert_eq!(in_a_row(&mut Window::new(64 * MIB), 1000, 3), [0, LEAST_PIECE, LEAST_PIECE]);
    }

    #[test]
    fn only_a_reader_that_waits_gets_a_larger_window_and_none_beyond_the_most() {
        let mut window = Window::new(10 * MIB);
        window.starved();
        assert_eq!(window.size, 8 * MIB);
        window.starved();
        window.starved();
        assert_eq!(window.size, 10 * MIB);
        assert_eq!(in_a_row(&mut window, 8 * MIB, 2), [0, 10 * MIB]);
    }

    #[test]
    fn a_reader_that_jumps_reads_nothing_ahead() {
        let mut window = Window::new(64 * MIB);
        in_a_row(&mut window, MIB, 3);
        let away = window.advise(&(100 * MIB..101 * MIB));
        assert!(away.jumped && away.ahead == 0, "{away:?}");
        let back = window.advise(&(0..10));
        assert!(back.jumped && back.ahead == 0, "{back:?}");
    }

    #[test]
    fn a_reader_that_skips_a_little_goes_on() {
        let mut window = Window::new(64 * MIB);
        window.advise(&(0..MIB));
        let skipping = window.advise(&(MIB + 4096..2 * MIB));
        assert!(!skipping.jumped && skipping.skipped && skipping.ahead > MIB, "{skipping:?}");
        assert!(!window.advise(&(2 * MIB..3 * MIB)).skipped);
    }

    #[test]
    fn pieces_grow_with_the_window_within_bounds() {
        assert_eq!([0, MIB, 8 * MIB, 64 * MIB, 1 << 40].map(piece), [MIB / 4, MIB / 4, MIB, 4 * MIB, 4 * MIB]);
        assert_eq!(piece(9 * MIB) % LEAST_PIECE, 0);
    }

    #[test]
    fn a_window_of_nothing_reads_nothing_ahead() {
        let mut window = Window::new(0);
        window.starved();
        assert_eq!(in_a_row(&mut window, MIB, 3), [0, 0, 0]);
    }
}
