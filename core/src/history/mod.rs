//! What edt keeps from one transfer to the next: a database of past transfers, and for each pair of endpoints the path that was explored
//! and the agents trained for it.

mod beginning;
mod columns;
mod database;
mod import;
#[cfg(target_os = "linux")]
mod interface;
mod kept;
mod past;
mod pasts;
mod read_only;
mod recording;
mod retention;
mod schema;
mod settled;
mod shares;
mod stretches;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod write;

use std::path::PathBuf;

use etcetera::BaseStrategy;

use crate::endpoint::{Endpoint, Location};
use crate::error::{Error, ErrorKind, Result};

pub(crate) use beginning::Beginning;
pub use columns::{Cell, Column, ColumnKind, Page, Place, Table};
pub use database::History;
pub use import::{Import, Imported};
pub(crate) use kept::KeptFile;
pub use past::Past;
pub use pasts::pasts;
pub use recording::Recorder;
pub(crate) use recording::{End, Ending, Judged, Recording};
pub use retention::{Prune, Pruned};
pub(crate) use settled::{Recollection, Settled};

/// The directory of edt's data: `EDT_DATA_DIR`, or `edt` in the user's data directory. It may not exist yet.
pub fn data_directory() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("EDT_DATA_DIR").filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    etcetera::choose_base_strategy().map(|strategy| strategy.data_dir().join("edt")).map_err(|cause| {
        Error::new(ErrorKind::NotFound, "could not find the data directory of this user")
            .with_cause(cause)
            .with_hint("set HOME, or set EDT_DATA_DIR to a directory for edt's data")
    })
}

/// Where past transfers are kept.
pub fn database_file() -> Result<PathBuf> {
    Ok(data_directory()?.join("history.db"))
}

/// Where the knowledge is kept that `edt learn` makes of past transfers.
pub fn knowledge_file() -> Result<PathBuf> {
    Ok(data_directory()?.join("knowledge").join("knowledge.json"))
}

/// The key of a pair of endpoints: `SOURCE--DESTINATION`, each `local`, or host and port of its server.
pub fn pair_key(source: &Endpoint, destination: &Endpoint) -> Result<String> {
    Ok(format!("{}--{}", place(source)?, place(destination)?))
}

/// Where the explored path between two endpoints is kept, for one stage or for three.
pub fn path_file(source: &Endpoint, destination: &Endpoint, stages: u8) -> Result<PathBuf> {
    let suffix = match stages {
        1 => "",
        3 => "-3",
        _ => return Err(Error::new(ErrorKind::InvalidInput, format!("a path has one stage or three, not {stages}"))),
    };
    Ok(data_directory()?.join("paths").join(format!("{}{suffix}.json", pair_key(source, destination)?)))
}

/// Where the agent of a kind (`edt`, `automdt`, `drl`) for two endpoints is kept.
pub fn agent_file(source: &Endpoint, destination: &Endpoint, kind: &str) -> Result<PathBuf> {
    let name = format!("{}-{}.safetensors", pair_key(source, destination)?, as_name(kind));
    Ok(data_directory()?.join("agents").join(name))
}

/// The machine of an endpoint: paths of one machine share what limits them.
fn place(endpoint: &Endpoint) -> Result<String> {
    Ok(match endpoint.resolve()? {
        Location::Remote(remote) => as_name(&format!("{}_{}", remote.host, remote.port)),
        Location::Service(url) => as_name(&format!("{}_{}_{}", url.scheme.name(), url.host, url.port.unwrap_or(0))),
        Location::Local { .. } | Location::Null | Location::Zero { .. } => "local".to_owned(),
    })
}

/// The server or service of an endpoint, by host and port; `None` for what is of this machine.
pub(crate) fn server(endpoint: &Endpoint) -> Result<Option<String>> {
    place(endpoint).map(|place| Some(place).filter(|place| place != "local"))
}

/// The text with nothing in it that a file system may take for more than a part of a name.
fn as_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' }).collect()
}
