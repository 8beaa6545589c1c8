//! What all calls of a JVM share: options, and the connected roots.

use std::collections::HashMap;
use std::sync::Arc;

use edt::files::Files;
use edt::path::RelativePath;
use edt::store::{Depth, Entry, EntryKind};
use edt::{Endpoint, ErrorKind, Result, TransferOptions};
use parking_lot::Mutex;

use crate::fields::{Block, Fields, mistaken};

/// A root that is connected when it is first asked for; whoever comes meanwhile waits.
type Root = Arc<Mutex<Option<Arc<Files>>>>;

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

    /// The files of a root, which stay connected. A root that is one address of a web server, with its query, is opened each time.
    pub(crate) fn files(&self, url: &str) -> Result<Arc<Files>> {
        if url.contains('?') {
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

    /// Describes what a place (root and path) names, links followed.
    pub(crate) fn stat(&self, place: &[u8]) -> Result<Vec<u8>> {
        let (files, path) = self.place(place)?;
        let entry = files.stat(&path)?;
        let mut block = Block::default();
        block.add_entry(&followed(&files, entry));
        Ok(block.into_bytes())
    }

    /// The entries below a place, its direct children or all.
    pub(crate) fn list(&self, place: &[u8], depth: Depth) -> Result<Vec<u8>> {
        let (files, path) = self.place(place)?;
        let mut block = Block::default();
        for entry in files.list(&path, depth)? {
            let entry = entry?;
            let inside = entry.path.clone();
            if matches!(entry.kind, EntryKind::Symlink(_)) {
                let whole = Entry { path: path.join(&inside), ..entry };
                block.add_entry(&Entry { path: inside, ..followed(&files, whole) });
            } else {
                block.add_entry(&entry);
            }
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

/// What a link leads to, with the name of the link; a link that leads nowhere stays a link.
fn followed(files: &Files, entry: Entry) -> Entry {
    if !matches!(entry.kind, EntryKind::Symlink(_)) {
        return entry;
    }
    match files.reader(&entry.path, 0..0) {
        Ok(reader) => Entry { path: entry.path, ..reader.entry().clone() },
        Err(error) if error.kind() == ErrorKind::WrongType => Entry { kind: EntryKind::Directory, size: 0, ..entry },
        Err(_) => entry,
    }
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
        let mut names: Vec<&str> = fields(&listed).chunks(4).map(|entry| entry[3]).collect();
        names.sort_unstable();
        assert_eq!(names, ["a", "d", "d/b", "d/e"]);
        engine.change(format!("remove-tree\0{root}\0d\0").as_bytes()).unwrap();
        assert_eq!(engine.stat(&place("d")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(engine.change(format!("what\0{root}\0a\0").as_bytes()).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_described_as_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("d")).unwrap();
        std::fs::write(folder.path().join("d/f"), b"123").unwrap();
        for (name, target) in [("file", "d/f"), ("directory", "d"), ("nowhere", "x")] {
            std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
        }
        let engine = Engine::new(TransferOptions::default());
        let listed = engine.list(format!("{}\0\0", folder.path().display()).as_bytes(), Depth::One).unwrap();
        let fields = fields(&listed);
        let kind = |name: &str| fields.chunks(4).find(|entry| entry[3] == name).map(|entry| (entry[0], entry[1]));
        assert_eq!(kind("file"), Some(("f", "3")));
        assert_eq!(kind("directory"), Some(("d", "0")));
        assert_eq!(kind("nowhere").map(|(kind, _)| kind), Some("l"));
    }
}
