//! The manifest of a transfer: one line for each file, kept on disk so that memory does not grow with their number.

mod line;

use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::SpooledTempFile;

use crate::error::{Error, ErrorKind, Result};
use crate::options::{RunMode, TransferOptions};
use crate::sync::Mutex;
use crate::whole_file;

pub use line::{Expected, ManifestEntry};

/// Bytes that a manifest keeps in memory before it goes to a temporary file.
const IN_MEMORY: usize = 8 << 20;

/// Bytes that are written, and read, at a time.
const BLOCK: usize = 64 << 10;

/// The longest line; a name of 4096 bytes, each escaped, takes half of it.
const MAX_LINE: u64 = 64 << 10;

/// Files with their sizes and digests, as JSON lines in the order in which they were completed. The last line also tells how many there are.
#[derive(Debug)]
pub struct Manifest {
    storage: Mutex<SpooledTempFile>,
    stored: u64,
    /// What follows the `stored` bytes.
    tail: Vec<u8>,
    count: u64,
    /// The file that it becomes when it is finished.
    name: Option<PathBuf>,
}

impl Default for Manifest {
    /// An empty manifest in memory, later in a temporary file.
    fn default() -> Self {
        let storage = Mutex::new(SpooledTempFile::new(IN_MEMORY));
        Self { storage, stored: 0, tail: Vec::new(), count: 0, name: None }
    }
}

impl Manifest {
    /// An empty manifest for a transfer with these options. A dry run changes nothing, nor does it know digests: its list has no name.
    pub fn of(options: &TransferOptions) -> Result<Self> {
        Self::create(options.manifest.as_deref().filter(|_| options.run == RunMode::Copy))
    }

    /// An empty manifest. Once it is finished it is in a file of this name, which is replaced then: it is a whole one at any time.
    pub fn create(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        // There is room for long lists where they are to stay.
        let storage = whole_file::check(path)?
            .map_or_else(|| SpooledTempFile::new(IN_MEMORY), |directory| SpooledTempFile::new_in(IN_MEMORY, directory));
        Ok(Self { storage: Mutex::new(storage), name: Some(path.to_owned()), ..Self::default() })
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
        self.storage.get_mut().set_len(0).map_err(|cause| Error::io("could not clear the manifest", &cause))
    }

    /// Writes the file, if there is to be one, and gives the manifest back for reading.
    pub fn finish(self) -> Result<Self> {
        self.name.as_deref().map_or(Ok(()), |name| self.save(name))?;
        Ok(self)
    }

    /// Writes the whole manifest to a file, which appears, or is replaced, when all is written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let failed = |cause: &io::Error| Error::io(format!("could not write the manifest `{}`", path.display()), cause);
        whole_file::write(path, |out| self.copy(out).map_err(|cause| failed(&cause)))
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
        self.copy(out).map_err(|cause| Error::io("could not copy the manifest", &cause))
    }

    fn copy(&self, out: &mut dyn Write) -> io::Result<()> {
        let all = self.stored + self.tail.len() as u64;
        let open = all.saturating_sub(line::END.len() as u64);
        io::copy(&mut Cursor { manifest: self, at: 0 }.take(open), out)?;
        out.write_all(line::closing(self.count).as_bytes())?;
        out.flush()
    }

    /// Parses a manifest for verifying: JSON lines as above, or lines as `b3sum` prints them. Empty lines are skipped.
    ///
    /// Lines of `sha256sum` look the same as those of `b3sum`; their digests will not match.
    pub fn read<R: BufRead>(reader: R) -> Listing<R> {
        Listing { lines: Lines::new(reader), lines_read: 0, listed: 0, told: None, ended: false }
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

/// The files that a manifest lists, for verifying. An error stands at the end if there are none, or not as many as the manifest tells.
#[derive(Debug)]
pub struct Listing<R> {
    lines: Lines<R>,
    lines_read: u64,
    /// Files in lines that edt wrote.
    listed: u64,
    /// How many files edt wrote, if that was found.
    told: Option<u64>,
    ended: bool,
}

impl<R> Listing<R> {
    /// Whether files may be missing at the end of the list, once all is read: nothing in it tells how many there are, though edt wrote it.
    pub fn may_be_cut(&self) -> bool {
        self.listed > 0 && self.told.is_none()
    }

    /// What is wrong with the list as a whole.
    fn fault(&self) -> Option<Error> {
        let what = match self.told {
            None if self.lines_read == 0 => "the manifest is empty".to_owned(),
            Some(told) if told != self.listed => format!("the manifest lists {} of {told} files", self.listed),
            _ => return None,
        };
        Some(Error::new(ErrorKind::InvalidInput, what).with_hint("it is not whole: make it again with `edt cp --manifest FILE`"))
    }
}

impl<R: BufRead> Iterator for Listing<R> {
    type Item = Result<Expected>;

    fn next(&mut self) -> Option<Self::Item> {
        for read in self.lines.by_ref() {
            if read.as_ref().is_ok_and(|(_, text)| text.trim_ascii().is_empty()) {
                continue;
            }
            self.lines_read += 1;
            let said = match read.and_then(|read| line::parse(&read)) {
                Ok(said) => said,
                Err(error) => return Some(Err(error)),
            };
            if let Some(files) = said.files {
                self.told = Some(self.told.unwrap_or(0).saturating_add(files));
            }
            if let Some(file) = said.file {
                // Lists of `b3sum` have no sizes.
                self.listed += u64::from(file.size.is_some());
                return Some(Ok(file));
            }
        }
        if std::mem::replace(&mut self.ended, true) { None } else { self.fault().map(Err) }
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
#[derive(Debug)]
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
