//! `edt train` and `edt learn`: hand over to the Python package, where learning lives.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use edt::{Error, ErrorKind};

use crate::exit::Exit;

/// A part of the Python package that runs in place of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Module {
    name: &'static str,
    /// The extra of the package that it needs.
    extra: &'static str,
    /// What it does.
    verb: &'static str,
}

/// `edt train`.
pub(crate) const TRAINING: Module = Module { name: "edt.training", extra: "train", verb: "train" };

/// `edt learn`.
pub(crate) const LEARNING: Module = Module { name: "edt.learning", extra: "learn", verb: "learn" };

/// The interpreter of a virtual environment, below its directory.
const IN_ENVIRONMENT: &str = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };

/// Runs a module with these words; where the system can, in place of this process.
pub(crate) fn run(module: Module, arguments: &[OsString]) -> anyhow::Result<Exit> {
    let python = interpreter(env::var_os("EDT_PYTHON"), env::var_os("VIRTUAL_ENV"));
    module.probe(&python)?;
    let mut command = Command::new(&python);
    command.arg("-m").arg(module.name).args(arguments);
    module.hand_over(command, &python).map_err(Into::into)
}

/// Which Python to run, by the variables `EDT_PYTHON` and `VIRTUAL_ENV`.
fn interpreter(named: Option<OsString>, environment: Option<OsString>) -> OsString {
    let set = |value: &OsString| !value.is_empty();
    let of_environment = || environment.filter(set).map(|root| Path::new(&root).join(IN_ENVIRONMENT).into_os_string());
    named.filter(set).or_else(of_environment).unwrap_or_else(|| "python3".into())
}

impl Module {
    /// An error with what to do about it if the interpreter or the package is missing.
    fn probe(self, python: &OsStr) -> edt::Result<()> {
        // Ends with status 0 where the module could be run, without running it.
        let code = format!("import importlib.util, sys; sys.exit(importlib.util.find_spec('{}') is None)", self.name);
        let mut command = Command::new(python);
        command.arg("-c").arg(code).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(|cause| self.missing(python, &cause.to_string()))?;
        if status.success() { Ok(()) } else { Err(self.missing(python, &format!("it has no package `{}`", self.name))) }
    }

    fn missing(self, python: &OsStr, cause: &str) -> Error {
        let hint = format!(
            "pip install 'edt[{}]' into the Python that EDT_PYTHON names, or into the active virtual environment",
            self.extra
        );
        Error::new(ErrorKind::InvalidInput, format!("could not {} with `{}`", self.verb, python.display()))
            .with_cause(cause)
            .with_hint(hint)
    }

    #[cfg(unix)]
    fn hand_over(self, mut command: Command, python: &OsStr) -> edt::Result<Exit> {
        use std::os::unix::process::CommandExt as _;

        // It returns only if it fails.
        let cause = command.exec();
        Err(self.missing(python, &cause.to_string()))
    }

    #[cfg(not(unix))]
    fn hand_over(self, mut command: Command, python: &OsStr) -> edt::Result<Exit> {
        let status = command.status().map_err(|cause| self.missing(python, &cause.to_string()))?;
        std::process::exit(status.code().unwrap_or_else(|| Exit::Incomplete.code()))
    }
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
        for (module, remedy) in [(TRAINING, "pip install 'edt[train]'"), (LEARNING, "pip install 'edt[learn]'")] {
            let error = module.probe(OsStr::new("/no/such/python")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.what().contains("/no/such/python") && error.hint().unwrap().contains(remedy));
        }
    }
}
