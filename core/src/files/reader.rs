//! A file of any endpoint that is read from anywhere in it, ahead of who reads it in order.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::crew::{Crew, Urgency};
use super::pieces::{Content, Pieces};
use super::remote::changed;
use super::window::{Advice, LEAST_PIECE, MOST_PIECE, Window};
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::{Entry, Reader};
use crate::sync::{Condvar, Mutex};

/// How often somebody who waits is asked whether to go on.
const PATIENCE: Duration = Duration::from_millis(100);

/// An open file. What it reads is one state of the file, the one that it had when it was opened: a file that changed since is an error of
/// kind `SourceChanged`.
///
/// Pieces of it are brought by several threads, over as many connections, while who reads them goes on. Threads may share it.
pub struct FileReader {
    shared: Arc<Shared>,
    entry: Entry,
    crew: Arc<Crew>,
}

struct Shared {
    source: Box<dyn Reader>,
    path: RelativePath,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    pieces: Pieces,
    window: Window,
}

impl FileReader {
    /// A reader of a source of which some bytes are here already; `most` bounds how far it is read ahead.
    pub(super) fn new(source: Box<dyn Reader>, crew: &Arc<Crew>, most: u64, (offset, first): (u64, Vec<u8>)) -> Result<Self> {
        let entry = source.stat()?;
        let mut pieces = Pieces::default();
        let end = offset.saturating_add(first.len() as u64);
        if end > offset {
            pieces.hold(&(offset..end), first);
        }
        let state = Mutex::new(State { pieces, window: Window::new(most) });
        let shared = Shared { source, path: entry.path.clone(), state, changed: Condvar::new() };
        Ok(Self { shared: Arc::new(shared), entry, crew: Arc::clone(crew) })
    }

