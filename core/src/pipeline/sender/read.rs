//! The read stage: turns units of work into frames, with the digests computed while the bytes are hot.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::buffer::{SLAB_SIZE, Slab};
use crate::error::{Error, ErrorKind, Result};
use crate::link::Frame;
use crate::pipeline::digest::{block_blake3, corrupted, crc64nvme};
use crate::pipeline::sender::Shared;
use crate::pipeline::sender::feed::SMALL;
use crate::pipeline::sender::outstanding::Tag;
use crate::pipeline::sender::pending::Pending;
use crate::pipeline::sender::queue::{PackItem, SourceFile, Unit};
use crate::plan::key;
use crate::protocol::frame::{FLAG_ZERO, FrameHeader, FrameKind, pack_item};
use crate::protocol::message::{FileHeader, ItemKind};
use crate::store::{Entry, Reader};

/// How often a small file that changes while it is read is read again.
const PACK_ATTEMPTS: u32 = 3;

/// A frame on its way to a stream, and what it stands for.
pub(crate) type Tagged = (Frame, Tag);

/// Reads one unit, frame by frame.
pub(crate) struct UnitReader {
    unit: Option<Unit>,
}

impl UnitReader {
    pub(crate) fn new(unit: Unit) -> Self {
        Self { unit: Some(unit) }
    }

    /// The next frame; `None` when the unit is done, given up, or the sender stops.
    pub(crate) fn next(&mut self, shared: &Shared) -> Option<Tagged> {
        match self.unit.take()? {
            Unit::Pack(items) => read_pack(shared, items),
            Unit::Chunk(file, range) => self.next_block(shared, file, range),
        }
    }

    /// What was not read of the unit: goes back to the queue when its worker ends.
    pub(crate) fn into_rest(self) -> Option<Unit> {
        if let Some(Unit::Chunk(file, _)) = &self.unit {
            file.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
        self.unit
    }

    fn next_block(&mut self, shared: &Shared, file: Arc<SourceFile>, range: Range<u64>) -> Option<Tagged> {
        let end = range.end.min((range.start / SLAB_SIZE as u64 + 1) * SLAB_SIZE as u64);
        let last = end == range.end;
        let done = |file: &SourceFile| file.in_flight.fetch_sub(1, Ordering::Relaxed);
        if file.abandoned.load(Ordering::Relaxed) {
            done(&file);
            return None;
        }
        let frame = match read_block(shared, &file, range.start..end, range.end) {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                done(&file);
                return None;
            }
            Err(error) => {
                done(&file);
                shared.source_failed(&file, &error);
                return None;
            }
        };
        if last {
            done(&file);
        } else {
            let parallelism = shared.parallelism.load(Ordering::Relaxed);
            let rest = shared.queue.share(&file, end..range.end, parallelism, shared.least_share);
            self.unit = Some(Unit::Chunk(Arc::clone(&file), rest));
        }
        Some((frame, Tag::Data { file, range: range.start..end, last }))
    }
}

/// Reads one block of what will be read up to `end`; `None` if the sender stops before a slab is free.
fn read_block(shared: &Shared, file: &SourceFile, range: Range<u64>, end: u64) -> Result<Option<Frame>> {
    let reader = file.reader(|| shared.store.open(&file.entry.path))?;
    let Some(mut slab) = shared.slab() else { return Ok(None) };
    let begun = Instant::now();
    reader.expect(range.start..end);
    let length = usize::try_from(range.end - range.start).unwrap_or(SLAB_SIZE).min(SLAB_SIZE);
    let hole = file.header.sparse && reader.hole(range.start).is_some_and(|end| end >= range.end);
    if hole {
        slab.space()[..length].fill(0);
    } else if reader.read_at(range.start, &mut slab.space()[..length])? < length {
        return Err(changed(&file.entry, "it became shorter while it was read"));
    }
    // Read before the flag was set, it is covered by the check that follows the flag.
    if file.vouched.load(Ordering::SeqCst) && !is_unchanged(reader.as_ref(), &file.entry)? {
        return Err(changed(&file.entry, "it changed before a part that was lost was sent again"));
    }
    slab.set_len(length);
    let zero = hole || (file.header.sparse && slab.iter().all(|byte| *byte == 0));
    let mut header = FrameHeader::empty(FrameKind::Data);
    header.file = file.header.file;
    header.offset = range.start;
    header.length = u32::try_from(length).unwrap_or(u32::MAX);
    header.crc64nvme = crc64nvme(&slab);
    if shared.blake3 {
        header.blake3 = block_blake3(&slab, range.start, file.header.size);
    }
    let payload = if zero {
        header.flags = FLAG_ZERO;
        None
    } else {
        Some(slab)
    };
    shared.read_done(length, begun.elapsed());
    Ok(Some(Frame { header, payload }))
}

/// Reads the small items of one frame; those that fail or are settled already are left out.
fn read_pack(shared: &Shared, items: Vec<PackItem>) -> Option<Tagged> {
    let mut slab = shared.slab()?;
    let begun = Instant::now();
    let mut used = 0;
    let mut sent = Vec::with_capacity(items.len());
    let mut content = Vec::new();
    for mut item in items {
        if !shared.is_pending(item.header.file) {
            continue;
        }
        content.clear();
        if item.header.kind == ItemKind::File && item.header.copy_from.is_none() {
            match read_small(shared, &mut item, &mut content) {
                Ok(Small::Read) => {}
                Ok(Small::Grown) => {
                    shared.send_alone(item);
                    continue;
                }
                Err(error) => {
                    shared.item_failed(item.header.file, &item.header.path, &error);
                    continue;
                }
            }
        }
        if pack_item(slab.space(), &mut used, &item.header, &content) {
            sent.push(item);
        } else {
            // It grew since it was listed and no longer fits beside the others: it goes alone.
            shared.send_alone(item);
        }
    }
    if sent.is_empty() {
        return None;
    }
    slab.set_len(used);
    Some((pack_frame(shared, slab, begun.elapsed()), Tag::Pack(sent)))
}

