//! Transfers that a service carries out in its own way: parts that workers take, as many at once as the optimizer says.
//!
//! A table that is fetched from a Flight service is one: its parts are the service's endpoints, and what appears is one new file.

mod gate;
mod runner;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::error::{Error, Result};
use crate::metrics::StageMeter;
use crate::pipeline::account::Account;
use crate::pipeline::limiter::Limiter;
use crate::pipeline::stop::{Stop, guarded};
use crate::store::Metadata;
use crate::transfer::runner::cancelled;

use gate::Gate;

pub(super) use runner::JobRunner;

/// Work in parts. The parts are carried out by several threads, each once; nothing appears under its name before [`Job::finish`].
pub trait Job: Send + Sync {
    /// How many parts there are.
    fn parts(&self) -> usize;

    /// How many bytes the parts have together, if that is known.
    fn bytes(&self) -> Option<u64>;

    /// Where the bytes go.
    fn way(&self) -> Way;

    /// What will be made, for a dry run.
    fn planned(&self) -> Vec<Made>;

    /// Carries out a part; asks [`Progress::turn`] before each piece of it. Retries what may pass.
    fn carry_out(&self, part: usize, progress: &Progress) -> Result<()>;

    /// Brings what was made to its names, once all parts are carried out.
    fn finish(&self) -> Result<Vec<Made>>;

    /// Removes what was made, after a part failed or the transfer was cancelled.
    fn abandon(&self);

    /// Ends waiting, from any thread, as [`crate::store::Store::interrupt`] does.
    fn interrupt(&self);
}

/// Whether a job fetches or brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From a service to this machine.
    Here,
    /// From this machine to a service.
    There,
}

/// A file that a job made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Made {
    /// Its name at the destination, for people.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Modification time and mode.
    pub metadata: Metadata,
    /// Digests of its content, crc64nvme and BLAKE3, where they are known.
    pub digests: Option<(u64, [u8; 32])>,
}

/// What a worker of a job tells while it works, and what it keeps to.
pub struct Progress {
    shared: Arc<Shared>,
}

/// What the workers of a job share with whoever tunes and watches them.
struct Shared {
    job: Box<dyn Job>,
    gate: Gate,
    stop: Arc<Stop>,
    /// The next part that no worker has taken.
    next: AtomicUsize,
    done: AtomicUsize,
    storage: Arc<StageMeter>,
    network: Arc<StageMeter>,
    limiter: Limiter,
    account: Arc<Account>,
}

impl Progress {
    /// Waits while there are more workers than the optimizer wants; an error once the transfer ends.
    pub fn turn(&self) -> Result<()> {
        self.shared.gate.pause_if_surplus(&self.shared.stop);
        self.check()
    }

    /// An error once the transfer ends.
    pub fn check(&self) -> Result<()> {
        if self.shared.stop.is_set() { Err(self.shared.stop.error().unwrap_or_else(cancelled)) } else { Ok(()) }
    }

    /// Does what waits for the network: its time counts as work of the network stage.
    pub fn network<T>(&self, work: impl FnOnce() -> T) -> T {
        let _work = self.shared.network.work();
        work()
    }

    /// Does what reads or writes on this machine: its time counts as work of that stage.
    pub fn storage<T>(&self, work: impl FnOnce() -> T) -> T {
        let _work = self.shared.storage.work();
        work()
    }

    /// Counts bytes that came or went, and waits as long as the rate limit of the transfer asks.
    pub fn moved(&self, bytes: u64) {
        let shared = &self.shared;
        shared.network.add_bytes(bytes);
        shared.storage.add_bytes(bytes);
        shared.account.sent(bytes);
        shared.account.verified(bytes);
        let booking = shared.limiter.book(usize::try_from(bytes).unwrap_or(usize::MAX), Instant::now());
        while let Some(wait) = shared.limiter.wait(booking, Instant::now()) {
            if shared.stop.wait(wait) {
                return;
            }
        }
    }

    /// Says that something is tried again.
    pub fn retried(&self, place: &str, cause: &Error) {
        self.shared.account.retried(place, cause, 0);
    }
}

impl Shared {
    /// One worker's life: parts, as long as there are any.
    fn work(self: &Arc<Self>) {
        let progress = Progress { shared: Arc::clone(self) };
        while self.gate.enter(&self.stop) {
            let workers = (self.storage.worker(), self.network.worker());
            let part = self.next.fetch_add(1, Ordering::SeqCst);
            let more = part < self.job.parts();
            if more {
                match guarded(&self.stop, || self.job.carry_out(part, &progress)) {
                    Ok(()) => {
                        self.done.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(error) => self.stop.set(Some(error)),
                }
            }
            drop(workers);
            self.gate.leave();
            if !more {
                return;
            }
        }
    }

    /// Parts that are not taken yet.
    fn waiting(&self) -> usize {
        self.job.parts().saturating_sub(self.next.load(Ordering::SeqCst))
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst) >= self.job.parts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventSender;
    use crate::pipeline::manifest::Manifest;

    /// A job of one part, which panics.
    struct Panicking;

    impl Job for Panicking {
        fn parts(&self) -> usize {
            1
        }

        fn bytes(&self) -> Option<u64> {
            None
        }

        fn way(&self) -> Way {
            Way::Here
        }

        fn planned(&self) -> Vec<Made> {
            Vec::new()
        }

        fn carry_out(&self, _: usize, _: &Progress) -> Result<()> {
            panic!("as a test")
        }

        fn finish(&self) -> Result<Vec<Made>> {
            Ok(Vec::new())
        }

        fn abandon(&self) {}

        fn interrupt(&self) {}
    }

    #[test]
    fn a_part_that_panics_ends_the_transfer() {
        let shared = Arc::new(Shared {
            job: Box::new(Panicking),
            gate: Gate::default(),
            stop: Arc::default(),
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            storage: StageMeter::new(),
            network: StageMeter::new(),
            limiter: Limiter::new(None),
            account: Arc::new(Account::new(EventSender::silent(), Manifest::default())),
        });
        shared.gate.allow(1);
        let worker = Arc::clone(&shared);
        assert!(std::thread::spawn(move || worker.work()).join().is_err());
        assert_eq!(shared.stop.error().unwrap().what(), "a thread of the transfer panicked");
    }
}
