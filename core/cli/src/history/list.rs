//! `edt history list` and `edt history show`: past transfers for people, or as JSON.

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};

use edt::history::{Cell, History, Import, Table};
use edt::report::{human_bytes, human_count, human_rate};
use serde_json::{Map, Value, json};

use super::unknown;
use crate::args::{HistoryListArgs, HistoryShowArgs};
use crate::exit::Exit;
use crate::files::utc;
use crate::terminal::{Stdout, printable, say};

pub(crate) fn list(args: &HistoryListArgs) -> anyhow::Result<Exit> {
    let history = History::open_to_read()?;
    let newest = history.as_ref().map_or_else(|| Ok(Vec::new()), |history| history.newest(args.limit))?;
    let mut out = BufWriter::new(Stdout);
    for id in newest {
        let Some(row) = history.as_ref().map(|history| transfer(history, id)).transpose()?.flatten() else { continue };
        let text = if args.json { Value::Object(row).to_string() } else { line(&row) };
        writeln!(out, "{text}")?;
    }
    out.flush()?;
    if let (Some(history), false) = (&history, args.json) {
        say(&format!("{} kept", human_count(history.count(Table::Transfers)?, "transfer")));
        for import in history.imports()? {
            say(&imported(&import));
        }
    } else if !args.json {
        say("no transfer has left a record yet");
    }
    Ok(Exit::Complete)
}

pub(crate) fn show(args: &HistoryShowArgs) -> anyhow::Result<Exit> {
    let history = History::open_to_read()?.ok_or_else(|| unknown(args.id))?;
    let transfer = transfer(&history, args.id)?.ok_or_else(|| unknown(args.id))?;
    let (intervals, decisions) = (rows(&history, Table::Intervals, args.id)?, rows(&history, Table::Decisions, args.id)?);
    let text = if args.json {
        json!({"transfer": transfer, "intervals": intervals, "decisions": decisions}).to_string()
    } else {
        told(&transfer, &intervals, &decisions)
    };
    writeln!(Stdout, "{text}")?;
    Ok(Exit::Complete)
}

/// A row with its columns as keys; what is JSON in the database is JSON here too.
pub(super) fn object(table: Table, cells: Vec<Cell>) -> Map<String, Value> {
    let value = |name: &str, cell: Cell| match cell {
        Cell::Null => Value::Null,
        Cell::Integer(number) => number.into(),
        Cell::Real(number) => number.into(),
        Cell::Boolean(is) => is.into(),
        Cell::Text(text) if matches!(name, "options" | "size_classes") => serde_json::from_str(&text).unwrap_or(Value::Null),
        Cell::Text(text) => text.into(),
    };
    table.columns().iter().zip(cells).map(|(column, cell)| (column.name.to_owned(), value(column.name, cell))).collect()
}

fn transfer(history: &History, id: i64) -> edt::Result<Option<Map<String, Value>>> {
    let mut found = rows(history, Table::Transfers, id)?;
    Ok(found.pop())
}

fn rows(history: &History, table: Table, id: i64) -> edt::Result<Vec<Map<String, Value>>> {
    let mut found = Vec::new();
    history.rows(table, Some(id), |cells| {
        found.push(object(table, cells));
        Ok(())
    })?;
    Ok(found)
}

/// What one column of a row holds, as numbers and words for people need it.
fn number(row: &Map<String, Value>, name: &str) -> Option<f64> {
    row.get(name).and_then(Value::as_f64)
}

fn whole(row: &Map<String, Value>, name: &str) -> u64 {
    row.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn word<'a>(row: &'a Map<String, Value>, name: &str) -> &'a str {
    row.get(name).and_then(Value::as_str).unwrap_or("-")
}

fn began(row: &Map<String, Value>) -> String {
    #[allow(clippy::cast_possible_truncation)]
    let nanoseconds = (number(row, "began_s").unwrap_or(0.0) * 1e9) as i64;
    utc(nanoseconds)
}

