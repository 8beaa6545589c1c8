//! One file of a table, of any kind.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use edt::path::RelativePath;
use edt::store::{Entry, Store};
use edt::{Error, ErrorKind, Result};

use super::arrow::ArrowFile;
use super::csv::CsvFile;
use super::parquet::ParquetFile;
use super::source::Source;
use super::unreadable;
use crate::contract::Kind;
use crate::service::root::{Opened, Root, open_in};

/// The batches of a file.
pub(super) type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// What is read of a file.
pub(super) struct Want {
    /// The places of the columns, in the order of the file; `None` is all.
    pub(super) places: Option<Vec<usize>>,
    /// The only row group.
    pub(super) group: Option<usize>,
    /// Rows that are left out, and rows that are read behind them.
    pub(super) skip: u64,
    pub(super) take: u64,
    /// Most rows of a batch.
    pub(super) batch_rows: Option<usize>,
}

/// An open file.
pub(super) struct TableFile {
    path: RelativePath,
    pub(super) entry: Entry,
    pub(super) version: String,
    content: Content,
}

enum Content {
    Parquet(ParquetFile),
    Arrow(ArrowFile),
    Csv(CsvFile),
}

impl TableFile {
    /// Opens a file; its own first bytes say its kind where `kind` does not.
    pub(super) fn open(root: &Root, path: &RelativePath, kind: Option<Kind>, version: Option<&str>) -> Result<Self> {
        Self::open_in(root.read.as_ref(), path, kind, version)
    }

    /// Opens a file of a store.
    pub(super) fn open_in(store: &dyn Store, path: &RelativePath, kind: Option<Kind>, version: Option<&str>) -> Result<Self> {
        let Opened { reader, entry, version } = open_in(store, path, version)?;
        let source = Source::new(reader, entry.size);
        let kind = match kind {
            Some(kind) => kind,
            None => kind_of(&source).ok_or_else(|| {
                unreadable(&path.to_string(), &"neither its name nor its beginning says that it is Parquet, Arrow or CSV")
            })?,
        };
        let failed = |cause: String| unreadable(&path.to_string(), &cause);
        let content = match kind {
            Kind::Parquet => Content::Parquet(ParquetFile::open(source).map_err(failed)?),
            Kind::Arrow => Content::Arrow(ArrowFile::open(source).map_err(failed)?),
            Kind::Csv => Content::Csv(CsvFile::open(source).map_err(failed)?),
        };
        Ok(Self { path: path.clone(), entry, version, content })
    }

    pub(super) fn path(&self) -> &RelativePath {
        &self.path
    }

    pub(super) fn schema(&self) -> SchemaRef {
        match &self.content {
            Content::Parquet(file) => file.schema(),
            Content::Arrow(file) => file.schema(),
            Content::Csv(file) => file.schema(),
        }
    }

    /// Rows of each row group; none where there are no groups.
    pub(super) fn groups(&self) -> Vec<u64> {
        match &self.content {
            Content::Parquet(file) => file.groups(),
            _ => Vec::new(),
        }
    }

    /// The row group that a command names, if it does and there is one.
    pub(super) fn group(&self, named: Option<u32>) -> Result<Option<usize>> {
        let Some(named) = named else { return Ok(None) };
        let count = self.groups().len();
        let group = usize::try_from(named).unwrap_or(usize::MAX);
        if group < count {
            return Ok(Some(group));
        }
        Err(Error::new(ErrorKind::InvalidInput, format!("could not read row group {named} of `{}`", self.path))
            .with_cause(format!("it has {count}"))
            .with_hint("only Parquet files have row groups, counted from 0"))
    }

    /// Rows of the file or of one of its groups, if it tells.
    pub(super) fn rows(&self, group: Option<usize>) -> Option<u64> {
        match &self.content {
            Content::Parquet(file) => Some(file.rows(group)),
            Content::Arrow(file) => Some(file.rows()),
            Content::Csv(_) => None,
        }
    }

    /// Reads the rows.
    pub(super) fn batches(self, want: Want) -> Result<Batches> {
        let path = self.path.to_string();
        let batches = match self.content {
            Content::Parquet(file) => file.batches(want),
            Content::Arrow(file) => file.batches(want),
            Content::Csv(file) => file.batches(want),
        };
        let batches = batches.map_err(|cause| unreadable(&path, &cause))?;
        Ok(Box::new(batches.map(move |batch| batch.map_err(|cause| unreadable(&path, &cause)))))
    }
}

/// Batches as the readers of each kind make them.
pub(super) type Raw = Box<dyn Iterator<Item = Result<RecordBatch, String>> + Send>;

/// The kind that the first bytes of a file say.
fn kind_of(source: &Source) -> Option<Kind> {
    let first = source.exact(0, 6).ok()?;
    match first.as_slice() {
        [b'P', b'A', b'R', b'1', ..] => Some(Kind::Parquet),
        // An Arrow file, or a stream, which begins with a mark and the length of its first message.
        b"ARROW1" | [0xff, 0xff, 0xff, 0xff, ..] => Some(Kind::Arrow),
        _ => None,
    }
}
