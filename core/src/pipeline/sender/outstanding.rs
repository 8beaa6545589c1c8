//! What was sent and not yet acknowledged, stream by stream: lost with a stream, it is sent again on another.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::pipeline::sender::queue::{PackItem, SourceFile, Unit};
use crate::sync::Mutex;

/// What a frame carried.
pub(crate) enum Tag {
    /// Bytes of a file; `last` marks the end of a chunk.
    Data {
        /// The file.
        file: Arc<SourceFile>,
        /// The bytes.
        range: Range<u64>,
        /// Whether a chunk ends here.
        last: bool,
    },
    /// Small items.
    Pack(Vec<PackItem>),
    /// Nothing that needs to be sent again.
    Other,
}

impl Tag {
    pub(crate) fn ends_chunk(&self) -> bool {
        matches!(self, Self::Data { last: true, .. } | Self::Pack(_))
    }
}

/// The unacknowledged frames of all streams.
#[derive(Default)]
pub(crate) struct Outstanding {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    streams: HashMap<u16, Line>,
    /// Streams that were lost: what their threads still want to send would never be acknowledged.
    lost: HashSet<u16>,
}

#[derive(Default)]
struct Line {
    acknowledged: u32,
    tags: VecDeque<Tag>,
    chunks: usize,
}

impl Outstanding {
    /// A frame is about to be sent; call in the order of the stream. A stream that was lost gives its work back.
    pub(crate) fn sending(&self, stream: u16, tag: Tag) -> Result<(), Vec<Unit>> {
        let mut state = self.state.lock();
        if state.lost.contains(&stream) {
            return Err(units([tag]));
        }
        let line = state.streams.entry(stream).or_default();
        line.chunks += usize::from(tag.ends_chunk());
        line.tags.push_back(tag);
        Ok(())
    }

    /// The first `count` frames of a stream are written at the receiver; returns what that settles.
    pub(crate) fn acknowledged(&self, stream: u16, count: u32) -> Vec<Tag> {
        let mut state = self.state.lock();
        let Some(line) = state.streams.get_mut(&stream) else { return Vec::new() };
        let new = (count.wrapping_sub(line.acknowledged) as usize).min(line.tags.len());
        line.acknowledged = count;
        let settled: Vec<Tag> = line.tags.drain(..new).collect();
        line.chunks -= settled.iter().filter(|tag| tag.ends_chunk()).count();
        settled
    }

    /// A stream broke; returns the work that must be done again.
    pub(crate) fn lost(&self, stream: u16) -> Vec<Unit> {
        let mut state = self.state.lock();
        state.lost.insert(stream);
        let Some(line) = state.streams.remove(&stream) else { return Vec::new() };
        drop(state);
        units(line.tags)
    }

    /// Whether anything that a stream carried is unacknowledged.
    pub(crate) fn is_waiting(&self, stream: u16) -> bool {
        self.state.lock().streams.get(&stream).is_some_and(|line| !line.tags.is_empty())
    }

    /// Chunks that a stream has unacknowledged.
    pub(crate) fn chunks(&self, stream: u16) -> usize {
        self.state.lock().streams.get(&stream).map_or(0, |line| line.chunks)
    }
}

/// The work behind frames that were not delivered, adjacent ranges joined.
pub(crate) fn units(tags: impl IntoIterator<Item = Tag>) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for tag in tags {
        match (tag, units.last_mut()) {
            (Tag::Data { file, range, .. }, Some(Unit::Chunk(before, joined)))
                if Arc::ptr_eq(before, &file) && joined.end == range.start =>
            {
                joined.end = range.end;
            }
            (Tag::Data { file, range, .. }, _) => units.push(Unit::Chunk(file, range)),
            (Tag::Pack(items), _) => units.push(Unit::Pack(items)),
            (Tag::Other, _) => {}
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_stream_takes_nothing_more() {
        let outstanding = Outstanding::default();
        assert!(outstanding.sending(7, Tag::Pack(Vec::new())).is_ok());
        assert_eq!(outstanding.lost(7).len(), 1);
        let returned = outstanding.sending(7, Tag::Pack(Vec::new())).err().unwrap();
        assert_eq!((returned.len(), outstanding.chunks(7)), (1, 0));
        assert!(!outstanding.is_waiting(7), "what was lost is not waited for");
        assert!(outstanding.acknowledged(7, 1).is_empty(), "a late acknowledgement settled what was sent again");
    }

    #[test]
    fn a_stream_is_waited_for_until_its_last_frame_is_acknowledged() {
        let outstanding = Outstanding::default();
        assert!(!outstanding.is_waiting(3));
        assert!(outstanding.sending(3, Tag::Other).is_ok() && outstanding.sending(3, Tag::Pack(Vec::new())).is_ok());
        outstanding.acknowledged(3, 1);
        assert!(outstanding.is_waiting(3));
        outstanding.acknowledged(3, 2);
        assert!(!outstanding.is_waiting(3));
    }
}
