//! A part of a table in a file of its own, and the parts put together.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek as _};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use edt::Result;
use parquet::arrow::ArrowWriter;
use tempfile::NamedTempFile;

use super::{file_error, groups};
use crate::contract::Kind;

/// Bytes of a buffer before a file.
const BUFFER: usize = 256 << 10;

/// Writes batches of one schema into a file.
pub(super) struct PartWriter {
    file: NamedTempFile,
    schema: SchemaRef,
    form: Form,
}

enum Form {
    Parquet(Box<ArrowWriter<File>>),
    Arrow(Box<FileWriter<BufWriter<File>>>),
}

/// A part that is complete.
pub(super) struct Part {
    pub(super) file: NamedTempFile,
    pub(super) schema: SchemaRef,
}

impl PartWriter {
    /// `group` is about how many bytes of a table are held back until they are written, as one row group of a Parquet file.
    pub(super) fn new(file: NamedTempFile, kind: Kind, schema: &SchemaRef, group: usize) -> Result<Self> {
        let failed = |cause: &(dyn std::error::Error + 'static)| file_error(file.path(), "write", cause);
        let handle = file.reopen().map_err(|cause| failed(&cause))?;
        let (form, schema) = match kind {
            Kind::Arrow => {
                let schema = without_dictionaries(schema);
                let writer = FileWriter::try_new(BufWriter::with_capacity(BUFFER, handle), &schema);
                (Form::Arrow(Box::new(writer.map_err(|cause| failed(&cause))?)), schema)
            }
            Kind::Parquet | Kind::Csv => {
                let writer = ArrowWriter::try_new(handle, Arc::clone(schema), Some(groups::properties(group)));
                (Form::Parquet(Box::new(writer.map_err(|cause| failed(&cause))?)), Arc::clone(schema))
            }
        };
        Ok(Self { file, schema, form })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written: std::result::Result<(), Box<dyn std::error::Error>> = match &mut self.form {
            Form::Parquet(writer) => writer.write(batch).map_err(Into::into),
            Form::Arrow(writer) => plain(batch, &self.schema).and_then(|batch| writer.write(&batch)).map_err(Into::into),
        };
        written.map_err(|cause| file_error(self.file.path(), "write", cause.as_ref()))
    }

    pub(super) fn finish(self) -> Result<Part> {
        let Self { file, schema, form } = self;
        let finished: std::result::Result<(), Box<dyn std::error::Error>> = match form {
            Form::Parquet(writer) => writer.close().map(drop).map_err(Into::into),
            // What the writer still holds goes to the file with it.
            Form::Arrow(mut writer) => writer.finish().and_then(|()| writer.flush()).map_err(Into::into),
        };
        finished.map_err(|cause| file_error(file.path(), "write", cause.as_ref()))?;
        Ok(Part { file, schema })
    }
}

/// Puts parts together, in their order, in a file that is empty.
pub(super) fn join(parts: &[Part], kind: Kind, file: NamedTempFile) -> Result<NamedTempFile> {
    if kind == Kind::Arrow {
        join_arrow(parts, &file)?;
    } else {
        let mut inputs = Vec::with_capacity(parts.len());
        for part in parts {
            let path = part.file.path();
            inputs.push((path, part.file.reopen().map_err(|cause| file_error(path, "read", &cause))?));
        }
        groups::join(&inputs, &file)?;
    }
    Ok(file)
}

fn join_arrow(parts: &[Part], file: &NamedTempFile) -> Result<()> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |cause: ArrowError| file_error(&path, "put together", &cause)
    };
    let handle = file.reopen().map_err(|cause| file_error(file.path(), "write", &cause))?;
    let Some(first) = parts.first() else { return Ok(()) };
    let mut writer = FileWriter::try_new(BufWriter::with_capacity(BUFFER, handle), &first.schema).map_err(at(file.path()))?;
    for part in parts {
        let path = part.file.path();
        let mut input = part.file.reopen().map_err(|cause| file_error(path, "read", &cause))?;
        input.rewind().map_err(|cause| file_error(path, "read", &cause))?;
        let reader = FileReader::try_new(BufReader::with_capacity(BUFFER, input), None).map_err(at(path))?;
        for batch in reader {
            batch.and_then(|batch| writer.write(&batch)).map_err(at(path))?;
        }
    }
    writer.finish().and_then(|()| writer.flush()).map_err(at(file.path()))
}

/// The schema with the values of dictionaries in their place: the Arrow file format allows one dictionary a column, and streams bring many.
fn without_dictionaries(schema: &SchemaRef) -> SchemaRef {
    let plain = |field: &Arc<Field>| match field.data_type() {
        DataType::Dictionary(_, values) => Arc::new(field.as_ref().clone().with_data_type(values.as_ref().clone())),
        _ => Arc::clone(field),
    };
    let fields: Vec<_> = schema.fields().iter().map(plain).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn plain(batch: &RecordBatch, schema: &SchemaRef) -> std::result::Result<RecordBatch, ArrowError> {
    let column = |(column, field): (&ArrayRef, &Arc<Field>)| {
        if column.data_type() == field.data_type() { Ok(Arc::clone(column)) } else { arrow_cast::cast(column, field.data_type()) }
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(column).collect::<std::result::Result<Vec<_>, _>>()?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{DictionaryArray, Int64Array};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    fn batch(first: i64, word: &str) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 3));
        let words: DictionaryArray<Int32Type> = [word, "same", word].into_iter().collect();
        RecordBatch::try_from_iter([("number", numbers), ("word", Arc::new(words) as ArrayRef)]).unwrap()
    }

    fn joined(kind: Kind) -> NamedTempFile {
        let part = |first, word: &str| {
            let mut writer = PartWriter::new(NamedTempFile::new().unwrap(), kind, &batch(0, word).schema(), 1 << 20).unwrap();
            writer.write(&batch(first, word)).unwrap();
            writer.write(&batch(first + 3, "other")).unwrap();
            writer.finish().unwrap()
        };
        join(&[part(0, "one"), part(6, "two")], kind, NamedTempFile::new().unwrap()).unwrap()
    }

    fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
        let column = |batch: &RecordBatch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
        batches.iter().flat_map(column).collect()
    }

    #[test]
    fn parts_are_put_together_in_order() {
        let parquet = joined(Kind::Parquet);
        let builder = ParquetRecordBatchReaderBuilder::try_new(parquet.reopen().unwrap()).unwrap();
        assert_eq!(builder.schema().field(1).data_type(), batch(0, "x").schema().field(1).data_type());
        assert_eq!(builder.metadata().num_row_groups(), 2);
        assert_eq!(numbers(&builder.build().unwrap().map(Result::unwrap).collect::<Vec<_>>()), (0..12).collect::<Vec<_>>());
        let arrow = joined(Kind::Arrow);
        let reader = FileReader::try_new(arrow.reopen().unwrap(), None).unwrap();
        assert_eq!(reader.schema().field(1).data_type(), &DataType::Utf8);
        assert_eq!(numbers(&reader.map(Result::unwrap).collect::<Vec<_>>()), (0..12).collect::<Vec<_>>());
    }
}
