//! Runs an exploration: transfers under random concurrencies, one after the other until the time is over.
//!
//! One stage is measured from memory to memory, with what a server makes up or throws away. Three stages are measured by copies of real
//! data into a scratch directory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, Sampled};
use crate::explore::scratch::Scratch;
use crate::explore::{BufferSizes, ExploreOptions, ExploredPath, Measured, PathSample};
use crate::optimizer::Observation;
use crate::optimizer::explore::{Explore, Stages};
use crate::pipeline::stop::Stop;
use crate::protocol::message::MadeUp;
use crate::report::Report;
use crate::transfer::{Canceller, Transfer, TransferHandle};

/// How often a running exploration looks at its time, and tells how it goes.
const LOOK: Duration = Duration::from_millis(100);

/// How long an exploration waits after a failure before it goes on.
const AGAIN: Duration = Duration::from_secs(1);

/// Longest exploration: a day.
const LONGEST: Duration = Duration::from_hours(24);

/// Bytes of a made-up file: 1 TiB. There is one for every second, so that no path moves all of them in its time.
const MADE_UP: u64 = 1 << 40;

/// Fewest and most made-up files: enough for the streams to work on several, and in all less than 2^63 bytes.
const MADE_UP_FILES: (u64, u64) = (64, 1 << 22);

/// How an exploration goes.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Time that is left.
    pub left: Duration,
    /// The last thing measured, if anything was.
    pub sampled: Option<Sampled>,
}

/// An exploration of the path between two endpoints.
pub struct Exploration {
    source: Endpoint,
    destination: Endpoint,
    options: ExploreOptions,
    stop: Arc<Stop>,
}

impl Exploration {
    /// Of the machines of two endpoints; with three stages, of the data of the source and of a directory at the destination.
    pub fn new(source: impl Into<Endpoint>, destination: impl Into<Endpoint>, options: ExploreOptions) -> Self {
        Self { source: source.into(), destination: destination.into(), options, stop: Arc::default() }
    }

    /// A handle that ends the exploration early from another thread.
    pub fn canceller(&self) -> Canceller {
        Canceller::new(Arc::clone(&self.stop))
    }

    /// Explores for the whole duration, and tells about ten times a second how it goes. An early end is an error.
    pub fn run(&self, mut watch: impl FnMut(&Progress)) -> Result<ExploredPath> {
        let options = &self.options;
        if options.duration > LONGEST {
            return Err(Error::new(ErrorKind::InvalidInput, "an exploration takes at most a day"));
        }
        let scratch = match options.stages {
            Stages::One => None,
            Stages::Three => Some(Scratch::below(&self.destination, &options.transfer)?),
        };
        let measured = self.rounds(scratch.as_ref(), &mut watch);
        if let Some(scratch) = scratch {
            scratch.remove(&self.source, &options.transfer);
        }
        measured?.into_path(&self.source, &self.destination, options.stages)
    }

    fn rounds(&self, scratch: Option<&Scratch>, watch: &mut dyn FnMut(&Progress)) -> Result<Measured> {
        let (mut log, mut seed) = (Log::default(), self.options.seed);
        loop {
            let round = self.round(scratch, seed, &mut log, watch);
            seed = seed.wrapping_add(1);
            if self.stop.is_set() {
                return Err(interrupted());
            }
            if let Err(error) = round {
                // What was measured before stays true: a later round that fails is tried again while there is time.
                if log.samples.is_empty() {
                    return Err(error);
                }
                tracing::warn!(%error, "a part of the exploration failed, and is tried again");
                self.stop.wait(AGAIN);
            }
            if let Some(passed) = log.passed().filter(|passed| *passed >= self.options.duration) {
                return Ok(log.measured(passed));
            }
        }
    }

    /// One transfer, to its end or until the time is over.
    fn round(&self, scratch: Option<&Scratch>, seed: u64, log: &mut Log, watch: &mut dyn FnMut(&Progress)) -> Result<()> {
        let explore = Explore::new(self.options.stages, seed);
        let recording = explore.recording();
        let transfer = self.transfer(scratch)?.with_options(self.options.transfer.clone());
        let handle = transfer.with_optimizer(explore).without_guard().start()?;
        let now = Instant::now();
        let begun = *log.begun.get_or_insert(now);
        let ended = self.follow(&handle, begun + self.options.duration, watch);
        handle.cancel();
        let result = handle.join();
        log.add(&recording.take(), now - begun);
        match result {
            Ok(report) => moved(&report),
            Err(error) if ended || error.kind() != ErrorKind::Cancelled => Err(error),
            Err(_) => Ok(()),
        }
    }

    fn transfer(&self, scratch: Option<&Scratch>) -> Result<Transfer> {
        if let Some(scratch) = scratch {
            return Ok(Transfer::new(self.source.clone(), scratch.target().clone()).without_resuming());
        }
        let count = self.options.duration.as_secs().clamp(MADE_UP_FILES.0, MADE_UP_FILES.1);
        Transfer::memory_to_memory(&self.source, &self.destination, MadeUp { count, size: MADE_UP })
    }

