//! The pace of requests to a service that refuses some: as many a second as it was measured to accept, and now and then a few more.
//!
//! Time is an argument, so that tests can play any service.

use std::time::Duration;

/// The least time over which acceptance is measured.
const TICK: Duration = Duration::from_secs(1);

/// Answers that make a measurement while a pace is kept; with fewer it goes on for [`LONGEST_TICK`].
const ENOUGH: u32 = 10;

/// The most time over which acceptance is measured.
const LONGEST_TICK: Duration = Duration::from_secs(5);

/// How far ahead places are given away: the pace may change until then.
const HORIZON: Duration = Duration::from_millis(250);

/// Requests a second below which no pace falls.
const LEAST: f64 = 0.1;

/// By which part of itself a pace grows first; doubled when that goes well, halved when it does not.
const STEP: f64 = 0.05;
const LEAST_STEP: f64 = 0.02;

/// Measurements between two attempts to go faster, at most.
const LONGEST_HOLD: u32 = 32;

/// A measurement is good with one refusal to this many acceptances.
const TOLERATED: u32 = 20;

/// The share of the pace that must have been used to learn from it.
const USED: f64 = 0.8;

/// The time without refusals after which a pace that is not used up is dropped.
const FORGIVEN: Duration = Duration::from_mins(1);

/// When a request may go.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// After this time; its answer counts for this epoch.
    Go(Duration, Epoch),
    /// Not soon: ask again after this time.
    Ask(Duration),
}

/// Numbers the rates: an answer says nothing about another rate than that at which its request went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Epoch(u32);

/// Measures what a service accepts. Without refusals it lets everything through at once.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Requests a second; `None` while next to nothing is refused.
    rate: Option<f64>,
    /// The highest rate that was measured to be accepted.
    good: Option<f64>,
    epoch: Epoch,
    /// When the next request may go.
    next: Duration,
    /// Since when answers are counted.
    since: Option<Duration>,
    accepted: u32,
    refused: u32,
    step: f64,
    /// Good measurements in a row, and how many it takes to try more.
    clean: u32,
    hold: u32,
    used_at: Duration,
    refused_at: Duration,
    answered_at: Option<Duration>,
}

impl Pace {
    /// Takes a place for a request.
    pub(super) fn book(&mut self, now: Duration) -> Turn {
        if now.saturating_sub(self.used_at) > TICK {
            // Time in which nothing was asked says nothing about what is accepted.
            self.begin(None);
        }
        self.used_at = now;
        let Some(rate) = self.rate else { return Turn::Go(Duration::ZERO, self.epoch) };
        let place = self.next.max(now);
        if place > now + HORIZON {
            return Turn::Ask(HORIZON / 2);
        }
        self.next = place + Duration::from_secs_f64(1.0 / rate);
        Turn::Go(place.saturating_sub(now), self.epoch)
    }

    /// The service answered a request.
    pub(super) fn accepted(&mut self, now: Duration, epoch: Epoch) {
        self.answered_at = Some(now);
        if epoch == self.epoch && self.since.is_some() {
            self.accepted = self.accepted.saturating_add(1);
        }
        self.counted(now, epoch);
    }

    /// The service refused a request for its haste.
    pub(super) fn refused(&mut self, now: Duration, epoch: Epoch) {
        if epoch == self.epoch {
            self.refused = self.refused.saturating_add(1);
        }
        self.counted(now, epoch);
    }

    /// When the service last answered a request.
    pub(super) fn answered_at(&self) -> Option<Duration> {
        self.answered_at
    }

    fn counted(&mut self, now: Duration, epoch: Epoch) {
        self.used_at = now;
        if epoch != self.epoch {
            return;
        }
        let elapsed = now.saturating_sub(*self.since.get_or_insert(now));
        let failed = self.is_probing() && self.refused >= 2 && self.refused.saturating_mul(10) > self.accepted;
        let few = self.rate.is_some() && self.accepted.saturating_add(self.refused) < ENOUGH;
        if !failed && elapsed < if few { LONGEST_TICK } else { TICK } {
            return;
        }
        let measured = f64::from(self.accepted) / elapsed.as_secs_f64().max(0.001);
        let refused = self.refused.saturating_mul(TOLERATED) > self.accepted;
        self.begin(Some(now));
        if refused {
            self.refused_at = now;
            self.lower(measured);
        } else {
            self.raise(measured, now);
        }
    }

    /// Whether the rate is higher than any that was measured to be accepted.
    fn is_probing(&self) -> bool {
        self.rate.zip(self.good).is_some_and(|(rate, good)| rate > good)
    }

    fn lower(&mut self, measured: f64) {
        self.clean = 0;
        if self.is_probing() {
            self.step = (self.step / 2.0).max(LEAST_STEP);
            self.hold = (2 * self.hold).min(LONGEST_HOLD);
            return self.change(self.good);
        }
        // A service that lets one request through at a time takes half of a rate that is little above its limit: that is not the limit.
        let (kept, least) = self.rate.map_or((0.0, LEAST), |rate| ((2.0 * measured).min(0.8 * rate), (rate / 4.0).max(LEAST)));
        (self.good, self.hold, self.step) = (None, 1, STEP);
        self.change(Some(measured.max(kept).max(least)));
    }

