//! Reading and writing at positions of an open file.

use std::fs::File;
use std::io;

use super::facts::{Facts, Kind};
use super::listing::entry_of;
use crate::error::{Error, Result};
use crate::path::RelativePath;
use crate::store::{Entry, EntryKind, Reader};

/// From this size on the kernel is told that a file is read from front to back, which doubles its read-ahead.
#[cfg(target_os = "linux")]
const SEQUENTIAL_FROM: u64 = 1 << 20;

/// An open file.
pub(super) struct LocalReader {
    file: File,
    path: RelativePath,
    shown: String,
}

impl LocalReader {
    pub(super) fn new(file: File, path: RelativePath, shown: String) -> Self {
        Self { file, path, shown }
    }

    /// Tells the kernel how a file of this size will be read.
    pub(super) fn advise(&self, size: u64) {
        #[cfg(target_os = "linux")]
        if size > SEQUENTIAL_FROM {
            // Only advice: a file system that does not take it reads as well.
            let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::Sequential);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (size, &self.file);
    }
}

impl Reader for LocalReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let end = offset + buffer.len() as u64;
        read_at(&self.file, offset, buffer)
            .map_err(|error| Error::io(format!("could not read bytes {offset}..{end} of `{}`", self.shown), &error))
    }

    fn stat(&self) -> Result<Entry> {
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(|error| Error::io(format!("could not read the metadata of `{}`", self.shown), &error))?;
        let facts = Facts::of_std(&metadata);
        let kind = if facts.kind == Kind::File { EntryKind::File } else { EntryKind::Other };
        Ok(entry_of(self.path.clone(), kind, &facts))
    }

    fn hole(&self, offset: u64) -> Option<u64> {
        hole(&self.file, offset)
    }

    fn crc64nvme(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

#[cfg(target_os = "linux")]
fn hole(file: &File, offset: u64) -> Option<u64> {
    use rustix::io::Errno;
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(data) => (data > offset).then_some(data),
        // No data behind `offset`: the hole reaches to the end.
        Err(Errno::NXIO) => file.metadata().ok().map(|metadata| metadata.len()).filter(|size| *size > offset),
        Err(_) => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn hole(_: &File, _: u64) -> Option<u64> {
    None
}

/// Fills `buffer` from `offset` as far as the file goes.
pub(super) fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read_once(file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Writes all of `bytes` at `offset`.
#[cfg(unix)]
pub(super) fn write_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(unix)]
fn read_once(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

/// Writes all of `bytes` at `offset`.
#[cfg(windows)]
pub(super) fn write_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match std::os::windows::fs::FileExt::seek_write(file, &bytes[written..], offset + written as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => written += count,
        }
    }
    Ok(())
}

#[cfg(windows)]
fn read_once(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}
