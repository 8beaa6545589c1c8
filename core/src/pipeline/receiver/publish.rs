//! Publishing: whole files go to their final names in groups that share their flushes, and only then are they done.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::options::Fsync;
use crate::path::RelativePath;
use crate::pipeline::digest::{corrupted, crc64nvme};
use crate::pipeline::journal::{DoneRecord, Record};
use crate::pipeline::pool::{Turn, WorkerPool};
use crate::pipeline::receiver::acks::PackFrame;
use crate::pipeline::receiver::file::{MOST_ITEMS, TargetDirectory, TargetFile, metadata};
use crate::pipeline::receiver::{Arrived, Shared};
use crate::pipeline::stop::guarded;
use crate::protocol::frame::pack_items;
use crate::protocol::message::{DoneItem, FileHeader, ItemKind};
use crate::store::{NewFile, Partial, Publication, Writer};
use crate::sync::{Condvar, Mutex};

/// Publishers of one session: while one waits for a flush, another gathers the next group.
const PUBLISHERS: u16 = 4;

/// Files of a pack that are written before they are handed to a publisher: bounds open files.
const GROUP: usize = 32;

/// Files that may be closed while bytes of them are on their way: a sender cannot have more of them in its system's buffers.
const MOST_VOUCHED: usize = 1 << 20;

/// Files that wait for a publisher, and that one flush serves.
const WAITING: usize = 256;

/// A file on its way to its final name.
pub(crate) struct Ready {
    publication: Publication,
    header: FileHeader,
    path: RelativePath,
    done: DoneItem,
    /// The frame of a packed item; `None` for a file that was closed.
    frame: Option<Arc<PackFrame>>,
}

/// Files that wait for a publisher.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<VecDeque<Ready>>,
    changed: Condvar,
}

/// The publishing threads of one receiver.
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    pool: WorkerPool,
}

impl Publisher {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let body = Arc::clone(shared);
        let publish = move |turn: &Turn| guarded(&body.stop, || body.publish_waiting(turn));
        let pool = WorkerPool::new("publish", Arc::new(publish));
        Self { shared: Arc::clone(shared), pool }
    }

    /// Starts the threads, if there are flushes to wait for.
    pub(crate) fn start(&self) {
        if self.shared.capabilities.flushes && self.shared.publishes_beside() {
            self.pool.resize(PUBLISHERS);
        }
    }

    /// Follows the size of the write stage where publishing a file is a request of its own; the first decision starts the threads.
    pub(crate) fn tune(&self, write: u16) {
        if !self.shared.capabilities.flushes {
            self.pool.resize(write.max(1));
        }
    }

    /// Publishes what waits and ends the threads.
    pub(crate) fn join(&self) {
        self.pool.close();
        self.shared.publishing.changed.notify_all();
        self.pool.join();
    }
}

impl Shared {
    fn publish_waiting(&self, turn: &Turn) {
        while !turn.is_surplus() {
            let mut waiting = self.publishing.waiting.lock();
            while waiting.is_empty() {
                if turn.over() {
                    return;
                }
                self.publishing.changed.wait_for(&mut waiting, std::time::Duration::from_millis(100));
            }
            let group: Vec<Ready> = {
                let count = waiting.len().min(if self.capabilities.flushes { WAITING } else { 1 });
                waiting.drain(..count).collect()
            };
            drop(waiting);
            self.publishing.changed.notify_all();
            if self.publishes() {
                self.publish(group);
            }
        }
    }

    /// Whether files are still published: where that is a request each, no more are once the session has failed or was ended.
    fn publishes(&self) -> bool {
        self.capabilities.flushes || self.stop.error().is_none()
    }

    fn publishes_beside(&self) -> bool {
        self.fsync != Fsync::None || !self.capabilities.flushes
    }

    /// Hands whole files to the publishers, or publishes them at once where nothing is waited for.
    fn submit(&self, group: Vec<Ready>) {
        if !self.publishes_beside() {
            return self.publish(group);
        }
        // What waits for a service waits in memory.
        let most = if self.capabilities.flushes { WAITING } else { GROUP };
        let mut waiting = self.publishing.waiting.lock();
        while waiting.len() >= most && !self.stop.is_set() {
            self.publishing.changed.wait_for(&mut waiting, std::time::Duration::from_millis(100));
        }
        waiting.extend(group);
        drop(waiting);
        self.publishing.changed.notify_all();
    }

    fn publish(&self, group: Vec<Ready>) {
        // Of a file in chunks bytes count already: if this process ends between its name and `Record::Done`, they must be found under it.
        if group.iter().any(|ready| ready.frame.is_none())
            && let Err(error) = self.flush_journal()
        {
            tracing::info!(%error, "files are published of which the journal does not know");
        }
        let (mut batch, mut items) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
        for ready in group {
            batch.push(ready.publication);
            items.push((ready.header, ready.path, ready.done, ready.frame));
        }
        let outcomes = self.store.publish(batch, self.fsync);
        for ((header, path, done, frame), outcome) in items.into_iter().zip(outcomes) {
            let bytes = match outcome {
                Ok(()) => self.published(&header, &path, done),
                Err(error) if frame.is_none() && error.kind() == ErrorKind::ConnectionLost && self.hands_back() => {
                    self.hand_back(&header, &error);
                    0
                }
                Err(error) if frame.is_some() => self.small_failed(&header, &path, &error),
                Err(error) => {
                    self.item_failed(header.file, &header.path, &error);
                    0
                }
            };
            match frame {
                Some(frame) => self.acks.part(&frame, bytes),
                None => {
                    self.closing.fetch_sub(1, Ordering::SeqCst);
                }
            }
        }
    }

