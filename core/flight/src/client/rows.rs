//! Rows of bytes in messages of Flight: taken out without a copy, and put in with one.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{BinaryArray, RecordBatch, UInt64Array};
use arrow_flight::FlightData;
use arrow_flight::utils::batches_to_flight_data;
use bytes::Bytes;
use edt::{Error, ErrorKind, Result};

use crate::contract::bytes_schema;

/// The place of each buffer in a batch: whether rows are null, and the values, of each of the two columns.
const OFFSET_VALUES: usize = 1;
const DATA_ENDS: usize = 3;
const DATA_VALUES: usize = 4;

/// Bytes, and where in the file they belong.
pub(super) type Row = (u64, Bytes);

/// The rows of a message; none of one that holds no batch.
pub(super) fn rows(data: &FlightData) -> Result<Vec<Row>> {
    if data.data_header.is_empty() {
        return Ok(Vec::new());
    }
    let message = arrow_ipc::root_as_message(&data.data_header).map_err(|cause| unfit(&cause))?;
    let Some(batch) = message.header_as_record_batch() else { return Ok(Vec::new()) };
    let buffers = batch.buffers().map(|buffers| buffers.iter().collect::<Vec<_>>()).unwrap_or_default();
    if batch.compression().is_some() || buffers.len() != DATA_VALUES + 1 {
        return Err(unfit(&"its columns are not `offset` and `data`"));
    }
    let buffer = |index: usize| {
        let begin = usize::try_from(buffers[index].offset()).ok();
        let range =
            begin.zip(usize::try_from(buffers[index].length()).ok()).map(|(begin, length)| begin..begin.saturating_add(length));
        range.filter(|range| range.end <= data.data_body.len()).ok_or_else(|| unfit(&"a column lies outside it"))
    };
    let (offsets, ends, values) = (buffer(OFFSET_VALUES)?, buffer(DATA_ENDS)?, buffer(DATA_VALUES)?);
    let count = usize::try_from(batch.length()).map_err(|cause| unfit(&cause))?;
    (0..count).map(|row| row_at(&data.data_body, row, [&offsets, &ends, &values])).collect()
}

fn row_at(body: &Bytes, row: usize, [offsets, ends, values]: [&Range<usize>; 3]) -> Result<Row> {
    let short = || unfit(&"a column is too short");
    let offset = number::<8>(&body[offsets.clone()], row).map(u64::from_le_bytes).ok_or_else(short)?;
    let end = |row| number::<4>(&body[ends.clone()], row).map(i32::from_le_bytes).and_then(|end| usize::try_from(end).ok());
    let (begin, end) = end(row).zip(end(row + 1)).ok_or_else(short)?;
    if begin > end || end > values.len() {
        return Err(short());
    }
    Ok((offset, body.slice(values.start + begin..values.start + end)))
}

fn number<const WIDTH: usize>(column: &[u8], row: usize) -> Option<[u8; WIDTH]> {
    column.get(row * WIDTH..(row + 1) * WIDTH)?.try_into().ok()
}

fn unfit(cause: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Protocol, "could not understand a batch of bytes").with_cause(cause)
}

/// Makes messages of rows; what they begin with is made once for rows of the same length.
#[derive(Default)]
pub(super) struct RowWriter {
    template: Option<Template>,
}

struct Template {
    length: usize,
    header: Bytes,
    /// The body up to the bytes of the row, and how long it is in all.
    head: Vec<u8>,
    whole: usize,
    /// Where in the body the row's offset stands.
    offset_at: usize,
}

impl RowWriter {
    /// The message that a stream of rows begins with.
    pub(super) fn schema() -> Result<FlightData> {
        encoded(&[]).map(|[schema, _]| schema)
    }

