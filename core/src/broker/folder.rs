//! Where the table of transfers lies: a directory of this machine that all processes of this user find, and nobody else writes to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::auth::create_private_dir;

/// Names another directory, which several users may share.
const VARIABLE: &str = "EDT_BROKER_DIR";

/// A directory for the table.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    path: PathBuf,
    /// The permissions of new files in it: those of the directory.
    #[cfg(unix)]
    mode: u32,
}

impl Folder {
    /// The directory that the environment names; else one in that of the user's session, or in the one for temporary files. Makes it.
    pub(super) fn find() -> io::Result<Self> {
        if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
            return Self::named(PathBuf::from(named));
        }
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        for path in candidates() {
            match Self::own(path) {
                Ok(found) => return Ok(found),
                Err(cause) => refused = cause,
            }
        }
        Err(refused)
    }

    /// A directory that somebody has chosen, with the permissions that it has.
    pub(super) fn named(path: PathBuf) -> io::Result<Self> {
        create_private_dir(&path)?;
        Self::of(path)
    }

    /// A directory of this user alone, below one that is there: others may have put theirs, or a link, under its name.
    fn own(path: PathBuf) -> io::Result<Self> {
        if let Err(cause) = make(&path)
            && cause.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(cause);
        }
        check(&path)?;
        Self::of(path)
    }

    fn of(path: PathBuf) -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            mode: std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path)?) & 0o666,
            path,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file for reading and writing, and makes it if it is missing.
    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        let path = self.path.join(name);
        let mut how = OpenOptions::new();
        how.read(true).write(true);
        // In a directory for everybody others may have put links and pipes.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut how,
            (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed(),
        );
        // In a directory for everybody a system may refuse to "create" what another user has made.
        match how.open(&path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        let made = how.clone().create_new(true).open(&path);
        match made {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => how.open(&path),
            Ok(file) => {
                #[cfg(unix)]
                file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(self.mode))?;
                Ok(file)
            }
            Err(cause) => Err(cause),
        }
    }
}

#[cfg(unix)]
fn candidates() -> Vec<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let session = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()).map(PathBuf::from);
    // What a batch system sets for temporary files differs from job to job.
    let temporary = if cfg!(target_os = "macos") { std::env::temp_dir() } else { PathBuf::from("/tmp") };
    let sessions = session.into_iter().chain([PathBuf::from(format!("/run/user/{user}"))]).map(|session| session.join("edt"));
    sessions.chain([temporary.join(format!("edt-{user}"))]).collect()
}

#[cfg(not(unix))]
fn candidates() -> Vec<PathBuf> {
    vec![std::env::temp_dir().join("edt-transfers")]
}

#[cfg(unix)]
fn make(path: &Path) -> io::Result<()> {
    std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700).create(path)
}

#[cfg(not(unix))]
fn make(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

/// An error unless it is a directory, no link, of this user, that nobody else may write to.
#[cfg(unix)]
fn check(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() && found.uid() == rustix::process::getuid().as_raw() && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let cause = format!("`{}` is no directory of this user alone", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, cause))
}

/// The directory for temporary files is the user's own.
#[cfg(not(unix))]
fn check(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { Ok(()) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_directory_and_its_files_are_the_users_own() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("edt");
        for _ in 0..2 {
            let folder = Folder::own(path.clone()).unwrap();
            folder.file("x").unwrap();
            assert_eq!((mode(&path), mode(&path.join("x"))), (0o700, 0o600));
        }
    }

    #[test]
    fn a_link_and_a_directory_that_others_may_write_to_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let (real, link, open) = (place.path().join("real"), place.path().join("link"), place.path().join("open"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        for refused in [link, open] {
            assert_eq!(Folder::own(refused).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
        assert!(Folder::own(place.path().join("missing").join("edt")).is_err());
    }

    #[test]
    fn the_files_of_a_shared_directory_are_shared_with_those_who_share_it() {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o770)).unwrap();
        let folder = Folder::named(place.path().to_owned()).unwrap();
        folder.file("x").unwrap();
        assert_eq!(mode(&place.path().join("x")), 0o660);
    }
}
