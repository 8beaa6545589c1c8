//! The parts of a file: blocks come in any order and from several threads, whole parts leave.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::memory::Loan;
use crate::buffer::SLAB_SIZE;
use crate::error::Result;
use crate::store::remote::{Limits, Part};
use crate::sync::{Condvar, Mutex};

/// The least size of parts, unless a service wants more: large enough that a request costs little beside its bytes.
pub(super) const LEAST: u64 = 8 << 20;

/// The size of the parts of a file, a multiple of a block; one that is no smaller than the file says that it is uploaded in one request.
///
/// `None` if the service cannot take a file of this size.
pub(super) fn part_size(size: u64, limits: &Limits) -> Option<u64> {
    if limits.most_parts == 0 {
        return (size <= limits.largest_put).then_some(size.max(1));
    }
    let part = limits.least_part.max(LEAST).max(size.div_ceil(limits.most_parts)).checked_next_multiple_of(SLAB_SIZE as u64)?;
    (part <= limits.largest_put).then_some(part)
}

/// The parts of one file.
pub(super) struct Parts {
    size: u64,
    part: u64,
    /// Held by the thread that waits for the memory of a part.
    opening: Mutex<()>,
    slots: Mutex<BTreeMap<u32, Slot>>,
    sent: Condvar,
}

#[derive(Clone)]
enum Slot {
    Open(Arc<Mutex<Filling>>),
    /// On its way, by the thread that took it.
    Sending,
    /// The service has it.
    There(Part),
}

/// A part that is not complete.
struct Filling {
    /// Until it is taken.
    bytes: Option<Loan>,
    /// In any order.
    missing: Vec<Range<usize>>,
}

/// A piece of a write that falls into one part.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The part, from 1.
    pub(super) number: u32,
    /// Where in the part it belongs.
    pub(super) offset: usize,
    /// Where in what is written it is.
    pub(super) range: Range<usize>,
}

impl Parts {
    /// `part` is at least 1 and such that there are no more than `u32::MAX` of them.
    pub(super) fn new(size: u64, part: u64) -> Self {
        Self { size, part, opening: Mutex::default(), slots: Mutex::default(), sent: Condvar::new() }
    }

    /// Whether the whole file is one part.
    pub(super) fn is_single(&self) -> bool {
        self.size <= self.part
    }

    fn count(&self) -> u32 {
        u32::try_from(self.size.div_ceil(self.part)).unwrap_or(u32::MAX)
    }

    fn range(&self, number: u32) -> Range<u64> {
        let begin = u64::from(number - 1) * self.part;
        begin..self.size.min(begin + self.part)
    }

    fn length(&self, number: u32) -> usize {
        let range = self.range(number);
        usize::try_from(range.end - range.start).unwrap_or(usize::MAX)
    }

    /// Cuts a write at the borders of parts; it must lie inside the file.
    pub(super) fn cut(&self, offset: u64, length: usize) -> Vec<Piece> {
        let (mut pieces, mut at) = (Vec::new(), 0);
        while at < length {
            let begin = offset + at as u64;
            let number = u32::try_from(begin / self.part + 1).unwrap_or(u32::MAX);
            let inside = usize::try_from(begin % self.part).unwrap_or(usize::MAX);
            let count = (length - at).min(self.length(number) - inside);
            pieces.push(Piece { number, offset: inside, range: at..at + count });
            at += count;
        }
        pieces
    }

    /// Puts bytes into a part, and says whether that completed it. What is there already stays as it is. The first bytes wait for the
    /// part's `memory`.
    pub(super) fn fill(
        &self,
        number: u32,
        offset: usize,
        bytes: &[u8],
        memory: impl FnOnce(usize) -> Result<Loan>,
    ) -> Result<bool> {
        let filling = match self.slot(number) {
            Some(Slot::Open(filling)) => filling,
            Some(_) => return Ok(false),
            None => {
                let _opening = self.opening.lock();
                match self.slot(number) {
                    Some(Slot::Open(filling)) => filling,
                    Some(_) => return Ok(false),
                    None => self.begin(number, memory(self.length(number))?),
                }
            }
        };
        Ok(filling.lock().fill(offset, bytes))
    }

