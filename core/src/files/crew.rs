//! The threads that bring pieces of files, shared by all readers of one [`super::Files`]: as many as it may have sessions.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex};

/// How long a thread without work waits for some before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// Something to bring.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// How soon something is wanted, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// Somebody will probably ask for it.
    Ahead,
    /// Somebody said that it will be asked for.
    Expected,
    /// Somebody waits for it.
    Now,
}

/// Threads that take jobs, those that somebody waits for first. They end once the crew is dropped, each after the job that it has.
pub(super) struct Crew {
    shared: Arc<Shared>,
    start: fn(Arc<Shared>) -> io::Result<()>,
    /// The process whose threads these are: one that was forked from it has none of them.
    process: u32,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    most: usize,
}

#[derive(Default)]
struct State {
    now: VecDeque<Job>,
    ahead: VecDeque<Job>,
    threads: usize,
    waiting: usize,
    over: bool,
}

impl Crew {
    /// A crew of at most so many threads, none of which runs yet.
    pub(super) fn new(most: usize) -> Self {
        Self::with(most, start)
    }

    fn with(most: usize, start: fn(Arc<Shared>) -> io::Result<()>) -> Self {
        let shared = Shared { state: Mutex::default(), changed: Condvar::new(), most: most.max(1) };
        Self { shared: Arc::new(shared), start, process: std::process::id() }
    }

    /// A crew on a machine that starts no more threads.
    #[cfg(test)]
    pub(super) fn without_threads() -> Self {
        Self::with(1, |_| Err(io::ErrorKind::WouldBlock.into()))
    }

    /// Hands a job over. An error says that not one thread could be started: the job is dropped.
    pub(super) fn take(&self, urgency: Urgency, job: Job) -> Result<()> {
        let mut state = self.shared.state.lock();
        state.queue(urgency).push_back(job);
        if state.waiting >= state.now.len() + state.ahead.len() || state.threads == self.shared.most {
            self.shared.changed.notify_one();
            return Ok(());
        }
        match (self.start)(Arc::clone(&self.shared)) {
            Ok(()) => state.threads += 1,
            Err(cause) if state.threads == 0 => {
                let job = state.queue(urgency).pop_back();
                drop(state);
                drop(job);
                return Err(Error::io("could not start a thread to read a file", &cause));
            }
            Err(cause) => tracing::debug!(%cause, "a thread to read ahead could not be started"),
        }
        Ok(())
    }
}

fn start(shared: Arc<Shared>) -> io::Result<()> {
    thread::Builder::new().name("edt-read-ahead".to_owned()).spawn(move || shared.work()).map(drop)
}

impl State {
    fn queue(&mut self, urgency: Urgency) -> &mut VecDeque<Job> {
        if urgency == Urgency::Now { &mut self.now } else { &mut self.ahead }
    }
}

impl Shared {
    fn work(&self) {
        let mut state = self.state.lock();
        while !state.over {
            if let Some(job) = state.now.pop_front().or_else(|| state.ahead.pop_front()) {
                drop(state);
                // One that panics must not cost the others their thread; what it was for hears of it from the job.
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    tracing::error!("a thread that reads a file panicked");
                }
                state = self.state.lock();
                continue;
            }
            state.waiting += 1;
            let idle = self.changed.wait_for(&mut state, IDLE).timed_out();
            state.waiting -= 1;
            if idle && state.now.is_empty() && state.ahead.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // A thread may have held the lock when the process was forked, and none is left to give it back.
        if self.process != std::process::id() {
            return;
        }
        let mut state = self.shared.state.lock();
        state.over = true;
        // Jobs may hold what holds this crew.
        let left = (std::mem::take(&mut state.now), std::mem::take(&mut state.ahead));
        drop(state);
        drop(left);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_job_that_panics_costs_the_others_nothing() {
        let (crew, (done, jobs)) = (Crew::new(1), unbounded());
        for number in 0..4 {
            let done = done.clone();
            let job = move || if number % 2 == 0 { panic!("as a test") } else { done.send(number).unwrap() };
            crew.take(Urgency::Now, Box::new(job)).unwrap();
        }
        assert_eq!([jobs.recv_timeout(LONG), jobs.recv_timeout(LONG)], [Ok(1), Ok(3)]);
    }

    #[test]
    fn what_somebody_waits_for_goes_first() {
        let (crew, (done, jobs), (go, gate)) = (Crew::new(1), unbounded(), unbounded::<()>());
        crew.take(Urgency::Now, Box::new(move || gate.recv_timeout(LONG).unwrap())).unwrap();
        for urgency in [Urgency::Ahead, Urgency::Expected, Urgency::Now] {
            let done = done.clone();
            crew.take(urgency, Box::new(move || done.send(urgency).unwrap())).unwrap();
        }
        go.send(()).unwrap();
        let order = [(); 3].map(|()| jobs.recv_timeout(LONG).unwrap());
        assert_eq!(order, [Urgency::Now, Urgency::Ahead, Urgency::Expected]);
    }

    #[test]
    fn a_job_for_which_no_thread_starts_is_an_error_and_not_kept() {
        let crew = Crew::without_threads();
        let (alive, dropped) = unbounded::<()>();
        let taken = crew.take(Urgency::Now, Box::new(move || drop(alive)));
        assert!(taken.is_err());
        assert_eq!(dropped.recv_timeout(LONG), Err(crossbeam_channel::RecvTimeoutError::Disconnected));
    }
}
