//! Feeds the queue: walks the sources, leaves out what the receiver has, and packs what is small.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

use crate::buffer::SLAB_SIZE;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Symlinks;
use crate::path::RelativePath;
use crate::pipeline::obstacle::obstacle;
use crate::pipeline::sender::Shared;
use crate::pipeline::sender::pending::Pending;
use crate::pipeline::sender::queue::{PackItem, SourceFile};
use crate::pipeline::taken;
use crate::plan::walk::Found;
use crate::plan::{key, walk, walk_chosen};
use crate::protocol::message::{DoneKey, FileHeader, Have, ItemKind, Key, Listed, Message, Root, Skipped, parts};
use crate::store::{Entry, EntryKind, Times};
use crate::sync::RwLock;

/// Files up to this size travel whole in a pack.
pub(crate) const SMALL: u64 = 128 << 10;

/// Room in a pack that an item's header is reckoned with, beside its path.
const HEADER_ROOM: usize = 160;

const PACK_ITEMS: usize = 256;

/// Items of a pack where reading each is a request, which is waited for: few, so that many workers share them.
const REQUESTED_ITEMS: usize = 4;

const KEYS_PER_MESSAGE: usize = 4096;

/// `SendOptions::symlinks` where links are left out.
const SKIP_SYMLINKS: u8 = 2;

/// What the receiver has, for planning.
#[derive(Default)]
pub(crate) struct Known {
    /// A list, for it takes half of what a table does; in order of the keys when planning begins.
    done: Vec<DoneKey>,
    present: HashSet<Key>,
    /// When those of `present` were written, if that is to be compared.
    written: HashMap<Key, i64>,
    partial: HashMap<Key, (Key, Vec<(u64, u64)>)>,
    /// The paths that are not to be replaced, and what is in the way; known only on a dry run.
    taken: HashSet<Key>,
    /// The destination, as people know it.
    resolved: String,
}

impl Known {
    /// Adds one part of the receiver's account.
    pub(crate) fn add(&mut self, have: Have) {
        self.done.extend(have.done);
        match have.written {
            Some(written) => self.written.extend(have.present.into_iter().zip(written)),
            None => self.present.extend(have.present),
        }
        self.taken.extend(have.taken.unwrap_or_default());
        self.resolved = have.resolved.unwrap_or_default();
        let sound = have.partial.into_iter().filter(|file| is_sound(&file.ranges));
        self.partial.extend(sound.map(|file| (file.path, (file.identity, file.ranges))));
        if have.last {
            self.done.sort_unstable_by_key(|done| done.key);
        }
    }

    /// What an earlier attempt published of a source in this state.
    fn done(&self, identity: Key) -> Option<&DoneKey> {
        let found = self.done.binary_search_by_key(&identity, |done| done.key);
        found.ok().map(|at| &self.done[at])
    }

    /// What a dry run knows to be in the way: something that is not to be replaced, and is not what would be sent, or of another kind.
    fn in_the_way(&self, entry: &Entry, destination: &RelativePath, times: Times) -> Option<Error> {
        let name = if destination.is_root() { self.resolved.clone() } else { destination.to_string() };
        let is_taken = entry.kind == EntryKind::File && self.taken.contains(&key::of_path(destination));
        let is_other = is_taken && !self.is_present(entry, destination, times);
        if is_other { Some(taken(&name)) } else { obstacle(&self.taken, &entry.kind, destination, &name) }
    }

    fn is_present(&self, entry: &Entry, destination: &RelativePath, times: Times) -> bool {
        if self.present.is_empty() && self.written.is_empty() {
            return false;
        }
        let key = key::of_content(destination, entry.size, entry.modified_ns, times);
        let older = |written: &i64| entry.modified_ns.is_some_and(|modified| modified <= *written);
        self.present.contains(&key) || self.written.get(&key).is_some_and(older)
    }
}

