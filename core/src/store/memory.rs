//! A tree in memory, shared by all clones of the store: for tests, and for data that never needs to touch a disk.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, ErrorKind, Result};
use crate::options::{Fsync, Overwrite};
use crate::path::RelativePath;
use crate::store::{
    Capabilities, Depth, Entry, EntryKind, Listing, Metadata, NewFile, Prune, Publication, Reader, Store, Writer,
};
use crate::sync::{Mutex, RwLock};

/// A tree in memory; a clone is the same tree.
#[derive(Clone, Default)]
pub struct MemoryStore {
    tree: Arc<RwLock<Tree>>,
    partial: Arc<Mutex<HashMap<(String, u64), Content>>>,
}

type Content = Arc<RwLock<Vec<u8>>>;

/// Paths with NUL for the slash, so that a directory's content follows it at once: no name can hold a NUL.
type Key = Box<[u8]>;

type Tree = BTreeMap<Key, Node>;

struct Node {
    kind: NodeKind,
    modified_ns: i64,
    mode: u32,
    version: u64,
}

enum NodeKind {
    File(Arc<Vec<u8>>),
    Directory,
    Symlink(Box<[u8]>),
}

impl MemoryStore {
    /// An empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a file into the tree, with the directories above it.
    pub fn insert(&self, path: &RelativePath, content: impl Into<Vec<u8>>, metadata: &Metadata) -> Result<()> {
        let node = Node::new(NodeKind::File(Arc::new(content.into())), metadata, 0o644);
        place(&mut self.tree.write(), path, node, Overwrite::Replace)
    }

    /// The content of a file.
    pub fn content(&self, path: &RelativePath) -> Option<Vec<u8>> {
        match &self.tree.read().get(&key(path))?.kind {
            NodeKind::File(content) => Some(content.to_vec()),
            _ => None,
        }
    }

    fn publish_one(&self, publication: Publication) -> Result<()> {
        let writer = publication.writer.into_any().downcast::<MemoryWriter>().map_err(|_| {
            Error::new(ErrorKind::InvalidInput, "could not publish a file").with_cause("its writer belongs to another store")
        })?;
        let mut content = std::mem::take(&mut *writer.content.write());
        if writer.partial.is_some() || writer.size > content.len() as u64 {
            let size = usize::try_from(writer.size).unwrap_or(usize::MAX);
            content.resize(size, 0);
        }
        let content = Arc::new(content);
        let node = Node::new(NodeKind::File(Arc::clone(&content)), &publication.metadata, 0o644);
        let placed = place(&mut self.tree.write(), &writer.path, node, publication.overwrite);
        match &placed {
            Ok(()) => writer.forget(),
            // Nothing is lost: the partial file can be published once its name is free.
            Err(_) => *writer.content.write() = Arc::unwrap_or_clone(content),
        }
        placed
    }
}

