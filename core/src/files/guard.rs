//! What a slip of the finger must not remove: a whole store, the directory one stands in, or what a link leads to.

use std::path::Path;

use crate::endpoint::{Endpoint, Location};
use crate::error::{Error, ErrorKind, Result};

/// An error if the endpoint names a root, ends in `.` or `..`, or is a link written as a directory.
pub(super) fn removable(endpoint: &Endpoint) -> Result<()> {
    let refused = |why: &str, hint: &str| {
        let what = format!("could not remove `{endpoint}`");
        Err(Error::new(ErrorKind::InvalidInput, what).with_cause(why).with_hint(hint))
    };
    let (text, directory, local) = match endpoint.resolve()? {
        Location::Local { path, directory } => (path.to_string_lossy().into_owned(), directory, true),
        Location::Remote(remote) => (remote.path, remote.directory, false),
        Location::Service(url) => (url.path, url.directory, false),
        Location::Null | Location::Zero { .. } => return Ok(()),
    };
    let separators: &[char] = if local { &['/', std::path::MAIN_SEPARATOR] } else { &['/'] };
    let trimmed = text.trim_end_matches(separators);
    match trimmed.rsplit(separators).next().unwrap_or_default() {
        "" => return refused("it is the root itself", "name what is below it"),
        "." | ".." => return refused("its last name is `.` or `..`", "write out the name of what to remove"),
        _ if local && Path::new(trimmed).file_name().is_none() => {
            return refused("it is the root itself", "name what is below it");
        }
        _ => {}
    }
    if local && directory && Path::new(trimmed).is_symlink() {
        return refused(
            "it is a symbolic link, written as the directory that it leads to",
            "leave out the slash at the end to remove the link, or name the directory itself",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_a_root_or_no_name_at_all_is_not_removable() {
        for endpoint in ["/", "//", "/.", ".", "./", "..", "../", "x/.", "sub/..", "sub/../", "file:///", "file:///x/.."] {
            assert_eq!(removable(&endpoint.into()).unwrap_err().kind(), ErrorKind::InvalidInput, "{endpoint}");
        }
        for endpoint in [
            "edt://h",
            "edt://h/",
            "edt://h/./",
            "edt://h/a/.",
            "edt://h/a/../",
            "edts://h//",
            "edt://h/%2e",
            "s3://b",
            "s3://b/",
        ] {
            assert_eq!(removable(&endpoint.into()).unwrap_err().kind(), ErrorKind::InvalidInput, "{endpoint}");
        }
    }

    #[test]
    fn what_has_a_name_is_removable() {
        for endpoint in ["a", "a/", "/a", "./a", "../a", "a..", ".a", "edt://h/a", "edt://h/./a/", "file:///a", "s3://b/a"] {
            assert!(removable(&endpoint.into()).is_ok(), "{endpoint}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_removable_only_under_its_own_name() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        assert!(removable(&link.as_path().into()).is_ok());
        let error = removable(&Endpoint::new(format!("{}/", link.display()))).unwrap_err();
        assert!(error.hint().unwrap().contains("leave out the slash"), "{error}");
    }
}
