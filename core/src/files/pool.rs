//! The sessions with one server that calls of a [`super::Files`] share: made when they are needed, each used by one call at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::TryRecvError;
use parking_lot::{Condvar, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::link::Control;
use crate::link::client::{self, Session, Target};
use crate::options::TransferOptions;

/// How long a session that nobody uses is kept while others are used.
const KEPT: Duration = Duration::from_secs(30);

/// Pauses before further attempts of a request that may be repeated.
const PAUSES: [Duration; 4] = [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];

/// Sessions with one server, up to a bound; more callers wait for one.
pub(super) struct Pool {
    target: Target,
    options: TransferOptions,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The one that was used last is at the end, and is used next: its window is the widest.
    idle: Vec<(Session, Instant)>,
    open: usize,
    most: usize,
}

impl Pool {
    /// A pool of at most so many sessions, none of which is open yet.
    pub(super) fn new(target: Target, options: &TransferOptions, most: usize) -> Arc<Self> {
        let state = State { idle: Vec::new(), open: 0, most: most.max(1) };
        Arc::new(Self { target, options: options.clone(), state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Takes a session, or waits until one is given back where there may be no more.
    pub(super) fn take(self: &Arc<Self>) -> Result<Lease> {
        if let Some(session) = self.claim() {
            return Ok(Lease { pool: Arc::clone(self), session: Some(session) });
        }
        // From here on the place that `claim` took is given back by the lease, whatever happens.
        let mut lease = Lease { pool: Arc::clone(self), session: None };
        lease.session = Some(client::connect(&self.target, &self.options, None)?);
        Ok(lease)
    }

    /// An idle session that still lives; `None` once there is room for a new one, which then counts as open.
    fn claim(&self) -> Option<Session> {
        let mut state = self.state.lock();
        loop {
            while let Some((session, _)) = state.idle.pop() {
                // A server says nothing unasked but that it ends the session.
                if session.control.receiver.try_recv() == Err(TryRecvError::Empty) {
                    return Some(session);
                }
                state.open -= 1;
            }
            if state.open < state.most {
                state.open += 1;
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Asks what may be asked again, on another session if one breaks or the server takes no more of them.
    pub(super) fn repeat<T>(self: &Arc<Self>, mut ask: impl FnMut(&Control) -> Result<T>) -> Result<T> {
        self.attempts(|| self.once(&mut ask))
    }

    /// Makes attempts until one succeeds or no further one may help.
    pub(super) fn attempts<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut pauses = PAUSES.iter();
        loop {
            let error = match attempt() {
                Err(error) if may_pass(&error) => error,
                settled => return settled,
            };
            if error.kind() == ErrorKind::Throttled {
                self.shrink();
            }
            let Some(pause) = pauses.next() else { return Err(error) };
            std::thread::sleep(*pause);
        }
    }

    /// Asks what must not be asked again, because it may have been done although its answer was lost.
    pub(super) fn once<T>(self: &Arc<Self>, ask: impl FnOnce(&Control) -> Result<T>) -> Result<T> {
        let lease = self.take()?;
        let answer = ask(lease.control());
        lease.settle(answer.as_ref().err());
        answer
    }

    /// The server takes no more sessions than are open now; the one that was refused has been closed already.
    fn shrink(&self) {
        let mut state = self.state.lock();
        state.most = state.open.max(1);
    }

    /// Closes sessions that were idle for long.
    pub(super) fn prune(&self) {
        let mut state = self.state.lock();
        let before = state.idle.len();
        state.idle.retain(|(_, since)| since.elapsed() < KEPT);
        state.open -= before - state.idle.len();
    }
}

/// Whether the answer is the server's to this question, after which the session can take the next one.
fn answered(error: &Error) -> bool {
    !may_pass(error) && !matches!(error.kind(), ErrorKind::Protocol | ErrorKind::SourceChanged)
}

fn may_pass(error: &Error) -> bool {
    use ErrorKind::{ConnectionLost, Corrupted, Throttled, Unreachable};
    matches!(error.kind(), ConnectionLost | Corrupted | Throttled | Unreachable)
}

/// A session that is being used. It is closed, not reused, unless it is given back: what of an answer is still to come would be taken for
/// the next one.
pub(super) struct Lease {
    pool: Arc<Pool>,
    session: Option<Session>,
}

impl Lease {
    /// The session's messages.
    pub(super) fn control(&self) -> &Control {
        &self.session.as_ref().expect("a lease is handed out with its session, and giving that back consumes the lease").control
    }

    /// Gives the session back if its last request is answered completely, be it by an error.
    pub(super) fn settle(self, error: Option<&Error>) {
        if error.is_none_or(answered) {
            self.give_back();
        }
    }

    /// Says that its last request is answered completely.
    fn give_back(mut self) {
        if let Some(session) = self.session.take() {
            let mut state = self.pool.state.lock();
            // Its place is freed by the drop that follows, for what is idle is counted again.
            state.open += 1;
            state.idle.push((session, Instant::now()));
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.session.take());
        self.pool.state.lock().open -= 1;
        self.pool.changed.notify_one();
    }
}
