//! Rows of the history as a Parquet file.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use edt::history::{Cell, ColumnKind, Table};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

/// Rows that are held in memory before they are written.
const BATCH: usize = 8192;

/// Writes rows into a Parquet file, which is whole once it is finished.
pub(super) struct Writer<'a> {
    file: ArrowWriter<&'a mut (dyn Write + Send)>,
    table: Table,
    schema: Arc<Schema>,
    rows: Vec<Vec<Cell>>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), table: Table) -> anyhow::Result<Self> {
        let fields = table.columns().iter().map(|column| Field::new(column.name, data_type(column.kind), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
        let file = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties)).map_err(unwritten)?;
        Ok(Self { file, table, schema, rows: Vec::new() })
    }

    pub(super) fn add(&mut self, row: Vec<Cell>) -> anyhow::Result<()> {
        self.rows.push(row);
        if self.rows.len() >= BATCH { self.write() } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.write()?;
        self.file.close().map_err(unwritten)?;
        Ok(())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let columns = self.table.columns().iter().enumerate();
        let arrays = columns.map(|(at, column)| array(column.kind, self.rows.iter().map(|row| &row[at])));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays.collect())?;
        self.rows.clear();
        self.file.write(&batch).map_err(unwritten)
    }
}

/// What a failure of Parquet's comes from: a reader that went away is no failure, and has to be seen as such.
fn unwritten(error: ParquetError) -> anyhow::Error {
    let error = anyhow::Error::new(error);
    let is_closed = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(is_closed)) {
        return io::Error::from(io::ErrorKind::BrokenPipe).into();
    }
    error
}

fn data_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::Integer => DataType::Int64,
        ColumnKind::Real => DataType::Float64,
        ColumnKind::Text => DataType::Utf8,
        ColumnKind::Boolean => DataType::Boolean,
    }
}

fn array<'a>(kind: ColumnKind, cells: impl Iterator<Item = &'a Cell>) -> ArrayRef {
    match kind {
        ColumnKind::Integer => Arc::new(cells.map(integer).collect::<Int64Array>()),
        ColumnKind::Real => Arc::new(cells.map(real).collect::<Float64Array>()),
        ColumnKind::Text => Arc::new(cells.map(text).collect::<StringArray>()),
        ColumnKind::Boolean => Arc::new(cells.map(boolean).collect::<BooleanArray>()),
    }
}

fn integer(cell: &Cell) -> Option<i64> {
    if let Cell::Integer(number) = cell { Some(*number) } else { None }
}

fn real(cell: &Cell) -> Option<f64> {
    if let Cell::Real(number) = cell { Some(*number) } else { None }
}

fn text(cell: &Cell) -> Option<&str> {
    if let Cell::Text(text) = cell { Some(text) } else { None }
}

fn boolean(cell: &Cell) -> Option<bool> {
    if let Cell::Boolean(is) = cell { Some(*is) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes, and then nobody reads any more.
    struct Pipe(usize);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(room: usize) -> anyhow::Result<()> {
        let mut pipe = Pipe(room);
        let mut writer = Writer::new(&mut pipe, Table::Imported)?;
        for number in 0..20_000 {
            writer.add(vec![Cell::Integer(number); Table::Imported.columns().len()])?;
        }
        writer.finish()
    }

    #[test]
    fn a_reader_that_goes_away_is_seen_as_such_whenever_it_does() {
        for room in [0, 10, 1000, 20_000] {
            let error = written(room).unwrap_err();
            assert!(crate::exit::is_closed_pipe(&error), "{room}: {error:?}");
        }
        written(usize::MAX).unwrap();
    }
}