fn rate(row: &Map<String, Value>) -> String {
    match number(row, "elapsed_s") {
        Some(elapsed) if elapsed > 0.0 => human_rate(whole(row, "bytes_done") as f64 / elapsed),
        _ => "-".to_owned(),
    }
}

fn line(row: &Map<String, Value>) -> String {
    printable(&format!(
        "{:>6}  {}  {} -> {}  {}  {} in {}  {}  {}",
        whole(row, "id"),
        began(row),
        word(row, "source"),
        word(row, "destination"),
        word(row, "optimizer"),
        human_bytes(whole(row, "bytes_done")),
        human_count(whole(row, "files_done"), "file"),
        rate(row),
        word(row, "outcome"),
    ))
}

fn imported(import: &Import) -> String {
    printable(&format!("{} of other tools imported as `{}`", human_count(import.rows, "transfer"), import.label))
}

/// All that is known of a transfer, for people.
fn told(transfer: &Map<String, Value>, intervals: &[Map<String, Value>], decisions: &[Map<String, Value>]) -> String {
    let mut text = String::new();
    for (name, value) in transfer.iter().filter(|(_, value)| !value.is_null()) {
        let value = value.as_str().map_or_else(|| value.to_string(), printable);
        let _ = writeln!(text, "{name:17} {value}");
    }
    let _ = writeln!(text, "{:17} {} UTC", "began", began(transfer));
    let _ = writeln!(text, "{:17} {}", "rate", rate(transfer));
    let _ = write!(text, "{:17} {}", "intervals", intervals.len());
    for decision in decisions {
        let at = number(decision, "elapsed_s").unwrap_or(0.0);
        let workers = ["read", "network", "write"].map(|stage| whole(decision, &format!("{stage}_concurrency")).to_string());
        let reason = printable(word(decision, "reason"));
        let _ = write!(text, "\n{at:>9.1} s  streams {}: {reason}", workers.join("/"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Map<String, Value> {
        let row = json!({
            "id": 17, "began_s": 1_700_000_000.5, "source": "local", "destination": "dtn_7632", "optimizer": "falcon",
            "bytes_done": 250_000_000, "files_done": 1, "elapsed_s": 2.0, "outcome": "complete", "error": null,
        });
        row.as_object().unwrap().clone()
    }

    #[test]
    fn a_line_tells_when_what_how_fast_and_how_it_ended() {
        let expected = "    17  2023-11-14 22:13:20  local -> dtn_7632  falcon  250 MB in 1 file  1.0 Gbit/s  complete";
        assert_eq!(line(&row()), expected);
        let unfinished = json!({"id": 3, "outcome": "unfinished"});
        assert!(line(unfinished.as_object().unwrap()).ends_with("0 B in 0 files  -  unfinished"));
    }

    #[test]
    fn an_import_is_told_with_its_label() {
        let import = Import { number: 1, label: "grid\u{1b}".to_owned(), rows: 1 };
        assert_eq!(imported(&import), "1 transfer of other tools imported as `grid\\u{1b}`");
    }

    #[test]
    fn a_transfer_is_told_with_its_decisions_and_without_what_is_not_known() {
        let decision = json!({"elapsed_s": 1.04, "read_concurrency": 3, "network_concurrency": 4, "write_concurrency": 5, "reason": "so\u{1b}"});
        let text = told(&row(), &[Map::new(), Map::new()], &[decision.as_object().unwrap().clone()]);
        assert!(text.contains(&format!("{:17} complete\n", "outcome")) && !text.contains("error"), "{text}");
        assert!(text.contains(&format!("{:17} 2\n      1.0 s  streams 3/4/5: so\\u{{1b}}", "intervals")), "{text}");
    }

    #[test]
    fn json_in_the_database_is_json_outside() {
        let mut cells = vec![Cell::Null; Table::Transfers.columns().len()];
        cells[0] = Cell::Integer(5);
        cells[10] = Cell::Text(r#"{"max_streams": 9}"#.to_owned());
        let row = object(Table::Transfers, cells);
        assert_eq!((&row["id"], &row["options"]["max_streams"], &row["source"]), (&json!(5), &json!(9), &Value::Null));
    }
}
