//! The pieces of one file that were asked for: what is here, what is on its way, and what is dropped first.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::crew::Urgency;
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
    /// Bytes that are here and were used, and bytes that are here and were not.
    used: u64,
    unused: u64,
}

struct Piece {
    end: u64,
    content: Content,
    urgency: Urgency,
    /// Whether something of it was read, or nobody will: those are dropped before others.
    used: bool,
    /// When it was ordered, or used last.
    tick: u64,
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

impl Piece {
    /// Bytes that it holds.
    fn held(&self) -> u64 {
        if let Content::Here(bytes) = &self.content { bytes.len() as u64 } else { 0 }
    }

    /// Notes that it is wanted so soon; true if it is to be brought sooner than it was ordered.
    fn raise(&mut self, urgency: Urgency) -> bool {
        let sooner = urgency == Urgency::Now && self.urgency < urgency && matches!(self.content, Content::Ordered);
        self.urgency = self.urgency.max(urgency);
        sooner
    }
}

impl Pieces {
    /// The piece around a byte, and where it begins.
    pub(super) fn around(&self, at: u64) -> Option<(u64, &Content)> {
        let (begin, piece) = self.by_begin.range(..=at).next_back()?;
        (piece.end > at).then_some((*begin, &piece.content))
    }

    /// Orders what is missing of a range, in pieces of at most so many bytes; answers with those, and with those that were ordered before
    /// and are wanted sooner by now. A range that is short and not followed by others is widened, though not beyond `size`.
    pub(super) fn order(&mut self, wanted: &Range<u64>, piece: u64, size: u64, urgency: Urgency) -> Vec<Range<u64>> {
        let wide = if wanted.end - wanted.start < GRAIN { widened(wanted, size) } else { wanted.clone() };
        // What lies beside it is brought, but nobody waits for that.
        let urgency_of = |range: &Range<u64>| if overlap(range, wanted) { urgency } else { Urgency::Ahead };
        let mut ordered = Vec::new();
        let mut at = wide.start;
        while at < wide.end {
            if let Some((begin, around)) = self.by_begin.range_mut(..=at).next_back().filter(|(_, around)| around.end > at) {
                let range = *begin..around.end;
                at = range.end;
                if around.raise(urgency_of(&range)) {
                    ordered.push(range);
                }
                continue;
            }
            let next = self.by_begin.range(at..).next().map_or(u64::MAX, |(begin, _)| *begin);
            let range = at..at.saturating_add(piece).min(wide.end).min(next);
            at = range.end;
            self.put(&range, Content::Ordered, urgency_of(&range));
            ordered.push(range);
        }
        ordered
    }

    fn put(&mut self, range: &Range<u64>, content: Content, urgency: Urgency) {
        self.tick += 1;
        let piece = Piece { end: range.end, content, urgency, used: false, tick: self.tick };
        self.unused += piece.held();
        self.by_begin.insert(range.start, piece);
    }

    /// Where what was asked for from a byte on without a gap ends.
    pub(super) fn reach(&self, from: u64) -> u64 {
        let mut at = from;
        while let Some((_, piece)) = self.by_begin.range(..=at).next_back().filter(|(_, piece)| piece.end > at) {
            at = piece.end;
        }
        at
    }

    /// How many bytes more may be ordered of what will be asked for later, so that there are no more than `most`.
    pub(super) fn room(&self, most: u64) -> u64 {
        let unused = self.by_begin.iter().filter(|(_, piece)| !piece.used).map(|(begin, piece)| piece.end - begin);
        most.saturating_sub(unused.sum())
    }

    /// Takes bytes that are here already.
    pub(super) fn hold(&mut self, range: &Range<u64>, bytes: Vec<u8>) {
        self.put(range, Content::Here(Arc::new(bytes)), Urgency::Ahead);
    }

    /// Notes that a piece is being brought; false if it is not wanted any more, or not by this order.
    pub(super) fn begin(&mut self, range: &Range<u64>) -> bool {
        let piece = self.by_begin.get_mut(&range.start).filter(|piece| piece.end == range.end);
        let Some(piece) = piece.filter(|piece| matches!(piece.content, Content::Ordered)) else { return false };
        piece.content = Content::Coming;
        true
    }

    /// Notes what became of a piece that was being brought. A failure is kept for who waits for it; who comes later asks again.
    pub(super) fn settle(&mut self, range: &Range<u64>, content: Content) {
        let piece = self.by_begin.get_mut(&range.start).filter(|piece| piece.end == range.end);
        let Some(piece) = piece.filter(|piece| matches!(piece.content, Content::Coming)) else { return };
        if matches!(content, Content::Failed(_)) && piece.urgency < Urgency::Now {
            self.by_begin.remove(&range.start);
            return;
        }
        piece.content = content;
        let count = if piece.used { &mut self.used } else { &mut self.unused };
        *count += piece.held();
    }

