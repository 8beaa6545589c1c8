//! Past transfers, and where explored paths, trained agents and knowledge are kept.

use std::path::PathBuf;

use edt::history::{Cell, ColumnKind, History, Imported, Page, Place, Table};
use edt::{Endpoint, Error, ErrorKind, history};
use pyo3::prelude::*;

use crate::error::{detached, raised};

/// Rows that are handed over at a time.
const AT_ONCE: usize = 8192;

/// Name, kind and values of each column.
type Columns<'py> = Vec<(&'static str, &'static str, Vec<Bound<'py, PyAny>>)>;

#[pyfunction]
pub(crate) fn path_file(py: Python<'_>, source: &str, destination: &str, stages: u8) -> PyResult<PathBuf> {
    history::path_file(&Endpoint::new(source), &Endpoint::new(destination), stages).map_err(|error| raised(py, &error))
}

#[pyfunction]
pub(crate) fn agent_file(py: Python<'_>, source: &str, destination: &str, kind: &str) -> PyResult<PathBuf> {
    history::agent_file(&Endpoint::new(source), &Endpoint::new(destination), kind).map_err(|error| raised(py, &error))
}

#[pyfunction]
pub(crate) fn knowledge_file(py: Python<'_>) -> PyResult<PathBuf> {
    history::knowledge_file().map_err(|error| raised(py, &error))
}

#[pyfunction]
pub(crate) fn history_file(py: Python<'_>) -> PyResult<PathBuf> {
    history::database_file().map_err(|error| raised(py, &error))
}

#[pyfunction]
#[pyo3(signature = (table, id=None, after=None))]
pub(crate) fn history_batch<'py>(
    py: Python<'py>,
    table: &str,
    id: Option<i64>,
    after: Option<Place>,
) -> PyResult<(Columns<'py>, Option<Place>)> {
    let (table, page) = detached(py, || page(table, id, after))?;
    let mut columns: Columns<'py> =
        table.columns().iter().map(|column| (column.name, kind(column.kind), Vec::with_capacity(page.rows.len()))).collect();
    for row in page.rows {
        for (column, cell) in columns.iter_mut().zip(row) {
            column.2.push(value(py, cell)?);
        }
    }
    Ok((columns, page.last))
}

#[pyfunction]
pub(crate) fn history_pasts(py: Python<'_>, source: &str, destination: &str) -> PyResult<String> {
    let pasts = detached(py, || history::pasts(&Endpoint::new(source), &Endpoint::new(destination)))?;
    Ok(serde_json::to_string(&pasts).expect("past transfers hold only numbers and text"))
}

#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "it comes from Python")]
pub(crate) fn history_import(py: Python<'_>, file: PathBuf, label: &str) -> PyResult<Option<u64>> {
    detached(py, || match History::open()?.import(&file, label)? {
        Imported::Rows(rows) => Ok(Some(rows)),
        Imported::Before => Ok(None),
    })
}

/// The table of a name, and rows of it; none where there is no history.
fn page(table: &str, id: Option<i64>, after: Option<Place>) -> edt::Result<(Table, Page)> {
    let table = Table::named(table)
        .ok_or_else(|| Error::new(ErrorKind::InvalidInput, format!("there is no table `{table}` in the history")))?;
    let page = match History::open_to_read()? {
        Some(history) => history.page(table, id, after, AT_ONCE)?,
        None => Page::default(),
    };
    Ok((table, page))
}

fn kind(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Integer => "int64",
        ColumnKind::Real => "float64",
        ColumnKind::Text => "string",
        ColumnKind::Boolean => "bool",
    }
}

fn value(py: Python<'_>, cell: Cell) -> PyResult<Bound<'_, PyAny>> {
    Ok(match cell {
        Cell::Null => py.None().into_bound(py),
        Cell::Integer(number) => number.into_pyobject(py)?.into_any(),
        Cell::Real(number) => number.into_pyobject(py)?.into_any(),
        Cell::Text(text) => text.into_pyobject(py)?.into_any(),
        Cell::Boolean(is) => is.into_pyobject(py)?.to_owned().into_any(),
    })
}
