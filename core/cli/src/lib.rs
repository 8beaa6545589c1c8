//! The command line of edt: turns arguments into calls of the core, and what the core answers into text and exit codes.

mod args;
mod clean;
mod copy;
mod doctor;
mod exit;
mod explore;
mod files;
mod generate;
mod history;
mod interrupt;
mod jobs;
mod progress;
mod python;
mod serve;
mod sources;
mod terminal;
mod verify;

use std::ffi::OsString;
use std::sync::Once;

use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use args::{Cli, Command};
use exit::Exit;
#[cfg(feature = "flight")]
pub use serve::Flight;

/// Makes the endpoints known that this build has besides those of the core: `flight://` and `flight+tls://` with the feature `flight`.
pub fn register() {
    #[cfg(feature = "flight")]
    edt_flight::register();
}

/// Starts the log of a program that uses the core without a command line: warnings, and what `EDT_LOG` asks for, on standard error. Where
/// one was started before it goes on.
pub fn start_log() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| terminal::start_log(None));
}

/// Runs one command line, program name first, and answers with the exit code.
///
/// It ends the process itself in two cases only: Ctrl-C while nothing can be stopped cleanly, or pressed again; and `edt train`
/// and `edt learn`, whose place a Python program takes. May be called again in the same process.
pub fn main_from<I, T>(arguments: I) -> i32
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // A closed standard output is no reason to fail while showing help.
            let _ = error.print();
            if let Some(hint) = hint(&error) {
                terminal::say(&format!("hint: {hint}"));
            }
            return error.exit_code();
        }
    };
    edt::metrics::this_program_only_transfers();
    terminal::start_log(Some(&cli.command));
    register();
    interrupt::prepare();
    let exit = run(cli.command).unwrap_or_else(|error| {
        terminal::complain(&error);
        Exit::of(&error)
    });
    exit.code()
}

/// Options of other programs that copy, which name what `edt cp` always does.
const ALWAYS: [&str; 7] = ["-r", "-R", "--recursive", "-a", "--archive", "-p", "--preserve"];

/// What to do about a usage error, where clap cannot know.
fn hint(error: &clap::Error) -> Option<&'static str> {
    let of_copy = || error.get(ContextKind::Usage).is_some_and(|usage| usage.to_string().contains("edt cp"));
    match (error.kind(), error.get(ContextKind::InvalidArg)?) {
        // The one path given was taken for the destination, though it may be meant as the source.
        (ErrorKind::MissingRequiredArgument, ContextValue::Strings(names)) if *names == ["<SRC>..."] => {
            Some("a source and a destination are needed: edt cp SRC DST")
        }
        (ErrorKind::UnknownArgument, ContextValue::String(name)) if ALWAYS.contains(&name.as_str()) && of_copy() => {
            Some("directories are always copied with all that is below them, with modes and times: leave the option out")
        }
        _ => None,
    }
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Cp(args) => copy::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Ls(args) => files::list(&args),
        Command::Stat(args) => files::stat(&args),
        Command::Rm(args) => files::remove(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Clean(args) => clean::run(&args),
        Command::Explore(args) => explore::run(&args),
        Command::Train(args) => python::run(python::TRAINING, &args.arguments),
        Command::Learn(args) => python::run(python::LEARNING, &args.arguments),
        Command::History(args) => history::run(&args),
        Command::Jobs(args) => jobs::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => generate::completions(&args),
        Command::Man(args) => generate::man(&args),
    }
}