/// Plans one session; runs on its own thread.
pub(crate) struct Feed<'a> {
    shared: &'a Shared,
    known: Known,
    times: Times,
    pack_items: usize,
    pack: Vec<PackItem>,
    pack_room: usize,
    pack_bytes: u64,
    kept: Vec<Key>,
    skipped: Vec<Skipped>,
    listed: Listed,
    /// By the names of what was planned, which source each is of; `None` where no two can have the same one.
    named: Option<HashMap<Key, Key>>,
}

impl<'a> Feed<'a> {
    pub(crate) fn new(shared: &'a Shared, known: Known) -> Self {
        Self {
            shared,
            known,
            times: Times::from_code(shared.options.times),
            pack_items: if shared.store.capabilities().flushes { PACK_ITEMS } else { REQUESTED_ITEMS },
            pack: Vec::new(),
            pack_room: 0,
            pack_bytes: 0,
            kept: Vec::new(),
            skipped: Vec::new(),
            listed: Listed::default(),
            named: may_meet(&shared.options.roots).then(HashMap::new),
        }
    }

    /// Lists and feeds until all is listed or the sender stops; an error means that a source as a whole cannot be listed.
    pub(crate) fn run(mut self) -> Result<()> {
        let shared = self.shared;
        for found in planned(shared)? {
            if shared.stop.is_set() {
                return Ok(());
            }
            match found {
                Ok(item) => self.item(item.entry, &item.destination),
                Err((destination, error)) => shared.item_failed(0, destination.as_bytes(), &error),
            }
            if self.listed.items.is_multiple_of(1024) {
                self.tell();
            }
        }
        self.flush_pack();
        shared.sizes.lock().complete = true;
        self.listed.complete = true;
        self.tell();
        Ok(())
    }

    fn item(&mut self, entry: Entry, destination: &RelativePath) {
        // A local store leaves them out by itself.
        if self.shared.options.symlinks == SKIP_SYMLINKS && matches!(entry.kind, EntryKind::Symlink(_)) {
            return;
        }
        if entry.kind != EntryKind::Directory && self.is_another(&entry, destination) {
            return;
        }
        self.listed.items += 1;
        self.listed.bytes += entry.size;
        let identity = key::of_source(destination, &entry);
        self.keep(destination);
        if self.shared.options.dry_run
            && let Some(error) = self.known.in_the_way(&entry, destination, self.times)
        {
            return self.shared.item_failed(0, destination.as_bytes(), &error);
        }
        if entry.kind == EntryKind::File
            && let Some(skipped) = self.left_out(&entry, destination, identity)
        {
            self.skipped.push(skipped);
            return;
        }
        if self.shared.options.dry_run {
            return;
        }
        if entry.kind == EntryKind::File {
            self.shared.sizes.lock().add(entry.size);
        }
        if entry.kind == EntryKind::File && entry.size > SMALL && !self.shared.copied {
            self.large(entry, destination, identity);
        } else {
            self.small(entry, destination, identity);
        }
    }

    /// Whether something that is planned already has the name; unless that is the same, found again, it is told as failed.
    fn is_another(&mut self, entry: &Entry, destination: &RelativePath) -> bool {
        let source = key::of_path(&entry.path);
        let first = self.named.as_mut().and_then(|named| named.insert(key::of_path(destination), source));
        if first.is_some_and(|first| first != source) {
            let error = Error::new(ErrorKind::AlreadyExists, format!("could not copy `{}`", entry.path))
                .with_cause(format!("another source would be `{destination}` at the destination as well"))
                .with_hint("copy them one after the other, each to a destination of its own");
            self.shared.item_failed(0, destination.as_bytes(), &error);
        }
        first.is_some()
    }

    /// A file that is not sent, with the digests that it is known to have at the destination.
    fn left_out(&self, entry: &Entry, destination: &RelativePath, identity: Key) -> Option<Skipped> {
        let done = self.known.done(identity);
        let there = done.is_some() || self.known.is_present(entry, destination, self.times);
        (there || self.shared.options.dry_run).then(|| Skipped {
            path: destination.as_bytes().to_vec(),
            size: entry.size,
            wanted: !there,
            modified_ns: entry.modified_ns,
            mode: entry.mode,
            crc64nvme: done.map(|done| done.crc64nvme),
            blake3: done.and_then(|done| done.blake3),
        })
    }

