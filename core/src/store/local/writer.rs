//! Files being written in the staging directory.

use std::any::Any;
use std::fs::File;
use std::io;

use super::LocalStore;
use super::reader::{read_at, write_at};
use super::staging::{self, Temporary};
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::{NewFile, Partial, Writer};

/// Above this size space is taken at once, so that a full disk shows before the bytes travel and blocks lie together.
const PREALLOCATE_FROM: u64 = 4 << 20;

/// A file under a temporary name.
pub(super) struct LocalWriter {
    pub(super) file: File,
    pub(super) temporary: Temporary,
    pub(super) path: RelativePath,
    pub(super) shown: String,
    /// Whether nobody goes on with it if it is not published.
    pub(super) small: bool,
}

impl LocalWriter {
    pub(super) fn create(store: &LocalStore, new: &NewFile) -> Result<Self> {
        store.checked(&new.path)?;
        let opened = match &new.resume {
            Some(partial) => {
                staging::check_key(&partial.key)?;
                if new.fresh {
                    store.staging.fresh_partial(&store.root, &partial.key, partial.number)
                } else {
                    store.staging.partial(&store.root, &partial.key, partial.number)
                }
            }
            None => store.staging.temporary(&store.root),
        };
        let shown = store.show(&new.path);
        let failed = |error: io::Error| Error::io(format!("could not create `{shown}`"), &error);
        let (file, mut temporary) = opened.map_err(failed)?;
        if let Err(error) = size(&file, new) {
            temporary.kept &= !new.fresh;
            return Err(match failed(error) {
                full if full.kind() == ErrorKind::NoSpace => full.with_cause(format!("no space left for its {} bytes", new.size)),
                other => other,
            });
        }
        let small = new.resume.as_ref().is_some_and(|partial| partial.number >= Partial::SMALL_FILES);
        Ok(Self { file, temporary, path: new.path.clone(), shown, small })
    }
}

/// Gives a file its final length: with blocks where that pays, as one hole where it is sparse, and not at all where it is small.
fn size(file: &File, new: &NewFile) -> io::Result<()> {
    let before = file.metadata()?.len();
    // It may stand under its final name too, which would get the time of now.
    if new.resume.is_some() && before == new.size {
        return Ok(());
    }
    if new.size > PREALLOCATE_FROM && !new.sparse {
        preallocate(file, new.size).inspect_err(|_| {
            // Some file systems keep what they had of it before they were full: smaller files may fit there.
            let _ = file.set_len(before);
        })?;
    }
    if new.size > PREALLOCATE_FROM || new.sparse || new.resume.is_some() { file.set_len(new.size) } else { Ok(()) }
}

#[cfg(target_os = "linux")]
fn preallocate(file: &File, size: u64) -> io::Result<()> {
    use rustix::io::Errno;
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size) {
        // The file system cannot; writing works all the same.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "has the form of the one that can fail")]
fn preallocate(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

impl Writer for LocalWriter {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset + bytes.len() as u64;
        write_at(&self.file, offset, bytes)
            .map_err(|error| Error::io(format!("could not write bytes {offset}..{end} of `{}`", self.shown), &error))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let end = offset + buffer.len() as u64;
        read_at(&self.file, offset, buffer)
            .map_err(|error| Error::io(format!("could not read back bytes {offset}..{end} of `{}`", self.shown), &error))
    }

    fn abort(mut self: Box<Self>) {
        self.temporary.kept = false;
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
