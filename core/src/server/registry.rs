//! The sessions of a server: which half each one runs, and which transfer each half receives.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::link::{IncomingStream, StreamEnd};
use crate::pipeline::half::Half;
use crate::protocol::TransferId;
use crate::protocol::handshake::SessionId;
use crate::protocol::message::Key;
use crate::sync::{Condvar, Mutex};

/// How long a stream may be ahead of the message that begins its transfer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a session may take to end before another one of the same transfer is refused.
const PASSING: Duration = Duration::from_secs(4);

/// How often it is seen meanwhile whether it is complete.
const MOMENT: Duration = Duration::from_millis(50);

/// Running sessions.
#[derive(Default)]
pub(super) struct Registry {
    sessions: Mutex<HashMap<SessionId, Slot>>,
    changed: Condvar,
}

#[derive(Default)]
struct Slot {
    half: Option<Half>,
    transfer: Option<(TransferId, Key)>,
    /// Whether another session has taken its transfer over: nothing is to be waited for any more.
    superseded: bool,
}

impl Registry {
    pub(super) fn count(&self) -> usize {
        self.sessions.lock().len()
    }

    pub(super) fn add(&self, session: SessionId) {
        self.sessions.lock().insert(session, Slot::default());
    }

    pub(super) fn remove(&self, session: SessionId) {
        self.sessions.lock().remove(&session);
        self.changed.notify_all();
    }

    /// Makes sure that no other session receives the same transfer, and that from now on this one counts as the one that does. One of the
    /// same run is ended: its caller has come back before the server noticed that it was gone. So is one that is complete. One of another
    /// run goes on, unless it ends within a moment.
    pub(super) fn supersede(&self, session: SessionId, transfer: TransferId, run: Key) -> Result<()> {
        self.supersede_within(PASSING, session, (transfer, run))
    }

    fn supersede_within(&self, passing: Duration, session: SessionId, begun: (TransferId, Key)) -> Result<()> {
        let mut sessions = self.sessions.lock();
        let same = |slot: &Slot| slot.transfer.is_some_and(|(other, _)| other == begun.0);
        let end = Instant::now() + passing;
        loop {
            for slot in sessions.values_mut().filter(|slot| same(slot) && !slot.superseded) {
                let Some(half) = &slot.half else { continue };
                if slot.transfer == Some(begun) || half.is_complete() {
                    half.stop().set(Some(Error::new(ErrorKind::ConnectionLost, "the same transfer began again")));
                    slot.superseded = true;
                }
            }
            if !sessions.values().any(same) {
                // Before its half is there, or another one that waited for the same session to end would take the transfer too.
                if let Some(slot) = sessions.get_mut(&session) {
                    slot.transfer = Some(begun);
                }
                return Ok(());
            }
            let now = Instant::now();
            if now >= end {
                // One of this run that has no half yet is ended when it has.
                let goes_on = |slot: &Slot| same(slot) && !slot.superseded && slot.transfer != Some(begun);
                return Err(refusal(sessions.values().any(goes_on)));
            }
            // Whoever heard of a completion may be back before the session itself knows that it is complete.
            self.changed.wait_until(&mut sessions, end.min(now + MOMENT));
        }
    }

    /// Whether another session has taken the transfer of this one over.
    pub(super) fn is_superseded(&self, session: SessionId) -> bool {
        self.sessions.lock().get(&session).is_none_or(|slot| slot.superseded)
    }

    /// Gives a session its half, so that its streams can be attached.
    pub(super) fn set(&self, session: SessionId, half: Half, transfer: Option<(TransferId, Key)>) {
        if let Some(slot) = self.sessions.lock().get_mut(&session) {
            *slot = Slot { half: Some(half), transfer, superseded: false };
        }
        self.changed.notify_all();
    }

