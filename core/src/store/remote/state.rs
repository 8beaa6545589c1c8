//! What a transfer to a service remembers on this machine: its journal, and a note on each upload under way.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};

const JOURNAL: &str = "journal";

/// A key that the local store keeps for itself, and that no transfer has anywhere.
const RESERVED: &str = "tmp";

/// How often a journal is opened again because it was removed between opening and locking.
const ATTEMPTS: usize = 8;

/// The directory `edt/transfers` in the user's state directory, with a directory for each key.
#[derive(Debug, Clone)]
pub struct State {
    root: PathBuf,
}

impl State {
    /// Finds the directory, which may not exist yet.
    pub fn open() -> Result<Self> {
        let strategy = etcetera::choose_base_strategy().map_err(|cause| {
            Error::new(ErrorKind::NotFound, "could not find the state directory of this user")
                .with_cause(cause)
                .with_hint("set HOME, or set XDG_STATE_HOME to a directory for what interrupted transfers leave")
        })?;
        let state = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
        Ok(Self::at(state.join("edt").join("transfers")))
    }

    /// Uses a given directory.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Opens the journal of a transfer, locked for this process; one that another process holds is an error of kind `AlreadyExists`.
    pub fn journal(&self, key: &str) -> Result<File> {
        let directory = self.directory(key)?;
        let path = directory.join(JOURNAL);
        let what = || format!("could not open the journal `{}`", path.display());
        match lock(&directory, &path) {
            Ok(Some(file)) => Ok(file),
            Ok(None) => Err(Error::new(ErrorKind::AlreadyExists, what())
                .with_cause("another process is doing this transfer")
                .with_hint("wait for it or end it, then run the same command again")),
            Err(error) => Err(Error::io(what(), &error)),
        }
    }

    /// The note of a number below a key; one that cannot be understood is none.
    pub fn note<T: DeserializeOwned>(&self, key: &str, number: u64) -> Result<Option<T>> {
        let path = self.directory(key)?.join(number.to_string());
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(format!("could not read the note `{}`", path.display()), &error)),
        }
    }

    /// All notes below a key, with their numbers.
    pub fn notes<T: DeserializeOwned>(&self, key: &str) -> Result<Vec<(u64, T)>> {
        let directory = self.directory(key)?;
        let found = match fs::read_dir(&directory) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io(format!("could not list `{}`", directory.display()), &error)),
        };
        let numbers = found.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(|number| self.note(key, number).map(|note| Some((number, note?))).transpose()).collect()
    }

    /// Keeps a note, replacing an earlier one at once or not at all.
    pub fn keep<T: Serialize>(&self, key: &str, number: u64, note: &T) -> Result<()> {
        let directory = self.directory(key)?;
        let path = directory.join(number.to_string());
        let written = path.with_extension("new");
        let kept = serde_json::to_vec(note).map_err(io::Error::from).and_then(|bytes| {
            make(&directory)?;
            fs::write(&written, bytes)?;
            fs::rename(&written, &path)
        });
        kept.map_err(|error| Error::io(format!("could not write the note `{}`", path.display()), &error))
    }

    /// Removes a note; one that is not there is no error.
    pub fn forget(&self, key: &str, number: u64) -> Result<()> {
        let path = self.directory(key)?.join(number.to_string());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(format!("could not remove the note `{}`", path.display()), &error))
            }
            _ => Ok(()),
        }
    }

    /// Removes the journal and all notes of a key.
    pub fn discard(&self, key: &str) -> Result<()> {
        let directory = self.directory(key)?;
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(format!("could not remove `{}`", directory.display()), &error))
            }
            _ => Ok(()),
        }
    }

    fn directory(&self, key: &str) -> Result<PathBuf> {
        check_key(key)?;
        Ok(self.root.join(key))
    }
}

/// Refuses a key that is no plain name or that is taken.
pub(crate) fn check_key(key: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if key.is_empty() || key.len() > 64 || key == RESERVED || !key.bytes().all(plain) {
        return Err(Error::new(ErrorKind::InvalidInput, format!("could not use the journal key `{}`", key.escape_debug()))
            .with_cause("a key is 1 to 64 letters, digits, `-` or `_`"));
    }
    Ok(())
}

/// Opens and locks a journal; `None` if another process holds it.
fn lock(directory: &Path, path: &Path) -> io::Result<Option<File>> {
    for _ in 0..ATTEMPTS {
        make(directory)?;
        let file = match OpenOptions::new().read(true).append(true).create(true).open(path) {
            // A transfer that ended removed the directory between the two calls.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        if is_named(path, &file)? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// Whether a file is still the one that the next process would open.
#[cfg(unix)]
fn is_named(path: &Path, file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    match fs::metadata(path) {
        Ok(named) => file.metadata().map(|held| (held.dev(), held.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn is_named(path: &Path, _: &File) -> io::Result<bool> {
    path.try_exists()
}

/// Makes a directory that only this user may read, and those above it.
fn make(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_journal_has_one_owner_and_outlives_it() {
        let place = tempfile::tempdir().unwrap();
        let state = State::at(place.path().join("transfers"));
        let mut journal = state.journal("a1").unwrap();
        journal.write_all(b"one").unwrap();
        assert_eq!(state.journal("a1").unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(journal);
        assert_eq!(state.journal("a1").unwrap().metadata().unwrap().len(), 3);
        state.discard("a1").unwrap();
        state.discard("a1").unwrap();
        assert_eq!(state.journal("a1").unwrap().metadata().unwrap().len(), 0);
    }

    #[test]
    fn notes_are_found_by_key_and_number() {
        let place = tempfile::tempdir().unwrap();
        let state = State::at(place.path().to_owned());
        assert!(state.notes::<String>("a").unwrap().is_empty());
        state.keep("a", 1, &"first").unwrap();
        state.keep("a", u64::MAX, &"last").unwrap();
        state.keep("a", 1, &"first again").unwrap();
        drop(state.journal("a").unwrap());
        assert_eq!(state.note("a", 1).unwrap(), Some("first again".to_owned()));
        assert_eq!(state.note::<String>("a", 2).unwrap(), None);
        assert_eq!(state.note::<u32>("a", 1).unwrap(), None, "what is no such note is none");
        let mut notes: Vec<(u64, String)> = state.notes("a").unwrap();
        notes.sort();
        assert_eq!(notes, [(1, "first again".to_owned()), (u64::MAX, "last".to_owned())]);
        state.forget("a", 1).unwrap();
        state.forget("a", 1).unwrap();
        assert_eq!(state.notes::<String>("a").unwrap().len(), 1);
    }

    #[test]
    fn no_key_leads_out_of_the_directory() {
        let state = State::at(PathBuf::from("/nowhere"));
        for bad in ["", "..", "a/b", "tmp", "a.b"] {
            assert_eq!(state.journal(bad).unwrap_err().kind(), ErrorKind::InvalidInput, "{bad:?}");
        }
    }
}
