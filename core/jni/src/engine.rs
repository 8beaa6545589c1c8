//! What all calls of a JVM share: options, and the connected roots.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use edt::error::Retry;
use edt::files::Files;
use edt::path::RelativePath;
use edt::store::{Depth, Entry, EntryKind};
use edt::sync::Mutex;
use edt::{Endpoint, Error, ErrorKind, Result, TransferOptions};

use crate::fields::{Block, Fields, mistaken};

/// A root that is connected when it is first asked for; whoever comes meanwhile waits.
type Root = Arc<Mutex<Option<Arc<Files>>>>;

/// Links of one path that are followed, as the kernel does.
const MOST_LINKS: usize = 40;

/// The engine of a JVM.
pub(crate) struct Engine {
    pub(crate) options: TransferOptions,
    roots: Mutex<HashMap<String, Root>>,
}

impl Engine {
    /// An engine that has connected to nothing yet.
    pub(crate) fn new(options: TransferOptions) -> Self {
        Self { options, roots: Mutex::default() }
    }

    /// The files of a root, which stay connected. One address of a web server is a root too, and is opened each time.
    pub(crate) fn files(&self, url: &str) -> Result<Arc<Files>> {
        if is_one_address(url) {
            return Files::open(&Endpoint::new(url), &self.options).map(Arc::new);
        }
        let root = Arc::clone(self.roots.lock().entry(url.to_owned()).or_default());
        let mut files = root.lock();
        if let Some(files) = &*files {
            return Ok(Arc::clone(files));
        }
        let opened = Arc::new(Files::open(&Endpoint::new(url), &self.options)?);
        Ok(Arc::clone(files.insert(opened)))
    }

    /// Describes what a place (root and path) names, links followed. With the field `real` behind them, only its path without links.
    pub(crate) fn stat(&self, block: &[u8]) -> Result<Vec<u8>> {
        let mut fields = Fields::of(block)?;
        let (files, path) = (self.files(fields.field()?)?, fields.path()?);
        let mut block = Block::default();
        if fields.next() == Some("real") {
            block.add(resolved(&files, &path)?);
            return Ok(block.into_bytes());
        }
        let entry = files.stat(&path)?;
        let linked = matches!(entry.kind, EntryKind::Symlink(_));
        block.add_entry(&followed(&files, entry)?, linked);
        Ok(block.into_bytes())
    }

    /// The entries below a place, its direct children or all.
    pub(crate) fn list(&self, place: &[u8], depth: Depth) -> Result<Vec<u8>> {
        let (files, mut path) = self.place(place)?;
        if is_link(&files, &path)? {
            path = resolved(&files, &path)?;
        }
        let mut block = Block::default();
        for entry in files.list(&path, depth)? {
            let entry = entry?;
            let inside = entry.path.clone();
            let linked = matches!(entry.kind, EntryKind::Symlink(_));
            let whole = Entry { path: path.join(&inside), ..entry };
            block.add_entry(&Entry { path: inside, ..followed(&files, whole)? }, linked);
        }
        Ok(block.into_bytes())
    }

    /// Changes a place: an operation, its place, and another path if it takes one.
    pub(crate) fn change(&self, block: &[u8]) -> Result<()> {
        use edt::options::Overwrite::{Never, Replace};
        let mut fields = Fields::of(block)?;
        let operation = fields.field()?;
        let files = self.files(fields.field()?)?;
        let path = fields.path()?;
        match operation {
            "directory" => files.create_directory(&path),
            "remove" => files.remove(&path, Depth::One),
            "remove-tree" => files.remove(&path, Depth::Tree),
            "copy" => files.copy(&path, &fields.path()?, Never),
            "copy-over" => files.copy(&path, &fields.path()?, Replace),
            "rename" => files.rename(&path, &fields.path()?, Never),
            "rename-over" => files.rename(&path, &fields.path()?, Replace),
            _ => Err(mistaken(&format!("the operation `{operation}`"))),
        }
    }

    /// The files of a root and the path below it that a block names.
    pub(crate) fn place(&self, block: &[u8]) -> Result<(Arc<Files>, RelativePath)> {
        let mut fields = Fields::of(block)?;
        Ok((self.files(fields.field()?)?, fields.path()?))
    }
}

/// Whether a URL names more than a server or a bucket.
fn is_one_address(url: &str) -> bool {
    url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).is_some_and(|(_, path)| !path.is_empty())
}

/// What a link leads to, with the name of the link. One that leads nowhere, or where nobody may look, stays a link.
fn followed(files: &Files, entry: Entry) -> Result<Entry> {
    if !matches!(entry.kind, EntryKind::Symlink(_)) {
        return Ok(entry);
    }
    match files.reader(&entry.path, 0..0) {
        Ok(reader) => Ok(Entry { path: entry.path, ..reader.entry().clone() }),
        Err(error) => match error.kind() {
            // Not a file, or at a place that opens no links.
            ErrorKind::WrongType => match resolved(files, &entry.path).and_then(|real| files.stat(&real)) {
                Ok(real) if real.kind != EntryKind::Directory => Ok(Entry { path: entry.path, ..real }),
                Err(error) if leads_nowhere(error.kind()) => Ok(entry),
                Err(error) if error.kind() != ErrorKind::Unsupported => Err(error),
                _ => Ok(Entry { kind: EntryKind::Directory, size: 0, ..entry }),
            },
            kind if leads_nowhere(kind) => Ok(entry),
            _ => Err(error),
        },
    }
}

