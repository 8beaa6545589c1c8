//! `edt history export`: a table as Parquet, CSV or JSON lines.

use std::io::{self, BufWriter, IsTerminal as _, Write};

use edt::history::{Cell, History, Table};
use edt::{Error, ErrorKind, whole_file};
use serde_json::Value;

use super::list::object;
use crate::args::{FormatArg, HistoryExportArgs};
use crate::exit::Exit;
use crate::terminal::Stdout;

pub(crate) fn run(args: &HistoryExportArgs) -> anyhow::Result<Exit> {
    if args.format == FormatArg::Parquet && args.output.is_none() && io::stdout().is_terminal() {
        let refused = Error::new(ErrorKind::InvalidInput, "Parquet is nothing to be shown in a terminal");
        return Err(refused.with_hint("name a file with --output FILE").into());
    }
    let rows = Rows { history: History::open_to_read()?, table: args.table.into(), id: args.id };
    match &args.output {
        Some(path) => whole_file::write(path, |out| write(out, &rows, args.format))?,
        None => write(&mut BufWriter::new(Stdout), &rows, args.format)?,
    }
    Ok(Exit::Complete)
}

fn write(out: &mut (dyn Write + Send), rows: &Rows, format: FormatArg) -> anyhow::Result<()> {
    match format {
        FormatArg::Json => write_json(out, rows)?,
        FormatArg::Csv => write_csv(out, rows)?,
        FormatArg::Parquet => write_parquet(out, rows)?,
    }
    Ok(out.flush()?)
}

/// What is exported.
struct Rows {
    history: Option<History>,
    table: Table,
    /// Only those of this transfer.
    id: Option<i64>,
}

impl Rows {
    /// Hands over rows as long as they can be written; the first failure of writing is the error.
    fn each(&self, each: &mut dyn FnMut(Vec<Cell>) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let Some(history) = &self.history else { return Ok(()) };
        let mut unwritten = Ok(());
        let read = history.rows(self.table, self.id, |cells| {
            each(cells).map_err(|error| {
                unwritten = Err(error);
                Error::new(ErrorKind::Io, "could not write a row")
            })
        });
        unwritten?;
        Ok(read?)
    }
}

/// One object per row and line.
fn write_json(out: &mut (dyn Write + Send), rows: &Rows) -> anyhow::Result<()> {
    rows.each(&mut |cells| Ok(writeln!(out, "{}", Value::Object(object(rows.table, cells)))?))
}

/// A CSV file with a header; what is not known is empty.
fn write_csv(out: &mut (dyn Write + Send), rows: &Rows) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(rows.table.columns().iter().map(|column| column.name)).map_err(io_error)?;
    rows.each(&mut |cells| writer.write_record(cells.iter().map(text)).map_err(io_error))?;
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
fn write_parquet(out: &mut (dyn Write + Send), rows: &Rows) -> anyhow::Result<()> {
    let mut writer = super::parquet::Writer::new(out, rows.table)?;
    rows.each(&mut |cells| writer.add(cells))?;
    writer.finish()
}

#[cfg(not(feature = "parquet"))]
fn write_parquet(_: &mut (dyn Write + Send), _: &Rows) -> anyhow::Result<()> {
    Err(Error::new(ErrorKind::Unsupported, "this build of edt writes no Parquet")
        .with_hint("build it with `--features parquet`, or export CSV, or use `edt.history` in Python")
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "start_s,source,files,bytes,concurrency,throughput_bytes_per_s\n1.5,\"a, \"\"b\"\"\",2,300,4,5e8\n";

    fn rows(directory: &tempfile::TempDir) -> Rows {
        let (file, log) = (directory.path().join("history.db"), directory.path().join("log.csv"));
        std::fs::write(&log, LOG).unwrap();
        let mut history = History::open_at(&file).unwrap();
        history.import(&log, "log").unwrap();
        Rows { history: Some(history), table: Table::Imported, id: None }
    }

    #[test]
    fn a_csv_file_has_a_header_and_nothing_where_nothing_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        write_csv(&mut out, &rows(&directory)).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("import,label,number,began_s,") && lines[0].ends_with(",throughput"));
        assert_eq!(lines[1..], ["1,log,0,1.5,\"a, \"\"b\"\"\",,,,,2,300,4,1,1,500000000"]);
    }

    #[test]
    fn a_json_line_has_every_column() {
        let directory = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        write_json(&mut out, &rows(&directory)).unwrap();
        let line: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(line.as_object().unwrap().len(), Table::Imported.columns().len());
        assert_eq!((&line["source"], &line["rtt_s"]), (&Value::from("a, \"b\""), &Value::Null));
    }

    #[test]
    fn what_cannot_be_written_ends_the_export_with_its_cause() {
        let directory = tempfile::tempdir().unwrap();
        let error = rows(&directory).each(&mut |_| Err(io::Error::from(io::ErrorKind::BrokenPipe).into())).unwrap_err();
        assert!(crate::exit::is_closed_pipe(&error), "{error:?}");
    }
}
