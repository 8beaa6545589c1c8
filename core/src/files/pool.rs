//! The sessions with one server that calls of a [`super::Files`] share: made when they are needed, each used by one call at a time.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};

use super::ask::stat;
use super::bound::Bound;
use crate::error::{Error, ErrorKind, Result};
use crate::link::Control;
use crate::link::client::{self, Session, Target};
use crate::options::TransferOptions;
use crate::path::RelativePath;
use crate::sync::{Condvar, Mutex};

/// How long a session that nobody uses is kept.
const KEPT: Duration = Duration::from_secs(30);

/// Pauses before further attempts of a request that may be repeated.
const PAUSES: [Duration; 4] = [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];

/// Sessions with one server, up to a bound; more callers wait for one.
pub(super) struct Pool {
    target: Target,
    options: TransferOptions,
    state: Mutex<State>,
    changed: Condvar,
    kept: Duration,
    /// Ends the thread that closes idle sessions, as it is dropped with the pool.
    _ends: Sender<()>,
    end: Receiver<()>,
    /// The process whose sessions these are: one that was forked from it must not close them.
    process: u32,
}

struct State {
    /// The one that was used last is at the end, and is used next: its window is the widest.
    idle: Vec<Idle>,
    open: usize,
    bound: Bound,
    /// Whether a thread waits to close what is idle for long.
    closing: bool,
}

struct Idle {
    opened: Opened,
    since: Instant,
}

struct Opened {
    session: Session,
    begun: Instant,
    /// Whether the server has answered a question on it: one that is full says so only after the session was opened.
    let_in: bool,
}

impl Pool {
    /// A pool of at most so many sessions, none of which is open yet.
    pub(super) fn new(target: Target, options: &TransferOptions, most: usize) -> Arc<Self> {
        Self::keeping(target, options, most, KEPT)
    }

    fn keeping(target: Target, options: &TransferOptions, most: usize, kept: Duration) -> Arc<Self> {
        let state = State { idle: Vec::new(), open: 0, bound: Bound::new(most), closing: false };
        let (ends, end) = bounded(0);
        let (options, state, process) = (options.clone(), Mutex::new(state), std::process::id());
        Arc::new(Self { target, options, state, changed: Condvar::new(), kept, _ends: ends, end, process })
    }

    /// Opens a first session.
    pub(super) fn begin(self: &Arc<Self>) -> Result<()> {
        self.take().map(Lease::give_back)
    }

    /// Takes a session, or waits until one is given back where there may be no more.
    pub(super) fn take(self: &Arc<Self>) -> Result<Lease> {
        let mut dead = Vec::new();
        let claimed = self.claim(&mut dead);
        drop(dead);
        // From here on the place that `claim` took is given back by the lease, whatever happens.
        let mut lease = Lease { pool: Arc::clone(self), opened: claimed, counted: true };
        if lease.opened.is_none() {
            let begun = Instant::now();
            let session = client::connect(&self.target, &self.options, None)?;
            lease.opened = Some(Opened { session, begun, let_in: false });
        }
        Ok(lease)
    }

    /// An idle session that still lives; `None` once there is room for a new one, which then counts as open. Those that do not live are
    /// left to the caller, to be closed without the lock.
    fn claim(&self, dead: &mut Vec<Opened>) -> Option<Opened> {
        let mut state = self.state.lock();
        loop {
            while let Some(Idle { opened, .. }) = state.idle.pop() {
                // A server says nothing unasked but that it ends the session.
                if opened.session.control.receiver.try_recv() == Err(TryRecvError::Empty) {
                    return Some(opened);
                }
                state.open -= 1;
                dead.push(opened);
            }
            let open = state.open;
            if state.bound.admits(open, Instant::now()) {
                state.open += 1;
                return None;
            }
            if let Some(next) = state.bound.next() {
                self.changed.wait_until(&mut state, next);
            } else {
                self.changed.wait(&mut state);
            }
        }
    }

