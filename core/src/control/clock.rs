//! The clock of the control loop, so that tests need none.

use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex};

/// How long a waiting clock may take to notice that it shall stop, if nobody wakes it.
const POLL: Duration = Duration::from_millis(20);

/// Time since some beginning, and waiting.
pub trait Clock: Send + Sync {
    /// Time since the clock's beginning; never goes back.
    fn now(&self) -> Duration;

    /// Waits; returns early, with true, once `stop` says so.
    fn wait(&self, duration: Duration, stop: &dyn Fn() -> bool) -> bool;
}

/// What a thread waited since a moment: the time that passed less that for which it computed, where the system tells it.
#[derive(Debug)]
pub(crate) struct Waited {
    begun: Instant,
    computed: Duration,
}

impl Waited {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now(), computed: computed() }
    }

    /// To be asked by the thread that began.
    pub(crate) fn time(&self) -> Duration {
        self.begun.elapsed().saturating_sub(computed().saturating_sub(self.computed))
    }
}

/// For how long this thread has computed.
fn computed() -> Duration {
    #[cfg(unix)]
    return rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().unwrap_or_default();
    #[cfg(not(unix))]
    return Duration::ZERO;
}

/// The monotonic clock of the system, from the moment this was made.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    waiting: Mutex<()>,
    woken: Condvar,
}

impl SystemClock {
    /// A clock that begins now.
    pub fn new() -> Self {
        Self { start: Instant::now(), waiting: Mutex::default(), woken: Condvar::new() }
    }

    /// Lets whoever waits look at once whether it shall stop.
    pub fn wake(&self) {
        self.woken.notify_all();
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wait(&self, duration: Duration, stop: &dyn Fn() -> bool) -> bool {
        let end = Instant::now() + duration;
        while !stop() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.woken.wait_for(&mut self.waiting.lock(), left.min(POLL));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_it_shall_stop_or_its_time_is_over() {
        let clock = SystemClock::new();
        assert!(clock.wait(Duration::from_hours(1), &|| true));
        assert!(!clock.wait(Duration::from_millis(1), &|| false));
        assert!(clock.now() >= Duration::from_millis(1));
    }

    #[test]
    fn waking_ends_no_wait_by_itself() {
        let clock = SystemClock::new();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..100).for_each(|_| clock.wake()));
            assert!(!clock.wait(Duration::from_millis(50), &|| false));
        });
        assert!(clock.now() >= Duration::from_millis(50));
    }

    #[test]
    fn what_was_computed_is_not_waited() {
        let waited = Waited::begin();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {
            std::hint::black_box(());
        }
        std::thread::sleep(Duration::from_millis(30));
        let time = waited.time();
        assert!(time >= Duration::from_millis(30));
        assert!(time < begun.elapsed());
        #[cfg(unix)]
        assert!(computed() >= Duration::from_millis(5));
    }
}
