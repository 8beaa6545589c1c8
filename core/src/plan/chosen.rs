//! Walks files that were chosen by name: nothing else of the source is looked at.

use crate::error::{Error, ErrorKind, Result};
use crate::options::Symlinks;
use crate::path::RelativePath;
use crate::plan::Filter;
use crate::plan::walk::{Found, checked, walk_tree};
use crate::protocol::message::Root;
use crate::store::{Entry, EntryKind, Store};

/// Room that all chosen paths of a transfer may take, each with [`PATH_ROOM`] beside its bytes.
const MOST_ROOM: usize = 128 << 20;

/// What a path takes beside its bytes: its place in a list that grows, and what an allocation costs.
const PATH_ROOM: usize = 64;

/// Chosen paths that are described before the first of them is sent.
const GROUP: usize = 256;

/// Requests about chosen paths that are on their way at once.
const LOOKS: usize = 16;

/// What a caller chooses, one part after the other.
#[derive(Default)]
pub(crate) struct Choice {
    paths: Vec<RelativePath>,
    room: usize,
}

impl Choice {
    /// Takes one more path, or fails if all of them are more than a transfer may choose.
    pub(crate) fn add(&mut self, path: RelativePath) -> Result<()> {
        self.room = checked_room(self.room, &path)?;
        self.paths.push(path);
        Ok(())
    }

    /// All of it, as [`minimal`] says.
    pub(crate) fn minimal(self) -> Vec<RelativePath> {
        minimal(self.paths)
    }
}

/// An error if these paths are more than a transfer may choose.
pub(crate) fn check_chosen(paths: &[RelativePath]) -> Result<()> {
    paths.iter().try_fold(0, checked_room).map(drop)
}

/// The room of paths with one more.
fn checked_room(room: usize, path: &RelativePath) -> Result<usize> {
    let room = room + path.as_bytes().len() + PATH_ROOM;
    if room > MOST_ROOM {
        return Err(Error::new(ErrorKind::InvalidInput, "too many files were chosen for one transfer")
            .with_cause("their names take more than 128 MiB, with 64 bytes beside each")
            .with_hint("choose the directories that hold them, or use several transfers"));
    }
    Ok(room)
}

/// The chosen paths in order, each once, without those that lie below another one.
pub(crate) fn minimal(mut paths: Vec<RelativePath>) -> Vec<RelativePath> {
    paths.sort_unstable_by(|a, b| a.components().cmp(b.components()));
    paths.dedup_by(|path, above| path.strip_prefix(above).is_some());
    paths
}

/// Whether a path is one of those that [`minimal`] has put in order, or lies below one.
pub(crate) fn is_chosen(paths: &[RelativePath], path: &RelativePath) -> bool {
    let behind = paths.partition_point(|chosen| chosen.components().le(path.components()));
    paths[..behind].last().is_some_and(|chosen| path.strip_prefix(chosen).is_some())
}