    /// An item is under its final name; returns how many bytes that adds, none if it was settled before.
    fn published(&self, header: &FileHeader, path: &RelativePath, done: DoneItem) -> u64 {
        self.journal(&Record::Done(done_record(header, &done)));
        if self.fsync != Fsync::None {
            self.touched.lock().extend(path.parent());
        }
        self.settled(header, done)
    }

    fn settled(&self, header: &FileHeader, done: DoneItem) -> u64 {
        if !self.files.settle(header.file) {
            return 0;
        }
        if let Some(account) = &self.account {
            account.done(header, &done);
        }
        self.acks.done(done);
        self.give_up_closing(header.file);
        header.size
    }

    /// The sender vouches for a file: its source did not change while it was read, and its store keeps that crc64nvme of it, if any. It is
    /// published when all its bytes are here.
    pub(crate) fn close(&self, number: u32, kept: Option<u64>) {
        let mut vouched = self.vouched.lock();
        if number > MOST_ITEMS || vouched.contains_key(&number) || self.files.is_settled(number) {
            return;
        }
        if vouched.len() >= MOST_VOUCHED {
            return self.fatal(Error::new(ErrorKind::Protocol, "far more files are closed than are on their way"));
        }
        self.closing.fetch_add(1, Ordering::SeqCst);
        if self.files.get(number).is_some_and(|file| file.is_whole()) {
            drop(vouched);
            self.publish_file(number, kept);
        } else {
            vouched.insert(number, kept);
        }
    }

    /// Publishes a closed file if the last of its bytes has come.
    pub(crate) fn close_if_whole(&self, number: u32) {
        let whole = self.files.get(number).is_some_and(|file| file.is_whole());
        if !whole {
            return;
        }
        let vouched = self.vouched.lock().remove(&number);
        if let Some(kept) = vouched {
            self.publish_file(number, kept);
        }
    }

