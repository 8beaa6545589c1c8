//! The list of files behind `--files-from`.

use std::io::Read as _;
use std::path::Path;

use edt::path::RelativePath;
use edt::{Error, ErrorKind, Result};

/// Reads a list of paths, one a line; `-` is standard input. Empty lines are no paths.
pub(super) fn files(list: &Path) -> Result<Vec<RelativePath>> {
    let bytes = read(list).map_err(|cause| {
        Error::new(ErrorKind::InvalidInput, format!("could not read the list of files `{}`", list.display()))
            .with_cause(cause)
            .with_hint("name a file that lists paths, one a line, or `-` for standard input")
    })?;
    parse(&bytes)
}

fn read(list: &Path) -> std::io::Result<Vec<u8>> {
    if list != Path::new("-") {
        return std::fs::read(list);
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
}

fn parse(bytes: &[u8]) -> Result<Vec<RelativePath>> {
    let lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter(|line| !line.is_empty()).map(RelativePath::from_user_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_one_path_a_line() {
        let paths = parse(b"a/b\n\n./c//d/\r\nname with \xff\n").unwrap();
        assert_eq!(paths.iter().map(RelativePath::as_bytes).collect::<Vec<_>>(), [&b"a/b"[..], b"c/d", b"name with \xff"]);
        assert!(parse(b"../a").is_err());
        assert!(parse(b"").unwrap().is_empty());
    }

    #[test]
    fn a_list_that_cannot_be_read_is_named() {
        let error = files(Path::new("/no-such-list")).unwrap_err();
        assert!(error.what().contains("/no-such-list") && error.hint().is_some());
        // A script that sees a missing source waits for it; this is a mistake in the command.
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
