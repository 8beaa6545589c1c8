//! Files being read: ranges of them, each over a connection of its own, with as many requests under way as the path holds.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::connection::{Connection, Handle, Ticket};
use super::pool::{Lease, Pool, Want};
use super::reply::Attributes;
use super::request::{Access, Request};
use super::{entry_of, modified_ns};
use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::{Body, Ranges};
use crate::store::{Entry, EntryKind};
use crate::sync::Mutex;

/// Bytes that may be asked for on one connection: twice what OpenSSH lets be on their way, so that its server never runs dry.
const ASKED: u64 = 4 << 20;

/// A file to read.
pub(super) struct Reading {
    file: Arc<File>,
}

struct File {
    pool: Arc<Pool>,
    /// The path as the server knows it.
    path: Vec<u8>,
    shown: String,
    entry: Entry,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// At most one for each connection.
    handles: Vec<Arc<Handle>>,
    /// The file as it is behind the last request of a body that reads it whole: spares `stat` a round trip.
    behind: Option<Ticket>,
}

/// A range on its way.
struct Stream {
    file: Arc<File>,
    lease: Lease,
    handle: Arc<Handle>,
    /// The file as it was before the first request, of a handle that is new.
    before: Option<Ticket>,
    pieces: VecDeque<Piece>,
    /// What is not asked for yet.
    rest: Range<u64>,
    /// Whether this is the whole file. Requests about one file are carried out in the order in which they are sent (section 6.1 of the
    /// draft), so that a description that is asked for behind them is of the file as it was read.
    whole: bool,
    /// Bytes that arrived, and how many of them are taken.
    arrived: (Vec<u8>, usize),
    /// Bytes of one request.
    step: u32,
}

struct Piece {
    ticket: Ticket,
    range: Range<u64>,
}

impl Reading {
    /// A file that `entry` describes; nothing is asked for yet.
    pub(super) fn new(pool: Arc<Pool>, path: Vec<u8>, shown: String, entry: Entry) -> Self {
        Self { file: Arc::new(File { pool, path, shown, entry, open: Mutex::default() }) }
    }
}

impl Ranges for Reading {
    fn open(&self, range: Range<u64>) -> Result<Box<dyn Body>> {
        let lease = self.file.pool.lease(Want::Bulk)?;
        let (handle, before) = self.file.handle(lease.connection())?;
        let facts = lease.connection().facts();
        let whole = range == (0..self.file.entry.size);
        let (file, pieces, arrived) = (Arc::clone(&self.file), VecDeque::new(), (Vec::new(), 0));
        let mut stream = Stream { file, lease, handle, before, pieces, rest: range, whole, arrived, step: facts.read };
        stream.ask()?;
        Ok(Box::new(stream))
    }

    fn stat(&self) -> Result<Entry> {
        let file = &self.file;
        let (behind, handle) = {
            let mut open = file.open.lock();
            (open.behind.take(), open.handles.iter().find(|handle| !handle.connection.is_broken()).cloned())
        };
        let answer = behind.map(Ticket::wait).and_then(Result::ok);
        let reply = match (answer, handle) {
            (Some(reply), _) => reply,
            (None, Some(handle)) => handle.connection.ask(Request::describe_open(&handle.name))?,
            (None, None) => file.pool.lease(Want::Brief)?.connection().ask(Request::describe(&file.path))?,
        };
        let attributes = reply.attributes(|| format!("could not look at `{}`", file.shown))?;
        Ok(entry_of(file.entry.path.clone(), &attributes, EntryKind::File))
    }
}

impl File {
    /// The handle on a connection. Of a new one its description is asked for, so that what is read is still what was listed.
    fn handle(&self, connection: &Arc<Connection>) -> Result<(Arc<Handle>, Option<Ticket>)> {
        let known = {
            let mut open = self.open.lock();
            open.behind = None;
            open.handles.retain(|handle| !handle.connection.is_broken());
            open.handles.iter().find(|handle| Arc::ptr_eq(&handle.connection, connection)).cloned()
        };
        if let Some(handle) = known {
            return Ok((handle, None));
        }
        let ticket = connection.send(Request::open(&self.path, Access::Read))?;
        let handle = Arc::new(Handle::take(connection, ticket, || self.failed())?);
        let before = connection.send(Request::describe_open(&handle.name))?;
        let mut open = self.open.lock();
        if !open.handles.iter().any(|handle| Arc::ptr_eq(&handle.connection, connection)) {
            open.handles.push(Arc::clone(&handle));
        }
        Ok((handle, Some(before)))
    }

