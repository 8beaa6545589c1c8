//! The tables of the history as they are read: their columns, and rows of cells.

use rusqlite::types::ValueRef;
use rusqlite::{Row, params};

use super::History;
use crate::error::Result;

/// Rows that are read at a time: nothing of the database is held while they are used.
const AT_ONCE: usize = 1000;

/// What stands for the column `label` of an imported row, which its table does not have.
const LABEL: &str = "(SELECT label FROM imports WHERE imports.id = imported.import)";

/// A table of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// One row a transfer.
    Transfers,
    /// One row an interval of a transfer.
    Intervals,
    /// One row a decision of a transfer, with its reason.
    Decisions,
    /// One row a transfer of another tool.
    Imported,
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What its cells hold, where they hold anything.
    pub kind: ColumnKind,
}

/// What the cells of a column hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers.
    Integer,
    /// Numbers.
    Real,
    /// Text.
    Text,
    /// True or false.
    Boolean,
}

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Not known, or no limit.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(String),
    /// True or false.
    Boolean(bool),
}

/// Where a row stands in its table: whose it is, and its number among those.
pub type Place = (i64, i64);

/// Rows of a table that follow each other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Where the last of them stands; `None` if none follow.
    pub last: Option<Place>,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 4] = [Self::Transfers, Self::Intervals, Self::Decisions, Self::Imported];

    /// The name in the database and of arguments.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transfers => "transfers",
            Self::Intervals => "intervals",
            Self::Decisions => "decisions",
            Self::Imported => "imported",
        }
    }

    /// The table of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// The columns, in their order.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Transfers => &TRANSFERS,
            Self::Intervals => &INTERVALS,
            Self::Decisions => &DECISIONS,
            Self::Imported => &IMPORTED,
        }
    }

    /// The columns that tell whose a row is, and its place among those.
    fn key(self) -> [&'static str; 2] {
        match self {
            Self::Transfers => ["id", "id"],
            Self::Intervals | Self::Decisions => ["transfer", "number"],
            Self::Imported => ["import", "number"],
        }
    }
}

impl History {
    /// Hands over the rows of a table one by one, each with a cell for each column: all, or those of one transfer (of one import).
    ///
    /// The database is not held meanwhile, however long that takes: what is written or removed by then is seen, or seen no more.
    pub fn rows(&self, table: Table, of: Option<i64>, mut each: impl FnMut(Vec<Cell>) -> Result<()>) -> Result<()> {
        let mut after = None;
        loop {
            let page = self.page(table, of, after, AT_ONCE)?;
            page.rows.into_iter().try_for_each(&mut each)?;
            after = page.last;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Rows of a table, `most` of them at most: from its beginning, or those that follow a place.
    pub fn page(&self, table: Table, of: Option<i64>, after: Option<Place>, most: usize) -> Result<Page> {
        self.read_page(table, of, after.unwrap_or((i64::MIN, i64::MIN)), most).map_err(|cause| self.unread(&cause))
    }

    fn read_page(&self, table: Table, of: Option<i64>, after: Place, most: usize) -> rusqlite::Result<Page> {
        let (columns, [owner, number]) = (table.columns(), table.key());
        let names: Vec<&str> = columns.iter().map(|column| if column.name == "label" { LABEL } else { column.name }).collect();
        let chosen = match of {
            Some(_) => format!("{owner} = ?1 AND {number} > ?2"),
            None => format!("({owner}, {number}) > (?1, ?2)"),
        };
        let (names, table) = (names.join(", "), table.name());
        let sql = format!("SELECT {names}, {owner}, {number} FROM {table} WHERE {chosen} ORDER BY {owner}, {number} LIMIT ?3");
        let mut statement = self.connection.prepare(&sql)?;
        let mut rows = statement.query(params![of.unwrap_or(after.0), after.1, i64::try_from(most).unwrap_or(i64::MAX)])?;
        let mut page = Page::default();
        while let Some(row) = rows.next()? {
            page.rows.push(cells(columns, row)?);
            if page.rows.len() == most {
                page.last = Some((row.get(columns.len())?, row.get(columns.len() + 1)?));
            }
        }
        Ok(page)
    }

    /// The newest transfers, newest first.
    pub fn newest(&self, most: usize) -> Result<Vec<i64>> {
        let failed = |cause: rusqlite::Error| self.unread(&cause);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut statement =
            self.connection.prepare("SELECT id FROM transfers ORDER BY began_s DESC, id DESC LIMIT ?1").map_err(failed)?;
        let ids = statement.query_map([most], |row| row.get(0)).map_err(failed)?;
        ids.collect::<rusqlite::Result<_>>().map_err(failed)
    }

    /// How many rows a table has.
    pub fn count(&self, table: Table) -> Result<u64> {
        let sql = format!("SELECT count(*) FROM {}", table.name());
        self.connection.query_row(&sql, [], |row| row.get(0)).map_err(|cause| self.unread(&cause))
    }
}

fn cells(columns: &[Column], row: &Row<'_>) -> rusqlite::Result<Vec<Cell>> {
    columns.iter().enumerate().map(|(at, column)| Ok(cell(column.kind, row.get_ref(at)?))).collect()
}

fn cell(kind: ColumnKind, value: ValueRef<'_>) -> Cell {
    match (kind, value) {
        (ColumnKind::Boolean, ValueRef::Integer(number)) => Cell::Boolean(number != 0),
        (ColumnKind::Real, ValueRef::Integer(number)) => Cell::Real(number as f64),
        (_, ValueRef::Integer(number)) => Cell::Integer(number),
        (_, ValueRef::Real(number)) => Cell::Real(number),
        (_, ValueRef::Text(text)) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        (_, ValueRef::Null | ValueRef::Blob(_)) => Cell::Null,
    }
}

const fn integer(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Integer }
}

const fn real(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Real }
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Text }
}

