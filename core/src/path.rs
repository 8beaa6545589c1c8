//! Names inside a store: relative, normalised, and unable to leave the root.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;

/// A path inside a store: components joined by `/`, none of them empty, `.` or `..`; the empty path is the root itself.
///
/// The bytes are those of the file system where it came from; on Unix any byte but NUL and `/` can occur in a name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelativePath(Box<[u8]>);

impl RelativePath {
    /// The root of a store.
    pub fn root() -> Self {
        Self::default()
    }

    /// Checks and takes bytes as they came from a peer or a listing; nothing is normalised away.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        check_length(bytes)?;
        if bytes.is_empty() {
            return Ok(Self::root());
        }
        for name in bytes.split(|byte| *byte == b'/') {
            check_name(name).map_err(|why| refused(bytes, why))?;
        }
        Ok(Self(bytes.into()))
    }

    /// Normalises what a user wrote: leading, trailing and double slashes and `.` vanish; `..` is refused.
    pub fn from_user(text: &str) -> Result<Self> {
        Self::from_user_bytes(text.as_bytes())
    }

    /// The same for a name that need not be text.
    pub fn from_user_bytes(bytes: &[u8]) -> Result<Self> {
        let names: Vec<&[u8]> = bytes.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").collect();
        Self::from_bytes(&names.join(&b'/'))
    }

    /// The bytes, components joined by `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is the root of the store.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The last component; `None` for the root.
    pub fn name(&self) -> Option<&[u8]> {
        self.components().last()
    }

    /// The path without its last component; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let end = self.0.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        Some(Self(self.0[..end].into()))
    }

    /// The components from the root down.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
    }

    /// This path with `tail` below it.
    #[must_use]
    pub fn join(&self, tail: &Self) -> Self {
        match (self.is_root(), tail.is_root()) {
            (true, _) => tail.clone(),
            (_, true) => self.clone(),
            _ => Self([&self.0[..], b"/", &tail.0[..]].concat().into()),
        }
    }

    /// This path with one more component; fails on a name that is empty, `.`, `..` or holds `/` or NUL.
    pub fn child(&self, name: &[u8]) -> Result<Self> {
        check_name(name).map_err(|why| refused(name, why))?;
        Ok(self.join(&Self(name.into())))
    }

    /// Fails where a path became longer than one may be, by names that were put together.
    pub fn check_length(&self) -> Result<()> {
        check_length(&self.0)
    }

    /// What remains of this path below `prefix`; `None` if it is not below it.
    pub fn strip_prefix(&self, prefix: &Self) -> Option<Self> {
        if prefix.is_root() {
            return Some(self.clone());
        }
        let rest = self.0.strip_prefix(&prefix.0[..])?;
        match rest {
            [] => Some(Self::root()),
            [b'/', tail @ ..] => Some(Self(tail.into())),
            _ => None,
        }
    }

    /// The path in the form of this operating system; fails where a name cannot stand in it.
    pub fn to_local(&self) -> Result<PathBuf> {
        let mut path = PathBuf::new();
        for name in self.components() {
            path.push(local_name(name).ok_or_else(|| refused(&self.0, "this operating system cannot hold such a name"))?);
        }
        Ok(path)
    }
}

/// The bytes of a name of the local file system; `None` where it is no valid text on systems that need text.
pub fn name_bytes(name: &std::ffi::OsStr) -> Option<&[u8]> {
    #[cfg(unix)]
    return Some(std::os::unix::ffi::OsStrExt::as_bytes(name));
    #[cfg(not(unix))]
    return name.to_str().map(str::as_bytes);
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems cannot hold every name")]
fn local_name(name: &[u8]) -> Option<&Path> {
    Some(Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name)))
}

#[cfg(not(unix))]
fn local_name(name: &[u8]) -> Option<&Path> {
    let text = std::str::from_utf8(name).ok()?;
    let reserved = text.contains(['\\', ':', '<', '>', '"', '|', '?', '*']) || text.ends_with(['.', ' ']);
    (!reserved).then(|| Path::new(text))
}

fn check_length(bytes: &[u8]) -> Result<()> {
    if bytes.len() <= MAX_PATH {
        return Ok(());
    }
    Err(refused(bytes, "it is longer than 4096 bytes").with_hint("use shorter names, or begin at a directory further down"))
}

fn check_name(name: &[u8]) -> Result<(), &'static str> {
    match name {
        [] => Err("it has an empty component"),
        b"." | b".." => Err("it has a `.` or `..` component"),
        _ if name.len() > MAX_NAME => Err("a component is longer than 255 bytes"),
        _ if name.contains(&0) => Err("it holds a NUL byte"),
        _ if name.contains(&b'/') => Err("a component holds a slash"),
        _ => Ok(()),
    }
}

fn refused(path: &[u8], why: &'static str) -> Error {
    let shown = String::from_utf8_lossy(&path[..path.len().min(200)]).into_owned();
    Error::new(ErrorKind::InvalidInput, format!("could not use the path `{}`", shown.escape_debug()))
        .with_cause(why)
        .with_hint("name a path inside the endpoint's root")
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_leaves_the_root_is_a_path() {
        for bad in ["..", "a/..", "../a", "/a", "a//b", "a/", "./a", "a\0b"] {
            assert!(RelativePath::from_bytes(bad.as_bytes()).is_err(), "{bad:?} passed");
        }
        assert!(RelativePath::from_user("a/../b").is_err());
    }

    #[test]
    fn a_users_slashes_are_normalised() {
        let path = RelativePath::from_user("/a//./b/").unwrap();
        assert_eq!(path.as_bytes(), b"a/b");
        assert_eq!(path.parent().unwrap().as_bytes(), b"a");
        assert_eq!(path.name().unwrap(), b"b");
    }

    #[test]
    fn a_prefix_is_stripped_at_component_borders_only() {
        let path = RelativePath::from_user("ab/c").unwrap();
        assert_eq!(path.strip_prefix(&RelativePath::from_user("a").unwrap()), None);
        assert_eq!(path.strip_prefix(&RelativePath::from_user("ab").unwrap()).unwrap().as_bytes(), b"c");
    }
}
