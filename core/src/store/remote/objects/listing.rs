//! Listing: pages of keys, one ahead, with a directory for each prefix that the keys have.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::{Bucket, FIRST_PAGE, PAGE, PARALLEL, below, directory, parallel};
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::store::remote::{Object, Page, Purpose};
use crate::store::{Depth, Entry, Listing, Prune};

/// Lists what is below a path, or the object of that name.
pub(super) fn list(bucket: &Arc<Bucket>, path: &RelativePath, depth: Depth, prune: Prune) -> Result<Listing<'static>> {
    let key = bucket.key(path)?;
    let mut pages = Pages::new(Arc::clone(bucket), below(&key), depth);
    let first = pages.find(|page| !page.as_ref().is_ok_and(Page::is_empty)).transpose()?.unwrap_or_default();
    if first.is_empty() && !key.is_empty() {
        let object = bucket.head(&key).map_err(|error| match error.kind() {
            ErrorKind::NotFound => bucket.missing("list", &key),
            _ => error,
        })?;
        let entry = bucket.entry(path.clone(), &object);
        bucket.listed.insert(object);
        return Ok(Box::new(std::iter::once(Ok(entry))));
    }
    let tree = Tree::new(path.clone(), prune);
    Ok(Box::new(Walk { bucket: Arc::clone(bucket), pages, first: Some(first), tree, ready: VecDeque::new() }))
}

/// The error of an object that cannot be a file of a tree.
fn odd(bucket: &Bucket, key: &str, cause: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("could not copy `{}`", bucket.service.show(key)))
        .with_cause(cause)
        .with_hint("rename the object, or leave it where it is")
}

/// Tells of the content of an object that was listed with the name of a directory.
pub(super) fn trouble(bucket: &Bucket, path: &RelativePath) -> Option<Error> {
    let key = bucket.key(path).map(|key| below(&key)).ok()?;
    let is_filled = bucket.filled.lock().contains(&key);
    is_filled.then(|| odd(bucket, &key, "it has content, and the name of a directory").about(path))
}

/// The pages of a listing; while one is used the next is asked for.
struct Pages {
    bucket: Arc<Bucket>,
    prefix: String,
    depth: Depth,
    ahead: Ahead,
}

enum Ahead {
    First,
    Coming(JoinHandle<Result<Page>>),
    Failed(Error),
    End,
}

impl Pages {
    fn new(bucket: Arc<Bucket>, prefix: String, depth: Depth) -> Self {
        Self { bucket, prefix, depth, ahead: Ahead::First }
    }

    fn ask(&self, next: Option<String>) -> impl FnOnce() -> Result<Page> + Send + 'static {
        let (bucket, prefix, delimited) = (Arc::clone(&self.bucket), self.prefix.clone(), self.depth == Depth::One);
        let most = if next.is_some() { PAGE } else { FIRST_PAGE };
        move || bucket.patience.run(|| bucket.service.page(&prefix, delimited, most, next.as_deref()))
    }

    fn prepare(&self, next: String) -> Ahead {
        match std::thread::Builder::new().name("edt-list".to_owned()).spawn(self.ask(Some(next))) {
            Ok(thread) => Ahead::Coming(thread),
            Err(error) => {
                Ahead::Failed(Error::io(format!("could not list `{}`", self.bucket.service.show(&self.prefix)), &error))
            }
        }
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        let page = match std::mem::replace(&mut self.ahead, Ahead::End) {
            Ahead::First => match self.bucket.first_page(&self.prefix).filter(|_| self.depth == Depth::Tree) {
                Some(page) => Ok(page),
                None => self.ask(None)(),
            },
            Ahead::Coming(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Ahead::Failed(error) => Err(error),
            Ahead::End => return None,
        };
        if let Ok(Page { next: Some(next), .. }) = &page {
            self.ahead = self.prepare(next.clone());
        }
        Some(page)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Ahead::Coming(thread) = std::mem::replace(&mut self.ahead, Ahead::End) {
            let _ = thread.join();
        }
    }
}

