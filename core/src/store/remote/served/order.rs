//! Writing in order what arrives in any: blocks that come early wait in memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::ServedFile;
use crate::sync::{Condvar, Mutex};

/// Bytes of one file that may wait for what comes before them.
const MOST_EARLY: usize = 64 << 20;

/// How long a full memory waits for the bytes before it, if nothing is being written.
const GAP: Duration = Duration::from_mins(2);

/// How often a waiting writer looks whether the transfer ended.
const LOOK: Duration = Duration::from_millis(100);

/// The order of one file.
pub(super) struct InOrder {
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    /// Up to where the server was given the file.
    position: u64,
    /// Whether a thread is writing; it goes on with what waits.
    writing: bool,
    early: BTreeMap<u64, Vec<u8>>,
    early_bytes: usize,
    failed: Option<Error>,
}

/// What a block's writer does next.
enum Turn {
    /// The bytes are there, or wait for another thread.
    Over,
    /// It is the one that writes.
    Write,
    /// Memory is full.
    Wait,
}

impl InOrder {
    /// The order of a file of which the server has `position` bytes.
    pub(super) fn from(position: u64) -> Self {
        let state = State { position, writing: false, early: BTreeMap::new(), early_bytes: 0, failed: None };
        Self { state: Mutex::new(state), moved: Condvar::new() }
    }

    /// Takes a block: writes it, with those that waited for it, or lets it wait. Bytes that are there already are left out.
    pub(super) fn write(&self, file: &dyn ServedFile, block: (u64, &[u8]), is_interrupted: impl Fn() -> bool) -> Result<()> {
        let mut state = self.state.lock();
        let mut seen = (state.position, Instant::now());
        loop {
            match state.turn(block)? {
                Turn::Over => return Ok(()),
                Turn::Write => break,
                Turn::Wait => {}
            }
            if is_interrupted() {
                return Err(Error::new(ErrorKind::Cancelled, "the transfer ended while bytes waited for those before them"));
            }
            if state.writing || state.position != seen.0 {
                seen = (state.position, Instant::now());
            } else if seen.1.elapsed() > GAP {
                return Err(gap(state.position, block.0));
            }
            self.moved.wait_for(&mut state, LOOK);
        }
        state.writing = true;
        let position = state.position;
        drop(state);
        self.write_on(file, position, block)
    }

    /// How many bytes the server was given; an error if some of them wait for others, or if writing failed.
    pub(super) fn position(&self) -> Result<u64> {
        let state = self.state.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        state.early.keys().next().map_or(Ok(state.position), |early| Err(gap(state.position, *early)))
    }

    /// Writes a block at the position and then, block by block, what waited for it.
    fn write_on(&self, file: &dyn ServedFile, mut position: u64, (offset, bytes): (u64, &[u8])) -> Result<()> {
        let mut written = file.write_at(position, behind(position, offset, bytes));
        position = offset + bytes.len() as u64;
        loop {
            let mut state = self.state.lock();
            let next = match written {
                Ok(()) => {
                    state.position = position;
                    state.take_next()
                }
                Err(error) => {
                    state.fail(error.clone());
                    self.moved.notify_all();
                    return Err(error);
                }
            };
            state.writing = next.is_some();
            drop(state);
            self.moved.notify_all();
            let Some((offset, bytes)) = next else { return Ok(()) };
            written = file.write_at(position, behind(position, offset, &bytes));
            position = offset + bytes.len() as u64;
        }
    }
}

