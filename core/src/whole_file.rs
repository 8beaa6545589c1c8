//! Files beside those of a transfer, such as manifests and exports: each appears under its name when it is whole.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, ErrorKind, Result};

/// Links that lead from one to the next, at most.
const MOST_LINKS: usize = 40;

/// Writes a file that appears under its name when it is whole. A pipe or a device is written to as it is, and so is a file where none may
/// be made beside it.
pub fn write<E: From<Error>>(path: &Path, write: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), E>) -> Result<(), E> {
    let failed = |cause: &io::Error| Error::io(format!("could not write `{}`", path.display()), cause);
    match Way::to(path)? {
        Way::InPlace { truncate } => {
            let mut out = BufWriter::new(open(path, truncate)?);
            write(&mut out)?;
            out.flush().map_err(|cause| failed(&cause))?;
        }
        Way::Beside(file, place) => {
            let mut out = BufWriter::new(file);
            write(&mut out)?;
            let file = out.into_inner().map_err(|unwritten| failed(unwritten.error()))?;
            file.persist(&place).map_err(|unplaced| refused(path, &unplaced.error))?;
        }
    }
    Ok(())
}

/// Checks that a file can be written, long before it is, and changes nothing. Answers with the directory in which it will be made, if it is
/// made in one.
pub fn check(path: &Path) -> Result<Option<PathBuf>> {
    match Way::to(path)? {
        Way::InPlace { truncate } => {
            // A pipe may have no reader yet, for which it would be waited here.
            if truncate {
                open(path, false)?;
            }
            Ok(None)
        }
        Way::Beside(_, place) => Ok(Some(directory_of(&place).to_owned())),
    }
}

/// How a file is written.
enum Way {
    /// As it is, after its content was dropped or not.
    InPlace { truncate: bool },
    /// As a new file that takes this place.
    Beside(NamedTempFile, PathBuf),
}

impl Way {
    fn to(path: &Path) -> Result<Self> {
        let refused = |cause: io::Error| refused(path, &cause);
        let found = there_is(path.metadata()).map_err(refused)?;
        if found.as_ref().is_some_and(Metadata::is_dir) {
            return Err(refused(io::ErrorKind::IsADirectory.into()));
        }
        // What a process has open already, as by `/dev/stdout`, others write to as well. In `/dev/shm` are files like any other.
        let is_open = path.starts_with("/proc") || path.starts_with("/dev") && !path.starts_with("/dev/shm");
        if found.as_ref().is_some_and(|found| !found.is_file() || is_open) {
            return Ok(Self::InPlace { truncate: false });
        }
        // Of a link what it leads to is replaced, and not the link.
        let place = target(path).map_err(refused)?;
        match beside(&place, found.as_ref()) {
            Ok(file) => Ok(Self::Beside(file, place)),
            Err(cause) if found.is_some() && is_forbidden(cause.kind()) => Ok(Self::InPlace { truncate: true }),
            // A disk that is full would take neither, and what is there would be gone.
            Err(cause) => Err(refused(cause)),
        }
    }
}

fn open(path: &Path, truncate: bool) -> Result<File> {
    OpenOptions::new().write(true).truncate(truncate).open(path).map_err(|cause| refused(path, &cause))
}

/// That a file cannot be made is a mistake in its name, unless there is no room for it.
fn refused(path: &Path, cause: &io::Error) -> Error {
    let what = format!("could not create `{}`", path.display());
    let error = Error::io(what.clone(), cause);
    if error.kind() == ErrorKind::NoSpace {
        return error;
    }
    Error::new(ErrorKind::InvalidInput, what)
        .with_cause(cause)
        .with_hint("name a file that can be written, in a directory that exists")
}

/// What was found, or that nothing is there; what could not be found out is an error.
fn there_is(found: io::Result<Metadata>) -> io::Result<Option<Metadata>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Whether no file may be made in a directory, whatever room there is. In that of a process nothing is found under a new name.
fn is_forbidden(why: io::ErrorKind) -> bool {
    matches!(why, io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotFound)
}

/// Where a path leads, whether there is anything or not. What the system would not follow is not followed.
fn target(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Some(link) = there_is(place.symlink_metadata())?.filter(Metadata::is_symlink) else { return Ok(place) };
        check_owner(&link, directory_of(&place))?;
        // From the directory that the link lies in.
        place = directory_of(&place).join(place.read_link()?);
    }
    Err(io::Error::other("too many links lead from one to the next"))
}

