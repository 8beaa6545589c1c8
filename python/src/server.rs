//! A server on threads of its own.

use std::path::PathBuf;
use std::thread;

use crossbeam_channel::{Receiver, bounded};
use edt::auth::secret::Origin;
use edt::server::ServerHandle;
use edt::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{detached, raised, receive};
use crate::options::serve_options;

#[pyclass(module = "edt._edt", frozen)]
pub(crate) struct Server {
    handle: ServerHandle,
    address: (String, u16),
    fingerprint: String,
    secret: Option<String>,
    /// Answers once, when the server has ended; closed from then on.
    ended: Receiver<edt::Result<()>>,
}

#[pymethods]
impl Server {
    #[new]
    fn new(py: Python<'_>, root: PathBuf, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let options = serve_options(root, options)?;
        detached(py, || {
            let server = edt::server::Server::bind(options)?;
            let (report, ended) = bounded(1);
            let secret = match server.secret() {
                Origin::Generated { text, .. } => Some(text.clone()),
                _ => None,
            };
            let address = server.address();
            let (handle, fingerprint) = (server.handle(), server.fingerprint().to_owned());
            let run = move || {
                let _ = report.send(server.run());
            };
            thread::Builder::new()
                .name("edt-serve".to_owned())
                .spawn(run)
                .map_err(|cause| Error::new(ErrorKind::Io, "could not start the thread of the server").with_cause(cause))?;
            Ok(Self { handle, address: (address.ip().to_string(), address.port()), fingerprint, secret, ended })
        })
    }

    #[getter]
    fn address(&self) -> (String, u16) {
        self.address.clone()
    }

    #[getter]
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    #[getter]
    fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    fn shutdown(&self, py: Python<'_>) {
        py.detach(|| self.handle.shutdown());
    }

    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        match receive(py, &self.ended)? {
            Some(result) => result.map_err(|error| raised(py, &error)),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nobody is left who could wait for the sessions: the second call ends them.
        self.handle.shutdown();
        self.handle.shutdown();
    }
}
