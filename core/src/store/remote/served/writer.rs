//! Writes a file under its partial name: small ones at once when they are published, others as their blocks arrive.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::host::Host;
use super::staging::PartialName;
use super::target::Target;
use crate::buffer::SLAB_SIZE;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Overwrite;
use crate::path::RelativePath;
use crate::store::remote::patience::clearing;
use crate::store::{NewFile, Writer};
use crate::sync::Mutex;

/// A file that is being written.
pub(super) struct ServedWriter {
    pub(super) host: Arc<Host>,
    /// The final name.
    pub(super) path: RelativePath,
    pub(super) size: u64,
    overwrite: Overwrite,
    name: PartialName,
    content: Mutex<Content>,
    /// Whether this writer has sent anything.
    sent: AtomicBool,
}

enum Content {
    /// Nothing was asked of the server.
    Untouched,
    /// The whole of a small file.
    Held(Vec<u8>),
    /// The partial file.
    Open(Arc<Target>),
    /// The server has all of it.
    Whole,
}

impl ServedWriter {
    pub(super) fn new(host: &Arc<Host>, file: &NewFile) -> Self {
        let name = host.partial_name(file.resume.as_ref());
        let content = Mutex::new(Content::Untouched);
        let (path, size, overwrite) = (file.path.clone(), file.size, file.overwrite);
        Self { host: Arc::clone(host), path, size, overwrite, name, content, sent: AtomicBool::new(false) }
    }

    /// Brings everything to the server; answers where it stands there. A small file is brought there again by every call.
    pub(super) fn finish(&self) -> Result<RelativePath> {
        let content = std::mem::replace(&mut *self.content.lock(), Content::Whole);
        match content {
            Content::Held(bytes) => {
                let uploaded = self.upload(&bytes);
                *self.content.lock() = Content::Held(bytes);
                uploaded?;
            }
            Content::Untouched if self.size == 0 => {
                *self.content.lock() = Content::Held(Vec::new());
                self.upload(&[])?;
            }
            // All of it was there already.
            Content::Untouched => self.finish_target(&self.open()?)?,
            Content::Open(target) => self.finish_target(&target)?,
            Content::Whole => {}
        }
        self.host.partial(&self.name)
    }

    /// Leaves a file that could not be published to a later process, or removes it if none would go on with it.
    pub(super) fn leave(&self) {
        if self.name.key().is_none() || !self.host.continues() {
            self.remove_sent();
        }
    }

    /// Removes what was sent of a file whose name turned out to be taken.
    pub(super) fn remove_sent(&self) {
        if self.sent.load(Ordering::Relaxed) {
            self.remove();
        }
    }

    fn remove(&self) {
        let content = std::mem::replace(&mut *self.content.lock(), Content::Untouched);
        // Closed first: a server may hold what is open.
        drop(content);
        self.remove_partial();
    }

    fn remove_partial(&self) {
        let _ = clearing(|| self.host.remove_file(&self.host.partial(&self.name)?));
    }

    /// The error for a partial file that went away: it can be written again from its beginning.
    pub(super) fn lost(&self, error: &Error) -> Error {
        self.host.forget_place();
        self.host.rest_after_loss();
        Error::new(ErrorKind::ConnectionLost, error.what())
            .with_cause("its partial file is gone: another transfer or `edt clean` removed it")
            .with_hint("run the same command again")
    }

    fn upload(&self, bytes: &[u8]) -> Result<()> {
        self.check_free()?;
        let path = self.host.partial(&self.name)?;
        self.sent.store(true, Ordering::Relaxed);
        let attempt = || {
            let file = self.host.service.write(&path, self.size, false)?;
            if !bytes.is_empty() {
                file.write_at(0, bytes)?;
            }
            file.finish()
        };
        // Not every server says before the end that the directory is gone.
        self.host.in_place(|| self.host.patience.run(attempt))
    }

