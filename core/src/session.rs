//! One session of a transfer, at the caller: both halves or one of them, their streams, and the controller beside them.

mod plant;
mod streams;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use minicbor::bytes::ByteVec;

use crate::control::{self, Outcome, Settings, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::link::client::{self, Opening, Session, Target};
use crate::link::{Control, ControlSender, Dialer, memory};
use crate::optimizer::{FirstStreams, Optimizer};
use crate::options::TransferOptions;
use crate::path::RelativePath;
use crate::pipeline::account::Account;
use crate::pipeline::half::Half;
use crate::pipeline::receiver::{Discard, Receiver, ReceiverParts};
use crate::pipeline::sender::{Sender, SenderParts};
use crate::pipeline::stop::{Stop, guarded};
use crate::protocol::TransferId;
use crate::protocol::message::{Direction, Key, Message, Meters, ReceiveOptions, SendOptions, Start, Tune, parts};
use crate::session::plant::CallerPlant;
use crate::store::{Copier, RetryWatcher, Store};
use crate::sync::Mutex;

/// What a session moves, the same for every attempt.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) transfer: TransferId,
    /// Random for each run: tells this caller from another one with the same transfer.
    pub(crate) run: Key,
    pub(crate) send: SendOptions,
    pub(crate) receive: ReceiveOptions,
    /// The files and directories below the only source that are moved; `None`: all.
    pub(crate) files: Option<Arc<[RelativePath]>>,
    /// The store of the caller's source, if the source is on the caller's side.
    pub(crate) source: Option<Arc<dyn Store>>,
    /// The store of the destination, if it is on the caller's side.
    pub(crate) destination: Option<Arc<dyn Store>>,
    /// Copies without the bytes passing through here, if the services of both sides can.
    pub(crate) copier: Option<Arc<dyn Copier>>,
    /// Whether the thread that reads a block writes it too, where both halves are in this process.
    pub(crate) direct: bool,
    /// The destination as named.
    pub(crate) base: RelativePath,
    pub(crate) buffer: u64,
    /// Broken streams that are made again without progress in between.
    pub(crate) retries: u32,
    /// Streams that a session begins with, as far as that can be told before the optimizer decides.
    pub(crate) first_streams: FirstStreams,
    /// How long this thread waited for the first requests to services: two round trips or more. Zero if there are none.
    pub(crate) contact: Duration,
}

impl Work {
    /// The messages that begin a session of this work with a server.
    pub(crate) fn begin(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        if let Some(files) = &self.files {
            let names: Vec<ByteVec> = files.iter().map(|path| path.as_bytes().to_vec().into()).collect();
            messages.extend(parts(&names, names.len()).map(|names| Message::Choose(names.to_vec())));
            if names.is_empty() {
                messages.push(Message::Choose(names));
            }
        }
        messages.push(self.start());
        messages
    }

    fn start(&self) -> Message {
        Message::Start(Start {
            direction: if self.source.is_some() { Direction::Upload } else { Direction::Download },
            transfer: self.transfer,
            destination: self.base.as_bytes().to_vec(),
            receive: self.receive.clone(),
            send: self.send.clone(),
            tune: Tune::default(),
            buffer: self.buffer,
            run: self.run,
        })
    }

    /// Whether an upload may begin before it is known what the destination has, if nothing of it is there to resume: only one that
    /// compares with nothing. Should something appear there meanwhile, it is replaced.
    fn can_begin_ahead(&self) -> bool {
        let receive = &self.receive;
        receive.selection == 0 && receive.overwrite == 0 && !receive.dry_run
    }

    /// Opens a session with a server, and begins this work there.
    pub(crate) fn call(&self, target: &Target, options: &TransferOptions) -> Result<Session> {
        let opening = Opening { messages: &self.begin(), streams: self.first_streams, upload: self.source.is_some() };
        client::connect(target, options, Some(opening))
    }
}

/// What watches and steers a session.
pub(crate) struct Steering {
    pub(crate) account: Arc<Account>,
    pub(crate) cancel: Arc<Stop>,
    pub(crate) settings: Settings,
    /// Begins with the transfer, so that all its sessions share one time line.
    pub(crate) clock: SystemClock,
}

