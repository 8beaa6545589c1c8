//! Walks the sources of a transfer as one stream of items, each with its name below the destination.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::plan::Filter;
use crate::plan::pattern::{Pattern, is_pattern};
use crate::protocol::message::Root;
use crate::store::{Depth, Entry, EntryKind, Listing, Prune, Store};

/// One item to send.
#[derive(Debug)]
pub struct Item {
    /// The entry, in the sender's store.
    pub entry: Entry,
    /// The name below the destination.
    pub destination: RelativePath,
}

/// An item, or the name below the destination of what could not be read and why.
pub type Found = std::result::Result<Item, (RelativePath, Error)>;

pub(super) type Stream<'a> = Box<dyn Iterator<Item = Found> + 'a>;

/// Walks all roots, one after the other. A root that does not exist, or a pattern that nothing matches, is an error at once.
///
/// Filters see paths below their root: below the directory that is named, or below each match of a pattern as if that were named. They see
/// the name of a file that is itself a root or a match; a directory that is one is never left out.
/// Memory does not grow with the number of items.
pub fn walk<'a>(store: &'a dyn Store, roots: &[Root], filter: &Filter) -> Result<impl Iterator<Item = Found> + use<'a>> {
    let places = roots.iter().map(|root| find(store, root, filter)).collect::<Result<Vec<_>>>()?;
    let filter = filter.clone();
    Ok(places.into_iter().flat_map(move |place| match place {
        Place::Entry { entry, prefix } if entry.kind == EntryKind::Directory => {
            let root = entry.path.clone();
            walk_tree(store, entry, &root, &prefix, &filter)
        }
        Place::Entry { entry, prefix } => {
            let wanted = Seen { filter: filter.clone(), pattern: None }.wants(&entry, &RelativePath::root());
            Box::new(wanted.then(|| checked(store, entry, prefix)).into_iter())
        }
        Place::Matches(stream) => stream,
    }))
}

/// A root that was found.
enum Place<'a> {
    Entry { entry: Entry, prefix: RelativePath },
    Matches(Stream<'a>),
}

fn find<'a>(store: &'a dyn Store, root: &Root, filter: &Filter) -> Result<Place<'a>> {
    let path = RelativePath::from_bytes(&root.path)?;
    let prefix = RelativePath::from_bytes(&root.prefix)?;
    match store.stat(&path) {
        Ok(entry) => Ok(Place::Entry { entry, prefix }),
        Err(error) if error.kind() == ErrorKind::NotFound && is_pattern(path.as_bytes()) => {
            walk_matches(store, &Arc::new(Pattern::new(&path)?), prefix, filter).map(Place::Matches)
        }
        Err(error) => Err(error),
    }
}

/// A directory, and what the filter wants of all that is below it. What is at `root` goes to `prefix`; the directory is it, or below it.
pub(super) fn walk_tree<'a>(
    store: &'a dyn Store,
    entry: Entry,
    root: &RelativePath,
    prefix: &RelativePath,
    filter: &Filter,
) -> Stream<'a> {
    let (asked, pruned) = (filter.clone(), root.clone());
    let prune: Prune = Arc::new(move |path| path.strip_prefix(&pruned).is_some_and(|below| asked.prunes(&below)));
    let destination = prefix.join(&entry.path.strip_prefix(root).unwrap_or_default());
    let listing = match store.list(&entry.path, Depth::Tree, prune) {
        Ok(listing) => listing,
        Err(error) => return Box::new(std::iter::once(Err((destination, error)))),
    };
    let directory = entry.path.clone();
    let behind = std::iter::once_with(move || store.trouble(&directory)).flatten().map(Err);
    let itself = std::iter::once(Ok(Item { entry, destination }));
    let seen = Seen { filter: filter.clone(), pattern: None };
    Box::new(itself.chain(place_all(store, listing.chain(behind), root.clone(), prefix.clone(), seen)))
}

/// A filter, and the pattern below whose matches it sees paths; `None`: below the root.
struct Seen {
    filter: Filter,
    pattern: Option<Arc<Pattern>>,
}

impl Seen {
    /// A path as the filter sees it; the root for a match, and for what is above one.
    fn path(&self, below: &RelativePath) -> RelativePath {
        self.pattern.as_ref().map_or_else(|| below.clone(), |pattern| pattern.below_match(below).unwrap_or_default())
    }

    /// Whether an entry is copied.
    fn wants(&self, entry: &Entry, below: &RelativePath) -> bool {
        let path = self.path(below);
        let itself = path.is_root();
        match entry.kind {
            EntryKind::Directory => itself || self.filter.includes_directory(&path),
            _ if itself => {
                let name = entry.path.name().and_then(|name| RelativePath::from_bytes(name).ok()).unwrap_or_default();
                self.filter.includes_file(&name)
            }
            _ => self.filter.includes_file(&path),
        }
    }

