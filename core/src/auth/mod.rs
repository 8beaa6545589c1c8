//! Who may come in: shared secrets, the server's identity, and the identities that a client has pinned.

pub mod identity;
pub mod known_hosts;
pub mod secret;
pub mod trust;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use crate::error::{Error, ErrorKind, Result};

/// The directory of edt's configuration: `EDT_CONFIG_DIR`, or `edt` in the user's configuration directory. It may not exist yet.
pub fn config_dir() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("EDT_CONFIG_DIR").filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    etcetera::choose_base_strategy().map(|strategy| strategy.config_dir().join("edt")).map_err(|cause| {
        Error::new(ErrorKind::NotFound, "could not find the configuration directory of this user")
            .with_cause(cause)
            .with_hint("set HOME, or set EDT_CONFIG_DIR to a directory for edt's configuration")
    })
}

/// Stores a secret text in a new file that only this user can read; returns false, and leaves the file, if another process was first.
pub(crate) fn create_private(path: &Path, text: &str) -> Result<bool> {
    let failed = |cause: &std::io::Error| Error::io(format!("could not create `{}`", path.display()), cause);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_private_dir(parent).map_err(|cause| failed(&cause))?;
    // A temporary file has mode 0600 from the start, and linking it into place never shows half a file.
    let mut file = tempfile::NamedTempFile::new_in(parent).map_err(|cause| failed(&cause))?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(|cause| failed(&cause))?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(refused) if refused.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(refused) => Err(failed(&refused.error)),
    }
}

#[cfg(unix)]
pub(crate) fn create_private_dir(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
pub(crate) fn create_private_dir(path: &Path) -> std::io::Result<()> {
    fs::create_dir_all(path)
}
