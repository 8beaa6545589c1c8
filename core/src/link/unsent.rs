//! How many bytes the system may hold for a stream before it sends them: on a fast one enough that it never waits for more, on a slow one few,
//! for it ends, and begins to send other work, only when all of them are sent.

use std::time::Duration;

/// Bytes at first, at least and at most.
pub(super) const FIRST: u32 = 64 << 10;
const LEAST: u32 = 32 << 10;
const MOST: u32 = 512 << 10;

/// For how long the stream sends them: where it is longer half as many are held, and where it is shorter twice as many.
const LONG: Duration = Duration::from_millis(100);
const SHORT: Duration = Duration::from_millis(25);

/// What is held for a stream.
pub(super) struct Unsent {
    bytes: u32,
    /// What was written since that was judged last, and how long it took: less than fits into the room that there was says little.
    written: usize,
    took: Duration,
}

impl Default for Unsent {
    fn default() -> Self {
        Self { bytes: FIRST, written: 0, took: Duration::ZERO }
    }
}

impl Unsent {
    /// Bytes that may be held.
    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Takes how long it took to write so many; answers whether more or fewer may be held now.
    pub(super) fn learn(&mut self, written: usize, took: Duration) -> bool {
        (self.written, self.took) = (self.written.saturating_add(written), self.took.saturating_add(took));
        if self.written < self.bytes as usize {
            return false;
        }
        let lasts = self.took.mul_f64(f64::from(self.bytes) / self.written as f64);
        let bytes = if lasts > LONG {
            self.bytes / 2
        } else if lasts < SHORT {
            self.bytes * 2
        } else {
            self.bytes
        };
        (self.written, self.took) = (0, Duration::ZERO);
        let bytes = bytes.clamp(LEAST, MOST);
        std::mem::replace(&mut self.bytes, bytes) != bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_held_for_a_slow_stream_and_much_for_a_fast_one() {
        let mut unsent = Unsent::default();
        let mut after = |took_ms: u64| {
            let told = unsent.learn(256 << 10, Duration::from_millis(took_ms));
            (told, unsent.bytes() >> 10)
        };
        // 512 KiB are judged by two frames.
        assert_eq!([0, 0, 0, 0].map(&mut after), [(true, 128), (true, 256), (true, 512), (false, 512)]);
        let slow = [(true, 256), (true, 128), (true, 64), (true, 32), (false, 32)];
        assert_eq!([800; 5].map(&mut after), slow);
        assert_eq!([300, 100, 100, 30, 20].map(&mut after), [(false, 32), (true, 64), (false, 64), (true, 128), (true, 256)]);
    }

    #[test]
    fn many_small_frames_tell_as_much_as_a_large_one() {
        let mut unsent = Unsent::default();
        let mut after = |took_us| {
            for _ in 0..100 {
                unsent.learn(20 << 10, Duration::from_micros(took_us));
            }
            unsent.bytes() >> 10
        };
        assert_eq!([10, 100_000, 1000].map(&mut after), [512, 32, 512]);
    }
}
