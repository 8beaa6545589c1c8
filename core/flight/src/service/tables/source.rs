//! A file of a store in the forms in which the readers of tables take one.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use bytes::Bytes;
use edt::store::Reader;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

/// An open file of known size.
#[derive(Clone)]
pub(super) struct Source {
    reader: Arc<dyn Reader>,
    size: u64,
}

impl Source {
    pub(super) fn new(reader: Arc<dyn Reader>, size: u64) -> Self {
        Self { reader, size }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The file from `at` on, as something that is read from front to back.
    pub(super) fn from(&self, at: u64) -> Position {
        Position { source: self.clone(), at }
    }

    /// Exactly `length` bytes from `at`; a length beyond the end is an error before memory is taken for it.
    pub(super) fn exact(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        if at.checked_add(length as u64).is_none_or(|end| end > self.size) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("it ends before byte {at} + {length}")));
        }
        let mut buffer = vec![0; length];
        let read = self.reader.read_at(at, &mut buffer).map_err(|error| io::Error::other(error.to_string()))?;
        if read < length {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter while it was read"));
        }
        Ok(buffer)
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Source {
    type T = io::BufReader<Position>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(io::BufReader::new(self.from(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        self.exact(start, length).map(Bytes::from).map_err(|cause| ParquetError::External(Box::new(cause)))
    }
}

/// A place in a file.
pub(super) struct Position {
    source: Source,
    at: u64,
}

impl Read for Position {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.reader.read_at(self.at, buffer).map_err(|error| io::Error::other(error.to_string()))?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Position {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(distance) => self.source.size.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.at.checked_add_signed(distance),
        };
        self.at = at.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a place before the beginning of the file"))?;
        Ok(self.at)
    }
}
