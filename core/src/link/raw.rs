//! A socket with the deadline applied to every call, and reads that wait until a good part of what is due is there.

use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::link::socket;

/// Bytes that a gathering read waits for, where so many are due: enough that a fast stream does not wake its reader for every packet. On a
/// slow stream it waits for fewer, so that its bytes are counted when they come.
const GATHERED: (usize, usize) = (16 << 10, 256 << 10);

/// A read that takes longer waits for half as much the next time, and one that is shorter for twice as much.
const LONG: Duration = Duration::from_millis(50);
const SHORT: Duration = Duration::from_millis(10);

/// Fewer bytes than these are read as they come.
const WORTH_GATHERING: usize = 4 << 10;

/// What the reads of a connection wait for.
pub(super) struct Gathering {
    /// Bytes that the socket waits for at present.
    now: Cell<usize>,
    /// Most that it is told to wait for.
    most: Cell<usize>,
}

impl Gathering {
    /// As a socket is at first, of which nobody knows how fast it is.
    pub(super) fn new() -> Self {
        Self { now: Cell::new(1), most: Cell::new(GATHERED.0) }
    }

    fn learn(&self, took: Duration) {
        let (least, most) = GATHERED;
        if took > LONG {
            self.most.set((self.most.get() / 2).max(least));
        } else if took < SHORT {
            self.most.set((self.most.get() * 2).min(most));
        }
    }
}

/// The socket itself.
pub(super) struct Raw<'a> {
    socket: &'a TcpStream,
    deadline: Option<Instant>,
    /// What the next reads gather by.
    gathering: Option<&'a Gathering>,
}

impl<'a> Raw<'a> {
    /// The socket, for calls that end by the deadline.
    pub(super) fn new(socket: &'a TcpStream, deadline: Option<Instant>) -> Self {
        Self { socket, deadline, gathering: None }
    }

    /// Sets what the next read waits for, where reads are to wait at all, of `due` bytes that the peer is bound to send.
    pub(super) fn gather(&mut self, gathering: Option<&'a Gathering>, due: usize) -> io::Result<()> {
        let Some(by) = gathering else { return Ok(()) };
        let due = if due < WORTH_GATHERING { 1 } else { due.min(by.most.get()) };
        if by.now.get() != due {
            socket::gather(self.socket, due)?;
            by.now.set(due);
        }
        self.gathering = gathering.filter(|_| due > 1);
        Ok(())
    }

    /// Waits for the first byte, without taking it; `None` if there is none any more.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        let mut first = [0];
        if let Some(left) = self.left()? {
            self.socket.set_read_timeout(Some(left))?;
        }
        Ok((self.attempt(|socket| socket.peek(&mut first))? > 0).then_some(first[0]))
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) { Err(too_slow()) } else { Ok(left) }
    }

    fn attempt(&mut self, mut call: impl FnMut(&mut &TcpStream) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match call(&mut self.socket) {
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause)
                    if matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) && self.deadline.is_some() =>
                {
                    return Err(too_slow());
                }
                done => return done,
            }
        }
    }
}

impl Read for Raw<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if let Some(left) = self.left()? {
            self.socket.set_read_timeout(Some(left))?;
        }
        if let Some(gathering) = self.gathering {
            let begun = Instant::now();
            let read = socket::read_gathered(self.socket, slices);
            gathering.learn(begun.elapsed());
            return read;
        }
        self.attempt(|socket| socket.read_vectored(slices))
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(left) = self.left()? {
            self.socket.set_write_timeout(Some(left))?;
        }
        self.attempt(|socket| socket.write_vectored(slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the peer took too long")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_stream_is_read_in_small_parts_and_a_fast_one_in_large_ones() {
        let gathering = Gathering::new();
        let after = |took_ms| {
            gathering.learn(Duration::from_millis(took_ms));
            gathering.most.get() >> 10
        };
        assert_eq!([1, 20, 1, 1, 1, 1].map(after), [32, 32, 64, 128, 256, 256]);
        assert_eq!([200, 60, 30, 300, 300, 300].map(after), [128, 64, 64, 32, 16, 16]);
    }
}