    /// Asks what may be asked again, on another session if one breaks or the server takes no more of them.
    pub(super) fn repeat<T>(self: &Arc<Self>, mut ask: impl FnMut(&Control) -> Result<T>) -> Result<T> {
        self.attempts(|| {
            let lease = self.take()?;
            let answer = ask(lease.control());
            lease.settle(answer.as_ref().err());
            answer
        })
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
            thread::sleep(*pause);
        }
    }

    /// Asks what must not be asked again, because it may have been done although its answer was lost. What comes before is repeated.
    pub(super) fn once<T>(self: &Arc<Self>, ask: impl FnOnce(&Control) -> Result<T>) -> Result<T> {
        let lease = self.attempts(|| self.take_let_in())?;
        let answer = ask(lease.control());
        lease.settle(answer.as_ref().err());
        answer
    }

    /// Takes a session that the server has let in: one without an answer so far is asked something that changes nothing.
    fn take_let_in(self: &Arc<Self>) -> Result<Lease> {
        let mut lease = self.take()?;
        if lease.opened.as_ref().is_some_and(|opened| opened.let_in) {
            return Ok(lease);
        }
        match stat(lease.control(), &RelativePath::root()) {
            Err(error) if !answered(&error) => Err(error),
            _ => {
                lease.let_in();
                Ok(lease)
            }
        }
    }

    /// The server takes no more sessions than are open now; the one that was refused has been closed already.
    fn shrink(&self) {
        let mut state = self.state.lock();
        let open = state.open;
        state.bound.refuse(open, Instant::now());
    }

    /// Has a thread close what is idle for long; it ends when no session is left, and with the pool.
    fn watch(self: &Arc<Self>) {
        let (pool, end, mut due) = (Arc::downgrade(self), self.end.clone(), Instant::now() + self.kept);
        let watch = move || {
            while end.recv_deadline(due) == Err(RecvTimeoutError::Timeout) {
                let Some(next) = pool.upgrade().and_then(|pool| pool.prune(Instant::now())) else { return };
                due = next;
            }
        };
        if let Err(cause) = thread::Builder::new().name("edt-idle".to_owned()).spawn(watch) {
            tracing::debug!(%cause, "a thread to close idle sessions could not be started");
            self.state.lock().closing = false;
        }
    }

    /// Closes sessions that were idle for long; says when to look again, if there is something to wait for.
    fn prune(&self, now: Instant) -> Option<Instant> {
        let mut state = self.state.lock();
        let idle = std::mem::take(&mut state.idle);
        let (kept, old): (Vec<_>, Vec<_>) = idle.into_iter().partition(|idle| now < idle.since + self.kept);
        state.open -= old.len();
        state.idle = kept;
        let used = state.open > state.idle.len();
        let next = state.idle.iter().map(|idle| idle.since + self.kept).min().or_else(|| used.then(|| now + self.kept));
        state.closing = next.is_some();
        drop(state);
        self.changed.notify_all();
        drop(old);
        next
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Their connections are those of the process that was forked, which goes on using them.
            std::mem::forget(std::mem::take(&mut self.state.get_mut().idle));
        }
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
    opened: Option<Opened>,
    /// Whether it counts among the open ones.
    counted: bool,
}

impl Lease {
    /// The session's messages.
    pub(super) fn control(&self) -> &Control {
        let opened = self.opened.as_ref();
        &opened.expect("a lease is handed out with its session, and giving that back consumes the lease").session.control
    }

    /// Gives the session back if its last request is answered completely, be it by an error.
    pub(super) fn settle(mut self, error: Option<&Error>) {
        if error.is_none_or(answered) {
            self.let_in();
            self.give_back();
        }
    }

