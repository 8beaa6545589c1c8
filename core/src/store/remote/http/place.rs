//! A server, and how its paths are written in URLs.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use reqwest::Url;

use crate::endpoint::{Scheme, ServiceUrl};
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;

/// All but what RFC 3986 never encodes; some servers take other characters for something else.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// What cannot stand in a path as it is; the percent signs of one that is encoded stay.
const BARRED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// What a URL stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A file: no slash at its end.
    File,
    /// A directory: a slash at its end.
    Directory,
}

/// A server and the path on it that the user named.
#[derive(Debug)]
pub(crate) struct Place {
    /// Scheme, host and port, for requests.
    origin: String,
    /// The same in the user's scheme.
    shown: String,
    base: RelativePath,
    /// The base as the user wrote it, without a slash at its end, where servers may tell it from its names.
    written: Option<String>,
    directory: bool,
    query: Option<String>,
}

impl Place {
    /// The place of a URL.
    pub(crate) fn new(url: &ServiceUrl) -> Result<Self> {
        let tls = is_encrypted(url.scheme);
        let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
        let port = url.port.map_or_else(String::new, |port| format!(":{port}"));
        let base = RelativePath::from_user(&url.path)?;
        let written = url.written.as_deref().filter(|_| !base.is_root());
        Ok(Self {
            origin: format!("{}://{host}{port}", if tls { "https" } else { "http" }),
            shown: url.place(),
            written: written.map(|path| utf8_percent_encode(path.strip_suffix('/').unwrap_or(path), BARRED).to_string()),
            base,
            directory: url.directory,
            query: url.query.clone(),
        })
    }

    /// The path that the user named.
    pub(crate) fn base(&self) -> &RelativePath {
        &self.base
    }

    /// Whether a path is the one that the user named, with a slash at its end.
    pub(crate) fn is_named_directory(&self, path: &RelativePath) -> bool {
        self.directory && *path == self.base
    }

    /// The URL of a path, with the query of the user's URL if that is meant or lies above it.
    pub(crate) fn url(&self, path: &RelativePath, form: Form) -> Result<Url> {
        let encoded = self.encoded(path);
        let slash = if form == Form::Directory && !path.is_root() { "/" } else { "" };
        let mut url = Url::parse(&format!("{}/{encoded}{slash}", self.origin)).map_err(|cause| {
            Error::new(ErrorKind::InvalidInput, format!("could not use the URL `{}`", self.show(path))).with_cause(cause)
        })?;
        if *path == self.base || (self.directory && path.strip_prefix(&self.base).is_some()) {
            url.set_query(self.query.as_deref());
        }
        Ok(url)
    }

    /// A path as it stands in URLs: what the user named as it was written, all else by its names.
    fn encoded(&self, path: &RelativePath) -> String {
        let names = |path: &RelativePath| percent_encode(path.as_bytes(), ENCODED).to_string();
        match (&self.written, path.strip_prefix(&self.base)) {
            (Some(written), Some(below)) if below.is_root() => written.clone(),
            (Some(written), Some(below)) => format!("{written}/{}", names(&below)),
            _ => names(path),
        }
    }

    /// The URL of a path for people, without a query, which may be a secret.
    pub(crate) fn show(&self, path: &RelativePath) -> String {
        format!("{}/{path}", self.shown)
    }
}

/// Whether a scheme is one over TLS.
pub(crate) fn is_encrypted(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::Https | Scheme::WebDavs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Endpoint, Location};

    fn place(text: &str) -> Place {
        let Location::Service(url) = Endpoint::from(text).resolve().unwrap() else { panic!() };
        Place::new(&url).unwrap()
    }

    fn path(text: &str) -> RelativePath {
        RelativePath::from_user(text).unwrap()
    }

    #[test]
    fn names_are_encoded_and_shown_as_they_are() {
        let place = place("webdavs://host:8443/");
        let path = path("a b/c+d%/ü");
        assert_eq!(place.url(&path, Form::File).unwrap().as_str(), "https://host:8443/a%20b/c%2Bd%25/%C3%BC");
        assert_eq!(place.url(&path, Form::Directory).unwrap().as_str(), "https://host:8443/a%20b/c%2Bd%25/%C3%BC/");
        assert_eq!(place.show(&path), "webdavs://host:8443/a b/c+d%/ü");
        assert_eq!(place.url(&RelativePath::root(), Form::Directory).unwrap().as_str(), "https://host:8443/");
    }

    #[test]
    fn what_the_user_named_is_asked_for_as_it_was_written() {
        let url = |place: &Place, name: &str, form| String::from(place.url(&path(name), form).unwrap());
        let file = place("https://host/a%2fb//c+d%2B;v=1/e f#(1)?x=1");
        assert_eq!(url(&file, "a/b/c+d+;v=1/e f#(1)", Form::File), "https://host/a%2fb//c+d%2B;v=1/e%20f%23(1)?x=1");
        assert_eq!(url(&file, "a/b", Form::Directory), "https://host/a/b/");
        assert_eq!(file.show(file.base()), "https://host/a/b/c+d+;v=1/e f#(1)");
        let directory = place("https://host/a//b/");
        assert_eq!(url(&directory, "a/b", Form::Directory), "https://host/a//b/");
        assert_eq!(url(&directory, "a/b/c+d", Form::File), "https://host/a//b/c%2Bd");
        assert_eq!(url(&directory, "a/bc", Form::File), "https://host/a/bc");
    }

    #[test]
    fn a_query_belongs_to_what_the_user_named() {
        let file = place("https://host/a/b?X-Amz-Signature=1");
        assert_eq!(file.url(&path("a/b"), Form::File).unwrap().query(), Some("X-Amz-Signature=1"));
        assert_eq!(file.url(&path("a/b/c"), Form::File).unwrap().query(), None);
        assert_eq!(file.show(&path("a/b")), "https://host/a/b");
        let directory = place("https://host/a/?token=1");
        assert_eq!(directory.url(&path("a/b"), Form::File).unwrap().query(), Some("token=1"));
        assert_eq!(directory.url(&path("b"), Form::File).unwrap().query(), None);
    }
}
