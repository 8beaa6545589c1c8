//! Writes a transfer into the history while it goes on, on a thread of its own: the transfer never waits for it, and never fails by it.

use std::path::Path;
use std::sync::Once;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::History;
use super::beginning::Beginning;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Sampled, Stage, Totals, Tuned};
use crate::optimizer::{Decision, Listed};

/// Intervals and decisions that wait to be written; further ones are dropped.
const WAITING: usize = 1024;

/// How long what was measured may stay unwritten, and how much of it.
const EVERY: Duration = Duration::from_secs(5);
const BATCH: usize = 256;

/// How long the end of a transfer waits for the writing of its record.
const PATIENCE: Duration = Duration::from_secs(3);

/// Intervals, and decisions, of which each is kept; of as many further ones every second is, and so on.
const EACH: u64 = 2000;

/// What a control loop tells the history of its transfer: nothing is waited for, and what there is no room for is dropped.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    entries: Option<Sender<Entry>>,
}

/// One thing to write.
#[derive(Debug)]
pub(super) enum Entry {
    Interval(Box<IntervalRow>),
    Decision(Tuned),
    End(Box<Ending>),
}

/// A measured interval, and what was in effect.
#[derive(Debug, Clone)]
pub(super) struct IntervalRow {
    pub(super) sampled: Sampled,
    pub(super) length: Duration,
    pub(super) parallelism: u16,
    pub(super) pipelining: u16,
    pub(super) judged: Judged,
}

/// Whether an interval says something of its setting: at the end of the work, or of a session, whatever runs runs dry, and where other
/// transfers of the host leave no higher rate, any setting moves the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judged {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// How a transfer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// All items are there.
    Complete,
    /// Some items failed.
    Incomplete,
    /// It was cancelled.
    Cancelled,
    /// It ended early, by an error of this kind.
    Failed(ErrorKind),
}

/// What is known when a transfer has ended.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    pub(crate) end: End,
    pub(crate) totals: Totals,
    pub(crate) listed: Listed,
    pub(crate) bottleneck: Option<Stage>,
    pub(crate) rate_limited: bool,
}

/// The writing of one transfer.
pub(crate) struct Recording {
    recorder: Recorder,
    writer: Option<(JoinHandle<()>, Receiver<()>)>,
}

impl Recorder {
    /// Tells of an interval of that length, in which the streams and files had the limits of a decision.
    pub(crate) fn interval(&self, sampled: &Sampled, length: Duration, decision: &Decision, judged: Judged) {
        if let Some(entries) = &self.entries {
            let (parallelism, pipelining) = (decision.parallelism, decision.pipelining);
            // What was in flight does not follow from the sizes of the files then.
            let judged = if decision.shares.is_empty() { judged } else { Judged::No };
            let row = IntervalRow { sampled: sampled.clone(), length, parallelism, pipelining, judged };
            let _ = entries.try_send(Entry::Interval(Box::new(row)));
        }
    }

    /// Tells of a decision; of an error that ended the tuning only its kind, since its text may name files.
    pub(crate) fn decision(&self, tuned: &Tuned, ended_by: Option<ErrorKind>) {
        if let Some(entries) = &self.entries {
            let mut tuned = tuned.clone();
            if let Some(kind) = ended_by {
                tuned.decision.reason = format!("tuning ended: {}", kind.name());
            }
            let _ = entries.try_send(Entry::Decision(tuned));
        }
    }
}

#[cfg(test)]
impl Recorder {
    /// One that keeps in memory what it is told, and what tells which of the intervals were judged.
    pub(crate) fn of_a_test() -> (Self, impl Fn() -> Vec<Judged>) {
        let (entries, received) = bounded(WAITING);
        let judged = move || {
            let intervals = received.try_iter().filter_map(|entry| match entry {
                Entry::Interval(row) => Some(row.judged),
                Entry::Decision(_) | Entry::End(_) => None,
            });
            intervals.collect::<Vec<_>>()
        };
        (Self { entries: Some(entries) }, judged)
    }
}

impl End {
    pub(crate) fn of(result: &Result<()>, totals: &Totals) -> Self {
        match result {
            Ok(()) if totals.failed == 0 => Self::Complete,
            Ok(()) => Self::Incomplete,
            Err(error) if error.kind() == ErrorKind::Cancelled => Self::Cancelled,
            Err(error) => Self::Failed(error.kind()),
        }
    }
}

impl Recording {
    /// Begins to write, or nothing where there is nothing to be written.
    pub(crate) fn begin(beginning: Option<Beginning>, optimizer: &str) -> Self {
        let nothing = Self { recorder: Recorder::default(), writer: None };
        let Some(mut beginning) = beginning else { return nothing };
        optimizer.clone_into(&mut beginning.optimizer);
        let (entries, received) = bounded(WAITING);
        let (report, written) = bounded(1);
        let write = move || {
            if let Err(error) = beginning.file.clone().and_then(|file| keep(&file, &beginning, &received)) {
                warn(&error);
            }
            let _ = report.send(());
        };
        match std::thread::Builder::new().name("edt-history".to_owned()).spawn(write) {
            Ok(thread) => Self { recorder: Recorder { entries: Some(entries) }, writer: Some((thread, written)) },
            Err(cause) => {
                warn(&Error::io("could not start the thread of the history", &cause));
                nothing
            }
        }
    }

