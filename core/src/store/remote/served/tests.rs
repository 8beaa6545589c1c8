//! The adapter over a directory of this machine, with more or less of what servers can do.
#![cfg(unix)]

mod places;
mod trouble;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;
use crate::buffer::SLAB_SIZE;
use crate::endpoint::{Endpoint, Location};
use crate::store::Partial;
use crate::store::remote::{Abilities, Body, Ranges, ServedFile};
use crate::testing::conformance;

/// How a server takes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taking {
    InAnyOrder,
    Appending,
    AtOnce,
}

/// What happens before a call: its name and path are told, and an error is its answer.
type Before = Arc<dyn Fn(&str, &RelativePath) -> Result<()> + Send + Sync>;

/// A directory, served without a network.
struct Folder {
    root: PathBuf,
    taking: Taking,
    before: Before,
}

impl Folder {
    fn new(root: PathBuf, taking: Taking) -> Self {
        Self { root, taking, before: Arc::new(|_, _| Ok(())) }
    }

    fn local(&self, path: &RelativePath) -> PathBuf {
        path.to_local().map(|local| self.root.join(local)).unwrap()
    }

    fn failed<T>(&self, path: &RelativePath, outcome: io::Result<T>) -> Result<T> {
        outcome.map_err(|error| Error::io(format!("could not use `{}`", self.show(path)), &error))
    }
}

fn entry(path: RelativePath, local: &Path) -> io::Result<Entry> {
    let metadata = local.symlink_metadata()?;
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => EntryKind::Directory,
        kind if kind.is_symlink() => EntryKind::Symlink(crate::path::name_bytes(local.read_link()?.as_os_str()).unwrap().into()),
        _ => EntryKind::File,
    };
    let size = if kind == EntryKind::File { metadata.len() } else { 0 };
    let modified_ns = Some(metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec());
    let (mode, version) = (Some(metadata.mode() & 0o1777), Some(metadata.ino()));
    Ok(Entry { path, kind, size, modified_ns, mode, version, sparse: false })
}

impl Served for Folder {
    fn abilities(&self) -> Abilities {
        let any = self.taking == Taking::InAnyOrder;
        Abilities {
            writes: true,
            lists: true,
            random_writes: any,
            reads_back: any,
            appends: self.taking == Taking::Appending,
            times: Times::Exact,
            modes: true,
            symlinks: true,
            connections: None,
        }
    }

    fn show(&self, path: &RelativePath) -> String {
        format!("folder:///{path}")
    }

    fn probe(&self) -> Result<()> {
        self.stat(&RelativePath::root()).map(|_| ())
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        self.failed(path, entry(path.clone(), &self.local(path)))
    }

    fn children(&self, path: &RelativePath) -> Result<Vec<Entry>> {
        (self.before)("children", path)?;
        let found = self.failed(path, fs::read_dir(self.local(path)))?;
        let child = |found: io::Result<fs::DirEntry>| {
            let found = self.failed(path, found)?;
            let below = path.child(crate::path::name_bytes(&found.file_name()).unwrap())?;
            self.failed(&below, entry(below.clone(), &found.path()))
        };
        found.map(child).collect()
    }

    fn read(&self, path: &RelativePath, entry: &Entry) -> Result<Box<dyn Ranges>> {
        let file = self.failed(path, File::open(self.local(path)))?;
        Ok(Box::new(OpenFile { file: Arc::new(file), local: self.local(path), path: entry.path.clone() }))
    }

    fn write(&self, path: &RelativePath, _: u64, keep: bool) -> Result<Box<dyn ServedFile>> {
        (self.before)("write", path)?;
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(!keep).open(self.local(path));
        let file = self.failed(path, opened)?;
        let length = self.failed(path, file.metadata())?.len();
        Ok(Box::new(Written { file, length, taking: self.taking, path: path.clone(), before: Arc::clone(&self.before) }))
    }

    fn rename(&self, from: &RelativePath, to: &RelativePath, overwrite: Overwrite) -> Result<()> {
        (self.before)("rename", to)?;
        if overwrite == Overwrite::Never && self.local(to).symlink_metadata().is_ok() {
            return self.failed(to, Err(io::ErrorKind::AlreadyExists.into()));
        }
        self.failed(to, fs::rename(self.local(from), self.local(to)))
    }

    fn make_directory(&self, path: &RelativePath) -> Result<()> {
        self.failed(path, fs::create_dir(self.local(path)))
    }

    fn make_symlink(&self, path: &RelativePath, target: &[u8]) -> Result<()> {
        let target = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(target);
        self.failed(path, std::os::unix::fs::symlink(target, self.local(path)))
    }

