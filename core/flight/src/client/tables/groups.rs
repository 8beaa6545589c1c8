//! How edt writes Parquet files, and how it puts them together without encoding anything anew.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use edt::Result;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use tempfile::NamedTempFile;

use super::file_error;

/// Rows of a row group at most.
const ROWS: usize = 1 << 20;

/// Zstandard, with row groups of about `group` bytes.
pub(super) fn properties(group: usize) -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROWS))
        .set_max_row_group_bytes(Some(group.max(1)))
        .set_created_by(concat!("edt ", env!("CARGO_PKG_VERSION")).to_owned())
        .build()
}

/// Copies the row groups of files with one schema, in order, into one file.
pub(super) fn join(inputs: &[(&Path, File)], file: &NamedTempFile) -> Result<()> {
    let failed = |cause: ParquetError| file_error(file.path(), "put together", &cause);
    let mut writer: Option<SerializedFileWriter<File>> = None;
    for (path, input) in inputs {
        let metadata = ParquetMetaDataReader::new()
            .with_page_index_policy(PageIndexPolicy::Optional)
            .parse_and_finish(input)
            .map_err(|cause| file_error(path, "read", &cause))?;
        if writer.is_none() {
            let output = file.reopen().map_err(|cause| file_error(file.path(), "write", &cause))?;
            writer = Some(begin(output, &metadata).map_err(failed)?);
        }
        if let Some(writer) = &mut writer {
            append(writer, input, &metadata).map_err(failed)?;
        }
    }
    writer.map_or(Ok(()), |writer| writer.close().map(drop).map_err(failed))
}

fn begin(output: File, first: &ParquetMetaData) -> std::result::Result<SerializedFileWriter<File>, ParquetError> {
    let described = first.file_metadata();
    let schema = described.schema_descr().root_schema_ptr();
    let mut writer = SerializedFileWriter::new(output, schema, Arc::new(properties(ROWS)))?;
    // The schema of Arrow is among these.
    for pair in described.key_value_metadata().into_iter().flatten() {
        writer.append_key_value_metadata(pair.clone());
    }
    Ok(writer)
}

fn append(
    writer: &mut SerializedFileWriter<File>,
    input: &File,
    metadata: &ParquetMetaData,
) -> std::result::Result<(), ParquetError> {
    let pages = metadata.page_index();
    for (group, described) in metadata.row_groups().iter().enumerate() {
        let mut output = writer.next_row_group()?;
        for (index, column) in described.columns().iter().enumerate() {
            let close = ColumnCloseResult {
                bytes_written: u64::try_from(column.compressed_size()).unwrap_or(0),
                rows_written: u64::try_from(described.num_rows()).unwrap_or(0),
                metadata: column.clone(),
                bloom_filter: None,
                column_index: pages.and_then(|pages| pages.column_index(group, index)).cloned(),
                offset_index: pages.and_then(|pages| pages.offset_index(group, index)).cloned(),
            };
            output.append_column(input, close)?;
        }
        output.close()?;
    }
    Ok(())
}
