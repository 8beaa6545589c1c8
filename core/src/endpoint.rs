//! One side of a transfer: a URL or a path, parsed and checked.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

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

impl Endpoint {
    /// Takes a URL or a path as a user wrote it; a mistake in it shows in [`Endpoint::resolve`].
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// The text, as written.
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
            Some((scheme, _)) if is_scheme(scheme) => {
                Err(Error::new(ErrorKind::Unsupported, format!("could not use the endpoint `{text}`"))
                    .with_cause(format!("no store answers to `{scheme}://`"))
                    .with_hint("use a path, file://, edt://, edts://, null: or zero:"))
            }
            _ => Ok(Location::Local { path: PathBuf::from(text), directory: text.ends_with(['/', std::path::MAIN_SEPARATOR]) }),
        }
    }

    fn file(&self, rest: &str) -> Result<Location> {
        let path = rest.strip_prefix("localhost").unwrap_or(rest);
        if !path.starts_with('/') {
            return Err(self.refused("a file URL names an absolute path: file:///path"));
        }
        let path = self.decode(path)?;
        Ok(Location::Local { directory: path.ends_with('/'), path: PathBuf::from(path) })
    }

    fn remote(&self, rest: &str, tls: bool) -> Result<Location> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(self.refused("a URL holds no user or secret; use EDT_TOKEN or --token-file"));
        }
        let (host, port) = split_port(authority).ok_or_else(|| self.refused("its port is not a number from 1 to 65535"))?;
        if host.is_empty() {
            return Err(self.refused("it names no host"));
        }
        let path = self.decode(path)?;
        let directory = path.is_empty() || path.ends_with('/');
        Ok(Location::Remote(Remote { host: host.to_owned(), port, tls, path: path.trim_matches('/').to_owned(), directory }))
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
        percent_decode(text).ok_or_else(|| self.refused("its percent encoding is broken or not UTF-8"))
    }

    fn refused(&self, why: &str) -> Error {
        Error::new(ErrorKind::InvalidInput, format!("could not use the endpoint `{}`", self.text)).with_cause(why)
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

fn split_port(authority: &str) -> Option<(&str, u16)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, tail) = rest.split_once(']')?;
        return match tail.strip_prefix(':') {
            Some(port) => Some((host, port.parse().ok().filter(|port| *port > 0)?)),
            None => tail.is_empty().then_some((host, DEFAULT_PORT)),
        };
    }
    match authority.rsplit_once(':') {
        Some((host, port)) => Some((host, port.parse().ok().filter(|port| *port > 0)?)),
        None => Some((authority, DEFAULT_PORT)),
    }
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
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
    fn from(path: &Path) -> Self {
        Self::new(path.to_string_lossy())
    }
}

impl From<PathBuf> for Endpoint {
    fn from(path: PathBuf) -> Self {
        Self::from(path.as_path())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_port_and_path() {
        let Location::Remote(remote) = Endpoint::from("edt://[::1]:9000/a%20b/").resolve().unwrap() else { panic!() };
        assert_eq!((remote.host.as_str(), remote.port, remote.path.as_str()), ("::1", 9000, "a b"));
        assert!(remote.directory && !remote.tls);
    }

    #[test]
    fn a_text_without_scheme_is_a_path() {
        assert!(Endpoint::from("a/b:c").is_local());
        assert!(Endpoint::from("file:///tmp/x").is_local());
        assert!(!Endpoint::from("file://host/x").is_local());
    }

    #[test]
    fn memory_has_as_many_files_as_it_is_asked_for() {
        for (text, count, size) in [("zero:", 0, 0), ("zero:5", 1, 5), ("zero:4x1GiB", 4, 1 << 30)] {
            assert_eq!(Endpoint::from(text).resolve().unwrap(), Location::Zero { count, size });
        }
    }

    #[test]
    fn unknown_schemes_and_broken_urls_are_refused() {
        for bad in
            ["gopher://x/y", "edt://", "edt://host:0/", "edt://host:99999/", "edt://user@host/", "edt://h/%zz", "", "zero:x"]
        {
            assert!(Endpoint::from(bad).resolve().is_err(), "{bad} passed");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("4MiB"), Some(4 << 20));
        assert_eq!(parse_size("1.5G"), Some(1_500_000_000));
        assert_eq!(parse_size("x"), None);
    }
}
