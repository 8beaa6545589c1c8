//! Which files are copied: patterns to include and to exclude.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;

/// Compiled patterns. Excluding wins over including; without patterns to include, everything is included.
///
/// A pattern without `/` is compared with the last component, at any depth; one with `/` with the whole path below the source; a
/// leading `/` only anchors it; one that ends in `/` means directories alone.
#[derive(Debug, Clone)]
pub struct Filter {
    include: Option<Patterns>,
    exclude: Patterns,
}

#[derive(Debug, Clone)]
struct Patterns {
    names: GlobSet,
    paths: GlobSet,
    directory_names: GlobSet,
    directory_paths: GlobSet,
}

impl Filter {
    /// Compiles the patterns; the error names the first that cannot be.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self> {
        let include = if include.is_empty() { None } else { Some(Patterns::new(include)?) };
        Ok(Self { include, exclude: Patterns::new(exclude)? })
    }

    /// Whether only what was asked for is included.
    pub(crate) fn includes_few(&self) -> bool {
        self.include.is_some()
    }

    /// Whether a file, link or other leaf is copied.
    pub fn includes_file(&self, path: &RelativePath) -> bool {
        let included = self.include.as_ref().is_none_or(|include| include.matches_file(path) || include.covers(path));
        included && !self.exclude.matches_file(path)
    }

    /// Whether a directory is left out with all that is in it.
    pub fn prunes(&self, directory: &RelativePath) -> bool {
        self.exclude.matches_directory(directory)
    }

    /// Whether a directory is copied for its own sake, and not only where a file below it is.
    pub fn includes_directory(&self, directory: &RelativePath) -> bool {
        let included = |include: &Patterns| include.matches_directory(directory) || include.covers(directory);
        !self.prunes(directory) && self.include.as_ref().is_none_or(included)
    }
}

impl Patterns {
    fn new(patterns: &[String]) -> Result<Self> {
        let mut sets = [const { Vec::new() }; 4];
        for pattern in patterns {
            let (text, directory) = pattern.strip_suffix('/').map_or((pattern.as_str(), 0), |text| (text, 2));
            let whole = usize::from(text.contains('/'));
            let glob = GlobBuilder::new(text.strip_prefix('/').unwrap_or(text)).literal_separator(true).build();
            sets[directory + whole].push(glob.map_err(|cause| {
                Error::new(ErrorKind::InvalidInput, format!("could not understand the pattern `{pattern}`")).with_cause(cause)
            })?);
        }
        let [names, paths, directory_names, directory_paths] = sets.map(|globs| {
            let mut builder = GlobSetBuilder::new();
            for glob in globs {
                builder.add(glob);
            }
            builder.build().map_err(|cause| Error::new(ErrorKind::InvalidInput, "the patterns are too many").with_cause(cause))
        });
        Ok(Self { names: names?, paths: paths?, directory_names: directory_names?, directory_paths: directory_paths? })
    }

    fn matches_file(&self, path: &RelativePath) -> bool {
        let name = path.name().unwrap_or_default();
        self.names.is_match(as_path(name)) || self.paths.is_match(as_path(path.as_bytes()))
    }

    fn matches_directory(&self, path: &RelativePath) -> bool {
        let name = path.name().unwrap_or_default();
        self.matches_file(path)
            || self.directory_names.is_match(as_path(name))
            || self.directory_paths.is_match(as_path(path.as_bytes()))
    }

    /// Whether a directory above the path matches: an included directory includes what is in it.
    fn covers(&self, path: &RelativePath) -> bool {
        std::iter::successors(path.parent(), RelativePath::parent)
            .take_while(|parent| !parent.is_root())
            .any(|parent| self.matches_directory(&parent))
    }
}

#[cfg(unix)]
fn as_path(bytes: &[u8]) -> &std::path::Path {
    std::path::Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
}

#[cfg(not(unix))]
fn as_path(bytes: &[u8]) -> std::borrow::Cow<'_, std::path::Path> {
    match String::from_utf8_lossy(bytes) {
        std::borrow::Cow::Borrowed(text) => std::borrow::Cow::Borrowed(std::path::Path::new(text)),
        std::borrow::Cow::Owned(text) => std::borrow::Cow::Owned(std::path::PathBuf::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> Filter {
        let owned = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect::<Vec<_>>();
        Filter::new(&owned(include), &owned(exclude)).unwrap()
    }

    fn path(text: &str) -> RelativePath {
        RelativePath::from_user(text).unwrap()
    }

    #[test]
    fn excluding_wins_over_including() {
        let filter = filter(&["*.txt"], &["secret*"]);
        assert!(filter.includes_file(&path("a/b.txt")));
        assert!(!filter.includes_file(&path("a/b.bin")));
        assert!(!filter.includes_file(&path("a/secret.txt")));
    }

    #[test]
    fn a_pattern_with_a_slash_means_the_whole_path() {
        let filter = filter(&[], &["a/*.txt", "/top", "**/deep/*.log"]);
        assert!(!filter.includes_file(&path("a/x.txt")));
        assert!(filter.includes_file(&path("b/a/x.txt")));
        assert!(filter.includes_file(&path("a/b/x.txt")));
        assert!(!filter.includes_file(&path("top")));
        assert!(filter.includes_file(&path("a/top")));
        assert!(!filter.includes_file(&path("x/deep/y.log")));
    }

    #[test]
    fn a_trailing_slash_means_directories() {
        let filter = filter(&[], &["cache/"]);
        assert!(filter.prunes(&path("a/cache")));
        assert!(filter.includes_file(&path("a/cache")));
        assert!(!filter.prunes(&path("a/cached")));
    }

    #[test]
    fn an_included_directory_includes_its_content() {
        let filter = filter(&["raw/"], &[]);
        assert!(filter.includes_file(&path("raw/x/y.bin")));
        assert!(!filter.includes_file(&path("other/y.bin")));
        assert!(filter.includes_directory(&path("raw")));
        assert!(!filter.includes_directory(&path("other")));
    }

    #[test]
    fn a_broken_pattern_is_named() {
        let error = Filter::new(&["a[".to_owned()], &[]).unwrap_err();
        assert!(error.what().contains("`a[`"));
    }

    #[cfg(unix)]
    #[test]
    fn names_need_not_be_text() {
        let name = RelativePath::from_bytes(b"a\xff.bin").unwrap();
        assert!(!filter(&[], &["*.bin"]).includes_file(&name));
    }
}
