//! Endpoints as arguments name them. Patterns among the sources of `edt cp` are expanded where the files are: on Windows, in quotes and
//! on servers no shell does it.

use edt::endpoint::Location;
use edt::files::Files;
use edt::options::{Naming, Selection};
use edt::path::RelativePath;
use edt::store::{Depth, Entry, EntryKind};
use edt::{Endpoint, Error, ErrorKind, Result, TransferOptions};
use globset::{GlobBuilder, GlobMatcher};

const SPECIAL: [char; 3] = ['*', '?', '['];

/// Takes a path or URL, and refuses at once what can be no endpoint.
pub(crate) fn endpoint(text: &str) -> Result<Endpoint> {
    let endpoint = Endpoint::new(text);
    endpoint.resolve().map(|_| endpoint)
}

/// For a path that does not exist and looks like a pattern: only `edt cp` expands those.
pub(crate) fn unexpanded(error: Error, url: &str) -> Error {
    match Pattern::parse(url) {
        Ok(Some(pattern)) if error.kind() == ErrorKind::NotFound => {
            let base = if pattern.base.is_empty() { "./" } else { &pattern.base };
            error.with_hint(format!("only `edt cp` expands patterns; `edt ls {base}` shows what is there"))
        }
        _ => error,
    }
}

/// The endpoints that the sources name; a pattern stands for all that it matches, in order. A directory that alone is matched shall keep its
/// name, as it does beside others: so the options are told.
pub(crate) fn expand(sources: &[String], options: &mut TransferOptions) -> Result<Vec<Endpoint>> {
    let mut endpoints = Vec::with_capacity(sources.len());
    for source in sources {
        match Pattern::parse(source)? {
            Some(pattern) if !pattern.is_literal(options)? => {
                let found = pattern.matches(options)?;
                let keeps_its_name = match found.as_slice() {
                    [Entry { kind: EntryKind::Directory, .. }] => true,
                    // It may lead to a directory, and the content of that would take the place of all that is there.
                    [Entry { kind: EntryKind::Symlink(_), .. }] => options.selection == Selection::Mirror,
                    _ => false,
                };
                if keeps_its_name && sources.len() == 1 && options.files.is_none() {
                    options.naming = Naming::OfEach;
                }
                for entry in &found {
                    endpoints.push(pattern.endpoint(&entry.path)?);
                }
            }
            _ => endpoints.push(Endpoint::new(source)),
        }
    }
    Ok(endpoints)
}

/// A source with special characters: a directory that is named in full, and a pattern below it.
struct Pattern {
    source: String,
    base: String,
    below: String,
    spelling: Spelling,
}

/// How names are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// As paths of this system.
    Local,
    /// In a URL, as they are: keys of an object store.
    Plain,
    /// In a URL, percent-encoded.
    Encoded,
}

impl Pattern {
    /// `None` for a source that is no pattern; a local file whose name only looks like one is none, and for a remote one
    /// [`Pattern::is_literal`] tells.
    fn parse(source: &str) -> Result<Option<Self>> {
        let mut end = source.len();
        let (root, spelling) = match Endpoint::new(source).resolve()? {
            Location::Local { .. } if source.starts_with("file://") => return Ok(None),
            Location::Local { path, .. } if path.symlink_metadata().is_ok() => return Ok(None),
            Location::Local { .. } => (0, Spelling::Local),
            // A host in brackets is no pattern: special characters count behind the authority only.
            Location::Remote(_) => (source.find("://").map_or(0, |at| at + 3), Spelling::Encoded),
            Location::Service(url) => {
                // There a question mark begins the query.
                if url.scheme.has_queries() {
                    end = source.find('?').unwrap_or(end);
                }
                let spelling = if url.scheme.is_object_store() { Spelling::Plain } else { Spelling::Encoded };
                (source.find("://").map_or(0, |at| at + 3), spelling)
            }
            Location::Null | Location::Zero { .. } => return Ok(None),
        };
        let remote = spelling != Spelling::Local;
        let start = if remote { source[root..end].find('/').map_or(end, |at| root + at) } else { root };
        let Some(special) = source[start..end].find(SPECIAL) else { return Ok(None) };
        let separators: &[char] = if remote { &['/'] } else { &['/', std::path::MAIN_SEPARATOR] };
        let cut = source[..start + special].rfind(separators).map_or(0, |at| at + 1);
        Ok(Some(Self { source: source.to_owned(), base: source[..cut].to_owned(), below: source[cut..].to_owned(), spelling }))
    }

