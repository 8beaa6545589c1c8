//! Retries of requests to a service, and the pace of them all while it refuses some.

mod attempt;
mod pace;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use self::attempt::cancelled;
pub(super) use self::attempt::{clearing, unless_interrupted};
use self::pace::{Epoch, Pace, Turn};
use crate::control::{Clock, SystemClock};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::store::RetryWatcher;
use crate::sync::Mutex;

/// Further attempts after temporary failures of one request.
const RETRIES: i32 = 5;

/// The same while the service never answered: more likely its name or port is wrong than that it is away.
const FIRST_RETRIES: i32 = 3;

/// The first pause, and by how much the next are longer; the fifth comes to [`LONGEST_PAUSE`].
const PAUSE_SECONDS: f64 = 0.1;
const LONGER: f64 = 3.163;
const LONGEST_PAUSE: f64 = 10.0;

/// How much longer the pauses of a request become that is refused again and again.
const LONGER_REFUSED: f64 = 2.0;

/// From here on waits between larger things grow no more: 6 seconds.
const MOST_RESTS: u32 = 6;

/// From which pause on the wait is told to who watches: shorter ones are no news.
const TOLD: Duration = Duration::from_secs(1);

/// The time without any answer but refusals after which a throttled request is given up.
const GIVE_UP: Duration = Duration::from_mins(5);

/// What the threads of one store know of their service; a clone is the same.
#[derive(Clone)]
pub struct Patience {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Box<dyn Clock>,
    pace: Mutex<Pace>,
    interrupted: AtomicBool,
    /// Wakes those who wait for an answer.
    interrupts: Notify,
    watcher: Mutex<Option<RetryWatcher>>,
}

/// Whether another attempt may help. A source that has changed stays changed: only its transfer can begin again.
pub(super) fn retry(error: &Error) -> Retry {
    if error.kind() == ErrorKind::SourceChanged { Retry::Never } else { error.retry() }
}

impl Patience {
    /// Nothing is known of the service yet.
    #[expect(clippy::new_without_default, reason = "each is made for one service on purpose")]
    pub fn new() -> Self {
        Self::with_clock(Box::new(SystemClock::new()))
    }

    fn with_clock(clock: Box<dyn Clock>) -> Self {
        let (pace, interrupted, interrupts) = (Mutex::default(), AtomicBool::new(false), Notify::new());
        Self { shared: Arc::new(Shared { clock, pace, interrupted, interrupts, watcher: Mutex::default() }) }
    }

    /// Runs attempts until one succeeds or no further one may help.
    ///
    /// A request that fails temporarily is repeated up to five times, after growing pauses. One that is throttled is repeated for as long as
    /// the service answers others, after the time that it asks for; meanwhile the requests of all threads go at the pace that it accepts.
    pub fn run<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let begun = self.now();
        let (mut failures, mut refusals) = (0, 0);
        loop {
            let epoch = self.await_turn()?;
            let error = match attempt::make(self, &mut attempt) {
                Err(error) if retry(&error) != Retry::Never => error,
                settled => {
                    self.shared.pace.lock().accepted(self.now(), epoch);
                    return settled;
                }
            };
            let pause = if retry(&error) == Retry::Throttled {
                refusals += 1;
                let silence = self.refused(begun, epoch);
                let after = error.retry_after().unwrap_or_default().max(pause(LONGER_REFUSED, refusals - 1));
                (silence.saturating_add(after) < GIVE_UP).then_some(after)
            } else {
                failures += 1;
                (failures <= self.retries()).then(|| pause(LONGER, failures - 1))
            };
            let Some(pause) = pause else { return Err(error) };
            self.tell(&error, pause);
            if self.wait(pause) {
                return Err(cancelled(error.what()));
            }
        }
    }

    /// Has longer waits told to `watcher` from now on.
    pub fn watch(&self, watcher: &RetryWatcher) {
        *self.shared.watcher.lock() = Some(Arc::clone(watcher));
    }

    fn tell(&self, error: &Error, pause: Duration) {
        let watcher = self.shared.watcher.lock().clone();
        if let Some(watcher) = watcher.filter(|_| pause >= TOLD) {
            watcher(error, pause);
        }
    }

    /// Makes one attempt, which an interrupt ends.
    pub(crate) fn once<T>(&self, attempt: impl FnOnce() -> Result<T>) -> Result<T> {
        attempt::make(self, attempt)
    }

    /// Waits before something larger than a request is begun again, the longer the more often that was in vain.
    pub(crate) fn rest(&self, earlier: u32) {
        self.wait(pause(LONGER_REFUSED, i32::try_from(earlier.min(MOST_RESTS)).unwrap_or(0)));
    }

    /// Fails once waits are ended: asked between the requests of something that takes many.
    pub fn check(&self, what: &str) -> Result<()> {
        if self.is_interrupted() { Err(cancelled(what)) } else { Ok(()) }
    }

    /// Ends all waits and attempts, those that would begin later too: their calls fail with [`ErrorKind::Cancelled`]. What clears up
    /// after others still makes its first attempts, and waits for seconds.
    pub fn interrupt(&self) {
        self.shared.interrupted.store(true, Ordering::SeqCst);
        self.shared.interrupts.notify_waiters();
    }

    fn is_interrupted(&self) -> bool {
        self.shared.interrupted.load(Ordering::SeqCst)
    }

    fn now(&self) -> Duration {
        self.shared.clock.now()
    }

    /// Waits; true if it was interrupted.
    fn wait(&self, duration: Duration) -> bool {
        self.shared.clock.wait(duration, &|| self.is_interrupted())
    }

    fn await_turn(&self) -> Result<Epoch> {
        loop {
            let turn = self.shared.pace.lock().book(self.now());
            let (wait, epoch) = match turn {
                Turn::Go(wait, epoch) if wait.is_zero() => return Ok(epoch),
                Turn::Go(wait, epoch) => (wait, Some(epoch)),
                Turn::Ask(wait) => (wait, None),
            };
            if self.wait(wait) {
                return Err(Error::new(ErrorKind::Cancelled, "the transfer was cancelled while its requests were throttled"));
            }
            if let Some(epoch) = epoch {
                return Ok(epoch);
            }
        }
    }

    fn retries(&self) -> i32 {
        if self.shared.pace.lock().answered_at().is_some() { RETRIES } else { FIRST_RETRIES }
    }

    /// Counts a refusal, and says for how long, from `begun` on, there was nothing else.
    fn refused(&self, begun: Duration, epoch: Epoch) -> Duration {
        let now = self.now();
        let mut pace = self.shared.pace.lock();
        pace.refused(now, epoch);
        now.saturating_sub(pace.answered_at().unwrap_or_default().max(begun))
    }
}

