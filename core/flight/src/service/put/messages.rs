//! Messages of a put as batches and as rows of bytes.

use std::collections::HashMap;

use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_flight::FlightData;
use arrow_ipc::MessageHeader;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_schema::{DataType, SchemaRef};
use edt::{Error, ErrorKind, Result};

use crate::lengths;

/// The most rows of one message.
const MOST_ROWS: i64 = 1 << 24;

/// Decodes messages without copying what they carry.
pub(super) struct Batches {
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl Batches {
    pub(super) fn new(schema: SchemaRef) -> Self {
        Self { schema, dictionaries: HashMap::new() }
    }

    /// The batch of a message; `None` for one that has only metadata or a dictionary.
    pub(super) fn decode(&mut self, data: FlightData) -> Result<Option<RecordBatch>> {
        if data.data_header.is_empty() {
            return Ok(None);
        }
        lengths::check_data(&data).map_err(|cause| unreadable(&cause))?;
        let message = arrow_ipc::root_as_message(&data.data_header).map_err(|cause| unreadable(&cause))?;
        let (version, body) = (message.version(), Buffer::from(data.data_body));
        match message.header_type() {
            MessageHeader::NONE => Ok(None),
            MessageHeader::DictionaryBatch => {
                let dictionary = message.header_as_dictionary_batch().ok_or_else(|| unreadable(&"it has no dictionary"))?;
                read_dictionary(&body, dictionary, &self.schema, &mut self.dictionaries, &version)
                    .map_err(|cause| unreadable(&cause))?;
                let held = self.dictionaries.values().map(|values| values.get_array_memory_size() as u64).sum::<u64>();
                if held > lengths::MOST {
                    return Err(unreadable(&format!("its dictionaries have grown to {held} bytes")));
                }
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or_else(|| unreadable(&"it has no batch"))?;
                // Rows without bytes could be any number.
                if batch.length() > MOST_ROWS {
                    return Err(unreadable(&format!("it has {} rows, and at most {MOST_ROWS} are taken", batch.length())));
                }
                RecordBatchDecoder::try_new(&body, batch, SchemaRef::clone(&self.schema), &self.dictionaries, &version)
                    .and_then(RecordBatchDecoder::read_record_batch)
                    .map(Some)
                    .map_err(|cause| unreadable(&cause))
            }
            other => Err(unreadable(&format!("it is a `{other:?}` where a batch should be"))),
        }
    }
}

fn unreadable(cause: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidInput, "could not read a message of the put").with_cause(cause)
}

/// The rows of messages with the columns of bytes.
pub(super) struct Rows {
    batches: Batches,
}

impl Rows {
    pub(super) fn new(schema: SchemaRef) -> Self {
        Self { batches: Batches::new(schema) }
    }

    /// Hands each row of a message to `take`: its offset and its bytes.
    pub(super) fn each(&mut self, data: FlightData, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let Some(batch) = self.batches.decode(data)? else { return Ok(()) };
        if batch.columns().iter().any(|column| column.null_count() > 0) {
            return Err(unreadable(&"a row of bytes has no offset or no data").with_hint("send no nulls"));
        }
        let (offsets, data) = (batch.column(0).as_primitive::<UInt64Type>(), batch.column(1));
        let large = *data.data_type() == DataType::LargeBinary;
        for row in 0..batch.num_rows() {
            let bytes = if large { data.as_binary::<i64>().value(row) } else { data.as_binary::<i32>().value(row) };
            take(offsets.value(row), bytes)?;
        }
        Ok(())
    }
}