    /// Hands a stream to the half of its session.
    pub(super) fn attach(&self, session: SessionId, stream: IncomingStream) -> Result<()> {
        let mut sessions = self.sessions.lock();
        let waiting = |sessions: &mut HashMap<SessionId, Slot>| {
            // A stream can overtake the thread that serves its session, which the acceptor has let in already.
            sessions.get(&session).is_none_or(|slot| slot.half.is_none())
        };
        self.changed.wait_while_for(&mut sessions, waiting, PATIENCE);
        let half = sessions.get(&session).and_then(|slot| slot.half.clone());
        drop(sessions);
        let Some(half) = half else {
            return Err(Error::new(ErrorKind::Protocol, "a stream came to a session that moves nothing"));
        };
        match (half, stream.end) {
            (Half::Sender(sender), StreamEnd::Sink(sink)) => sender.attach(stream.number, sink),
            (Half::Receiver(receiver), StreamEnd::Source(source)) => receiver.attach(stream.number, source),
            _ => Err(Error::new(ErrorKind::Protocol, "a stream goes the other way than its transfer")),
        }
    }
}

/// Why a transfer cannot begin: another session of it goes on, or all others were ended and still have files to flush, which passes.
fn refusal(goes_on: bool) -> Error {
    if goes_on {
        return Error::new(ErrorKind::AlreadyExists, "another process is running this transfer already")
            .with_hint("wait for it to end; if its machine is gone, the server notices within 15 s");
    }
    Error::new(ErrorKind::ConnectionLost, "an earlier session of this transfer is still ending at the server")
        .with_hint("wait until its last files are flushed")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::error::Retry;
    use crate::link::memory;
    use crate::path::RelativePath;
    use crate::pipeline::receiver::{Discard, Receiver, ReceiverParts};
    use crate::protocol::message::ReceiveOptions;
    use crate::store::memory::MemoryStore;

    const TRANSFER: TransferId = TransferId([1; 16]);

    fn half() -> Half {
        let (near, _) = memory::pair();
        Half::Receiver(Arc::new(Receiver::new(ReceiverParts {
            store: Arc::new(MemoryStore::new()),
            destination: RelativePath::root(),
            options: ReceiveOptions::default(),
            files: None,
            transfer: TRANSFER,
            control: near.sender,
            buffer: 8 << 20,
            account: None,
            copier: None,
            discard: Discard::OnGoodbye,
        })))
    }

    #[test]
    fn a_caller_that_comes_back_before_its_earlier_session_has_ended_may_try_again() {
        let (registry, [session, next]) = (Registry::default(), [1, 2].map(|number| SessionId([number; 16])));
        let [own, foreign] = [Key([1; 16]), Key([2; 16])];
        registry.add(session);
        registry.set(session, half(), Some((TRANSFER, own)));
        let refused = |run| registry.supersede_within(Duration::ZERO, next, (TRANSFER, run)).unwrap_err();
        let kept_out = refused(foreign);
        assert_eq!((kept_out.kind(), kept_out.retry()), (ErrorKind::AlreadyExists, Retry::Never));
        assert!(!registry.is_superseded(session));
        let early = refused(own);
        assert_eq!((early.kind(), early.retry()), (ErrorKind::ConnectionLost, Retry::Temporary));
        assert!(registry.is_superseded(session));
        registry.remove(session);
        registry.supersede_within(Duration::ZERO, next, (TRANSFER, own)).unwrap();
    }

    #[test]
    fn of_two_sessions_that_wait_for_the_same_one_to_end_only_one_takes_its_transfer() {
        let (registry, [old, one, other]) = (Registry::default(), [1, 2, 3].map(|number| SessionId([number; 16])));
        let [own, foreign] = [Key([1; 16]), Key([2; 16])];
        for session in [old, one, other] {
            registry.add(session);
        }
        registry.set(old, half(), Some((TRANSFER, own)));
        let begin = |session, run| registry.supersede_within(Duration::ZERO, session, (TRANSFER, run));
        begin(one, own).unwrap_err();
        registry.remove(old);
        begin(one, own).unwrap();
        // It has no half yet.
        assert_eq!(begin(other, own).unwrap_err().retry(), Retry::Temporary);
        assert_eq!(begin(other, foreign).unwrap_err().kind(), ErrorKind::AlreadyExists);
        registry.set(one, half(), Some((TRANSFER, own)));
        begin(other, own).unwrap_err();
        assert!(registry.is_superseded(one));
        registry.remove(one);
        begin(other, own).unwrap();
    }
}