    fn set_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        (self.before)("set_metadata", path)?;
        let file = self.failed(path, File::open(self.local(path)))?;
        if let Some(modified) = metadata.modified_ns.and_then(|time| u64::try_from(time).ok()) {
            self.failed(path, file.set_modified(UNIX_EPOCH + Duration::from_nanos(modified)))?;
        }
        let mode = metadata.mode.map(|mode| file.set_permissions(fs::Permissions::from_mode(mode)));
        self.failed(path, mode.unwrap_or(Ok(())))
    }

    fn remove_file(&self, path: &RelativePath) -> Result<()> {
        self.failed(path, fs::remove_file(self.local(path)))
    }

    fn remove_directory(&self, path: &RelativePath) -> Result<()> {
        self.failed(path, fs::remove_dir(self.local(path)))
    }
}

struct OpenFile {
    file: Arc<File>,
    local: PathBuf,
    path: RelativePath,
}

impl Ranges for OpenFile {
    fn open(&self, range: Range<u64>) -> Result<Box<dyn Body>> {
        Ok(Box::new(Bytes { file: Arc::clone(&self.file), range }))
    }

    fn stat(&self) -> Result<Entry> {
        entry(self.path.clone(), &self.local).map_err(|error| Error::io("could not look", &error))
    }
}

struct Bytes {
    file: Arc<File>,
    range: Range<u64>,
}

impl Body for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let most = usize::try_from(self.range.end - self.range.start).unwrap().min(buffer.len());
        let count =
            self.file.read_at(&mut buffer[..most], self.range.start).map_err(|error| Error::io("could not read", &error))?;
        self.range.start += count as u64;
        Ok(count)
    }
}

struct Written {
    file: File,
    length: u64,
    taking: Taking,
    path: RelativePath,
    before: Before,
}

impl ServedFile for Written {
    fn length(&self) -> u64 {
        self.length
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        (self.before)("write_at", &self.path)?;
        let end = self.file.metadata().unwrap().len();
        assert!(self.taking == Taking::InAnyOrder || offset == end, "{offset} is not behind {end}");
        self.file.write_all_at(bytes, offset).map_err(|error| Error::io("could not write", &error))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if self.taking != Taking::InAnyOrder {
            return Err(Error::new(ErrorKind::Unsupported, "nothing can be read back"));
        }
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64).unwrap() {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }

    fn finish(&self) -> Result<()> {
        Ok(())
    }
}

fn path(text: &str) -> RelativePath {
    RelativePath::from_user(text).unwrap()
}

fn store(place: &Path, taking: Taking, base: &str, directory: bool) -> ServedStore {
    let root = place.join("root");
    fs::create_dir_all(&root).unwrap();
    ServedStore::new(Folder::new(root, taking), path(base), directory, Some(State::at(place.join("state"))))
}

fn file(name: &str, size: usize, number: u64) -> NewFile {
    NewFile { size: size as u64, resume: Some(Partial { key: "k".to_owned(), number }), ..NewFile::of(path(name)) }
}

fn write(writer: &dyn Writer, content: &[u8], blocks: &mut dyn Iterator<Item = usize>) {
    for at in blocks.map(|block| block * SLAB_SIZE) {
        writer.write_at(at as u64, &content[at..content.len().min(at + SLAB_SIZE)]).unwrap();
    }
}

#[test]
fn it_keeps_the_contract_of_a_store() {
    let place = tempfile::tempdir().unwrap();
    for taking in [Taking::InAnyOrder, Taking::Appending, Taking::AtOnce] {
        let number = AtomicUsize::new(0);
        conformance::check(&|| {
            let own = format!("{taking:?} {}", number.fetch_add(1, Ordering::Relaxed));
            Box::new(store(&place.path().join(own), taking, "", true))
        });
    }
}

#[test]
fn what_an_appending_server_has_is_continued_block_by_block() {
    let place = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..SLAB_SIZE * 3 + 5).map(|index| (index / 997 % 251).to_le_bytes()[0]).collect();
    let first = store(place.path(), Taking::Appending, "base", false);
    let writer = first.create(&file("base/big", content.len(), 1)).unwrap();
    write(writer.as_ref(), &content, &mut [1, 0].into_iter());
    drop(writer);
    let partial = place.path().join("root/.edt-partial/k.1");
    // The last block was cut off when the connection broke.
    OpenOptions::new().write(true).open(&partial).unwrap().set_len(SLAB_SIZE as u64 + 7).unwrap();
    // Meanwhile the directory was made: the file is still found where it was begun.
    first.create_directory(&path("base")).unwrap();

    let second = store(place.path(), Taking::Appending, "base", false);
    let writer = second.create(&file("base/big", content.len(), 1)).unwrap();
    assert_eq!(writer.kept(), std::iter::once(0..SLAB_SIZE as u64).collect::<Vec<_>>());
    write(writer.as_ref(), &content, &mut [3, 2, 1].into_iter());
    second.publish(vec![Publication::of(writer)], Fsync::None).remove(0).unwrap();
    assert!(fs::read(place.path().join("root/base/big")).unwrap() == content);
    second.discard("k").unwrap();
    assert!(!place.path().join("root/.edt-partial").exists());
}