    fn slot(&self, number: u32) -> Option<Slot> {
        self.slots.lock().get(&number).cloned()
    }

    fn begin(&self, number: u32, bytes: Loan) -> Arc<Mutex<Filling>> {
        let missing = std::iter::once(0..bytes.len()).collect();
        let filling = Arc::new(Mutex::new(Filling { bytes: Some(bytes), missing }));
        self.slots.lock().insert(number, Slot::Open(Arc::clone(&filling)));
        filling
    }

    /// Takes a part that is complete, to send it.
    pub(super) fn take(&self, number: u32) -> Option<Taken<'_>> {
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(&number)?;
        let Slot::Open(filling) = slot else { return None };
        let bytes = Bytes::from_owner(filling.lock().finish()?);
        *slot = Slot::Sending;
        Some(Taken { number, bytes, parts: self, part: None })
    }

    fn settle(&self, number: u32, part: Option<Part>) {
        let mut slots = self.slots.lock();
        match part {
            Some(part) => slots.insert(number, Slot::There(part)),
            None => slots.remove(&number),
        };
        drop(slots);
        self.sent.notify_all();
    }

    /// Takes over what the service has of an earlier attempt; parts of another size are not of this file.
    pub(super) fn keep(&self, parts: Vec<Part>) {
        let mut slots = self.slots.lock();
        for part in parts.into_iter().filter(|part| (1..=self.count()).contains(&part.number)) {
            if part.size == self.length(part.number) as u64 {
                slots.entry(part.number).or_insert(Slot::There(part));
            }
        }
    }

    /// The ranges that the service has, in order, adjacent ones merged.
    pub(super) fn kept(&self) -> Vec<Range<u64>> {
        let mut kept: Vec<Range<u64>> = Vec::new();
        for (number, slot) in self.slots.lock().iter() {
            let range = self.range(*number);
            match kept.last_mut() {
                _ if !matches!(slot, Slot::There(_)) => {}
                Some(last) if last.end == range.start => last.end = range.end,
                _ => kept.push(range),
            }
        }
        kept
    }

    /// All parts, in order, once none is on its way any more; `None` if one is missing.
    pub(super) fn complete(&self) -> Option<Vec<Part>> {
        let mut slots = self.slots.lock();
        // Bytes that came twice may be vouched for while the first copy of them is still on its way.
        self.sent.wait_while(&mut slots, |slots| slots.values().any(|slot| matches!(slot, Slot::Sending)));
        let there = |number| match slots.get(&number) {
            Some(Slot::There(part)) => Some(part.clone()),
            _ => None,
        };
        (1..=self.count()).map(there).collect()
    }
}

/// A part on its way. Unless the service has it when this is dropped, its bytes must come again.
pub(super) struct Taken<'a> {
    pub(super) number: u32,
    pub(super) bytes: Bytes,
    parts: &'a Parts,
    part: Option<Part>,
}

impl Taken<'_> {
    /// The service has it.
    pub(super) fn arrived(mut self, part: Part) {
        self.part = Some(part);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.parts.settle(self.number, self.part.take());
    }
}

impl Filling {
    /// Fills in what is missing of a range; true if nothing is missing any more, for the first time.
    fn fill(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let Some(place) = &mut self.bytes else { return false };
        let end = offset + bytes.len();
        let mut left = Vec::with_capacity(self.missing.len() + 1);
        for gap in std::mem::take(&mut self.missing) {
            let new = gap.start.max(offset)..gap.end.min(end);
            if new.is_empty() {
                left.push(gap);
                continue;
            }
            place[new.clone()].copy_from_slice(&bytes[new.start - offset..new.end - offset]);
            left.extend([gap.start..new.start, new.end..gap.end].into_iter().filter(|rest| !rest.is_empty()));
        }
        self.missing = left;
        self.missing.is_empty()
    }