    /// What the control loops of the transfer tell it to.
    pub(crate) fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Writes the end. Waits for that no longer than a moment: a disk or a lock that hangs keeps nobody from the end of a transfer.
    pub(crate) fn finish(self, ending: Ending) {
        let (Some(entries), Some((thread, written))) = (self.recorder.entries, self.writer) else { return };
        let late = Instant::now() + PATIENCE;
        // A writer that has failed takes nothing any more, and has said so.
        let _ = entries.send_deadline(Entry::End(Box::new(ending)), late);
        drop(entries);
        if written.recv_deadline(late) == Err(RecvTimeoutError::Timeout) {
            warn(&Error::new(ErrorKind::Io, "the history was too slow to be written").with_hint("see docs/history.md"));
            return;
        }
        let _ = thread.join();
    }
}

/// Writes a transfer from its beginning to its end. Without an end, as when the process ends early, its row stays `unfinished`.
fn keep(path: &Path, beginning: &Beginning, entries: &Receiver<Entry>) -> Result<()> {
    let mut history = History::open_at(path)?.in_background()?;
    let transfer = history.begin(beginning)?;
    if let Err(error) = history.prune_a_few() {
        tracing::debug!("could not remove old transfers from the history: {error}");
    }
    let mut batch = Batch::default();
    let mut written = Instant::now();
    loop {
        match entries.recv_deadline(written + EVERY) {
            Ok(Entry::End(_)) if history.has_removed(transfer) => return Ok(()),
            Ok(Entry::End(ending)) => return history.end(transfer, &batch, &ending),
            Ok(Entry::Interval(row)) => batch.intervals.add(*row),
            Ok(Entry::Decision(tuned)) => batch.decisions.add(tuned),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return history.write(transfer, &batch),
        }
        if batch.is_due(written) {
            // What could not be written, as where others write for long, is tried again with what follows.
            if batch.rows() > 0 && history.write(transfer, &batch).is_ok() {
                batch.clear();
            } else if history.has_removed(transfer) {
                return Ok(());
            }
            written = Instant::now();
        }
    }
}

/// What waits to be written together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) intervals: Series<IntervalRow>,
    pub(super) decisions: Series<Tuned>,
}

impl Batch {
    /// Whether it is to be written, if that was done last at a moment.
    fn is_due(&self, written: Instant) -> bool {
        written.elapsed() >= EVERY || (self.rows() >= BATCH && self.rows().is_multiple_of(BATCH))
    }

    fn rows(&self) -> usize {
        self.intervals.rows.len() + self.decisions.rows.len()
    }

    fn clear(&mut self) {
        self.intervals.rows.clear();
        self.decisions.rows.clear();
    }
}

/// Rows of a transfer with their numbers; the longer it takes, the fewer of them are kept.
pub(super) struct Series<T> {
    pub(super) rows: Vec<(u64, T)>,
    seen: u64,
    kept: u64,
    next: u64,
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), seen: 0, kept: 0, next: 0 }
    }
}

impl<T> Series<T> {
    fn add(&mut self, row: T) {
        let number = self.seen;
        self.seen += 1;
        if number == self.next {
            self.rows.push((number, row));
            self.kept += 1;
            self.next = number + 1 + self.kept / EACH;
        }
    }
}

/// Says once in a process why there is no history.
fn warn(error: &Error) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let hint = error.hint().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
        tracing::warn!("the history of transfers is not kept: {error}{hint}");
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{sampled, tuned};
    use super::*;
    use crate::optimizer::SizeShare;

    #[test]
    fn where_streams_are_divided_by_size_an_interval_says_nothing_of_its_setting() {
        let (recorder, judged) = Recorder::of_a_test();
        let usual = tuned(4).decision;
        let share = SizeShare { exponent: 20, streams: 4, parallelism: 1 };
        let divided = Decision { shares: vec![share], ..usual.clone() };
        for decision in [&usual, &divided] {
            recorder.interval(&sampled(1, 4.0), Duration::from_secs(1), decision, Judged::Yes);
        }
        assert_eq!(judged(), [Judged::Yes, Judged::No]);
    }

    #[test]
    fn the_longer_a_transfer_the_fewer_of_its_rows_are_kept() {
        let mut series = Series::default();
        (0..86_400).for_each(|row| series.add(row));
        let numbers: Vec<u64> = series.rows.iter().map(|(number, _)| *number).collect();
        assert!(numbers[..2000].iter().copied().eq(0..2000));
        assert_eq!(numbers[2001] - numbers[2000], 2);
        assert!(numbers.len() < 20_000, "{}", numbers.len());
        assert!(series.rows.iter().all(|(number, row)| number == row));
    }

    #[test]
    fn an_end_is_named_by_what_became_of_the_items() {
        let (whole, failed) = (Totals::default(), Totals { failed: 1, ..Totals::default() });
        let error = |kind| Err(Error::new(kind, "x"));
        assert_eq!(End::of(&Ok(()), &whole), End::Complete);
        assert_eq!(End::of(&Ok(()), &failed), End::Incomplete);
        assert_eq!(End::of(&error(ErrorKind::Cancelled), &whole), End::Cancelled);
        assert_eq!(End::of(&error(ErrorKind::NoSpace), &whole), End::Failed(ErrorKind::NoSpace));
    }
}
