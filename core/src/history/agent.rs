//! The agent file that an optimizer is made from: the one that is named, or the one kept for the endpoints.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::agent_file;
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::optimizer::how_to_train;
use crate::optimizer::network::MOST_BYTES;

/// An agent file, read.
pub(crate) struct AgentFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl AgentFile {
    /// Reads the file that an option names.
    pub(crate) fn named(path: &Path) -> Result<Self> {
        let bytes = read(path).map_err(|cause| {
            Error::io(format!("could not read the agent `{}`", path.display()), &cause)
                .with_hint("name a file that `edt train` made")
                .into_usage()
        })?;
        Ok(Self { path: path.to_owned(), bytes })
    }

    /// Reads the agent of a kind that is kept for two endpoints.
    pub(crate) fn kept(source: &Endpoint, destination: &Endpoint, kind: &str) -> Result<Self> {
        let path = agent_file(source, destination, kind)?;
        match read(&path) {
            Ok(bytes) => Ok(Self { path, bytes }),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Err(missing(&path, kind)),
            Err(cause) => Err(Error::io(format!("could not read the agent `{}`", path.display()), &cause)),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Says of an error in the content which file it is in.
    pub(crate) fn refused(&self, error: &Error) -> Error {
        let refused = Error::new(error.kind(), format!("could not use the agent `{}`", self.path.display())).with_cause(error);
        match error.hint() {
            Some(hint) => refused.with_hint(hint),
            None => refused,
        }
    }
}

/// Reads no more than shows that a file is too long.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn missing(path: &Path, kind: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("there is no agent `{}`", path.display())).with_hint(how_to_train(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_missing_is_named_with_how_to_make_it() {
        let error = missing(Path::new("agents/a--b-edt.safetensors"), "edt");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.what(), "there is no agent `agents/a--b-edt.safetensors`");
        let hint = "run `edt explore SRC DST` and `edt train SRC DST` first, or name a file with --agent";
        assert_eq!(error.hint(), Some(hint));
    }

    #[test]
    fn a_named_file_must_be_there() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().join("none"), directory.path().to_owned()] {
            let error = AgentFile::named(&path).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert!(error.what().contains(path.to_str().unwrap()));
        }
    }

    #[test]
    fn an_error_in_the_content_names_the_file_and_keeps_its_hint() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "x").unwrap();
        let file = AgentFile::named(&path).unwrap();
        assert_eq!(file.bytes(), b"x");
        let error = file.refused(&Error::new(ErrorKind::Unsupported, "it is an ONNX file").with_hint("build"));
        assert_eq!(
            (error.kind(), error.cause(), error.hint()),
            (ErrorKind::Unsupported, Some("it is an ONNX file"), Some("build"))
        );
        assert!(error.what().contains(path.to_str().unwrap()));
    }
}
