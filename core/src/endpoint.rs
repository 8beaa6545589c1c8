//! One side of a transfer: a URL or a path, parsed and checked.

mod service;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::added;

pub use service::{Scheme, ServiceUrl};

/// The port of `edt serve` where a URL names none.
pub const DEFAULT_PORT: u16 = 7632;

/// One side of a transfer, as the user wrote it; [`Endpoint::resolve`] says what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    text: String,
}

/// What an endpoint means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A path of the local file system; `directory` if it was written with a trailing slash.
    Local {
        /// The path, as written.
        path: PathBuf,
        /// Whether it ended in a slash.
        directory: bool,
    },
    /// A path below the root of an `edt serve` process.
    Remote(Remote),
    /// A path on a service that is not edt's: an object store or a file server.
    Service(ServiceUrl),
    /// `null:`: discards what is written.
    Null,
    /// `zero:SIZE` or `zero:COUNTxSIZE`: files of pseudo-random bytes made in memory; `zero:` alone is the memory, without any file.
    Zero {
        /// How many files.
        count: u64,
        /// Bytes of each.
        size: u64,
    },
}

/// A path on an `edt serve` process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// `edts://`: encryption even on loopback.
    pub tls: bool,
    /// The path below the server's root, without a leading slash, percent-decoded.
    pub path: String,
    /// Whether it ended in a slash.
    pub directory: bool,
}

impl Location {
    /// The URL, if this is a path on a service.
    pub(crate) fn service(&self) -> Option<&ServiceUrl> {
        match self {
            Self::Service(url) => Some(url),
            _ => None,
        }
    }
}

/// Why a URL is refused whose bytes are no text.
const BROKEN: &str = "its percent encoding is broken or not UTF-8";

/// What is written otherwise in the path of a URL.
const NAMED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Parts of a query's names whose values are as good as a password.
const SIGNED: [&str; 7] = ["sig", "token", "credential", "key", "pass", "secret", "auth"];

