//! An optimizer written in Python, called from the control thread with the GIL.

use edt::optimizer::Policy;
use edt::{Decision, Error, ErrorKind, Observation, Optimizer, Result};
use pyo3::prelude::*;

/// Streams to start with where the optimizer leaves it open.
const START: u16 = 4;

/// An `edt._optimizer.Adapter`, which speaks JSON on this side and dataclasses on the other.
pub(crate) struct PythonOptimizer {
    adapter: Py<PyAny>,
    name: String,
    /// What failed in `start`, which has no way to say so itself.
    failed: Option<Error>,
}

impl PythonOptimizer {
    pub(crate) fn new(adapter: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { name: adapter.getattr("name")?.extract()?, adapter: adapter.clone().unbind(), failed: None })
    }

    /// Calls a method with a JSON text; `None` is its way to leave the decision open.
    fn ask(&self, method: &str, argument: serde_json::Result<String>) -> Result<Option<Decision>> {
        let argument = argument.map_err(|error| self.error(error))?;
        let call =
            |py: Python<'_>| -> PyResult<Option<String>> { self.adapter.bind(py).call_method1(method, (argument,))?.extract() };
        let answer = Python::try_attach(|py| call(py).map_err(|error| self.error(error.to_string())));
        let answer = answer.ok_or_else(|| self.error("the interpreter is shutting down"))??;
        answer.map(|text| serde_json::from_str(&text).map_err(|error| self.error(error))).transpose()
    }

    fn error(&self, cause: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Optimizer, format!("the optimizer `{}` failed", self.name))
            .with_cause(cause)
            .with_hint("the transfer went on with the last decision; the warning shows the traceback")
    }
}

impl Optimizer for PythonOptimizer {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        match self.ask("start", serde_json::to_string(policy)) {
            Ok(Some(decision)) => return decision,
            Ok(None) => {}
            Err(error) => self.failed = Some(error),
        }
        Decision::uniform(START, "start")
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.ask("decide", serde_json::to_string(observation))?.ok_or_else(|| self.error("`decide` answered nothing"))
    }
}
