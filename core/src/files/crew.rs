//! The threads that bring pieces of files, shared by all readers of one [`super::Files`]: as many as it may have sessions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};

/// How long a thread without work waits for some before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// Something to bring.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// How soon a job is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Somebody waits for it.
    Now,
    /// Somebody will probably ask for it.
    Ahead,
}

/// Threads that take jobs, those that somebody waits for first. They end once the crew is dropped, each after the job that it has.
pub(super) struct Crew {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    most: usize,
    /// Runs when a thread has had no work for long.
    rest: Box<dyn Fn() + Send + Sync>,
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
    pub(super) fn new(most: usize, rest: impl Fn() + Send + Sync + 'static) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { shared: Arc::new(Shared { state, changed, most: most.max(1), rest: Box::new(rest) }) }
    }

    /// Hands a job over. An error says that not one thread could be started.
    pub(super) fn take(&self, urgency: Urgency, job: Job) -> Result<()> {
        let mut state = self.shared.state.lock();
        match urgency {
            Urgency::Now => state.now.push_back(job),
            Urgency::Ahead => state.ahead.push_back(job),
        }
        if state.waiting >= state.now.len() + state.ahead.len() || state.threads == self.shared.most {
            self.shared.changed.notify_one();
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        match thread::Builder::new().name("edt-read-ahead".to_owned()).spawn(move || shared.work()) {
            Ok(_) => state.threads += 1,
            Err(cause) if state.threads == 0 => return Err(Error::io("could not start a thread to read a file", &cause)),
            Err(cause) => tracing::debug!(%cause, "a thread to read ahead could not be started"),
        }
        Ok(())
    }
}

impl Shared {
    fn work(&self) {
        let mut state = self.state.lock();
        while !state.over {
            if let Some(job) = state.now.pop_front().or_else(|| state.ahead.pop_front()) {
                drop(state);
                job();
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
        drop(state);
        (self.rest)();
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.over = true;
        // Jobs may hold what holds this crew.
        let left = (std::mem::take(&mut state.now), std::mem::take(&mut state.ahead));
        drop(state);
        drop(left);
        self.shared.changed.notify_all();
    }
}