    /// Looks whether a name that must not be replaced is free, before anything is sent.
    fn check_free(&self) -> Result<()> {
        if self.overwrite == Overwrite::Replace {
            return Ok(());
        }
        match self.host.run(|service| service.stat(&self.path)) {
            Ok(_) => Err(self
                .host
                .failed("publish", &self.path, ErrorKind::AlreadyExists, "the name is taken")
                .with_hint("let it be replaced, or choose another destination")),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn finish_target(&self, target: &Target) -> Result<()> {
        if let Some(position) = target.position()?.filter(|position| *position < self.size) {
            // What continues it would fail for the same reason.
            self.remove();
            return Err(self
                .host
                .failed("publish", &self.path, ErrorKind::Io, &format!("the server has {position} of {} bytes", self.size))
                .with_hint("run the same command again"));
        }
        target.finish().map_err(|error| self.explained(error))
    }

    /// That the directory of partial files went away, or was locked by who removes it, is no reason to give the file up.
    fn explained(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::NotFound => self.lost(&error),
            ErrorKind::ConnectionLost => {
                self.host.rest_after_loss();
                error
            }
            _ => error,
        }
    }

    /// The partial file, opened now if it was not.
    fn target(&self) -> Result<Arc<Target>> {
        let mut content = self.content.lock();
        if let Content::Open(target) = &*content {
            return Ok(Arc::clone(target));
        }
        // The lock is held on purpose: whoever comes now needs the same file.
        let target = Arc::new(self.open()?);
        if let Content::Held(bytes) = &*content {
            target.write(0, bytes)?;
        }
        *content = Content::Open(Arc::clone(&target));
        Ok(target)
    }

    fn open(&self) -> Result<Target> {
        let keep = self.name.key().is_some() && self.host.continues();
        self.check_free().inspect_err(|error| {
            // An earlier attempt may have left a part of it, which nobody will go on with.
            if keep && error.kind() == ErrorKind::AlreadyExists {
                self.remove_partial();
            }
        })?;
        self.sent.store(true, Ordering::Relaxed);
        Target::open(&self.host, &self.name, self.size, keep)
    }

    /// Whether a block is the whole of a file that waits in memory until it is published.
    fn is_held(&self, offset: u64, bytes: &[u8]) -> bool {
        let whole = offset == 0 && bytes.len() as u64 == self.size && bytes.len() <= SLAB_SIZE;
        if !whole {
            return false;
        }
        let mut content = self.content.lock();
        if matches!(*content, Content::Open(_)) {
            return false;
        }
        *content = Content::Held(bytes.to_vec());
        true
    }
}

impl Writer for ServedWriter {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() || self.is_held(offset, bytes) {
            return Ok(());
        }
        self.target()?.write(offset, bytes).map_err(|error| self.explained(error))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if let Content::Held(bytes) = &*self.content.lock() {
            let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            return Ok(count);
        }
        self.target()?.read(offset, buffer)
    }

    /// Whole blocks from the beginning: what a server that appends has.
    fn kept(&self) -> Vec<Range<u64>> {
        let abilities = self.host.service.abilities();
        if self.name.key().is_none() || abilities.reads_back || !abilities.appends {
            return Vec::new();
        }
        let length = match self.target() {
            Ok(target) => target.length().min(self.size),
            Err(error) => {
                tracing::info!(%error, "a partial file cannot be continued");
                0
            }
        };
        let kept = if length == self.size { length } else { length - length % SLAB_SIZE as u64 };
        if kept == 0 { Vec::new() } else { std::iter::once(0..kept).collect() }
    }

    fn abort(self: Box<Self>) {
        // What was only held in memory never came to the server.
        if !matches!(*self.content.lock(), Content::Held(_)) {
            self.remove();
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The error of a writer that another store made.
pub(super) fn foreign() -> Error {
    Error::new(ErrorKind::InvalidInput, "could not publish a file").with_cause("its writer belongs to another store")
}
