//! Stores without storage: one discards what is written, one makes up what is read.

use std::any::Any;
use std::fs::File;
use std::sync::Arc;

use crate::buffer::SLAB_SIZE;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Fsync, Overwrite};
use crate::path::RelativePath;
use crate::store::{
    Capabilities, Depth, Entry, EntryKind, Listing, Metadata, NewFile, Prune, Publication, Reader, Store, Times, Writer,
};

/// `null:`: takes everything and keeps nothing.
#[derive(Debug, Default)]
pub struct NullStore;

impl NullStore {
    /// The store.
    pub fn new() -> Self {
        Self
    }
}

impl Store for NullStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { resumable: false, times: Times::Written, ..Capabilities::LOCAL }
    }

    fn list(&self, path: &RelativePath, _: Depth, _: Prune) -> Result<Listing<'_>> {
        if path.is_root() { Ok(Box::new(std::iter::empty())) } else { Err(missing(path)) }
    }

    fn trouble(&self, _: &RelativePath) -> Option<Error> {
        None
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        if path.is_root() { Ok(directory()) } else { Err(missing(path)) }
    }

    fn open(&self, path: &RelativePath) -> Result<Box<dyn Reader>> {
        Err(missing(path))
    }

    fn create(&self, _: &NewFile) -> Result<Box<dyn Writer>> {
        Ok(Box::new(NullWriter))
    }

    fn publish(&self, batch: Vec<Publication>, _: Fsync) -> Vec<Result<()>> {
        batch.iter().map(|_| Ok(())).collect()
    }

    fn create_directory(&self, _: &RelativePath) -> Result<()> {
        Ok(())
    }

    fn set_directory_metadata(&self, _: &RelativePath, _: &Metadata) -> Result<()> {
        Ok(())
    }

    fn create_symlink(&self, _: &RelativePath, _: &[u8], _: Overwrite) -> Result<()> {
        Ok(())
    }

    fn remove(&self, path: &RelativePath, _: Depth) -> Result<()> {
        Err(missing(path))
    }

    fn sync_directories(&self, _: &[RelativePath]) -> Result<()> {
        Ok(())
    }

    fn journal(&self, _: &str) -> Result<Option<File>> {
        Ok(None)
    }

    fn discard(&self, _: &str) -> Result<()> {
        Ok(())
    }
}

struct NullWriter;

impl Writer for NullWriter {
    fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize> {
        Err(Error::new(ErrorKind::Unsupported, "`null:` keeps nothing that could be read again"))
    }

    fn abort(self: Box<Self>) {}

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// `zero:COUNTxSIZE`: files of bytes that are cheap to make, differ from file to file and block to block, and do not compress.
#[derive(Debug)]
pub struct ZeroStore {
    count: u64,
    size: u64,
    block: Arc<Vec<u8>>,
}

impl ZeroStore {
    /// `count` files of `size` bytes each, named `zero-0000` and so on.
    pub fn new(count: u64, size: u64) -> Self {
        let mut block = vec![0; SLAB_SIZE];
        blake3::Hasher::new().update(b"edt zero").finalize_xof().fill(&mut block);
        Self { count, size, block: Arc::new(block) }
    }

    fn entry(&self, number: u64) -> Entry {
        let path = RelativePath::from_bytes(format!("zero-{number:04}").as_bytes()).unwrap_or_default();
        Entry {
            path,
            kind: EntryKind::File,
            size: self.size,
            modified_ns: Some(0),
            mode: Some(0o644),
            version: Some(number),
            sparse: false,
        }
    }

    fn number(&self, path: &RelativePath) -> Result<u64> {
        let text = path.to_string();
        let number = text.strip_prefix("zero-").and_then(|digits| digits.parse().ok());
        number.filter(|number| *number < self.count && self.entry(*number).path == *path).ok_or_else(|| missing(path))
    }

