//! `edt history export`: a table as Parquet, CSV or JSON lines.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};

use edt::history::{Cell, History, Table};
use edt::{Error, ErrorKind};
use serde_json::Value;

use super::list::object;
use crate::args::{FormatArg, HistoryExportArgs};
use crate::exit::Exit;

pub(crate) fn run(args: &HistoryExportArgs) -> anyhow::Result<Exit> {
    if args.format == FormatArg::Parquet && args.output.is_none() && io::stdout().is_terminal() {
        let refused = Error::new(ErrorKind::InvalidInput, "Parquet is nothing to be shown in a terminal");
        return Err(refused.with_hint("name a file with --output FILE").into());
    }
    let history = History::open_if_there()?;
    let table = Table::from(args.table);
    let mut out: Box<dyn Write + Send> = match &args.output {
        Some(path) => Box::new(BufWriter::new(File::create(path).map_err(|cause| {
            Error::new(ErrorKind::InvalidInput, format!("could not create `{}`", path.display()))
                .with_cause(cause)
                .with_hint("name a file that can be written, in a directory that exists")
        })?)),
        None => Box::new(BufWriter::new(io::stdout())),
    };
    let rows = |each: &mut dyn FnMut(Vec<Cell>) -> anyhow::Result<()>| match &history {
        Some(history) => each_row(history, table, args.id, each),
        None => Ok(()),
    };
    match args.format {
        FormatArg::Json => rows(&mut |cells| Ok(writeln!(out, "{}", Value::Object(object(table, cells)))?))?,
        FormatArg::Csv => write_csv(&mut out, table, rows)?,
        FormatArg::Parquet => write_parquet(&mut out, table, rows)?,
    }
    out.flush()?;
    Ok(Exit::Complete)
}

/// Hands over rows as long as they can be written; the first failure of writing is the error.
fn each_row(
    history: &History,
    table: Table,
    id: Option<i64>,
    each: &mut dyn FnMut(Vec<Cell>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut unwritten = Ok(());
    let read = history.rows(table, id, |cells| {
        each(cells).map_err(|error| {
            unwritten = Err(error);
            Error::new(ErrorKind::Io, "could not write a row")
        })
    });
    unwritten?;
    Ok(read?)
}

/// A CSV file with a header; what is not known is empty.
fn write_csv(
    out: &mut (dyn Write + Send),
    table: Table,
    rows: impl Fn(&mut dyn FnMut(Vec<Cell>) -> anyhow::Result<()>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(table.columns().iter().map(|column| column.name)).map_err(io_error)?;
    rows(&mut |cells| writer.write_record(cells.iter().map(text)).map_err(io_error))?;
    Ok(writer.flush()?)
}

/// The cause of a failure to write, so that a reader that went away is seen as such.
fn io_error(error: csv::Error) -> anyhow::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(cause) => cause.into(),
        other => anyhow::anyhow!("could not write a row: {other:?}"),
    }
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => number.to_string(),
        Cell::Boolean(is) => is.to_string(),
        Cell::Text(text) => text.clone(),
    }
}

#[cfg(feature = "parquet")]
fn write_parquet(
    out: &mut (dyn Write + Send),
    table: Table,
    rows: impl Fn(&mut dyn FnMut(Vec<Cell>) -> anyhow::Result<()>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut writer = super::parquet::Writer::new(out, table)?;
    rows(&mut |cells| writer.add(cells))?;
    writer.finish()
}

#[cfg(not(feature = "parquet"))]
fn write_parquet(
    _: &mut (dyn Write + Send),
    _: Table,
    _: impl Fn(&mut dyn FnMut(Vec<Cell>) -> anyhow::Result<()>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    Err(Error::new(ErrorKind::Unsupported, "this build of edt writes no Parquet")
        .with_hint("build it with `--features parquet`, or export CSV, or use `edt.history` in Python")
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_csv_file_has_a_header_and_nothing_where_nothing_is_known() {
        let mut out = Vec::new();
        let mut cells = vec![Cell::Null; Table::Decisions.columns().len()];
        cells[0] = Cell::Integer(3);
        cells[2] = Cell::Real(0.5);
        cells[8] = Cell::Text("more, \"why\"".to_owned());
        write_csv(&mut out, Table::Decisions, |each| each(cells.clone())).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("transfer,number,elapsed_s,") && lines[0].ends_with(",reason"));
        assert_eq!(lines[1], "3,,0.5,,,,,,\"more, \"\"why\"\"\"");
        assert_eq!(lines.len(), 2);
    }
}
