//! Rows of the history as a Parquet file.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use edt::history::{Cell, ColumnKind, Table};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
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
        let file = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties))?;
        Ok(Self { file, table, schema, rows: Vec::new() })
    }

    pub(super) fn add(&mut self, row: Vec<Cell>) -> anyhow::Result<()> {
        self.rows.push(row);
        if self.rows.len() >= BATCH { self.write() } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.write()?;
        self.file.close()?;
        Ok(())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let columns = self.table.columns().iter().enumerate();
        let arrays = columns.map(|(at, column)| array(column.kind, self.rows.iter().map(|row| &row[at])));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays.collect())?;
        self.rows.clear();
        Ok(self.file.write(&batch)?)
    }
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