    /// The file as it was when it was opened.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Fills the buffer from `offset` as far as the file goes; returns how much was read, less than asked only at the end.
    ///
    /// `go_on` is asked from time to time, also while it waits; the error that it answers with ends the call.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8], go_on: &dyn Fn() -> Result<()>) -> Result<usize> {
        let end = offset.saturating_add(buffer.len() as u64).min(self.entry.size);
        if offset >= end {
            return Ok(0);
        }
        let wanted = offset..end;
        let advice = self.advise(&wanted);
        let read = self.fill(&wanted, buffer, advice, Asking { go_on, asked: Instant::now() });
        if read.is_err() {
            self.shared.state.lock().pieces.abandon(&wanted);
            self.shared.changed.notify_all();
        }
        read
    }

    /// Hears how far to read ahead, and gives up what is not wanted any more.
    fn advise(&self, wanted: &Range<u64>) -> Advice {
        let State { pieces, window } = &mut *self.shared.state.lock();
        let advice = window.advise(wanted);
        if advice.skipped {
            pieces.cancel(&(wanted.start..u64::MAX), Urgency::Ahead);
        }
        if advice.jumped {
            // Who goes to a place that was announced goes by what was announced; who does not has other plans.
            let announced = pieces.around(wanted.start).is_some();
            pieces.cancel(wanted, if announced { Urgency::Ahead } else { Urgency::Expected });
            self.shared.changed.notify_all();
        }
        advice
    }

    fn fill(&self, wanted: &Range<u64>, buffer: &mut [u8], advice: Advice, mut asking: Asking) -> Result<usize> {
        let mut filled = 0;
        loop {
            let at = wanted.start + filled as u64;
            if at >= wanted.end {
                return Ok(filled);
            }
            asking.ask()?;
            self.bring(&(at..wanted.end), advice)?;
            let (begin, bytes) = self.wait(at, advice.ahead, &mut asking)?;
            let skipped = usize::try_from(at - begin).unwrap_or(usize::MAX);
            let bytes = bytes.get(skipped..).unwrap_or_default();
            let space = &mut buffer[filled..];
            let count = bytes.len().min(space.len());
            if count == 0 {
                return Err(changed(&self.entry.path));
            }
            space[..count].copy_from_slice(&bytes[..count]);
            filled += count;
            let State { pieces, window } = &mut *self.shared.state.lock();
            pieces.read(begin);
            pieces.trim(window.most());
        }
    }

    /// Says that these ranges will be read: they are brought at once, as far as what may be read ahead has room for them. A read elsewhere
    /// that nobody announced takes the announcement back.
    pub fn expect(&self, ranges: &[Range<u64>]) -> Result<()> {
        for range in ranges {
            let left = {
                let state = self.shared.state.lock();
                state.pieces.room(state.window.most())
            };
            let end = range.end.min(self.entry.size).min(range.start.saturating_add(left));
            if left == 0 {
                return Ok(());
            }
            if range.start < end {
                self.order(&(range.start..end), MOST_PIECE, Urgency::Expected)?;
            }
        }
        Ok(())
    }

    /// Orders what a read needs now, and what it will probably need next.
    fn bring(&self, wanted: &Range<u64>, advice: Advice) -> Result<()> {
        let most = self.shared.state.lock().window.most();
        let near = wanted.start.saturating_add(most);
        if near < wanted.end {
            return self.order(&(wanted.start..near), advice.piece, Urgency::Now);
        }
        self.order(wanted, advice.piece, Urgency::Now)?;
        let horizon = wanted.end.saturating_add(advice.ahead).min(near).min(self.entry.size);
        let (reach, room) = {
            let pieces = &self.shared.state.lock().pieces;
            let reach = pieces.reach(wanted.end);
            (reach, if reach < horizon { pieces.room(most) } else { 0 })
        };
        // A whole piece at a time, or short reads would each ask for as little as they have moved on.
        let whole = horizon.saturating_sub(reach) >= advice.piece || horizon == self.entry.size;
        let horizon = horizon.min(reach.saturating_add(room));
        if whole && reach < horizon { self.order(&(reach..horizon), advice.piece, Urgency::Ahead) } else { Ok(()) }
    }

    fn order(&self, range: &Range<u64>, piece: u64, urgency: Urgency) -> Result<()> {
        let ordered = self.shared.state.lock().pieces.order(range, piece, self.entry.size, urgency);
        for (number, range) in ordered.iter().enumerate() {
            // A reader that is dropped needs nothing any more.
            let (shared, place) = (Arc::downgrade(&self.shared), range.clone());
            let taken = self.crew.take(urgency, Box::new(move || Shared::bring(&shared, &place)));
            if let Err(error) = taken {
                let mut state = self.shared.state.lock();
                ordered[number..].iter().for_each(|left| state.pieces.forget(left.start));
                self.shared.changed.notify_all();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits for the piece around a byte.
    fn wait(&self, at: u64, ahead: u64, asking: &mut Asking) -> Result<(u64, Arc<Vec<u8>>)> {
        let mut state = self.shared.state.lock();
        let mut waited = false;
        loop {
            match state.pieces.around(at) {
                Some((begin, Content::Here(bytes))) => return Ok((begin, Arc::clone(bytes))),
                Some((begin, Content::Failed(error))) => {
                    let error = error.clone();
                    state.pieces.forget(begin);
                    return Err(error);
                }
                Some(_) => {}
                // Another thread that reads elsewhere gave it up.
                None => {
                    drop(state);
                    asking.ask()?;
                    self.order(&(at..at + 1), LEAST_PIECE, Urgency::Now)?;
                    state = self.shared.state.lock();
                    continue;
                }
            }
            if ahead > 0 && !waited {
                state.window.starved();
                waited = true;
            }
            self.shared.changed.wait_for(&mut state, asking.left());
            if asking.left().is_zero() {
                drop(state);
                asking.ask()?;
                state = self.shared.state.lock();
            }
        }
    }
}

/// Asks somebody who waits, now and then, whether to go on.
struct Asking<'a> {
    go_on: &'a dyn Fn() -> Result<()>,
    asked: Instant,
}

impl Asking<'_> {
    /// The time until it is to be asked again.
    fn left(&self) -> Duration {
        PATIENCE.saturating_sub(self.asked.elapsed())
    }

    /// Asks, if it is time to.
    fn ask(&mut self) -> Result<()> {
        if self.left().is_zero() {
            (self.go_on)()?;
            self.asked = Instant::now();
        }
        Ok(())
    }
}

impl Shared {
    /// Brings one piece, if it is still wanted.
    fn bring(shared: &Weak<Self>, range: &Range<u64>) {
        let Some(shared) = shared.upgrade() else { return };
        if !shared.state.lock().pieces.begin(range) {
            return;
        }
        // Those who wait must hear of it, whatever happens.
        let read = catch_unwind(AssertUnwindSafe(|| shared.read(range))).unwrap_or_else(|_| {
            let what = format!("could not read bytes {}..{}", range.start, range.end);
            Err(Error::new(ErrorKind::Io, what)
                .with_cause("the thread that read them panicked")
                .with_hint("report it as a defect of edt"))
        });
        let content = read.map_or_else(Content::Failed, |bytes| Content::Here(Arc::new(bytes)));
        let State { pieces, window } = &mut *shared.state.lock();
        pieces.settle(range, content);
        pieces.trim(window.most());
        shared.changed.notify_all();
    }

    /// All bytes of a range: there are fewer only if the file is not what it was.
    fn read(&self, range: &Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
        if self.source.read_at(range.start, &mut bytes)? == bytes.len() { Ok(bytes) } else { Err(changed(&self.path)) }
    }
}

#[cfg(test)]
mod tests;