#[test]
fn a_file_with_a_gap_is_not_published() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), Taking::Appending, "", true);
    let content = vec![1; SLAB_SIZE * 3];
    for blocks in [[0, 2].as_slice(), &[0]] {
        let writer = store.create(&file("big", content.len(), 1)).unwrap();
        write(writer.as_ref(), &content, &mut blocks.iter().copied());
        let refused = store.publish(vec![Publication::of(writer)], Fsync::None).remove(0).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
        assert!(store.stat(&path("big")).is_err());
        store.discard("k").unwrap();
    }
}

#[test]
fn partial_files_are_found_and_removed_and_are_nobodys_business() {
    let place = tempfile::tempdir().unwrap();
    let writing = store(place.path(), Taking::InAnyOrder, "a/b", false);
    writing.create(&file("a/b/big", SLAB_SIZE * 2, 7)).unwrap().write_at(5, b"x").unwrap();
    assert!(place.path().join("root/a/.edt-partial/k.7").exists());
    for hidden in ["a/.edt-partial", "a/.edt-partial/k.7"] {
        assert_eq!(writing.stat(&path(hidden)).unwrap_err().kind(), ErrorKind::NotFound);
    }
    let Location::Service(url) = Endpoint::from("sftp://host/a/b").resolve().unwrap() else { panic!() };
    let folder = Folder::new(place.path().join("root"), Taking::InAnyOrder);
    let mut left = abandoned(folder, &url).unwrap();
    let items = left.list().unwrap().into_iter().collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!((items[0].name.as_str(), items[0].bytes), ("folder:///a/.edt-partial/k.7", Some(6)));
    assert!(items[0].begun_ns.unwrap() <= i64::try_from(since_1970()).unwrap());
    left.remove(&items[0]).unwrap();
    left.remove(&items[0]).unwrap();
    assert!(left.list().unwrap().is_empty());
    assert!(!place.path().join("root/a/.edt-partial").exists());
}

/// The names of directories for partial files.
fn places(root: &Path) -> Vec<String> {
    let names = fs::read_dir(root).into_iter().flatten().map(|found| found.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> = names.filter(|name| staging::is_directory(name.as_bytes())).collect();
    found.sort_unstable();
    found
}

fn since_1970() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

#[test]
fn a_deep_tree_is_listed_and_a_walk_may_be_left_early() {
    let place = tempfile::tempdir().unwrap();
    let store = store(place.path(), Taking::InAnyOrder, "", true);
    for (upper, lower) in (0..20).flat_map(|upper| (0..5).map(move |lower| (upper, lower))) {
        fs::create_dir_all(place.path().join(format!("root/{upper}/{lower}"))).unwrap();
        fs::write(place.path().join(format!("root/{upper}/{lower}/file")), b"x").unwrap();
    }
    let everything: Prune = Arc::new(|_| false);
    let listed = store.list(&RelativePath::root(), Depth::Tree, Arc::clone(&everything)).unwrap();
    assert_eq!(listed.collect::<Result<Vec<_>>>().unwrap().len(), 20 + 100 + 100);
    let early = store.list(&RelativePath::root(), Depth::Tree, everything).unwrap();
    assert_eq!(early.take(30).count(), 30);
}

#[test]
fn a_link_to_a_directory_may_be_the_base() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("root/real")).unwrap();
    std::os::unix::fs::symlink("real", place.path().join("root/link")).unwrap();
    let store = store(place.path(), Taking::InAnyOrder, "link", false);
    assert_eq!(store.stat(&path("link")).unwrap().kind, EntryKind::Directory);
    let writer = store.create(&NewFile { size: 1, ..NewFile::of(path("link/file")) }).unwrap();
    writer.write_at(0, b"x").unwrap();
    store.publish(vec![Publication::of(writer)], Fsync::None).remove(0).unwrap();
    assert_eq!(fs::read(place.path().join("root/real/file")).unwrap(), b"x");
}
