//! Files as bytes: rows of an offset and up to 1 MiB of data, made by hand around what is read from the file.

mod buffers;
mod layout;

use std::sync::Arc;

use arrow_flight::FlightData;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use edt::path::RelativePath;
use edt::pipeline::digest::{combine, crc64nvme};
use edt::{Error, ErrorKind, Result};

pub(super) use buffers::Buffers;

use super::info::Reading;
use super::root::{Opened, Root, changed, path};
use crate::contract::{
    Command, FileFacts, MODIFIED_KEY, PATH_KEY, ROW_BYTES, ReadSum, SIZE_KEY, VERSION_KEY, bytes_schema, json, text, version,
};

/// Opens what a command names to read it as bytes.
pub(super) fn read(root: &Root, command: &Command) -> Result<Reading> {
    let path = path(&command.path)?;
    let opened = root.open_file(&path, command.version.as_deref())?;
    let (at, end) = window(&path, opened.entry.size, command.range)?;
    let schema = schema(&path, &opened)?;
    let first = schema_message(&schema);
    let rows = Rows { path, opened, at, begin: at, end, crc64nvme: 0, buffers: Arc::clone(&root.buffers), ended: false };
    Ok(Reading { schema: bytes_schema(), first, feed: Box::new(rows), end: None })
}

/// First byte and the one behind the last of a range that a command names; one that is too long ends with the file.
pub(super) fn window(path: &RelativePath, size: u64, range: Option<[u64; 2]>) -> Result<(u64, u64)> {
    let [offset, length] = range.unwrap_or([0, size]);
    if offset > size {
        return Err(Error::new(ErrorKind::InvalidInput, format!("could not read `{path}` from byte {offset}"))
            .with_cause(format!("it has {size} bytes")));
    }
    Ok((offset, offset.saturating_add(length).min(size)))
}

/// The columns, with what is known of the file.
pub(super) fn schema(path: &RelativePath, opened: &Opened) -> Result<SchemaRef> {
    let mut metadata = std::collections::HashMap::from([
        (PATH_KEY.to_owned(), text(path)?),
        (SIZE_KEY.to_owned(), opened.entry.size.to_string()),
        (VERSION_KEY.to_owned(), opened.version.clone()),
    ]);
    if let Some(modified_ns) = opened.entry.modified_ns {
        metadata.insert(MODIFIED_KEY.to_owned(), modified_ns.to_string());
    }
    Ok(Arc::new(Schema::new_with_metadata(bytes_schema().fields().clone(), metadata)))
}

/// What is told of a file beside its columns.
pub(super) fn facts(opened: &Opened) -> FileFacts {
    FileFacts {
        size: opened.entry.size,
        modified_ns: opened.entry.modified_ns,
        mode: opened.entry.mode,
        version: opened.version.clone(),
    }
}

/// The message that begins a stream without dictionaries.
fn schema_message(schema: &Schema) -> FlightData {
    let (generator, mut tracker) = (IpcDataGenerator::default(), DictionaryTracker::new(false));
    generator.schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &IpcWriteOptions::default()).into()
}

/// The rows of a range, each with its digest, then an empty one with the digest of all that was read.
struct Rows {
    path: RelativePath,
    opened: Opened,
    at: u64,
    begin: u64,
    end: u64,
    crc64nvme: u64,
    buffers: Arc<Buffers>,
    ended: bool,
}

impl Iterator for Rows {
    type Item = Result<FlightData>;

    fn next(&mut self) -> Option<Result<FlightData>> {
        if self.ended {
            return None;
        }
        let made = if self.at < self.end { self.row() } else { self.last() };
        self.ended = made.is_err() || self.ended;
        Some(made)
    }
}

impl Rows {
    fn row(&mut self) -> Result<FlightData> {
        let length = usize::try_from(self.end - self.at).unwrap_or(ROW_BYTES).min(ROW_BYTES);
        let mut buffer = self.buffers.take(layout::body_length(length));
        let data = layout::place(buffer.as_mut(), self.at, length);
        if self.opened.reader.read_at(self.at, data)? < length {
            return Err(changed(&self.path));
        }
        let digest = crc64nvme(data);
        self.crc64nvme = combine(self.crc64nvme, digest, length as u64);
        self.at += length as u64;
        Ok(FlightData {
            data_header: layout::header(length)?,
            data_body: Bytes::from_owner(buffer),
            app_metadata: json(&ReadSum::of(length as u64, digest)).into(),
            ..FlightData::default()
        })
    }

    /// A file that was written while it was read may be neither what it was nor what it is.
    fn last(&mut self) -> Result<FlightData> {
        self.ended = true;
        if version(&self.opened.reader.stat()?) != self.opened.version {
            return Err(changed(&self.path));
        }
        let end = ReadSum::of(self.end - self.begin, self.crc64nvme);
        let (data_header, data_body) = layout::empty()?;
        Ok(FlightData { data_header, data_body, app_metadata: json(&end).into(), ..FlightData::default() })
    }
}
