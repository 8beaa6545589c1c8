//! `edt train`: hands over to the Python package, where learning lives.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use edt::{Error, ErrorKind};

use crate::args::TrainArgs;
use crate::exit::Exit;

/// What runs instead of this process.
const MODULE: &str = "edt.training";

/// Ends with status 0 where the module could be run, without running it.
const PROBE: &str = "import importlib.util, sys; sys.exit(importlib.util.find_spec('edt.training') is None)";

const HINT: &str = "pip install 'edt[train]' into the Python that EDT_PYTHON names, or into the active virtual environment";

/// The interpreter of a virtual environment, below its directory.
const IN_ENVIRONMENT: &str = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };

/// Runs the training; where the system can, in place of this process.
pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<Exit> {
    let python = interpreter(env::var_os("EDT_PYTHON"), env::var_os("VIRTUAL_ENV"));
    probe(&python)?;
    let mut command = Command::new(&python);
    command.arg("-m").arg(MODULE).args(&args.arguments);
    hand_over(command, &python).map_err(Into::into)
}

/// Which Python to run, by the variables `EDT_PYTHON` and `VIRTUAL_ENV`.
fn interpreter(named: Option<OsString>, environment: Option<OsString>) -> OsString {
    let set = |value: &OsString| !value.is_empty();
    let of_environment = || environment.filter(set).map(|root| Path::new(&root).join(IN_ENVIRONMENT).into_os_string());
    named.filter(set).or_else(of_environment).unwrap_or_else(|| "python3".into())
}

/// An error with what to do about it if the interpreter or the package is missing.
fn probe(python: &OsStr) -> edt::Result<()> {
    let mut command = Command::new(python);
    command.arg("-c").arg(PROBE).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|cause| missing(python, &cause.to_string()))?;
    if status.success() { Ok(()) } else { Err(missing(python, &format!("it has no package `{MODULE}`"))) }
}

fn missing(python: &OsStr, cause: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("could not train with `{}`", python.display())).with_cause(cause).with_hint(HINT)
}

#[cfg(unix)]
fn hand_over(mut command: Command, python: &OsStr) -> edt::Result<Exit> {
    use std::os::unix::process::CommandExt as _;

    // It returns only if it fails.
    let cause = command.exec();
    Err(missing(python, &cause.to_string()))
}

#[cfg(not(unix))]
fn hand_over(mut command: Command, python: &OsStr) -> edt::Result<Exit> {
    let status = command.status().map_err(|cause| missing(python, &cause.to_string()))?;
    std::process::exit(status.code().unwrap_or_else(|| Exit::Incomplete.code()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(named: &str, environment: &str) -> String {
        interpreter(Some(named.into()), Some(environment.into())).to_string_lossy().replace('\\', "/")
    }

    #[test]
    fn the_variable_wins_over_the_environment_and_that_over_the_path() {
        assert_eq!(chosen("/opt/python", "/venv"), "/opt/python");
        assert_eq!(chosen("", "/venv"), format!("/venv/{IN_ENVIRONMENT}"));
        assert_eq!(chosen("", ""), "python3");
        assert_eq!(interpreter(None, None), "python3");
    }

    #[test]
    fn an_interpreter_that_is_not_there_is_a_mistake_with_a_remedy() {
        let error = probe(OsStr::new("/no/such/python")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.what().contains("/no/such/python") && error.hint().unwrap().contains("pip install 'edt[train]'"));
    }
}
