//! A running transfer that Java asks how far it is, and its report.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use edt::error::Retry;
use edt::event::{Failure, Planned, Sampled};
use edt::sync::Mutex;
use edt::transfer::Canceller;
use edt::{ErrorKind, Event, Report, Result, Transfer, TransferHandle};

use crate::fields::{Block, mistaken};

/// What Java is told of the progress: files done, bytes verified, files planned, bytes planned, whether these are all, bytes per second,
/// streams.
pub(crate) const PROGRESS: usize = 7;

/// A transfer on its way.
pub(crate) struct Running {
    events: Receiver<Event>,
    canceller: Canceller,
    seen: Mutex<(Planned, Option<Sampled>)>,
    /// `None` once it was joined.
    handle: Mutex<Option<TransferHandle>>,
}

impl Running {
    /// Starts a transfer.
    pub(crate) fn start(transfer: Transfer) -> Result<Self> {
        let handle = transfer.start()?;
        let (events, canceller) = (handle.events(), handle.canceller());
        Ok(Self { events, canceller, seen: Mutex::default(), handle: Mutex::new(Some(handle)) })
    }

    /// Waits until the transfer ends, at most so long; says whether it has ended.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        loop {
            match self.events.recv_deadline(until) {
                Ok(Event::Planned(planned)) => self.seen.lock().0 = planned,
                Ok(Event::Sampled(sampled)) => self.seen.lock().1 = Some(sampled),
                Ok(Event::Finished(_)) | Err(RecvTimeoutError::Disconnected) => return true,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> [i64; PROGRESS] {
        let (planned, sampled) = &*self.seen.lock();
        let totals = sampled.as_ref().map(|sampled| sampled.totals).unwrap_or_default();
        let speed = sampled.as_ref().map(|sampled| (sampled.throughput.network, sampled.concurrency.network)).unwrap_or_default();
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        [
            whole(totals.files_done + totals.files_skipped),
            whole(totals.bytes_verified + totals.bytes_resumed + totals.bytes_skipped),
            whole(planned.items),
            whole(planned.bytes),
            i64::from(planned.complete),
            rounded(speed.0),
            rounded(speed.1),
        ]
    }

    /// Asks it to end; what has arrived is kept.
    pub(crate) fn cancel(&self) {
        self.canceller.cancel();
    }

    /// Waits for the end: files done, files skipped, bytes done, bytes that were there already, items failed, then what failed.
    pub(crate) fn finish(&self) -> Result<Vec<u8>> {
        let handle = self.handle.lock().take().ok_or_else(|| mistaken("a transfer").with_cause("it was finished before"))?;
        let report = handle.join()?;
        Ok(told(&report))
    }
}

fn told(report: &Report) -> Vec<u8> {
    let totals = &report.totals;
    let mut block = Block::default();
    block.add(totals.files_done).add(totals.files_skipped);
    block.add(totals.bytes_done).add(totals.bytes_skipped + totals.bytes_resumed).add(totals.failed);
    for failure in &report.failures {
        let Failure { path, kind, what, cause, hint } = failure;
        block.add(path).add(kind).add(what).add_any(cause.as_ref()).add_any(hint.as_ref()).add(u8::from(is_transient(kind)));
    }
    block.into_bytes()
}

fn is_transient(kind: &str) -> bool {
    let found = (1..=u8::MAX).map(ErrorKind::from_code).find(|known| known.name() == kind);
    found.is_some_and(|known| known.retry() != Retry::Never)
}

#[expect(clippy::cast_possible_truncation, reason = "rates and streams are far below the limit, and only shown")]
fn rounded(number: f64) -> i64 {
    number.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;
    use crate::settings;
    use edt::TransferOptions;

    #[test]
    fn files_that_are_missing_are_told_and_the_others_arrive() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::create_dir_all(from.join("d")).unwrap();
        std::fs::write(from.join("d/a"), b"12345").unwrap();
        let block = format!("{}/\0{}/\0name\0lane\0file\0d/a\0file\0b\0", from.display(), to.display());
        let transfer = settings::transfer(block.as_bytes(), &TransferOptions::default()).unwrap();
        let running = Running::start(transfer).unwrap();
        while !running.wait(Duration::from_secs(1)) {}
        let report = running.finish().unwrap();
        let fields: Vec<&str> = Fields::of(&report).unwrap().collect();
        assert_eq!(fields[..5], ["1", "0", "5", "0", "1"]);
        assert_eq!((fields[5], fields[6], fields[10]), ("b", "not-found", "0"));
        assert_eq!(std::fs::read(to.join("d/a")).unwrap(), b"12345");
        assert!(running.finish().is_err());
    }

    #[test]
    fn what_a_retry_may_mend_is_transient() {
        assert!(
            is_transient("connection-lost") && is_transient("throttled") && !is_transient("not-found") && !is_transient("io")
        );
    }
}
