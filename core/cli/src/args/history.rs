//! The arguments of `edt history`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use edt::history::Table;

use super::values;
use crate::exit::EXIT_CODES;

const EXPLANATION: &str = "\
Each transfer of this user leaves a record: machines, options, how it went, what
was measured and decided, and no names of files or places. EDT_HISTORY=off or
`edt cp --no-history` keeps none, EDT_HISTORY=names keeps sources and
destinations too. Records go after 180 days (EDT_HISTORY_DAYS), the oldest also
beyond 256 MiB. They lie in `history.db` of EDT_DATA_DIR (default:
~/.local/share/edt on Linux).

Examples:
  edt history list
  edt history show 17
  edt history export --format parquet --table intervals --output intervals.parquet
  edt history import gridftp-logs.csv";

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = format!("{EXPLANATION}\n\n{EXIT_CODES}"))]
pub(crate) struct HistoryArgs {
    #[command(subcommand)]
    pub(crate) command: HistoryCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// List past transfers, the newest first.
    List(HistoryListArgs),
    /// Tell all that is kept of one transfer.
    Show(HistoryShowArgs),
    /// Write a table of the history as Parquet, CSV or JSON.
    Export(HistoryExportArgs),
    /// Add transfers of other tools from CSV files, for optimizers to learn from.
    Import(HistoryImportArgs),
    /// Remove old transfers.
    Prune(HistoryPruneArgs),
    /// Print where the history is kept.
    Path,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryListArgs {
    /// Most transfers to list
    #[arg(short = 'n', long, value_name = "N", default_value = "20")]
    pub(crate) limit: usize,
    /// Print one JSON object per transfer and line (default: text)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryShowArgs {
    /// Print one JSON object (default: text)
    #[arg(long)]
    pub(crate) json: bool,
    /// The number of the transfer, as `edt history list` shows it
    pub(crate) id: i64,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryExportArgs {
    /// The form: Parquet, CSV with a header, or one JSON object per row and line
    #[arg(long, value_name = "FORM", value_enum)]
    pub(crate) format: FormatArg,
    /// Which rows: of transfers, of the intervals or decisions of all of them, or those of other tools
    #[arg(long, value_name = "TABLE", value_enum, default_value = "transfers")]
    pub(crate) table: TableArg,
    /// Only the rows of the transfer of this number (default: of all)
    #[arg(long, value_name = "N")]
    pub(crate) id: Option<i64>,
    /// Write to FILE, which appears when it is whole (default: standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryImportArgs {
    /// Word that tells these transfers from others (default: the name of the file)
    #[arg(long, value_name = "WORD")]
    pub(crate) label: Option<String>,
    /// CSV files in the form that docs/history.md describes; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryPruneArgs {
    /// Remove transfers that began longer ago than this: 90m, 12h, 30d (default: 180d, or `EDT_HISTORY_DAYS`)
    #[arg(long, value_name = "AGE", value_parser = values::age)]
    pub(crate) older_than: Option<Duration>,
    /// Then remove the oldest until the rest takes no more than this; those of the last 24 hours stay (default: 256MiB)
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) max_size: Option<u64>,
    /// Remove what was imported too (default: keep it)
    #[arg(long)]
    pub(crate) imported: bool,
}

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// Apache Parquet
    Parquet,
    /// Comma-separated values
    Csv,
    /// JSON lines
    Json,
}

/// A table of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableArg {
    /// One row a transfer
    Transfers,
    /// One row an interval
    Intervals,
    /// One row a decision
    Decisions,
    /// One row a transfer of another tool
    Imported,
}

impl From<TableArg> for Table {
    fn from(table: TableArg) -> Self {
        match table {
            TableArg::Transfers => Self::Transfers,
            TableArg::Intervals => Self::Intervals,
            TableArg::Decisions => Self::Decisions,
            TableArg::Imported => Self::Imported,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::{CommandFactory as _, Parser as _};

    fn parse(line: &str) -> Option<HistoryCommand> {
        let cli = Cli::try_parse_from(format!("edt history {line}").split_whitespace()).ok()?;
        let Command::History(args) = cli.command else { return None };
        Some(args.command)
    }

    #[test]
    fn each_table_has_its_name() {
        for table in Table::ALL {
            let arg = TableArg::from_str(table.name(), false).unwrap();
            assert_eq!(Table::from(arg), table);
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in [
            "show",
            "show x",
            "export",
            "export --format xml",
            "export --format csv --table files",
            "import",
            "prune --older-than 1w",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
        assert!(
            matches!(parse("prune --older-than 30d"), Some(HistoryCommand::Prune(args)) if args.older_than == Some(Duration::from_hours(720)))
        );
        assert!(matches!(parse("list"), Some(HistoryCommand::List(args)) if args.limit == 20 && !args.json));
    }

    #[test]
    fn every_option_with_a_value_says_its_default() {
        let mut cli = Cli::command();
        let history = cli.find_subcommand_mut("history").unwrap();
        for command in history.get_subcommands() {
            for argument in command.get_arguments().filter(|argument| !argument.is_positional() && !argument.is_required_set()) {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                let says = help.contains("(default:") || !argument.get_default_values().is_empty();
                assert!(says || argument.get_id() == "help", "edt history {} --{}", command.get_name(), argument.get_id());
            }
        }
    }
}
