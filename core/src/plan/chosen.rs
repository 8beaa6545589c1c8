//! Walks files that were chosen by name: nothing else of the source is looked at.

use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::plan::Filter;
use crate::plan::walk::{Found, checked, walk_tree};
use crate::protocol::message::Root;
use crate::store::{Entry, EntryKind, Store};

/// Room that all chosen paths of a transfer may take, each with [`PATH_ROOM`] beside its bytes.
const MOST_ROOM: usize = 128 << 20;

const PATH_ROOM: usize = 32;

/// Chosen paths that are described before the first of them is sent.
const GROUP: usize = 256;

/// Requests about chosen paths that are on their way at once.
const LOOKS: usize = 16;

/// The room that chosen paths take, or an error if it is more than a transfer may choose.
pub(crate) fn check_chosen<'a>(paths: impl IntoIterator<Item = &'a RelativePath>) -> Result<()> {
    let room: usize = paths.into_iter().map(|path| path.as_bytes().len() + PATH_ROOM).sum();
    if room > MOST_ROOM {
        return Err(Error::new(ErrorKind::InvalidInput, "too many files were chosen for one transfer")
            .with_cause("their names take more than 128 MiB")
            .with_hint("choose the directories that hold them, or use several transfers"));
    }
    Ok(())
}

/// The chosen paths in order, each once, without those that lie below another one.
pub(crate) fn minimal(paths: &[RelativePath]) -> Vec<RelativePath> {
    let mut sorted: Vec<&RelativePath> = paths.iter().collect();
    sorted.sort_by(|a, b| a.components().cmp(b.components()));
    let mut kept: Vec<RelativePath> = Vec::new();
    for path in sorted {
        if kept.last().is_none_or(|last| path.strip_prefix(last).is_none()) {
            kept.push(path.clone());
        }
    }
    kept
}

/// Walks chosen files and whole directories below a root, in the order of `paths`; one that is missing or cannot be read is an `Err`
/// item, and the walk goes on behind it.
///
/// Filters see paths relative to the root, as in a walk of all of it.
pub(crate) fn walk_chosen<'a>(
    store: &'a dyn Store,
    root: &Root,
    paths: &'a [RelativePath],
    filter: &Filter,
) -> Result<impl Iterator<Item = Found> + use<'a>> {
    let (base, prefix) = (RelativePath::from_bytes(&root.path)?, RelativePath::from_bytes(&root.prefix)?);
    let filter = filter.clone();
    let looked = base.clone();
    let described = paths.chunks(GROUP).flat_map(move |group| describe(store, &looked, group));
    Ok(described.flat_map(move |(path, described)| {
        let found: Box<dyn Iterator<Item = Found>> = match described {
            Err(error) => Box::new(std::iter::once(Err((prefix.join(path), error)))),
            Ok(entry) if is_left_out(&filter, path, &entry.kind) => Box::new(std::iter::empty()),
            Ok(entry) if entry.kind == EntryKind::Directory => walk_tree(store, entry, &base, &prefix, &filter),
            Ok(entry) => Box::new(filter.includes_file(path).then(|| checked(entry, prefix.join(path))).into_iter()),
        };
        found
    }))
}

/// Describes each path below the base; where that is a request, many are on their way at once.
fn describe<'a>(store: &dyn Store, base: &RelativePath, paths: &'a [RelativePath]) -> Vec<(&'a RelativePath, Result<Entry>)> {
    let look = |part: &'a [RelativePath]| part.iter().map(|path| (path, store.stat(&base.join(path)))).collect::<Vec<_>>();
    if store.capabilities().flushes {
        return look(paths);
    }
    let lost = || Error::new(ErrorKind::Io, "a thread that looked for chosen files panicked");
    std::thread::scope(|scope| {
        let parts = paths.chunks(paths.len().div_ceil(LOOKS).max(1));
        let threads: Vec<_> = parts.map(|part| (part, scope.spawn(|| look(part)))).collect();
        let joined = threads
            .into_iter()
            .map(|(part, thread)| thread.join().unwrap_or_else(|_| part.iter().map(|path| (path, Err(lost()))).collect()));
        joined.flatten().collect()
    })
}

/// Whether a directory is left out by the filter: the entry itself, or one above it.
fn is_left_out(filter: &Filter, path: &RelativePath, kind: &EntryKind) -> bool {
    let first = if *kind == EntryKind::Directory { Some(path.clone()) } else { path.parent() };
    let directories = std::iter::successors(first, RelativePath::parent);
    directories.take_while(|directory| !directory.is_root()).any(|directory| filter.prunes(&directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Metadata;
    use crate::store::memory::MemoryStore;

    fn path(text: &str) -> RelativePath {
        RelativePath::from_user(text).unwrap()
    }

    fn paths(texts: &[&str]) -> Vec<RelativePath> {
        texts.iter().map(|text| path(text)).collect()
    }

    fn walked(chosen: &[&str], exclude: &[&str]) -> Vec<String> {
        let store = MemoryStore::new();
        for name in ["data/a.txt", "data/a*b", "data/sub/c.txt", "data/sub/deep/d.txt", "data/unseen/x", "top.txt"] {
            store.insert(&path(name), name, &Metadata::default()).unwrap();
        }
        let exclude: Vec<String> = exclude.iter().map(|text| (*text).to_owned()).collect();
        let filter = Filter::new(&[], &exclude).unwrap();
        let root = Root { path: b"data".to_vec(), prefix: b"p".to_vec() };
        let chosen = paths(chosen);
        let found = walk_chosen(&store, &root, &chosen, &filter).unwrap();
        found
            .map(|found| match found {
                Ok(item) => item.destination.to_string(),
                Err((destination, error)) => format!("{destination}: {}", error.kind().name()),
            })
            .collect()
    }

    #[test]
    fn only_what_was_chosen_is_sent_and_what_is_missing_is_named() {
        assert_eq!(walked(&["sub/c.txt", "nothing", "a.txt"], &[]), ["p/sub/c.txt", "p/nothing: not-found", "p/a.txt"]);
        assert_eq!(walked(&["sub/deep", "a.txt/x"], &[]), ["p/sub/deep", "p/sub/deep/d.txt", "p/a.txt/x: not-found"]);
        assert!(walked(&[], &[]).is_empty());
    }

    #[test]
    fn a_chosen_name_is_no_pattern() {
        assert_eq!(walked(&["a*b", "*.txt"], &[]), ["p/a*b", "p/*.txt: not-found"]);
    }

    #[test]
    fn filters_see_paths_relative_to_the_source() {
        assert_eq!(walked(&["sub", "a.txt"], &["sub/deep"]), ["p/sub", "p/sub/c.txt", "p/a.txt"]);
        assert!(walked(&["sub/deep/d.txt", "sub/deep", "sub"], &["sub/"]).is_empty());
    }

    #[test]
    fn what_was_chosen_twice_is_sent_once() {
        let chosen = paths(&["b", "a-b", "a/c", "a", "b", "a/b/c"]);
        assert_eq!(minimal(&chosen), paths(&["a", "a-b", "b"]));
        assert_eq!(minimal(&paths(&["x", "."])), paths(&["."]));
    }
}