/// The pause after a number of earlier ones, between half of it and all of it by chance.
fn pause(longer: f64, earlier: i32) -> Duration {
    let chance = getrandom::u32().map_or(1.0, |chance| f64::from(chance) / f64::from(u32::MAX));
    Duration::from_secs_f64((PAUSE_SECONDS * longer.powi(earlier)).min(LONGEST_PAUSE) * (0.5 + chance / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::clock::ManualClock;

    fn patience() -> Patience {
        Patience::with_clock(Box::new(ManualClock::new()))
    }

    fn failure(kind: ErrorKind) -> Error {
        Error::new(kind, "could not read `s3://b/k`")
    }

    /// How many attempts are made if all fail, and how long that takes.
    fn attempts(patience: &Patience, error: &Error) -> (u32, Duration) {
        let (begun, mut attempts) = (patience.now(), 0);
        let failed = patience.run(|| -> Result<()> {
            attempts += 1;
            Err(error.clone())
        });
        assert_eq!(failed.unwrap_err().kind(), error.kind());
        (attempts, patience.now().saturating_sub(begun))
    }

    #[test]
    fn only_what_may_help_is_tried_again() {
        let patience = patience();
        for kind in [ErrorKind::NotFound, ErrorKind::SourceChanged, ErrorKind::PermissionDenied] {
            assert_eq!(attempts(&patience, &failure(kind)), (1, Duration::ZERO));
        }
        let (count, took) = attempts(&patience, &failure(ErrorKind::ConnectionLost));
        assert_eq!(count, 6);
        assert!(took > Duration::from_secs(6) && took < Duration::from_secs(15), "{took:?}");
    }

    #[test]
    fn a_host_that_never_answered_is_given_up_soon() {
        for kind in [ErrorKind::Unreachable, ErrorKind::ConnectionLost] {
            let (count, took) = attempts(&patience(), &failure(kind));
            assert!(count == 4 && took < Duration::from_secs(2), "{count} attempts in {took:?}");
        }
    }

    #[test]
    fn long_waits_are_told_with_their_cause() {
        let (patience, told) = (patience(), Arc::new(Mutex::new(Vec::new())));
        let heard = Arc::clone(&told);
        patience.watch(&(Arc::new(move |error: &Error, wait| heard.lock().push((error.kind(), wait))) as RetryWatcher));
        patience.run(|| Ok(())).unwrap();
        attempts(&patience, &failure(ErrorKind::ConnectionLost));
        let told = told.lock();
        // Pauses vary: of the five, the last two are always long enough, and the third may be.
        assert!(
            (2..=3).contains(&told.len()) && told.iter().all(|(kind, wait)| *kind == ErrorKind::ConnectionLost && *wait >= TOLD),
            "{told:?}"
        );
    }

    #[test]
    fn a_service_that_only_refuses_is_given_up_after_minutes() {
        let (count, took) = attempts(&patience(), &failure(ErrorKind::Throttled));
        assert!(count > 10 && took > GIVE_UP / 2 && took < GIVE_UP + Duration::from_secs(20), "{count} attempts in {took:?}");
        let hours = failure(ErrorKind::Throttled).with_retry_after(Duration::from_hours(2));
        assert_eq!(attempts(&patience(), &hours), (1, Duration::ZERO));
    }

    #[test]
    fn the_service_says_how_long_to_wait() {
        let patience = patience();
        let mut refusals = 2;
        let answer = patience.run(|| {
            if refusals == 0 {
                return Ok(7);
            }
            refusals -= 1;
            Err(failure(ErrorKind::Throttled).with_retry_after(Duration::from_secs(3)))
        });
        assert_eq!(answer.unwrap(), 7);
        assert!(patience.now() >= Duration::from_secs(6));
    }

    #[test]
    fn what_clears_up_after_an_interrupt_makes_one_attempt() {
        let patience = patience();
        patience.clone().interrupt();
        let mut attempts = 0;
        let failed = clearing(|| {
            patience.run(|| -> Result<()> {
                attempts += 1;
                Err(failure(ErrorKind::ConnectionLost))
            })
        });
        assert_eq!((failed.unwrap_err().kind(), attempts), (ErrorKind::Cancelled, 1));
        assert_eq!(patience.now(), Duration::ZERO);
    }
}