impl State {
    fn turn(&mut self, (offset, bytes): (u64, &[u8])) -> Result<Turn> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if offset + bytes.len() as u64 <= self.position {
            return Ok(Turn::Over);
        }
        if offset <= self.position && !self.writing {
            return Ok(Turn::Write);
        }
        if self.early.get(&offset).is_some_and(|waiting| waiting.len() >= bytes.len()) {
            return Ok(Turn::Over);
        }
        if self.early_bytes + bytes.len() > MOST_EARLY {
            return Ok(Turn::Wait);
        }
        self.early_bytes += bytes.len();
        if let Some(shorter) = self.early.insert(offset, bytes.to_vec()) {
            self.early_bytes -= shorter.len();
        }
        Ok(Turn::Over)
    }

    /// Takes out what can be written now; what was written meanwhile is dropped.
    fn take_next(&mut self) -> Option<(u64, Vec<u8>)> {
        loop {
            let first = self.early.first_entry().filter(|first| *first.key() <= self.position)?;
            let (offset, bytes) = first.remove_entry();
            self.early_bytes -= bytes.len();
            if offset + bytes.len() as u64 > self.position {
                return Some((offset, bytes));
            }
        }
    }

    fn fail(&mut self, error: Error) {
        self.failed = Some(error);
        self.writing = false;
        self.early.clear();
        self.early_bytes = 0;
    }
}

/// The part of a block from `position` on, which lies in it.
fn behind(position: u64, offset: u64, bytes: &[u8]) -> &[u8] {
    usize::try_from(position - offset).ok().and_then(|skipped| bytes.get(skipped..)).unwrap_or_default()
}

fn gap(position: u64, offset: u64) -> Error {
    Error::new(ErrorKind::Io, format!("could not write bytes from {offset} on: those from {position} on did not arrive"))
        .with_hint("run the same command again: it goes on where the file ends")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that only takes what comes at its end.
    #[derive(Default)]
    struct Tape(Mutex<Vec<u8>>);

    impl ServedFile for Tape {
        fn length(&self) -> u64 {
            0
        }

        fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
            let mut content = self.0.lock();
            assert_eq!(offset, content.len() as u64, "not in order");
            if bytes.contains(&0xff) {
                return Err(Error::new(ErrorKind::NoSpace, "the tape ended"));
            }
            content.extend_from_slice(bytes);
            Ok(())
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
            Ok(0)
        }

        fn finish(&self) -> Result<()> {
            Ok(())
        }
    }

    fn write(order: &InOrder, tape: &Tape, offset: u64, bytes: &[u8]) -> Result<()> {
        order.write(tape, (offset, bytes), || false)
    }

    #[test]
    fn early_blocks_wait_and_second_copies_are_left_out() {
        let (order, tape) = (InOrder::from(0), Tape::default());
        write(&order, &tape, 2, b"cd").unwrap();
        write(&order, &tape, 4, b"ef").unwrap();
        write(&order, &tape, 4, b"ef").unwrap();
        assert!(order.position().is_err());
        write(&order, &tape, 0, b"ab").unwrap();
        write(&order, &tape, 0, b"ab").unwrap();
        write(&order, &tape, 4, b"efg").unwrap();
        assert_eq!((order.position().unwrap(), tape.0.lock().as_slice()), (7, b"abcdefg".as_slice()));
    }

    #[test]
    fn threads_write_each_byte_once() {
        let (order, tape) = (InOrder::from(0), Tape::default());
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (order, tape) = (&order, &tape);
                scope.spawn(move || (0..250).rev().for_each(|round| write(order, tape, round * 4 + thread, &[7]).unwrap()));
            }
        });
        assert_eq!((order.position().unwrap(), tape.0.lock().len()), (1000, 1000));
    }

    #[test]
    fn after_a_failure_nothing_is_written() {
        let (order, tape) = (InOrder::from(0), Tape::default());
        write(&order, &tape, 1, b"b").unwrap();
        for offset in [0, 1, 2] {
            assert_eq!(write(&order, &tape, offset, &[0xff]).unwrap_err().kind(), ErrorKind::NoSpace);
        }
        assert_eq!(order.position().unwrap_err().kind(), ErrorKind::NoSpace);
    }

    #[test]
    fn a_full_memory_waits_until_the_transfer_ends() {
        let (order, tape) = (InOrder::from(0), Tape::default());
        write(&order, &tape, 1, &vec![1; MOST_EARLY]).unwrap();
        let ended = order.write(&tape, (1 + MOST_EARLY as u64, b"x"), || true);
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
