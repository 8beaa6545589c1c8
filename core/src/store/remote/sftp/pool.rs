//! The connections to one server: made when they are needed, shared by all threads, each with as few users as can be.
//!
//! OpenSSH lets 2 MiB of a channel be on their way, whatever the path could hold, so that one connection carries 2 MiB in a round trip.
//! Several fill the path; and each of them several files, so that a file's round trips cost nothing while others send.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::{Connection, Facts};
use super::ssh::Target;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Condvar, Mutex};

/// Connections to one server: `sshd` drops some of more than 10 that are logging in (`MaxStartups`).
const MOST: usize = 8;

/// How long a connection that could not be made is done without while there are others.
const REST: Duration = Duration::from_mins(1);

/// What a connection is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// A request or two: one that is there.
    Brief,
    /// Bytes of a file: the one with the fewest users, or another one.
    Bulk,
}

/// The connections to one server.
pub(super) struct Pool {
    target: Target,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    slots: [Slot; MOST],
    /// Known since the first connection.
    facts: Option<Facts>,
}

#[derive(Default)]
struct Slot {
    stage: Stage,
    users: usize,
    /// Why the last attempt failed, for those who waited for it.
    failed: Option<Error>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Empty,
    Connecting,
    Ready(Arc<Connection>),
    Resting(Instant),
}

/// The use of a connection; dropping it ends the use.
pub(super) struct Lease {
    pool: Arc<Pool>,
    slot: usize,
    connection: Arc<Connection>,
}

