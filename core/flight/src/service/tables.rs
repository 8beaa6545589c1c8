//! Files as tables: Parquet, Arrow and CSV files, and directories of them, as batches of their rows.

mod arrow;
mod batches;
mod csv;
mod file;
mod members;
mod parquet;
mod source;
mod tickets;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use edt::path::RelativePath;
use edt::{Error, ErrorKind, Result};

use super::info::Reading;
use super::root::Root;
use crate::contract::{Command, FileFacts};
use batches::{Encoder, Portions};
use file::{TableFile, Want};
use members::Members;

/// Columns that an error names at most: clients refuse long errors.
const SHOWN: usize = 20;

/// What is known of a table before it is read.
pub(super) struct Described {
    /// The chosen columns.
    pub(super) schema: SchemaRef,
    /// How many rows there are, if the files tell.
    pub(super) rows: Option<u64>,
    /// Bytes of the files.
    pub(super) bytes: u64,
    /// What to read each part with, in order.
    pub(super) tickets: Vec<Command>,
    /// What is known of the file, if it is one.
    pub(super) facts: Option<FileFacts>,
}

/// Looks at the files of a table without reading their rows.
pub(super) fn describe(root: &Root, command: &Command) -> Result<Described> {
    let members = Members::find(root, command)?;
    let plan = tickets::plan(root, command, &members)?;
    let columns = Columns::choose(&plan.schema, command)?;
    Ok(Described { schema: columns.schema, rows: plan.rows, bytes: plan.bytes, tickets: plan.tickets, facts: plan.facts })
}

/// Opens a table to read it.
pub(super) fn read(root: &Root, command: &Command) -> Result<Reading> {
    let members = Members::find(root, command)?;
    if command.batch_rows == Some(0) {
        return Err(
            Error::new(ErrorKind::InvalidInput, "could not read batches of no rows").with_hint("let `batch_rows` be at least 1")
        );
    }
    let mut files = members.wanted(root, command)?.into_iter();
    let (first, version) = files.next().ok_or_else(|| members::none(&command.path))?;
    let opened = TableFile::open(root, &first, members.kind, version.as_deref())?;
    let columns = Columns::choose(&opened.schema(), command)?;
    let group = opened.group(command.row_group)?;
    let [skip, take] = command.rows.unwrap_or([0, u64::MAX]);
    let (schema, limit) = (SchemaRef::clone(&columns.schema), command.batch_rows);
    let rows = Rows {
        read: Arc::clone(&root.read),
        expected: (first, opened.schema()),
        waiting: Some(opened),
        files,
        kind: members.kind,
        columns,
        group,
        limit: limit.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX)),
        skip,
        take,
        current: None,
    };
    let encoder = Encoder::new(SchemaRef::clone(&schema), Portions::new(Box::new(rows), limit));
    Ok(Reading { schema, first: encoder.beginning(), end: Some(encoder.closing()?), feed: Box::new(encoder) })
}

/// The columns that are read, and how they come into the order that was asked for.
struct Columns {
    /// As they were asked for.
    schema: SchemaRef,
    /// Their places in the file, in its order; `None` reads all.
    places: Option<Vec<usize>>,
    /// For each that was asked for, its place among those that are read.
    order: Vec<usize>,
}

impl Columns {
    fn choose(schema: &SchemaRef, command: &Command) -> Result<Self> {
        let Some(names) = &command.columns else {
            return Ok(Self { schema: SchemaRef::clone(schema), places: None, order: Vec::new() });
        };
        let place = |name: &String| {
            schema.index_of(name).map_err(|_| {
                let mut known: Vec<String> =
                    schema.fields().iter().take(SHOWN).map(|field| format!("`{}`", field.name())).collect();
                if schema.fields().len() > SHOWN {
                    known.push(format!("and {} others", schema.fields().len() - SHOWN));
                }
                Error::new(ErrorKind::InvalidInput, format!("could not find the column `{name}` of `{}`", command.path))
                    .with_hint(format!("its columns are {}", known.join(", ")))
            })
        };
        let wanted = names.iter().map(place).collect::<Result<Vec<usize>>>()?;
        let mut places = wanted.clone();
        places.sort_unstable();
        places.dedup();
        let order = wanted.iter().filter_map(|place| places.binary_search(place).ok()).collect();
        let schema = schema.project(&wanted).map_err(|cause| unreadable(&command.path, &cause))?;
        Ok(Self { schema: Arc::new(schema), places: Some(places), order })
    }

