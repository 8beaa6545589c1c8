//! Batches on their way out: cut to the rows that were asked for and to sizes that every client takes, and put into messages.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_flight::FlightData;
use arrow_ipc::writer::{DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_schema::SchemaRef;
use edt::{Error, ErrorKind, Result};
use serde::Serialize;

use super::file::{Batches, Raw};
use crate::contract::json;
use crate::pieces::Pieces;

/// Bytes of a batch, if the client does not say how many rows it wants.
pub(super) const BATCH_BYTES: usize = 1 << 20;

/// Bytes that no batch exceeds, unless a single row does: half of what clients take at least.
const MOST_BYTES: usize = 2 << 20;

/// Rows of a batch, if the client does not say, however short they are.
pub(super) const MOST_ROWS: usize = 128 << 10;

/// Leaves out `skip` rows and passes the next `take`, counting both down; `None` if nothing is left of the batch.
pub(super) fn cut(batch: &RecordBatch, skip: &mut u64, take: &mut u64) -> Option<RecordBatch> {
    let rows = batch.num_rows() as u64;
    let skipped = rows.min(*skip);
    *skip -= skipped;
    let taken = (rows - skipped).min(*take);
    *take -= taken;
    // Both are at most the rows of a batch, which is in memory.
    let (begin, count) = (usize::try_from(skipped).ok()?, usize::try_from(taken).ok()?);
    (count > 0).then(|| batch.slice(begin, count))
}

/// The rows behind the first `skip`, at most `take`.
pub(super) fn windowed(mut batches: Raw, mut skip: u64, mut take: u64) -> Raw {
    Box::new(std::iter::from_fn(move || {
        while take > 0 {
            match batches.next()? {
                Ok(batch) => {
                    if let Some(cut) = cut(&batch, &mut skip, &mut take) {
                        return Some(Ok(cut));
                    }
                }
                Err(cause) => {
                    take = 0;
                    return Some(Err(cause));
                }
            }
        }
        None
    }))
}

/// Batches of sizes that every client takes.
pub(super) struct Portions {
    batches: Batches,
    most_rows: usize,
    target: usize,
    current: Option<Pieces>,
}

impl Portions {
    /// With a number of rows that the client chose, only batches that are too large for others are cut further.
    pub(super) fn new(batches: Batches, batch_rows: Option<u32>) -> Self {
        let (most_rows, target) = match batch_rows {
            Some(rows) => (usize::try_from(rows).unwrap_or(usize::MAX), MOST_BYTES),
            None => (MOST_ROWS, BATCH_BYTES),
        };
        Self { batches, most_rows, target, current: None }
    }
}

impl Iterator for Portions {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            if let Some(piece) = self.current.as_mut().and_then(Pieces::next) {
                return Some(piece.map_err(|cause| unencodable(&cause)));
            }
            match self.batches.next()? {
                Ok(batch) => self.current = Some(Pieces::new(batch, self.most_rows, self.target, MOST_BYTES)),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Puts batches into messages, dictionaries before the first batch that uses them.
pub(super) struct Encoder {
    schema: SchemaRef,
    batches: Portions,
    first: FlightData,
    generator: IpcDataGenerator,
    options: IpcWriteOptions,
    tracker: DictionaryTracker,
    context: IpcWriteContext,
    waiting: VecDeque<FlightData>,
    ended: bool,
}

impl Encoder {
    pub(super) fn new(schema: SchemaRef, batches: Portions) -> Self {
        let (generator, options, mut tracker) =
            (IpcDataGenerator::default(), IpcWriteOptions::default(), DictionaryTracker::new(false));
        let first = generator.schema_to_bytes_with_dictionary_tracker(&schema, &mut tracker, &options).into();
        let (context, waiting) = (IpcWriteContext::default(), VecDeque::new());
        Self { schema, batches, first, generator, options, tracker, context, waiting, ended: false }
    }

    /// The message that tells the columns.
    pub(super) fn beginning(&self) -> FlightData {
        self.first.clone()
    }

    /// A batch without rows that tells the end of a table where another one may follow on the same stream.
    pub(super) fn closing(&self) -> Result<FlightData> {
        /// What the end of a table says.
        #[derive(Serialize)]
        struct End {
            end: bool,
        }
        let mut tracker = DictionaryTracker::new(false);
        self.generator.schema_to_bytes_with_dictionary_tracker(&self.schema, &mut tracker, &self.options);
        let empty = RecordBatch::new_empty(SchemaRef::clone(&self.schema));
        let encoded = self.generator.encode(&empty, &mut tracker, &self.options, &mut IpcWriteContext::default());
        let (_, batch) = encoded.map_err(|cause| unencodable(&cause))?;
        Ok(FlightData { app_metadata: json(&End { end: true }).into(), ..batch.into() })
    }

    fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        let Self { generator, tracker, options, context, .. } = self;
        let (dictionaries, batch) = generator.encode(batch, tracker, options, context).map_err(|cause| unencodable(&cause))?;
        let messages: Vec<EncodedData> = dictionaries.into_iter().chain([batch]).collect();
        self.waiting.extend(messages.into_iter().map(FlightData::from));
        Ok(())
    }
}

impl Iterator for Encoder {
    type Item = Result<FlightData>;

    fn next(&mut self) -> Option<Result<FlightData>> {
        if self.waiting.is_empty() && !self.ended {
            let encoded = self.batches.next()?.and_then(|batch| self.encode(&batch));
            if let Err(error) = encoded {
                self.ended = true;
                return Some(Err(error));
            }
        }
        self.waiting.pop_front().map(Ok)
    }
}

fn unencodable(cause: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, "could not put a batch into a message")
        .with_cause(cause)
        .with_hint("choose other columns, or read the file as bytes")
}
