//! CSV files with a line of names; the types are those of the first rows.

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_csv::ReaderBuilder;
use arrow_csv::reader::Format;
use arrow_schema::SchemaRef;

use super::file::{Raw, Want};
use super::source::{Position, Source};

/// Rows that decide what type a column has.
const INFERRED_FROM: usize = 1000;

/// Bytes that decide it at most: who has longer lines has none.
const INFERRED_BYTES: u64 = 16 << 20;

/// Most rows of a batch: the reader takes memory for all of them before it reads.
const BATCH_ROWS: usize = 8192;

/// Bytes of the file from which a batch is made, by the length of its first lines.
const BATCH_BYTES: u64 = 4 << 20;

/// Bytes that may be read for one batch before it is complete: lines may become longer, and one without an end would fill the memory.
const MOST_BYTES: u64 = 512 << 20;

/// Bytes that are read at once.
const BLOCK: usize = 256 << 10;

/// An open CSV file.
pub(super) struct CsvFile {
    source: Source,
    schema: SchemaRef,
    /// Rows of a batch by the length of the first lines.
    usual_rows: usize,
}

impl CsvFile {
    pub(super) fn open(source: Source) -> Result<Self, String> {
        let mut from = INFERRED_FROM;
        loop {
            let (content, read) = Bounded::new(&source, INFERRED_BYTES);
            let beginning = BufReader::with_capacity(BLOCK, content);
            match Format::default().with_header(true).infer_schema(beginning, Some(from)) {
                Ok((schema, rows)) => {
                    let line = (read.load(Ordering::Relaxed) / (rows as u64).max(1)).max(1);
                    let usual_rows = usize::try_from(BATCH_BYTES / line).unwrap_or(BATCH_ROWS).clamp(1, BATCH_ROWS);
                    return Ok(Self { source, schema: Arc::new(schema), usual_rows });
                }
                Err(_) if from > 1 && read.load(Ordering::Relaxed) >= INFERRED_BYTES => from /= 10,
                Err(cause) => return Err(cause.to_string()),
            }
        }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    pub(super) fn batches(self, want: Want) -> Result<Raw, String> {
        let batch_rows = want.batch_rows.unwrap_or(BATCH_ROWS).clamp(1, self.usual_rows);
        let mut builder = ReaderBuilder::new(self.schema).with_header(true).with_batch_size(batch_rows);
        if let Some(places) = want.places {
            builder = builder.with_projection(places);
        }
        let (content, read) = Bounded::new(&self.source, MOST_BYTES);
        let reader = builder.build_buffered(BufReader::with_capacity(BLOCK, content)).map_err(|cause| cause.to_string())?;
        Ok(Box::new(reader.map(move |batch| {
            read.store(0, Ordering::Relaxed);
            batch.map_err(|cause| cause.to_string())
        })))
    }
}

/// A file of which only so many bytes are read before someone starts the count anew: a line, or a field in quotes, has no end of its own.
struct Bounded {
    content: Position,
    read: Arc<AtomicU64>,
    most: u64,
}

impl Bounded {
    /// From the beginning of a file; with the count of what was read.
    fn new(source: &Source, most: u64) -> (Self, Arc<AtomicU64>) {
        let read = Arc::<AtomicU64>::default();
        (Self { content: source.from(0), read: Arc::clone(&read), most }, read)
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read.load(Ordering::Relaxed) >= self.most {
            let mib = self.most >> 20;
            return Err(io::Error::other(format!("its lines are too long: it has no end of one within {mib} MiB")));
        }
        let count = self.content.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
