//! One session of a server: requests about files, then at most one transfer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use minicbor::bytes::ByteVec;

use crate::error::{Error, ErrorKind, Result};
use crate::link::acceptor::ControlSession;
use crate::link::socket::check_congestion;
use crate::link::{Control, ControlSender};
use crate::open;
use crate::options::{Access, Symlinks};
use crate::path::RelativePath;
use crate::pipeline::half::Half;
use crate::pipeline::receiver::{Discard, Receiver, ReceiverParts};
use crate::pipeline::sender::{Sender, SenderParts};
use crate::pipeline::stop::guarded;
use crate::plan::Choice;
use crate::protocol::message::{Direction, MadeUp, Message, SendOptions, Start, Tune};
use crate::server::{Shared, leaving};
use crate::store::local::LocalStore;
use crate::store::null::{NullStore, ZeroStore};
use crate::store::{EntryKind, Store};

/// How often the caller hears the meters of the server's half.
const METERS_EVERY: Duration = Duration::from_millis(100);

/// How long the server waits for a caller's next request, once it is to end, in turns of [`TURN`]: some callers keep a session for later.
const IDLE_TURNS: u32 = 10;

/// How often a session without a request looks whether the server is to end.
const TURN: Duration = Duration::from_millis(200);

/// Bytes that a caller may have made up: whatever sums of them are formed, they do not overflow.
const MOST_MADE_UP: u64 = 1 << 63;

/// How long a complete session waits for what its caller says before it looks whether it is to end, and once more then.
const MOMENT: Duration = Duration::from_millis(100);

/// Tells a caller why it is not served.
pub(super) fn refuse(control: &Control, error: &Error) -> Result<()> {
    control.sender.send(&Message::Fail(error.into()))?;
    control.sender.close();
    Err(error.clone())
}

/// Waits until the caller says goodbye; `false` if it is gone without one, or has not said it a moment after the session `is_over`.
fn says_goodbye(messages: &crossbeam_channel::Receiver<Message>, is_over: impl Fn() -> bool) -> bool {
    let mut end = None;
    loop {
        if end.is_none() && is_over() {
            end = Some(Instant::now() + MOMENT);
        }
        match messages.recv_deadline(end.unwrap_or_else(|| Instant::now() + MOMENT)) {
            Ok(Message::Goodbye) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
            // A caller that goes on talking gets no longer.
            _ if end.is_some_and(|end| end <= Instant::now()) => return false,
            _ => {}
        }
    }
}

/// Adds what a caller chose for the transfer that it will begin.
fn choose(chosen: &mut Choice, names: &[ByteVec]) -> Result<()> {
    names.iter().try_for_each(|name| chosen.add(RelativePath::from_bytes(name)?))
}

impl Shared {
    /// Serves one caller until it leaves, its transfer ends, or the server does.
    pub(super) fn session(&self, session: &ControlSession) -> Result<()> {
        let served = self.attend(session);
        if self.writable().is_ok() {
            self.store.tidy();
        }
        served
    }