impl Endpoint {
    /// Takes a URL or a path as a user wrote it; a mistake in it shows in [`Endpoint::resolve`].
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// Takes what a command line holds; fails on a URL that is not UTF-8.
    pub fn from_argument(text: &OsStr) -> Result<Self> {
        let shown = text.to_string_lossy();
        if text.to_str().is_none() && shown.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme)) {
            return Err(Self::new(shown).refused("a URL holds nothing but UTF-8"));
        }
        Ok(Self::from(Path::new(text)))
    }

    /// The text, as written; `Display` leaves out a password, and signatures and keys of its query.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this is a path of the local file system.
    pub fn is_local(&self) -> bool {
        matches!(self.resolve(), Ok(Location::Local { .. }))
    }

    /// Parses the text. A text without a scheme is a local path; an unknown scheme is an error that names the known ones.
    pub fn resolve(&self) -> Result<Location> {
        let text = self.text.as_str();
        if text.is_empty() {
            return Err(self.refused("it is empty"));
        }
        if text == "null:" {
            return Ok(Location::Null);
        }
        if let Some(sizes) = text.strip_prefix("zero:") {
            return self.zero(sizes);
        }
        match text.split_once("://") {
            Some(("edt", rest)) => self.remote(rest, false),
            Some(("edts", rest)) => self.remote(rest, true),
            Some(("file", rest)) => self.file(rest),
            Some((scheme, rest)) if let Some(known) = Scheme::named(scheme) => self.service(known, rest),
            Some((scheme, _)) if is_scheme(scheme) => Err(self.unknown(scheme)),
            _ => Ok(Location::Local { path: PathBuf::from(text), directory: text.ends_with(['/', std::path::MAIN_SEPARATOR]) }),
        }
    }

    fn file(&self, rest: &str) -> Result<Location> {
        let path = rest.strip_prefix("localhost").unwrap_or(rest);
        if !path.starts_with('/') {
            return Err(self.refused("a file URL names an absolute path: file:///path"));
        }
        let name = percent_decode(path).and_then(local_name).ok_or_else(|| self.refused(BROKEN))?;
        Ok(Location::Local { directory: path.ends_with('/'), path: PathBuf::from(name) })
    }

    fn remote(&self, rest: &str, tls: bool) -> Result<Location> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(self.refused("a URL holds no user or secret; use EDT_TOKEN or --token-file"));
        }
        let (host, port) = split_host(authority).ok_or_else(|| self.refused("its port is not a number from 1 to 65535"))?;
        let port = port.unwrap_or(DEFAULT_PORT);
        if host.is_empty() {
            return Err(self.refused("it names no host"));
        }
        let path = self.decode(path)?;
        let directory = path.is_empty() || path.ends_with('/');
        Ok(Location::Remote(Remote { host: host.to_owned(), port, tls, path: path.trim_matches('/').to_owned(), directory }))
    }

    /// The key of an object store is taken as written, for any character may stand in it; all other paths are percent-encoded, and of a web
    /// address is known how.
    fn service(&self, scheme: Scheme, rest: &str) -> Result<Location> {
        // A query may follow the host at once.
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) if scheme.has_queries() => (rest, Some(query.to_owned())),
            _ => (rest, None),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, place) = authority.rsplit_once('@').map_or((None, authority), |(user, place)| (Some(user), place));
        if user.is_some_and(|user| user.contains(':')) {
            return Err(self.refused("a URL holds no password").with_hint("put it into ~/.netrc, or use a key"));
        }
        let (host, port) = if scheme.is_object_store() {
            (place, None)
        } else {
            split_host(place).ok_or_else(|| self.refused("its port is not a number from 1 to 65535"))?
        };
        if host.is_empty() {
            return Err(self.refused(if scheme.is_object_store() { "it names no bucket" } else { "it names no host" }));
        }
        let written = scheme.written(path);
        let path = if scheme.is_object_store() { path.to_owned() } else { self.decode(path)? };
        let directory = path.is_empty() || path.ends_with('/');
        let user = user.map(|user| self.decode(user)).transpose()?;
        Ok(Location::Service(ServiceUrl { scheme, user, host: host.to_owned(), port, path, written, query, directory }))
    }

    fn zero(&self, sizes: &str) -> Result<Location> {
        let (count, size) = match sizes.split_once('x') {
            _ if sizes.is_empty() => (Some(0), Some(0)),
            Some((count, size)) => (count.parse().ok(), parse_size(size)),
            None => (Some(1), parse_size(sizes)),
        };
        match (count, size) {
            (Some(count), Some(size)) => Ok(Location::Zero { count, size }),
            _ => Err(self.refused("write zero:SIZE or zero:COUNTxSIZE, for example zero:4x1GiB")),
        }
    }

    fn decode(&self, text: &str) -> Result<String> {
        percent_decode(text).and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| self.refused(BROKEN))
    }

    fn unknown(&self, scheme: &str) -> Error {
        let own = ["a path, file", "edt", "edts", "s3", "gs", "az", "https", "webdavs", "sftp", "ftp"];
        let known = [&own[..], &added::names()].concat().join("://, ");
        Error::new(ErrorKind::Unsupported, format!("could not use the endpoint `{self}`"))
            .with_cause(format!("no store answers to `{scheme}://`"))
            .with_hint(format!("use {known}://, null: or zero:"))
    }

    fn refused(&self, why: &str) -> Error {
        Error::new(ErrorKind::InvalidInput, format!("could not use the endpoint `{self}`")).with_cause(why)
    }
}

