//! A partial file on the server: written in any order or in order, and gone on with where its connection breaks.

use std::collections::VecDeque;
use std::sync::Arc;

use super::host::Host;
use super::order::InOrder;
use super::staging::PartialName;
use crate::buffer::SLAB_SIZE;
use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::ServedFile;
use crate::sync::Mutex;

/// Bytes of one file that are kept in memory behind what was written: more than the buffers of both systems hold of a connection, so
/// that what a server never got can be sent again.
const MOST_KEPT: usize = 16 << 20;

/// A partial file, and the order in which it must be written.
pub(super) struct Target {
    host: Arc<Host>,
    file: Box<dyn ServedFile>,
    order: Option<InOrder>,
}

impl Target {
    /// Opens a partial file: empty, or with `keep` as it is.
    pub(super) fn open(host: &Arc<Host>, name: &PartialName, size: u64, keep: bool) -> Result<Self> {
        let abilities = host.service.abilities();
        let opened = host.patience.run(|| host.open_partial(name, size, keep))?;
        let order = (!abilities.random_writes).then(|| InOrder::from(if keep { opened.length() } else { 0 }));
        let file = if order.is_some() && abilities.appends { Box::new(Appended::new(host, name, size, opened)) } else { opened };
        Ok(Self { host: Arc::clone(host), file, order })
    }

    /// How many bytes were there when it was opened.
    pub(super) fn length(&self) -> u64 {
        self.file.length()
    }

    /// How many bytes the server was given, if it takes them in order only.
    pub(super) fn position(&self) -> Result<Option<u64>> {
        self.order.as_ref().map(InOrder::position).transpose()
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match &self.order {
            Some(order) => {
                self.host.patience.once(|| order.write(self.file.as_ref(), (offset, bytes), || self.host.is_interrupted()))
            }
            None => self.host.patience.run(|| self.file.write_at(offset, bytes)),
        }
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.host.patience.run(|| self.file.read_at(offset, buffer))
    }

    /// Waits until the server has every byte.
    pub(super) fn finish(&self) -> Result<()> {
        match &self.order {
            Some(_) => self.host.patience.once(|| self.file.finish()),
            None => self.host.patience.run(|| self.file.finish()),
        }
    }
}

/// A file of a server that appends. When its connection breaks, it is opened again and goes on at the end of what the server got.
struct Appended {
    host: Arc<Host>,
    name: PartialName,
    size: u64,
    length: u64,
    state: Mutex<State>,
}

struct State {
    file: Box<dyn ServedFile>,
    tail: Tail,
}

impl Appended {
    fn new(host: &Arc<Host>, name: &PartialName, size: u64, file: Box<dyn ServedFile>) -> Self {
        let length = file.length();
        let state = Mutex::new(State { file, tail: Tail::behind(length) });
        Self { host: Arc::clone(host), name: name.clone(), size, length, state }
    }

    /// Opens the file again until all that was written before is on its way; the count of attempts begins anew with progress.
    fn go_on(&self, state: &mut State) -> Result<()> {
        loop {
            let before = state.tail.got;
            match self.host.patience.run(|| self.reopen(state)) {
                Err(error) if is_broken(&error) && state.tail.got > before => {}
                outcome => return outcome,
            }
        }
    }

    fn reopen(&self, state: &mut State) -> Result<()> {
        // Closed first: a server may hold what is open.
        state.file = Box::new(Closed);
        let file = self.host.open_partial(&self.name, self.size, true)?;
        state.tail.reach(file.length()).ok_or_else(|| self.too_far(file.length(), state.tail.begin))?;
        let mut at = file.length();
        for block in state.tail.from(at) {
            file.write_at(at, block)?;
            at += block.len() as u64;
        }
        state.file = file;
        Ok(())
    }

    fn too_far(&self, length: u64, begin: u64) -> Error {
        let what = match self.host.partial(&self.name) {
            Ok(path) => format!("could not go on with `{}`", self.host.service.show(&path)),
            Err(error) => return error,
        };
        Error::new(ErrorKind::Io, what)
            .with_cause(format!("the server has {length} bytes of it, and those before byte {begin} are no longer in memory"))
            .with_hint("run the same command again: it goes on where the file ends")
    }
}