    fn attend(&self, session: &ControlSession) -> Result<()> {
        self.registry.add(session.session);
        tracing::info!(peer = %session.peer, "a session began");
        let control = &session.control;
        let (mut chosen, mut idle): (Option<Choice>, u32) = (None, 0);
        loop {
            match control.receiver.recv_timeout(TURN) {
                Ok(Message::Start(start)) => {
                    let outcome = self.transfer(session, &start, chosen);
                    if let Err(error) = &outcome {
                        let _ = control.sender.send(&Message::Fail(error.into()));
                    }
                    return outcome;
                }
                Ok(Message::Choose(names)) => {
                    if let Err(error) = choose(chosen.get_or_insert_default(), &names) {
                        return refuse(control, &error);
                    }
                }
                Ok(Message::Request(request)) => {
                    self.answer(control, request)?;
                    idle = 0;
                }
                Ok(other) => return refuse(control, &crate::pipeline::sender::unexpected(&other)),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) if self.ending.is_set() => return refuse(control, &leaving()),
                Err(RecvTimeoutError::Timeout) if self.draining.is_set() && idle >= IDLE_TURNS => {
                    return refuse(control, &leaving());
                }
                Err(RecvTimeoutError::Timeout) => idle += 1,
            }
        }
    }

    fn transfer(&self, session: &ControlSession, start: &Start, chosen: Option<Choice>) -> Result<()> {
        let files = chosen.map(|chosen| Arc::from(chosen.minimal()));
        let half = match start.direction {
            Direction::Upload => {
                // What is thrown away changes nothing.
                if !start.receive.discard {
                    self.writable()?;
                }
                self.registry.supersede(session.session, start.transfer, start.run)?;
                Half::Receiver(Arc::new(self.receiver(start, files, &session.control.sender)?))
            }
            Direction::Download => Half::Sender(Arc::new(self.sender(start, files, &session.control.sender)?)),
        };
        half.tune(&self.bounded_tune(start.tune.clone()));
        let transfer = (start.direction == Direction::Upload).then_some((start.transfer, start.run));
        self.registry.set(session.session, half.clone(), transfer);
        let outcome = std::thread::scope(|scope| {
            let meters = scope.spawn(|| self.watch(&half, &session.control.sender));
            let messages = |message: Message| match message {
                // The caller may have heard of the completion before this thread has.
                Message::Goodbye => {
                    half.goodbye();
                    None
                }
                other => Some(self.bounded(other)),
            };
            // Whoever tells the meters would not end otherwise.
            let outcome = guarded(half.stop(), || half.pump(&session.control, messages));
            half.stop().set(None);
            let _ = meters.join();
            outcome
        });
        half.close();
        if outcome.is_ok() {
            self.await_goodbye(session, &half);
        }
        outcome
    }

    /// A caller can ask for no more workers and streams than the server allows each session.
    fn bounded(&self, message: Message) -> Message {
        match message {
            Message::Tune(tune) => Message::Tune(self.bounded_tune(tune)),
            other => other,
        }
    }

    fn bounded_tune(&self, tune: Tune) -> Tune {
        let most = self.options.max_streams.get();
        let bounded = |size: Option<u16>| size.map(|size| size.min(most));
        Tune { read: bounded(tune.read), network: bounded(tune.network), write: bounded(tune.write), ..tune }
    }

    /// Tells the caller the meters, and ends the half when the server ends.
    fn watch(&self, half: &Half, control: &ControlSender) {
        while !half.stop().wait(METERS_EVERY) {
            if self.ending.is_set() {
                half.stop().set(Some(leaving()));
            }
            if control.send(&Message::Meters(half.meters())).is_err() {
                return;
            }
        }
    }

    /// The caller closes a complete session, and says goodbye if it has heard everything. One that is gone without a sign may come back in
    /// another session.
    fn await_goodbye(&self, session: &ControlSession, half: &Half) {
        let is_over = || self.ending.is_set() || self.registry.is_superseded(session.session);
        if says_goodbye(&session.control.receiver, is_over) {
            half.goodbye();
        }
    }

    /// An error if clients may not change anything.
    pub(super) fn writable(&self) -> Result<()> {
        if self.options.access == Access::ReadWrite {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Refused, "the server is read-only")
            .with_hint("ask its operator to start it without --read-only"))
    }

    fn receiver(&self, start: &Start, files: Option<Arc<[RelativePath]>>, control: &ControlSender) -> Result<Receiver> {
        let store: Arc<dyn Store> = if start.receive.discard {
            Arc::new(NullStore::new())
        } else {
            open::throttled(Arc::clone(&self.store) as Arc<dyn Store>, self.options.worker_rate)
        };
        Ok(Receiver::new(ReceiverParts {
            store,
            destination: self.store.entered(&RelativePath::from_bytes(&start.destination)?),
            options: start.receive.clone(),
            files,
            transfer: start.transfer,
            control: Arc::clone(control),
            buffer: start.buffer.min(self.options.buffer),
            account: None,
            copier: None,
            discard: Discard::OnGoodbye,
        }))
    }

    fn sender(&self, start: &Start, files: Option<Arc<[RelativePath]>>, control: &ControlSender) -> Result<Sender> {
        start.send.congestion.as_deref().map_or(Ok(()), check_congestion)?;
        let mut options = start.send.clone();
        self.follow_root(&mut options)?;
        Sender::new(SenderParts {
            store: self.source(&options)?,
            options,
            files,
            mirror: start.receive.selection == 2,
            copied: false,
            one_by_one: false,
            control: Arc::clone(control),
            buffer: start.buffer.min(self.options.buffer),
            account: None,
        })
    }

    /// A link that is the only source is followed; the links below a directory that it leads to are not.
    fn follow_root(&self, options: &mut SendOptions) -> Result<()> {
        let [root] = &mut options.roots[..] else { return Ok(()) };
        let path = RelativePath::from_bytes(&root.path)?;
        let is_link = self.store.stat(&path).is_ok_and(|entry| matches!(entry.kind, EntryKind::Symlink(_)));
        if !root.prefix.is_empty() || !is_link {
            return Ok(());
        }
        let followed = self.store.followed(&path)?;
        if self.store.stat(&followed)?.kind == EntryKind::Directory {
            root.path = followed.as_bytes().to_vec();
        } else {
            // The filter sees the name of the link.
            options.symlinks = 1;
        }
        Ok(())
    }

    /// What a download reads: the files below the root, or such as are made up.
    fn source(&self, options: &SendOptions) -> Result<Arc<dyn Store>> {
        if let Some(MadeUp { count, size }) = options.made_up {
            let countable = u32::try_from(count).is_ok() && count.checked_mul(size).is_some_and(|bytes| bytes <= MOST_MADE_UP);
            if !countable {
                return Err(Error::new(ErrorKind::InvalidInput, format!("could not make up {count} files of {size} bytes"))
                    .with_cause("they are 2^32 files or more, or more than 2^63 bytes"));
            }
            return Ok(Arc::new(ZeroStore::new(count, size)));
        }
        let symlinks = match options.symlinks {
            1 => Symlinks::Follow,
            2 => Symlinks::Skip,
            _ => Symlinks::Keep,
        };
        let store = Arc::new(LocalStore::confined(&self.options.root, symlinks)?);
        Ok(open::throttled(store, self.options.worker_rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_said_before_its_session_was_over_is_heard_and_nothing_is_waited_for_then() {
        let (caller, messages) = crossbeam_channel::bounded(2);
        let over = || true;
        caller.send(Message::Finish(true)).unwrap();
        caller.send(Message::Goodbye).unwrap();
        assert!(says_goodbye(&messages, over));
        let began = Instant::now();
        assert!(!says_goodbye(&messages, over) && began.elapsed() >= MOMENT);
        std::thread::scope(|scope| {
            let talking = scope.spawn(move || while caller.send(Message::Finish(true)).is_ok() {});
            assert!(!says_goodbye(&messages, over));
            drop(messages);
            talking.join().unwrap();
        });
    }
}