    fn raise(&mut self, measured: f64, now: Duration) {
        let Some(rate) = self.rate else { return };
        if measured < USED * rate {
            if now.saturating_sub(self.refused_at) >= FORGIVEN {
                self.good = None;
                self.change(None);
            }
            return;
        }
        if self.is_probing() {
            (self.step, self.hold) = ((2.0 * self.step).min(1.0), 1);
        }
        self.good = Some(rate);
        self.clean += 1;
        if self.clean >= self.hold {
            self.clean = 0;
            self.change(Some(rate * (1.0 + self.step)));
        }
    }

    fn change(&mut self, rate: Option<f64>) {
        self.rate = rate;
        self.epoch.0 = self.epoch.0.wrapping_add(1);
        self.begin(None);
    }

    fn begin(&mut self, since: Option<Duration>) {
        (self.since, self.accepted, self.refused) = (since, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    /// A service that accepts `rate` requests a second, and `burst` at once after a pause.
    struct Service {
        rate: f64,
        burst: f64,
        tokens: f64,
        at: Duration,
    }

    impl Service {
        fn new(rate: f64, burst: f64) -> Self {
            Self { rate, burst, tokens: burst, at: Duration::ZERO }
        }

        fn accepts(&mut self, now: Duration) -> bool {
            self.tokens = (self.tokens + now.saturating_sub(self.at).as_secs_f64() * self.rate).min(self.burst);
            self.at = now;
            let accepted = self.tokens >= 1.0;
            self.tokens -= if accepted { 1.0 } else { 0.0 };
            accepted
        }
    }

    /// What a worker does next.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Step {
        Ask,
        Send(u32),
        Hear(u32, bool),
    }

    /// Requests that `workers` get through in a minute, each of 70 ms, and how many were refused.
    fn run(mut service: Service, workers: usize) -> (f64, f64) {
        const LATENCY: Duration = Duration::from_millis(70);
        let mut pace = Pace::default();
        let mut steps: BinaryHeap<_> = (0..workers).map(|worker| Reverse((Duration::ZERO, worker, Step::Ask))).collect();
        let (mut accepted, mut refused) = (0.0, 0.0);
        while let Some(Reverse((now, worker, step))) = steps.pop().filter(|Reverse((now, ..))| now.as_secs() < 60) {
            let (after, next) = match step {
                Step::Ask => match pace.book(now) {
                    Turn::Go(wait, epoch) => (wait, Step::Send(epoch.0)),
                    Turn::Ask(wait) => (wait, Step::Ask),
                },
                Step::Send(epoch) => (LATENCY, Step::Hear(epoch, service.accepts(now))),
                Step::Hear(epoch, true) => {
                    accepted += 1.0;
                    pace.accepted(now, Epoch(epoch));
                    (Duration::ZERO, Step::Ask)
                }
                Step::Hear(epoch, false) => {
                    refused += 1.0;
                    pace.refused(now, Epoch(epoch));
                    (Duration::from_millis(100 + 7 * worker as u64), Step::Ask)
                }
            };
            steps.push(Reverse((now + after, worker, next)));
        }
        (accepted, refused)
    }

    #[test]
    fn a_limit_is_used_up_and_seldom_met() {
        for (rate, burst) in [(20.0, 1.0), (20.0, 2.0), (20.0, 20.0), (100.0, 10.0), (3.0, 3.0)] {
            for workers in [16, 64] {
                let (accepted, refused) = run(Service::new(rate, burst), workers);
                let share = accepted / (60.0 * rate);
                assert!(share > 0.9, "{workers} workers used {share} of {rate} requests a second, {burst} at once");
                // The first second, in which nothing is known yet, is most of it.
                let spared = refused < accepted / 10.0 + 12.0 * workers as f64;
                assert!(spared, "{workers} workers were refused {refused} times at {rate} requests a second");
            }
        }
    }

    #[test]
    fn without_refusals_nothing_waits() {
        let mut pace = Pace::default();
        for number in 0..10_000 {
            let now = Duration::from_millis(number);
            assert_eq!(pace.book(now), Turn::Go(Duration::ZERO, Epoch(0)));
            pace.accepted(now, Epoch(0));
        }
    }

    #[test]
    fn a_pace_that_is_not_needed_any_more_is_dropped() {
        let mut pace = Pace::default();
        let (mut now, mut paced) = (Duration::ZERO, false);
        while now.as_secs() < 200 {
            now += Duration::from_millis(50);
            let Turn::Go(wait, epoch) = pace.book(now) else { continue };
            now += wait;
            if now.as_secs() < 2 {
                pace.refused(now, epoch);
            } else {
                pace.accepted(now, epoch);
            }
            paced |= pace.rate.is_some();
        }
        assert!(paced);
        assert_eq!(pace.rate, None);
    }
}
