//! Runs the sessions of a transfer, one after the other, until the work is complete or cannot go on.

use std::sync::Arc;
use std::time::Duration;

use crate::control::Outcome;
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::event::{Event, EventSender, Totals};
use crate::history::{End, Ending, Recording};
use crate::link::client::{Session, Target};
use crate::optimizer::guard::Guard;
use crate::optimizer::{Beginning, Decision, Observation, Optimizer, Policy};
use crate::options::{RunMode, TransferOptions};
use crate::pipeline::account::Account;
use crate::report::{Report, human_bytes, human_count};
use crate::session::{self, Steering, Work};
use crate::sync::Mutex;
use crate::transfer::explanation::explain;
use crate::transfer::settings::policy;
use crate::transfer::verdict::judge;

/// Before the first retry of a connection; doubled for each further one, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(200);

const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Runs sessions until the work is complete or cannot go on.
pub(super) struct Runner {
    pub(super) optimizer: SharedOptimizer,
    pub(super) sources: Vec<Endpoint>,
    pub(super) destination: Endpoint,
    pub(super) options: TransferOptions,
    pub(super) work: Work,
    pub(super) target: Option<Target>,
    pub(super) steering: Steering,
    pub(super) recording: Recording,
    pub(super) outcome: Outcome,
    /// Failures of connections without any progress in between.
    pub(super) failures: u32,
    /// The progress up to the last failure.
    pub(super) progress: u64,
}

impl Runner {
    pub(super) fn run(mut self, peer: Option<Session>) -> Result<Report> {
        let result = self.attempts(peer);
        let account = Arc::clone(&self.steering.account);
        let (sources, destination, options, optimizer) = (self.sources, self.destination, self.options, self.optimizer.name);
        let ended = Ended { sources, destination, options, optimizer, recording: self.recording };
        ended.report(result, self.outcome, &account, &self.steering.settings.events)
    }

    fn attempts(&mut self, mut peer: Option<Session>) -> Result<()> {
        loop {
            let optimizer = Box::new(self.optimizer.clone());
            let (result, outcome) = session::run(&self.work, peer.take(), &self.steering, optimizer);
            self.outcome.extend(outcome);
            // Until another session begins, nothing is moved.
            self.steering.settings.member.leave();
            let Err(error) = result else { return Ok(()) };
            // A server that is full says so in the session: before anything has begun that is for the user to hear.
            if error.retry() == Retry::Throttled && self.failures == 0 && self.steering.account.progress() == 0 {
                return Err(error);
            }
            let session = self.reconnect(error)?;
            self.renew(session.limits.max_streams);
            self.steering.account.restart();
            peer = Some(session);
        }
    }

    /// Keeps to what the server allows now: it may have been started anew, with another limit.
    fn renew(&mut self, allowed: u16) {
        let (policy, set_by) = policy(&self.options, &self.work, allowed);
        let settings = &mut self.steering.settings;
        (settings.policy, settings.set_by) = (policy, set_by);
    }

    /// Connects again after a failure that may pass, with growing pauses, until too many attempts in a row brought no progress.
    fn reconnect(&mut self, mut error: Error) -> Result<Session> {
        let account = Arc::clone(&self.steering.account);
        let mut attempts = 0;
        loop {
            if account.progress() != self.progress {
                (self.progress, self.failures) = (account.progress(), 0);
            }
            self.failures += 1;
            if self.steering.cancel.is_set() {
                return Err(cancelled());
            }
            let last = self.failures > self.options.retries;
            let Some(target) = self.target.as_ref().filter(|_| error.retry() != Retry::Never && !last) else {
                let broke_off = attempts > 0 || (last && error.retry() != Retry::Never && self.target.is_some());
                return Err(if broke_off { broken_off(&error, self.failures - 1, &account.totals()) } else { error });
            };
            let wait = (FIRST_WAIT * 2u32.pow(self.failures.min(8) - 1)).min(LONGEST_WAIT);
            account.retried("the connection", &error, u64::try_from(wait.as_millis()).unwrap_or(0));
            if self.steering.cancel.wait(wait) {
                return Err(cancelled());
            }
            attempts += 1;
            match self.work.call(target, &self.options) {
                Ok(session) => return Ok(session),
                Err(again) => error = again,
            }
        }
    }
}

/// What a report says of a transfer besides what became of its items.
pub(super) struct Ended {
    pub(super) sources: Vec<Endpoint>,
    pub(super) destination: Endpoint,
    pub(super) options: TransferOptions,
    /// The optimizer's name.
    pub(super) optimizer: String,
    pub(super) recording: Recording,
}

