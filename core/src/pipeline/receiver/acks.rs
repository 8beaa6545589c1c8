//! Acknowledgements: cumulative for each stream, sent only after what they promise is in the journal.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::pipeline::receiver::{ACK_EVERY, Shared};
use crate::protocol::message::{Ack, DoneItem, ItemFailed, Message, parts};
use crate::sync::Mutex;

/// Settled items that one message carries at most.
const ITEMS_PER_MESSAGE: usize = 2048;

/// What is to be acknowledged.
#[derive(Default)]
pub(crate) struct Acks {
    state: Mutex<State>,
    /// Held from taking to sending, so that whoever then sends `Complete` sends it last.
    sending: Mutex<()>,
}

#[derive(Default)]
struct State {
    streams: HashMap<u16, Line>,
    done: Vec<DoneItem>,
    failed: Vec<ItemFailed>,
    lost: Vec<u16>,
    bytes: u64,
}

#[derive(Default)]
struct Line {
    /// Frames from the first on that are settled without a gap.
    count: u32,
    told: u32,
    beyond: BTreeSet<u32>,
}

/// A pack's frame is acknowledged when the last of its parts is settled: its items, and the taking of it.
pub(crate) struct PackFrame {
    stream: u16,
    sequence: u32,
    bytes: AtomicU64,
    left: AtomicUsize,
}

impl PackFrame {
    /// A frame that is being taken.
    pub(crate) fn new(stream: u16, sequence: u32) -> Self {
        Self { stream, sequence, bytes: AtomicU64::new(0), left: AtomicUsize::new(1) }
    }

    /// One more item is to be settled.
    pub(crate) fn add_part(&self) {
        self.left.fetch_add(1, Ordering::SeqCst);
    }
}

impl Acks {
    /// A part of a pack is settled, and so many bytes of file content are there that were not before.
    pub(crate) fn part(&self, frame: &PackFrame, bytes: u64) {
        frame.bytes.fetch_add(bytes, Ordering::Relaxed);
        if frame.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.frame(frame.stream, frame.sequence, frame.bytes.load(Ordering::Relaxed));
        }
    }

    /// A frame is settled; `bytes` of file content were written for it.
    pub(crate) fn frame(&self, stream: u16, sequence: u32, bytes: u64) {
        let mut state = self.state.lock();
        state.bytes += bytes;
        let line = state.streams.entry(stream).or_default();
        if sequence != line.count {
            line.beyond.insert(sequence);
            return;
        }
        line.count += 1;
        while line.beyond.remove(&line.count) {
            line.count += 1;
        }
    }

    pub(crate) fn done(&self, item: DoneItem) {
        self.state.lock().done.push(item);
    }

    pub(crate) fn failed(&self, item: ItemFailed) {
        self.state.lock().failed.push(item);
    }

    /// A stream broke: the sender must send again what it has not heard of.
    pub(crate) fn lost(&self, stream: u16) {
        self.state.lock().lost.push(stream);
    }

    /// What is new since the last call, and how many bytes it covers.
    fn take(&self) -> Option<(Ack, u64)> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut ack = Ack::default();
        for (stream, line) in &mut state.streams {
            if line.count != line.told {
                line.told = line.count;
                ack.streams.push((*stream, line.count));
            }
        }
        ack.done = state.done.drain(..state.done.len().min(ITEMS_PER_MESSAGE)).collect();
        let failed = parts(&state.failed, ITEMS_PER_MESSAGE).next().map_or(0, <[_]>::len);
        ack.failed = state.failed.drain(..failed).collect();
        for stream in std::mem::take(&mut state.lost) {
            state.streams.remove(&stream);
            ack.lost.push(stream);
        }
        // Bytes behind a gap are counted with the acknowledgement that comes after it.
        (ack != Ack::default()).then(|| (ack, std::mem::take(&mut state.bytes)))
    }
}

impl Shared {
    /// Journals and acknowledges at a steady pace until the half ends.
    pub(crate) fn acknowledge_all(&self) {
        while !self.stop.wait(ACK_EVERY) {
            self.acknowledge();
        }
    }

    /// Sends all that can be acknowledged; what a message promises is journaled before it goes.
    pub(crate) fn acknowledge(&self) {
        let _sending = self.acks.sending.lock();
        while let Some((ack, bytes)) = self.acks.take() {
            if let Err(error) = self.flush_journal() {
                return self.fatal(error);
            }
            self.written.fetch_add(bytes, Ordering::Relaxed);
            if let Some(account) = &self.account {
                account.verified(bytes);
            }
            if let Err(error) = self.control.send(&Message::Ack(ack)) {
                return self.stop.set(Some(self.control.failure().unwrap_or(error)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::{Failed, MAX_MESSAGE};

    #[test]
    fn only_what_has_no_gap_before_it_is_acknowledged() {
        let acks = Acks::default();
        acks.frame(3, 1, 10);
        assert_eq!(acks.take(), None);
        acks.frame(3, 0, 10);
        let (ack, bytes) = acks.take().unwrap();
        assert_eq!((ack.streams, bytes), (vec![(3, 2)], 20));
        assert_eq!(acks.take(), None);
    }

    #[test]
    fn failures_with_long_names_go_in_as_many_messages_as_they_take() {
        let acks = Acks::default();
        let failed = Failed { kind: 17, what: "y".repeat(500), cause: None, hint: None };
        for file in 0..1000 {
            acks.failed(ItemFailed { file, path: vec![b'x'; 4096], failed: failed.clone() });
            acks.done(DoneItem { file: u32::MAX - file, crc64nvme: u64::MAX, blake3: Some([1; 32]) });
        }
        let mut told = Vec::new();
        while let Some((ack, _)) = acks.take() {
            told.extend(ack.failed.iter().map(|item| item.file));
            assert!(Message::Ack(ack).encode().len() < MAX_MESSAGE);
        }
        assert_eq!(told, (0..1000).collect::<Vec<_>>());
    }
}
