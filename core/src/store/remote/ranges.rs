//! A reader of a file on a service: few requests for long ranges, gone on with where they break.

use std::collections::VecDeque;
use std::ops::Range;

use super::patience::{self, Patience};
use super::summed::{self, Pieces};
use super::{Body, Ranges};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::store::{Entry, Reader};
use crate::sync::Mutex;

/// What is asked for where the caller did not say what it will read.
const WINDOW: u64 = 8 << 20;

/// Bodies that may wait to be gone on with, and announcements that may wait to be asked for: more than threads read one file.
const MOST: usize = 64;

/// Reads a [`Ranges`] at any offset, by several threads at once: each goes on with the body that stands where it reads.
pub struct RangeReader {
    ranges: Box<dyn Ranges>,
    entry: Entry,
    patience: Patience,
    state: Mutex<State>,
    /// The crc32c of what was read, where the service keeps one.
    pieces: Option<Mutex<Pieces>>,
}

#[derive(Default)]
struct State {
    /// The oldest first.
    standing: VecDeque<Standing>,
    announced: VecDeque<Range<u64>>,
}

/// A body, where it stands, and where it ends or is not needed any more.
struct Standing {
    body: Box<dyn Body>,
    range: Range<u64>,
    foreseen: Foreseen,
}

/// How it is known what will be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Foreseen {
    /// Somebody said so.
    Announced,
    /// It is a window behind what was read.
    Guessed,
}

impl RangeReader {
    /// `entry` is the state of the file that `ranges` reads.
    pub fn new(ranges: Box<dyn Ranges>, entry: Entry, patience: Patience) -> Self {
        let pieces = ranges.crc32c().map(|_| Mutex::new(Pieces::new(entry.size)));
        Self { ranges, entry, patience, state: Mutex::default(), pieces }
    }

    /// Opens the range that was announced around an offset, or a window from there on, and reads the first bytes of it.
    fn open(&self, range: &Range<u64>, foreseen: Foreseen, buffer: &mut [u8]) -> Result<(Standing, usize)> {
        self.patience.run(|| {
            let mut standing = Standing { body: self.ranges.open(range.clone())?, range: range.clone(), foreseen };
            let count = self.read(&mut standing, buffer)?;
            Ok((standing, count))
        })
    }

    /// Reads some bytes of a body; an end before its time is an error.
    fn read(&self, standing: &mut Standing, buffer: &mut [u8]) -> Result<usize> {
        let left = standing.range.end - standing.range.start;
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = standing.body.read(&mut buffer[..most])?;
        if count == 0 {
            let Range { start, end } = standing.range;
            return Err(Error::new(
                ErrorKind::ConnectionLost,
                format!("could not read bytes {start}..{end} of `{}`", self.entry.path),
            )
            .with_cause("the service ended its answer before"));
        }
        standing.range.start += count as u64;
        Ok(count)
    }

    /// Goes on with a body, or opens one where there is none or it broke.
    fn go_on(&self, standing: Option<Standing>, offset: u64, buffer: &mut [u8]) -> Result<(Standing, usize)> {
        let Some(mut standing) = standing else {
            let announced = self.state.lock().end_of(offset);
            let foreseen = if announced.is_some() { Foreseen::Announced } else { Foreseen::Guessed };
            let range = offset..announced.unwrap_or(offset + WINDOW).min(self.entry.size);
            return self.open(&range, foreseen, buffer);
        };
        match self.patience.once(|| self.read(&mut standing, buffer)) {
            Ok(count) => Ok((standing, count)),
            // Bytes that were handed out already may be what is wrong: only the whole can begin again.
            Err(error) if patience::retry(&error) == Retry::Never || error.kind() == ErrorKind::Corrupted => Err(error),
            Err(_) => {
                let Standing { body, range, foreseen } = standing;
                // Before another one is asked for, which may wait for it to be given back.
                drop(body);
                self.open(&(offset..range.end), foreseen, buffer)
            }
        }
    }
}

impl State {
    /// The end of what was announced around an offset, which is then no longer waited for.
    fn end_of(&mut self, offset: u64) -> Option<u64> {
        let index = self.announced.iter().rposition(|range| range.contains(&offset))?;
        self.announced.remove(index).map(|range| range.end)
    }

    fn take(&mut self, offset: u64) -> Option<Standing> {
        let index = self.standing.iter().position(|standing| standing.range.start == offset)?;
        self.standing.remove(index)
    }
}

