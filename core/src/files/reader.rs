//! A file of any endpoint that is read from anywhere in it, ahead of who reads it in order.

use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::crew::{Crew, Urgency};
use super::pieces::{Content, Pieces};
use super::window::{LEAST_PIECE, MOST_PIECE, Window};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Entry, Reader};

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
            pieces.hold(offset..end, first);
        }
        let state = Mutex::new(State { pieces, window: Window::new(most) });
        Ok(Self { shared: Arc::new(Shared { source, state, changed: Condvar::new() }), entry, crew: Arc::clone(crew) })
    }

    /// The file as it was when it was opened.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Fills the buffer from `offset` as far as the file goes; returns how much was read, less than asked only at the end.
    ///
    /// `go_on` is asked from time to time while it waits; the error that it answers with ends the call.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8], go_on: &dyn Fn() -> Result<()>) -> Result<usize> {
        let end = offset.saturating_add(buffer.len() as u64).min(self.entry.size);
        if offset >= end {
            return Ok(0);
        }
        let wanted = offset..end;
        let advice = self.shared.state.lock().window.advise(&wanted);
        if advice.jumped {
            self.shared.state.lock().pieces.cancel(&wanted);
            self.shared.changed.notify_all();
        }
        let mut at = offset;
        while at < end {
            self.bring(at..end, advice.ahead, advice.piece)?;
            let (begin, bytes) = self.wait(at, advice.ahead, go_on)?;
            // Both fit: a piece lies inside the file, and what is copied inside the buffer.
            let skipped = usize::try_from(at - begin).unwrap_or(usize::MAX);
            let filled = usize::try_from(at - offset).unwrap_or(usize::MAX);
            let bytes = bytes.get(skipped..).unwrap_or_default();
            let space = &mut buffer[filled..];
            let count = bytes.len().min(space.len());
            if count == 0 {
                return Err(self.short());
            }
            space[..count].copy_from_slice(&bytes[..count]);
            at += count as u64;
            let mut state = self.shared.state.lock();
            state.pieces.used(begin, at);
            let window = state.window.size();
            state.pieces.trim(window);
        }
        Ok(usize::try_from(end - offset).unwrap_or(usize::MAX))
    }

    /// Says that these ranges will be read: they are brought at once, as far as they fit into the window.
    pub fn expect(&self, ranges: &[Range<u64>]) -> Result<()> {
        let mut left = self.shared.state.lock().window.most();
        for range in ranges {
            let end = range.end.min(self.entry.size).min(range.start.saturating_add(left));
            if range.start < end {
                left -= end - range.start;
                self.order(range.start..end, MOST_PIECE, Urgency::Now)?;
            }
        }
        Ok(())
    }

    /// Orders what a read needs now, and what it will probably need next.
    fn bring(&self, wanted: Range<u64>, ahead: u64, piece: u64) -> Result<()> {
        let most = self.shared.state.lock().window.most();
        let near = wanted.start.saturating_add(most);
        if near < wanted.end {
            return self.order(wanted.start..near, piece, Urgency::Now);
        }
        let end = wanted.end;
        self.order(wanted, piece, Urgency::Now)?;
        let horizon = end.saturating_add(ahead).min(near).min(self.entry.size);
        // A whole piece at a time, or short reads would each ask for as little as they have moved on.
        let reach = self.shared.state.lock().pieces.reach(end);
        let worth = horizon.saturating_sub(reach) >= piece || (horizon == self.entry.size && reach < horizon);
        if worth { self.order(reach..horizon, piece, Urgency::Ahead) } else { Ok(()) }
    }

    fn order(&self, range: Range<u64>, piece: u64, urgency: Urgency) -> Result<()> {
        let ordered = self.shared.state.lock().pieces.order(range, piece, self.entry.size);
        for range in ordered {
            // A reader that is dropped needs nothing any more.
            let shared = Arc::downgrade(&self.shared);
            self.crew.take(urgency, Box::new(move || Shared::bring(&shared, &range)))?;
        }
        Ok(())
    }

    /// Waits for the piece around a byte.
    fn wait(&self, at: u64, ahead: u64, go_on: &dyn Fn() -> Result<()>) -> Result<(u64, Arc<Vec<u8>>)> {
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
                    self.order(at..at + 1, LEAST_PIECE, Urgency::Now)?;
                    state = self.shared.state.lock();
                    continue;
                }
            }
            if ahead > 0 && !waited {
                state.window.starved();
                waited = true;
            }
            if self.shared.changed.wait_for(&mut state, PATIENCE).timed_out() {
                drop(state);
                go_on()?;
                state = self.shared.state.lock();
            }
        }
    }

    fn short(&self) -> Error {
        Error::new(ErrorKind::SourceChanged, format!("could not go on reading `{}`", self.entry.path))
            .with_cause("it has become shorter since it was opened")
    }
}

impl Shared {
    /// Brings one piece, if it is still wanted.
    fn bring(shared: &Weak<Self>, range: &Range<u64>) {
        let Some(shared) = shared.upgrade() else { return };
        if !shared.state.lock().pieces.begin(range) {
            return;
        }
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
        let content = match shared.source.read_at(range.start, &mut bytes) {
            Ok(count) => {
                bytes.truncate(count);
                Content::Here(Arc::new(bytes))
            }
            Err(error) => Content::Failed(error),
        };
        shared.state.lock().pieces.settle(range.start, content);
        shared.changed.notify_all();
    }
}
