//! The program `edt-path`: a network path on this machine, for as long as it runs or for one command.

mod arguments;
#[cfg(target_os = "linux")]
mod run;

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
    for Profile { name, source, options } in Profile::all() {
        let parameters = options.validated()?;
        println!("{}", serde_json::json!({"profile": name, "source": source, "parameters": parameters}));
    }
    Ok(())
}
