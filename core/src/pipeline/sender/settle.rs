//! How items are settled: acknowledged, closed and published, failed, or begun again because their source changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::path::RelativePath;
use crate::pipeline::sender::Shared;
use crate::pipeline::sender::feed::SMALL;
use crate::pipeline::sender::outstanding::Tag;
use crate::pipeline::sender::pending::Pending;
use crate::pipeline::sender::queue::{PackItem, SourceFile, Unit};
use crate::pipeline::sender::read::{changed, is_unchanged};
use crate::protocol::message::{Ack, Complete, DoneItem, ItemFailed, Listed, Message, Skipped};
use crate::store::{Entry, Reader};

/// How often a file that changes under the transfer is begun again.
const ATTEMPTS: u32 = 3;

/// An item that is neither pending nor settled; handed back by whoever settles it.
struct Settling;

impl Shared {
    /// Sends a message; a broken control channel ends the half.
    pub(crate) fn send(&self, message: &Message) {
        if let Err(error) = self.control.send(message) {
            self.stop.set(Some(self.control.failure().unwrap_or(error)));
        }
    }

    pub(crate) fn pend(&self, number: u32, item: Pending) {
        self.pending.lock().items.insert(number, item);
    }

    pub(crate) fn is_pending(&self, number: u32) -> bool {
        self.pending.lock().items.contains_key(&number)
    }

    pub(crate) fn acknowledged(&self, ack: Ack) {
        for done in ack.done {
            self.done(&done);
        }
        for failed in ack.failed {
            self.failed_at_receiver(failed);
        }
        for (stream, count) in ack.streams {
            for tag in self.outstanding.acknowledged(stream, count) {
                self.settle(tag);
            }
        }
        for stream in ack.lost {
            self.requeue(stream);
        }
        self.finish_if_settled();
    }

    fn settle(&self, tag: Tag) {
        let Tag::Data { range, .. } = tag else { return };
        if let Some(account) = &self.account {
            account.verified(range.end - range.start);
        }
    }

    /// Everything of a file is on its way: once it is at the receiver it may be published, if the source is still what was read.
    pub(crate) fn close(&self, file: &Arc<SourceFile>) {
        file.vouched.store(true, Ordering::SeqCst);
        let Some(reader) = file.reader.write().take() else { return };
        match vouch(reader.as_ref(), &file.entry) {
            Ok(kept) => {
                self.send(&Message::Close(vec![file.header.file], kept));
                // One that the receiver may still hand back is waited for.
                if kept.is_none() && !self.hands_back.load(Ordering::Relaxed) {
                    self.pending.lock().close(file);
                }
                self.finish_if_settled();
            }
            Err(error) => self.source_failed(file, &error),
        }
    }

    fn done(&self, done: &DoneItem) {
        let Some(item) = self.pending.lock().remove(done.file) else { return };
        let Some(account) = &self.account else { return };
        match item {
            Pending::File(file) => account.done(&file.header, done),
            Pending::Item(header) => {
                account.verified(header.size);
                account.done(&header, done);
            }
        }
    }

    fn failed_at_receiver(&self, failed: ItemFailed) {
        let Some(item) = self.pending.lock().remove(failed.file) else { return };
        if let Pending::File(file) = &item {
            self.give_up(file);
        }
        if let Some(account) = &self.account {
            let path = match &item {
                Pending::File(file) => &file.header.path,
                Pending::Item(header) => &header.path,
            };
            account.failed(path, &failed.failed.into());
        }
    }

    fn give_up(&self, file: &SourceFile) {
        file.abandoned.store(true, Ordering::Relaxed);
        self.queue.drop_file(file.header.file);
        *file.reader.write() = None;
    }

    /// A file of chunks cannot be read, or is not what it was: it is begun again if it changed, or came with other bytes than its store
    /// keeps, else it failed.
    pub(crate) fn source_failed(&self, file: &Arc<SourceFile>, error: &Error) {
        self.drop_file(file, error, matches!(error.kind(), ErrorKind::SourceChanged | ErrorKind::Corrupted));
    }

    /// The receiver could not write a file to the end, or got other bytes than it was told of, and has dropped it.
    pub(crate) fn handed_back(&self, item: ItemFailed) {
        let file = match self.pending.lock().items.get(&item.file) {
            Some(Pending::File(file)) => Arc::clone(file),
            _ => return,
        };
        self.drop_file(&file, &item.failed.into(), true);
    }

    fn drop_file(&self, file: &Arc<SourceFile>, error: &Error, may_help: bool) {
        let Some(settling) = self.begin_settling(file.header.file) else { return };
        self.give_up(file);
        // After `Finish` nothing can begin: a file of which a stream had lost a part then fails.
        let again = may_help && file.attempt + 1 < ATTEMPTS && !self.finishing.load(Ordering::SeqCst) && self.begin_again(file);
        if again {
            self.retried(&file.header.path, error);
        } else {
            self.report(file.header.file, &file.header.path, error);
        }
        // Said last, because the receiver may wait for this file alone.
        self.send(&Message::Abandon(file.header.file));
        self.end_settling(settling);
    }

