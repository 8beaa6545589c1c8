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

/// Shorter writes say little of how fast a stream is.
const TELLING: usize = 64 << 10;

/// What is held for a stream.
pub(super) struct Unsent(u32);

impl Default for Unsent {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Unsent {
    /// Bytes that may be held.
    pub(super) fn bytes(&self) -> u32 {
        self.0
    }

    /// Takes how long it took to write so many; answers whether more or fewer may be held now.
    pub(super) fn learn(&mut self, written: usize, took: Duration) -> bool {
        if written < TELLING {
            return false;
        }
        let lasts = took.mul_f64(f64::from(self.0) / written as f64);
        let bytes = if lasts > LONG {
            self.0 / 2
        } else if lasts < SHORT {
            self.0 * 2
        } else {
            self.0
        };
        let bytes = bytes.clamp(LEAST, MOST);
        std::mem::replace(&mut self.0, bytes) != bytes
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
        assert_eq!([0, 0, 0, 0].map(&mut after), [(true, 128), (true, 256), (true, 512), (false, 512)]);
        assert_eq!([800, 800, 800, 800, 800].map(&mut after), [(true, 256), (true, 128), (true, 64), (true, 32), (false, 32)]);
        assert_eq!([300, 100, 100, 30, 20].map(&mut after), [(false, 32), (true, 64), (false, 64), (true, 128), (true, 256)]);
        assert!(!unsent.learn(100, Duration::from_secs(9)) && unsent.bytes() == 256 << 10);
    }
}
