//! `edt history`: what is kept of past transfers, and what was imported of other tools.

mod export;
mod list;
#[cfg(feature = "parquet")]
mod parquet;

use std::io::{self, Write as _};
use std::path::Path;

use edt::history::{self, History, Imported, Prune, Table};
use edt::report::human_count;
use edt::{Error, ErrorKind};

use crate::args::{HistoryArgs, HistoryCommand, HistoryImportArgs, HistoryPruneArgs};
use crate::exit::Exit;
use crate::terminal::{Stdout, unless_closed};

pub(crate) fn run(args: &HistoryArgs) -> anyhow::Result<Exit> {
    match &args.command {
        HistoryCommand::List(args) => list::list(args),
        HistoryCommand::Show(args) => list::show(args),
        HistoryCommand::Export(args) => export::run(args),
        HistoryCommand::Import(args) => import(args),
        HistoryCommand::Prune(args) => prune(args),
        HistoryCommand::Path => {
            writeln!(Stdout, "{}", history::database_file()?.display())?;
            Ok(Exit::Complete)
        }
    }
}

fn import(args: &HistoryImportArgs) -> anyhow::Result<Exit> {
    let mut history = History::open()?;
    let mut told = Ok(());
    for file in &args.files {
        let label = args.label.clone().unwrap_or_else(|| file_name(file));
        let (name, imported) = if file == Path::new("-") {
            let name = "standard input".to_owned();
            let imported = history.import_from(io::stdin().lock(), &name, &label)?;
            (name, imported)
        } else {
            (file.display().to_string(), history.import(file, &label)?)
        };
        let text = match imported {
            Imported::Rows(rows) => format!("imported {} of {name}", human_count(rows, "transfer")),
            Imported::Before => format!("{name} was imported before"),
        };
        // Whoever read may have gone away: the files that follow are imported all the same.
        told = told.and_then(|()| writeln!(Stdout, "{text}"));
    }
    unless_closed(told)?;
    Ok(Exit::Complete)
}

fn file_name(file: &Path) -> String {
    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn prune(args: &HistoryPruneArgs) -> anyhow::Result<Exit> {
    let due = Prune::due();
    let prune = Prune {
        older_than: args.older_than.or(due.older_than),
        most_bytes: args.max_size.or(due.most_bytes),
        imported: args.imported,
    };
    let mut text = "there is no history yet".to_owned();
    if let Some(mut history) = History::open_if_there()? {
        let pruned = history.prune(&prune)?;
        let (removed, left) = (human_count(pruned.transfers, "transfer"), history.count(Table::Transfers)?);
        text = format!("removed {removed}, {left} left");
        if args.imported {
            text = format!("{text}; removed {} of other tools", human_count(pruned.imported, "transfer"));
        }
    }
    writeln!(Stdout, "{text}")?;
    Ok(Exit::Complete)
}

/// The error for a transfer that is not kept.
fn unknown(id: i64) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("there is no transfer `{id}` in the history"))
        .with_hint("`edt history list` shows those that there are")
}
