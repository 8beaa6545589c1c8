//! A file at an edt server, read by ranges.

use std::sync::Arc;

use super::ask::{answer, unfit};
use super::pool::Pool;
use crate::error::{Error, ErrorKind, Result};
use crate::link::Control;
use crate::path::RelativePath;
use crate::protocol::message::{Answer, FileState, Message, Request, check_crc32c};
use crate::store::{Entry, EntryKind, Reader};

/// One state of a file: each read is answered from this state, or fails because the file is another one by now.
pub(super) struct RemoteReader {
    pool: Arc<Pool>,
    path: RelativePath,
    state: FileState,
}

impl RemoteReader {
    /// Finds the file, and reads its first bytes in the same round trip: as many of `first` as it has.
    pub(super) fn open(pool: &Arc<Pool>, path: RelativePath, offset: u64, first: usize) -> Result<(Self, Vec<u8>)> {
        let mut bytes = vec![0; first];
        let (state, count) = pool.repeat(|control| range(control, &path, None, offset, &mut bytes))?;
        bytes.truncate(count);
        Ok((Self { pool: Arc::clone(pool), path, state }, bytes))
    }
}

impl Reader for RemoteReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let asked = self.pool.repeat(|control| range(control, &self.path, Some(self.state), offset, buffer));
        asked.map(|(_, count)| count)
    }

    fn stat(&self) -> Result<Entry> {
        let FileState { size, modified_ns, version } = self.state;
        let (path, kind) = (self.path.clone(), EntryKind::File);
        Ok(Entry { path, kind, size, modified_ns, mode: None, version, sparse: false })
    }

    fn hole(&self, _: u64) -> Option<u64> {
        None
    }

    fn crc64nvme(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// Asks for a range on one session, and answers with the state of the file and how many bytes there were. All parts must be of one state.
fn range(
    control: &Control,
    path: &RelativePath,
    known: Option<FileState>,
    offset: u64,
    buffer: &mut [u8],
) -> Result<(FileState, usize)> {
    let request = Request::Read { path: path.as_bytes().to_vec(), offset, length: buffer.len() as u64 };
    control.sender.send(&Message::Request(request))?;
    let (mut expected, mut filled) = (known, 0);
    loop {
        let (state, bytes, crc32c, last) = match answer(control)? {
            Answer::Bytes { state, bytes, crc32c, last } => (state, bytes, crc32c, last),
            other => return Err(unfit(&other)),
        };
        check_size(path, state.size)?;
        let place = || format!("bytes {offset}..{} of `{path}`", offset.saturating_add(buffer.len() as u64));
        if expected.is_some_and(|expected| expected != state) {
            return Err(changed(path));
        }
        check_crc32c(&bytes, crc32c, &place())?;
        let space = buffer.get_mut(filled..filled + bytes.len()).filter(|space| last || !space.is_empty());
        let Some(space) = space else {
            return Err(Error::new(ErrorKind::Protocol, format!("could not read `{path}`"))
                .with_cause("the server sent other bytes than it was asked for"));
        };
        space.copy_from_slice(&bytes);
        (expected, filled) = (Some(state), filled + bytes.len());
        if last {
            return complete(path, state, offset, (filled, buffer.len()));
        }
    }
}

/// Holds an answer to the size that it tells: it is shorter than asked for only where the file ends.
fn complete(path: &RelativePath, state: FileState, offset: u64, (filled, asked): (usize, usize)) -> Result<(FileState, usize)> {
    let there = state.size.saturating_sub(offset).min(asked as u64);
    if filled as u64 == there {
        return Ok((state, filled));
    }
    Err(changed(path))
}

/// An error if a size is one that no file has: sums of it and of what is read must not overflow.
fn check_size(path: &RelativePath, size: u64) -> Result<()> {
    if i64::try_from(size).is_ok() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Protocol, format!("could not read `{path}`"))
        .with_cause(format!("the server says that it has {size} bytes")))
}

/// The error about a file that is not what it was; it ends a session, as the rest of the answer is still to come.
pub(super) fn changed(path: &RelativePath) -> Error {
    Error::new(ErrorKind::SourceChanged, format!("could not go on reading `{path}`"))
        .with_cause("the file has changed since it was opened")
        .with_hint("open it again to read what is there now")
}

impl From<&Entry> for FileState {
    fn from(entry: &Entry) -> Self {
        Self { size: entry.size, modified_ns: entry.modified_ns, version: entry.version }
    }
}