impl Node {
    fn new(kind: NodeKind, metadata: &Metadata, mode: u32) -> Self {
        static VERSION: AtomicU64 = AtomicU64::new(1);
        Self {
            kind,
            modified_ns: metadata.modified_ns.unwrap_or_else(now),
            mode: metadata.mode.map_or(mode, |mode| mode & 0o1777),
            version: VERSION.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn directory() -> Self {
        Self::new(NodeKind::Directory, &Metadata::default(), 0o755)
    }

    fn entry(&self, path: RelativePath) -> Entry {
        let (kind, size) = match &self.kind {
            NodeKind::File(content) => (EntryKind::File, content.len() as u64),
            NodeKind::Directory => (EntryKind::Directory, 0),
            NodeKind::Symlink(target) => (EntryKind::Symlink(target.clone()), 0),
        };
        let (modified_ns, mode, version) = (Some(self.modified_ns), Some(self.mode), Some(self.version));
        Entry { path, kind, size, modified_ns, mode, version, sparse: false }
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

fn key(path: &RelativePath) -> Key {
    path.as_bytes().iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect()
}

fn path_of(key: &[u8]) -> Result<RelativePath> {
    RelativePath::from_bytes(&key.iter().map(|byte| if *byte == 0 { b'/' } else { *byte }).collect::<Vec<u8>>())
}

/// The first key behind everything that lies below `key`.
fn behind(key: &[u8]) -> Key {
    [key, &[1]].concat().into()
}

fn failed(operation: &str, path: &RelativePath, kind: ErrorKind, cause: &str) -> Error {
    Error::new(kind, format!("could not {operation} `{path}`")).with_cause(cause)
}

fn missing(operation: &str, path: &RelativePath) -> Error {
    failed(operation, path, ErrorKind::NotFound, "there is no such entry").with_hint("check the spelling of the path")
}

/// Makes the directories above `path`, and `path` itself.
fn make_directories(tree: &mut Tree, path: &RelativePath) -> Result<()> {
    let mut directory = RelativePath::root();
    for name in path.components() {
        directory = directory.child(name)?;
        match tree.get(&key(&directory)).map(|node| &node.kind) {
            Some(NodeKind::Directory) => {}
            Some(_) => return Err(failed("create the directory", &directory, ErrorKind::WrongType, "a file stands there")),
            None => {
                tree.insert(key(&directory), Node::directory());
            }
        }
    }
    Ok(())
}

fn place(tree: &mut Tree, path: &RelativePath, node: Node, overwrite: Overwrite) -> Result<()> {
    let Some(parent) = path.parent() else {
        return Err(failed("publish", path, ErrorKind::WrongType, "it is the root of the store"));
    };
    match tree.get(&key(path)).map(|there| &there.kind) {
        Some(NodeKind::Directory) => Err(failed("publish", path, ErrorKind::WrongType, "a directory stands at its name")),
        Some(_) if overwrite == Overwrite::Never => Err(failed("publish", path, ErrorKind::AlreadyExists, "the name is taken")),
        _ => {
            make_directories(tree, &parent)?;
            tree.insert(key(path), node);
            Ok(())
        }
    }
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { resumable: false, ..Capabilities::LOCAL }
    }

    fn list(&self, path: &RelativePath, depth: Depth, prune: Prune) -> Result<Listing<'_>> {
        let entry = self.stat(path)?;
        if entry.kind != EntryKind::Directory {
            return Ok(Box::new(std::iter::once(Ok(entry))));
        }
        let root = key(path);
        let end = if path.is_root() { None } else { Some(behind(&root)) };
        let next = Bound::Excluded(root);
        Ok(Box::new(Walk { tree: &self.tree, next, end, depth, prune }))
    }

    fn trouble(&self, _: &RelativePath) -> Option<Error> {
        None
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        if path.is_root() {
            let mut root = Node::directory().entry(RelativePath::root());
            root.version = None;
            return Ok(root);
        }
        let tree = self.tree.read();
        tree.get(&key(path)).map(|node| node.entry(path.clone())).ok_or_else(|| missing("find", path))
    }

    fn open(&self, path: &RelativePath) -> Result<Box<dyn Reader>> {
        let tree = self.tree.read();
        let node = tree.get(&key(path)).ok_or_else(|| missing("open", path))?;
        match &node.kind {
            NodeKind::File(content) => {
                Ok(Box::new(MemoryReader { content: Arc::clone(content), entry: node.entry(path.clone()) }))
            }
            _ => Err(failed("open", path, ErrorKind::WrongType, "it is not a regular file")),
        }
    }

    fn create(&self, file: &NewFile) -> Result<Box<dyn Writer>> {
        let partial = file.resume.as_ref().map(|partial| (partial.key.clone(), partial.number));
        if let Some(name) = partial.as_ref().filter(|_| file.fresh) {
            self.partial.lock().remove(name);
        }
        let content = match &partial {
            Some(name) => Arc::clone(self.partial.lock().entry(name.clone()).or_default()),
            None => Content::default(),
        };
        let (path, size) = (file.path.clone(), file.size);
        Ok(Box::new(MemoryWriter { content, path, size, partial, store: self.clone() }))
    }

    fn publish(&self, batch: Vec<Publication>, _: Fsync) -> Vec<Result<()>> {
        batch.into_iter().map(|publication| self.publish_one(publication)).collect()
    }

    fn create_directory(&self, path: &RelativePath) -> Result<()> {
        make_directories(&mut self.tree.write(), path)
    }

    fn set_directory_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        if path.is_root() {
            return Ok(());
        }
        let mut tree = self.tree.write();
        let node = tree.get_mut(&key(path)).ok_or_else(|| missing("set time and mode of", path))?;
        node.modified_ns = metadata.modified_ns.unwrap_or(node.modified_ns);
        node.mode = metadata.mode.map_or(node.mode, |mode| mode & 0o1777);
        Ok(())
    }

    fn create_symlink(&self, path: &RelativePath, target: &[u8], overwrite: Overwrite) -> Result<()> {
        let node = Node::new(NodeKind::Symlink(target.into()), &Metadata::default(), 0o777);
        place(&mut self.tree.write(), path, node, overwrite)
    }

    fn remove(&self, path: &RelativePath, depth: Depth) -> Result<()> {
        let mut tree = self.tree.write();
        let root = key(path);
        let node = tree.get(&root).ok_or_else(|| missing("remove", path))?;
        if matches!(node.kind, NodeKind::Directory) {
            let below = (Bound::Excluded(root.clone()), Bound::Excluded(behind(&root)));
            let inside: Vec<Key> = tree.range(below).map(|(key, _)| key.clone()).collect();
            if depth == Depth::One && !inside.is_empty() {
                return Err(failed("remove", path, ErrorKind::AlreadyExists, "the directory is not empty"));
            }
            for key in inside {
                tree.remove(&key);
            }
        }
        tree.remove(&root);
        Ok(())
    }

    fn sync_directories(&self, _: &[RelativePath]) -> Result<()> {
        Ok(())
    }

    fn journal(&self, _: &str) -> Result<Option<File>> {
        Ok(None)
    }

    fn discard(&self, key: &str) -> Result<()> {
        self.partial.lock().retain(|(owner, _), _| owner != key);
        Ok(())
    }
}

/// A listing that looks its next entry up each time, so that it holds no lock and no copy of the tree.
struct Walk<'a> {
    tree: &'a RwLock<Tree>,
    next: Bound<Key>,
    end: Option<Key>,
    depth: Depth,
    prune: Prune,
}

