//! Walks the sources of a transfer as one stream of items, each with its name below the destination.

use std::sync::Arc;

use globset::GlobBuilder;

use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::plan::Filter;
use crate::protocol::message::Root;
use crate::store::{Depth, Entry, EntryKind, Prune, Store};

/// The characters that make a path a pattern.
const PATTERN: &[u8] = b"*?[{";

/// One item to send.
pub struct Item {
    /// The entry, in the sender's store.
    pub entry: Entry,
    /// The name below the destination.
    pub destination: RelativePath,
}

/// An item, or the name below the destination of what could not be read and why.
pub type Found = std::result::Result<Item, (RelativePath, Error)>;

/// Walks all roots, one after the other. A root that does not exist, or a pattern that nothing matches, is an error at once.
pub fn walk<'a>(store: &'a dyn Store, roots: &[Root], filter: &Filter) -> Result<impl Iterator<Item = Found> + use<'a>> {
    let mut places = Vec::new();
    for root in roots {
        let path = RelativePath::from_bytes(&root.path)?;
        let prefix = RelativePath::from_bytes(&root.prefix)?;
        match store.stat(&path) {
            Ok(entry) => places.push(Place { entry, prefix }),
            Err(error) if error.kind() == ErrorKind::NotFound && is_pattern(&path) => {
                places.extend(expand(store, &path, &prefix)?);
            }
            Err(error) => return Err(error),
        }
    }
    let filter = filter.clone();
    Ok(places.into_iter().flat_map(move |place| place.walk(store, filter.clone())))
}

/// A root that exists.
struct Place {
    entry: Entry,
    prefix: RelativePath,
}

impl Place {
    fn walk<'a>(self, store: &'a dyn Store, filter: Filter) -> Box<dyn Iterator<Item = Found> + 'a> {
        let Self { entry, prefix } = self;
        if entry.kind != EntryKind::Directory {
            let name = RelativePath::from_bytes(entry.path.name().unwrap_or_default()).unwrap_or_default();
            let wanted = filter.includes_file(&name);
            return Box::new(wanted.then(|| checked(entry, prefix)).into_iter());
        }
        let root = entry.path.clone();
        let itself = std::iter::once(Ok(Item { entry, destination: prefix.clone() }));
        let listing = match store.list(&root, Depth::Tree, prune(&root, &filter)) {
            Ok(listing) => listing,
            Err(error) => return Box::new(std::iter::once(Err((prefix, error)))),
        };
        Box::new(itself.chain(listing.filter_map(move |found| {
            let entry = match found {
                Ok(entry) => entry,
                Err(error) => return Some(Err((prefix.clone(), error))),
            };
            let below = entry.path.strip_prefix(&root).unwrap_or_default();
            let wanted = match entry.kind {
                EntryKind::Directory => filter.includes_directory(&below),
                _ => filter.includes_file(&below),
            };
            wanted.then(|| checked(entry, prefix.join(&below)))
        })))
    }
}

fn prune(root: &RelativePath, filter: &Filter) -> Prune {
    let (root, filter) = (root.clone(), filter.clone());
    Arc::new(move |path: &RelativePath| path.strip_prefix(&root).is_some_and(|below| !below.is_root() && filter.prunes(&below)))
}

fn checked(entry: Entry, destination: RelativePath) -> Found {
    if entry.kind == EntryKind::Other {
        let error = Error::new(ErrorKind::Unsupported, format!("could not copy `{}`", entry.path))
            .with_cause("it is a device, a socket or a pipe")
            .with_hint("leave it out with --exclude");
        return Err((destination, error));
    }
    Ok(Item { entry, destination })
}

fn is_pattern(path: &RelativePath) -> bool {
    path.as_bytes().iter().any(|byte| PATTERN.contains(byte))
}

/// What a pattern matches, each under its own path below the part of the pattern that is none.
fn expand(store: &dyn Store, pattern: &RelativePath, prefix: &RelativePath) -> Result<Vec<Place>> {
    let mut base = RelativePath::root();
    for name in pattern.components().take_while(|name| !name.iter().any(|byte| PATTERN.contains(byte))) {
        base = base.child(name)?;
    }
    let text = pattern.to_string();
    let glob = GlobBuilder::new(&text).literal_separator(true).build().map_err(|cause| {
        Error::new(ErrorKind::InvalidInput, format!("could not understand the pattern `{text}`")).with_cause(cause)
    })?;
    let matcher = glob.compile_matcher();
    let depth = if pattern.components().count() == base.components().count() + 1 { Depth::One } else { Depth::Tree };
    let mut places: Vec<Place> = Vec::new();
    for entry in store.list(&base, depth, Arc::new(|_: &RelativePath| false))?.flatten() {
        let covered = places.last().is_some_and(|place| {
            place.entry.kind == EntryKind::Directory && entry.path.strip_prefix(&place.entry.path).is_some()
        });
        if covered || !matcher.is_match(entry.path.to_local()?) {
            continue;
        }
        let below = entry.path.strip_prefix(&base).unwrap_or_default();
        places.push(Place { prefix: prefix.join(&below), entry });
    }
    if places.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, format!("nothing matches `{text}`")).with_hint("check the spelling of the pattern"));
    }
    Ok(places)
}
