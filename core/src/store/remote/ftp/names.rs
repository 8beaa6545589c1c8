//! Names on an FTP connection: bytes, whatever they mean, each carried by the character of its number.

use std::io;

use suppaftp::Encoding;

use crate::path::RelativePath;

/// Sends and takes text byte by byte, so that no name is changed or lost on the way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytewise;

impl Encoding for Bytewise {
    fn decode(&self, bytes: &[u8]) -> String {
        text(bytes)
    }

    fn encode(&self, text: &str) -> io::Result<Vec<u8>> {
        let byte = |c| u8::try_from(u32::from(c)).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a name is no bytes"));
        text.chars().map(byte).collect()
    }
}

/// Bytes as text for a connection.
pub(super) fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// The bytes of text from a connection.
pub(super) fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()
}

/// The whole path of an entry below `root`, which begins with a slash and does not end in one, or is empty.
pub(super) fn below(root: &str, path: &RelativePath) -> String {
    match (root.is_empty(), path.is_root()) {
        (true, true) => "/".to_owned(),
        (false, true) => root.to_owned(),
        _ => format!("{root}/{}", text(path.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes(&text(&all)), all);
        assert_eq!(Bytewise.encode(&Bytewise.decode(&all)).unwrap(), all);
        assert!(Bytewise.encode("\u{100}").is_err());
    }

    #[test]
    fn paths_are_whole() {
        let path = RelativePath::from_bytes("a/\u{e4}".as_bytes()).unwrap();
        assert_eq!(below("/home/me", &path), "/home/me/a/\u{c3}\u{a4}");
        assert_eq!(below("", &path), "/a/\u{c3}\u{a4}");
        assert_eq!(below("", &RelativePath::root()), "/");
        assert_eq!(below("/home/me", &RelativePath::root()), "/home/me");
    }
}
