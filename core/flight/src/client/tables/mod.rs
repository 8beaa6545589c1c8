//! Tables between any Flight service and files of this machine: each endpoint or file is a part, carried out on a connection of its own.

mod bring;
mod fetch;
mod groups;
mod part;
mod target;

use std::path::Path;

use arrow_flight::error::FlightError;
use edt::{Error, ErrorKind, Result};

use super::host::Host;

pub(super) use bring::Bring;
pub(super) use fetch::Fetch;

/// The error of a stream of batches.
fn stream_error(error: &FlightError, what: impl FnOnce() -> String) -> Error {
    match error {
        FlightError::Tonic(status) => Host::error(status, what),
        other => Error::new(ErrorKind::Protocol, what()).with_cause(other),
    }
}

/// The error of reading or writing a table in a file.
fn file_error(path: &Path, operation: &str, cause: &(dyn std::error::Error + 'static)) -> Error {
    let what = format!("could not {operation} the table `{}`", path.display());
    let mut inner: Option<&(dyn std::error::Error + 'static)> = Some(cause);
    while let Some(error) = inner {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return Error::io(what, io);
        }
        inner = error.source();
    }
    Error::new(ErrorKind::Io, what).with_cause(cause)
}

/// Of options that are about files in a directory, a transfer of tables has none.
fn check_options(options: &edt::TransferOptions) -> Result<()> {
    let whole = options.selection == edt::options::Selection::All && options.include.is_empty() && options.exclude.is_empty();
    if whole {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, "could not choose among files in a transfer of tables")
        .with_cause("a table is always moved whole")
        .with_hint("leave out --sync, --delete, --include and --exclude"))
}