    fn finish(&mut self) -> Option<Loan> {
        self.bytes.take_if(|_| self.missing.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Budget;
    use crate::store::remote::Patience;
    use crate::store::remote::objects::memory::Memory;

    const LIMITS: Limits = Limits { least_part: 5 << 20, most_parts: 10_000, largest_put: 5 << 30, connections: None };

    /// Memory for a part that is there at once.
    fn plenty(length: usize) -> Result<Loan> {
        Memory::new(Budget::new(1 << 20)).take(length, &Patience::new(), || "could not write `x`".to_owned())
    }

    fn part(number: u32, size: u64) -> Part {
        Part { number, size, tag: number.to_string(), crc64nvme: None }
    }

    #[test]
    fn parts_are_large_enough_and_not_too_many() {
        assert_eq!(part_size(0, &LIMITS), Some(LEAST));
        assert_eq!(part_size(1 << 30, &LIMITS), Some(LEAST));
        let part = part_size(1 << 40, &LIMITS).unwrap();
        assert!(part.is_multiple_of(SLAB_SIZE as u64) && (1u64 << 40).div_ceil(part) <= 10_000 && part < 106 << 20, "{part}");
        assert_eq!(part_size(1 << 60, &LIMITS), None);
        let whole = Limits { most_parts: 0, ..LIMITS };
        assert_eq!(
            (part_size(0, &whole), part_size(5 << 30, &whole), part_size(6 << 30, &whole)),
            (Some(1), Some(5 << 30), None)
        );
    }

    #[test]
    fn a_write_is_cut_at_the_borders_of_parts() {
        let parts = Parts::new(250, 100);
        let piece = |number, offset, range| Piece { number, offset, range };
        assert_eq!(parts.cut(0, 100), [piece(1, 0, 0..100)]);
        assert_eq!(parts.cut(90, 160), [piece(1, 90, 0..10), piece(2, 0, 10..110), piece(3, 0, 110..160)]);
        assert_eq!(parts.cut(250, 0), []);
    }

    #[test]
    fn a_part_is_complete_once_and_second_copies_change_nothing() {
        let parts = Parts::new(10, 10);
        let fill = |offset, bytes: &[u8]| parts.fill(1, offset, bytes, plenty).unwrap();
        assert!(!fill(6, b"6789"));
        assert!(!fill(2, b"23"));
        assert!(!fill(6, b"xxxx"));
        assert!(parts.take(1).is_none());
        assert!(fill(0, b"012345"));
        let taken = parts.take(1).unwrap();
        assert_eq!(taken.bytes, b"0123456789".as_slice());
        assert!(!fill(0, b"xx") && parts.take(1).is_none());
        drop(taken);
        assert!(!fill(0, b"01234"), "its bytes come again");
        assert!(fill(5, b"56789"));
    }

    #[test]
    fn what_the_service_has_is_kept_if_it_fits() {
        let parts = Parts::new(450, 100);
        parts.keep(vec![part(1, 100), part(2, 100), part(3, 99), part(5, 50), part(6, 100), part(0, 100)]);
        assert_eq!(parts.kept(), [0..200, 400..450]);
        assert!(parts.complete().is_none());
        assert!(!parts.fill(1, 0, &[1; 100], plenty).unwrap(), "it is not sent again");
        for number in 3..=4 {
            assert!(parts.fill(number, 0, &[1; 100], plenty).unwrap());
            parts.take(number).unwrap().arrived(part(number, 100));
        }
        let numbers: Vec<u32> = parts.complete().unwrap().iter().map(|part| part.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn completing_waits_for_parts_on_their_way() {
        let parts = Parts::new(20, 10);
        let [first, second] = [1, 2].map(|number| {
            parts.fill(number, 0, &[0; 10], plenty).unwrap();
            parts.take(number).unwrap()
        });
        std::thread::scope(|scope| {
            let complete = scope.spawn(|| parts.complete());
            first.arrived(part(1, 10));
            second.arrived(part(2, 10));
            assert_eq!(complete.join().unwrap().unwrap().len(), 2);
        });
    }

    #[test]
    fn a_part_whose_sender_panics_is_not_waited_for() {
        let parts = Parts::new(10, 10);
        parts.fill(1, 0, &[0; 10], plenty).unwrap();
        let sender = std::panic::AssertUnwindSafe(|| {
            let _taken = parts.take(1).unwrap();
            panic!("the request panics");
        });
        std::panic::catch_unwind(sender).unwrap_err();
        assert!(parts.complete().is_none());
    }
}
