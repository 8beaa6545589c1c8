//! Lengths that messages claim, looked at before a library takes memory for them.

use arrow_flight::FlightData;
use arrow_ipc::Message;

/// Bytes that the columns of one message may take once they are decompressed.
pub(crate) const MOST: u64 = 1 << 30;

/// Bytes before a compressed column that say how long it will be.
pub(crate) const PREFIX: usize = 8;

/// What is said of a column that is not compressed although others are.
const AS_IT_IS: i64 = -1;

/// Whether the columns of a message are compressed.
pub(crate) fn is_compressed(message: &Message<'_>) -> bool {
    batch(message).is_some_and(|batch| batch.compression().is_some())
}

/// Refuses a message whose compressed columns claim to be longer than a message may be; `prefix` reads the first bytes of a column, which
/// begins at this place of the body.
pub(crate) fn check(message: &Message<'_>, mut prefix: impl FnMut(u64) -> Option<[u8; PREFIX]>) -> Result<(), String> {
    let Some(batch) = batch(message).filter(|batch| batch.compression().is_some()) else { return Ok(()) };
    let mut all = 0u64;
    for buffer in batch.buffers().iter().flatten() {
        let Some(length) = u64::try_from(buffer.length()).ok().filter(|length| *length > 0) else { continue };
        let told = u64::try_from(buffer.offset()).ok().and_then(&mut prefix).map(i64::from_le_bytes);
        let claimed = match told {
            Some(AS_IT_IS) => Some(length),
            Some(told) => u64::try_from(told).ok(),
            None => None,
        };
        all = all.saturating_add(claimed.ok_or("a compressed column has no length")?);
    }
    if all > MOST {
        return Err(format!("its columns are {all} bytes when they are not compressed, and at most {MOST} are taken"));
    }
    Ok(())
}

/// The same for a message of a call.
pub(crate) fn check_data(data: &FlightData) -> Result<(), String> {
    if data.data_header.is_empty() {
        return Ok(());
    }
    let message = arrow_ipc::root_as_message(&data.data_header).map_err(|cause| cause.to_string())?;
    check(&message, |at| data.data_body.get(usize::try_from(at).ok()?..)?.first_chunk().copied())
}

fn batch<'a>(message: &Message<'a>) -> Option<arrow_ipc::RecordBatch<'a>> {
    message.header_as_record_batch().or_else(|| message.header_as_dictionary_batch()?.data())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, RecordBatch};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};

    use super::*;

    fn message(compression: Option<CompressionType>) -> FlightData {
        let numbers: arrow_array::ArrayRef = Arc::new(Int64Array::from(vec![7; 100_000]));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let mut tracker = DictionaryTracker::new(false);
        let made = IpcDataGenerator::default().encode(&batch, &mut tracker, &options, &mut IpcWriteContext::default());
        made.unwrap().1.into()
    }

    #[test]
    fn a_compressed_column_that_claims_too_much_is_refused() {
        for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
            let data = message(Some(compression));
            check_data(&data).unwrap();
            // The column of numbers has 800,000 bytes, which stand before it.
            let told = 800_000i64.to_le_bytes();
            let at = data.data_body.windows(PREFIX).position(|bytes| bytes == told).unwrap();
            for claimed in [1 << 46, 1 << 31, i64::MAX, i64::MIN] {
                let mut body = data.data_body.to_vec();
                body[at..at + PREFIX].copy_from_slice(&i64::to_le_bytes(claimed));
                assert!(check_data(&FlightData { data_body: body.into(), ..data.clone() }).is_err(), "{claimed}");
            }
            for length in 0..at + PREFIX {
                let short = FlightData { data_body: data.data_body.slice(..length), ..data.clone() };
                assert!(check_data(&short).is_err(), "{length} bytes");
            }
        }
        check_data(&message(None)).unwrap();
    }
}
