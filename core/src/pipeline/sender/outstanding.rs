//! What was sent and not yet acknowledged, stream by stream: lost with a stream, it is sent again on another.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::pipeline::sender::queue::{PackItem, SourceFile, Unit};

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
    fn ends_chunk(&self) -> bool {
        matches!(self, Self::Data { last: true, .. } | Self::Pack(_))
    }
}

/// The unacknowledged frames of all streams.
#[derive(Default)]
pub(crate) struct Outstanding {
    streams: Mutex<HashMap<u16, Line>>,
}

#[derive(Default)]
struct Line {
    acknowledged: u32,
    tags: VecDeque<Tag>,
    chunks: usize,
}

impl Outstanding {
    /// A frame is about to be sent; call in the order of the stream.
    pub(crate) fn sending(&self, stream: u16, tag: Tag) {
        let mut streams = self.streams.lock();
        let line = streams.entry(stream).or_default();
        line.chunks += usize::from(tag.ends_chunk());
        line.tags.push_back(tag);
    }

    /// The first `count` frames of a stream are written at the receiver; returns what that settles.
    pub(crate) fn acknowledged(&self, stream: u16, count: u32) -> Vec<Tag> {
        let mut streams = self.streams.lock();
        let Some(line) = streams.get_mut(&stream) else { return Vec::new() };
        let new = (count.wrapping_sub(line.acknowledged) as usize).min(line.tags.len());
        line.acknowledged = count;
        let settled: Vec<Tag> = line.tags.drain(..new).collect();
        line.chunks -= settled.iter().filter(|tag| tag.ends_chunk()).count();
        settled
    }

    /// A stream broke; returns the work that must be done again, adjacent ranges joined.
    pub(crate) fn lost(&self, stream: u16) -> Vec<Unit> {
        let Some(line) = self.streams.lock().remove(&stream) else { return Vec::new() };
        let mut units: Vec<Unit> = Vec::new();
        for tag in line.tags {
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

    /// Chunks that a stream has unacknowledged.
    pub(crate) fn chunks(&self, stream: u16) -> usize {
        self.streams.lock().get(&stream).map_or(0, |line| line.chunks)
    }
}