    /// Waits for the end of a transfer, true, or of the time, false.
    fn follow(&self, handle: &TransferHandle, deadline: Instant, watch: &mut dyn FnMut(&Progress)) -> bool {
        let events = handle.events();
        let mut sampled = None;
        loop {
            for event in events.try_iter() {
                if let Event::Sampled(latest) = event {
                    sampled = Some(latest);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            watch(&Progress { left, sampled: sampled.clone() });
            if handle.is_finished() {
                return true;
            }
            if left.is_zero() || self.stop.wait(left.min(LOOK)) {
                return false;
            }
        }
    }
}

/// What several transfers observed, on one time line.
#[derive(Default)]
struct Log {
    /// When the first transfer had begun.
    begun: Option<Instant>,
    samples: Vec<PathSample>,
    buffers: BufferSizes,
}

impl Log {
    /// Adds what a transfer observed that began some time after the first.
    fn add(&mut self, observations: &[Observation], after: Duration) {
        self.samples.extend(observations.iter().map(|observation| PathSample::of(observation, after.as_secs_f64())));
        if let Some(last) = observations.last() {
            let buffers = last.buffer_free;
            self.buffers = BufferSizes { sender: buffers.sender_capacity, receiver: buffers.receiver_capacity };
        }
    }

    fn passed(&self) -> Option<Duration> {
        self.begun.map(|begun| begun.elapsed())
    }

    fn measured(self, time: Duration) -> Measured {
        Measured { samples: self.samples, buffers: self.buffers, seconds: time.as_secs_f64() }
    }
}

/// An error if a transfer that ran to its end shows that another one will tell nothing.
fn moved(report: &Report) -> Result<()> {
    if let Some(failure) = report.failures.first() {
        let error = Error::new(ErrorKind::Io, failure.what.clone());
        let error = failure.cause.iter().fold(error, Error::with_cause);
        return Err(failure.hint.iter().fold(error, Error::with_hint));
    }
    if report.totals.bytes_done == 0 {
        return Err(Error::new(ErrorKind::InvalidInput, format!("could not explore with `{}`", report.source))
            .with_cause("it holds no data")
            .with_hint("name a file or directory of some hundred megabytes"));
    }
    Ok(())
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Cancelled, "the exploration was interrupted").with_hint("run the same command again; nothing was kept")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::TransferOptions;
    use std::num::NonZeroU16;

    fn options(stages: Stages, milliseconds: u64) -> ExploreOptions {
        let transfer = TransferOptions {
            interval: Some(Duration::from_millis(50)),
            max_streams: NonZeroU16::new(4).unwrap(),
            ..TransferOptions::default()
        };
        ExploreOptions { duration: Duration::from_millis(milliseconds), stages, transfer, ..ExploreOptions::default() }
    }

    fn names(place: &tempfile::TempDir) -> Vec<std::ffi::OsString> {
        std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_path_within_memory_is_explored_in_its_time() {
        let mut shown = 0;
        let path = Exploration::new("/no/such/place", "null:", options(Stages::One, 800)).run(|_| shown += 1).unwrap();
        assert!(path.samples.len() >= 2 && shown >= 5, "{} samples, shown {shown} times", path.samples.len());
        assert!((0.8..5.0).contains(&path.seconds) && path.samples.iter().all(|sample| sample.elapsed_s < path.seconds + 0.1));
        assert!(path.samples.iter().all(|sample| (0.5..4.5).contains(&sample.concurrency.network)));
        assert_eq!((path.stages, path.source.as_str()), (1, "/no/such/place"));
        assert!(path.buffers.sender > 0 && path.buffers.receiver > 0);
    }

    #[test]
    fn a_copy_is_repeated_until_the_time_is_over_and_leaves_nothing() {
        let (source, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // Several files: where few are left, an interval says more about the end of the work than about the path.
        for name in 0..12 {
            std::fs::write(source.path().join(format!("{name}")), vec![7; 512 << 10]).unwrap();
        }
        let mut options = options(Stages::Three, 2000);
        // 6 MiB take four workers 0.8 s.
        options.transfer.worker_rate = Some(2e6);
        let path = Exploration::new(source.path(), target.path(), options).run(|_| {}).unwrap();
        assert!(path.seconds >= 2.0 && path.samples.len() >= 2);
        assert!(path.samples.is_sorted_by(|a, b| a.elapsed_s < b.elapsed_s));
        assert!(path.estimate.bandwidth.read.is_some() && path.estimate.optimum.write.is_some());
        assert!(names(&target).is_empty(), "{:?}", names(&target));
        assert_eq!(names(&source).len(), 12);
    }

    #[test]
    fn an_interrupted_exploration_leaves_nothing_and_says_so() {
        let (source, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(source.path().join("a.bin"), vec![7; 3 << 20]).unwrap();
        let mut options = options(Stages::Three, 600_000);
        options.transfer.worker_rate = Some(100e3);
        let exploration = Exploration::new(source.path(), target.path(), options);
        let canceller = exploration.canceller();
        let mut looks = 0;
        let error = exploration.run(|_| {
            looks += 1;
            if looks == 3 {
                canceller.cancel();
            }
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(names(&target).is_empty(), "{:?}", names(&target));
    }

    #[test]
    fn a_source_without_data_and_a_destination_that_is_none_are_refused_at_once() {
        let (source, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let begun = Instant::now();
        let empty = Exploration::new(source.path(), target.path(), options(Stages::Three, 600_000)).run(|_| {}).unwrap_err();
        assert_eq!((empty.kind(), empty.cause()), (ErrorKind::InvalidInput, Some("it holds no data")));
        assert!(names(&target).is_empty());
        let missing = target.path().join("missing");
        let error = Exploration::new(source.path(), missing, options(Stages::Three, 600_000)).run(|_| {}).unwrap_err();
        assert!(error.hint().unwrap().contains("existing directory"), "{error}");
        assert!(begun.elapsed() < Duration::from_mins(1));
    }
}
