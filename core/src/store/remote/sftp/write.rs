//! Files being written: blocks in any order, over one connection or several, kept in memory until the server has them.

use std::sync::Arc;

use super::connection::{Handle, Ticket};
use super::lane::Lane;
use super::pool::{Lease, Pool, Want};
use super::read::Reading;
use super::reply::{Reply, longs};
use super::request::{Access, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::remote::{Body, Ranges, ServedFile};
use crate::store::{Entry, EntryKind};
use crate::sync::Mutex;

/// Bytes of a file on their way on one connection before another one without users takes the next: half of what OpenSSH lets be.
const ENOUGH: u64 = 1 << 20;

/// Places of a partial file from which it is read back at a time.
const KEPT: usize = 8;

/// A file system with less room than this is full.
const FULL: u64 = 1 << 20;

/// A file being written.
///
/// A call that fails with an error of kind `ConnectionLost` may be made again: what the server had not confirmed is then sent first.
pub(super) struct Writing {
    pool: Arc<Pool>,
    /// The path as the server knows it.
    path: Vec<u8>,
    shown: String,
    /// Bytes that were there at first, and that will be there in the end.
    length: u64,
    size: u64,
    /// Bytes of one request.
    most: usize,
    state: Mutex<State>,
    /// What is read back, each with the offset where it stands.
    back: Mutex<Vec<(u64, Box<dyn Body>)>>,
}

#[derive(Default)]
struct State {
    lanes: Vec<Arc<Lane>>,
    /// Lanes that are asked to close, with the answer to that.
    closing: Vec<(Arc<Lane>, Ticket)>,
    /// What was on its way on connections that broke.
    lost: Vec<(u64, Vec<u8>)>,
    /// Bytes that were handed in, and where the last of them ends.
    taken: u64,
    end: u64,
    /// Calls that write.
    inside: usize,
    failed: Option<Error>,
}

impl Writing {
    /// Opens or makes the file; waits for the server.
    pub(super) fn open(pool: Arc<Pool>, path: Vec<u8>, shown: String, size: u64, keep: bool) -> Result<Self> {
        let lease = pool.lease(Want::Bulk)?;
        let most = lease.connection().facts().write as usize;
        let state = Mutex::default();
        let mut file = Self { pool, path, shown, length: 0, size, most, state, back: Mutex::default() };
        let lane = file.lane_on(lease, if keep { Access::Write } else { Access::Empty })?;
        if keep {
            let reply = lane.connection().ask(Request::describe_open(lane.handle()))?;
            let attributes = reply.attributes(|| format!("could not look at `{}`", file.shown))?;
            file.length = attributes.size.unwrap_or(0);
        }
        file.state.get_mut().lanes.push(Arc::new(lane));
        Ok(file)
    }

    fn failed(&self) -> String {
        format!("could not write `{}`", self.shown)
    }

    fn lane_on(&self, lease: Lease, access: Access) -> Result<Lane> {
        let connection = Arc::clone(lease.connection());
        let ticket = connection.send(Request::open(&self.path, access))?;
        let handle = Handle::take(&connection, ticket, || self.failed())?;
        Ok(Lane::new(lease, handle))
    }

    /// The lane for the next bytes: the one with the least on its way, or a new one where all have enough and a connection has no user.
    fn lane(&self) -> Result<Arc<Lane>> {
        let best = self.state.lock().lanes.iter().min_by_key(|lane| lane.connection().in_flight()).cloned();
        let lease = match best {
            Some(lane) if lane.connection().in_flight() < ENOUGH => return Ok(lane),
            // A connection that cannot be made is no reason not to go on over this one.
            Some(lane) => match self.pool.idle() {
                Ok(Some(lease)) => lease,
                _ => return Ok(lane),
            },
            None => self.pool.lease(Want::Bulk)?,
        };
        let lane = Arc::new(self.lane_on(lease, Access::Join)?);
        self.state.lock().lanes.push(Arc::clone(&lane));
        Ok(lane)
    }

    /// Writes over any lane; over another one at once if that one's connection is broken.
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let lane = self.lane()?;
        match self.put_on(&lane, offset, bytes) {
            Err(error) if error.kind() == ErrorKind::ConnectionLost => self.put_on(&self.lane()?, offset, bytes),
            outcome => outcome,
        }
    }

    fn put_on(&self, lane: &Arc<Lane>, offset: u64, bytes: &[u8]) -> Result<()> {
        lane.put(offset, bytes, || self.failed()).map_err(|error| self.judge(lane, error))
    }

    /// After a failure: what a broken connection lost will be sent again; what no further attempt mends is remembered.
    fn judge(&self, lane: &Arc<Lane>, error: Error) -> Error {
        if error.kind() == ErrorKind::ConnectionLost {
            self.retire(lane);
            return error;
        }
        let error = self.explain(lane, error);
        self.state.lock().failed.get_or_insert(error).clone()
    }

    /// Takes a lane out; what was on its way there will be sent again.
    fn retire(&self, lane: &Arc<Lane>) {
        let mut state = self.state.lock();
        state.lanes.retain(|other| !Arc::ptr_eq(other, lane));
        state.lost.extend(lane.take());
    }

    /// Sends again what was lost.
    fn recover(&self) -> Result<()> {
        let is_broken = |lane: &&Arc<Lane>| lane.connection().is_broken();
        let broken: Vec<Arc<Lane>> = self.state.lock().lanes.iter().filter(is_broken).cloned().collect();
        for lane in &broken {
            self.retire(lane);
        }
        loop {
            let Some((offset, bytes)) = self.state.lock().lost.pop() else { return Ok(()) };
            if let Err(error) = self.put(offset, &bytes) {
                self.state.lock().lost.push((offset, bytes));
                return Err(error);
            }
        }
    }

    /// OpenSSH calls a full file system a failure: the free space tells.
    fn explain(&self, lane: &Lane, error: Error) -> Error {
        if error.kind() != ErrorKind::Io || !lane.connection().facts().tells_space {
            return error;
        }
        let Ok(Reply::Extended(body)) = lane.connection().ask(Request::space(&self.path)) else { return error };
        match longs(&body)[..] {
            [_, unit, _, _, free, ..] if unit.saturating_mul(free) < FULL => {
                Error::io(self.failed(), &std::io::ErrorKind::StorageFull.into())
            }
            _ => error,
        }
    }

    /// Writes one block and counts it; the last one of the file has it closed.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.back.lock().clear();
        // Pieces of one size, not one that is full and one that is nearly empty.
        let count = bytes.len().div_ceil(self.most).max(1);
        let step = bytes.len().div_ceil(count).next_multiple_of(4096).min(self.most);
        for (index, piece) in bytes.chunks(step).enumerate() {
            self.put(offset + (index * step) as u64, piece)?;
        }
        let mut state = self.state.lock();
        state.taken += bytes.len() as u64;
        state.end = state.end.max(offset + bytes.len() as u64);
        Ok(())
    }

    /// Asks to close all lanes.
    fn close(&self, lanes: Vec<Arc<Lane>>) {
        for lane in lanes {
            match lane.close() {
                Ok(ticket) => self.state.lock().closing.push((lane, ticket)),
                Err(_) => self.retire(&lane),
            }
        }
    }

    /// Waits for the answers of the lanes that were asked to close; what is wrong shows in the state.
    fn settle(&self) {
        let closing = std::mem::take(&mut self.state.lock().closing);
        for (lane, ticket) in closing {
            if self.flush(&lane).is_err() {
                continue;
            }
            // With all bytes there, a connection that broke since does no harm: the server closes the file by itself.
            if let Ok(reply) = ticket.wait()
                && let Err(error) = reply.done(|| self.failed())
            {
                self.judge(&lane, error);
            }
        }
    }

    /// Waits until the server has what was written over a lane.
    fn flush(&self, lane: &Arc<Lane>) -> Result<()> {
        lane.wait(0, || self.failed()).map_err(|error| self.judge(lane, error))
    }

    /// What the server has of the file, to read.
    fn reading(&self, end: u64) -> Result<Reading> {
        let lanes = self.state.lock().lanes.clone();
        lanes.iter().try_for_each(|lane| self.flush(lane))?;
        let (path, kind) = (RelativePath::root(), EntryKind::File);
        let entry = Entry { path, kind, size: end, modified_ns: None, mode: None, version: None, sparse: false };
        Ok(Reading::new(Arc::clone(&self.pool), self.path.clone(), self.shown.clone(), entry))
    }
}

