//! Whether a process stood still in an interval, as one does that was stopped or whose machine slept: the mean of so long a time says nothing of a
//! setting, least of all that growth broke the path.

use std::time::Duration;

/// How much later than it was due an interval ends where a process stood still: this one by its own clock, or a sender elsewhere by its own. Hosts
/// that are busy and meters that have far to go are late by less.
const LATE: Duration = Duration::from_secs(5);

/// When the interval that has begun is due, and what was seen of the one before it.
#[derive(Default)]
pub(super) struct Standstill {
    due: Duration,
    length: Duration,
    before: bool,
}

impl Standstill {
    /// An interval begins that is to take so long.
    pub(super) fn begin(&mut self, now: Duration, length: Duration) {
        (self.due, self.length) = (now + length, length);
    }

    /// It is over, and took so long by the clock of the sender. Whether anybody stood still in it, or in the one before it: streams find their
    /// windows again after that.
    pub(super) fn end(&mut self, now: Duration, measured: Duration) -> bool {
        let stood = now >= self.due + LATE || measured >= self.length + LATE;
        std::mem::replace(&mut self.before, stood) || stood
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_late_by_either_clock_and_what_follows_it_counts_as_a_standstill() {
        let (mut standstill, mut now) = (Standstill::default(), Duration::ZERO);
        let mut interval = |took_ms, measured_ms| {
            standstill.begin(now, Duration::from_secs(1));
            now += Duration::from_millis(took_ms);
            standstill.end(now, Duration::from_millis(measured_ms))
        };
        assert_eq!([interval(1000, 1000), interval(1900, 1900), interval(1000, 5900)], [false; 3]);
        assert_eq!([interval(60_000, 60_000), interval(1000, 1000), interval(1000, 1000)], [true, true, false]);
        assert_eq!([interval(1000, 60_000), interval(1000, 1000), interval(1000, 1000)], [true, true, false]);
    }
}