    /// Takes an item out of the pending ones, while what becomes of it is still open: until the end of that the session cannot finish.
    fn begin_settling(&self, number: u32) -> Option<Settling> {
        let mut pending = self.pending.lock();
        pending.remove(number)?;
        pending.settling += 1;
        Some(Settling)
    }

    fn end_settling(&self, _: Settling) {
        self.pending.lock().settling -= 1;
        self.finish_if_settled();
    }

    fn begin_again(&self, file: &SourceFile) -> bool {
        let (Ok(entry), Ok(path)) = (self.store.stat(&file.entry.path), RelativePath::from_bytes(&file.header.path)) else {
            return false;
        };
        let size = entry.size;
        let again = self.source_file(entry, &path, file.attempt + 1, &[(0, size)]);
        if size == 0 {
            self.pend(again.header.file, Pending::Item(again.header.clone()));
            let item = PackItem { header: again.header.clone(), entry: again.entry.clone() };
            self.queue.put_back(Unit::Pack(vec![item]));
        } else {
            self.queue.put_back(Unit::Chunk(again, 0..size));
        }
        true
    }

    /// A small item that no longer fits beside the others of its pack.
    pub(crate) fn send_alone(&self, item: PackItem) {
        if item.entry.size <= SMALL {
            self.queue.put_back(Unit::Pack(vec![item]));
            return;
        }
        let Some(settling) = self.begin_settling(item.header.file) else { return };
        if let Ok(path) = RelativePath::from_bytes(&item.header.path) {
            let size = item.entry.size;
            let file = self.source_file(item.entry, &path, 0, &[(0, size)]);
            self.queue.put_back(Unit::Chunk(file, 0..size));
        }
        self.end_settling(settling);
    }

    /// An item failed at the source; `number` is 0 if it never got one.
    pub(crate) fn item_failed(&self, number: u32, path: &[u8], error: &Error) {
        let settling = self.begin_settling(number);
        self.report(number, path, error);
        if let Some(settling) = settling {
            self.end_settling(settling);
        }
    }

    fn report(&self, number: u32, path: &[u8], error: &Error) {
        self.intact.store(false, Ordering::SeqCst);
        match &self.account {
            Some(account) => account.failed(path, error),
            None => self.send(&Message::ItemFailed(ItemFailed { file: number, path: path.to_vec(), failed: error.into() })),
        }
    }

    pub(crate) fn retried(&self, path: &[u8], error: &Error) {
        match &self.account {
            Some(account) => account.retried(String::from_utf8_lossy(path), error, 0),
            None => self.send(&Message::Retried(ItemFailed { file: 0, path: path.to_vec(), failed: error.into() })),
        }
    }

    pub(crate) fn resumed(&self, bytes: u64) {
        if let Some(account) = &self.account {
            account.resumed(bytes);
        }
    }

    pub(crate) fn skipped(&self, skipped: &[Skipped]) {
        match &self.account {
            Some(account) => skipped.iter().for_each(|skipped| account.left_out(skipped)),
            None => self.send(&Message::Skipped(skipped.to_vec())),
        }
    }

    pub(crate) fn listed(&self, listed: Listed) {
        match &self.account {
            Some(account) => account.listed(listed),
            None => self.send(&Message::Listed(listed)),
        }
    }

    /// A stream broke: what it had not delivered is sent on the others.
    pub(crate) fn requeue(&self, stream: u16) {
        for unit in self.outstanding.lost(stream) {
            if let Unit::Chunk(file, range) = &unit {
                file.unsent.fetch_add(range.end - range.start, Ordering::SeqCst);
            }
            self.queue.put_back(unit);
        }
    }

    /// Tells the receiver when every planned item is settled or closed; once.
    pub(crate) fn finish_if_settled(&self) {
        let finish = {
            // Under the lock, so that no item begins again between the look and the mark.
            let pending = self.pending.lock();
            let settled = self.planned.load(Ordering::SeqCst) && pending.is_settled();
            settled && !self.finishing.swap(true, Ordering::SeqCst)
        };
        if finish {
            // The caller's account, where it is elsewhere, ends with all bytes that were sent; what is sent again after this may be missing.
            if self.account.is_none() {
                self.send(&Message::Meters(self.meters()));
            }
            self.send(&Message::Finish(self.intact.load(Ordering::SeqCst)));
        }
    }

    pub(crate) fn completed(&self, complete: &Complete) {
        if let Some(account) = &self.account {
            account.removed(complete.removed);
            for failed in &complete.failed {
                account.failed(&failed.path, &failed.failed.clone().into());
            }
        }
        self.complete.store(true, Ordering::SeqCst);
    }
}

/// Checks that an open file is still what was read of it; answers with the crc64nvme that its store keeps, if it does.
fn vouch(reader: &dyn Reader, entry: &Entry) -> Result<Option<u64>> {
    if is_unchanged(reader, entry)? { reader.crc64nvme() } else { Err(changed(entry, "it changed while it was sent")) }
}
