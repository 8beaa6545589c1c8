//! Which names of namespaces are in use. A lock on a file says so, because the system frees it however its owner ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use crate::Error;

use super::{namespace, system};

const FOLDER: &str = "/run/edt-path";
const HINT: &str = "run it as root, with a writable /run";

/// The right to a name for as long as it lives.
pub(super) struct Claim {
    file: PathBuf,
    _locked: File,
}

impl Claim {
    /// Takes a name, after removing all namespaces whose owners are dead.
    pub(super) fn take(name: &str) -> Result<Self, Error> {
        if name.is_empty() || name.len() > 32 || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(Error::Options(format!("`{name}` is no name for a path: use up to 32 letters, digits and hyphens")));
        }
        fs::create_dir_all(FOLDER).map_err(system(format!("make `{FOLDER}`"), HINT))?;
        // Between the making of a file and its lock another process would take it for one of the dead.
        let all = open(&Path::new(FOLDER).join(".all"))?;
        all.lock().map_err(system(format!("lock `{FOLDER}`"), HINT))?;
        sweep()?;
        let file = Path::new(FOLDER).join(name);
        let locked = open(&file)?;
        match locked.try_lock() {
            Ok(()) => Ok(Self { file, _locked: locked }),
            Err(TryLockError::WouldBlock) => Err(Error::Options(format!("a path named `{name}` is running already"))),
            Err(TryLockError::Error(error)) => Err(system(format!("lock `{}`", file.display()), HINT)(error)),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // If it stays, the next start sweeps it away.
        let _ = fs::remove_file(&self.file);
    }
}

/// The name of the namespace at one side of a path.
pub(super) fn namespace(name: &str, side: &str) -> String {
    format!("edt-{name}-{side}")
}

/// Removes the namespaces of every name that nobody holds.
fn sweep() -> Result<(), Error> {
    let entries = fs::read_dir(FOLDER).map_err(system(format!("list `{FOLDER}`"), HINT))?;
    for file in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let Some(name) = file.file_name().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.')) else {
            continue;
        };
        if open(&file)?.try_lock().is_ok() {
            for side in ["near", "far"] {
                namespace::remove(&namespace(name, side));
            }
            fs::remove_file(&file).map_err(system(format!("remove `{}`", file.display()), HINT))?;
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<File, Error> {
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    opened.map_err(system(format!("open `{}`", path.display()), HINT))
}
