//! Reading: a download from an offset on. One that is left in the middle waits a while for who reads on from there.

use std::io::{ErrorKind as IoKind, Read as _};
use std::net::Shutdown;
use std::ops::Range;
use std::sync::Arc;

use suppaftp::{FtpError, FtpResult};

use super::Ftp;
use super::failure;
use super::pool::{Control, Pool, Transfer};
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::Entry;
use crate::store::remote::{Body, Ranges, Served as _};
use crate::sync::Mutex;

/// A transfer under way, and the connection that it occupies.
pub(super) struct Flow {
    control: Control,
    pub(super) transfer: Transfer,
    /// Where in the file it stands.
    pub(super) at: u64,
}

impl Flow {
    /// Begins a transfer at an offset.
    pub(super) fn begin(
        pool: &Pool,
        what: &str,
        at: u64,
        command: impl FnOnce(&mut Control) -> FtpResult<Transfer>,
    ) -> Result<Self> {
        let mut lease = pool.take()?;
        let offset = usize::try_from(at).unwrap_or(usize::MAX);
        match lease.control.resume_transfer(offset).and_then(|()| command(&mut lease.control)) {
            Ok(transfer) => Ok(Self { control: lease.control, transfer, at }),
            Err(error) => Err(pool.failed(what, lease, &error)),
        }
    }

    /// Ends the transfer and waits for the server's word on it.
    pub(super) fn finish(self, pool: &Pool) -> FtpResult<()> {
        let mut control = self.control;
        let finished = self.transfer.finish();
        match &finished {
            Ok(()) => pool.put(control),
            // Some servers say two things about what was broken off: used is only a connection that is back in step.
            Err(error) if failure::is_reply(error) && control.noop().is_ok() => pool.put(control),
            Err(_) => {}
        }
        finished
    }

    /// Gives the connection up, without waiting for a server that may not answer any more.
    fn give_up(self) {
        let _ = self.control.get_ref().shutdown(Shutdown::Both);
        drop(self.transfer);
    }
}

/// A file to read.
pub(super) struct FtpRanges(Arc<Shared>);

struct Shared {
    ftp: Ftp,
    path: RelativePath,
    /// The path on the server.
    whole: String,
    size: u64,
    parked: Mutex<Option<Flow>>,
}

impl FtpRanges {
    pub(super) fn new(ftp: &Ftp, path: &RelativePath, entry: &Entry) -> Result<Self> {
        let whole = ftp.whole(path)?;
        let shared = Shared { ftp: ftp.clone(), path: path.clone(), whole, size: entry.size, parked: Mutex::new(None) };
        Ok(Self(Arc::new(shared)))
    }
}

impl Shared {
    fn what(&self) -> String {
        format!("could not read `{}`", self.ftp.show(&self.path))
    }

    /// Begins a download at an offset; a server that cannot sends what is before it too.
    fn begin(&self, offset: u64) -> Result<Flow> {
        let (pool, what) = (&self.ftp.pool, self.what());
        let begin = |at| Flow::begin(pool, &what, at, |control| control.retr_as_stream(&self.whole));
        match begin(offset) {
            Err(error) if offset > 0 && error.kind() == ErrorKind::Unsupported => {
                let mut flow = begin(0)?;
                match std::io::copy(&mut flow.transfer.by_ref().take(offset), &mut std::io::sink()) {
                    Ok(skipped) => flow.at = skipped,
                    Err(cause) => {
                        flow.give_up();
                        return Err(failure::of(&what, &FtpError::ConnectionError(cause)));
                    }
                }
                Ok(flow)
            }
            answered => answered,
        }
    }

    /// Lets a download wait for who reads on; of two the older one ends. One at the end of the file ends at once.
    fn park(&self, flow: Flow) {
        if flow.at >= self.size {
            return self.ftp.pool.put_ending(flow.control, flow.transfer);
        }
        let older = self.parked.lock().replace(flow);
        if let Some(older) = older {
            let _ = older.finish(&self.ftp.pool);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(flow) = self.parked.get_mut().take() {
            let _ = flow.finish(&self.ftp.pool);
        }
    }
}

impl Ranges for FtpRanges {
    fn open(&self, range: Range<u64>) -> Result<Box<dyn Body>> {
        let shared = Arc::clone(&self.0);
        let parked = shared.parked.lock().take_if(|flow| flow.at == range.start);
        let flow = match parked {
            Some(flow) => flow,
            None => shared.begin(range.start)?,
        };
        let end = range.end;
        if flow.at < range.start {
            return Err(FtpBody { flow: None, end, shared }.ended(flow));
        }
        Ok(Box::new(FtpBody { flow: Some(flow), end, shared }))
    }

    fn stat(&self) -> Result<Entry> {
        self.0.ftp.stat(&self.0.path)
    }
}

/// A range on its way.
struct FtpBody {
    flow: Option<Flow>,
    end: u64,
    shared: Arc<Shared>,
}

impl FtpBody {
    /// The server ended the download before the end of the range: it says whether that was the end of the file.
    fn ended(&self, flow: Flow) -> Error {
        let what = self.shared.what();
        match flow.finish(&self.shared.ftp.pool) {
            Ok(()) => Error::new(ErrorKind::SourceChanged, what).with_cause("it is shorter than it was"),
            Err(error @ FtpError::UnexpectedResponse(_)) => {
                let told = failure::of(&what, &error);
                Error::new(ErrorKind::ConnectionLost, what).with_cause(told.cause().unwrap_or("the download was broken off"))
            }
            Err(error) => failure::of(&what, &error),
        }
    }
}

impl Body for FtpBody {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let Some(mut flow) = self.flow.take() else {
            return Err(Error::new(ErrorKind::ConnectionLost, self.shared.what()).with_cause("the download broke off before"));
        };
        let left = usize::try_from(self.end.saturating_sub(flow.at)).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        if most == 0 {
            self.flow = Some(flow);
            return Ok(0);
        }
        loop {
            match flow.transfer.read(&mut buffer[..most]) {
                Ok(0) => return Err(self.ended(flow)),
                Ok(count) => {
                    flow.at += count as u64;
                    self.flow = Some(flow);
                    return Ok(count);
                }
                Err(cause) if cause.kind() == IoKind::Interrupted => {}
                Err(cause) => {
                    flow.give_up();
                    return Err(failure::of(&self.shared.what(), &FtpError::ConnectionError(cause)));
                }
            }
        }
    }
}

impl Drop for FtpBody {
    fn drop(&mut self) {
        if let Some(flow) = self.flow.take() {
            self.shared.park(flow);
        }
    }
}
