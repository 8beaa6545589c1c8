//! The shared secret of a server and its callers: found, generated, and proven without being sent.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::auth::{config_dir, create_private};
use crate::error::{Error, ErrorKind, Result};
use crate::options::SecretSource;
use crate::protocol::hex;

/// The environment variable that holds the secret.
pub const VARIABLE: &str = "EDT_TOKEN";

/// The fewest characters of a secret: what travels can be attacked offline by guessing, so a short one is none.
pub const MIN_LENGTH: usize = 16;

const HINT: &str =
    "set EDT_TOKEN or use --token-file with the secret that `edt serve` showed; `openssl rand -hex 32` makes a new one";

/// Why a secret is refused whose bytes are no text.
const NO_TEXT: &str = "it is no text in UTF-8";

/// Where a secret came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `EDT_TOKEN`.
    Environment,
    /// A file.
    File(PathBuf),
    /// The embedding program.
    Program,
    /// Generated just now and stored in this file; the text is shown once.
    Generated {
        /// Where it is stored.
        path: PathBuf,
        /// The secret, for people to copy.
        text: String,
    },
}

/// A shared secret; overwritten when dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes a text without its surrounding white space; `place` names where it came from in the error for one that is too short.
    pub fn new(text: &str, place: &str) -> Result<Self> {
        let text = text.trim();
        if text.len() < MIN_LENGTH {
            return Err(unusable(place, if text.is_empty() { "it is empty" } else { "it has fewer than 16 characters" }));
        }
        Ok(Self(text.as_bytes().to_vec()))
    }

    /// The bytes that key the proofs.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Keeps the compiler from dropping a write that nothing reads.
        std::hint::black_box(&self.0);
    }
}

/// Finds the secret of a caller; there must be one.
pub fn find(source: &SecretSource) -> Result<Secret> {
    find_if_any(source)?.ok_or_else(|| {
        Error::new(ErrorKind::Refused, "could not find the shared secret of the server")
            .with_cause("EDT_TOKEN is not set and the configuration directory has no file `token`")
            .with_hint(HINT)
    })
}

/// Finds the secret of a caller who may do without one, because not every service asks for it.
pub fn find_if_any(source: &SecretSource) -> Result<Option<Secret>> {
    Ok(Finder::of_process().existing(source)?.map(|(secret, _)| secret))
}

/// Finds the secret of a server, or generates one and stores it where callers of the same user find it.
pub fn find_or_generate(source: &SecretSource) -> Result<(Secret, Origin)> {
    Finder::of_process().existing_or_new(source)
}

/// Where the secret of [`SecretSource::Environment`] may lie.
struct Finder {
    variable: Option<OsString>,
    directory: Result<PathBuf>,
}

impl Finder {
    fn of_process() -> Self {
        Self { variable: std::env::var_os(VARIABLE).filter(|text| !text.is_empty()), directory: config_dir() }
    }

    fn existing(&self, source: &SecretSource) -> Result<Option<(Secret, Origin)>> {
        match source {
            SecretSource::Text(text) => Ok(Some((Secret::new(text, "the calling program")?, Origin::Program))),
            SecretSource::File(path) => {
                let secret = read(path).map_err(Error::into_usage)?;
                Ok(Some((secret, Origin::File(path.clone()))))
            }
            SecretSource::Environment => self.in_environment(),
        }
    }

    fn in_environment(&self) -> Result<Option<(Secret, Origin)>> {
        if let Some(text) = &self.variable {
            let place = "the variable `EDT_TOKEN`";
            // What stands for other bytes would stand for all of them.
            let text = text.to_str().ok_or_else(|| unusable(place, NO_TEXT))?;
            return Ok(Some((Secret::new(text, place)?, Origin::Environment)));
        }
        let Ok(path) = self.directory.as_ref().map(|directory| directory.join("token")) else {
            return Ok(None);
        };
        match fs::exists(&path) {
            Ok(false) => Ok(None),
            _ => Ok(Some((read(&path)?, Origin::File(path)))),
        }
    }

