//! The Python binding: converts, releases the GIL, calls the core, converts back. What it means is documented in `edt/_edt.pyi`.

mod access;
mod cli;
mod error;
mod files;
mod harp;
mod history;
mod learning;
mod optimizer;
mod options;
mod report;
mod server;
mod transfer;

use pyo3::prelude::*;

#[pymodule]
mod _edt {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::access::{parse_size, secret, trusted};
    #[pymodule_export]
    use crate::cli::main;
    #[pymodule_export]
    use crate::files::{FileReader, Files, list, remove, stat};
    #[pymodule_export]
    use crate::harp::HarpHistory;
    #[pymodule_export]
    use crate::history::{agent_file, history_batch, history_file, history_import, history_pasts, knowledge_file, path_file};
    #[pymodule_export]
    use crate::learning::AsmSearch;
    #[pymodule_export]
    use crate::report::Report;
    #[pymodule_export]
    use crate::server::Server;
    #[pymodule_export]
    use crate::transfer::{Handle, start};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        edt_cli::register();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("OPTIMIZERS", edt::optimizer::NAMES.to_vec())
    }
}
