//! How large chunks are.

use std::sync::atomic::Ordering;

use crate::pipeline::sender::Shared;
use crate::pipeline::sender::queue::Cut;

/// The chunk size before anything was measured, and the bounds of the rule [EDT §IV-A]: what the path moves in 0.1 s.
const CHUNK: std::ops::RangeInclusive<u64> = 16 << 20..=64 << 20;

/// The chunk size where files are finished one by one: a part of an object, so that no file waits long for its last chunk.
const ONE_BY_ONE: u64 = 8 << 20;

impl Shared {
    /// How chunks are cut now.
    pub(super) fn cut(&self) -> Cut {
        Cut {
            chunk: self.chunk_size(),
            parallelism: self.parallelism.load(Ordering::Relaxed),
            concurrency: self.streams.target(),
            one_by_one: self.one_by_one,
        }
    }

    fn chunk_size(&self) -> u64 {
        self.options.chunk_size.unwrap_or_else(|| {
            if self.one_by_one {
                return ONE_BY_ONE;
            }
            let elapsed_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
            let tenth = self.sent.load(Ordering::Relaxed).saturating_mul(100) / elapsed_ms;
            tenth.next_power_of_two().clamp(*CHUNK.start(), *CHUNK.end())
        })
    }
}
