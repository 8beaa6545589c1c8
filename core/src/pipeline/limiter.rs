//! The rate limit of a transfer: a bucket of bytes that all its streams draw from.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How much may be sent at once after a pause.
const BURST: Duration = Duration::from_millis(50);

/// Keeps the sum of all streams at a rate; without a rate it costs nothing.
pub(crate) struct Limiter {
    rate: Option<f64>,
    free_at: Mutex<Option<Instant>>,
}

impl Limiter {
    /// `rate` in bytes per second.
    pub(crate) fn new(rate: Option<f64>) -> Self {
        // A caller's number may be anything; one that is no rate is no limit.
        Self { rate: rate.filter(|rate| rate.is_finite() && *rate >= 1.0), free_at: Mutex::new(None) }
    }

    /// Books `bytes` and says how long to wait before they may go.
    pub(crate) fn book(&self, bytes: usize, now: Instant) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let mut free_at = self.free_at.lock();
        let start = (*free_at).unwrap_or(now).max(now.checked_sub(BURST).unwrap_or(now));
        *free_at = Some(start + Duration::from_secs_f64(bytes as f64 / rate));
        start.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_bytes_takes_a_second() {
        let limiter = Limiter::new(Some(1000.0));
        let now = Instant::now();
        assert_eq!(limiter.book(1000, now), Duration::ZERO);
        let wait = limiter.book(1, now);
        assert!(wait > Duration::from_millis(900) && wait <= Duration::from_secs(1), "{wait:?}");
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let limiter = Limiter::new(None);
        assert_eq!(limiter.book(usize::MAX, Instant::now()), Duration::ZERO);
    }
}
