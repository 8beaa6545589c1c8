//! How a batch of one row lies in a message: the offset, the ends of the data, and the data itself, each from a multiple of 64 bytes.
//!
//! What the library writes for such a batch depends on the length alone, so its header is taken from one that it wrote, and the file is
//! read to where its data belongs.

use std::sync::{Arc, OnceLock};

use arrow_array::{BinaryArray, RecordBatch, UInt64Array};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_schema::ArrowError;
use bytes::Bytes;
use edt::{Error, ErrorKind, Result};

use crate::contract::{ROW_BYTES, bytes_schema};

/// What the parts of a body are aligned to.
const ALIGNMENT: usize = 64;

/// Where the ends of the data begin, two numbers of 32 bits.
const ENDS: usize = ALIGNMENT;

/// Where the data begins.
const DATA: usize = 2 * ALIGNMENT;

/// Bytes of the body of a row with `length` bytes of data.
pub(super) fn body_length(length: usize) -> usize {
    DATA + length.next_multiple_of(ALIGNMENT)
}

/// Writes all of a body but its data, and answers with the place for that.
pub(super) fn place(body: &mut [u8], offset: u64, length: usize) -> &mut [u8] {
    let (before, data) = body.split_at_mut(DATA);
    before.fill(0);
    before[..8].copy_from_slice(&offset.to_le_bytes());
    // A row has at most 1 MiB.
    let end = i32::try_from(length).unwrap_or(i32::MAX);
    before[ENDS + 4..ENDS + 8].copy_from_slice(&end.to_le_bytes());
    let (data, padding) = data.split_at_mut(length);
    padding.fill(0);
    data
}

/// The header of a message with a row of `length` bytes.
pub(super) fn header(length: usize) -> Result<Bytes> {
    static WHOLE: OnceLock<Bytes> = OnceLock::new();
    if length != ROW_BYTES {
        return Ok(encoded(Some(&vec![0; length]))?.0);
    }
    if let Some(header) = WHOLE.get() {
        return Ok(header.clone());
    }
    let header = encoded(Some(&vec![0; length]))?.0;
    Ok(WHOLE.get_or_init(|| header).clone())
}

/// Header and body of a message without rows: the body holds where the first row would begin.
pub(super) fn empty() -> Result<(Bytes, Bytes)> {
    let (header, body) = encoded(None)?;
    Ok((header, body.into()))
}

/// Header and body of a batch as the library writes it.
fn encoded(data: Option<&[u8]>) -> Result<(Bytes, Vec<u8>)> {
    let failed = |cause: ArrowError| Error::new(ErrorKind::Io, "could not make a message").with_cause(cause);
    let offsets = UInt64Array::from_iter_values(data.map(|_| 0));
    let data = BinaryArray::from_iter_values(data);
    let batch = RecordBatch::try_new(bytes_schema(), vec![Arc::new(offsets), Arc::new(data)]).map_err(failed)?;
    let mut tracker = DictionaryTracker::new(false);
    let (_, message) = IpcDataGenerator::default()
        .encode(&batch, &mut tracker, &IpcWriteOptions::default(), &mut IpcWriteContext::default())
        .map_err(failed)?;
    Ok((message.ipc_message.into(), message.arrow_data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_made_by_hand_is_the_one_that_the_library_writes() {
        for length in [1, 63, 64, 65, 5000, ROW_BYTES] {
            let data: Vec<u8> = (0..length).map(|at| (at % 251).to_le_bytes()[0]).collect();
            let (expected_header, expected_body) = encoded(Some(&data)).unwrap();
            let mut body = vec![0xee; body_length(length)];
            place(&mut body, 0, length).copy_from_slice(&data);
            assert!(body == expected_body, "the body of {length} bytes");
            assert_eq!(header(length).unwrap(), expected_header, "the header of {length} bytes");
            place(&mut body, 0x0102_0304_0506_0708, length);
            assert_eq!(body[..8], [8, 7, 6, 5, 4, 3, 2, 1]);
        }
    }

    #[test]
    fn a_message_without_rows_has_the_body_that_its_header_says() {
        let (header, body) = empty().unwrap();
        let message = arrow_ipc::root_as_message(&header).unwrap();
        let told = (message.bodyLength(), message.header_as_record_batch().unwrap().length());
        assert_eq!(told, (i64::try_from(body.len()).unwrap(), 0));
    }
}
