//! The command line, run inside the interpreter.

use std::ffi::OsString;
use std::io::Write as _;

use pyo3::prelude::*;

/// Runs one command line, program name first, and returns the exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> i32 {
    py.detach(|| {
        let code = edt_cli::main_from(arguments);
        // The interpreter knows nothing of this buffer; an output that was closed early is not worth an error.
        let _ = std::io::stdout().flush();
        code
    })
}