impl Ended {
    /// Tells the end, closes the account, and makes the report unless the transfer as a whole ended early.
    pub(super) fn report(self, result: Result<()>, outcome: Outcome, account: &Account, events: &EventSender) -> Result<Report> {
        let totals = account.totals();
        events.send(Event::Finished(totals));
        // Whatever the end was, the manifest tells what is there. An end before the first file replaces no earlier one.
        let (failures, manifest) = account.close();
        let manifest = if result.is_err() && manifest.is_empty() { Ok(manifest) } else { manifest.finish() };
        let result = result.and_then(|()| accounted_for(account, self.options.run));
        let verdict = judge(&totals, &outcome, &self.options, [&self.sources[0], &self.destination]);
        let explanation = explain(&totals, &outcome, &verdict);
        self.recording.finish(Ending {
            end: End::of(&result, &totals),
            totals,
            listed: outcome.listed,
            bottleneck: verdict.bottleneck,
            rate_limited: verdict.rate_limited || verdict.host_limited,
        });
        result?;
        Ok(Report {
            source: self.sources.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(" "),
            destination: self.destination.to_string(),
            optimizer: self.optimizer,
            totals,
            timeline: outcome.timeline,
            decisions: outcome.decisions,
            bottleneck: verdict.bottleneck,
            rate_limited: verdict.rate_limited,
            host_limited: verdict.host_limited,
            explanation,
            advice: verdict.advice,
            failures,
            dry_run: self.options.run == RunMode::DryRun,
            manifest: manifest?,
        })
    }
}

/// An error if an item was listed that is neither there nor among the failures.
fn accounted_for(account: &Account, run: RunMode) -> Result<()> {
    match account.unaccounted() {
        items if items > 0 && run == RunMode::Copy => {
            Err(Error::new(ErrorKind::Protocol, format!("{items} items are not accounted for"))
                .with_hint("run the same command again, and report this as a defect of edt"))
        }
        _ => Ok(()),
    }
}

/// The end of a transfer that was under way: says so, what arrived, and that it can be resumed, before why it cannot go on.
fn broken_off(error: &Error, attempts: u32, totals: &Totals) -> Error {
    let resume = "run the same command again to resume";
    let what = format!(
        "the transfer broke off after {} and {}, and {} brought it no further",
        human_count(totals.files_done, "file"),
        human_bytes(totals.bytes_verified),
        human_count(u64::from(attempts), "new attempt"),
    );
    let hint = error.hint().map_or_else(
        || resume.to_owned(),
        |hint| if hint == resume { resume.to_owned() } else { format!("{hint}, then {resume}") },
    );
    Error::new(error.kind(), what).with_cause(error).with_hint(hint)
}

pub(super) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the transfer was interrupted").with_hint("run the same command again to resume")
}

/// Whether a guard stands between an optimizer and the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guarding {
    /// It does.
    Guarded,
    /// Only the clamp of the control loop.
    Unguarded,
}

/// One optimizer for all sessions of a transfer, so that a new connection does not forget what was learned.
#[derive(Clone)]
pub(super) struct SharedOptimizer {
    name: String,
    inner: Arc<Mutex<Box<dyn Optimizer>>>,
}

impl SharedOptimizer {
    pub(super) fn new(inner: Box<dyn Optimizer>, options: &TransferOptions, guarding: Guarding) -> Self {
        let name = match (options.optimizer.as_str(), inner.name()) {
            ("auto", "model") => "auto (model)".to_owned(),
            (_, name) => name.to_owned(),
        };
        let inner: Box<dyn Optimizer> = match guarding {
            Guarding::Guarded => Box::new(Guard::new(inner)),
            Guarding::Unguarded => inner,
        };
        Self { name, inner: Arc::new(Mutex::new(inner)) }
    }
}

impl Optimizer for SharedOptimizer {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.inner.lock().start(policy)
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        self.inner.lock().decide(observation)
    }

    fn restrain(&mut self, beginning: &Beginning) -> Option<u64> {
        self.inner.lock().restrain(beginning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_that_broke_off_says_what_arrived_and_how_to_go_on() {
        let totals = Totals { files_done: 1, bytes_verified: 7_000_000, ..Totals::default() };
        let cause = Error::new(ErrorKind::Unreachable, "could not connect to `h:1`").with_hint("check that it runs");
        let error = broken_off(&cause, 5, &totals);
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert_eq!(error.what(), "the transfer broke off after 1 file and 7.0 MB, and 5 new attempts brought it no further");
        assert_eq!(error.cause(), Some("could not connect to `h:1`"));
        assert_eq!(error.hint(), Some("check that it runs, then run the same command again to resume"));
        let bare = broken_off(&Error::new(ErrorKind::ConnectionLost, "lost"), 1, &totals);
        assert_eq!(bare.hint(), Some("run the same command again to resume"));
    }
}