    fn refuse<T>(&self, path: &RelativePath) -> Result<T> {
        Err(Error::new(ErrorKind::Unsupported, format!("could not change `{path}`"))
            .with_cause(format!("`zero:{}x{}` only makes up files to read", self.count, self.size)))
    }
}

impl Store for ZeroStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { symlinks: false, random_writes: false, ..NullStore.capabilities() }
    }

    fn list(&self, path: &RelativePath, _: Depth, _: Prune) -> Result<Listing<'_>> {
        if path.is_root() {
            return Ok(Box::new((0..self.count).map(|number| Ok(self.entry(number)))));
        }
        let number = self.number(path)?;
        Ok(Box::new(std::iter::once(Ok(self.entry(number)))))
    }

    fn trouble(&self, _: &RelativePath) -> Option<Error> {
        None
    }

    fn stat(&self, path: &RelativePath) -> Result<Entry> {
        if path.is_root() { Ok(directory()) } else { self.number(path).map(|number| self.entry(number)) }
    }

    fn open(&self, path: &RelativePath) -> Result<Box<dyn Reader>> {
        let number = self.number(path)?;
        Ok(Box::new(ZeroReader { entry: self.entry(number), number, block: Arc::clone(&self.block) }))
    }

    fn create(&self, file: &NewFile) -> Result<Box<dyn Writer>> {
        self.refuse(&file.path)
    }

    fn publish(&self, batch: Vec<Publication>, _: Fsync) -> Vec<Result<()>> {
        batch.iter().map(|_| self.refuse(&RelativePath::root())).collect()
    }

    fn create_directory(&self, path: &RelativePath) -> Result<()> {
        self.refuse(path)
    }

    fn set_directory_metadata(&self, path: &RelativePath, _: &Metadata) -> Result<()> {
        self.refuse(path)
    }

    fn create_symlink(&self, path: &RelativePath, _: &[u8], _: Overwrite) -> Result<()> {
        self.refuse(path)
    }

    fn remove(&self, path: &RelativePath, _: Depth) -> Result<()> {
        self.refuse(path)
    }

    fn sync_directories(&self, _: &[RelativePath]) -> Result<()> {
        Ok(())
    }

    fn journal(&self, _: &str) -> Result<Option<File>> {
        Ok(None)
    }

    fn discard(&self, _: &str) -> Result<()> {
        Ok(())
    }
}

struct ZeroReader {
    entry: Entry,
    number: u64,
    block: Arc<Vec<u8>>,
}

impl Reader for ZeroReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let left = self.entry.size.saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let (block, inside) = (at / SLAB_SIZE as u64, usize::try_from(at % SLAB_SIZE as u64).unwrap_or(0));
            let part = (SLAB_SIZE - inside).min(length - done);
            // Every block has a mask of its own, so that one in another's place is noticed.
            let mask = mix(self.number.rotate_left(32) ^ block).to_le_bytes();
            let made = self.block[inside..].iter().zip((inside..).map(|at| mask[at % 8]));
            for (out, (base, mask)) in buffer[done..done + part].iter_mut().zip(made) {
                *out = base ^ mask;
            }
            done += part;
        }
        Ok(length)
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

/// One step of `SplitMix64` (Steele, Lea and Flood, 2014).
pub(crate) fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn directory() -> Entry {
    Entry {
        path: RelativePath::root(),
        kind: EntryKind::Directory,
        size: 0,
        modified_ns: None,
        mode: None,
        version: None,
        sparse: false,
    }
}

fn missing(path: &RelativePath) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no `{path}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(store: &ZeroStore, name: &str, offset: u64, length: usize) -> Vec<u8> {
        let mut buffer = vec![0; length];
        let count = store.open(&RelativePath::from_user(name).unwrap()).unwrap().read_at(offset, &mut buffer).unwrap();
        buffer.truncate(count);
        buffer
    }

    #[test]
    fn a_made_up_file_reads_the_same_in_any_pieces() {
        let store = ZeroStore::new(2, 1_000_003);
        let whole = read(&store, "zero-0001", 0, 2_000_000);
        assert_eq!(whole.len(), 1_000_003);
        let pieces: Vec<u8> = (0..31).flat_map(|piece| read(&store, "zero-0001", piece * 33_333, 33_333)).collect();
        assert!(whole == pieces);
    }

    #[test]
    fn made_up_blocks_and_files_differ() {
        let store = ZeroStore::new(2, 64 << 20);
        let first = read(&store, "zero-0000", 0, SLAB_SIZE);
        assert!(first != read(&store, "zero-0001", 0, SLAB_SIZE));
        for block in 1..256 {
            assert!(first != read(&store, "zero-0000", block * SLAB_SIZE as u64, SLAB_SIZE), "block {block}");
        }
    }

    #[test]
    fn only_the_listed_names_exist() {
        let store = ZeroStore::new(2, 1);
        let listing = store.list(&RelativePath::root(), Depth::Tree, Arc::new(|_: &RelativePath| false)).unwrap();
        let names: Vec<String> = listing.map(|entry| entry.unwrap().path.to_string()).collect();
        assert_eq!(names, ["zero-0000", "zero-0001"]);
        for name in ["zero-0002", "zero-1", "zero-+001", "x"] {
            assert_eq!(store.stat(&RelativePath::from_user(name).unwrap()).unwrap_err().kind(), ErrorKind::NotFound);
        }
    }
}
