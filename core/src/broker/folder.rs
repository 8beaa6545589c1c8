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
    /// Their group, likewise.
    #[cfg(unix)]
    group: u32,
}

impl Folder {
    /// The directory that is named here or by the environment; else the user's own in the one for temporary files. Makes it.
    pub(super) fn find(named: Option<&Path>) -> io::Result<Self> {
        let variable = || std::env::var_os(VARIABLE).filter(|named| !named.is_empty()).map(PathBuf::from);
        if let Some(path) = named.map(Path::to_owned).or_else(variable) {
            // Somebody has chosen it, with the permissions that it has.
            create_private_dir(&path)?;
            return Self::of(path);
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
        #[cfg(unix)]
        let found = fs::metadata(&path)?;
        Ok(Self {
            #[cfg(unix)]
            mode: std::os::unix::fs::MetadataExt::mode(&found) & 0o666,
            #[cfg(unix)]
            group: std::os::unix::fs::MetadataExt::gid(&found),
            path,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file for reading and writing, and makes it if it is missing.
    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        // In a directory for everybody a system may refuse to "create" what another user has made.
        match self.open(name) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        let made = tempfile::NamedTempFile::new_in(&self.path)?;
        // Before others see it, or they would be refused. Whoever is not of the group cannot give files to it.
        #[cfg(unix)]
        {
            let _ = std::os::unix::fs::fchown(made.as_file(), None, Some(self.group));
            made.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(self.mode))?;
        }
        match made.persist_noclobber(self.path.join(name)) {
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => self.open(name),
            made => made.map_err(|refused| refused.error),
        }
    }

    /// Opens a file that is there, and no link or pipe that others may have put there in a directory for everybody.
    pub(super) fn open(&self, name: &str) -> io::Result<File> {
        let mut how = OpenOptions::new();
        how.read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut how,
            (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed(),
        );
        let file = how.open(self.path.join(name))?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other(format!("`{name}` is no file"))) }
    }

    /// Whether there is anything of that name.
    pub(super) fn has_any(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path.join(name)).is_ok()
    }

    /// Whether a file that is open is still the one of that name.
    #[cfg(unix)]
    pub(super) fn has(&self, name: &str, open: &File) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let which = |found: fs::Metadata| (found.dev(), found.ino());
        let (named, open) = (fs::symlink_metadata(self.path.join(name)), open.metadata());
        named.is_ok_and(|named| open.is_ok_and(|open| which(named) == which(open)))
    }

    /// Whether a file that is open is still the one of that name: here nobody removes what is open.
    #[cfg(not(unix))]
    pub(super) fn has(&self, name: &str, _: &File) -> bool {
        self.path.join(name).exists()
    }
}

#[cfg(unix)]
fn candidates() -> Vec<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    // What a batch system sets for temporary files differs from job to job, and the directory of a session comes and goes with it.
    let temporary = if cfg!(target_os = "macos") { std::env::temp_dir() } else { PathBuf::from("/tmp") };
    [temporary, PathBuf::from("/var/tmp")].map(|place| place.join(format!("edt-{user}"))).to_vec()
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
    fn the_files_of_a_shared_directory_are_shared_with_those_who_share_it_from_the_first_moment() {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o770)).unwrap();
        let folder = Folder::find(Some(place.path())).unwrap();
        let names: Vec<String> = (0..300).map(|number| number.to_string()).collect();
        std::thread::scope(|scope| {
            let makes = scope.spawn(|| names.iter().for_each(|name| drop(folder.file(name).unwrap())));
            for name in &names {
                let path = place.path().join(name);
                while !path.exists() && !makes.is_finished() {}
                assert_eq!(mode(&path), 0o660);
            }
        });
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), names.len());
    }

    #[test]
    fn where_all_meet_does_not_depend_on_a_session() {
        let user = rustix::process::getuid().as_raw();
        let first = if cfg!(target_os = "macos") { std::env::temp_dir() } else { PathBuf::from("/tmp") };
        assert_eq!(candidates()[0], first.join(format!("edt-{user}")));
    }

    #[test]
    fn links_pipes_and_directories_are_no_files() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::find(Some(place.path())).unwrap();
        fs::write(place.path().join("victim"), "x").unwrap();
        std::os::unix::fs::symlink(place.path().join("victim"), place.path().join("link")).unwrap();
        fs::create_dir(place.path().join("directory")).unwrap();
        let pipe = place.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for name in ["link", "directory", "pipe"] {
            assert!(folder.file(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_is_not_the_one_that_is_open() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::find(Some(place.path())).unwrap();
        let open = folder.file("x").unwrap();
        assert!(folder.has("x", &open) && folder.has("x", &folder.file("x").unwrap()));
        fs::remove_file(place.path().join("x")).unwrap();
        assert!(!folder.has("x", &open));
        let again = folder.file("x").unwrap();
        assert!(!folder.has("x", &open) && folder.has("x", &again));
    }
}
