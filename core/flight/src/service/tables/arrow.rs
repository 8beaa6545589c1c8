//! Arrow IPC, both as a file with an index at its end and as a plain stream.

use std::io::BufReader;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileReader, StreamReader, read_footer_length};
use arrow_ipc::{Block, MessageHeader};
use arrow_schema::SchemaRef;

use super::batches::windowed;
use super::file::{Raw, Want};
use super::source::Source;
use crate::lengths;

/// What begins and ends an Arrow file.
const MAGIC: &[u8] = b"ARROW1";

/// Bytes of the end of an Arrow file: the length of its index, and the mark.
const TRAILER: usize = 10;

/// Bytes before a message: a mark, and the length of its metadata.
const PREFIX: usize = 8;

/// Bytes of a stream that are read at once.
const BLOCK: usize = 256 << 10;

/// An open Arrow file or stream.
pub(super) struct ArrowFile {
    source: Source,
    schema: SchemaRef,
    /// Dictionaries and batches, in the order in which they are read.
    parts: Vec<Part>,
    indexed: bool,
}

/// A message of the file.
#[derive(Debug, Clone)]
struct Part {
    at: u64,
    /// Where its columns begin.
    body: u64,
    /// Rows of a batch; a dictionary has none.
    rows: Option<u64>,
    compressed: bool,
}

impl ArrowFile {
    pub(super) fn open(source: Source) -> Result<Self, String> {
        let indexed = source.exact(0, MAGIC.len()).is_ok_and(|first| first == MAGIC);
        let (schema, parts) = if indexed { index(&source)? } else { walk(&source)? };
        Ok(Self { source, schema, parts, indexed })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    pub(super) fn rows(&self) -> u64 {
        self.parts.iter().filter_map(|part| part.rows).fold(0, u64::saturating_add)
    }

    pub(super) fn batches(self, want: Want) -> Result<Raw, String> {
        let Self { source, parts, indexed, .. } = self;
        let failed = |cause: arrow_schema::ArrowError| cause.to_string();
        if !indexed {
            let reader = StreamReader::try_new(BufReader::with_capacity(BLOCK, source.from(0)), want.places).map_err(failed)?;
            let read = checked(source, parts, reader.map(|batch| batch.map_err(|cause| cause.to_string())));
            return Ok(windowed(read, want.skip, want.take));
        }
        let (dictionaries, batches): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| part.rows.is_none());
        let (mut first, mut skip) = (0, want.skip);
        while let Some(rows) = batches.get(first).and_then(|part| part.rows).filter(|rows| *rows <= skip) {
            skip -= rows;
            first += 1;
        }
        dictionaries.iter().try_for_each(|part| part.check(&source))?;
        let mut reader = FileReader::try_new(source.from(0), want.places).map_err(failed)?;
        if first >= batches.len() {
            return Ok(Box::new(std::iter::empty()));
        }
        reader.set_index(first).map_err(failed)?;
        let left = batches[first..].to_vec();
        let read = checked(source, left, reader.map(|batch| batch.map_err(|cause| cause.to_string())));
        Ok(windowed(read, skip, want.take))
    }
}

impl Part {
    /// Refuses columns that claim to be longer than a message may be.
    fn check(&self, source: &Source) -> Result<(), String> {
        if !self.compressed {
            return Ok(());
        }
        let Some(metadata) = metadata(source, self.at)? else { return Ok(()) };
        let message = arrow_ipc::root_as_message(&metadata.bytes).map_err(|cause| cause.to_string())?;
        lengths::check(&message, |at| source.exact(self.body.checked_add(at)?, lengths::PREFIX).ok()?.try_into().ok())
    }
}

/// Looks at each message before the reader does.
fn checked(
    source: Source,
    parts: Vec<Part>,
    mut read: impl Iterator<Item = Result<RecordBatch, String>> + Send + 'static,
) -> Raw {
    let mut parts = parts.into_iter();
    Box::new(std::iter::from_fn(move || {
        for part in parts.by_ref() {
            if let Err(cause) = part.check(&source) {
                return Some(Err(cause));
            }
            if part.rows.is_some() {
                break;
            }
        }
        read.next()
    }))
}

