//! The meter of one stage: bytes through it, and the exact time that its workers existed and worked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::protocol::message::StageMeters;
use crate::sync::Mutex;

/// Counts bytes and worker time of one stage; shared by its workers and whoever samples.
///
/// Worker times are integrals of how many there were: a sample in the middle of long work counts the part that is done.
#[derive(Debug, Default)]
pub struct StageMeter {
    bytes: AtomicU64,
    extra_busy_us: AtomicU64,
    live: Mutex<Crowd>,
    working: Mutex<Crowd>,
}

/// A worker of a stage that exists until this is dropped.
#[derive(Debug)]
pub struct LiveWorker {
    meter: Arc<StageMeter>,
}

/// A worker that works, rather than waits for a neighbour stage, until this is dropped.
#[derive(Debug)]
pub struct Work<'a> {
    meter: &'a StageMeter,
}

impl StageMeter {
    /// A meter at zero, ready to be shared.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Counts bytes that leave the stage.
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts work that was measured elsewhere; not in addition to [`StageMeter::work`] for the same time.
    pub fn add_busy(&self, busy: Duration) {
        self.extra_busy_us.fetch_add(micros(busy), Ordering::Relaxed);
    }

    /// Counts one more worker until the guard is dropped.
    pub fn worker(self: &Arc<Self>) -> LiveWorker {
        self.live.lock().enter(Instant::now());
        LiveWorker { meter: Arc::clone(self) }
    }

    /// Counts a worker as working until the guard is dropped.
    pub fn work(&self) -> Work<'_> {
        self.working.lock().enter(Instant::now());
        Work { meter: self }
    }

    /// The counters up to `now`.
    pub fn snapshot(&self, now: Instant) -> StageMeters {
        let (workers, existed) = self.live.lock().read(now);
        let (_, worked) = self.working.lock().read(now);
        StageMeters {
            bytes: self.bytes.load(Ordering::Relaxed),
            busy_us: micros(worked) + self.extra_busy_us.load(Ordering::Relaxed),
            workers_us: micros(existed),
            workers: u16::try_from(workers).unwrap_or(u16::MAX),
        }
    }
}

impl Drop for LiveWorker {
    fn drop(&mut self) {
        self.meter.live.lock().leave(Instant::now());
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.meter.working.lock().leave(Instant::now());
    }
}

/// How many there are, and the integral of that over time up to the last change.
#[derive(Debug, Default)]
struct Crowd {
    count: u32,
    integral: Duration,
    since: Option<Instant>,
}

impl Crowd {
    fn enter(&mut self, now: Instant) {
        self.advance(now);
        self.count += 1;
    }

    fn leave(&mut self, now: Instant) {
        self.advance(now);
        self.count = self.count.saturating_sub(1);
    }

    fn read(&self, now: Instant) -> (u32, Duration) {
        (self.count, self.integral + self.passed(now) * self.count)
    }

    fn advance(&mut self, now: Instant) {
        self.integral += self.passed(now) * self.count;
        // Threads read their clocks before they get the lock, so a change can carry an earlier time than the one before it.
        self.since = self.since.max(Some(now));
    }

    fn passed(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn worker_time_is_the_exact_integral_of_the_number_of_workers() {
        let start = Instant::now();
        let mut crowd = Crowd::default();
        crowd.enter(start);
        crowd.enter(start + SECOND);
        assert_eq!(crowd.read(start + 3 * SECOND), (2, 5 * SECOND));
        crowd.leave(start + 3 * SECOND);
        assert_eq!(crowd.read(start + 10 * SECOND), (1, 12 * SECOND));
        crowd.leave(start + 10 * SECOND);
        assert_eq!(crowd.read(start + 99 * SECOND), (0, 12 * SECOND));
    }

    #[test]
    fn changes_that_arrive_out_of_order_count_no_time_twice() {
        let start = Instant::now();
        let mut crowd = Crowd::default();
        crowd.enter(start);
        crowd.enter(start + 2 * SECOND);
        crowd.leave(start + SECOND);
        assert_eq!(crowd.read(start + 3 * SECOND), (1, 3 * SECOND));
    }

    #[test]
    fn a_sample_counts_the_workers_and_the_work_that_go_on() {
        let meter = StageMeter::new();
        let worker = meter.worker();
        let work = meter.work();
        meter.add_bytes(7);
        let later = Instant::now() + 10 * SECOND;
        let meters = meter.snapshot(later);
        assert_eq!((meters.bytes, meters.workers), (7, 1));
        assert!(meters.busy_us >= 9_900_000 && meters.workers_us >= meters.busy_us);
        drop((work, worker));
        assert_eq!(meter.snapshot(later).workers, 0);
        assert!(meter.snapshot(later).busy_us < 9_900_000);
    }

    #[test]
    fn work_measured_elsewhere_is_added() {
        let meter = StageMeter::new();
        meter.add_busy(3 * SECOND);
        assert_eq!(meter.snapshot(Instant::now()).busy_us, 3_000_000);
    }
}
