//! Completions and man pages, made from the same definitions as the parser.

use std::io::{self, Write as _};

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::exit::Exit;
use crate::terminal::Stdout;

/// Writes the completion script of a shell to standard output.
pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "edt", &mut script);
    Stdout.write_all(&script)?;
    Ok(Exit::Complete)
}

/// Writes a man page for edt and one for each command: into a directory, or one after the other to standard output.
pub(crate) fn man(args: &ManArgs) -> anyhow::Result<Exit> {
    match &args.directory {
        Some(directory) => {
            let place = || format!("could not write man pages to `{}`", directory.display());
            std::fs::create_dir_all(directory).with_context(place)?;
            clap_mangen::generate_to(Cli::command(), directory).with_context(place)?;
        }
        None => Stdout.write_all(&pages()?)?,
    }
    Ok(Exit::Complete)
}

fn pages() -> io::Result<Vec<u8>> {
    let mut command = Cli::command();
    command.build();
    let mut pages = Vec::new();
    Man::new(command.clone()).render(&mut pages)?;
    render_below(&command, "edt", &mut pages)?;
    Ok(pages)
}

fn render_below(command: &Command, name: &str, pages: &mut Vec<u8>) -> io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("{name}-{}", sub.get_name());
        Man::new(sub.clone()).title(name.as_str()).render(pages)?;
        render_below(sub, &name, pages)?;
    }
    Ok(())
}
