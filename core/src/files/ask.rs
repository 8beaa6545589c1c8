//! Questions about files on a session, and their answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::pool::{Lease, Pool};
use crate::error::{Error, ErrorKind, Result};
use crate::link::Control;
use crate::path::RelativePath;
use crate::protocol::message::{Answer, Message, Request, WireEntry};
use crate::store::{Depth, Entry, EntryKind};

/// How long a server may take for one part of an answer: where its workers keep to a low rate, to digest or copy a large file takes days.
/// A server that is lost is noticed by its silence, long before.
const PATIENCE: Duration = Duration::from_hours(7 * 24);

/// Asks a server for one entry.
pub(crate) fn stat(control: &Control, path: &RelativePath) -> Result<Entry> {
    match ask(control, Request::Stat(path.as_bytes().to_vec()))? {
        Answer::Entries { mut entries, .. } if entries.len() == 1 => Entry::try_from(entries.remove(0)),
        other => Err(unfit(&other)),
    }
}

/// Asks a server for the size of the file that a link leads to below its root; `None` where it leads to a directory.
pub(crate) fn linked_size(control: &Control, path: &RelativePath) -> Result<Option<u64>> {
    match ask(control, Request::Read { path: path.as_bytes().to_vec(), offset: 0, length: 0 }) {
        Ok(Answer::Bytes { state, .. }) => Ok(Some(state.size)),
        Ok(other) => Err(unfit(&other)),
        Err(error) if error.kind() == ErrorKind::WrongType => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lists a place on a session on which nothing else is asked any more, for the rest of the answer may still be to come.
pub(crate) fn list<'a>(
    control: &'a Control,
    path: &RelativePath,
    depth: Depth,
) -> Result<impl Iterator<Item = Result<Entry>> + use<'a>> {
    let request = Request::List { path: path.as_bytes().to_vec(), tree: depth == Depth::Tree };
    control.sender.send(&Message::Request(request))?;
    let mut ended = false;
    let parts = std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let part = answer(control).and_then(listed);
        ended = part.as_ref().map_or(true, |(_, last)| *last);
        Some(part.map_or_else(|error| vec![Err(error)], |(entries, _)| entries))
    });
    Ok(parts.flatten())
}

/// Asks for what is answered in one part.
pub(super) fn ask(control: &Control, request: Request) -> Result<Answer> {
    control.sender.send(&Message::Request(request))?;
    answer(control)
}

/// Asks for what is answered by having been done.
pub(super) fn order(control: &Control, request: Request) -> Result<()> {
    match ask(control, request)? {
        Answer::Done => Ok(()),
        other => Err(unfit(&other)),
    }
}

/// The next part of an answer.
pub(super) fn answer(control: &Control) -> Result<Answer> {
    match control.receiver.recv_timeout(PATIENCE) {
        Ok(Message::Answer(Answer::Failed(failed)) | Message::Fail(failed)) => Err(failed.into()),
        Ok(Message::Answer(answer)) => Ok(answer),
        Ok(other) => Err(crate::pipeline::sender::unexpected(&other)),
        Err(_) => Err(control
            .sender
            .failure()
            .unwrap_or_else(|| Error::new(ErrorKind::ConnectionLost, "the server closed the connection without an answer"))),
    }
}

/// What one part of a listing tells, and whether it is the last one.
fn listed(answer: Answer) -> Result<(Vec<Result<Entry>>, bool)> {
    match answer {
        Answer::Entries { entries, failed, last } => {
            let failed = failed.into_iter().map(|item| Err(Error::from(item.failed)));
            Ok((entries.into_iter().map(Entry::try_from).chain(failed).collect(), last))
        }
        other => Err(unfit(&other)),
    }
}

/// The error about an answer of another kind than was asked for.
pub(super) fn unfit(answer: &Answer) -> Error {
    let name = match answer {
        Answer::Entries { .. } => "Entries",
        Answer::Done => "Done",
        Answer::Failed(_) => "Failed",
        Answer::Digests { .. } => "Digests",
        Answer::Bytes { .. } => "Bytes",
    };
    Error::new(ErrorKind::Protocol, format!("the server answered `{name}` to another question"))
}

/// A listing that arrives in parts.
pub(super) struct RemoteListing {
    /// Given back after the last part; one that is dropped before closes its session, so that the rest is not taken for another answer.
    lease: Option<Lease>,
    waiting: VecDeque<Result<Entry>>,
}

impl RemoteListing {
    /// Asks for a listing, and waits for its first part.
    pub(super) fn begin(pool: &Arc<Pool>, path: &RelativePath, tree: bool) -> Result<Self> {
        pool.attempts(|| {
            let lease = pool.take()?;
            let request = Request::List { path: path.as_bytes().to_vec(), tree };
            lease.control().sender.send(&Message::Request(request))?;
            let mut listing = Self { lease: Some(lease), waiting: VecDeque::new() };
            listing.receive()?;
            Ok(listing)
        })
    }

    /// Takes the next part, if there is one.
    fn receive(&mut self) -> Result<()> {
        let Some(mut lease) = self.lease.take() else { return Ok(()) };
        match answer(lease.control()).and_then(listed) {
            Ok((entries, last)) => {
                self.waiting.extend(entries);
                if last {
                    lease.settle(None);
                } else {
                    lease.set_apart();
                    self.lease = Some(lease);
                }
                Ok(())
            }
            Err(error) => {
                lease.settle(Some(&error));
                Err(error)
            }
        }
    }
}

impl Iterator for RemoteListing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        while self.waiting.is_empty() {
            self.lease.as_ref()?;
            if let Err(error) = self.receive() {
                return Some(Err(error));
            }
        }
        self.waiting.pop_front()
    }
}

impl TryFrom<WireEntry> for Entry {
    type Error = Error;

    fn try_from(entry: WireEntry) -> Result<Self> {
        Ok(Self {
            path: RelativePath::from_bytes(&entry.path)?,
            kind: match entry.kind {
                0 => EntryKind::File,
                1 => EntryKind::Directory,
                2 => EntryKind::Symlink(entry.target.unwrap_or_default().into()),
                _ => EntryKind::Other,
            },
            size: entry.size,
            modified_ns: entry.modified_ns,
            mode: entry.mode,
            version: None,
            sparse: false,
        })
    }
}

impl From<Entry> for WireEntry {
    fn from(entry: Entry) -> Self {
        let (kind, target) = match entry.kind {
            EntryKind::File => (0, None),
            EntryKind::Directory => (1, None),
            EntryKind::Symlink(target) => (2, Some(target.into())),
            EntryKind::Other => (3, None),
        };
        Self {
            path: entry.path.as_bytes().to_vec(),
            kind,
            size: entry.size,
            modified_ns: entry.modified_ns,
            mode: entry.mode,
            target,
        }
    }
}
