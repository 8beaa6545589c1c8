//! The items of a sender that are planned and not yet settled.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::pipeline::sender::queue::SourceFile;
use crate::protocol::message::FileHeader;

/// An item that is planned and not yet settled.
pub(crate) enum Pending {
    File(Arc<SourceFile>),
    Item(FileHeader),
}

/// The items that are planned and not settled.
#[derive(Default)]
pub(super) struct PendingItems {
    pub(super) items: HashMap<u32, Pending>,
    /// How many of them are closed: the receiver publishes them, and the sender has nothing more to do for them.
    pub(super) closed: usize,
    /// Items that were taken out and whose fate is being decided.
    pub(super) settling: usize,
}

impl PendingItems {
    pub(super) fn remove(&mut self, number: u32) -> Option<Pending> {
        let item = self.items.remove(&number)?;
        if matches!(&item, Pending::File(file) if file.closed.load(Ordering::Relaxed)) {
            self.closed -= 1;
        }
        Some(item)
    }

    /// Marks a file closed, if it is still pending.
    pub(super) fn close(&mut self, file: &SourceFile) {
        if self.items.contains_key(&file.header.file) && !file.closed.swap(true, Ordering::Relaxed) {
            self.closed += 1;
        }
    }

    /// Whether every item is settled, or will be by the receiver alone.
    pub(super) fn is_settled(&self) -> bool {
        self.items.len() == self.closed && self.settling == 0
    }
}
