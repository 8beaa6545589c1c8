//! A table that one stream brings, written as a Parquet or an Arrow file.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_flight::FlightData;
use arrow_ipc::writer::FileWriter;
use arrow_schema::SchemaRef;
use edt::sync::Mutex;
use edt::{Error, ErrorKind, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::Taker;
use super::messages::Batches;
use super::whole::Sequential;
use crate::contract::{Command, Kind, PutProgress};
use crate::service::root::Root;

/// Rows and bytes of a row group, whichever is reached first: it is written from memory in one go.
const GROUP_ROWS: usize = 1 << 20;
const GROUP_BYTES: usize = 128 << 20;

/// Bytes of an Arrow file that are written at once.
const BLOCK: usize = 256 << 10;

/// A table that is being written.
pub(super) struct Table {
    command: Command,
    batches: Batches,
    file: Format,
    failure: Failure,
}

/// Why writing failed, if it was the file and not what is in it.
type Failure = Arc<Mutex<Option<Error>>>;

enum Format {
    Parquet(Box<ArrowWriter<Sink>>),
    Arrow(Box<FileWriter<BufWriter<Sink>>>),
}

impl Table {
    /// Creates the file that a command names, of the kind that its name says.
    pub(super) fn create(root: &Arc<Root>, command: &Command, schema: &SchemaRef, kind: Option<Kind>) -> Result<Self> {
        let failed = |cause: &dyn std::fmt::Display| refused(command, cause);
        let failure = Failure::default();
        let sink = |kind| match kind {
            Kind::Csv => Err(failed(&"tables are not written as CSV")),
            _ => Sequential::create(root, command).map(|file| Sink { file, failure: Arc::clone(&failure) }),
        };
        let file = match kind.ok_or_else(|| failed(&"its name does not say which kind of file it is"))? {
            kind @ Kind::Arrow => {
                let file = BufWriter::with_capacity(BLOCK, sink(kind)?);
                Format::Arrow(Box::new(FileWriter::try_new(file, schema).map_err(|cause| failed(&cause))?))
            }
            kind => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .set_max_row_group_row_count(Some(GROUP_ROWS))
                    .set_max_row_group_bytes(Some(GROUP_BYTES))
                    .build();
                let writer = ArrowWriter::try_new(sink(kind)?, SchemaRef::clone(schema), Some(properties));
                Format::Parquet(Box::new(writer.map_err(|cause| failed(&cause))?))
            }
        };
        Ok(Self { command: command.clone(), batches: Batches::new(SchemaRef::clone(schema)), file, failure })
    }
}

fn refused(command: &Command, cause: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("could not write the table `{}`", command.path))
        .with_cause(cause)
        .with_hint("name it *.parquet or *.arrow, with columns that such a file can hold")
}

impl Taker for Table {
    fn take(&mut self, data: FlightData) -> Result<()> {
        let Some(batch) = self.batches.decode(data)? else { return Ok(()) };
        self.file.write(&batch).map_err(|cause| self.failure.lock().take().unwrap_or_else(|| refused(&self.command, &cause)))
    }

    fn progress(&mut self) -> Option<PutProgress> {
        None
    }

    fn finish(self: Box<Self>) -> Result<PutProgress> {
        let Self { command, mut file, failure, .. } = *self;
        let ended = file.end().and_then(|()| file.into_file());
        let file = ended.map_err(|cause| failure.lock().take().unwrap_or_else(|| refused(&command, &cause)))?;
        file.publish(&command).map(PutProgress::Complete)
    }
}

impl Format {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        match self {
            Self::Parquet(writer) => writer.write(batch).map_err(|cause| cause.to_string()),
            Self::Arrow(writer) => writer.write(batch).map_err(|cause| cause.to_string()),
        }
    }

    /// Writes what is still in memory; an Arrow file is complete then.
    fn end(&mut self) -> Result<(), String> {
        match self {
            Self::Parquet(writer) => writer.flush().map_err(|cause| cause.to_string()),
            Self::Arrow(writer) => {
                writer.finish().map_err(|cause| cause.to_string())?;
                writer.flush().map_err(|cause| cause.to_string())
            }
        }
    }

    /// The complete file; the end of a Parquet file is written here.
    fn into_file(self) -> Result<Sequential, String> {
        match self {
            Self::Parquet(writer) => writer.into_inner().map(|sink| sink.file).map_err(|cause| cause.to_string()),
            Self::Arrow(writer) => {
                let buffered = writer.into_inner().map_err(|cause| cause.to_string())?;
                buffered.into_inner().map(|sink| sink.file).map_err(|cause| cause.to_string())
            }
        }
    }
}

/// The file as libraries write to it, keeping edt's own error.
struct Sink {
    file: Sequential,
    failure: Failure,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.append(bytes).map_err(|error| {
            let told = io::Error::other(error.to_string());
            self.failure.lock().get_or_insert(error);
            told
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
