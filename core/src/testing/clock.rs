//! A clock that a test moves by hand.

use std::time::Duration;

use crate::control::Clock;
use crate::sync::Mutex;

/// Time in which waiting takes none: a wait moves the clock on, in steps of 10 ms, until it is over or to be stopped.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Mutex<Duration>,
}

impl ManualClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        *self.now.lock() += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.now.lock()
    }

    fn wait(&self, duration: Duration, stop: &dyn Fn() -> bool) -> bool {
        let end = self.now() + duration;
        while self.now() < end {
            if stop() {
                return true;
            }
            self.advance(Duration::from_millis(10).min(end.saturating_sub(self.now())));
        }
        stop()
    }
}