fn pack_frame(shared: &Shared, slab: Slab, took: Duration) -> Frame {
    let mut header = FrameHeader::empty(FrameKind::Pack);
    header.length = u32::try_from(slab.len()).unwrap_or(u32::MAX);
    shared.read_done(slab.len(), took);
    Frame { header, payload: Some(slab) }
}

/// What became of a small file between listing and reading.
enum Small {
    /// It was read.
    Read,
    /// It is small no longer.
    Grown,
}

/// Reads a small file whole and fills in what the receiver is told of it; the content is of one state of the file.
fn read_small(shared: &Shared, item: &mut PackItem, content: &mut Vec<u8>) -> Result<Small> {
    let mut reader = shared.store.open(&item.entry.path)?;
    let mut failure = None;
    for _ in 0..PACK_ATTEMPTS {
        if failure.take().is_some() {
            reader = shared.store.open(&item.entry.path)?;
        }
        let size = item.entry.size;
        if size > SMALL {
            return Ok(Small::Grown);
        }
        // Some files have content and say that they are empty.
        content.resize(usize::try_from(size).unwrap_or(0).max(1), 0);
        let read = match reader.read_at(0, content) {
            Err(error) if error.kind() == ErrorKind::Corrupted => {
                failure = Some(error);
                continue;
            }
            read => read?,
        };
        content.truncate(read);
        // A look after the reading shows growth too, so nothing needs to be read behind the end.
        let now = reader.stat()?;
        if read as u64 == size && same_state(&now, &item.entry) {
            describe(shared, &mut item.header, content);
            match reader.crc64nvme() {
                Ok(Some(kept)) if kept != item.header.crc64nvme => failure = Some(corrupted(&item.entry.path)),
                Err(error) if error.kind() == ErrorKind::Corrupted => failure = Some(error),
                Err(error) => return Err(error),
                Ok(_) => return Ok(Small::Read),
            }
            continue;
        }
        item.entry = Entry { path: item.entry.path.clone(), ..now };
        let destination = crate::path::RelativePath::from_bytes(&item.header.path)?;
        item.header.size = item.entry.size;
        item.header.modified_ns = item.entry.modified_ns;
        item.header.mode = item.entry.mode;
        item.header.identity = key::of_source(&destination, &item.entry);
        shared.pend(item.header.file, Pending::Item(item.header.clone()));
    }
    Err(failure.unwrap_or_else(|| changed(&item.entry, "it kept changing while it was read")))
}

fn describe(shared: &Shared, header: &mut FileHeader, content: &[u8]) {
    header.crc64nvme = crc64nvme(content);
    header.blake3 = shared.blake3.then(|| *blake3::hash(content).as_bytes());
}

/// Whether two looks at a file saw the same state of it.
pub(crate) fn same_state(now: &Entry, then: &Entry) -> bool {
    now.size == then.size && now.modified_ns == then.modified_ns && now.version == then.version
}

/// Whether an open file is still as it was listed.
pub(crate) fn is_unchanged(reader: &dyn Reader, then: &Entry) -> Result<bool> {
    Ok(same_state(&reader.stat()?, then))
}

/// The error for a source file that changed under the transfer.
pub(crate) fn changed(entry: &Entry, why: &str) -> Error {
    Error::new(ErrorKind::SourceChanged, format!("could not read one state of `{}`", entry.path))
        .with_cause(why)
        .with_hint("run the same command again when nothing writes to the file any more")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::memory;
    use crate::options::Symlinks;
    use crate::path::RelativePath;
    use crate::pipeline::sender::{Sender, SenderParts};
    use crate::protocol::message::SendOptions;
    use crate::store::Store;
    use crate::store::local::LocalStore;

    #[test]
    fn what_is_read_again_after_its_file_was_closed_is_of_the_same_state() {
        let place = tempfile::tempdir().unwrap();
        let (name, path) = (place.path().join("f"), RelativePath::from_user("f").unwrap());
        std::fs::write(&name, vec![1; 300_000]).unwrap();
        let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
        let (near, _far) = memory::pair();
        let sender = Sender::new(SenderParts {
            store: Arc::clone(&store) as Arc<dyn Store>,
            options: SendOptions::default(),
            files: None,
            mirror: false,
            copied: false,
            one_by_one: false,
            control: near.sender,
            buffer: 8 << 20,
            account: None,
        })
        .unwrap();
        let shared = &sender.shared;
        let file = shared.source_file(store.stat(&path).unwrap(), &path, 0, &[(0, 300_000)]);
        let block = || read_block(shared, &file, 0..SLAB_SIZE as u64, SLAB_SIZE as u64);
        assert!(block().unwrap().is_some());
        shared.close(&file);
        assert!(block().unwrap().is_some());
        // The name now stands for another file; the open one is still what it was.
        std::fs::write(place.path().join("g"), vec![2; 300_000]).unwrap();
        std::fs::rename(place.path().join("g"), &name).unwrap();
        assert!(block().unwrap().is_some());
        shared.close(&file);
        assert_eq!(block().err().map(|error| error.kind()), Some(ErrorKind::SourceChanged));
    }
}
