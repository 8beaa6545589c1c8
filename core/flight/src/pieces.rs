//! Pieces of batches: how many bytes one takes in a message, and how one is cut off without what it shares with the others.
//!
//! A slice of a batch shares its memory, and the library sends all of what strings and bytes in views, and lists of them, share: each of a
//! thousand slices would carry the whole batch.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::ByteViewType;
use arrow_array::{
    Array, ArrayRef, GenericByteViewArray, GenericListArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, SchemaRef};

/// Bytes of a string in a view that lie in the view itself.
const INLINE: u32 = 12;

/// Bytes of one view.
const VIEW: usize = 16;

/// Bytes that a batch takes in a message. Dictionaries do not count: they go once, before it.
pub(crate) fn size(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(size_of).sum()
}

fn size_of(array: &ArrayRef) -> usize {
    let nulls = array.nulls().map_or(0, |_| array.len().div_ceil(8));
    match array.data_type() {
        DataType::List(_) => nulls + size_of_list(array.as_list::<i32>()),
        DataType::LargeList(_) => nulls + size_of_list(array.as_list::<i64>()),
        DataType::Map(..) => {
            let map = array.as_map();
            let offsets = map.offsets();
            let (first, last) = (index(offsets[0]), index(offsets[map.len()]));
            let entries: ArrayRef = Arc::new(map.entries().slice(first, last - first));
            nulls + size_of_val(&offsets[..]) + size_of(&entries)
        }
        DataType::Struct(_) => nulls + array.as_struct().columns().iter().map(size_of).sum::<usize>(),
        DataType::Utf8View => nulls + size_of_views(array.as_string_view()),
        DataType::BinaryView => nulls + size_of_views(array.as_binary_view()),
        DataType::Dictionary(key, _) => nulls + array.len() * key.primitive_width().unwrap_or(8),
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()),
    }
}

fn size_of_list<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> usize {
    size_of_val(&list.offsets()[..]) + size_of(&values(list))
}

/// The values of a list alone, without those that other slices refer to.
fn values<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> ArrayRef {
    let offsets = list.offsets();
    let (begin, end) = (offsets[0].as_usize(), offsets[list.len()].as_usize());
    list.values().slice(begin, end - begin)
}

fn size_of_views<T: ByteViewType + ?Sized>(views: &GenericByteViewArray<T>) -> usize {
    // The first four bytes of a view are the length.
    #[expect(clippy::cast_possible_truncation, reason = "the length is in the lower half of the lower half")]
    let length = |view: &u128| *view as u32;
    let outside = views.views().iter().map(length).filter(|length| *length > INLINE).map(|length| length as usize);
    views.len() * VIEW + outside.sum::<usize>()
}

/// The rows from `begin` on, with nothing of the others.
pub(crate) fn piece(batch: &RecordBatch, begin: usize, count: usize) -> Result<RecordBatch, ArrowError> {
    if count == batch.num_rows() {
        return Ok(batch.clone());
    }
    let part = batch.slice(begin, count);
    let columns = part.columns().iter().map(alone).collect::<Result<Vec<_>, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(SchemaRef::clone(part.schema_ref()), columns, &rows)
}

/// A slice with memory of its own where its type shares it; others are cut by the library.
fn alone(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::List(_) => Arc::new(alone_in_list(array.as_list::<i32>())?),
        DataType::LargeList(_) => Arc::new(alone_in_list(array.as_list::<i64>())?),
        DataType::Struct(fields) if !fields.is_empty() => {
            let parts = array.as_struct();
            let columns = parts.columns().iter().map(alone).collect::<Result<Vec<_>, _>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, parts.nulls().cloned())?)
        }
        _ => Arc::clone(array),
    })
}

fn alone_in_list<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Result<GenericListArray<O>, ArrowError> {
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else { return Ok(list.clone()) };
    let first = list.offsets()[0];
    let offsets = OffsetBuffer::new(list.offsets().iter().map(|offset| *offset - first).collect());
    GenericListArray::try_new(Arc::clone(field), offsets, alone(&values(list))?, list.nulls().cloned())
}

/// An offset into memory, which is never negative.
fn index(offset: i32) -> usize {
    usize::try_from(offset).unwrap_or(0)
}

/// Cuts a batch from its beginning on, each time as many rows as make about `target` bytes and none above `most`, if rows allow.
pub(crate) struct Pieces {
    batch: RecordBatch,
    at: usize,
    /// Rows of the next piece.
    rows: usize,
    most: usize,
}

