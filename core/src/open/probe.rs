//! Finds out before a transfer whether its local destination can be written at all.

use std::path::Path;

use super::absolute;
use crate::endpoint::{Endpoint, Location};
use crate::error::{Error, ErrorKind, Result};

/// An error if nothing can be created where a local destination stands or would stand.
pub(crate) fn writable(destination: &Endpoint) -> Result<()> {
    let Location::Local { path, directory } = destination.resolve()? else { return Ok(()) };
    let whole = absolute(&path)?;
    // A file is replaced by way of the directory that holds it.
    let first = if whole.is_dir() || directory { Some(whole.as_path()) } else { whole.parent() };
    let mut above = first.into_iter().flat_map(Path::ancestors);
    let Some(place) = above.find(|place| place.symlink_metadata().is_ok()) else { return Ok(()) };
    if !place.is_dir() {
        return Err(Error::new(ErrorKind::WrongType, format!("could not write to `{destination}`"))
            .with_cause(format!("`{}` is no directory", place.display()))
            .with_hint("remove or rename what stands there, or choose another destination"));
    }
    creatable(place, destination)
}

#[cfg(unix)]
fn creatable(place: &Path, destination: &Endpoint) -> Result<()> {
    use rustix::fs::Access;
    rustix::fs::access(place, Access::WRITE_OK | Access::EXEC_OK).map_err(|cause| {
        let hint = format!("check the owner and mode of `{}`, or choose another destination", place.display());
        Error::io(format!("could not write to `{destination}`"), &cause.into()).with_hint(hint)
    })
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "has the form of the one that can fail")]
fn creatable(_: &Path, _: &Endpoint) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(directory: &tempfile::TempDir, name: &str) -> Endpoint {
        Endpoint::new(format!("{}/{name}", directory.path().display()))
    }

    #[test]
    fn what_can_be_created_passes() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "x").unwrap();
        for name in ["", "new", "new/deep/", "file"] {
            assert!(writable(&at(&directory, name)).is_ok(), "{name}");
        }
        assert!(writable(&"null:".into()).is_ok());
    }

    #[test]
    fn a_destination_below_a_file_is_refused_with_the_file_named() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "x").unwrap();
        for name in ["file/", "file/a", "file/a/b/"] {
            let error = writable(&at(&directory, name)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WrongType, "{name}");
            assert!(error.cause().unwrap().contains("file` is no directory") && error.hint().is_some(), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_without_the_right_to_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        // Nobody is kept from writing by modes as the superuser is not.
        if rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
        assert_eq!(writable(&at(&directory, "new")).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