    /// Whether a server has something of just this name.
    fn is_literal(&self, options: &TransferOptions) -> Result<bool> {
        if self.spelling == Spelling::Local {
            return Ok(false);
        }
        match Files::open(&Endpoint::new(&self.source), options)?.stat(&RelativePath::root()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// All that it matches, in order of the paths, which lie below its directory.
    fn matches(&self, options: &TransferOptions) -> Result<Vec<Entry>> {
        let below = if self.spelling == Spelling::Encoded { self.decoded()? } else { self.below.clone() };
        let directories = self.below.ends_with('/');
        let below = below.trim_end_matches('/');
        let glob = self.compile(below)?;
        let depth = if below.contains('/') || below.contains("**") { Depth::Tree } else { Depth::One };
        let base = if self.base.is_empty() { "./" } else { &self.base };
        let mut found = Vec::new();
        for entry in Files::open(&Endpoint::new(base), options)?.list(&RelativePath::root(), depth)? {
            let entry = entry?;
            let is_meant = !directories || entry.kind == EntryKind::Directory;
            if is_meant && is_match(&glob, below, &entry.path) {
                found.push(entry);
            }
        }
        if found.is_empty() {
            let hint = format!("`edt ls {base}` shows what is there");
            return Err(self.error(ErrorKind::NotFound, "nothing matches it").with_hint(hint));
        }
        found.sort_by_cached_key(|entry| entry.path.clone());
        Ok(found)
    }

    fn compile(&self, below: &str) -> Result<GlobMatcher> {
        let glob = GlobBuilder::new(below).literal_separator(true).build();
        glob.map(|glob| glob.compile_matcher()).map_err(|cause| self.error(ErrorKind::InvalidInput, cause.kind()))
    }

    /// The pattern without its percent encoding, which only the parser of whole URLs undoes.
    fn decoded(&self) -> Result<String> {
        match (Endpoint::new(&self.base).resolve()?, Endpoint::new(&self.source).resolve()?) {
            (Location::Remote(base), Location::Remote(whole)) => {
                Ok(whole.path[base.path.len()..].trim_start_matches('/').to_owned())
            }
            (Location::Service(base), Location::Service(whole)) => {
                Ok(whole.path[base.path.len()..].trim_start_matches('/').to_owned())
            }
            _ => Ok(self.below.clone()),
        }
    }

    fn endpoint(&self, path: &RelativePath) -> Result<Endpoint> {
        #[cfg(unix)]
        if self.spelling == Spelling::Local {
            let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(path.as_bytes());
            return Ok(Endpoint::from(std::path::Path::new(&self.base).join(name)));
        }
        let name = std::str::from_utf8(path.as_bytes()).map_err(|_| {
            self.error(ErrorKind::InvalidInput, format!("the name of `{path}` is not UTF-8"))
                .with_hint("copy the directory that holds it")
        })?;
        let name = if self.spelling == Spelling::Encoded { percent_encoded(name) } else { name.to_owned() };
        Ok(Endpoint::new(format!("{}{name}", self.base)))
    }

    fn error(&self, kind: ErrorKind, cause: impl std::fmt::Display) -> Error {
        // As all errors show it, without what signs it.
        Error::new(kind, format!("could not expand the pattern `{}`", Endpoint::new(&self.source))).with_cause(cause)
    }
}

/// Whether a path matches; as in a shell, a name that begins with a dot needs a pattern that says so.
fn is_match(glob: &GlobMatcher, pattern: &str, path: &RelativePath) -> bool {
    let asks_hidden = pattern.split('/').any(|name| name.starts_with('.'));
    let hidden = path.components().any(|name| name.starts_with(b"."));
    glob.is_match(String::from_utf8_lossy(path.as_bytes()).as_ref()) && (asks_hidden || !hidden)
}

fn percent_encoded(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(source: &str) -> Option<(String, String)> {
        Pattern::parse(source).unwrap().map(|pattern| (pattern.base, pattern.below))
    }

    #[test]
    fn a_pattern_is_cut_behind_its_last_named_directory() {
        assert_eq!(parts("no-such/a/*.h5"), Some(("no-such/a/".into(), "*.h5".into())));
        assert_eq!(parts("no-such-*"), Some((String::new(), "no-such-*".into())));
        assert_eq!(parts("edt://[::1]:9/a/b?/c"), Some(("edt://[::1]:9/a/".into(), "b?/c".into())));
        assert_eq!(parts("edt://h/*"), Some(("edt://h/".into(), "*".into())));
        assert_eq!(parts("s3://b/a/*"), Some(("s3://b/a/".into(), "*".into())));
    }

    #[test]
    fn what_is_no_pattern_stays_as_it_is() {
        for source in ["plain", "edt://[::1]/a", "edt://[::1]", "zero:2x1MiB", "null:", "file:///a*", "https://h/a?b=[c"] {
            assert_eq!(parts(source), None, "{source}");
        }
    }

    #[test]
    fn an_error_of_a_pattern_shows_no_signature() {
        let pattern = Pattern::parse("https://h/a*?x=1&sig=hunter2").unwrap().unwrap();
        let error = pattern.error(ErrorKind::NotFound, "nothing matches it");
        assert_eq!(error.what(), "could not expand the pattern `https://h/a*?x=1&sig=...`");
    }

    #[test]
    fn a_local_file_with_special_characters_in_its_name_is_no_pattern() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a[1].txt");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(parts(file.to_str().unwrap()), None);
    }

    #[test]
    fn a_star_stays_within_a_name_and_does_not_match_hidden_files() {
        let matches = |pattern: &str, path: &str| {
            let glob = GlobBuilder::new(pattern).literal_separator(true).build().unwrap().compile_matcher();
            is_match(&glob, pattern, &RelativePath::from_user(path).unwrap())
        };
        assert!(matches("*.h5", "a.h5") && matches("**/*.h5", "x/y/a.h5") && matches(".*", ".a"));
        assert!(!matches("*.h5", "x/a.h5") && !matches("*", ".a") && !matches("**", "x/.git/a"));
    }

    #[test]
    fn matched_names_are_encoded_in_urls() {
        let pattern = Pattern::parse("edt://h/d/*").unwrap().unwrap();
        let endpoint = pattern.endpoint(&RelativePath::from_user("50 %/ü").unwrap()).unwrap();
        assert_eq!(endpoint.as_str(), "edt://h/d/50%20%25/%C3%BC");
        let Location::Remote(remote) = endpoint.resolve().unwrap() else { panic!() };
        assert_eq!(remote.path, "d/50 %/ü");
    }
}