impl ServedFile for Writing {
    fn length(&self) -> u64 {
        self.length
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        {
            let mut state = self.state.lock();
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state.inside += 1;
        }
        let written = self.recover().and_then(|()| self.write(offset, bytes));
        let mut state = self.state.lock();
        state.inside -= 1;
        // Closed while the last bytes are on their way, so that to finish costs no round trip of its own.
        let whole = state.inside == 0 && state.taken >= self.size && state.lost.is_empty();
        let lanes = if whole { std::mem::take(&mut state.lanes) } else { Vec::new() };
        drop(state);
        self.close(lanes);
        written
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let end = self.state.lock().end.max(self.length);
        if offset >= end || buffer.is_empty() {
            return Ok(0);
        }
        let waiting = {
            let mut back = self.back.lock();
            let index = back.iter().position(|(position, _)| *position == offset);
            index.map(|index| back.swap_remove(index).1)
        };
        let mut body = match waiting {
            Some(body) => body,
            None => self.reading(end)?.open(offset..end)?,
        };
        let read = body.read(buffer)?;
        let mut back = self.back.lock();
        if back.len() >= KEPT {
            back.remove(0);
        }
        back.push((offset + read as u64, body));
        Ok(read)
    }

    fn finish(&self) -> Result<()> {
        self.back.lock().clear();
        // Once more for what was lost until now; if that is lost too, the caller decides whether to go on.
        for _ in 0..2 {
            self.recover()?;
            let lanes = std::mem::take(&mut self.state.lock().lanes);
            self.close(lanes);
            self.settle();
            let state = self.state.lock();
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.lost.is_empty() {
                return Ok(());
            }
        }
        Err(Error::new(ErrorKind::ConnectionLost, self.failed()).with_cause("the connections break as soon as they are made"))
    }
}
