//! A server on threads of its own.

use std::path::PathBuf;
use std::thread;

use crossbeam_channel::{Receiver, bounded};
use edt::auth::secret::Origin;
use edt::server::ServerHandle;
use edt::{Error, ErrorKind};
use edt_cli::Flight;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{detached, raised, receive};
use crate::options::serve_options;

#[pyclass(module = "edt._edt", frozen)]
pub(crate) struct Server {
    handle: ServerHandle,
    address: (String, u16),
    /// Ends the Flight port.
    flight: Option<Box<dyn Fn() + Send + Sync>>,
    flight_url: Option<String>,
    fingerprint: String,
    secret: Option<String>,
    /// Answers once, when the server has ended; closed from then on.
    ended: Receiver<edt::Result<()>>,
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (root, options, flight=None))]
    fn new(py: Python<'_>, root: PathBuf, options: &Bound<'_, PyDict>, flight: Option<&str>) -> PyResult<Self> {
        let options = serve_options(root, options)?;
        detached(py, || {
            let port = flight.map(Flight::open).transpose()?;
            let server = edt::server::Server::bind(options.clone())?;
            let flight = port.map(|port| Flight::start(port, &options, &server)).transpose()?;
            let flight_url = flight.as_ref().map(|flight| format!("{}://{}/", flight.scheme, flight.address));
            let beside = flight.as_ref().map(Flight::handle);
            let (report, ended) = bounded(1);
            let secret = match server.secret() {
                Origin::Generated { text, .. } => Some(text.clone()),
                _ => None,
            };
            let address = server.address();
            let (handle, fingerprint) = (server.handle(), server.fingerprint().to_owned());
            let run = move || {
                let ended = server.run();
                let _ = report.send(ended.and(flight.map_or(Ok(()), Flight::join)));
            };
            thread::Builder::new()
                .name("edt-serve".to_owned())
                .spawn(run)
                .map_err(|cause| Error::new(ErrorKind::Io, "could not start the thread of the server").with_cause(cause))?;
            let flight = beside.map(|beside| Box::new(move || beside.shutdown()) as Box<dyn Fn() + Send + Sync>);
            Ok(Self {
                handle,
                address: (address.ip().to_string(), address.port()),
                flight,
                flight_url,
                fingerprint,
                secret,
                ended,
            })
        })
    }

    #[getter]
    fn address(&self) -> (String, u16) {
        self.address.clone()
    }

    #[getter]
    fn flight_url(&self) -> Option<&str> {
        self.flight_url.as_deref()
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
        py.detach(|| self.end());
    }

    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        match receive(py, &self.ended)? {
            Some(result) => result.map_err(|error| raised(py, &error)),
            None => Ok(()),
        }
    }
}

impl Server {
    fn end(&self) {
        self.handle.shutdown();
        if let Some(flight) = &self.flight {
            flight();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nobody is left who could wait for the sessions: the second call ends them.
        self.end();
        self.end();
    }
}