/// Whether a link that fails so to be followed leads to nothing: what is no name, as one that is too long, is of no file.
fn leads_nowhere(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::Refused | ErrorKind::InvalidInput)
}

/// Whether a path is a link, which a listing would tell as itself, and not what is in the directory that it leads to.
fn is_link(files: &Files, path: &RelativePath) -> Result<bool> {
    if path.is_root() {
        return Ok(false);
    }
    match files.stat(path) {
        Ok(entry) => Ok(matches!(entry.kind, EntryKind::Symlink(_))),
        Err(error) if error.retry() != Retry::Never => Err(error),
        // The listing says what is wrong; some services list what they cannot describe.
        Err(_) => Ok(false),
    }
}

/// The same path without links in it.
fn resolved(files: &Files, path: &RelativePath) -> Result<RelativePath> {
    let failed = |kind: ErrorKind, why: &str| Error::new(kind, format!("could not follow `{path}`")).with_cause(why.to_owned());
    let cannot = |why: &str| failed(ErrorKind::Unsupported, why);
    let mut left: VecDeque<Vec<u8>> = path.components().map(<[u8]>::to_vec).collect();
    let mut reached = RelativePath::root();
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == b".." {
            reached = reached.parent().ok_or_else(|| cannot("a link leads out of the root"))?;
            continue;
        }
        let next = reached.child(&name)?;
        let EntryKind::Symlink(target) = files.stat(&next)?.kind else {
            reached = next;
            continue;
        };
        links += 1;
        if links > MOST_LINKS {
            return Err(failed(ErrorKind::NotFound, "its links have no end"));
        }
        if target.starts_with(b"/") {
            return Err(
                cannot("a link leads to an absolute path").with_hint("make it a relative link, or name the directory itself")
            );
        }
        for name in target.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").rev() {
            left.push_front(name.to_vec());
        }
    }
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Vec<&str> {
        Fields::of(bytes).unwrap().collect()
    }

    #[test]
    fn a_place_is_described_listed_and_changed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), b"12345").unwrap();
        let root = folder.path().display();
        let engine = Engine::new(TransferOptions::default());
        engine.change(format!("directory\0{root}\0d/e\0").as_bytes()).unwrap();
        engine.change(format!("copy\0{root}\0a\0d/b\0").as_bytes()).unwrap();
        let place = |path: &str| format!("{root}\0{path}\0").into_bytes();
        let described = engine.stat(&place("d/b")).unwrap();
        assert_eq!(fields(&described)[..2], ["f", "5"]);
        let listed = engine.list(&place(""), Depth::Tree).unwrap();
        let mut names: Vec<&str> = fields(&listed).chunks(5).map(|entry| entry[4]).collect();
        names.sort_unstable();
        assert_eq!(names, ["a", "d", "d/b", "d/e"]);
        engine.change(format!("remove-tree\0{root}\0d\0").as_bytes()).unwrap();
        assert_eq!(engine.stat(&place("d")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(engine.change(format!("what\0{root}\0a\0").as_bytes()).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_web_address_is_no_root_that_stays() {
        for root in ["edt://host:1/", "s3://bucket/", "https://host/", "/tmp/x"] {
            assert!(!is_one_address(root), "{root}");
        }
        for address in ["https://host/a//b", "https://host/?x=1", "http://host/a%2Fb/"] {
            assert!(is_one_address(address), "{address}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_described_as_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("d")).unwrap();
        std::fs::write(folder.path().join("d/f"), b"123").unwrap();
        let long = "x".repeat(300);
        let targets = [("file", "d/f"), ("directory", "d"), ("nowhere", "x"), ("endless", "endless"), ("long", long.as_str())];
        for (name, target) in targets {
            std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
        }
        let engine = Engine::new(TransferOptions::default());
        let listed = engine.list(format!("{}\0\0", folder.path().display()).as_bytes(), Depth::One).unwrap();
        let fields = fields(&listed);
        let kind = |name: &str| fields.chunks(5).find(|entry| entry[4] == name).map(|entry| (entry[0], entry[1]));
        assert_eq!(kind("file"), Some(("F", "3")));
        assert_eq!(kind("directory"), Some(("D", "0")));
        for name in ["nowhere", "endless", "long"] {
            assert_eq!(kind(name).map(|(kind, _)| kind), Some("l"), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_behind_links_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("a/f"), b"123").unwrap();
        for (name, target) in [("in", "a/b"), ("a/b/up", ".."), ("one", "two"), ("two", "one")] {
            std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
        }
        let engine = Engine::new(TransferOptions::default());
        // `in/up` is `a`, not the root: links are followed one after another.
        let listed = engine.list(format!("{}\0in/up\0", folder.path().display()).as_bytes(), Depth::One).unwrap();
        let mut names: Vec<&str> = fields(&listed).chunks(5).map(|entry| entry[4]).collect();
        names.sort_unstable();
        assert_eq!(names, ["b", "f"]);
        let real = engine.stat(format!("{}\0in/up/b\0real\0", folder.path().display()).as_bytes()).unwrap();
        assert_eq!(fields(&real), ["a/b"]);
        assert!(engine.list(format!("{}\0one\0", folder.path().display()).as_bytes(), Depth::One).is_err());
    }
}
