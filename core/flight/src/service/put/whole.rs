//! A whole file that one stream brings, from its beginning to its end.

use std::sync::Arc;

use arrow_flight::FlightData;
use edt::path::RelativePath;
use edt::pipeline::digest::{combine, crc64nvme};
use edt::store::{EntryKind, NewFile, Publication, Store as _, Writer};
use edt::{Error, ErrorKind, Result};

use super::Taker;
use super::messages::Rows;
use crate::contract::{Command, Digests, PutProgress, Rule, hex64, parse_hex64};
use crate::service::root::{Root, path};

/// After so many bytes the client hears how many there are.
const TELL_EVERY: u64 = 16 << 20;

/// A file under a temporary name that is written from front to back, with its digests. Dropped, it is gone.
pub(super) struct Sequential {
    root: Arc<Root>,
    path: RelativePath,
    writer: Box<dyn Writer>,
    size: u64,
    crc64nvme: u64,
    blake3: blake3::Hasher,
}

impl Sequential {
    /// Creates the file that a command names.
    pub(super) fn create(root: &Arc<Root>, command: &Command) -> Result<Self> {
        let path = path(&command.path)?;
        if path.is_root() {
            return Err(Error::new(ErrorKind::WrongType, "could not write a file").with_cause("the put names the root itself"));
        }
        // The name decides at the end; what is there already need not be sent first.
        if command.overwrite == Some(Rule::Never) && root.local.stat(&path).is_ok_and(|entry| entry.kind != EntryKind::Directory)
        {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("could not write `{path}`"))
                .with_cause("a file of this name is there, and it shall not be replaced"));
        }
        let new = NewFile { size: command.size.unwrap_or(0), metadata: command.metadata(), ..NewFile::of(path.clone()) };
        let writer = root.written.create(&new)?;
        Ok(Self { root: Arc::clone(root), path, writer, size: 0, crc64nvme: 0, blake3: blake3::Hasher::new() })
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_at(self.size, bytes)?;
        self.crc64nvme = combine(self.crc64nvme, crc64nvme(bytes), bytes.len() as u64);
        self.blake3.update(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Gives the file its name, if it is what the command says that it is.
    pub(super) fn publish(self, command: &Command) -> Result<Digests> {
        let expected = command.crc64nvme.as_deref().map(parse_hex64).transpose()?;
        let wrong = |cause: String| {
            Error::new(ErrorKind::Corrupted, format!("could not publish `{}`", self.path))
                .with_cause(cause)
                .with_hint("put it once more; nothing was changed")
        };
        if let Some(size) = command.size.filter(|size| *size != self.size) {
            return Err(wrong(format!("it has {} bytes, and should have {size}", self.size)));
        }
        if let Some(expected) = expected.filter(|expected| *expected != self.crc64nvme) {
            return Err(wrong(format!("its crc64nvme is {}, and should be {}", hex64(self.crc64nvme), hex64(expected))));
        }
        let publication = Publication {
            writer: self.writer,
            metadata: command.metadata(),
            overwrite: command.overwrite.unwrap_or_default().into(),
            crc64nvme: Some(self.crc64nvme),
        };
        self.root.publish(publication)?;
        Ok(Digests { size: self.size, crc64nvme: hex64(self.crc64nvme), blake3: self.blake3.finalize().to_hex().to_string() })
    }
}

/// A put of bytes without an upload.
pub(super) struct Whole {
    file: Sequential,
    command: Command,
    rows: Rows,
    told: u64,
}

impl Whole {
    pub(super) fn create(root: &Arc<Root>, command: Command, rows: Rows) -> Result<Self> {
        // A digest that cannot be one is refused before anything is sent.
        command.crc64nvme.as_deref().map(parse_hex64).transpose()?;
        Ok(Self { file: Sequential::create(root, &command)?, command, rows, told: 0 })
    }
}

impl Taker for Whole {
    fn take(&mut self, data: FlightData) -> Result<()> {
        let Self { file, command, rows, .. } = self;
        rows.each(data, |offset, bytes| {
            let wrong = |cause: String| {
                Error::new(ErrorKind::InvalidInput, format!("could not write `{}`", file.path))
                    .with_cause(cause)
                    .with_hint("send the rows in order, or begin an upload")
            };
            if offset != file.size {
                return Err(wrong(format!("a row is for byte {offset}, and the file has {} so far", file.size)));
            }
            let end = offset.saturating_add(bytes.len() as u64);
            if let Some(size) = command.size.filter(|size| end > *size) {
                return Err(wrong(format!("a row ends at byte {end}, and the file should have {size}")));
            }
            file.append(bytes)
        })
    }

    fn progress(&mut self) -> Option<PutProgress> {
        (self.file.size - self.told >= TELL_EVERY).then(|| {
            self.told = self.file.size;
            PutProgress::Written { written: self.told }
        })
    }

    fn finish(self: Box<Self>) -> Result<PutProgress> {
        self.file.publish(&self.command).map(PutProgress::Complete)
    }
}