/// Columns and messages, from the index at the end of a file.
fn index(source: &Source) -> Result<(SchemaRef, Vec<Part>), String> {
    let told = |cause: &dyn std::fmt::Display| cause.to_string();
    let end = source.size();
    let trailer = end.checked_sub(TRAILER as u64).ok_or("it is too short")?;
    let last: [u8; TRAILER] =
        source.exact(trailer, TRAILER).map_err(|cause| told(&cause))?.try_into().map_err(|_| "it is too short")?;
    let length = read_footer_length(last).map_err(|cause| told(&cause))?;
    let begin = trailer.checked_sub(length as u64).ok_or("its index is longer than the file")?;
    let footer = source.exact(begin, length).map_err(|cause| told(&cause))?;
    let footer = arrow_ipc::root_as_footer(&footer).map_err(|cause| told(&cause))?;
    let schema = try_fb_to_schema(footer.schema().ok_or("its index has no columns")?).map_err(|cause| told(&cause))?;
    let block = |block: &Block| {
        let at = u64::try_from(block.offset()).map_err(|cause| told(&cause))?;
        let length = u64::try_from(block.metaDataLength()).ok().zip(u64::try_from(block.bodyLength()).ok());
        let places = length.and_then(|(metadata, body)| Some((at.checked_add(metadata)?, body)));
        let places = places.filter(|(begin, body)| begin.checked_add(*body).is_some_and(|end| end <= source.size()));
        let part = message(source, at)?.zip(places).map(|(message, (body, _))| Part { body, ..message.part });
        part.ok_or_else(|| "its index leads to what is no message".to_owned())
    };
    let mut parts = Vec::new();
    for described in footer.dictionaries().iter().flatten() {
        parts.push(Part { rows: None, ..block(described)? });
    }
    for described in footer.recordBatches().iter().flatten() {
        let part = block(described)?;
        part.rows.ok_or("its index leads to what is no batch")?;
        parts.push(part);
    }
    Ok((Arc::new(schema), parts))
}

/// Columns and messages of a stream, one after the other.
fn walk(source: &Source) -> Result<(SchemaRef, Vec<Part>), String> {
    let (mut parts, mut at) = (Vec::new(), 0);
    while at < source.size() {
        let Some(message) = message(source, at)? else { break };
        parts.push(message.part);
        at = message.end;
    }
    // Only now, because it takes as much memory as a message says that it is long.
    let reader = StreamReader::try_new(BufReader::new(source.from(0)), None).map_err(|cause| cause.to_string())?;
    Ok((reader.schema(), parts))
}

/// The metadata of a message, and where what follows them begins.
struct Metadata {
    bytes: Vec<u8>,
    end: u64,
}

/// What matters of a message, and where the next one begins.
struct Message {
    part: Part,
    end: u64,
}

/// Reads the metadata of the message at `at`; `None` at the mark of the end.
fn metadata(source: &Source, at: u64) -> Result<Option<Metadata>, String> {
    let told = |cause: &dyn std::fmt::Display| cause.to_string();
    let prefix = source.exact(at, PREFIX).map_err(|cause| told(&cause))?;
    // Before the mark was introduced, a message began with its length alone.
    let marked = prefix[..4] == [0xff; 4];
    let (length, before) = if marked { (&prefix[4..], PREFIX) } else { (&prefix[..4], PREFIX / 2) };
    let length = u32::from_le_bytes(length.try_into().map_err(|_| "a message has no length")?);
    if length == 0 {
        return Ok(None);
    }
    let begin = at + before as u64;
    let bytes = source.exact(begin, usize::try_from(length).map_err(|cause| told(&cause))?).map_err(|cause| told(&cause))?;
    Ok(Some(Metadata { bytes, end: begin + u64::from(length) }))
}

fn message(source: &Source, at: u64) -> Result<Option<Message>, String> {
    let told = |cause: &dyn std::fmt::Display| cause.to_string();
    let Some(Metadata { bytes, end: begin }) = metadata(source, at)? else { return Ok(None) };
    let message = arrow_ipc::root_as_message(&bytes).map_err(|cause| told(&cause))?;
    let body = u64::try_from(message.bodyLength()).map_err(|cause| told(&cause))?;
    let end = begin.checked_add(body).filter(|end| *end <= source.size());
    let end = end.ok_or("it ends in the middle of a message")?;
    let rows = (message.header_type() == MessageHeader::RecordBatch).then(|| message.header_as_record_batch()).flatten();
    let rows = rows.map(|batch| u64::try_from(batch.length())).transpose().map_err(|cause| told(&cause))?;
    Ok(Some(Message { part: Part { at, body: begin, rows, compressed: lengths::is_compressed(&message) }, end }))
}