    /// Notes that something of a piece was read.
    pub(super) fn read(&mut self, begin: u64) {
        self.tick += 1;
        let tick = self.tick;
        if let Some(piece) = self.by_begin.get_mut(&begin) {
            piece.tick = tick;
        }
        self.leave(begin);
    }

    /// Notes that nobody waits for a piece any more, and that it may be dropped.
    fn leave(&mut self, begin: u64) {
        let Some(piece) = self.by_begin.get_mut(&begin) else { return };
        piece.urgency = Urgency::Ahead;
        if !std::mem::replace(&mut piece.used, true) {
            self.unused -= piece.held();
            self.used += piece.held();
        }
    }

    /// Forgets a piece that failed, or that nobody has begun to bring: the next one who wants it asks again.
    pub(super) fn forget(&mut self, begin: u64) {
        if self.by_begin.get(&begin).is_some_and(|piece| matches!(piece.content, Content::Failed(_) | Content::Ordered)) {
            self.by_begin.remove(&begin);
        }
    }

    /// Forgets what is wanted no more urgently than so, outside a range: what nobody has begun to bring is not brought, and the rest is
    /// dropped before others.
    pub(super) fn cancel(&mut self, but: &Range<u64>, urgency: Urgency) {
        self.give_up(|range, piece| !overlap(range, but) && piece.urgency <= urgency && !piece.used);
    }

    /// Forgets what was to be read of a range.
    pub(super) fn abandon(&mut self, range: &Range<u64>) {
        self.give_up(|place, _| overlap(place, range));
    }

    fn give_up(&mut self, which: impl Fn(&Range<u64>, &Piece) -> bool) {
        let chosen = self.by_begin.iter().filter(|(begin, piece)| which(&(**begin..piece.end), piece));
        for begin in chosen.map(|(begin, _)| *begin).collect::<Vec<_>>() {
            self.forget(begin);
            self.leave(begin);
        }
    }

    /// Drops what was used longest ago until no more than a little of that is held, and what was ordered last of the rest until no more than
    /// `most` is, except what somebody waits for.
    pub(super) fn trim(&mut self, most: u64) {
        while self.used > KEPT {
            let oldest = self.here().filter(|(_, piece)| piece.used).min_by_key(|(_, piece)| piece.tick);
            let Some((begin, _)) = oldest else { return };
            self.drop_piece(begin);
        }
        while self.unused > most {
            let later = self.here().filter(|(_, piece)| !piece.used && piece.urgency < Urgency::Now);
            let Some((begin, _)) = later.max_by_key(|(_, piece)| piece.tick) else { return };
            self.drop_piece(begin);
        }
    }

    fn here(&self) -> impl Iterator<Item = (u64, &Piece)> {
        let pieces = self.by_begin.iter().map(|(begin, piece)| (*begin, piece));
        pieces.filter(|(_, piece)| matches!(piece.content, Content::Here(_)))
    }

