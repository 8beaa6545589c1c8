//! Sources whose names are patterns.

use std::sync::atomic::{AtomicBool, Ordering};

use globset::{Candidate, GlobBuilder, GlobMatcher};

use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::{Depth, Entry};

/// The characters that make a path a pattern.
const PATTERN: &[u8] = b"*?[{";

/// An error if nothing matches a pattern. `list` lists what is in a directory, or all below it, and is asked for the first match alone.
pub(crate) fn find_match<L: Iterator<Item = Result<Entry>>>(
    path: &RelativePath,
    list: impl FnOnce(&RelativePath, Depth) -> Result<L>,
) -> Result<()> {
    let pattern = Pattern::new(path)?;
    let depth = if pattern.levels.len() == 1 { Depth::One } else { Depth::Tree };
    let mut failed = None;
    for found in list(&pattern.base, depth)? {
        match found {
            Ok(entry) if pattern.takes(&entry.path) => return Ok(()),
            Ok(_) => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    Err(failed.unwrap_or_else(|| pattern.nothing()))
}

pub(super) fn is_pattern(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| PATTERN.contains(byte))
}

/// A path whose last components are a pattern.
pub(super) struct Pattern {
    text: String,
    /// The directory below which all matches are.
    pub(super) base: RelativePath,
    /// One matcher for each component below the base; empty if components cannot be told apart, as in `a/**/b` or `{a/b,c}`.
    levels: Vec<GlobMatcher>,
    whole: GlobMatcher,
    matched: AtomicBool,
}

impl Pattern {
    pub(super) fn new(path: &RelativePath) -> Result<Self> {
        let text = path.to_string();
        let mut base = RelativePath::root();
        for name in path.components().take_while(|name| !is_pattern(name)) {
            base = base.child(name)?;
        }
        let below = path.strip_prefix(&base).unwrap_or_default().to_string();
        let whole = compile(&below).map_err(|cause| {
            Error::new(ErrorKind::InvalidInput, format!("could not understand the pattern `{text}`")).with_cause(cause)
        })?;
        let separable = !below.contains("**");
        let levels = below.split('/').map(compile).collect::<Result<Vec<_>, _>>().ok().filter(|_| separable);
        Ok(Self { text, base, levels: levels.unwrap_or_default(), whole, matched: AtomicBool::new(false) })
    }

    /// Whether an entry is a match or lies in one.
    pub(super) fn takes(&self, path: &RelativePath) -> bool {
        path.strip_prefix(&self.base).is_some_and(|below| self.below_match(&below).is_some())
    }

    /// The path below the match that an entry is or lies in, of the path below the base; `None` if there is no such match. Of matches in
    /// one another the outermost counts.
    pub(super) fn below_match(&self, below: &RelativePath) -> Option<RelativePath> {
        let bytes = below.as_bytes();
        let mut ends = (1..=bytes.len()).filter(|end| *end == bytes.len() || bytes[*end] == b'/');
        let end = if self.levels.is_empty() {
            ends.find(|end| matches(&self.whole, &bytes[..*end]))
        } else {
            ends.nth(self.levels.len() - 1).filter(|_| self.may_hold(below))
        };
        let rest = bytes.get(end? + 1..).unwrap_or_default();
        self.matched.store(true, Ordering::Relaxed);
        RelativePath::from_bytes(rest).ok()
    }

    /// Whether a directory is taken or something below it can be.
    pub(super) fn may_hold(&self, below: &RelativePath) -> bool {
        below.components().zip(&self.levels).all(|(name, level)| matches(level, name))
    }

    /// Whether a match was seen so far.
    pub(super) fn matched(&self) -> bool {
        self.matched.load(Ordering::Relaxed)
    }

    /// The error where nothing matches.
    pub(super) fn nothing(&self) -> Error {
        Error::new(ErrorKind::NotFound, format!("could not find `{}`", self.text))
            .with_cause("nothing matches the pattern")
            .with_hint("check the spelling of the pattern")
    }
}

fn compile(glob: &str) -> std::result::Result<GlobMatcher, globset::Error> {
    Ok(GlobBuilder::new(glob).literal_separator(true).backslash_escape(true).build()?.compile_matcher())
}

fn matches(matcher: &GlobMatcher, bytes: &[u8]) -> bool {
    matcher.is_match_candidate(&Candidate::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::EntryKind;

    fn path(bytes: &[u8]) -> RelativePath {
        RelativePath::from_bytes(bytes).unwrap()
    }

    fn below(pattern: &[u8], name: &[u8]) -> Option<RelativePath> {
        Pattern::new(&path(pattern)).unwrap().below_match(&path(name))
    }

    #[test]
    fn paths_are_told_below_the_outermost_match() {
        for (pattern, name, rest) in [
            ("*", "a", Some("")),
            ("*", "a/b/c", Some("b/c")),
            ("*/b", "a", None),
            ("*/b", "a/b/b", Some("b")),
            ("*/b", "a/c/b", None),
            ("**", "a/b", Some("b")),
            ("**/b", "a/b/c/b", Some("c/b")),
            ("**/b", "a/c", None),
            ("{a/b,c}", "a/b/d", Some("d")),
            ("{a/b,c}", "c/d", Some("d")),
            ("{a/b,c}", "a", None),
            ("*", "", None),
        ] {
            assert_eq!(below(pattern.as_bytes(), name.as_bytes()), rest.map(|rest| path(rest.as_bytes())), "{pattern} {name}");
        }
        assert_eq!(below(b"?a*", b"\xffa\xfe/\xfd"), Some(path(b"\xfd")));
    }

    #[test]
    fn what_nothing_matches_is_not_found_and_no_more_is_listed_than_that_takes() {
        let entry = |name: &str| Entry {
            path: path(name.as_bytes()),
            kind: EntryKind::File,
            size: 0,
            modified_ns: None,
            mode: None,
            version: None,
            sparse: false,
        };
        let failed = || Error::new(ErrorKind::PermissionDenied, "x");
        let find = |pattern: &str, expected: Depth, found: Vec<Result<Entry>>| {
            let mut listing = found.into_iter();
            let listed = &mut listing;
            let answer = find_match(&path(pattern.as_bytes()), move |base, depth| {
                assert_eq!((base, depth), (&path(b"d"), expected));
                Ok(listed)
            });
            (answer.map_err(|error| error.kind()), listing.count())
        };
        let all = || vec![Err(failed()), Ok(entry("d/a")), Ok(entry("d/b/c")), Ok(entry("e/b"))];
        assert_eq!(find("d/a*", Depth::One, all()), (Ok(()), 2));
        assert_eq!(find("d/*/c", Depth::Tree, all()), (Ok(()), 1));
        assert_eq!(find("d/**/x", Depth::Tree, all()), (Err(ErrorKind::PermissionDenied), 0));
        assert_eq!(find("d/x*", Depth::One, all().split_off(1)), (Err(ErrorKind::NotFound), 0));
    }
}
