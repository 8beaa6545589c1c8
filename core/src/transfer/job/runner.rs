//! Runs a job under the control loop and accounts for what it made.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use crate::broker::Member;
use crate::control::{self, Outcome, Plant};
use crate::error::Result;
use crate::event::Totals;
use crate::metrics::{Processors, Sample, StageMeter, listed};
use crate::optimizer::{Decision, Listed as ListedSizes};
use crate::options::{RunMode, TransferOptions};
use crate::pipeline::limiter::Limiter;
use crate::pipeline::pool::WorkerPool;
use crate::protocol::message::{DoneItem, FileHeader, ItemKind, Key, Listed, ListedFiles, Meters, Skipped, StageMeters};
use crate::report::Report;
use crate::session::Steering;
use crate::transfer::job::gate::Gate;
use crate::transfer::job::{Job, Made, Shared, Way};
use crate::transfer::runner::{Ended, SharedOptimizer, cancelled};

/// The longest part that counts as one piece of work: those of longer ones go on for long after others have ended, and only they are counted.
const LONGEST_UNIT: u64 = 64 << 20;

/// A job that is about to run.
pub(in crate::transfer) struct JobRunner {
    pub(in crate::transfer) job: Box<dyn Job>,
    pub(in crate::transfer) optimizer: SharedOptimizer,
    pub(in crate::transfer) ended: Ended,
    pub(in crate::transfer) steering: Steering,
}

impl JobRunner {
    pub(in crate::transfer) fn run(self) -> Result<Report> {
        let Self { job, optimizer, ended, steering } = self;
        let (account, events) = (Arc::clone(&steering.account), steering.settings.events.clone());
        let planned = job.planned();
        account.listed(Listed { items: planned.len() as u64, bytes: job.bytes().unwrap_or(0), complete: true });
        if ended.options.run == RunMode::DryRun {
            for made in &planned {
                account.left_out(&wanted(made));
            }
            return ended.report(Ok(()), Outcome::default(), &account, &events);
        }
        let sizes = listed::told(&sizes(&planned, job.bytes()));
        let (result, outcome) = carry_out(job, optimizer, &ended.options, steering, sizes);
        for (made, number) in result.iter().flatten().zip(1..) {
            let (header, item) = described(made, number);
            account.done(&header, &item);
        }
        ended.report(result.map(drop), outcome, &account, &events)
    }
}

/// Carries out all parts; what was made is under its names, or nothing is.
fn carry_out(
    job: Box<dyn Job>,
    optimizer: SharedOptimizer,
    options: &TransferOptions,
    steering: Steering,
    listed: ListedFiles,
) -> (Result<Vec<Made>>, Outcome) {
    let Steering { account, cancel, settings, clock } = steering;
    let shared = Arc::new(Shared {
        job,
        gate: Gate::default(),
        stop: Arc::clone(&cancel),
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        storage: StageMeter::new(),
        network: StageMeter::new(),
        limiter: Limiter::new(options.limit_rate),
        account,
    });
    let worker = Arc::clone(&shared);
    let pool = WorkerPool::new("job", Arc::new(move |_| worker.work()));
    let (begun, member) = (Instant::now(), settings.member.clone());
    let mut plant = JobPlant { shared: &shared, pool: &pool, begun, buffer: options.buffer, most: 0, listed, member };
    let outcome = control::run(&mut plant, Box::new(optimizer), settings, &clock);
    pool.join();
    (conclude(&shared), outcome)
}

fn conclude(shared: &Shared) -> Result<Vec<Made>> {
    let finished = if shared.is_done() && !shared.stop.is_set() {
        shared.job.finish()
    } else {
        Err(shared.stop.error().unwrap_or_else(cancelled))
    };
    if finished.is_err() {
        shared.job.abandon();
    }
    finished
}

/// What the controller tunes: how many parts are carried out at once, by workers that wait for the network and for storage in turn.
struct JobPlant<'a> {
    shared: &'a Arc<Shared>,
    pool: &'a WorkerPool,
    begun: Instant,
    buffer: u64,
    most: u16,
    listed: ListedFiles,
    /// What limits this transfer for the sake of others of its host.
    member: Member,
}

impl JobPlant<'_> {
    fn moved(&self) -> u64 {
        self.shared.network.snapshot(Instant::now()).bytes
    }
}

