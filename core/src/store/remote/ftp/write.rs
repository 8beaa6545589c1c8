//! Writing: an upload in order, begun at once or gone on with where an earlier one ended.

use std::io::Write as _;
use std::sync::Arc;

use suppaftp::FtpError;

use super::Ftp;
use super::failure;
use super::pool::Pool;
use super::read::Flow;
use crate::buffer::SLAB_SIZE;
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::remote::{Served as _, ServedFile};
use crate::sync::Mutex;

/// A file on its way to the server.
pub(super) struct FtpFile {
    pool: Arc<Pool>,
    /// The path on the server.
    whole: String,
    what: String,
    size: u64,
    length: u64,
    state: Mutex<Upload>,
}

enum Upload {
    Running(Flow),
    /// The server has all of it.
    Done,
    Broken(Error),
}

impl FtpFile {
    /// Begins an upload: an empty one, or with `keep` behind what is there, if the server allows that.
    ///
    /// A server that restarts goes on at a whole block, so that whatever still arrives of a connection that broke is what belongs there;
    /// with another one the new bytes are appended, and the size is compared in the end.
    pub(super) fn open(ftp: &Ftp, path: &RelativePath, size: u64, keep: bool) -> Result<Self> {
        let there = if keep { there(ftp, path)? } else { 0 };
        if there == size && size > 0 {
            return Self::new(ftp, path, (size, there), Upload::Done);
        }
        let restarts = ftp.pool.server()?.restarts();
        let from = if restarts { there - there % SLAB_SIZE as u64 } else { there };
        if from > 0 && there < size {
            match Self::begin(ftp, path, from, restarts) {
                Ok(flow) => return Self::new(ftp, path, (size, from), Upload::Running(flow)),
                Err(error) if !failure::is_refusal(&error) => return Err(error),
                Err(error) => tracing::info!(%error, "a partial file is written anew"),
            }
        }
        let flow = Self::begin(ftp, path, 0, true)?;
        Self::new(ftp, path, (size, 0), Upload::Running(flow))
    }

    fn new(ftp: &Ftp, path: &RelativePath, (size, length): (u64, u64), state: Upload) -> Result<Self> {
        let (pool, whole, what) = (Arc::clone(&ftp.pool), ftp.whole(path)?, what(ftp, path));
        Ok(Self { pool, whole, what, size, length, state: Mutex::new(state) })
    }

    /// Begins to store at an offset, or to append.
    fn begin(ftp: &Ftp, path: &RelativePath, from: u64, restarts: bool) -> Result<Flow> {
        let (whole, what) = (ftp.whole(path)?, what(ftp, path));
        let mut flow = if restarts {
            Flow::begin(&ftp.pool, &what, from, |control| control.put_with_stream(&whole))?
        } else {
            let mut flow = Flow::begin(&ftp.pool, &what, 0, |control| control.append_with_stream(&whole))?;
            flow.at = from;
            flow
        };
        // With TLS the handshake waits for the first bytes, and the server may not.
        match flow.transfer.flush() {
            Ok(()) => Ok(flow),
            Err(cause) => Err(failed(&what, &ftp.pool, flow, cause)),
        }
    }

    fn complete(&self, flow: Flow) -> Result<()> {
        flow.finish(&self.pool).map_err(|error| failure::of(&self.what, &error))?;
        if self.length == 0 {
            return Ok(());
        }
        let size = self.pool.call(&self.what, |control| control.size(&self.whole))? as u64;
        if size != self.size {
            return Err(Error::new(ErrorKind::Corrupted, &self.what)
                .with_cause(format!("the server has {size} bytes of it, not {}", self.size))
                .with_hint("remove the partial file with `edt clean`, and run the same command again"));
        }
        Ok(())
    }

    /// Ends the upload at its last byte, whose connection is then free for another file.
    fn settle(&self, state: &mut Upload) -> Result<()> {
        match std::mem::replace(state, Upload::Done) {
            Upload::Running(flow) => self.complete(flow).inspect_err(|error| *state = Upload::Broken(error.clone())),
            other => {
                *state = other;
                Ok(())
            }
        }
    }
}

impl ServedFile for FtpFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        // Held over the network on purpose: bytes go in order, and nobody else has any.
        let mut state = self.state.lock();
        let flow = match &mut *state {
            Upload::Running(flow) if flow.at == offset => flow,
            Upload::Broken(error) => return Err(error.clone()),
            _ => return Err(Error::new(ErrorKind::Io, &self.what).with_cause(format!("byte {offset} is not the next one"))),
        };
        match flow.transfer.write_all(bytes) {
            Ok(()) => {
                flow.at += bytes.len() as u64;
                if flow.at >= self.size { self.settle(&mut state) } else { Ok(()) }
            }
            Err(cause) => {
                let broken = match std::mem::replace(&mut *state, Upload::Done) {
                    Upload::Running(flow) => failed(&self.what, &self.pool, flow, cause),
                    _ => Error::io(self.what.as_str(), &cause),
                };
                *state = Upload::Broken(broken.clone());
                Err(broken)
            }
        }
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        Err(Error::new(ErrorKind::Unsupported, &self.what).with_cause("what is being uploaded cannot be read back"))
    }

    fn finish(&self) -> Result<()> {
        let mut state = self.state.lock();
        match &*state {
            Upload::Running(flow) if flow.at < self.size => {
                let cause = format!("only {} of {} bytes were written", flow.at, self.size);
                Err(Error::new(ErrorKind::Io, &self.what).with_cause(cause))
            }
            Upload::Broken(error) => Err(error.clone()),
            _ => self.settle(&mut state),
        }
    }
}

impl Drop for FtpFile {
    /// Lets the server keep what it got.
    fn drop(&mut self) {
        if let Upload::Running(flow) = std::mem::replace(self.state.get_mut(), Upload::Done) {
            let _ = flow.finish(&self.pool);
        }
    }
}

fn what(ftp: &Ftp, path: &RelativePath) -> String {
    format!("could not write `{}`", ftp.show(path))
}

/// Bytes of a partial file that are there.
fn there(ftp: &Ftp, path: &RelativePath) -> Result<u64> {
    match ftp.stat(path) {
        Ok(entry) => Ok(entry.size),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Why an upload broke: the server may have said so before it closed the connection.
fn failed(what: &str, pool: &Pool, flow: Flow, cause: std::io::Error) -> Error {
    match flow.finish(pool) {
        Err(error @ FtpError::UnexpectedResponse(_)) => failure::of(what, &error),
        _ => failure::of(what, &FtpError::ConnectionError(cause)),
    }
}