/// A listing under way.
struct Walk {
    bucket: Arc<Bucket>,
    pages: Pages,
    first: Option<Page>,
    tree: Tree,
    ready: VecDeque<Result<Entry>>,
}

/// What a key or prefix of a page stands for.
enum Found {
    Directory(RelativePath),
    File(RelativePath, Object),
    /// A key that no path can name, and why.
    Odd(String, Error),
    /// The key of a directory, of an object that has content: nobody but who copies it misses that.
    Filled(String),
}

impl Walk {
    /// Turns a page into entries. Objects at a destination are described one by one, for only that tells their times.
    fn describe(&self, found: Vec<Found>) -> Vec<Result<Entry>> {
        let threads = if self.bucket.purpose == Purpose::Write { PARALLEL } else { 1 };
        parallel::each(found, threads, |found| self.entry(found).transpose()).into_iter().flatten().collect()
    }

    /// The entry of what was found; `None` if it is gone meanwhile.
    fn entry(&self, found: Found) -> Result<Option<Entry>> {
        match found {
            Found::Directory(path) => Ok(Some(directory(path))),
            Found::File(path, object) if self.bucket.purpose == Purpose::Read => {
                let entry = self.bucket.entry(path, &object);
                self.bucket.listed.insert(object);
                Ok(Some(entry))
            }
            Found::File(path, object) => match self.bucket.head(&object.key) {
                Ok(object) => Ok(Some(self.bucket.entry(path, &object))),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.about(&path)),
            },
            Found::Odd(key, error) => Err(odd(&self.bucket, &key, error.cause().unwrap_or_default())),
            Found::Filled(key) => {
                self.bucket.filled.lock().insert(key);
                Ok(None)
            }
        }
    }
}

impl Iterator for Walk {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(entry);
            }
            let page = match self.first.take() {
                Some(page) => page,
                None => match self.pages.next()? {
                    Ok(page) => page,
                    Err(error) => return Some(Err(error)),
                },
            };
            let found = self.tree.take(page);
            self.ready = self.describe(found).into();
        }
    }
}

/// Finds the directories in keys, which come in an order where what has a prefix in common stands together.
struct Tree {
    base: RelativePath,
    /// The directory of the last key: it and those above it were told.
    current: RelativePath,
    pruned: Option<RelativePath>,
    prune: Prune,
}

impl Tree {
    fn new(base: RelativePath, prune: Prune) -> Self {
        Self { current: base.clone(), base, pruned: None, prune }
    }

    fn take(&mut self, page: Page) -> Vec<Found> {
        let mut found = Vec::with_capacity(page.objects.len() + page.prefixes.len());
        for object in page.objects {
            self.object(object, &mut found);
        }
        for prefix in page.prefixes {
            match path_of(&prefix) {
                Ok((path, _)) => {
                    self.enter(&path, &mut found);
                }
                Err(error) => found.push(Found::Odd(prefix, error)),
            }
        }
        found
    }

    fn object(&mut self, object: Object, found: &mut Vec<Found>) {
        match path_of(&object.key) {
            Ok((path, true)) => {
                if self.enter(&path, found) && object.size > 0 {
                    found.push(Found::Filled(object.key));
                }
            }
            Ok((path, false)) => {
                if path.parent().is_some_and(|parent| self.enter(&parent, found)) {
                    found.push(Found::File(path, object));
                }
            }
            Err(error) => found.push(Found::Odd(object.key, error)),
        }
    }