    /// Whether it is told that what is at a path cannot be read.
    fn tells(&self, below: &RelativePath) -> bool {
        let path = self.path(below);
        path.is_root() || self.filter.includes_file(&path) && !self.filter.prunes(&path)
    }
}

/// Gives what a listing yields its destination, as far as the filter wants it, and tells what the listing cannot.
fn place_all<'a>(
    store: &'a dyn Store,
    listing: impl Iterator<Item = Result<Entry>> + 'a,
    root: RelativePath,
    prefix: RelativePath,
    seen: Seen,
) -> impl Iterator<Item = Found> + 'a {
    let told = listing.flat_map(move |found| {
        let trouble = match &found {
            Ok(entry) if entry.kind == EntryKind::Directory => store.trouble(&entry.path),
            _ => None,
        };
        std::iter::once(found).chain(trouble.map(Err))
    });
    told.filter_map(move |found| {
        let entry = match found {
            Ok(entry) => entry,
            Err(error) => {
                let below = error.path().and_then(|path| path.strip_prefix(&root)).unwrap_or_default();
                return seen.tells(&below).then(|| Err((prefix.join(&below), error)));
            }
        };
        let below = entry.path.strip_prefix(&root).unwrap_or_default();
        seen.wants(&entry, &below).then(|| checked(store, entry, prefix.join(&below)))
    })
}

pub(super) fn checked(store: &dyn Store, entry: Entry, destination: RelativePath) -> Found {
    if let Err(error) = destination.check_length() {
        return Err((destination, error));
    }
    if entry.kind == EntryKind::Other {
        let error = store.trouble(&entry.path).unwrap_or_else(|| {
            Error::new(ErrorKind::Unsupported, format!("could not copy `{}`", entry.path))
                .with_cause("a device, socket or pipe is not copied")
                .with_hint("leave it out with --exclude")
        });
        return Err((destination, error));
    }
    Ok(Item { entry, destination })
}

/// Streams what a pattern takes; looks no further ahead than to the first match.
fn walk_matches<'a>(store: &'a dyn Store, pattern: &Arc<Pattern>, prefix: RelativePath, filter: &Filter) -> Result<Stream<'a>> {
    let mut listing = taken(store, pattern, filter)?;
    let mut failed = Vec::new();
    let first = loop {
        match listing.next() {
            Some(Err(error)) => failed.push(Err(error)),
            other => break other,
        }
    };
    if first.is_none() && !pattern.matched() {
        return Err(failed.into_iter().find_map(Result::err).unwrap_or_else(|| pattern.nothing()));
    }
    let listing = failed.into_iter().chain(first).chain(listing);
    let seen = Seen { filter: filter.clone(), pattern: Some(Arc::clone(pattern)) };
    Ok(Box::new(place_all(store, listing, pattern.base.clone(), prefix, seen)))
}

