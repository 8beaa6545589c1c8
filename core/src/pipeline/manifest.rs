//! The manifest of a transfer: one line for each file, kept on disk so that memory does not grow with their number.

mod line;

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::path::Path;

use parking_lot::Mutex;
use tempfile::SpooledTempFile;

use crate::error::{Error, ErrorKind, Result};
use crate::options::{RunMode, TransferOptions};

pub use line::{Expected, ManifestEntry};

/// Bytes that a manifest without a name keeps in memory before it goes to a temporary file.
const IN_MEMORY: usize = 8 << 20;

/// Bytes that are written, and read, at a time.
const BLOCK: usize = 64 << 10;

/// The longest line; a name of 4096 bytes, each escaped, takes half of it.
const MAX_LINE: u64 = 64 << 10;

/// Files with their sizes and digests, as JSON lines in the order in which they were completed.
#[derive(Debug)]
pub struct Manifest {
    storage: Mutex<Box<dyn Storage>>,
    stored: u64,
    /// What follows the `stored` bytes.
    tail: Vec<u8>,
    count: u64,
}

/// A file, or memory that becomes one.
trait Storage: Read + Write + Seek + Send + std::fmt::Debug {
    /// Drops all content.
    fn clear(&mut self) -> io::Result<()>;
}

impl Storage for File {
    fn clear(&mut self) -> io::Result<()> {
        self.set_len(0)
    }
}

impl Storage for SpooledTempFile {
    fn clear(&mut self) -> io::Result<()> {
        self.set_len(0)
    }
}

impl Default for Manifest {
    /// An empty manifest in memory, later in a temporary file.
    fn default() -> Self {
        Self::over(Box::new(SpooledTempFile::new(IN_MEMORY)))
    }
}

impl Manifest {
    /// An empty manifest for a transfer with these options. A dry run changes nothing, nor does it know digests: its list has no name.
    pub fn of(options: &TransferOptions) -> Result<Self> {
        Self::create(options.manifest.as_deref().filter(|_| options.run == RunMode::Copy))
    }

    /// An empty manifest, in a file of this name, which is replaced, or in a temporary one.
    pub fn create(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let file = file.map_err(|cause| Error::io(format!("could not create the manifest `{}`", path.display()), &cause))?;
        Ok(Self::over(Box::new(file)))
    }

    fn over(storage: Box<dyn Storage>) -> Self {
        Self { storage: Mutex::new(storage), stored: 0, tail: Vec::new(), count: 0 }
    }

    /// Adds a file.
    pub fn add(&mut self, entry: &ManifestEntry) -> Result<()> {
        line::write(entry, &mut self.tail);
        self.count += 1;
        if self.tail.len() >= BLOCK { self.store() } else { Ok(()) }
    }

    /// Drops all files.
    pub fn clear(&mut self) -> Result<()> {
        self.tail.clear();
        (self.stored, self.count) = (0, 0);
        self.storage.get_mut().clear().map_err(|cause| Error::io("could not clear the manifest", &cause))
    }

    /// Writes what is still in memory, and gives the manifest back for reading.
    pub fn finish(mut self) -> Result<Self> {
        self.store()?;
        Ok(self)
    }

    /// How many files there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Reads the files back, in order, a block at a time.
    pub fn entries(&self) -> impl Iterator<Item = Result<ManifestEntry>> + '_ {
        Lines::new(io::BufReader::with_capacity(BLOCK, Cursor { manifest: self, at: 0 })).map(|line| line::parse_entry(&line?))
    }

    /// Copies the whole manifest as JSON lines.
    pub fn write_to(&self, out: &mut dyn Write) -> Result<()> {
        let copied = io::copy(&mut Cursor { manifest: self, at: 0 }, out).and_then(|_| out.flush());
        copied.map_err(|cause| Error::io("could not copy the manifest", &cause))
    }

    /// Parses a manifest for verifying: JSON lines as above, or lines as `b3sum` prints them. Empty lines are skipped.
    ///
    /// Lines of `sha256sum` look the same as those of `b3sum`; their digests will not match.
    pub fn read<R: BufRead>(reader: R) -> impl Iterator<Item = Result<Expected>> {
        Lines::new(reader)
            .filter(|line| !line.as_ref().is_ok_and(|(_, text)| text.trim_ascii().is_empty()))
            .map(|line| line::parse(&line?))
    }

    fn store(&mut self) -> Result<()> {
        let storage = self.storage.get_mut();
        let written = storage.seek(SeekFrom::Start(self.stored)).and_then(|_| storage.write_all(&self.tail));
        written.and_then(|()| storage.flush()).map_err(|cause| Error::io("could not write the manifest", &cause))?;
        self.stored += self.tail.len() as u64;
        self.tail.clear();
        Ok(())
    }
}

/// A reader of a manifest with a position of its own.
struct Cursor<'a> {
    manifest: &'a Manifest,
    at: u64,
}

impl Read for Cursor<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let manifest = self.manifest;
        let read = if let Some(in_tail) = self.at.checked_sub(manifest.stored) {
            let from = usize::try_from(in_tail).unwrap_or(usize::MAX).min(manifest.tail.len());
            (&manifest.tail[from..]).read(buffer)?
        } else {
            let mut storage = manifest.storage.lock();
            storage.seek(SeekFrom::Start(self.at))?;
            let most = usize::try_from(manifest.stored - self.at).unwrap_or(usize::MAX).min(buffer.len());
            storage.read(&mut buffer[..most])?
        };
        self.at += read as u64;
        Ok(read)
    }
}

/// Numbered lines of bounded length; ends after an error.
struct Lines<R> {
    reader: R,
    number: u64,
    ended: bool,
}

impl<R: BufRead> Lines<R> {
    fn new(reader: R) -> Self {
        Self { reader, number: 0, ended: false }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<(u64, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        self.number += 1;
        let mut text = Vec::new();
        let result = match (&mut self.reader).take(MAX_LINE).read_until(b'\n', &mut text) {
            Ok(0) => {
                self.ended = true;
                return None;
            }
            Ok(read) if read as u64 == MAX_LINE && text.last() != Some(&b'\n') => {
                Err(Error::new(ErrorKind::InvalidInput, format!("could not read line `{}` of the manifest", self.number))
                    .with_cause(format!("it is longer than `{MAX_LINE}` bytes"))
                    .with_hint("give a manifest written by edt, or the output of b3sum"))
            }
            Ok(_) => Ok((self.number, text)),
            Err(cause) => Err(Error::io(format!("could not read line `{}` of the manifest", self.number), &cause)),
        };
        self.ended = result.is_err();
        Some(result)
    }
}