    /// Tells a directory and those above it that were not told yet; false if one of them is pruned.
    fn enter(&mut self, directory: &RelativePath, found: &mut Vec<Found>) -> bool {
        let is_below = |path: &RelativePath, above: &RelativePath| path.strip_prefix(above).is_some();
        if self.pruned.as_ref().is_some_and(|pruned| is_below(directory, pruned)) {
            return false;
        }
        let mut at = self.base.clone();
        for name in directory.strip_prefix(&self.base).unwrap_or_default().components() {
            at = at.child(name).unwrap_or_default();
            if is_below(&self.current, &at) {
                continue;
            }
            if (self.prune)(&at) {
                self.pruned = Some(at);
                return false;
            }
            found.push(Found::Directory(at.clone()));
            self.current = at.clone();
        }
        self.current = directory.clone();
        true
    }
}

/// The path of a key, and whether it is that of a directory, which ends in a slash.
fn path_of(key: &str) -> Result<(RelativePath, bool)> {
    let name = key.strip_suffix('/');
    match RelativePath::from_bytes(name.unwrap_or(key).as_bytes()) {
        Ok(path) if path.is_root() => Err(Error::new(ErrorKind::InvalidInput, "").with_cause("it has an empty component")),
        path => Ok((path?, name.is_some())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Metadata;

    /// What a tree tells of keys, below a base: directories end in a slash, odd keys begin with `!`.
    fn told(base: &str, keys: &[&str], pruned: &'static str) -> Vec<String> {
        let prune: Prune = Arc::new(move |path| path.to_string() == pruned);
        let mut tree = Tree::new(RelativePath::from_user(base).unwrap(), prune);
        let object = |key: &&str| Object {
            key: (*key).to_owned(),
            size: u64::from(key.contains("full")),
            uploaded_ns: None,
            metadata: Metadata::default(),
            tag: None,
            kept: None,
        };
        // Each key on a page of its own.
        let pages = keys.iter().map(|key| Page { objects: vec![object(key)], ..Page::default() });
        let found = pages.flat_map(|page| tree.take(page)).map(|found| match found {
            Found::Directory(path) => format!("{path}/"),
            Found::File(path, _) => path.to_string(),
            Found::Odd(key, _) => format!("!{key}"),
            Found::Filled(key) => format!("+{key}"),
        });
        found.collect()
    }

    #[test]
    fn each_directory_comes_once_and_before_its_content() {
        let keys = ["a-b/3", "a/1", "a/b/2", "a/b/c/4", "a/d", "c"];
        assert_eq!(told("", &keys, ""), ["a-b/", "a-b/3", "a/", "a/1", "a/b/", "a/b/2", "a/b/c/", "a/b/c/4", "a/d", "c"]);
        assert_eq!(told("a", &keys[1..5], ""), ["a/1", "a/b/", "a/b/2", "a/b/c/", "a/b/c/4", "a/d"]);
    }

    #[test]
    fn what_is_pruned_is_left_out_with_all_below() {
        let keys = ["a/1", "a/b/2", "a/b/c/4", "a/d", "b/b/x"];
        assert_eq!(told("", &keys, "a/b"), ["a/", "a/1", "a/d", "b/", "b/b/", "b/b/x"]);
        assert_eq!(told("", &keys, "a"), ["b/", "b/b/", "b/b/x"]);
    }

    #[test]
    fn keys_that_end_in_a_slash_are_directories() {
        assert_eq!(told("", &["a/", "a/b", "e/f/"], ""), ["a/", "a/b", "e/", "e/f/"]);
        assert_eq!(told("a", &["a/", "a/b"], ""), ["a/b"]);
        // No file of a tree can hold what such an object has.
        assert_eq!(told("", &["full/", "full/b", "no-full/"], "no-full"), ["full/", "+full/", "full/b"]);
        assert_eq!(told("full", &["full/", "full/b"], ""), ["+full/", "full/b"]);
    }

    #[test]
    fn keys_that_no_path_can_name_are_told_and_the_rest_goes_on() {
        let keys = ["/x", "a/../b", "a//b", "a//", "b", "/"];
        assert_eq!(told("", &keys, ""), ["!/x", "!a/../b", "!a//b", "!a//", "b", "!/"]);
    }
}