impl Walk<'_> {
    fn upcoming(&self) -> Option<(Key, Result<Entry>)> {
        let tree = self.tree.read();
        let (key, node) = tree.range((self.next.clone(), Bound::Unbounded)).next()?;
        let inside = self.end.as_ref().is_none_or(|end| key < end);
        inside.then(|| (key.clone(), path_of(key).map(|path| node.entry(path))))
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (key, entry) = self.upcoming()?;
            let directory = entry.as_ref().ok().filter(|entry| entry.kind == EntryKind::Directory);
            let pruned = directory.is_some_and(|entry| (self.prune)(&entry.path));
            let skips = pruned || (self.depth == Depth::One && directory.is_some());
            self.next = if skips { Bound::Included(behind(&key)) } else { Bound::Excluded(key) };
            if !pruned {
                return Some(entry);
            }
        }
    }
}

struct MemoryReader {
    content: Arc<Vec<u8>>,
    entry: Entry,
}

impl Reader for MemoryReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        Ok(copy_from(&self.content, offset, buffer))
    }

    fn stat(&self) -> Result<Entry> {
        Ok(self.entry.clone())
    }

    fn hole(&self, _: u64) -> Option<u64> {
        None
    }

    fn crc64nvme(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

fn copy_from(content: &[u8], offset: u64, buffer: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|offset| content.get(offset..)).unwrap_or_default();
    let count = rest.len().min(buffer.len());
    buffer[..count].copy_from_slice(&rest[..count]);
    count
}

struct MemoryWriter {
    content: Content,
    path: RelativePath,
    size: u64,
    partial: Option<(String, u64)>,
    store: MemoryStore,
}

impl MemoryWriter {
    fn forget(&self) {
        if let Some(name) = &self.partial {
            self.store.partial.lock().remove(name);
        }
    }
}

impl Writer for MemoryWriter {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let too_large = || failed("write", &self.path, ErrorKind::NoSpace, "it is larger than memory can be");
        let begin = usize::try_from(offset).map_err(|_| too_large())?;
        let end = begin.checked_add(bytes.len()).ok_or_else(too_large)?;
        let mut content = self.content.write();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[begin..end].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        Ok(copy_from(&self.content.read(), offset, buffer))
    }

    fn abort(self: Box<Self>) {
        self.forget();
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