/// Walks chosen files and whole directories below a root, in the order of `paths`; one that is missing or cannot be read is an `Err`
/// item, and the walk goes on behind it.
///
/// Filters see paths relative to the root, and links are left out, as in a walk of all of it: so what lies behind a link is left out too.
pub(crate) fn walk_chosen<'a>(
    store: &'a dyn Store,
    root: &Root,
    paths: &'a [RelativePath],
    filter: &Filter,
    symlinks: Symlinks,
) -> Result<impl Iterator<Item = Found> + use<'a>> {
    let (base, prefix) = (RelativePath::from_bytes(&root.path)?, RelativePath::from_bytes(&root.prefix)?);
    let filter = filter.clone();
    let looked = base.clone();
    let described = paths.chunks(GROUP).flat_map(move |group| describe(store, &looked, group));
    let mut links = Links { looked: RelativePath::root(), behind: false };
    Ok(described.flat_map(move |(path, described)| {
        let skipped = symlinks == Symlinks::Skip && links.skips(store, &base, path, described.as_ref().ok());
        let found: Box<dyn Iterator<Item = Found>> = match described {
            _ if skipped => Box::new(std::iter::empty()),
            Err(error) => Box::new(std::iter::once(Err((prefix.join(path), error)))),
            Ok(entry) if is_left_out(&filter, path, &entry.kind) => Box::new(std::iter::empty()),
            Ok(entry) if entry.kind == EntryKind::Directory => walk_tree(store, entry, &base, &prefix, &filter),
            Ok(entry) => Box::new(filter.includes_file(path).then(|| checked(store, entry, prefix.join(path))).into_iter()),
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

/// Tells which chosen paths are links or lie behind one.
struct Links {
    /// The directory below the base that was looked at last: the paths come in order.
    looked: RelativePath,
    /// Whether it is a link or lies behind one.
    behind: bool,
}

impl Links {
    fn skips(&mut self, store: &dyn Store, base: &RelativePath, path: &RelativePath, entry: Option<&Entry>) -> bool {
        let is_link = |entry: &Entry| matches!(entry.kind, EntryKind::Symlink(_));
        let parent = path.parent().unwrap_or_default();
        if store.capabilities().symlinks && parent != self.looked {
            let mut above = std::iter::successors(Some(parent.clone()), RelativePath::parent).take_while(|path| !path.is_root());
            self.behind = above.any(|path| store.stat(&base.join(&path)).is_ok_and(|entry| is_link(&entry)));
            self.looked = parent;
        }
        self.behind || entry.is_some_and(is_link)
    }
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
        let found = walk_chosen(&store, &root, &chosen, &filter, Symlinks::Keep).unwrap();
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
        assert_eq!(minimal(chosen), paths(&["a", "a-b", "b"]));
        assert_eq!(minimal(paths(&["x", "."])), paths(&["."]));
    }

    #[test]
    fn what_lies_below_a_chosen_path_is_chosen() {
        let chosen = minimal(paths(&["a", "a-b/c", "b/c"]));
        for inside in ["a", "a/x", "a/x/y", "a-b/c", "b/c/d"] {
            assert!(is_chosen(&chosen, &path(inside)), "{inside}");
        }
        for outside in [".", "0", "a-b", "a-b/cc", "a-c", "b", "b/b", "b/d", "c"] {
            assert!(!is_chosen(&chosen, &path(outside)), "{outside}");
        }
        assert!(is_chosen(&paths(&["."]), &path("any")) && !is_chosen(&[], &path("any")));
    }

    #[test]
    fn names_are_taken_as_far_as_there_is_room_for_them() {
        let mut choice = Choice::default();
        let most = MOST_ROOM / (PATH_ROOM + 1);
        (0..most).for_each(|_| choice.add(path("x")).unwrap());
        assert_eq!(choice.add(path("x")).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(choice.minimal(), paths(&["x"]));
        assert!(check_chosen(&vec![path("x"); most]).is_ok() && check_chosen(&vec![path("x"); most + 1]).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn where_links_are_skipped_nothing_behind_one_is_sent() {
        use crate::store::local::LocalStore;
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("real/sub")).unwrap();
        std::fs::write(place.path().join("real/sub/file"), "x").unwrap();
        std::os::unix::fs::symlink("real", place.path().join("link")).unwrap();
        std::os::unix::fs::symlink("real/sub/file", place.path().join("file")).unwrap();
        let chosen = minimal(paths(&["link/sub/file", "link/none", "real/sub/file", "file", "none"]));
        for (symlinks, expected) in [(Symlinks::Skip, 2), (Symlinks::Keep, 5)] {
            let stores = [LocalStore::open(place.path(), symlinks), LocalStore::confined(place.path(), symlinks).unwrap()];
            for store in stores {
                let filter = Filter::new(&[], &[]).unwrap();
                let found = walk_chosen(&store, &Root::default(), &chosen, &filter, symlinks).unwrap();
                assert_eq!(found.count(), expected, "{symlinks:?}");
            }
        }
    }
}