    /// The message of one row.
    pub(super) fn message(&mut self, offset: u64, bytes: &[u8]) -> Result<FlightData> {
        if self.template.as_ref().is_none_or(|template| template.length != bytes.len()) {
            self.template = Some(Template::new(bytes.len())?);
        }
        let template = self.template.as_ref().ok_or_else(|| unfit(&"it has no form"))?;
        let mut body = Vec::with_capacity(template.whole);
        body.extend_from_slice(&template.head);
        body[template.offset_at..template.offset_at + 8].copy_from_slice(&offset.to_le_bytes());
        body.extend_from_slice(bytes);
        body.resize(template.whole, 0);
        Ok(FlightData { data_header: template.header.clone(), data_body: body.into(), ..FlightData::default() })
    }
}

impl Template {
    fn new(length: usize) -> Result<Self> {
        let [_, batch] = encoded(&vec![0; length])?;
        let message = arrow_ipc::root_as_message(&batch.data_header).map_err(|cause| unfit(&cause))?;
        let buffers = message.header_as_record_batch().and_then(|batch| batch.buffers()).ok_or_else(|| unfit(&"it is none"))?;
        let place = |index: usize| usize::try_from(buffers.get(index).offset()).map_err(|cause| unfit(&cause));
        let (offset_at, data_at) = (place(OFFSET_VALUES)?, place(DATA_VALUES)?);
        let (head, whole) = (batch.data_body[..data_at].to_vec(), batch.data_body.len().max(data_at + length));
        Ok(Self { length, header: batch.data_header.clone(), head, whole, offset_at })
    }
}

/// The schema, and one row at 0, as the library makes messages of them.
fn encoded(bytes: &[u8]) -> Result<[FlightData; 2]> {
    let schema = bytes_schema();
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![Arc::new(UInt64Array::from(vec![0])), Arc::new(BinaryArray::from_vec(vec![bytes]))],
    );
    let messages = batch.and_then(|batch| batches_to_flight_data(&schema, [&batch])).map_err(|cause| unfit(&cause))?;
    messages.try_into().map_err(|_| unfit(&"it was made in several messages"))
}

#[cfg(test)]
mod tests {
    use arrow_flight::utils::flight_data_to_batches;

    use super::*;

    #[test]
    fn a_row_that_was_put_in_is_taken_out_again() {
        let mut writer = RowWriter::default();
        for (offset, length) in [(0, 5), (7, 5), (u64::MAX, 1 << 20), (3, 0), (9, 1)] {
            let bytes: Vec<u8> = (0..length).map(|index: usize| (index % 251).to_le_bytes()[0]).collect();
            let message = writer.message(offset, &bytes).unwrap();
            assert!(rows(&message).unwrap() == [(offset, Bytes::from(bytes.clone()))]);
            let batches = flight_data_to_batches(&[RowWriter::schema().unwrap(), message]).unwrap();
            assert_eq!(batches[0].schema(), bytes_schema());
            assert_eq!(batches[0].column(1).len(), 1);
        }
    }

    #[test]
    fn several_rows_of_a_batch_are_told_apart() {
        let columns: Vec<arrow_array::ArrayRef> =
            vec![Arc::new(UInt64Array::from(vec![5, 8])), Arc::new(BinaryArray::from_vec(vec![b"abc", b"de"]))];
        let batch = RecordBatch::try_new(bytes_schema(), columns).unwrap();
        let messages = batches_to_flight_data(&bytes_schema(), [&batch]).unwrap();
        assert_eq!(rows(&messages[0]).unwrap(), []);
        assert_eq!(rows(&messages[1]).unwrap(), [(5, Bytes::from("abc")), (8, Bytes::from("de"))]);
    }

    #[test]
    fn a_message_that_lies_about_its_columns_is_refused() {
        let message = RowWriter::default().message(1, b"12345678").unwrap();
        for length in 0..message.data_body.len() {
            let short = FlightData { data_body: message.data_body.slice(..length), ..message.clone() };
            if let Ok(found) = rows(&short) {
                assert_eq!(found, [(1, Bytes::from("12345678"))], "{length} bytes");
            }
        }
        let garbage = FlightData { data_header: Bytes::from_static(b"no message"), ..message };
        assert_eq!(rows(&garbage).unwrap_err().kind(), ErrorKind::Protocol);
    }
}
