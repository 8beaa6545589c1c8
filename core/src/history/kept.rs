//! The file that an optimizer is made from: the one that is named, or the one kept in edt's data directory.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{agent_file, knowledge_file};
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::optimizer::network::MOST_BYTES;
use crate::optimizer::{HOW_TO_LEARN, how_to_train};

/// The largest knowledge file that is read.
const MOST_KNOWLEDGE: usize = 256 << 20;

/// The file of an agent or of knowledge, read.
pub(crate) struct KeptFile {
    kind: Kind,
    path: PathBuf,
    bytes: Vec<u8>,
}

/// What a file holds.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    /// What makes such a file.
    maker: &'static str,
    most_bytes: usize,
}

const AGENT: Kind = Kind { name: "agent", maker: "edt train", most_bytes: MOST_BYTES };
const KNOWLEDGE: Kind = Kind { name: "knowledge", maker: "edt learn", most_bytes: MOST_KNOWLEDGE };

impl KeptFile {
    /// Reads the agent file that an option names, or the one of a kind of agent that is kept for two endpoints.
    pub(crate) fn agent(named: Option<&Path>, source: &Endpoint, destination: &Endpoint, kind: &str) -> Result<Self> {
        match named {
            Some(path) => Self::named(AGENT, path),
            None => Self::kept(AGENT, agent_file(source, destination, kind)?, &how_to_train(kind)),
        }
    }

    /// Reads the knowledge file that an option names, or the one that is kept.
    pub(crate) fn knowledge(named: Option<&Path>) -> Result<Self> {
        match named {
            Some(path) => Self::named(KNOWLEDGE, path),
            None => Self::kept(KNOWLEDGE, knowledge_file()?, HOW_TO_LEARN),
        }
    }

    fn named(kind: Kind, path: &Path) -> Result<Self> {
        let bytes = read(path, kind).map_err(|cause| {
            Error::io(format!("could not read the {} `{}`", kind.name, path.display()), &cause)
                .with_hint(format!("name a file that `{}` made", kind.maker))
                .into_usage()
        })?;
        Ok(Self { kind, path: path.to_owned(), bytes })
    }

    fn kept(kind: Kind, path: PathBuf, how: &str) -> Result<Self> {
        match read(&path, kind) {
            Ok(bytes) => Ok(Self { kind, path, bytes }),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Err(missing(&path, kind, how)),
            Err(cause) => Err(Error::io(format!("could not read the {} `{}`", kind.name, path.display()), &cause)),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Says of an error in the content which file it is in.
    pub(crate) fn refused(&self, error: &Error) -> Error {
        let what = format!("could not use the {} `{}`", self.kind.name, self.path.display());
        let refused = Error::new(error.kind(), what).with_cause(error);
        match error.hint() {
            Some(hint) => refused.with_hint(hint),
            None => refused,
        }
    }
}

/// Reads no more than shows that a file is too long.
fn read(path: &Path, kind: Kind) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(kind.most_bytes as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn missing(path: &Path, kind: Kind, how: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("there is no {} `{}`", kind.name, path.display())).with_hint(how)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_missing_is_named_with_how_to_make_it() {
        let error = missing(Path::new("agents/a--b-edt.safetensors"), AGENT, &how_to_train("edt"));
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.what(), "there is no agent `agents/a--b-edt.safetensors`");
        let hint = "run `edt explore SRC DST` and `edt train SRC DST` first, or name a file with --agent";
        assert_eq!(error.hint(), Some(hint));
        let error = missing(Path::new("knowledge/knowledge.json"), KNOWLEDGE, HOW_TO_LEARN);
        assert_eq!(error.what(), "there is no knowledge `knowledge/knowledge.json`");
        assert!(error.hint().unwrap().contains("edt learn") && error.hint().unwrap().contains("--knowledge"));
    }

    #[test]
    fn a_named_file_must_be_there() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().join("none"), directory.path().to_owned()] {
            for read in [KeptFile::agent(Some(&path), &"a".into(), &"b".into(), "edt"), KeptFile::knowledge(Some(&path))] {
                let error = read.err().unwrap();
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
                assert!(error.what().contains(path.to_str().unwrap()));
            }
        }
    }

    #[test]
    fn an_error_in_the_content_names_the_file_and_keeps_its_hint() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "x").unwrap();
        let file = KeptFile::knowledge(Some(&path)).unwrap();
        assert_eq!(file.bytes(), b"x");
        let error = file.refused(&Error::new(ErrorKind::Unsupported, "it is an ONNX file").with_hint("build"));
        assert_eq!(
            (error.kind(), error.cause(), error.hint()),
            (ErrorKind::Unsupported, Some("it is an ONNX file"), Some("build"))
        );
        assert!(error.what().contains(path.to_str().unwrap()));
    }
}
