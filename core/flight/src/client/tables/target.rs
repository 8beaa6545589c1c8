//! Where a fetched table goes: one file of the kind that its name says, or a directory with a file for each endpoint.

use std::fs::TryLockError;
use std::path::{Path, PathBuf};

use edt::endpoint::Location;
use edt::options::{Fsync, Overwrite, TransferOptions};
use edt::{Error, ErrorKind, Result};
use tempfile::NamedTempFile;

use crate::contract::Kind;

/// Random characters at the end of temporary names.
const RANDOM: usize = 6;

/// The files that a transfer makes.
pub(super) struct Target {
    files: Files,
    overwrite: Overwrite,
    fsync: Fsync,
}

enum Files {
    /// All parts together.
    One(PathBuf, Kind),
    /// Each part is a Parquet file of its own.
    Each { directory: PathBuf, stem: String },
}

impl Target {
    /// `name` is the table's.
    pub(super) fn new(destination: &Location, name: &str, options: &TransferOptions) -> Result<Self> {
        let Location::Local { path, directory } = destination else {
            return Err(Error::new(ErrorKind::Unsupported, format!("could not fetch the table `{name}` to another service"))
                .with_hint("fetch it to a file of this machine, and copy that"));
        };
        let files = if *directory || path.is_dir() {
            let last = name.rsplit('/').find(|part| !part.is_empty()).unwrap_or("table");
            let stem = last.rsplit_once('.').map_or(last, |(stem, _)| stem);
            let stem: String = stem.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
            Files::Each { directory: path.clone(), stem }
        } else {
            let kind = Kind::of_name(&path.to_string_lossy()).filter(|kind| *kind != Kind::Csv);
            Files::One(path.clone(), kind.ok_or_else(|| unknown(path))?)
        };
        let target = Self { files, overwrite: options.overwrite, fsync: options.fsync };
        target.check(0)?;
        Ok(target)
    }

    /// Whether all parts become one file.
    pub(super) fn is_one(&self) -> bool {
        matches!(self.files, Files::One(..))
    }

    pub(super) fn kind(&self) -> Kind {
        match &self.files {
            Files::One(_, kind) => *kind,
            Files::Each { .. } => Kind::Parquet,
        }
    }

    /// The file that a part belongs to.
    pub(super) fn path(&self, part: usize) -> PathBuf {
        match &self.files {
            Files::One(path, _) => path.clone(),
            Files::Each { directory, stem } => directory.join(format!("{stem}-{part:05}.parquet")),
        }
    }

    /// An empty file beside the one that it becomes; it is removed unless it is brought to its name.
    pub(super) fn create(&self, part: usize) -> Result<NamedTempFile> {
        let path = self.path(part);
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let failed = |cause: std::io::Error| Error::io(format!("could not create `{}`", path.display()), &cause);
        std::fs::create_dir_all(directory).map_err(failed)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut builder = tempfile::Builder::new();
        let prefix = format!(".{name}.edt-");
        builder.prefix(&prefix).rand_bytes(RANDOM);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        if cfg!(not(unix)) {
            // A lock would keep out the other handles of the file as well.
            return builder.tempfile_in(directory).map_err(failed);
        }
        remove_dead(directory, &prefix);
        loop {
            let file = builder.tempfile_in(directory).map_err(failed)?;
            // Whoever holds the lock lives. Another run may have taken the file for a dead one's before it was locked.
            match file.as_file().try_lock() {
                Err(TryLockError::WouldBlock) => {}
                _ if file.path().exists() => return Ok(file),
                _ => {}
            }
        }
    }

    /// Brings a file to its name.
    pub(super) fn publish(&self, part: usize, file: NamedTempFile) -> Result<PathBuf> {
        let path = self.path(part);
        let failed = |cause: &std::io::Error| Error::io(format!("could not publish `{}`", path.display()), cause);
        if self.fsync != Fsync::None {
            file.as_file().sync_all().map_err(|cause| failed(&cause))?;
        }
        let persisted = match self.overwrite {
            Overwrite::Replace => file.persist(&path),
            Overwrite::Never => file.persist_noclobber(&path),
        };
        persisted.map_err(|cause| failed(&cause.error))?;
        Ok(path)
    }

