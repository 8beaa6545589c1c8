//! The program `edt-path`: a network path on this machine, for as long as it runs or for one command.

mod arguments;
#[cfg(target_os = "linux")]
mod run;

use std::io::{ErrorKind, Write as _};

use anyhow::Context as _;
use clap::Parser as _;
use edt_path::Profile;

use arguments::{Arguments, Command};

fn main() -> std::process::ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run(&arguments),
        Command::Profiles => profiles().map(|()| 0),
    };
    match done {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("edt-path: {error:#}");
            1.into()
        }
    }
}

#[cfg(target_os = "linux")]
fn run(arguments: &arguments::Run) -> anyhow::Result<u8> {
    run::run(arguments)
}

#[cfg(not(target_os = "linux"))]
fn run(arguments: &arguments::Run) -> anyhow::Result<u8> {
    arguments.options()?;
    anyhow::bail!("a path needs Linux: its ends are network namespaces, joined over TUN devices")
}

/// Prints every profile, one JSON object per line.
fn profiles() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for Profile { name, source, options } in Profile::all() {
        let parameters = options.validated()?;
        let line = serde_json::json!({"profile": name, "source": source, "parameters": parameters});
        match writeln!(out, "{line}") {
            // A reader that has seen enough is no failure.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written.context("could not print the profiles")?,
        }
    }
    Ok(())
}
