//! What stands in the way at the destination, as far as a dry run can know it.

use std::collections::HashSet;

use crate::error::{Error, ErrorKind};
use crate::path::RelativePath;
use crate::plan::key;
use crate::protocol::message::Key;
use crate::store::EntryKind;

/// Why an item of a kind cannot be brought to a path, which people know by `name`, where these stand; `None` if nothing is in its way.
pub(crate) fn obstacle(standing: &HashSet<Key>, kind: &EntryKind, path: &RelativePath, name: &str) -> Option<Error> {
    if standing.is_empty() {
        return None;
    }
    let is_no_directory = |path: &RelativePath| standing.contains(&key::of_obstacle(path));
    let stands = match kind {
        EntryKind::Directory => is_no_directory(path),
        _ => standing.contains(&key::of_directory(path)),
    };
    let above = || std::iter::successors(path.parent(), RelativePath::parent).any(|above| is_no_directory(&above));
    let cause = match kind {
        EntryKind::Directory if stands => "what stands there is no directory",
        _ if stands => "a directory stands there, or a device, pipe or socket",
        _ if above() => "what stands above it is no directory",
        _ => return None,
    };
    Some(
        Error::new(ErrorKind::WrongType, format!("could not write `{name}`"))
            .with_cause(cause)
            .with_hint("remove or rename what stands there, or choose another destination"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_in_the_way_of_files_and_a_file_in_that_of_directories_and_all_below() {
        let path = |text: &str| RelativePath::from_user(text).unwrap();
        let standing = HashSet::from([key::of_directory(&path("d")), key::of_obstacle(&path("f"))]);
        let is_blocked = |kind: &EntryKind, name: &str| obstacle(&standing, kind, &path(name), name).is_some();
        for (name, file, directory) in [("d", true, false), ("f", false, true), ("f/x/y", true, true), ("d/x", false, false)] {
            assert_eq!(is_blocked(&EntryKind::File, name), file, "{name}");
            assert_eq!(is_blocked(&EntryKind::Directory, name), directory, "{name}");
        }
    }
}