fn taken<'a>(store: &'a dyn Store, pattern: &Arc<Pattern>, filter: &Filter) -> Result<Listing<'a>> {
    let (asked, pruning) = (filter.clone(), Arc::clone(pattern));
    let prune: Prune = Arc::new(move |path| {
        let Some(below) = path.strip_prefix(&pruning.base) else { return false };
        match pruning.below_match(&below) {
            Some(path) => !path.is_root() && asked.prunes(&path),
            None => !pruning.may_hold(&below),
        }
    });
    let listing = store.list(&pattern.base, Depth::Tree, prune)?;
    let pattern = Arc::clone(pattern);
    Ok(Box::new(listing.filter(move |found| found.as_ref().map_or(true, |entry| pattern.takes(&entry.path)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Metadata;
    use crate::store::memory::MemoryStore;
    use crate::store::null::ZeroStore;

    fn path(text: &str) -> RelativePath {
        RelativePath::from_user(text).unwrap()
    }

    fn tree() -> MemoryStore {
        let store = MemoryStore::new();
        for name in ["data/a.txt", "data/b.bin", "data/sub/c.txt", "data/sub/deep/d.txt", "top.txt"] {
            store.insert(&path(name), name, &Metadata::default()).unwrap();
        }
        store.create_directory(&path("data/empty")).unwrap();
        store
    }

    fn root(path: &str, prefix: &str) -> Root {
        Root { path: path.into(), prefix: prefix.into() }
    }

    fn walked(roots: &[Root], exclude: &[&str]) -> Vec<String> {
        let exclude: Vec<String> = exclude.iter().map(|text| (*text).to_owned()).collect();
        let (store, filter) = (tree(), Filter::new(&[], &exclude).unwrap());
        walk(&store, roots, &filter).unwrap().map(|found| found.unwrap().destination.to_string()).collect()
    }

    #[test]
    fn a_file_goes_to_its_prefix() {
        assert_eq!(walked(&[root("top.txt", "")], &[]), [""]);
        assert_eq!(walked(&[root("data/a.txt", "x/y"), root("top.txt", "z")], &[]), ["x/y", "z"]);
    }

    #[test]
    fn a_directory_comes_before_its_content_below_the_prefix() {
        let all = ["p", "p/a.txt", "p/b.bin", "p/empty", "p/sub", "p/sub/c.txt", "p/sub/deep", "p/sub/deep/d.txt"];
        assert_eq!(walked(&[root("data", "p")], &[]), all);
        assert_eq!(walked(&[root("data/sub", "")], &[]), ["", "c.txt", "deep", "deep/d.txt"]);
    }

    #[test]
    fn an_item_whose_path_becomes_too_long_fails_alone() {
        let (store, filter) = (tree(), Filter::new(&[], &[]).unwrap());
        let prefix = format!("{}{}", "d/".repeat(2000), "p".repeat(90));
        let all = walk(&store, &[root("data", &prefix)], &filter).unwrap();
        let (found, failed): (Vec<_>, Vec<_>) = all.partition(Result::is_ok);
        assert_eq!(found.len(), 5, "the longest of them has 4096 bytes");
        let failed: Vec<_> = failed.into_iter().map(|failed| failed.unwrap_err()).collect();
        assert!(failed.iter().all(|(_, error)| error.kind() == ErrorKind::InvalidInput));
        let failed: Vec<_> = failed.iter().map(|(path, _)| path.to_string().replace(&prefix, "p")).collect();
        assert_eq!(failed, ["p/sub/c.txt", "p/sub/deep", "p/sub/deep/d.txt"]);
    }

    #[test]
    fn filters_see_paths_relative_to_the_root() {
        assert_eq!(walked(&[root("data", "")], &["sub/deep", "*.bin"]), ["", "a.txt", "empty", "sub", "sub/c.txt"]);
    }

    #[test]
    fn filters_see_each_match_of_a_pattern_as_a_source_that_is_named() {
        let all = ["a.txt", "b.bin", "empty", "sub", "sub/c.txt", "sub/deep", "sub/deep/d.txt"];
        assert_eq!(walked(&[root("data/*", "")], &["sub", "sub/deep", "/sub/c.txt"]), all);
        assert_eq!(walked(&[root("data/*", "")], &["a.*", "/b.bin", "/deep"]), ["empty", "sub", "sub/c.txt"]);
        assert_eq!(walked(&[root("{data,no}/s*", "")], &["*.txt"]), ["data/sub", "data/sub/deep"]);
        assert_eq!(walked(&[root("data/**/d*", "")], &["deep", "deep/d.txt"]), ["sub/deep", "sub/deep/d.txt"]);
        assert_eq!(walked(&[root("data/**/d*", "")], &["/d.txt"]), ["sub/deep"]);
        // A match that is left out is one all the same.
        assert!(walked(&[root("data/*.bin", "")], &["*.bin"]).is_empty());
    }

    #[test]
    fn a_pattern_takes_files_and_whole_directories() {
        assert_eq!(walked(&[root("data/*.txt", "p")], &[]), ["p/a.txt"]);
        assert_eq!(walked(&[root("data/s?b", "")], &[]), ["sub", "sub/c.txt", "sub/deep", "sub/deep/d.txt"]);
        assert_eq!(walked(&[root("d*/{sub,x}/*.txt", "")], &[]), ["data/sub/c.txt"]);
        assert_eq!(walked(&[root("data/**/*.txt", "")], &[]), ["a.txt", "sub/c.txt", "sub/deep/d.txt"]);
        assert_eq!(walked(&[root("{data/sub/deep,top*}", "")], &[]), ["data/sub/deep", "data/sub/deep/d.txt", "top.txt"]);
    }

    #[test]
    fn what_does_not_exist_is_an_error_at_once() {
        let (store, filter) = (tree(), Filter::new(&[], &[]).unwrap());
        for missing in ["nothing", "data/*.zip", "data/a.txt/*", "no*/x"] {
            let error = walk(&store, &[root("data", ""), root(missing, "")], &filter).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{missing}");
            assert!(error.what().contains(missing), "{error}");
        }
    }

    #[test]
    fn a_name_that_only_looks_like_a_pattern_is_taken_literally() {
        let (store, filter) = (tree(), Filter::new(&[], &[]).unwrap());
        store.insert(&path("data/[x]*"), "", &Metadata::default()).unwrap();
        let found: Vec<_> = walk(&store, &[root("data/[x]*", "y")], &filter).unwrap().map(|found| found.unwrap()).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].destination, path("y"));
    }

    #[test]
    fn a_walk_streams_what_no_memory_could_hold() {
        let (store, filter) = (ZeroStore::new(u64::MAX, 1), Filter::new(&[], &["*7".to_owned()]).unwrap());
        for endless in ["", "zero-*"] {
            assert_eq!(walk(&store, &[root(endless, "")], &filter).unwrap().take(100_000).count(), 100_000);
        }
    }
}