const fn boolean(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Boolean }
}

const TRANSFERS: [Column; 35] = [
    integer("id"),
    real("began_s"),
    real("ended_s"),
    text("version"),
    text("source"),
    text("destination"),
    text("source_name"),
    text("destination_name"),
    text("optimizer"),
    text("policy"),
    text("options"),
    real("rtt_s"),
    real("bandwidth"),
    integer("tcp_buffer"),
    integer("mtu"),
    text("outcome"),
    text("error"),
    real("elapsed_s"),
    integer("files_done"),
    integer("files_skipped"),
    integer("others_done"),
    integer("failed"),
    integer("removed"),
    integer("bytes_done"),
    integer("bytes_skipped"),
    integer("bytes_resumed"),
    integer("bytes_sent"),
    integer("bytes_verified"),
    integer("retries"),
    integer("listed_files"),
    integer("listed_bytes"),
    boolean("listed_complete"),
    text("size_classes"),
    text("bottleneck"),
    boolean("rate_limited"),
];

const INTERVALS: [Column; 21] = [
    integer("transfer"),
    integer("number"),
    real("elapsed_s"),
    real("interval_s"),
    real("read_concurrency"),
    real("network_concurrency"),
    real("write_concurrency"),
    integer("parallelism"),
    integer("pipelining"),
    real("read_throughput"),
    real("network_throughput"),
    real("write_throughput"),
    real("read_busy"),
    real("network_busy"),
    real("write_busy"),
    real("rtt_s"),
    real("loss"),
    integer("files_done"),
    integer("bytes_verified"),
    text("bottleneck"),
    boolean("judged"),
];

const DECISIONS: [Column; 9] = [
    integer("transfer"),
    integer("number"),
    real("elapsed_s"),
    integer("read_concurrency"),
    integer("network_concurrency"),
    integer("write_concurrency"),
    integer("parallelism"),
    integer("pipelining"),
    text("reason"),
];

const IMPORTED: [Column; 15] = [
    integer("import"),
    text("label"),
    integer("number"),
    real("began_s"),
    text("source"),
    text("destination"),
    real("bandwidth"),
    real("rtt_s"),
    real("tcp_buffer"),
    integer("files"),
    integer("bytes"),
    integer("concurrency"),
    integer("parallelism"),
    integer("pipelining"),
    real("throughput"),
];
