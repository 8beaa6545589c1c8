//! A file being written over one connection: what is on its way there.

use std::collections::VecDeque;
use std::sync::Arc;

use super::connection::{Connection, Handle, Ticket};
use super::pool::Lease;
use super::request::Request;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

/// Bytes of a file on their way on one connection before a writer waits for answers.
const MOST: u64 = 4 << 20;

/// A file on one connection.
pub(super) struct Lane {
    lease: Lease,
    handle: Handle,
    pieces: Mutex<Pieces>,
}

#[derive(Default)]
struct Pieces {
    queue: VecDeque<Piece>,
    /// Bytes in the queue.
    bytes: u64,
    /// What was answered with a failure, or with none at all.
    failed: Vec<(u64, Vec<u8>)>,
    /// Whether what was not confirmed was taken away, so that nobody would wait for more.
    retired: bool,
}

struct Piece {
    ticket: Ticket,
    offset: u64,
    bytes: Vec<u8>,
}

impl Lane {
    pub(super) fn new(lease: Lease, handle: Handle) -> Self {
        Self { lease, handle, pieces: Mutex::default() }
    }

    /// The connection.
    pub(super) fn connection(&self) -> &Arc<Connection> {
        self.lease.connection()
    }

    /// The file's handle on this connection.
    pub(super) fn handle(&self) -> &[u8] {
        &self.handle.name
    }

    /// Asks to close the file, behind all that was sent.
    pub(super) fn close(&self) -> Result<Ticket> {
        self.handle.close()
    }

    /// Sends a piece, and waits for earlier ones if too many are on their way; an error may be theirs.
    pub(super) fn put(&self, offset: u64, bytes: &[u8], what: impl FnOnce() -> String) -> Result<()> {
        let ticket = self.connection().send(Request::write(self.handle(), offset, bytes))?;
        let mut pieces = self.pieces.lock();
        if pieces.retired {
            return Err(Error::new(ErrorKind::ConnectionLost, what()).with_cause("its connection broke"));
        }
        pieces.bytes += bytes.len() as u64;
        pieces.queue.push_back(Piece { ticket, offset, bytes: bytes.to_vec() });
        drop(pieces);
        self.wait(MOST, what)
    }

    /// Takes the answers that are there, and waits for more until at most `most` bytes are on their way.
    pub(super) fn wait(&self, most: u64, what: impl FnOnce() -> String) -> Result<()> {
        while let Some(Piece { ticket, offset, bytes }) = self.next(most) {
            let answer = ticket.wait();
            if !matches!(&answer, Ok(reply) if reply.is_success()) {
                self.pieces.lock().failed.push((offset, bytes));
                return answer?.done(what);
            }
        }
        Ok(())
    }

    /// The oldest piece, if it is answered or more than `most` bytes are on their way.
    fn next(&self, most: u64) -> Option<Piece> {
        let mut pieces = self.pieces.lock();
        let over = pieces.bytes > most;
        if !pieces.queue.front().is_some_and(|piece| over || piece.ticket.is_ready()) {
            return None;
        }
        let piece = pieces.queue.pop_front()?;
        pieces.bytes -= piece.bytes.len() as u64;
        Some(piece)
    }

    /// Takes what the server has not confirmed, offsets and bytes, and ends the use of this lane.
    pub(super) fn take(&self) -> Vec<(u64, Vec<u8>)> {
        let mut pieces = self.pieces.lock();
        let mut taken = std::mem::take(&mut pieces.failed);
        taken.extend(pieces.queue.drain(..).map(|piece| (piece.offset, piece.bytes)));
        (pieces.bytes, pieces.retired) = (0, true);
        taken
    }
}