    fn failed(&self) -> String {
        format!("could not read `{}`", self.shown)
    }

    fn changed(&self, why: &str) -> Error {
        Error::new(ErrorKind::SourceChanged, self.failed())
            .with_cause(why)
            .with_hint("run the same command again when nothing writes to the file any more")
    }

    /// Whether a description is that of the file that was listed. One without a time is of no listing, but read while it is written.
    fn is_same(&self, attributes: &Attributes) -> bool {
        let same_time = |_: u32| modified_ns(attributes) == self.entry.modified_ns;
        let same_size = |size: u64| size == self.entry.size;
        self.entry.modified_ns.is_none() || (attributes.size.is_none_or(same_size) && attributes.modified.is_none_or(same_time))
    }
}

impl Stream {
    /// Asks for as much as may be under way.
    fn ask(&mut self) -> Result<()> {
        let most = self.lease.share(ASKED).max(u64::from(self.step));
        let begin = self.pieces.front().map_or(self.rest.start, |piece| piece.range.start);
        let mut asked = self.rest.start.saturating_sub(begin);
        let more = !self.rest.is_empty();
        while !self.rest.is_empty() && asked < most {
            let end = self.rest.end.min(self.rest.start + u64::from(self.step));
            let piece = self.piece(self.rest.start..end)?;
            asked += end - self.rest.start;
            self.rest.start = end;
            self.pieces.push_back(piece);
        }
        if more && self.rest.is_empty() && self.whole {
            let behind = self.lease.connection().send(Request::describe_open(&self.handle.name))?;
            self.file.open.lock().behind = Some(behind);
        }
        Ok(())
    }

    fn piece(&self, range: Range<u64>) -> Result<Piece> {
        let length = u32::try_from(range.end - range.start).unwrap_or(self.step);
        let request = Request::read(&self.handle.name, range.start, length);
        Ok(Piece { ticket: self.lease.connection().send(request)?, range })
    }

    /// Waits for the next bytes; `false` at the end of the range.
    fn advance(&mut self) -> Result<bool> {
        if let Some(before) = self.before.take() {
            let attributes = before.wait()?.attributes(|| self.file.failed())?;
            if !self.file.is_same(&attributes) {
                return Err(self.file.changed("it is not the file that was listed"));
            }
        }
        self.ask()?;
        let Some(Piece { ticket, range }) = self.pieces.pop_front() else { return Ok(false) };
        let Some(data) = ticket.wait()?.data(|| self.file.failed())? else {
            return Err(self.file.changed("it became shorter while it was read"));
        };
        let end = range.start + data.len() as u64;
        if data.is_empty() || end > range.end {
            let error = Error::new(ErrorKind::Protocol, self.file.failed());
            return Err(error.with_cause("the server sends another range than was asked for"));
        }
        if end < range.end {
            // It sends less than was asked for: the rest of this piece, and smaller ones from now on.
            self.step = u32::try_from(data.len()).unwrap_or(self.step).max(4096);
            self.file.open.lock().behind = None;
            let rest = self.piece(end..range.end)?;
            self.pieces.push_front(rest);
            self.whole = false;
        }
        self.arrived = (data, 0);
        Ok(true)
    }
}

impl Body for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let (bytes, taken) = (&self.arrived.0, self.arrived.1);
            if taken == bytes.len() {
                if !self.advance()? {
                    break;
                }
                continue;
            }
            let count = (bytes.len() - taken).min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&bytes[taken..taken + count]);
            self.arrived.1 += count;
            filled += count;
        }
        Ok(filled)
    }
}