    /// Brings what was read into the order that was asked for.
    fn ordered(&self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let columns = match self.places {
            None => batch.columns().to_vec(),
            Some(_) => self.order.iter().filter_map(|place| batch.columns().get(*place).cloned()).collect(),
        };
        let rows = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &rows).map_err(|cause| cause.to_string())
    }
}

/// The rows of one file after the other.
struct Rows {
    read: Arc<dyn edt::store::Store>,
    /// The first file and its columns, which all others must have.
    expected: (RelativePath, SchemaRef),
    /// A file that is open and not begun.
    waiting: Option<TableFile>,
    /// Further files, each with the version that it must have.
    files: std::vec::IntoIter<(RelativePath, Option<String>)>,
    kind: Option<crate::contract::Kind>,
    columns: Columns,
    group: Option<usize>,
    /// Most rows of a batch.
    limit: Option<usize>,
    /// Rows that are still to be left out, and then to be read.
    skip: u64,
    take: u64,
    current: Option<(RelativePath, file::Batches)>,
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        while self.take > 0 {
            let batch = match &mut self.current {
                Some((_, batches)) => batches.next(),
                None => match self.begin() {
                    Ok(true) => continue,
                    Ok(false) => return None,
                    Err(error) => return Some(Err(self.ended(error))),
                },
            };
            match batch {
                None => self.current = None,
                Some(Err(error)) => return Some(Err(self.ended(error))),
                Some(Ok(batch)) => {
                    if let Some(cut) = batches::cut(&batch, &mut self.skip, &mut self.take) {
                        return Some(self.told(&cut));
                    }
                }
            }
        }
        None
    }
}

impl Rows {
    /// Begins with the next file; false if there is none.
    fn begin(&mut self) -> Result<bool> {
        let opened = match self.waiting.take() {
            Some(opened) => opened,
            None => match self.files.next() {
                Some((path, version)) => TableFile::open_in(self.read.as_ref(), &path, self.kind, version.as_deref())?,
                None => return Ok(false),
            },
        };
        members::check_columns(&self.expected, opened.path(), &opened.schema())?;
        let known = opened.rows(self.group);
        if let Some(rows) = known.filter(|rows| *rows <= self.skip) {
            self.skip -= rows;
            return Ok(true);
        }
        // What knows its rows leaves them out by itself, without decoding them.
        let skip = if known.is_some() { std::mem::take(&mut self.skip) } else { 0 };
        let want = Want {
            places: self.columns.places.clone(),
            group: self.group,
            skip,
            take: if known.is_some() { self.take } else { u64::MAX },
            batch_rows: self.limit,
        };
        let path = opened.path().clone();
        self.current = Some((path, opened.batches(want)?));
        Ok(true)
    }

    fn told(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.columns.ordered(batch).map_err(|cause| {
            let path = self.current.as_ref().map(|(path, _)| path.to_string()).unwrap_or_default();
            self.ended(unreadable(&path, &cause))
        })
    }

    /// Nothing comes behind an error.
    fn ended(&mut self, error: Error) -> Error {
        self.take = 0;
        error
    }
}

/// A table that is not what its name says, or is damaged.
fn unreadable(path: &str, cause: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("could not read the table `{path}`"))
        .with_cause(cause)
        .with_hint(r#"to look at it, read it as bytes: `?as=bytes` in a flight:// URL, `"as": "bytes"` in a command"#)
}