impl Plant for JobPlant<'_> {
    fn sample(&mut self) -> Result<Sample> {
        let now = Instant::now();
        let (storage, network) = (self.shared.storage.snapshot(now), self.shared.network.snapshot(now));
        // The side that is not on this machine has no meter: nothing is known to keep its workers busy.
        let far = StageMeters { busy_us: 0, ..network };
        let (read, write) = match self.shared.job.way() {
            Way::Here => (far, storage),
            Way::There => (storage, far),
        };
        let half = Meters {
            at_us: u64::try_from((now - self.begun).as_micros()).unwrap_or(u64::MAX),
            read,
            network,
            write,
            buffer_free: self.buffer,
            buffer_capacity: self.buffer,
            bytes_left: self.shared.job.bytes().map(|bytes| bytes.saturating_sub(self.moved())),
            files_left: Some(self.shared.waiting() as u64),
            listed: Some(self.listed.clone()),
            host_rate: self.shared.limiter.meters(now),
            ..Meters::default()
        };
        let work_unit = work_unit(self.shared.job.bytes(), self.shared.job.parts());
        Ok(Sample { work_unit, processors: Processors::now(), ..Sample::from_halves(&half, &half) })
    }

    fn apply(&mut self, decision: &Decision) -> Result<()> {
        let workers = decision.concurrency.network.max(1);
        self.shared.gate.allow(workers);
        if let Some(rate) = self.member.rate() {
            self.shared.limiter.limit(rate, Instant::now());
        }
        self.most = self.most.max(workers);
        self.pool.resize(self.most);
        Ok(())
    }

    fn finished(&self) -> bool {
        let stopped = self.shared.stop.is_set();
        if stopped {
            self.shared.job.interrupt();
        }
        stopped || self.shared.is_done()
    }

    fn settled(&self) -> bool {
        let (active, allowed) = self.shared.gate.count();
        active == allowed || (active < allowed && self.shared.waiting() == 0)
    }

    fn totals(&self) -> Totals {
        self.shared.account.totals()
    }
}

/// What counts as a piece of work of so many bytes in so many parts, which are not cut: a part, but no more than [`LONGEST_UNIT`].
fn work_unit(bytes: Option<u64>, parts: usize) -> Option<u64> {
    bytes.map(|bytes| (bytes / (parts as u64).max(1)).min(LONGEST_UNIT))
}

fn wanted(made: &Made) -> Skipped {
    let (path, size) = (made.name.as_bytes().to_vec(), made.size);
    Skipped { path, size, wanted: true, ..Skipped::default() }
}

/// The sizes of the files that will be made. Where only those of all together are known, each gets its share; without any, none is listed.
fn sizes(planned: &[Made], bytes: Option<u64>) -> ListedSizes {
    let share = bytes.map(|bytes| bytes / (planned.len() as u64).max(1));
    let known = planned.iter().any(|made| made.size > 0);
    let mut sizes = ListedSizes::default();
    for size in planned.iter().filter_map(|made| if known { Some(made.size) } else { share }) {
        sizes.add(size);
    }
    sizes.complete = known || share.is_some();
    sizes
}

/// A made file in the terms of the account; one without digests is one that the far side has put together.
fn described(made: &Made, number: u32) -> (FileHeader, DoneItem) {
    let (crc64nvme, blake3) = made.digests.unzip();
    let header = FileHeader {
        file: number,
        path: made.name.as_bytes().to_vec(),
        kind: ItemKind::File,
        size: made.size,
        modified_ns: made.metadata.modified_ns,
        mode: made.metadata.mode,
        identity: Key([0; 16]),
        target: None,
        crc64nvme: crc64nvme.unwrap_or(0),
        blake3,
        sparse: false,
        copy_from: crc64nvme.is_none().then(Vec::new),
    };
    (header, DoneItem { file: number, crc64nvme: crc64nvme.unwrap_or(0), blake3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(size: u64) -> Made {
        Made { size, ..Made::default() }
    }

    #[test]
    fn a_part_is_a_piece_of_work_unless_it_is_long_or_of_unknown_size() {
        assert_eq!(work_unit(Some(48 << 20), 6), Some(8 << 20));
        assert_eq!(work_unit(Some(40 << 30), 4), Some(LONGEST_UNIT));
        assert_eq!((work_unit(None, 6), work_unit(Some(5), 0)), (None, Some(5)));
    }

    #[test]
    fn sizes_are_those_that_are_known_or_shares_or_nothing() {
        let known = sizes(&[made(0), made(1000)], Some(5));
        assert_eq!((known.files(), known.bytes(), known.complete), (2, 1000, true));
        let shared = sizes(&[made(0), made(0)], Some(3000));
        assert_eq!((shared.files(), shared.bytes(), shared.classes[0].exponent, shared.complete), (2, 3000, 10, true));
        let unknown = sizes(&[made(0), made(0)], None);
        assert_eq!((unknown.files(), unknown.complete), (0, false));
    }
}
