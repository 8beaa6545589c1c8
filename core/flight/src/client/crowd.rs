//! What is known of a service that has no place for a further call: when it said so, and when it last took something.

use std::time::{Duration, Instant};

use edt::sync::Mutex;

/// How long after a refusal places count as scarce.
const SCARCE: Duration = Duration::from_secs(10);

/// The time in which a service takes nothing and refuses calls, after which those who wait for a place give up.
const GIVE_UP: Duration = Duration::from_mins(5);

/// The first pause of who waits for a place; it is doubled a few times.
const PAUSE: Duration = Duration::from_millis(100);
const DOUBLED: u32 = 3;

/// How crowded a service is.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    refused_at: Mutex<Option<Instant>>,
    taken_at: Mutex<Option<Instant>>,
}

impl Crowd {
    /// The service had no place for a call.
    pub(super) fn refused(&self) {
        *self.refused_at.lock() = Some(Instant::now());
    }

    /// The service took bytes of someone.
    pub(super) fn took(&self) {
        *self.taken_at.lock() = Some(Instant::now());
    }

    /// Whether who has a place should leave it to others as soon as it can.
    pub(super) fn is_scarce(&self) -> bool {
        self.refused_at.lock().is_some_and(|at| at.elapsed() < SCARCE)
    }

    /// Whether who waits for a place since `begun` waits in vain.
    pub(super) fn is_hopeless(&self, begun: Instant) -> bool {
        self.taken_at.lock().map_or(begun, |at| at.max(begun)).elapsed() > GIVE_UP
    }

    /// How long to wait for a place after a number of earlier refusals.
    pub(super) fn pause(earlier: u32) -> Duration {
        PAUSE * 2_u32.pow(earlier.min(DOUBLED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_scarce_after_a_refusal_alone() {
        let crowd = Crowd::default();
        crowd.took();
        assert!(!crowd.is_scarce());
        crowd.refused();
        assert!(crowd.is_scarce());
    }

    #[test]
    fn hope_lasts_as_long_as_the_service_takes_something() {
        let Some(long_ago) = Instant::now().checked_sub(2 * GIVE_UP) else { return };
        let crowd = Crowd::default();
        assert!(crowd.is_hopeless(long_ago) && !crowd.is_hopeless(Instant::now()));
        crowd.took();
        assert!(!crowd.is_hopeless(long_ago));
    }

    #[test]
    fn pauses_grow_to_less_than_a_second() {
        let pauses: Vec<_> = (0..6).map(|earlier| Crowd::pause(earlier).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 800, 800]);
    }
}