impl ServedFile for Appended {
    fn length(&self) -> u64 {
        self.length
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        // Held over the network on purpose: bytes go in order, and nobody else has any.
        let mut state = self.state.lock();
        state.tail.add(offset, bytes);
        match state.file.write_at(offset, bytes) {
            Err(error) if is_broken(&error) => {
                tracing::info!(%error, "the upload goes on over another connection");
                self.go_on(&mut state)
            }
            outcome => outcome,
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.state.lock().file.read_at(offset, buffer)
    }

    fn finish(&self) -> Result<()> {
        let mut state = self.state.lock();
        match state.file.finish() {
            Err(error) if is_broken(&error) => {
                self.go_on(&mut state)?;
                state.file.finish()
            }
            outcome => outcome,
        }
    }
}

/// Whether an error is one of the connection, which another one may mend.
fn is_broken(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionLost | ErrorKind::Unreachable | ErrorKind::Throttled)
}

/// The bytes that were written last, block by block.
struct Tail {
    blocks: VecDeque<Vec<u8>>,
    /// Where the first block begins, and how many bytes all of them have.
    begin: u64,
    bytes: usize,
    /// The most bytes that the server was seen to have.
    got: u64,
}

impl Tail {
    fn behind(length: u64) -> Self {
        Self { blocks: VecDeque::new(), begin: length, bytes: 0, got: length }
    }

    fn end(&self) -> u64 {
        self.begin + self.bytes as u64
    }

    /// Adds what follows; the oldest bytes make room.
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        debug_assert_eq!(offset, self.end(), "bytes come in order");
        for block in bytes.chunks(SLAB_SIZE) {
            self.blocks.push_back(block.to_vec());
        }
        self.bytes += bytes.len();
        while self.bytes > MOST_KEPT.max(bytes.len())
            && let Some(oldest) = self.blocks.pop_front()
        {
            self.begin += oldest.len() as u64;
            self.bytes -= oldest.len();
        }
    }

    /// The server has so many bytes; `None` if those behind them are not all here.
    fn reach(&mut self, length: u64) -> Option<()> {
        self.got = self.got.max(length);
        (self.begin..=self.end()).contains(&length).then_some(())
    }

    /// The bytes from an offset on.
    fn from(&self, offset: u64) -> impl Iterator<Item = &[u8]> {
        let mut skipped = usize::try_from(offset - self.begin).unwrap_or(usize::MAX);
        self.blocks.iter().filter_map(move |block| {
            let rest = block.get(skipped.min(block.len())..).filter(|rest| !rest.is_empty());
            skipped = skipped.saturating_sub(block.len());
            rest
        })
    }
}

/// Stands for a file between two connections.
struct Closed;

impl Closed {
    fn error<T>() -> Result<T> {
        Err(Error::new(ErrorKind::ConnectionLost, "could not go on with a file whose connection broke"))
    }
}

impl ServedFile for Closed {
    fn length(&self) -> u64 {
        0
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
        Self::error()
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        Self::error()
    }

    fn finish(&self) -> Result<()> {
        Self::error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_has_the_last_bytes_and_says_when_they_do_not_reach_back_far_enough() {
        let mut tail = Tail::behind(10);
        tail.add(10, b"abc");
        tail.add(13, b"defg");
        let from = |tail: &Tail, offset| tail.from(offset).flatten().copied().collect::<Vec<_>>();
        assert_eq!(from(&tail, 10), b"abcdefg");
        assert_eq!(from(&tail, 14), b"efg");
        assert_eq!(from(&tail, 17), b"");
        assert_eq!((tail.reach(9), tail.reach(10), tail.reach(17), tail.reach(18)), (None, Some(()), Some(()), None));
        let block = vec![0; SLAB_SIZE];
        let mut end = tail.end();
        for _ in 0..=MOST_KEPT / SLAB_SIZE {
            tail.add(end, &block);
            end += SLAB_SIZE as u64;
        }
        assert_eq!((tail.bytes, tail.end()), (MOST_KEPT, end));
        assert_eq!(tail.reach(17), None);
    }
}
