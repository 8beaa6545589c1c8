//! The arguments of every command. What they mean is said here once: help, completions and man pages come from these definitions.

mod chosen;
mod connect;
mod copy;
mod explore;
mod history;
mod host;
mod learn;
mod serve;
mod train;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use connect::ConnectArgs;
pub(crate) use copy::CopyArgs;
pub(crate) use explore::ExploreArgs;
pub(crate) use history::{
    FormatArg, HistoryArgs, HistoryCommand, HistoryExportArgs, HistoryImportArgs, HistoryListArgs, HistoryPruneArgs,
    HistoryShowArgs,
};
pub(crate) use host::{HostArgs, JobsArgs};
pub(crate) use learn::LearnArgs;
pub(crate) use serve::ServeArgs;
pub(crate) use train::TrainArgs;

use crate::exit::EXIT_CODES;

const ENDPOINTS: &str = "\
Endpoints:
  path, file:///path      files of this host
  edt://host[:port]/path  files of a host where `edt serve` runs
  edts://...              the same, encrypted even on loopback
  s3://bucket/key         an object store; also gs://bucket/key, az://container/blob
  https://host/path       a web server, to read; also http://
  webdavs://host/path     a WebDAV server; also webdav://
  sftp://[user@]host/path a host reached with ssh, below the home directory
  ftp://host/path         an FTP server; ftps:// with TLS
  null:                   takes what is written, and keeps nothing
  zero:[COUNTx]SIZE       files made in memory, as zero:4x1GiB";

/// The endpoints that a build with the feature `flight` has besides.
const FLIGHT: &str =
    if cfg!(feature = "flight") { "\n  flight://host/path      an Arrow Flight service; flight+tls:// with TLS" } else { "" };

const ENVIRONMENT: &str = "\
Environment:
  EDT_TOKEN  the shared secret; secrets are never arguments
  EDT_CONFIG_DIR
             where the secret, a server's identity and those that are pinned are
             kept (default: ~/.config/edt on Linux)
  EDT_HISTORY, EDT_HISTORY_DAYS, EDT_DATA_DIR
             what is kept of transfers: `edt help history`
  EDT_HOST_STREAMS, EDT_SERVER_STREAMS, EDT_HOST_MEMORY, EDT_HOST_RATE,
  EDT_BROKER, EDT_BROKER_DIR
             what all transfers of this host share: `edt help jobs`
  EDT_HTTP_TOKEN
             a bearer token for web and WebDAV servers
  EDT_HTTP_TPC
             1: a WebDAV server fetches from others, whatever it calls itself
  EDT_SSH    the program for sftp:// (default: ssh)
  EDT_PYTHON the Python of `edt train` and `edt learn`
  EDT_LOG    what to log: error, warn, info, debug, trace, or module=level
             (default: info for `edt serve`, else warn)";

/// Moves trees of files between endpoints as fast as the path allows, and tunes itself while it does.
#[derive(Debug, Parser)]
#[command(name = "edt", version, max_term_width = 120)]
#[command(arg_required_else_help = true, after_help = format!("{ENDPOINTS}{FLIGHT}\n\n{ENVIRONMENT}\n\n{EXIT_CODES}"))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Copy files and directories.
    Cp(Box<CopyArgs>),
    /// Serve a directory to other hosts.
    Serve(ServeArgs),
    /// List a directory.
    Ls(ListArgs),
    /// Describe one file or directory.
    Stat(StatArgs),
    /// Remove files and directories.
    Rm(RemoveArgs),
    /// Compare files with the manifest of a transfer.
    Verify(VerifyArgs),
    /// Remove what interrupted transfers left on a service.
    Clean(CleanArgs),
    /// Measure a path at random concurrencies, to train an agent for it.
    Explore(Box<ExploreArgs>),
    /// Train an agent for a path that was explored.
    Train(TrainArgs),
    /// Learn from past transfers, or from logs, for the optimizer `asm`.
    Learn(LearnArgs),
    /// Look at past transfers, export them, and import those of other tools.
    History(HistoryArgs),
    /// List the transfers that run on this host, and what each may have.
    Jobs(JobsArgs),
    /// Tell what on this host limits transfers, and the command that mends it.
    Doctor(DoctorArgs),
    /// Print the completion script of a shell.
    Completions(CompletionsArgs),
    /// Print the man pages.
    Man(ManArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ListArgs {
    /// Descend into directories (default: direct children only)
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Show mode, size in bytes and modification time in UTC (default: names only)
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) long: bool,
    /// Print one JSON object per entry and line (default: text)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// What to list: a path or URL
    #[arg(value_parser = values::endpoint())]
    pub(crate) url: String,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct StatArgs {
    /// Print one JSON object (default: text)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// What to describe: a path or URL
    #[arg(value_parser = values::endpoint())]
    pub(crate) url: String,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RemoveArgs {
    /// Remove directories with all that is below them (default: files, links and empty directories only)
    #[arg(short, long)]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// What to remove: paths or URLs
    #[arg(required = true, value_name = "URL", value_parser = values::endpoint())]
    pub(crate) urls: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct VerifyArgs {
    /// Print one JSON object per file and line, the counts last (default: text, differences only)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// The manifest that `edt cp --manifest FILE` wrote
    pub(crate) manifest: PathBuf,
    /// Where the files are: the destination given to `edt cp`, or another copy of it
    #[arg(value_parser = values::endpoint())]
    pub(crate) url: String,
}

/// Unfinished uploads of object stores cost money until they are removed; on file servers they are partial files.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CleanArgs {
    /// Leave alone what is younger than this (90m, 12h, 7d), or of unknown age: it may be under way (default: 1d)
    #[arg(long, value_name = "AGE", value_parser = values::age, default_value = "1d", hide_default_value = true)]
    pub(crate) older_than: Duration,
    /// Only show what would be removed (default: remove it)
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object per item and line (default: text)
    #[arg(long)]
    pub(crate) json: bool,
    /// Where to look: the URL of an object store, or of a file server's directory
    #[arg(value_parser = values::endpoint())]
    pub(crate) url: String,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print the findings as one JSON object (default: text)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Where to write edt.1, edt-cp.1 and so on (default: all pages to standard output)
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_with_a_value_says_its_default() {
        for command in Cli::command().get_subcommands() {
            for argument in command.get_arguments().filter(|argument| !argument.is_positional()) {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                let says = help.contains("(default:") || !argument.get_default_values().is_empty();
                assert!(says || argument.get_id() == "help", "edt {} --{}", command.get_name(), argument.get_id());
            }
        }
    }

    #[test]
    fn the_least_rate_of_a_worker_is_told_where_it_is_asked_for() {
        let least = values::rate("100kB").unwrap();
        let options = |rate| edt::TransferOptions { worker_rate: Some(rate), ..edt::TransferOptions::default() };
        assert!(options(least).validate().is_ok() && options(least - 1.0).validate().is_err());
        let command = Cli::command();
        for name in ["cp", "serve", "explore"] {
            let mut arguments = command.find_subcommand(name).unwrap().get_arguments();
            let help = arguments.find(|argument| argument.get_id() == "worker_rate").unwrap().get_help().unwrap().to_string();
            assert!(help.contains("at least 100kB"), "edt {name}: {help}");
        }
    }
}
