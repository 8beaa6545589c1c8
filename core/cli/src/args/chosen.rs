//! The list of files behind `--files-from`.

use std::io::Read as _;
use std::path::Path;

use edt::path::RelativePath;
use edt::{Error, Result};

/// Reads a list of paths, one a line; `-` is standard input. Empty lines are no paths.
pub(super) fn files(list: &Path) -> Result<Vec<RelativePath>> {
    parse(&read(list).map_err(|cause| Error::io(format!("could not read the list of files `{}`", list.display()), &cause))?)
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
        assert!(files(Path::new("/no-such-list")).unwrap_err().what().contains("/no-such-list"));
    }
}
