//! The rate limit of a transfer: a bucket of bytes that all its streams draw from.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How much may be sent at once after a pause.
const BURST: Duration = Duration::from_millis(50);

/// Keeps the sum of all streams at a rate; without a rate it costs nothing.
pub(crate) struct Limiter {
    /// What the options of the transfer allow.
    own: f64,
    /// What holds at present, as the bits of an f64.
    rate: AtomicU64,
    free_at: Mutex<Option<Instant>>,
}

impl Limiter {
    /// `rate` in bytes per second.
    pub(crate) fn new(rate: Option<f64>) -> Self {
        // A caller's number may be anything; one that is no rate is no limit.
        let own = rate.filter(|rate| *rate >= 1.0).unwrap_or(f64::INFINITY);
        Self { own, rate: AtomicU64::new(own.to_bits()), free_at: Mutex::new(None) }
    }

    /// Keeps to another rate besides, in bytes per second; 0 for none any more.
    pub(crate) fn limit(&self, rate: u64) {
        let other = if rate == 0 { f64::INFINITY } else { rate as f64 };
        let (new, now) = (self.own.min(other), Instant::now());
        let mut free_at = self.free_at.lock();
        let old = f64::from_bits(self.rate.swap(new.to_bits(), Ordering::Relaxed));
        // What is booked at a lower rate takes as much less of the time to come.
        if let Some(free) = free_at.as_mut().filter(|free| **free > now && old < new) {
            *free = now + (*free - now).mul_f64(old / new);
        }
    }

    /// Books `bytes` and says how long to wait before they may go.
    pub(crate) fn book(&self, bytes: usize, now: Instant) -> Duration {
        let rate = f64::from_bits(self.rate.load(Ordering::Relaxed));
        if !rate.is_finite() {
            return Duration::ZERO;
        }
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
        for none in [None, Some(f64::NAN), Some(0.5)] {
            let limiter = Limiter::new(none);
            assert_eq!(limiter.book(usize::MAX, Instant::now()), Duration::ZERO);
        }
    }

    #[test]
    fn the_lower_of_two_rates_holds_as_long_as_there_are_two() {
        let limiter = Limiter::new(Some(1000.0));
        let now = Instant::now();
        limiter.limit(100);
        assert_eq!(limiter.book(100, now), Duration::ZERO);
        assert!(limiter.book(1, now) > Duration::from_millis(900));
        for higher in [0, 5000] {
            let limiter = Limiter::new(Some(1000.0));
            limiter.limit(higher);
            assert_eq!(limiter.book(1000, now), Duration::ZERO);
            assert!(limiter.book(1, now) > Duration::from_millis(900));
        }
    }
}