impl Pool {
    /// No connection is made yet.
    pub(super) fn new(target: Target) -> Arc<Self> {
        let state = State { slots: std::array::from_fn(|_| Slot::default()), facts: None };
        Arc::new(Self { target, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// A connection to use.
    pub(super) fn lease(self: &Arc<Self>, want: Want) -> Result<Lease> {
        self.sweep();
        let mut state = self.state.lock();
        let mut slot = state.choose(want);
        state.slots[slot].users += 1;
        loop {
            match &state.slots[slot].stage {
                Stage::Ready(connection) => {
                    let connection = Arc::clone(connection);
                    return Ok(Lease { pool: Arc::clone(self), slot, connection });
                }
                Stage::Connecting => {
                    self.changed.wait(&mut state);
                    if matches!(state.slots[slot].stage, Stage::Ready(_) | Stage::Connecting) {
                        continue;
                    }
                }
                Stage::Empty | Stage::Resting(_) => {
                    state.slots[slot].stage = Stage::Connecting;
                    let facts = state.facts;
                    drop(state);
                    let connected = self.connect(facts);
                    state = self.state.lock();
                    state.settle(slot, connected);
                    self.changed.notify_all();
                    if matches!(state.slots[slot].stage, Stage::Ready(_)) {
                        continue;
                    }
                }
            }
            // It could not be made: another one does, or the reason is told.
            state.slots[slot].users -= 1;
            let Some(other) = state.least_used() else {
                let lost = || Error::new(ErrorKind::ConnectionLost, format!("lost the connection to `{}`", self.target.place()));
                return Err(state.slots[slot].failed.clone().unwrap_or_else(lost));
            };
            slot = other;
            state.slots[slot].users += 1;
        }
    }

    /// A connection without users; `None` if all have some.
    pub(super) fn idle(self: &Arc<Self>) -> Result<Option<Lease>> {
        let idle = |slot: &Slot| slot.users == 0 && !matches!(slot.stage, Stage::Resting(until) if until > Instant::now());
        let any = self.state.lock().slots.iter().any(idle);
        if any { self.lease(Want::Bulk).map(Some) } else { Ok(None) }
    }

    /// Connects; the first time through a master of the user's, if there is one and the server takes no key.
    fn connect(&self, facts: Option<Facts>) -> Result<Connection> {
        let connected = Connection::open(&self.target, facts);
        match connected {
            Err(error) if facts.is_none() && error.kind() == ErrorKind::Refused => {
                self.target.share();
                Connection::open(&self.target, facts).map_err(|_| {
                    self.target.separate();
                    error
                })
            }
            connected => connected,
        }
    }

    /// Takes broken connections out, and ends them without holding a lock.
    fn sweep(&self) {
        let mut broken = Vec::new();
        let mut state = self.state.lock();
        for slot in &mut state.slots {
            if matches!(&slot.stage, Stage::Ready(connection) if connection.is_broken()) {
                broken.push(std::mem::take(&mut slot.stage));
            }
        }
        drop(state);
    }
}

impl State {
    /// The slot to use: of those that may be used the one with the fewest users, or the readiest.
    fn choose(&self, want: Want) -> usize {
        // The first connection tells whether the server lets this user in at all.
        let reach = if self.facts.is_some() { MOST } else { 1 };
        let now = Instant::now();
        let rank = |slot: &Slot| match slot.stage {
            Stage::Ready(_) => 0,
            Stage::Connecting => 1,
            Stage::Empty => 2,
            Stage::Resting(until) if until <= now => 2,
            Stage::Resting(_) => 3,
        };
        let cost = |slot: &Slot| match (want, rank(slot)) {
            (_, 3) => (usize::MAX, 3),
            (Want::Bulk, rank) => (slot.users, rank),
            (Want::Brief, rank) => (rank, slot.users),
        };
        (0..reach).min_by_key(|index| cost(&self.slots[*index])).unwrap_or(0)
    }

    /// The ready slot with the fewest users.
    fn least_used(&self) -> Option<usize> {
        let ready = (0..MOST).filter(|index| matches!(self.slots[*index].stage, Stage::Ready(_)));
        ready.min_by_key(|index| self.slots[*index].users)
    }

    fn settle(&mut self, slot: usize, connected: Result<Connection>) {
        let others = self.least_used().is_some();
        let slot = &mut self.slots[slot];
        match connected {
            Ok(connection) => {
                self.facts = Some(connection.facts());
                slot.stage = Stage::Ready(Arc::new(connection));
                slot.failed = None;
            }
            Err(error) => {
                slot.stage = if others { Stage::Resting(Instant::now() + REST) } else { Stage::Empty };
                slot.failed = Some(error);
            }
        }
    }
}

impl Lease {
    /// The connection.
    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The share of this use in something that the connection has `whole` of, at least an eighth.
    pub(super) fn share(&self, whole: u64) -> u64 {
        let users = self.pool.state.lock().slots[self.slot].users.clamp(1, 8);
        whole / users as u64
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.state.lock().slots[self.slot].users -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { read: 1, write: 1, replaces: true, links: true, tells_space: true }
    }

    fn state(users: [usize; MOST]) -> State {
        let slots = users.map(|users| Slot { users, ..Slot::default() });
        State { slots, facts: Some(facts()) }
    }

    #[test]
    fn the_first_connection_is_waited_for_by_all() {
        let mut state = state([5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(state.choose(Want::Bulk), 1);
        state.facts = None;
        assert_eq!(state.choose(Want::Bulk), 0);
    }

    #[test]
    fn bytes_spread_and_brief_requests_do_not() {
        let mut state = state([2, 1, 1, 0, 1, 1, 1, 1]);
        state.slots[0].stage = Stage::Connecting;
        state.slots[1].stage = Stage::Connecting;
        assert_eq!(state.choose(Want::Bulk), 3);
        assert_eq!(state.choose(Want::Brief), 1);
    }

    #[test]
    fn what_could_not_be_made_rests_only_beside_others() {
        let lost = || Error::new(ErrorKind::ConnectionLost, "lost");
        let mut state = state([0; MOST]);
        state.settle(0, Err(lost()));
        assert!(matches!(state.slots[0].stage, Stage::Empty) && state.slots[0].failed.is_some());
        state.slots[1].stage = Stage::Resting(Instant::now() + REST);
        assert_ne!(state.choose(Want::Bulk), 1);
    }
}
