//! Parquet files: columns that are not asked for, and rows before the first one, are not decoded.

use arrow_schema::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::RowGroupMetaData;

use super::batches::{BATCH_BYTES, MOST_ROWS};
use super::file::{Raw, Want};
use super::source::Source;

/// An open Parquet file.
pub(super) struct ParquetFile {
    source: Source,
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    pub(super) fn open(source: Source) -> Result<Self, String> {
        let metadata = ArrowReaderMetadata::load(&source, ArrowReaderOptions::new()).map_err(|cause| cause.to_string())?;
        Ok(Self { source, metadata })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(self.metadata.schema())
    }

    pub(super) fn groups(&self) -> Vec<u64> {
        self.metadata.metadata().row_groups().iter().map(rows_of).collect()
    }

    pub(super) fn rows(&self, group: Option<usize>) -> u64 {
        let groups = self.groups();
        group.map_or_else(
            || groups.iter().fold(0, |sum, rows| rows.saturating_add(sum)),
            |group| groups.get(group).copied().unwrap_or(0),
        )
    }

    pub(super) fn batches(self, want: Want) -> Result<Raw, String> {
        let batch_rows = want.batch_rows.unwrap_or(usize::MAX).min(self.usual_rows(want.places.as_deref()));
        let rows = self.rows(want.group);
        let (skip, take) = (want.skip.min(rows), want.take.min(rows - want.skip.min(rows)));
        let mut builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.source, self.metadata).with_batch_size(batch_rows.max(1));
        if skip > 0 || take < rows {
            let index = |rows: u64| usize::try_from(rows).map_err(|cause| cause.to_string());
            builder = builder.with_offset(index(skip)?).with_limit(index(take)?);
        }
        if let Some(group) = want.group {
            builder = builder.with_row_groups(vec![group]);
        }
        if let Some(places) = want.places {
            let mask = ProjectionMask::roots(builder.parquet_schema(), places);
            builder = builder.with_projection(mask);
        }
        let reader = builder.build().map_err(|cause| cause.to_string())?;
        Ok(Box::new(reader.map(|batch| batch.map_err(|cause| cause.to_string()))))
    }

    /// How many rows make a batch of about the usual size, by what the columns take before they are compressed.
    fn usual_rows(&self, places: Option<&[usize]>) -> usize {
        let schema = self.metadata.parquet_schema();
        let chosen = |column: usize| places.is_none_or(|places| places.contains(&schema.get_column_root_idx(column)));
        let groups = self.metadata.metadata().row_groups();
        let columns = |group: &RowGroupMetaData| {
            let sizes = group.columns().iter().enumerate().filter(|(column, _)| chosen(*column));
            sizes.map(|(_, column)| u64::try_from(column.uncompressed_size()).unwrap_or(0)).fold(0, u64::saturating_add)
        };
        let (bytes, rows) = groups
            .iter()
            .fold((0, 0), |(bytes, rows), group| (columns(group).saturating_add(bytes), rows_of(group).saturating_add(rows)));
        let each = (bytes / rows.max(1)).max(1);
        usize::try_from(BATCH_BYTES as u64 / each).unwrap_or(MOST_ROWS).clamp(1, MOST_ROWS)
    }
}

fn rows_of(group: &RowGroupMetaData) -> u64 {
    u64::try_from(group.num_rows()).unwrap_or(0)
}