    fn large(&mut self, entry: Entry, destination: &RelativePath, identity: Key) {
        self.flush_pack();
        let mut ranges = vec![(0, entry.size)];
        if let Some((known, verified)) = self.known.partial.remove(&key::of_path(destination)) {
            if known == identity {
                ranges = missing(&verified, entry.size);
            } else {
                let name = if destination.is_root() { &entry.path } else { destination };
                let error = Error::new(ErrorKind::SourceChanged, format!("`{name}` starts afresh"))
                    .with_cause("the source changed since an earlier attempt sent a part of it");
                self.shared.retried(name.as_bytes(), &error);
            }
        }
        let file = self.shared.source_file(entry, destination, 0, &ranges);
        let left: u64 = ranges.iter().map(|(begin, end)| end - begin).sum();
        self.shared.resumed(file.header.size.saturating_sub(left));
        let ranges: Vec<Range<u64>> = ranges.into_iter().map(|(begin, end)| begin..end).collect();
        self.shared.queue.add_file(file, ranges);
    }

    fn small(&mut self, entry: Entry, destination: &RelativePath, identity: Key) {
        let header = self.shared.header(&entry, destination, identity);
        let room = header.path.len() + header.target.as_ref().map_or(0, Vec::len) + HEADER_ROOM;
        let size = usize::try_from(header.packed_length()).unwrap_or(SLAB_SIZE);
        if self.pack_room + room + size > SLAB_SIZE || self.pack.len() >= self.pack_items {
            self.flush_pack();
        }
        self.pack_room += room + size;
        self.pack_bytes += entry.size;
        self.shared.pend(header.file, Pending::Item(header.clone()));
        self.pack.push(PackItem { header, entry });
        if self.shared.pipelining.load(Ordering::Relaxed) == 0 {
            self.flush_pack();
        }
    }

    fn flush_pack(&mut self) {
        if !self.pack.is_empty() {
            self.shared.queue.add_pack(std::mem::take(&mut self.pack), self.pack_bytes);
        }
        self.pack_room = 0;
        self.pack_bytes = 0;
    }

    fn keep(&mut self, destination: &RelativePath) {
        if self.shared.mirror {
            self.kept.push(key::of_path(destination));
        }
    }

    fn tell(&mut self) {
        let shared = self.shared;
        for skipped in parts(&std::mem::take(&mut self.skipped), KEYS_PER_MESSAGE) {
            shared.skipped(skipped);
        }
        for kept in std::mem::take(&mut self.kept).chunks(KEYS_PER_MESSAGE) {
            shared.send(&Message::Keep(kept.to_vec()));
        }
        shared.listed(self.listed);
    }
}

/// What is to be sent: all of the roots, or what was chosen below the only one.
fn planned(shared: &Shared) -> Result<Box<dyn Iterator<Item = Found> + '_>> {
    let (store, roots) = (shared.store.as_ref(), &shared.options.roots);
    match (&shared.files, roots.as_slice()) {
        (None, _) => Ok(Box::new(walk::walk(store, roots, &shared.filter)?)),
        (Some(files), [root]) => {
            let symlinks = if shared.options.symlinks == SKIP_SYMLINKS { Symlinks::Skip } else { Symlinks::Keep };
            Ok(Box::new(walk_chosen(store, root, files, &shared.filter, symlinks)?))
        }
        (Some(_), _) => Err(Error::new(ErrorKind::InvalidInput, "files can be chosen of one source only")
            .with_hint("name one directory as the source, and the files below it")),
    }
}

/// Whether what is found of several sources may have the same name: matches of a pattern keep their own.
fn may_meet(roots: &[Root]) -> bool {
    roots.len() > 1 && roots.iter().any(|root| root.prefix.is_empty())
}

