//! The sessions of a server, as its streams find them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::handshake::{SessionId, SessionKey};
use crate::sync::{Condvar, Mutex};

/// How long a stream waits for the proof of its session's caller, which it may have overtaken.
const OVERTAKING: Duration = Duration::from_secs(2);

/// How long a caller waits for a place at a full server: a session that its caller has left may not be over yet.
const LEAVING: Duration = Duration::from_millis(200);

/// Sessions that are open, and those whose callers were welcomed and have still to prove themselves.
pub(super) struct Sessions {
    state: Mutex<State>,
    changed: Condvar,
    /// Open ones at once.
    most: usize,
    /// Streams of each.
    streams: u16,
}

#[derive(Default)]
struct State {
    expected: HashSet<SessionId>,
    open: HashMap<SessionId, Entry>,
}

struct Entry {
    key: SessionKey,
    /// Every number is good for one stream, so that a recorded hello opens nothing.
    used: HashSet<u16>,
    live: usize,
}

impl Sessions {
    /// Room for so many open sessions at once, each with so many streams.
    pub(super) fn new(most: usize, streams: u16) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), most, streams }
    }

    /// Lets streams wait for a session until it is open, or what is returned is dropped.
    pub(super) fn expect(self: &Arc<Self>, session: SessionId) -> Expected {
        self.state.lock().expected.insert(session);
        Expected { sessions: Arc::clone(self), session }
    }

    /// Ends a session: no stream can join it any more.
    pub(super) fn forget(&self, session: SessionId) {
        self.state.lock().open.remove(&session);
        self.changed.notify_all();
    }

    /// The key of a session. One that is expected is waited for, for a moment that ends at `deadline` at the latest; one that is unknown
    /// or over is not.
    pub(super) fn key(&self, session: SessionId, deadline: Instant) -> Option<SessionKey> {
        let mut state = self.state.lock();
        let limit = deadline.min(Instant::now() + OVERTAKING);
        self.changed.wait_while_until(&mut state, |state| state.expected.contains(&session), limit);
        state.open.get(&session).map(|entry| entry.key.clone())
    }

    /// Takes a number for a stream of a session.
    pub(super) fn claim(self: &Arc<Self>, session: SessionId, number: u16) -> Result<Live> {
        let refused = |cause: &str| Error::new(ErrorKind::Refused, format!("could not open stream {number}")).with_cause(cause);
        let mut state = self.state.lock();
        let entry = state.open.get_mut(&session).ok_or_else(|| refused("its session is over"))?;
        // A stream that the caller has ended may still be drained here when its successor comes, hence twice the limit.
        if entry.live >= 2 * usize::from(self.streams) {
            return Err(refused("its session has as many streams as it may"));
        }
        if !entry.used.insert(number) {
            return Err(refused("its number was used before in this session"));
        }
        entry.live += 1;
        Ok(Live { sessions: Arc::clone(self), session })
    }
}

/// A session whose caller has still to prove itself, until it is dropped.
pub(super) struct Expected {
    sessions: Arc<Sessions>,
    session: SessionId,
}

impl Expected {
    /// Opens the session, if there is room for one more, or will be within a moment that ends at `deadline` at the latest.
    pub(super) fn open(&self, key: SessionKey, deadline: Instant) -> Result<()> {
        let mut state = self.sessions.state.lock();
        let is_full = |state: &mut State| state.open.len() >= self.sessions.most;
        self.sessions.changed.wait_while_until(&mut state, is_full, deadline.min(Instant::now() + LEAVING));
        if is_full(&mut state) {
            return Err(Error::new(ErrorKind::Throttled, "could not begin a session")
                .with_cause(format!("the server already has {} sessions, as many as it takes", state.open.len()))
                .with_hint("try again when others have finished, or raise the server's limit of sessions"));
        }
        state.expected.remove(&self.session);
        state.open.insert(self.session, Entry { key, used: HashSet::new(), live: 0 });
        self.sessions.changed.notify_all();
        Ok(())
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.sessions.state.lock().expected.remove(&self.session);
        self.sessions.changed.notify_all();
    }
}

/// Counts a stream as live until it is dropped.
pub(super) struct Live {
    sessions: Arc<Sessions>,
    session: SessionId,
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(entry) = self.sessions.state.lock().open.get_mut(&self.session) {
            entry.live -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_gets_a_place_that_becomes_free_within_a_moment_and_no_other() {
        let sessions = Arc::new(Sessions::new(1, 1));
        let open = |expected: &Expected| expected.open(SessionKey::of_a_test(), Instant::now() + OVERTAKING);
        let [first, second, third] = [1, 2, 3].map(|number| sessions.expect(SessionId([number; 16])));
        open(&first).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| open(&second));
            std::thread::sleep(LEAVING / 10);
            sessions.forget(first.session);
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(open(&third).unwrap_err().kind(), ErrorKind::Throttled);
    }
}