impl Pieces {
    /// Pieces have at most `most_rows`. A batch a little above the target is left whole.
    pub(crate) fn new(batch: RecordBatch, most_rows: usize, target: usize, most: usize) -> Self {
        let (rows, size) = (batch.num_rows(), size(&batch));
        let by_size = if size > target + target / 4 { size.div_ceil(target) } else { 1 };
        let parts = by_size.max(rows.div_ceil(most_rows.max(1))).clamp(1, rows.max(1));
        Self { rows: rows.div_ceil(parts).max(1), batch, at: 0, most }
    }
}

impl Iterator for Pieces {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.batch.num_rows() - self.at;
        if left == 0 {
            return None;
        }
        let mut count = self.rows.min(left);
        let bytes = |count| size(&self.batch.slice(self.at, count));
        let mut taken = bytes(count);
        // Rows differ in length. Where fewer do not take less there is no use in going on.
        while count > 1 && taken > self.most {
            let fewer = bytes(count / 2);
            if fewer > taken / 4 * 3 {
                break;
            }
            (count, taken) = (count / 2, fewer);
        }
        let made = piece(&self.batch, self.at, count);
        self.at += count;
        Some(made)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{Float32Builder, ListBuilder};
    use arrow_array::{BinaryViewArray, StringViewArray};
    use arrow_select::concat::concat_batches;

    use super::*;

    const ROWS: usize = 100_000;

    /// Lists of numbers, long strings in views, and lists and structures of such.
    fn odd() -> RecordBatch {
        let mut lists = ListBuilder::new(Float32Builder::new());
        for row in 0..ROWS {
            lists.values().append_slice(&[f32::from(u8::try_from(row % 251).unwrap()); 16]);
            lists.append(row % 7 != 0);
        }
        let text = |row: usize| format!("{row:060}");
        let strings = StringViewArray::from_iter_values((0..ROWS).map(text));
        let bytes: BinaryViewArray = (0..ROWS).map(|row| (row % 3 > 0).then(|| text(row).into_bytes())).collect();
        let inside: ArrayRef = Arc::new(strings.clone());
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, ROWS));
        let field = Arc::new(arrow_schema::Field::new("item", DataType::Utf8View, true));
        let nested = GenericListArray::<i64>::try_new(field, offsets, Arc::clone(&inside), None).unwrap();
        let parts = StructArray::from(vec![(Arc::new(arrow_schema::Field::new("s", DataType::Utf8View, false)), inside)]);
        let columns: [(&str, ArrayRef); 5] = [
            ("lists", Arc::new(lists.finish())),
            ("strings", Arc::new(strings)),
            ("bytes", Arc::new(bytes)),
            ("nested", Arc::new(nested)),
            ("parts", Arc::new(parts)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn columns_that_share_memory_are_cut_to_what_is_theirs() {
        let whole = odd();
        for column in 0..whole.num_columns() {
            let batch = whole.project(&[column]).unwrap();
            let pieces: Vec<RecordBatch> = Pieces::new(batch.clone(), usize::MAX, 1 << 20, 2 << 20).map(Result::unwrap).collect();
            assert!(pieces.len() < 20, "column {column}: {} pieces", pieces.len());
            for piece in &pieces {
                let sent: usize = arrow_flight::utils::batches_to_flight_data(&piece.schema(), [piece])
                    .unwrap()
                    .iter()
                    .map(|message| message.data_body.len())
                    .sum();
                assert!(sent < 2 << 20, "column {column}: a message of {sent} bytes");
                assert!(size(piece) * 9 / 10 < sent && sent < size(piece) * 11 / 10, "column {column}: {sent}, {}", size(piece));
            }
            assert_eq!(concat_batches(&batch.schema(), &pieces).unwrap(), batch);
        }
    }

    #[test]
    fn a_batch_without_bytes_is_cut_as_it_is_asked_for() {
        let nothing: ArrayRef = Arc::new(arrow_array::NullArray::new(1 << 40));
        let batch = RecordBatch::try_from_iter([("nothing", nothing)]).unwrap();
        let mut pieces = Pieces::new(batch, 1, 1 << 20, 2 << 20);
        assert_eq!(pieces.next().unwrap().unwrap().num_rows(), 1);
    }
}