    /// Makes the names last.
    pub(super) fn flush(&self) -> Result<()> {
        if self.fsync != Fsync::Full {
            return Ok(());
        }
        let path = self.path(0);
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flushed = std::fs::File::open(directory).and_then(|directory| directory.sync_all());
        flushed.map_err(|cause| Error::io(format!("could not flush `{}`", directory.display()), &cause))
    }

    /// Refuses early what would fail at the end.
    pub(super) fn check(&self, part: usize) -> Result<()> {
        let path = self.path(part);
        if self.overwrite == Overwrite::Never && path.symlink_metadata().is_ok() {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("could not write `{}`", path.display()))
                .with_cause("a file of this name is there, and it shall not be replaced"));
        }
        Ok(())
    }
}

/// Removes what runs that were killed left of the same file; those that live hold a lock.
fn remove_dead(directory: &Path, prefix: &str) {
    let Ok(listed) = std::fs::read_dir(directory) else { return };
    let is_ours = |name: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.len() == RANDOM);
    for entry in listed.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_ours)) {
        let Ok(file) = std::fs::File::open(entry.path()) else { continue };
        // A lock that cannot be had, or asked for, is no proof of death. It is held until the name is gone: who has just made the file
        // and locks it afterwards sees that it is.
        let dead = file.metadata().is_ok_and(|metadata| metadata.is_file()) && file.try_lock().is_ok();
        if dead && let Err(cause) = std::fs::remove_file(entry.path()) {
            tracing::info!(path = %entry.path().display(), %cause, "what an earlier run left stays");
        }
        drop(file);
    }
}

fn unknown(path: &Path) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("could not write a table to `{}`", path.display()))
        .with_cause("its name does not say as what")
        .with_hint("end it in .parquet or .arrow, or name a directory with a slash at its end")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: PathBuf, directory: bool) -> Result<Target> {
        Target::new(&Location::Local { path, directory }, "a/t.parquet", &TransferOptions::default())
    }

    #[test]
    fn names_say_what_is_written() {
        let place = tempfile::tempdir().unwrap();
        let one = target(place.path().join("x.arrow"), false).unwrap();
        assert!(one.is_one() && one.kind() == Kind::Arrow && one.path(7) == place.path().join("x.arrow"));
        let each = target(place.path().to_owned(), false).unwrap();
        assert_eq!(each.path(7), place.path().join("t-00007.parquet"));
        assert_eq!(target(place.path().join("x.csv"), false).err().unwrap().kind(), ErrorKind::InvalidInput);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_killed_run_left_is_removed_and_what_a_living_one_writes_stays() {
        let place = tempfile::tempdir().unwrap();
        let target = target(place.path().join("x.parquet"), false).unwrap();
        let left = place.path().join(".x.parquet.edt-Ab12Cd");
        let others = [".x.parquet.edt-notes", ".y.parquet.edt-Ab12Cd"].map(|name| place.path().join(name));
        for path in others.iter().chain([&left]) {
            std::fs::write(path, "x").unwrap();
        }
        let living = target.create(0).unwrap();
        let beside = target.create(0).unwrap();
        assert!(!left.exists() && living.path().exists() && beside.path().exists());
        assert!(others.iter().all(|path| path.exists()));
    }

    #[test]
    fn those_who_write_at_once_keep_their_files() {
        let place = tempfile::tempdir().unwrap();
        let target = target(place.path().join("x.parquet"), false).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let files: Vec<_> = (0..50).map(|_| target.create(0).unwrap()).collect();
                    assert!(files.iter().all(|file| file.path().exists()));
                });
            }
        });
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let target = target(place.path().join("new/x.parquet"), false).unwrap();
        drop(target.create(0).unwrap());
        assert_eq!(std::fs::read_dir(place.path().join("new")).unwrap().count(), 0);
        let file = target.create(0).unwrap();
        std::fs::write(file.path(), "x").unwrap();
        let path = target.publish(0, file).unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "x");
    }
}