    fn existing_or_new(&self, source: &SecretSource) -> Result<(Secret, Origin)> {
        if let Some(found) = self.existing(source)? {
            return Ok(found);
        }
        let path = self.directory.clone()?.join("token");
        let text = hex(&random::<32>()?);
        if create_private(&path, &format!("{text}\n"))? {
            return Ok((Secret::new(&text, "this server")?, Origin::Generated { path, text }));
        }
        Ok((read(&path)?, Origin::File(path)))
    }
}

fn read(path: &Path) -> Result<Secret> {
    let place = format!("`{}`", path.display());
    let content =
        fs::read(path).map_err(|cause| Error::io(format!("could not read the secret from {place}"), &cause).with_hint(HINT))?;
    let first = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Secret::new(std::str::from_utf8(first).map_err(|_| unusable(&place, NO_TEXT))?, &place)
}

fn unusable(place: &str, cause: &str) -> Error {
    Error::new(ErrorKind::Refused, format!("could not use the secret from {place}")).with_cause(cause).with_hint(HINT)
}

/// Bytes from the random generator of the operating system; the one of the cryptography library needs 20 ms before its first byte.
pub(crate) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes)
        .map_err(|cause| Error::new(ErrorKind::Io, "could not draw random bytes from the operating system").with_cause(cause))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0123456789abcdef";

    fn finder(directory: &Path, variable: Option<&str>) -> Finder {
        Finder { variable: variable.map(OsString::from), directory: Ok(directory.to_owned()) }
    }

    #[test]
    fn a_server_generates_a_secret_once_and_callers_find_it() {
        let directory = tempfile::tempdir().unwrap();
        let finder = finder(&directory.path().join("edt"), None);
        assert!(finder.existing(&SecretSource::Environment).unwrap().is_none());
        let (made, origin) = finder.existing_or_new(&SecretSource::Environment).unwrap();
        let Origin::Generated { path, text } = origin else { panic!("not generated") };
        assert_eq!(text.as_bytes(), made.as_bytes());
        let (again, origin) = finder.existing_or_new(&SecretSource::Environment).unwrap();
        assert_eq!(origin, Origin::File(path.clone()));
        assert_eq!(again, made);
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).unwrap()) & 0o777, 0o600);
    }

    #[test]
    fn the_variable_wins_over_the_stored_file() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("token"), "fedcba9876543210\n").unwrap();
        let (secret, origin) = finder(directory.path(), Some(TEXT)).existing(&SecretSource::Environment).unwrap().unwrap();
        assert_eq!((secret.as_bytes(), origin), (TEXT.as_bytes(), Origin::Environment));
    }

    #[test]
    fn only_the_first_line_of_a_file_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        for second in [&b"second line\n"[..], b"\xff"] {
            fs::write(&path, [format!("  {TEXT} \r\n").as_bytes(), second].concat()).unwrap();
            assert_eq!(find(&SecretSource::File(path.clone())).unwrap().as_bytes(), TEXT.as_bytes());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_secret_that_is_no_text_is_refused_and_not_read_as_another() {
        use std::os::unix::ffi::OsStringExt as _;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let bytes = [TEXT.as_bytes(), b"\xff\n"].concat();
        fs::write(&path, &bytes).unwrap();
        let finder = Finder { variable: Some(OsString::from_vec(bytes)), ..finder(directory.path(), None) };
        for source in [SecretSource::File(path), SecretSource::Environment] {
            let error = finder.existing(&source).unwrap_err();
            assert_eq!((error.kind(), error.cause()), (ErrorKind::Refused, Some(NO_TEXT)));
        }
    }

    #[test]
    fn a_short_or_missing_secret_is_an_error_with_a_hint() {
        let short = find(&SecretSource::Text("short".to_owned())).unwrap_err();
        assert_eq!(short.kind(), ErrorKind::Refused);
        let missing = find(&SecretSource::File(PathBuf::from("/nonexistent/token"))).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::InvalidInput);
        assert!(short.hint().is_some() && missing.hint().is_some());
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new(TEXT, "a test").unwrap()), "Secret(..)");
    }
}