/// Runs one session to its end; a server has been told [`Work::begin`].
pub(crate) fn run(
    work: &Work,
    peer: Option<Session>,
    steering: &Steering,
    optimizer: Box<dyn Optimizer>,
) -> (Result<()>, Outcome) {
    match Caller::new(work, peer, steering) {
        Ok(caller) => caller.run(steering, optimizer),
        Err(error) => (Err(error), Outcome::default()),
    }
}

/// The caller's side of a session.
struct Caller {
    /// The halves in this process: the first is the caller's own.
    halves: Vec<(Half, Control)>,
    remote: Option<(Arc<dyn Dialer>, ControlSender)>,
    meters: Arc<Mutex<Meters>>,
    /// How often the peer has sent its meters.
    heard: AtomicU64,
    account: Arc<Account>,
    next_stream: AtomicU32,
    retries: u32,
    /// The stores at this side, whose waits end with the transfer.
    stores: Vec<Arc<dyn Store>>,
    copier: Option<Arc<dyn Copier>>,
    direct: bool,
    /// Whether the sender here begins before it hears what the receiver has.
    ahead: bool,
}

impl Caller {
    fn new(work: &Work, peer: Option<Session>, steering: &Steering) -> Result<Self> {
        let (mut remote, mut ahead) = (None, false);
        let mut halves = Vec::new();
        steering.account.begin(work.receive.file_name.as_deref());
        let account = Some(Arc::clone(&steering.account));
        match (&work.source, &work.destination, peer) {
            (Some(source), Some(destination), _) => {
                let (near, far) = memory::pair();
                halves.push((sender(work, source, &near, account)?, near));
                halves.push((receiver(work, destination, &far, None), far));
            }
            (Some(source), None, Some(peer)) => {
                halves.push((sender(work, source, &peer.control, account)?, peer.control));
                ahead = peer.limits.fresh && work.can_begin_ahead();
                remote = Some(peer.dialer);
            }
            (None, Some(destination), Some(peer)) => {
                halves.push((receiver(work, destination, &peer.control, account), peer.control));
                remote = Some(peer.dialer);
            }
            _ => {
                return Err(Error::new(ErrorKind::Unsupported, "could not copy between two servers")
                    .with_hint("copy to this machine first, then on to the other server"));
            }
        }
        tell_waits(work, &steering.account);
        let remote = remote.map(|dialer| (dialer, Arc::clone(&halves[0].1.sender)));
        Ok(Self {
            halves,
            remote,
            meters: Arc::default(),
            heard: AtomicU64::new(0),
            account: Arc::clone(&steering.account),
            next_stream: AtomicU32::new(1),
            retries: work.retries,
            stores: work.source.iter().chain(&work.destination).cloned().collect(),
            copier: work.copier.clone(),
            direct: work.direct,
            ahead,
        })
    }

