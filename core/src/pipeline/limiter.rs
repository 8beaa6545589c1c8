//! The rate limit of a transfer: a bucket of bytes that all its streams draw from.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::protocol::message::RateMeters;
use crate::sync::Mutex;

/// How much may be sent at once after a pause.
const BURST: Duration = Duration::from_millis(50);

/// How long one waits at most before looking again: the rate may be another one by then.
const SLICE: Duration = Duration::from_millis(100);

/// Keeps the sum of all streams at a rate; without a rate it costs nothing.
pub(crate) struct Limiter {
    /// What the options of the transfer allow.
    own: f64,
    /// What holds at present, as the bits of an f64.
    rate: AtomicU64,
    bucket: Mutex<Bucket>,
}

/// Bytes since the beginning.
#[derive(Default)]
struct Bucket {
    booked: f64,
    /// Those of them that may have gone, and until when that was counted; at most a burst more than were booked.
    passed: f64,
    at: Option<Instant>,
    other: Option<Other>,
}

/// The rate that holds besides the transfer's own, and what it has done so far.
#[derive(Default)]
struct Other {
    /// Bytes per second; 0 for none any more.
    rate: u64,
    /// Whether it is the lower one, and so the one that counts.
    holds: bool,
    /// How long streams waited for it, all together.
    waited: Duration,
    /// For how long it would have let bytes pass, and there were none.
    lapsed: Duration,
}

/// Bytes that may go when all that was booked before has gone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Booking(f64);

impl Limiter {
    /// `rate` in bytes per second.
    pub(crate) fn new(rate: Option<f64>) -> Self {
        // A caller's number may be anything; one that is no rate is no limit.
        let own = rate.filter(|rate| *rate >= 1.0).unwrap_or(f64::INFINITY);
        Self { own, rate: AtomicU64::new(own.to_bits()), bucket: Mutex::default() }
    }

    /// Keeps to another rate besides, in bytes per second, from a moment on; 0 for none any more.
    pub(crate) fn limit(&self, rate: u64, now: Instant) {
        let bytes = if rate == 0 { f64::INFINITY } else { rate as f64 };
        let mut bucket = self.bucket.lock();
        bucket.run_until(now, self.rate());
        let other = bucket.other.get_or_insert_default();
        (other.rate, other.holds) = (rate, bytes < self.own);
        self.rate.store(self.own.min(bytes).to_bits(), Ordering::Relaxed);
    }

    /// What the rate of [`Limiter::limit`] has done until a moment; `None` if there has never been one.
    pub(crate) fn meters(&self, now: Instant) -> Option<RateMeters> {
        let mut bucket = self.bucket.lock();
        bucket.other.as_ref()?;
        bucket.run_until(now, self.rate());
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let meters = |other: &Other| RateMeters { rate: other.rate, waited_us: us(other.waited), lapsed_us: us(other.lapsed) };
        bucket.other.as_ref().map(meters)
    }

    /// Books bytes, which may go when [`Limiter::wait`] says so.
    pub(crate) fn book(&self, bytes: usize, now: Instant) -> Booking {
        let rate = self.rate();
        if !rate.is_finite() {
            return Booking(0.0);
        }
        let mut bucket = self.bucket.lock();
        bucket.run_until(now, rate);
        let booking = Booking(bucket.booked);
        bucket.booked += bytes as f64;
        booking
    }

    /// How long to wait before asking again; `None` if what was booked may go.
    pub(crate) fn wait(&self, booking: Booking, now: Instant) -> Option<Duration> {
        let rate = self.rate();
        if !rate.is_finite() {
            return None;
        }
        let mut bucket = self.bucket.lock();
        bucket.run_until(now, rate);
        let ahead = booking.0 - bucket.passed;
        if ahead <= 0.0 {
            return None;
        }
        let wait = Duration::from_secs_f64((ahead / rate).min(SLICE.as_secs_f64()));
        if let Some(other) = bucket.other.as_mut().filter(|other| other.holds) {
            other.waited += wait;
        }
        Some(wait)
    }

    fn rate(&self) -> f64 {
        f64::from_bits(self.rate.load(Ordering::Relaxed))
    }
}

