//! What edt keeps from one transfer to the next: for each pair of endpoints the path that was explored and the agents trained for it.

mod agent;
mod past;

use std::path::PathBuf;

use etcetera::BaseStrategy;

use crate::endpoint::{Endpoint, Location};
use crate::error::{Error, ErrorKind, Result};

pub(crate) use agent::AgentFile;
pub use past::Past;

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

/// The text with nothing in it that a file system may take for more than a part of a name.
fn as_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(source: &str, destination: &str) -> String {
        pair_key(&source.into(), &destination.into()).unwrap()
    }

    #[test]
    fn a_pair_is_named_by_its_machines_and_not_by_its_paths() {
        assert_eq!(key("data/", "edt://dtn.example:9000/a/b"), "local--dtn.example_9000");
        assert_eq!(key("edts://dtn.example/", "null:"), "dtn.example_7632--local");
        assert_eq!(key("zero:4x1GiB", "file:///data"), "local--local");
        assert_eq!(key("edt://[fe80::1]:9/", "."), "fe80__1_9--local");
    }

    #[test]
    fn no_host_name_leads_out_of_the_directory() {
        let file = path_file(&"edt://..:1/../x".into(), &"edt://a\\b%2f/".into(), 1).unwrap();
        assert_eq!(file.file_name().unwrap().to_str().unwrap(), ".._1--a_b_2f_7632.json");
        assert_eq!(file.parent().unwrap(), data_directory().unwrap().join("paths"));
    }

    #[test]
    fn paths_and_agents_have_names_of_their_own() {
        let (source, destination) = (Endpoint::from("."), Endpoint::from("edt://h:1/"));
        assert!(path_file(&source, &destination, 1).unwrap().ends_with("paths/local--h_1.json"));
        assert!(path_file(&source, &destination, 3).unwrap().ends_with("paths/local--h_1-3.json"));
        assert!(agent_file(&source, &destination, "edt").unwrap().ends_with("agents/local--h_1-edt.safetensors"));
        assert_eq!(path_file(&source, &destination, 2).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn an_endpoint_that_is_none_has_no_key() {
        assert!(pair_key(&"gopher://x/".into(), &".".into()).is_err());
    }
}