    /// Waits no longer for the rest of a closed file, after it is settled without it.
    pub(crate) fn give_up_closing(&self, number: u32) {
        if self.vouched.lock().remove(&number).is_some() {
            self.closing.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn publish_file(&self, number: u32, kept: Option<u64>) {
        let taken = self.files.take(number).and_then(|file| file.writer.write().take().map(|writer| (Arc::clone(&file), writer)));
        let Some((file, writer)) = taken else {
            self.closing.fetch_sub(1, Ordering::SeqCst);
            return;
        };
        let Some((crc64nvme, blake3)) = file.state.lock().digest.finish() else {
            let error = Error::new(ErrorKind::Corrupted, format!("could not publish `{}`", file.path))
                .with_cause("not all of its digests are known");
            self.item_failed(number, &file.header.path, &error);
            self.closing.fetch_sub(1, Ordering::SeqCst);
            return;
        };
        if kept.is_some_and(|kept| kept != crc64nvme) {
            return self.refuse(&file, writer);
        }
        let publication =
            Publication { writer, metadata: metadata(&file.header), overwrite: self.overwrite, crc64nvme: Some(crc64nvme) };
        let done = DoneItem { file: number, crc64nvme, blake3 };
        let (header, path) = (file.header.clone(), file.path.clone());
        self.journal(&Record::Publish { number: file.number, file: done_record(&header, &done) });
        self.submit(vec![Ready { publication, header, path, done, frame: None }]);
    }

    /// Drops a closed file that has other bytes than the store of its source keeps, and hands it back.
    fn refuse(&self, file: &TargetFile, writer: Box<dyn Writer>) {
        writer.abort();
        self.journal(&Record::Forget { number: file.number });
        self.hand_back(&file.header, &corrupted(&file.path));
        self.closing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Writes the items of a pack; they and the frame are acknowledged when they are under their final names.
    pub(crate) fn take_pack(&self, arrived: &Arrived) -> Option<u64> {
        let payload = arrived.frame.payload.as_deref().unwrap_or_default();
        let frame = Arc::new(PackFrame::new(arrived.stream, arrived.sequence));
        let mut group = Vec::new();
        for item in pack_items(payload) {
            let taken = item.and_then(|(header, content)| self.take_item(&header, content));
            match taken {
                Ok(Some(mut ready)) => {
                    frame.add_part();
                    ready.frame = Some(Arc::clone(&frame));
                    group.push(ready);
                }
                Ok(None) => {}
                Err(error) => {
                    self.fatal(error);
                    return None;
                }
            }
            if group.len() >= GROUP {
                self.submit(std::mem::take(&mut group));
            }
        }
        if !group.is_empty() {
            self.submit(group);
        }
        self.acks.part(&frame, 0);
        None
    }

    /// Takes one small item; an error means that the sender broke the protocol, while an item that fails is told as such.
    fn take_item(&self, header: &FileHeader, content: &[u8]) -> Result<Option<Ready>> {
        if header.file == 0 || header.file > MOST_ITEMS {
            return Err(Error::new(ErrorKind::Protocol, "an item has an impossible number"));
        }
        if self.files.is_settled(header.file) {
            return Ok(None);
        }
        let path = self.target(&header.path)?;
        match self.make_way(&path, header.kind).and_then(|()| self.bring(header, &path, content)) {
            Ok(Some(ready)) => return Ok(Some(ready)),
            Ok(None) if header.kind == ItemKind::File => {}
            Ok(None) => {
                self.settled(header, DoneItem { file: header.file, crc64nvme: 0, blake3: None });
                if header.kind == ItemKind::Directory {
                    let metadata = metadata(header);
                    self.directories.lock().push(TargetDirectory { path, metadata });
                }
            }
            Err(error) => _ = self.small_failed(header, &path, &error),
        }
        Ok(None)
    }

    /// A packed item failed; but a file that may not be replaced is done if it stands there as it came: an attempt may have ended before
    /// its journal knew of it, or the pack has come twice.
    fn small_failed(&self, header: &FileHeader, path: &RelativePath, error: &Error) -> u64 {
        let done = DoneItem { file: header.file, crc64nvme: header.crc64nvme, blake3: header.blake3 };
        let is_taken = error.kind() == ErrorKind::AlreadyExists && header.kind == ItemKind::File && header.copy_from.is_none();
        if is_taken && self.was_published(&done_record(header, &done)).unwrap_or(false) {
            return self.published(header, path, done);
        }
        self.item_failed(header.file, &header.path, error);
        0
    }

    /// Makes an item; a file that is written here only lacks its name then.
    fn bring(&self, header: &FileHeader, path: &RelativePath, content: &[u8]) -> Result<Option<Ready>> {
        match header.kind {
            ItemKind::File if header.copy_from.is_some() => self.copy(header, path).map(|()| None),
            ItemKind::File => self.write_small(header, path, content).map(Some),
            ItemKind::Directory => self.store.create_directory(path).map(|()| None),
            ItemKind::Symlink => {
                let target = header.target.as_deref().unwrap_or_default();
                self.store.create_symlink(path, target, self.overwrite).map(|()| None)
            }
        }
    }

    /// Has a file copied by the services that hold it.
    fn copy(&self, header: &FileHeader, path: &RelativePath) -> Result<()> {
        let from = RelativePath::from_bytes(header.copy_from.as_deref().unwrap_or_default())?;
        let Some(copier) = &self.copier else {
            return Err(Error::new(ErrorKind::Protocol, format!("could not copy `{path}`"))
                .with_cause("the sender names a file that only it can reach"));
        };
        let file = NewFile { size: header.size, metadata: metadata(header), ..NewFile::of(path.clone()) };
        let crc64nvme = copier.copy(&from, &file, self.overwrite)?;
        self.written.fetch_add(header.size, Ordering::Relaxed);
        if let Some(account) = &self.account {
            account.verified(header.size);
        }
        // The optimizer sees the bytes where it looks for them, though none of them came by.
        self.network.add_bytes(header.size);
        self.write.add_bytes(header.size);
        self.published(header, path, DoneItem { file: header.file, crc64nvme: crc64nvme.unwrap_or(0), blake3: None });
        Ok(())
    }

    fn write_small(&self, header: &FileHeader, path: &RelativePath, content: &[u8]) -> Result<Ready> {
        if crc64nvme(content) != header.crc64nvme {
            return Err(Error::new(ErrorKind::Corrupted, format!("could not write `{path}`"))
                .with_cause("its bytes are not what their crc64nvme says"));
        }
        let resume = Some(Partial { key: self.key.clone(), number: self.partials.small_number() });
        let (size, overwrite) = (content.len() as u64, self.overwrite);
        let new = NewFile { size, metadata: metadata(header), resume, fresh: true, overwrite, ..NewFile::of(path.clone()) };
        let writer = self.store.create(&new)?;
        if let Err(error) = writer.write_at(0, content) {
            writer.abort();
            return Err(error);
        }
        let done = DoneItem { file: header.file, crc64nvme: header.crc64nvme, blake3: header.blake3 };
        let publication =
            Publication { writer, metadata: metadata(header), overwrite: self.overwrite, crc64nvme: Some(header.crc64nvme) };
        let header = FileHeader { size: content.len() as u64, ..header.clone() };
        Ok(Ready { publication, header, path: path.clone(), done, frame: None })
    }
}

fn done_record(header: &FileHeader, done: &DoneItem) -> DoneRecord {
    DoneRecord {
        path: RelativePath::from_bytes(&header.path).unwrap_or_default(),
        identity: header.identity,
        size: header.size,
        modified_ns: header.modified_ns,
        crc64nvme: done.crc64nvme,
        blake3: done.blake3,
    }
}

#[cfg(test)]
mod tests;