/// Whether ranges are in order, apart, and begin at block borders.
fn is_sound(ranges: &[(u64, u64)]) -> bool {
    let ordered = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
    ordered && ranges.iter().all(|(begin, end)| begin < end && begin % SLAB_SIZE as u64 == 0)
}

/// What is missing between verified ranges; when nothing is, the last block is sent again so that the file is opened and closed.
fn missing(verified: &[(u64, u64)], size: u64) -> Vec<(u64, u64)> {
    let mut missing = Vec::new();
    let mut at = 0;
    for (begin, end) in verified {
        if *begin > at && at < size {
            missing.push((at, (*begin).min(size)));
        }
        at = at.max(*end);
    }
    if at < size {
        missing.push((at, size));
    }
    if missing.is_empty() {
        missing.push(((size - 1) / SLAB_SIZE as u64 * SLAB_SIZE as u64, size));
    }
    missing
}

impl Shared {
    /// Numbers a file that travels in chunks and puts it among the pending items.
    pub(crate) fn source_file(
        &self,
        entry: Entry,
        destination: &RelativePath,
        attempt: u32,
        ranges: &[(u64, u64)],
    ) -> Arc<SourceFile> {
        let identity = key::of_source(destination, &entry);
        let header = self.header(&entry, destination, identity);
        let file = Arc::new(SourceFile {
            unsent: AtomicU64::new(ranges.iter().map(|(begin, end)| end - begin).sum()),
            in_flight: AtomicU16::new(0),
            vouched: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            reader: RwLock::new(None),
            header,
            entry,
            attempt,
        });
        self.pend(file.header.file, Pending::File(Arc::clone(&file)));
        file
    }

    /// Numbers an item and describes it for the receiver.
    pub(crate) fn header(&self, entry: &Entry, destination: &RelativePath, identity: Key) -> FileHeader {
        let (kind, target) = match &entry.kind {
            EntryKind::Directory => (ItemKind::Directory, None),
            EntryKind::Symlink(target) => (ItemKind::Symlink, Some(target.to_vec())),
            EntryKind::File | EntryKind::Other => (ItemKind::File, None),
        };
        FileHeader {
            file: self.next_number.fetch_add(1, Ordering::Relaxed),
            path: destination.as_bytes().to_vec(),
            kind,
            size: entry.size,
            modified_ns: entry.modified_ns,
            mode: entry.mode,
            identity,
            target,
            crc64nvme: 0,
            blake3: None,
            sparse: entry.sparse,
            copy_from: (self.copied && entry.kind == EntryKind::File).then(|| entry.path.as_bytes().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_files_that_the_receiver_has_take_less_than_100_mib() {
        let key = |number: u32| Key(*blake3::hash(&number.to_le_bytes()).as_bytes().first_chunk().unwrap());
        let done = |number| DoneKey { key: key(number), crc64nvme: u64::from(number), blake3: None };
        let mut known = Known::default();
        for part in 0..50 {
            known.add(Have { done: (part * 4096..(part + 1) * 4096).map(done).collect(), last: part == 49, ..Have::default() });
        }
        assert!((0..50 * 4096).all(|number| known.done(key(number)) == Some(&done(number))));
        assert_eq!(known.done(key(u32::MAX)), None);
        assert!(size_of::<DoneKey>() * 1_000_000 < 100 << 20);
    }

    #[test]
    fn what_is_missing_lies_between_what_is_verified() {
        assert_eq!(missing(&[(10, 20), (30, 40)], 50), [(0, 10), (20, 30), (40, 50)]);
        assert_eq!(missing(&[], 5), [(0, 5)]);
    }

    #[test]
    fn of_a_file_that_is_all_there_the_last_block_is_sent_again() {
        let block = SLAB_SIZE as u64;
        assert_eq!(missing(&[(0, 2 * block + 5)], 2 * block + 5), [(2 * block, 2 * block + 5)]);
    }
}