impl Reader for RangeReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let left = self.entry.size.saturating_sub(offset);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let mut standing = self.state.lock().take(offset);
        let mut filled = 0;
        while filled < wanted {
            let (body, count) = self.go_on(standing, offset + filled as u64, &mut buffer[filled..wanted])?;
            filled += count;
            standing = Some(body).filter(|standing| !standing.range.is_empty());
        }
        // Who reads what is beside it may have to wait for a body that this reader may not come back to.
        let standing = standing.filter(|standing| standing.foreseen == Foreseen::Announced || !standing.body.is_lent());
        let dropped = standing.and_then(|standing| {
            let mut state = self.state.lock();
            state.standing.push_back(standing);
            if state.standing.len() > MOST { state.standing.pop_front() } else { None }
        });
        drop(dropped);
        if let Some(pieces) = &self.pieces {
            pieces.lock().add(offset, &buffer[..wanted]);
        }
        Ok(wanted)
    }

    fn stat(&self) -> Result<Entry> {
        self.patience.run(|| self.ranges.stat())
    }

    fn hole(&self, _: u64) -> Option<u64> {
        None
    }

    /// A service that keeps a crc32c instead is compared with that, if all of the file was read here.
    fn crc64nvme(&self) -> Result<Option<u64>> {
        let found = self.pieces.as_ref().and_then(|pieces| pieces.lock().finish());
        if found.is_some() && found != self.ranges.crc32c() {
            return Err(summed::differs(&format!("could not read `{}`", self.entry.path)));
        }
        self.patience.run(|| self.ranges.crc64nvme())
    }

    /// A body that stands at the beginning of the range is read no further than to its end: another thread may have the rest.
    fn expect(&self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        if let Some(standing) = state.standing.iter_mut().find(|standing| standing.range.start == range.start) {
            (standing.range.end, standing.foreseen) = (standing.range.end.min(range.end), Foreseen::Announced);
            return;
        }
        state.announced.retain(|other| other.start != range.start);
        state.announced.push_back(range);
        if state.announced.len() > MOST {
            state.announced.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::path::RelativePath;
    use crate::store::EntryKind;
    use crate::store::remote::patience::unless_interrupted;
    use crate::store::remote::runtime::block_on;

    const SIZE: u64 = 20 << 20;

    /// A file whose bytes follow from their offsets, and whose bodies break after a number of bytes.
    #[derive(Clone)]
    struct Breaking {
        after: u64,
        lent: bool,
        opened: Arc<Mutex<Vec<Range<u64>>>>,
    }

    struct Part {
        range: Range<u64>,
        left: u64,
        lent: bool,
    }

    fn byte(offset: u64) -> u8 {
        (offset % 251) as u8
    }

    impl Body for Part {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            let count = (buffer.len() as u64).min(self.range.end - self.range.start).min(self.left).min(1000);
            let range = self.range.start..self.range.start + count;
            buffer.iter_mut().zip(range).for_each(|(place, offset)| *place = byte(offset));
            (self.range.start, self.left) = (self.range.start + count, self.left - count);
            Ok(usize::try_from(count).unwrap())
        }

        fn is_lent(&self) -> bool {
            self.lent
        }
    }

    impl Ranges for Breaking {
        fn open(&self, range: Range<u64>) -> Result<Box<dyn Body>> {
            self.opened.lock().push(range.clone());
            Ok(Box::new(Part { range, left: self.after, lent: self.lent }))
        }

        fn stat(&self) -> Result<Entry> {
            Ok(entry())
        }
    }

    fn entry() -> Entry {
        let path = RelativePath::from_user("f").unwrap();
        Entry { path, kind: EntryKind::File, size: SIZE, modified_ns: None, mode: None, version: None, sparse: false }
    }

    fn reader(after: u64) -> (RangeReader, Arc<Mutex<Vec<Range<u64>>>>) {
        reader_of(Breaking { after, lent: false, opened: Arc::default() })
    }

    fn reader_of(ranges: Breaking) -> (RangeReader, Arc<Mutex<Vec<Range<u64>>>>) {
        let opened = Arc::clone(&ranges.opened);
        (RangeReader::new(Box::new(ranges), entry(), Patience::new()), opened)
    }

    fn read(reader: &RangeReader, offset: u64, length: usize) -> usize {
        let mut buffer = vec![0; length];
        let count = reader.read_at(offset, &mut buffer).unwrap();
        assert!(buffer[..count].iter().zip(offset..).all(|(found, offset)| *found == byte(offset)));
        count
    }

    #[test]
    fn what_is_read_in_order_is_one_request() {
        let (reader, opened) = reader(u64::MAX);
        for block in 0..16 {
            reader.expect(block * 100_000..1_600_000);
            assert_eq!(read(&reader, block * 100_000, 100_000), 100_000);
        }
        assert_eq!(*opened.lock(), std::slice::from_ref(&(0..1_600_000)));
        assert_eq!(read(&reader, SIZE - 10, 100), 10);
        assert_eq!(read(&reader, SIZE, 100), 0);
        assert_eq!(opened.lock().len(), 2);
        assert!(reader.state.lock().standing.is_empty(), "bodies that were read to their end are closed");
    }

    #[test]
    fn two_chunks_have_two_bodies_and_a_shared_chunk_is_cut() {
        let (reader, opened) = reader(u64::MAX);
        reader.expect(0..SIZE / 2);
        read(&reader, 0, 1000);
        reader.expect(SIZE / 2..SIZE);
        read(&reader, SIZE / 2, 1000);
        // The first gives the rest of its chunk away.
        reader.expect(1000..2000);
        read(&reader, 1000, 1000);
        reader.expect(2000..SIZE / 2);
        read(&reader, 2000, 1000);
        assert_eq!(*opened.lock(), [0..SIZE / 2, SIZE / 2..SIZE, 2000..SIZE / 2]);
        assert_eq!(reader.state.lock().standing.len(), 2);
    }

    #[test]
    fn a_body_that_breaks_is_opened_where_it_broke() {
        let (reader, opened) = reader(300_000);
        reader.expect(0..1_000_000);
        assert_eq!(read(&reader, 0, 1_000_000), 1_000_000);
        assert_eq!(*opened.lock(), [0..1_000_000, 300_000..1_000_000, 600_000..1_000_000, 900_000..1_000_000]);
    }

    #[test]
    fn unannounced_reads_are_windows_and_few_bodies_wait() {
        let (reader, opened) = reader(u64::MAX);
        for number in 0..100 {
            read(&reader, number * 1000 + 1, 10);
        }
        assert_eq!(opened.lock()[3], 3001..3001 + WINDOW);
        assert_eq!(reader.state.lock().standing.len(), MOST);
    }

    #[test]
    fn a_body_that_is_lent_is_kept_only_by_who_was_said_to_read_on() {
        let (reader, opened) = reader_of(Breaking { after: u64::MAX, lent: true, opened: Arc::default() });
        read(&reader, 0, 1000);
        assert!(reader.state.lock().standing.is_empty());
        reader.expect(1000..5000);
        for offset in [1000, 2000] {
            read(&reader, offset, 1000);
            assert_eq!(reader.state.lock().standing.len(), 1);
        }
        assert_eq!(*opened.lock(), [0..WINDOW, 1000..5000]);
    }

    /// A body that gives one byte and then nothing more.
    struct Stalls(bool, std::sync::mpsc::Sender<()>);

    impl Body for Stalls {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            if std::mem::replace(&mut self.0, true) {
                let _ = self.1.send(());
                block_on(unless_interrupted("could not read `f`", std::future::pending::<()>()))?;
            }
            buffer[0] = 0;
            Ok(1)
        }
    }

    struct Stalling(std::sync::mpsc::Sender<()>);

    impl Ranges for Stalling {
        fn open(&self, _: Range<u64>) -> Result<Box<dyn Body>> {
            Ok(Box::new(Stalls(false, self.0.clone())))
        }

        fn stat(&self) -> Result<Entry> {
            Ok(entry())
        }
    }

    #[test]
    fn an_interrupt_ends_a_read_in_the_midst_of_an_answer_and_every_later_one() {
        let (stalls, stalled) = std::sync::mpsc::channel();
        let patience = Patience::new();
        let reader = RangeReader::new(Box::new(Stalling(stalls.clone())), entry(), patience.clone());
        let read = |offset: u64| reader.read_at(offset, &mut [0; 10]).unwrap_err().kind();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| read(0));
            stalled.recv().unwrap();
            patience.interrupt();
            assert_eq!(waits.join().unwrap(), ErrorKind::Cancelled);
        });
        assert_eq!(read(0), ErrorKind::Cancelled);
    }
}