impl Bucket {
    fn run_until(&mut self, now: Instant, rate: f64) {
        let time = now.saturating_duration_since(self.at.unwrap_or(now));
        self.at = self.at.max(Some(now));
        if !rate.is_finite() {
            self.passed = self.booked;
            return;
        }
        let (passed, most) = (self.passed + rate * time.as_secs_f64(), self.booked + rate * BURST.as_secs_f64());
        if let Some(other) = self.other.as_mut().filter(|other| other.holds && passed > most) {
            // A rate that has just become lower lets no more lapse than the time since then.
            other.lapsed += Duration::from_secs_f64(((passed - most) / rate).min(time.as_secs_f64()));
        }
        self.passed = passed.min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long bytes wait that are booked now, in seconds.
    fn waits(limiter: &Limiter, booking: Booking, begin: Instant) -> f64 {
        let mut now = begin;
        while let Some(wait) = limiter.wait(booking, now) {
            assert!(wait <= SLICE);
            // A wait may round to nothing.
            now += wait.max(Duration::from_micros(1));
        }
        (now - begin).as_secs_f64()
    }

    fn is_near(seconds: f64, expected: f64) -> bool {
        (seconds - expected).abs() < 0.01
    }

    #[test]
    fn a_second_of_bytes_takes_a_second() {
        let (limiter, now) = (Limiter::new(Some(1000.0)), Instant::now());
        assert!(limiter.wait(limiter.book(1000, now), now).is_none());
        let seconds = waits(&limiter, limiter.book(1, now), now);
        assert!(is_near(seconds, 1.0), "{seconds}");
    }

    #[test]
    fn after_a_pause_no_more_than_a_burst_goes_at_once() {
        let (limiter, begin) = (Limiter::new(Some(1000.0)), Instant::now());
        limiter.book(10, begin);
        let now = begin + Duration::from_mins(1);
        assert!(limiter.wait(limiter.book(50, now), now).is_none());
        limiter.book(100, now);
        let seconds = waits(&limiter, limiter.book(1, now), now);
        assert!(is_near(seconds, 0.1), "{seconds}");
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        for none in [None, Some(f64::NAN), Some(0.5)] {
            let (limiter, now) = (Limiter::new(none), Instant::now());
            limiter.book(usize::MAX, now);
            assert!(limiter.wait(limiter.book(1, now), now).is_none());
        }
    }

    #[test]
    fn the_lower_of_two_rates_holds_as_long_as_there_are_two() {
        let now = Instant::now();
        for (other, expected) in [(100, 10.0), (0, 1.0), (5000, 1.0)] {
            let limiter = Limiter::new(Some(1000.0));
            limiter.limit(other, now);
            limiter.book(1000, now);
            let seconds = waits(&limiter, limiter.book(1, now), now);
            assert!(is_near(seconds, expected), "{other}: {seconds}");
        }
    }

    #[test]
    fn what_was_booked_goes_at_the_rate_of_the_moment() {
        let (limiter, begin) = (Limiter::new(None), Instant::now());
        limiter.limit(100, begin);
        limiter.book(1000, begin);
        let booking = limiter.book(1, begin);
        // Of ten seconds of bytes one has gone, then two go in ten, and the rest of seven in a tenth of that.
        let slower = begin + Duration::from_secs(1);
        limiter.limit(20, slower);
        let faster = slower + Duration::from_secs(10);
        limiter.limit(1000, faster);
        let seconds = waits(&limiter, booking, faster);
        assert!(is_near(seconds, 0.7), "{seconds}");
    }

    #[test]
    fn what_streams_wait_for_the_other_rate_and_what_lapses_of_it_is_counted_while_it_is_the_lower_one() {
        let begin = Instant::now();
        let (limiter, after) = (Limiter::new(Some(1000.0)), |seconds: f64| begin + Duration::from_secs_f64(seconds));
        assert_eq!(limiter.meters(begin), None);
        let counted = |seconds: f64, rate: u64, waited_us: u64, lapsed_us: u64| {
            let meters = limiter.meters(after(seconds)).unwrap();
            let is_near = |a: u64, b: u64| a.abs_diff(b) < 1000;
            assert!(
                meters.rate == rate && is_near(meters.waited_us, waited_us) && is_near(meters.lapsed_us, lapsed_us),
                "{meters:?}"
            );
        };
        limiter.limit(100, begin);
        limiter.book(50, begin);
        waits(&limiter, limiter.book(1, begin), begin);
        counted(0.5, 100, 500_000, 0);
        // Of the next second what is left over of the last byte and of a burst lapses.
        counted(1.5, 100, 500_000, 940_000);
        limiter.limit(10, after(1.5));
        counted(1.6, 10, 500_000, 1_040_000);
        limiter.limit(5000, after(1.6));
        limiter.book(2000, after(1.6));
        waits(&limiter, limiter.book(1, after(1.6)), after(1.6));
        counted(9.0, 5000, 500_000, 1_040_000);
        limiter.limit(0, after(9.0));
        counted(9.0, 0, 500_000, 1_040_000);
    }

    #[test]
    fn what_was_booked_is_gone_when_there_is_no_limit_any_more() {
        let (limiter, now) = (Limiter::new(None), Instant::now());
        limiter.limit(100, now);
        limiter.book(100_000, now);
        let booking = limiter.book(1, now);
        limiter.limit(0, now);
        assert!(limiter.wait(booking, now).is_none());
        limiter.limit(100, now);
        assert!(limiter.wait(limiter.book(1, now), now).is_none());
    }
}