/// The text of a URL without what stands between a user's name and the host.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else { return text.to_owned() };
    let known = Scheme::named(scheme);
    let ends: &[char] = if known.is_some_and(Scheme::has_queries) { &['/', '?'] } else { &['/'] };
    let authority = &rest[..rest.find(ends).unwrap_or(rest.len())];
    // The name of an access point has colons, and neither a port nor a password behind one.
    if known.is_some_and(Scheme::is_object_store) && authority.starts_with("arn:") && !authority.contains('@') {
        return text.to_owned();
    }
    let (user, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    // At a slash of the password the authority seems to end: what is there of it then names no port, or has an `@` of the password.
    let may_go_on = user.contains(':') || split_host(place).is_none();
    let searched = if may_go_on { rest } else { authority };
    match searched.rfind('@').and_then(|at| Some((rest[..at].split_once(':')?.0, &rest[at..]))) {
        Some((user, place)) => format!("{scheme}://{user}:...{place}"),
        None => text.to_owned(),
    }
}

/// The text of a web address without what signs its query.
fn without_signature(text: &str) -> Cow<'_, str> {
    let is_web = |scheme: &str| is_scheme(scheme) && scheme.to_ascii_lowercase().starts_with("http");
    let signed = text.split_once("://").is_some_and(|(scheme, _)| is_web(scheme));
    let Some((address, query)) = text.split_once('?').filter(|_| signed) else { return text.into() };
    let shown = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if SIGNED.iter().any(|part| name.to_ascii_lowercase().contains(part)) => format!("{name}=..."),
        _ => parameter.to_owned(),
    };
    format!("{address}?{}", query.split('&').map(shown).collect::<Vec<_>>().join("&")).into()
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// Host, without brackets, and port of an authority; `None` if the port is none.
fn split_host(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, tail) = rest.split_once(']')?;
            let port = if tail.is_empty() { None } else { Some(tail.strip_prefix(':')?) };
            (host, port)
        }
        None => authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or(())).transpose().ok()?;
    Some((host, port))
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let (digits, behind) = tail.split_at_checked(2)?;
            // A sign before a digit would make a number too.
            let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.contains('+'))?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = behind;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    Some(bytes)
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems do not have every name")]
fn local_name(bytes: Vec<u8>) -> Option<OsString> {
    Some(std::os::unix::ffi::OsStringExt::from_vec(bytes))
}

#[cfg(not(unix))]
fn local_name(bytes: Vec<u8>) -> Option<OsString> {
    String::from_utf8(bytes).ok().map(OsString::from)
}

/// Parses a size in bytes with an optional unit: `k`, `M`, `G`, `T` are decimal (also `kB`, ...), `KiB`, `MiB`, `GiB`, `TiB` binary.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let value: f64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "B" => 1.0,
        "k" | "K" | "kB" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "T" | "TB" => 1e12,
        "KiB" | "Ki" => 1024.0,
        "MiB" | "Mi" => 1024.0 * 1024.0,
        "GiB" | "Gi" => 1024.0 * 1024.0 * 1024.0,
        "TiB" | "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = value * unit;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (bytes.is_finite() && bytes < 9e18).then_some(bytes as u64)
}

/// Reads a rate as bytes per second: `100MB` and `100M` are bytes, `800Mbit` is bits; a trailing `/s` changes nothing.
pub fn parse_rate(text: &str) -> Option<f64> {
    let amount = text.strip_suffix("/s").unwrap_or(text);
    match amount.strip_suffix("bit") {
        // What stands before `bit` is a prefix alone: `MBbit` means nothing.
        Some(bits) => parse_size(bits).filter(|_| !bits.ends_with('B')).map(|bits| bits as f64 / 8.0),
        None => parse_size(amount).map(|bytes| bytes as f64),
    }
}

impl From<&str> for Endpoint {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Endpoint {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&Path> for Endpoint {
    /// A path that is not UTF-8 becomes a `file://` URL, in which its bytes are percent-encoded.
    fn from(path: &Path) -> Self {
        if path.to_str().is_some() || cfg!(not(unix)) {
            return Self::new(path.to_string_lossy());
        }
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        Self::new(format!("file://{}", percent_encode(whole.as_os_str().as_encoded_bytes(), NAMED)))
    }
}

impl From<PathBuf> for Endpoint {
    fn from(path: PathBuf) -> Self {
        Self::from(path.as_path())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_signature(&without_password(&self.text)))
    }
}