    fn run(&self, steering: &Steering, optimizer: Box<dyn Optimizer>) -> (Result<()>, Outcome) {
        let (result, outcome) = std::thread::scope(|scope| {
            let pumps: Vec<_> = self
                .halves
                .iter()
                .map(|(half, control)| {
                    scope.spawn(move || {
                        let outcome = guarded(half.stop(), || self.pump(half, control, &steering.cancel));
                        steering.clock.wake();
                        outcome
                    })
                })
                .collect();
            let keeper = scope.spawn(|| self.keep_streams());
            let mut plant = CallerPlant::new(self, &steering.cancel, &steering.settings.member);
            let outcome = control::run(&mut plant, optimizer, steering.settings.clone(), &steering.clock);
            // A half may have heard of a cancellation first, and ended the loop by it.
            self.heed(&steering.cancel);
            let results: Vec<Result<()>> = pumps
                .into_iter()
                .map(|pump| pump.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "a session thread panicked"))))
                .collect();
            self.halves.iter().for_each(|(half, _)| half.stop().set(None));
            let _ = keeper.join();
            (first_error(results), outcome)
        });
        for (half, _) in &self.halves {
            half.close();
        }
        for (_, control) in &self.halves {
            if result.is_ok() && self.remote.is_some() {
                let _ = control.sender.send(&Message::Goodbye);
            }
            control.sender.close();
        }
        (result, outcome)
    }

    fn pump(&self, half: &Half, control: &Control, cancel: &Stop) -> Result<()> {
        let sent = AtomicU64::new(0);
        let outcome = half.pump(control, |message| {
            if cancel.is_set() {
                half.stop().set(cancel.error());
            }
            let Message::Meters(meters) = message else { return Some(message) };
            let before = sent.fetch_max(meters.bytes_sent, Ordering::Relaxed);
            self.account.sent(meters.bytes_sent.saturating_sub(before));
            let mut latest = self.meters.lock();
            // Another thread of the server may have been faster.
            if meters.at_us >= latest.at_us {
                *latest = meters;
            }
            drop(latest);
            self.heard.fetch_add(1, Ordering::Release);
            None
        });
        if let Err(error) = &outcome {
            self.fail(error);
        }
        outcome
    }

    /// Ends both halves, and all that their stores wait for, if the transfer was cancelled.
    fn heed(&self, cancel: &Stop) {
        if cancel.is_set() {
            for (half, _) in &self.halves {
                half.stop().set(cancel.error());
            }
            self.stores.iter().for_each(|store| store.interrupt());
            self.copier.iter().for_each(|copier| copier.interrupt());
        }
    }

    /// Ends the other half too, wherever it is.
    fn fail(&self, error: &Error) {
        for (half, control) in &self.halves {
            if self.remote.is_some() && error.kind() != ErrorKind::ConnectionLost {
                let _ = control.sender.send(&Message::Fail(error.into()));
            }
            half.stop().set(Some(error.clone()));
        }
    }

    fn half(&self) -> &Half {
        &self.halves[0].0
    }

    fn ended(&self) -> bool {
        self.half().is_complete() || self.halves.iter().any(|(half, _)| half.stop().is_set())
    }
}

fn first_error(results: Vec<Result<()>>) -> Result<()> {
    let mut errors: Vec<Error> = results.into_iter().filter_map(Result::err).collect();
    // A closed channel only tells that the other side knows better.
    errors.sort_by_key(|error| error.kind() == ErrorKind::ConnectionLost);
    errors.into_iter().next().map_or(Ok(()), Err)
}

/// Has it told when a service at this side keeps a transfer waiting.
fn tell_waits(work: &Work, account: &Arc<Account>) {
    let watcher = |place: &'static str| -> RetryWatcher {
        let account = Arc::clone(account);
        Arc::new(move |error, wait| account.retried(place, error, u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    };
    let (source, destination) = (watcher("a request to the source"), watcher("a request to the destination"));
    work.source.iter().for_each(|store| store.watch(&source));
    work.destination.iter().for_each(|store| store.watch(&destination));
    work.copier.iter().for_each(|copier| copier.watch(&destination));
}

fn sender(work: &Work, store: &Arc<dyn Store>, control: &Control, account: Option<Arc<Account>>) -> Result<Half> {
    let publishes_by_request = |store: &Arc<dyn Store>| !store.capabilities().flushes;
    let parts = SenderParts {
        store: Arc::clone(store),
        options: work.send.clone(),
        files: work.files.clone(),
        mirror: work.receive.selection == 2,
        copied: work.copier.is_some(),
        one_by_one: work.destination.as_ref().is_some_and(publishes_by_request),
        control: Arc::clone(&control.sender),
        buffer: work.buffer,
        account,
    };
    Ok(Half::Sender(Arc::new(Sender::new(parts)?)))
}

fn receiver(work: &Work, store: &Arc<dyn Store>, control: &Control, account: Option<Arc<Account>>) -> Half {
    Half::Receiver(Arc::new(Receiver::new(ReceiverParts {
        store: Arc::clone(store),
        destination: work.base.clone(),
        options: work.receive.clone(),
        files: work.files.clone(),
        transfer: work.transfer,
        control: Arc::clone(&control.sender),
        buffer: work.buffer,
        account,
        copier: work.copier.clone(),
        discard: Discard::AtOnce,
    })))
}