    fn drop_piece(&mut self, begin: u64) {
        if let Some(piece) = self.by_begin.remove(&begin) {
            let count = if piece.used { &mut self.used } else { &mut self.unused };
            *count -= piece.held();
        }
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

fn widened(range: &Range<u64>, size: u64) -> Range<u64> {
    range.start / GRAIN * GRAIN..range.end.checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX).min(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const SIZE: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    fn here(pieces: &mut Pieces, range: &Range<u64>) {
        assert!(pieces.begin(range));
        let length = usize::try_from(range.end - range.start).unwrap();
        pieces.settle(range, Content::Here(Arc::new(vec![0; length])));
    }

    fn order(pieces: &mut Pieces, wanted: &Range<u64>, piece: u64, urgency: Urgency) -> Vec<Range<u64>> {
        pieces.order(wanted, piece, SIZE, urgency)
    }

    fn one(range: Range<u64>) -> Vec<Range<u64>> {
        std::iter::once(range).collect()
    }

    #[test]
    fn only_what_is_missing_is_ordered() {
        let mut pieces = Pieces::default();
        assert_eq!(order(&mut pieces, &(MIB..2 * MIB), MIB, Urgency::Now), one(MIB..2 * MIB));
        assert_eq!(order(&mut pieces, &(0..3 * MIB), MIB, Urgency::Now), [0..MIB, 2 * MIB..3 * MIB]);
        assert_eq!(order(&mut pieces, &(0..3 * MIB), MIB, Urgency::Now), []);
        assert_eq!((pieces.reach(5), pieces.reach(3 * MIB)), (3 * MIB, 3 * MIB));
    }

    #[test]
    fn a_short_range_is_widened_as_far_as_the_file_goes() {
        let mut pieces = Pieces::default();
        assert_eq!(order(&mut pieces, &(70_000..70_010), MIB, Urgency::Now), one(65_536..131_072));
        assert_eq!(pieces.order(&(10..20), MIB, 1000, Urgency::Now), one(0..1000));
        assert!(pieces.around(1001).is_none());
        let last = u64::MAX - 10..u64::MAX - 5;
        assert_eq!(pieces.order(&last, MIB, u64::MAX - 2, Urgency::Now), one(u64::MAX - 65_535..u64::MAX - 2));
    }

    #[test]
    fn what_was_ordered_ahead_is_hurried_once_when_somebody_waits_for_it() {
        let mut pieces = Pieces::default();
        let ahead = order(&mut pieces, &(0..3 * MIB), MIB, Urgency::Ahead);
        assert!(pieces.begin(&ahead[0]));
        assert_eq!(order(&mut pieces, &(10..MIB + 1), MIB, Urgency::Expected), []);
        assert_eq!(order(&mut pieces, &(10..MIB + 1), MIB, Urgency::Now), one(MIB..2 * MIB));
        assert_eq!(order(&mut pieces, &(10..MIB + 1), MIB, Urgency::Now), []);
        assert!(pieces.begin(&ahead[1]) && !pieces.begin(&ahead[1]), "two orders bring it once");
    }

    #[test]
    fn what_is_not_wanted_any_more_is_not_brought() {
        let mut pieces = Pieces::default();
        let ordered = order(&mut pieces, &(0..3 * MIB), MIB, Urgency::Ahead);
        let expected = order(&mut pieces, &(8 * MIB..9 * MIB), MIB, Urgency::Expected);
        let awaited = order(&mut pieces, &(16 * MIB..17 * MIB), MIB, Urgency::Now);
        assert!(pieces.begin(&ordered[0]));
        pieces.cancel(&(2 * MIB..2 * MIB + 1), Urgency::Ahead);
        assert!(!pieces.begin(&ordered[0]) && !pieces.begin(&ordered[1]) && pieces.begin(&ordered[2]));
        assert!(pieces.around(8 * MIB).is_some());
        pieces.cancel(&(0..1), Urgency::Expected);
        assert!(!pieces.begin(&expected[0]) && pieces.begin(&awaited[0]));
    }

    #[test]
    fn what_was_expected_and_given_up_makes_room() {
        let mut pieces = Pieces::default();
        let expected = order(&mut pieces, &(0..8 * MIB), 4 * MIB, Urgency::Expected);
        here(&mut pieces, &expected[0]);
        assert_eq!(pieces.room(10 * MIB), 2 * MIB);
        pieces.cancel(&(SIZE - 1..SIZE), Urgency::Expected);
        assert_eq!(pieces.room(10 * MIB), 10 * MIB);
    }

    #[test]
    fn what_was_read_is_dropped_longest_ago_first() {
        let mut pieces = Pieces::default();
        for range in order(&mut pieces, &(0..40 * MIB), 4 * MIB, Urgency::Ahead) {
            here(&mut pieces, &range);
        }
        for begin in [4, 0, 8, 12, 16, 20] {
            pieces.read(begin * MIB);
        }
        pieces.trim(16 * MIB);
        let left: Vec<u64> = pieces.here().map(|(begin, _)| begin / MIB).collect();
        assert_eq!(left, [8, 12, 16, 20, 24, 28, 32, 36]);
    }

    #[test]
    fn of_what_was_not_read_the_latest_ordered_is_dropped_first_and_nothing_that_is_awaited() {
        let mut pieces = Pieces::default();
        for (range, urgency) in [(0..40 * MIB, Urgency::Expected), (40 * MIB..44 * MIB, Urgency::Now)] {
            for range in order(&mut pieces, &range, 4 * MIB, urgency) {
                here(&mut pieces, &range);
            }
        }
        pieces.trim(44 * MIB);
        assert_eq!(pieces.reach(0), 44 * MIB);
        pieces.trim(16 * MIB);
        assert_eq!((pieces.reach(0), pieces.reach(40 * MIB)), (12 * MIB, 44 * MIB));
        pieces.abandon(&(40 * MIB..41 * MIB));
        pieces.trim(12 * MIB);
        assert_eq!(pieces.reach(0), 12 * MIB, "what was abandoned leaves room");
    }

    #[test]
    fn a_failure_is_told_only_to_who_waits() {
        let mut pieces = Pieces::default();
        let failed = || Content::Failed(Error::new(ErrorKind::ConnectionLost, "as a test"));
        for (number, urgency) in [Urgency::Ahead, Urgency::Expected, Urgency::Now].into_iter().enumerate() {
            let begin = number as u64 * MIB;
            let ordered = order(&mut pieces, &(begin..begin + MIB), MIB, urgency);
            assert!(pieces.begin(&ordered[0]));
            pieces.settle(&ordered[0], failed());
            assert_eq!(pieces.around(begin).is_some(), urgency == Urgency::Now);
        }
    }
}
