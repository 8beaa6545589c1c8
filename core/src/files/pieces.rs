//! The pieces of one file that were asked for: what is here, what is on its way, and what is dropped first.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::error::Error;

/// Small reads at random places bring so much around them, as the next one is often close by.
const GRAIN: u64 = 64 << 10;

/// Bytes that are kept although they were read, for those who come back to them.
const KEPT: u64 = 16 << 20;

/// Pieces by where they begin; they do not overlap. Pure: others bring the bytes.
#[derive(Default)]
pub(super) struct Pieces {
    by_begin: BTreeMap<u64, Piece>,
    /// Counts what happens, for what was used last.
    tick: u64,
    /// Bytes that are here.
    held: u64,
}

struct Piece {
    end: u64,
    content: Content,
    /// Whether its end was read: those are dropped before others.
    read: bool,
    used: u64,
}

/// What there is of a piece.
#[derive(Clone)]
pub(super) enum Content {
    /// Nobody has begun to bring it.
    Ordered,
    /// It is being brought.
    Coming,
    /// Its bytes.
    Here(Arc<Vec<u8>>),
    /// It could not be brought.
    Failed(Error),
}

impl Pieces {
    /// The piece around a byte, and where it begins.
    pub(super) fn around(&self, at: u64) -> Option<(u64, &Content)> {
        let (begin, piece) = self.by_begin.range(..=at).next_back()?;
        (piece.end > at).then_some((*begin, &piece.content))
    }

    /// Orders what is missing of a range, in pieces of at most so many bytes; answers with those. A range that is short and not followed
    /// by others is widened, though not beyond `size`.
    pub(super) fn order(&mut self, wanted: Range<u64>, piece: u64, size: u64) -> Vec<Range<u64>> {
        let wanted = if wanted.end - wanted.start < GRAIN { widened(wanted, size) } else { wanted };
        let mut ordered = Vec::new();
        let mut at = wanted.start;
        while at < wanted.end {
            if let Some((_, around)) = self.by_begin.range(..=at).next_back().filter(|(_, around)| around.end > at) {
                at = around.end;
                continue;
            }
            let next = self.by_begin.range(at..).next().map_or(u64::MAX, |(begin, _)| *begin);
            let end = (at + piece).min(wanted.end).min(next);
            self.tick += 1;
            self.by_begin.insert(at, Piece { end, content: Content::Ordered, read: false, used: self.tick });
            ordered.push(at..end);
            at = end;
        }
        ordered
    }

    /// Where what was asked for from a byte on without a gap ends.
    pub(super) fn reach(&self, from: u64) -> u64 {
        let mut at = from;
        while let Some((_, piece)) = self.by_begin.range(..=at).next_back().filter(|(_, piece)| piece.end > at) {
            at = piece.end;
        }
        at
    }

    /// Takes bytes that are here already.
    pub(super) fn hold(&mut self, range: Range<u64>, bytes: Vec<u8>) {
        self.held += bytes.len() as u64;
        self.tick += 1;
        let content = Content::Here(Arc::new(bytes));
        self.by_begin.insert(range.start, Piece { end: range.end, content, read: false, used: self.tick });
    }

    /// Notes that a piece is being brought; false if it is not wanted any more, or not by this order.
    pub(super) fn begin(&mut self, range: &Range<u64>) -> bool {
        let piece = self.by_begin.get_mut(&range.start).filter(|piece| piece.end == range.end);
        let Some(piece) = piece.filter(|piece| matches!(piece.content, Content::Ordered)) else { return false };
        piece.content = Content::Coming;
        true
    }

    /// Notes what became of a piece.
    pub(super) fn settle(&mut self, begin: u64, content: Content) {
        let Some(piece) = self.by_begin.get_mut(&begin) else { return };
        if let Content::Here(bytes) = &content {
            self.held += bytes.len() as u64;
        }
        piece.content = content;
    }

    /// Notes that a piece was read up to a byte.
    pub(super) fn used(&mut self, begin: u64, up_to: u64) {
        self.tick += 1;
        if let Some(piece) = self.by_begin.get_mut(&begin) {
            piece.used = self.tick;
            piece.read |= up_to == piece.end;
        }
    }

    /// Forgets a piece that failed: the next one who wants it asks again.
    pub(super) fn forget(&mut self, begin: u64) {
        self.by_begin.remove(&begin);
    }

    /// Forgets what nobody has begun to bring, outside a range.
    pub(super) fn cancel(&mut self, but: &Range<u64>) {
        self.by_begin
            .retain(|begin, piece| !matches!(piece.content, Content::Ordered) || (*begin < but.end && piece.end > but.start));
    }

    /// Drops what was read, longest ago first, and then what was not, until no more is held than the window and a little of what was read.
    pub(super) fn trim(&mut self, window: u64) {
        while self.held > window.saturating_add(KEPT) {
            let here = self.by_begin.iter().filter(|(_, piece)| matches!(piece.content, Content::Here(_)));
            let Some(begin) = here.min_by_key(|(_, piece)| (!piece.read, piece.used)).map(|(begin, _)| *begin) else { return };
            if let Some(Piece { content: Content::Here(bytes), .. }) = self.by_begin.remove(&begin) {
                self.held -= bytes.len() as u64;
            }
        }
    }
}

fn widened(range: Range<u64>, size: u64) -> Range<u64> {
    range.start / GRAIN * GRAIN..range.end.next_multiple_of(GRAIN).min(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    fn here(pieces: &mut Pieces, range: &Range<u64>) {
        assert!(pieces.begin(range));
        let length = usize::try_from(range.end - range.start).unwrap();
        pieces.settle(range.start, Content::Here(Arc::new(vec![0; length])));
    }

    fn one(range: Range<u64>) -> Vec<Range<u64>> {
        std::iter::once(range).collect()
    }

    #[test]
    fn only_what_is_missing_is_ordered() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.order(MIB..2 * MIB, MIB, SIZE), one(MIB..2 * MIB));
        assert_eq!(pieces.order(0..3 * MIB, MIB, SIZE), [0..MIB, 2 * MIB..3 * MIB]);
        assert_eq!(pieces.order(0..3 * MIB, MIB, SIZE), []);
        assert_eq!((pieces.reach(5), pieces.reach(3 * MIB)), (3 * MIB, 3 * MIB));
    }

    #[test]
    fn a_short_range_is_widened_as_far_as_the_file_goes() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.order(70_000..70_010, MIB, SIZE), one(65_536..131_072));
        assert_eq!(pieces.order(10..20, MIB, 1000), one(0..1000));
        assert!(pieces.around(1001).is_none());
    }

    #[test]
    fn what_is_not_wanted_any_more_is_not_brought() {
        let mut pieces = Pieces::default();
        let ordered = pieces.order(0..3 * MIB, MIB, SIZE);
        assert!(pieces.begin(&ordered[0]));
        pieces.cancel(&(2 * MIB..2 * MIB + 1));
        assert!(!pieces.begin(&ordered[0]) && !pieces.begin(&ordered[1]) && pieces.begin(&ordered[2]));
    }

    #[test]
    fn what_was_read_is_dropped_before_what_will_be() {
        let mut pieces = Pieces::default();
        for range in pieces.order(0..40 * MIB, 4 * MIB, SIZE) {
            here(&mut pieces, &range);
        }
        pieces.used(4 * MIB, 8 * MIB);
        pieces.used(0, 4 * MIB);
        pieces.trim(16 * MIB);
        assert!(pieces.around(0).is_none() && pieces.around(4 * MIB).is_none() && pieces.around(8 * MIB).is_some());
    }
}