/// The directory that a path lies in.
fn directory_of(place: &Path) -> &Path {
    place.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// An error for a link that somebody else has put into a directory for everybody.
#[cfg(unix)]
fn check_owner(link: &Metadata, directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let (directory, user) = (directory.metadata()?, rustix::process::geteuid().as_raw());
    if may_follow(link.uid(), (directory.uid(), directory.mode()), user) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user's link in a directory for everybody is not followed"))
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it may be refused")]
fn check_owner(_: &Metadata, _: &Path) -> io::Result<()> {
    Ok(())
}

/// The rule of Linux for links in directories that everybody writes to, by the owner of the link, the owner and the mode of the directory,
/// and the user that follows [`protected_symlinks` in proc(5)].
#[cfg(unix)]
fn may_follow(link_owner: u32, (owner, mode): (u32, u32), user: u32) -> bool {
    const STICKY_FOR_ALL: u32 = 0o1002;
    mode & STICKY_FOR_ALL != STICKY_FOR_ALL || link_owner == user || link_owner == owner
}

/// A file without a name of its own in the directory of another, which it replaces later, and whose permissions it has.
fn beside(place: &Path, found: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".edt-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = if found.is_some() { 0o600 } else { 0o666 };
        builder.permissions(std::fs::Permissions::from_mode(mode));
    }
    let file = builder.tempfile_in(directory_of(place))?;
    // The mask of the user is for files that are new.
    #[cfg(unix)]
    if let Some(found) = found {
        file.as_file().set_permissions(found.permissions())?;
    }
    #[cfg(not(unix))]
    let _ = found;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static [u8]) -> impl FnOnce(&mut (dyn Write + Send)) -> Result<()> {
        |out| out.write_all(text).map_err(|cause| Error::io("could not write", &cause))
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_appears_when_it_is_whole_and_one_that_was_there_stays_until_then() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.csv");
        let failing = |out: &mut (dyn Write + Send)| -> Result<()> {
            out.write_all(&vec![b'x'; 100_000]).unwrap();
            Err(Error::new(ErrorKind::Io, "no more"))
        };
        assert_eq!(write(&path, failing).unwrap_err().to_string(), "no more");
        assert!(names(directory.path()).is_empty());
        write(&path, text(b"first")).unwrap();
        assert!(write(&path, failing).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        write(&path, text(b"second")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert_eq!(names(directory.path()), ["out.csv"]);
        let error = write(&directory.path().join("none/out.csv"), text(b"")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(write(directory.path(), text(b"")).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn in_shared_memory_a_shorter_file_leaves_nothing_of_a_longer_one() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("report.json");
        write(&path, text(b"a long one")).unwrap();
        write(&path, text(b"short")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"short");
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_the_file_permissions_stay_and_devices_are_written_to() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("out.csv"), directory.path().join("link"));
        std::fs::write(&path, "first").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        // One that every mask leaves as it is, and one that every mask but none cuts.
        for mode in [0o600, 0o666] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            write(&link, text(b"second")).unwrap();
            assert!(link.is_symlink());
            assert_eq!(std::fs::read(&path).unwrap(), b"second");
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
        }
        write(Path::new("/dev/null"), text(b"third")).unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_nowhere_is_followed_and_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("first"), directory.path().join("second"));
        std::os::unix::fs::symlink("second", &first).unwrap();
        std::os::unix::fs::symlink(directory.path().join("out.csv"), &second).unwrap();
        write(&first, text(b"rows")).unwrap();
        assert!(first.is_symlink() && second.is_symlink());
        assert_eq!(std::fs::read(directory.path().join("out.csv")).unwrap(), b"rows");
        let circle = directory.path().join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        assert_eq!(write(&circle, text(b"")).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(circle.is_symlink());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_of_another_user_in_a_directory_for_everybody_is_not_followed() {
        let (user, other, root) = (1000, 1001, 0);
        assert!(!may_follow(other, (root, 0o41777), user));
        assert!(may_follow(user, (root, 0o41777), user) && may_follow(root, (root, 0o41777), user));
        assert!(may_follow(other, (root, 0o40777), user) && may_follow(other, (root, 0o41775), user));
    }

    #[cfg(unix)]
    #[test]
    fn what_cannot_be_looked_at_is_an_error_and_not_a_place_for_a_new_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "first").unwrap();
        // Below a file there is nothing to be found, nor is it known that there is nothing.
        let error = write(&file.join("out.csv"), text(b"")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let kind = |found: io::Result<Metadata>| there_is(found).unwrap_err().kind();
        assert_eq!(kind(Err(io::ErrorKind::PermissionDenied.into())), io::ErrorKind::PermissionDenied);
        assert_eq!(kind(file.join("out.csv").metadata()), io::ErrorKind::NotADirectory);
        assert!(there_is(directory.path().join("none").metadata()).unwrap().is_none());
    }

    #[test]
    fn a_file_that_is_there_is_cut_off_only_where_none_may_be_made_beside_it() {
        assert!(is_forbidden(io::ErrorKind::PermissionDenied) && is_forbidden(io::ErrorKind::ReadOnlyFilesystem));
        for why in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::OutOfMemory, io::ErrorKind::Other] {
            assert!(!is_forbidden(why), "{why}");
        }
    }

    /// Nobody can make a file beside those of a process, not even the superuser.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_is_written_in_its_place_where_none_can_be_made_beside_it() {
        let name = Path::new("/proc/self/comm");
        write(name, text(b"edt-export")).unwrap();
        assert_eq!(std::fs::read(name).unwrap(), b"edt-export\n");
    }

    #[test]
    fn what_is_checked_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.csv");
        assert_eq!(check(&path).unwrap().as_deref(), Some(directory.path()));
        assert!(names(directory.path()).is_empty());
        write(&path, text(b"first")).unwrap();
        check(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(check(&directory.path().join("none/out.csv")).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(check(directory.path()).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
