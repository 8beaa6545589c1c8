//! The client: `flight://` and `flight+tls://` as endpoints of a transfer.
//!
//! Edt's own service is a store of files. Any other is asked for its flights: tables, which are fetched over as many connections as the
//! optimizer says and written as Parquet or Arrow files, or brought to it from such files.

mod address;
mod caller;
mod connection;
mod crowd;
mod files;
mod foreign;
mod host;
mod publish;
mod put;
mod read;
mod rows;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::Arc;

use edt::endpoint::{Location, ServiceUrl};
use edt::options::{Plain, SecretSource, TransferOptions};
use edt::path::RelativePath;
use edt::store::Store;
use edt::store::remote::{self, Added, Opened, Purpose};
use edt::sync::Mutex;
use edt::transfer::job::Job;
use edt::{Endpoint, Error, ErrorKind, Result};

use crate::contract::{Command, Form};
use address::Place;
use foreign::ForeignStore;
use host::{Host, Service};
use store::FlightStore;
use tables::{Bring, Fetch};

/// Makes `flight://` and `flight+tls://` endpoints of this process.
pub fn register() {
    remote::register(&Flight);
}

struct Flight;

/// A service that was greeted, for who comes next: looking whether a transfer is one of tables and opening the store is one greeting.
static GREETED: Mutex<Option<Greeted>> = Mutex::new(None);

struct Greeted {
    place: Place,
    trusted: (SecretSource, Plain, Option<std::path::PathBuf>),
    host: Arc<Host>,
    service: Service,
}

impl Added for Flight {
    fn schemes(&self) -> &'static [&'static str] {
        &[address::AUTOMATIC, address::TLS]
    }

    fn open(&self, url: &ServiceUrl, purpose: Purpose, options: &TransferOptions) -> Result<Opened> {
        let command = address::command(url)?;
        let (host, service) = greet(url, options)?;
        let base = RelativePath::from_user(&command.path)?;
        if service == Service::Own && purpose == Purpose::Write {
            host.check_writable()?;
        }
        let store: Arc<dyn Store> = match service {
            Service::Own => Arc::new(FlightStore::new(host)),
            Service::Foreign => Arc::new(ForeignStore::new(host)),
        };
        Ok(Opened { store, base })
    }

    fn job(&self, sources: &[Endpoint], destination: &Endpoint, options: &TransferOptions) -> Result<Option<Box<dyn Job>>> {
        let to = destination.resolve()?;
        for source in sources {
            let from = source.resolve()?;
            if let Some((host, command)) = tables_of(&from, options)? {
                if sources.len() > 1 {
                    return Err(alone(source));
                }
                return Ok(Some(Box::new(Fetch::new(&host, &command, &to, options)?)));
            }
        }
        match tables_of(&to, options)? {
            Some((host, command)) => {
                if command.form.is_some() {
                    host.check_writable()?;
                }
                Ok(Some(Box::new(Bring::new(&host, &command, (sources, destination), options)?)))
            }
            None => Ok(None),
        }
    }
}

/// The service and what the URL names, if it is a table: anything of a service that is not edt's, or what the query says.
fn tables_of(location: &Location, options: &TransferOptions) -> Result<Option<(Arc<Host>, Command)>> {
    let Location::Service(url) = location else { return Ok(None) };
    if ![address::AUTOMATIC, address::TLS].contains(&url.scheme.name()) {
        return Ok(None);
    }
    let command = address::command(url)?;
    let (host, service) = greet(url, options)?;
    if service == Service::Own && command.form != Some(Form::Table) {
        keep(url, options, &host, service);
        return Ok(None);
    }
    if service == Service::Foreign && (command.columns.is_some() || command.rows.is_some()) {
        return Err(Error::new(ErrorKind::Unsupported, format!("could not choose columns or rows at `{}`", host.name()))
            .with_cause("the Flight service is not edt's, and knows tables by their names alone")
            .with_hint("leave columns and rows out of the URL"));
    }
    Ok(Some((host, Command { form: (service == Service::Own).then_some(Form::Table), ..command })))
}

fn greet(url: &ServiceUrl, options: &TransferOptions) -> Result<(Arc<Host>, Service)> {
    let (place, trusted) = (Place::of(url), trusted(options));
    if let Some(greeted) = GREETED.lock().take_if(|greeted| greeted.place == place && greeted.trusted == trusted) {
        return Ok((greeted.host, greeted.service));
    }
    let host = Host::new(&place, options)?;
    let service = host.greet()?;
    Ok((host, service))
}

fn keep(url: &ServiceUrl, options: &TransferOptions, host: &Arc<Host>, service: Service) {
    let (place, trusted, host) = (Place::of(url), trusted(options), Arc::clone(host));
    *GREETED.lock() = Some(Greeted { place, trusted, host, service });
}

fn trusted(options: &TransferOptions) -> (SecretSource, Plain, Option<std::path::PathBuf>) {
    (options.secret.clone(), options.plain, options.known_hosts.clone())
}

fn alone(source: &Endpoint) -> Error {
    Error::new(ErrorKind::Unsupported, format!("could not copy `{source}` together with other sources"))
        .with_cause("a table becomes one file")
        .with_hint("copy each table with a command of its own")
}