    /// Leaves its place to another session: who holds this one may ask on others meanwhile, and would wait for itself.
    pub(super) fn set_apart(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.pool.state.lock().open -= 1;
            self.pool.changed.notify_one();
        }
    }

    /// Notes that the server has answered on it.
    fn let_in(&mut self) {
        let Some(opened) = self.opened.as_mut().filter(|opened| !opened.let_in) else { return };
        opened.let_in = true;
        self.pool.state.lock().bound.let_in(opened.begun, Instant::now());
        self.pool.changed.notify_all();
    }

    /// Leaves the session to the next one who needs one, if there may be so many.
    fn give_back(mut self) {
        let mut state = self.pool.state.lock();
        let now = Instant::now();
        let open = state.open;
        if !self.counted && !state.bound.admits(open, now) {
            return;
        }
        let Some(opened) = self.opened.take() else { return };
        // The place of one that counted is freed by the drop that follows, for what is idle is counted again.
        state.open += 1;
        state.idle.push(Idle { opened, since: now });
        let closing = std::mem::replace(&mut state.closing, true);
        drop(state);
        if !closing {
            self.pool.watch();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.opened.take());
        if self.counted {
            self.pool.state.lock().open -= 1;
        }
        self.pool.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServeOptions;
    use crate::options::SecretSource;
    use crate::server::{Server, ServerHandle};

    const LONG: Duration = Duration::from_mins(1);

    /// A server that takes one session.
    struct Narrow {
        target: Target,
        options: TransferOptions,
        handle: ServerHandle,
        _place: tempfile::TempDir,
    }

    impl Narrow {
        fn start() -> Self {
            let place = tempfile::tempdir().unwrap();
            let mut options = ServeOptions::new(place.path());
            "127.0.0.1:0".clone_into(&mut options.listen);
            options.secret = SecretSource::Text("a secret for tests of sessions".to_owned());
            options.identity = Some(place.path().join("identity.pem"));
            options.max_sessions = 1;
            let transfer = TransferOptions { secret: options.secret.clone(), ..TransferOptions::default() };
            let server = Server::bind(options).unwrap();
            let target = Target { host: "127.0.0.1".to_owned(), port: server.address().port(), tls: false };
            let handle = server.handle();
            thread::spawn(move || server.run());
            Self { target, options: transfer, handle, _place: place }
        }

        fn pool(&self, kept: Duration) -> Arc<Pool> {
            Pool::keeping(self.target.clone(), &self.options, 9, kept)
        }

        /// Whether the server lets another pool in.
        fn has_room(&self) -> bool {
            self.pool(KEPT).repeat(|control| stat(control, &RelativePath::root())).is_ok()
        }
    }

    impl Drop for Narrow {
        fn drop(&mut self) {
            self.handle.shutdown();
            self.handle.shutdown();
        }
    }

    #[test]
    fn a_session_that_is_idle_for_long_is_closed_and_its_thread_ends() {
        let server = Narrow::start();
        let pool = server.pool(Duration::from_millis(50));
        pool.begin().unwrap();
        let mut state = pool.state.lock();
        while state.open > 0 {
            assert!(!pool.changed.wait_for(&mut state, LONG).timed_out());
        }
        assert!(state.idle.is_empty() && !state.closing);
        drop(state);
        assert!(server.has_room());
    }

    #[test]
    fn a_session_that_was_used_lately_stays() {
        let server = Narrow::start();
        let pool = server.pool(KEPT);
        pool.begin().unwrap();
        let begun = Instant::now();
        assert!(pool.prune(begun + KEPT / 2).is_some_and(|next| next <= begun + KEPT));
        assert_eq!(pool.state.lock().open, 1);
        assert_eq!(pool.prune(begun + KEPT), None);
        assert_eq!(pool.state.lock().open, 0);
    }

    #[test]
    fn a_process_that_was_forked_leaves_the_sessions_to_the_other() {
        let server = Narrow::start();
        let mut pool = server.pool(KEPT);
        Arc::get_mut(&mut pool).unwrap().process += 1;
        pool.once(|control| stat(control, &RelativePath::root())).unwrap();
        drop(pool);
        assert!(!server.has_room());
    }
}
