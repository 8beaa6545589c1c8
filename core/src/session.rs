//! One session of a transfer, at the caller: both halves or one of them, their streams, and the controller beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::control::{self, Outcome, Plant, Settings, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Totals;
use crate::link::client::{self, Opening, Session, Target};
use crate::link::{Control, ControlSender, Dialer, memory};
use crate::metrics::sampler::Sample;
use crate::optimizer::{Decision, FirstStreams, Optimizer};
use crate::options::TransferOptions;
use crate::path::RelativePath;
use crate::pipeline::account::Account;
use crate::pipeline::half::Half;
use crate::pipeline::receiver::{Discard, Receiver, ReceiverParts};
use crate::pipeline::sender::{Sender, SenderParts};
use crate::pipeline::stop::{Stop, guarded};
use crate::protocol::TransferId;
use crate::protocol::message::{Direction, Key, Message, Meters, ReceiveOptions, SendOptions, Start, Tune};
use crate::store::Store;

/// Meters of the peer after which a decision has taken effect there, whatever they show: a server may allow fewer workers.
const PATIENCE: u64 = 5;

/// What a session moves, the same for every attempt.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) transfer: TransferId,
    /// Random for each run: tells this caller from another one with the same transfer.
    pub(crate) run: Key,
    pub(crate) send: SendOptions,
    pub(crate) receive: ReceiveOptions,
    /// The store of the caller's source, if the source is on the caller's side.
    pub(crate) source: Option<Arc<dyn Store>>,
    /// The store of the destination, if it is on the caller's side.
    pub(crate) destination: Option<Arc<dyn Store>>,
    /// The destination as named.
    pub(crate) base: RelativePath,
    pub(crate) buffer: u64,
    /// Broken streams that are made again without progress in between.
    pub(crate) retries: u32,
    /// Streams that a session begins with, as far as that can be told before the optimizer decides.
    pub(crate) first_streams: FirstStreams,
}

impl Work {
    /// The message that begins a session of this work with a server.
    pub(crate) fn start(&self) -> Message {
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

    /// Opens a session with a server, and begins this work there.
    pub(crate) fn call(&self, target: &Target, options: &TransferOptions) -> Result<Session> {
        let opening = Opening { message: &self.start(), streams: self.first_streams };
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

/// Runs one session to its end; a server has been told [`Work::start`].
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
}

impl Caller {
    fn new(work: &Work, peer: Option<Session>, steering: &Steering) -> Result<Self> {
        let mut remote = None;
        let mut halves = Vec::new();
        let account = Some(Arc::clone(&steering.account));
        match (&work.source, &work.destination, peer) {
            (Some(source), Some(destination), _) => {
                let (near, far) = memory::pair();
                halves.push((sender(work, source, &near, account)?, near));
                halves.push((receiver(work, destination, &far, None), far));
            }
            (Some(source), None, Some(peer)) => {
                halves.push((sender(work, source, &peer.control, account)?, peer.control));
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
        let remote = remote.map(|dialer| (dialer, Arc::clone(&halves[0].1.sender)));
        Ok(Self {
            halves,
            remote,
            meters: Arc::default(),
            heard: AtomicU64::new(0),
            account: Arc::clone(&steering.account),
            next_stream: AtomicU32::new(1),
            retries: work.retries,
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
            let mut plant = CallerPlant { caller: self, cancel: &steering.cancel, asked: None };
            let outcome = control::run(&mut plant, optimizer, steering.settings.clone(), &steering.clock);
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
            let before = sent.swap(meters.bytes_sent, Ordering::Relaxed);
            self.account.sent(meters.bytes_sent.saturating_sub(before));
            *self.meters.lock() = meters;
            self.heard.fetch_add(1, Ordering::Release);
            None
        });
        if let Err(error) = &outcome {
            self.fail(error);
        }
        outcome
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

    /// Dials until there are as many streams as there should be; gives up when streams break again and again without progress.
    fn keep_streams(&self) {
        let (failures, dialing) = (AtomicU32::new(0), AtomicU16::new(0));
        std::thread::scope(|scope| {
            let mut progress = 0;
            while !self.ended() {
                if self.account.progress() != progress {
                    progress = self.account.progress();
                    failures.store(0, Ordering::Relaxed);
                }
                if let Some(error) = self.halves.iter().find_map(|(half, _)| half.streams().take_error()) {
                    self.stream_failed(&error, &failures);
                }
                let streams = self.half().streams();
                let missing = streams.target().saturating_sub(dialing.load(Ordering::Acquire) + streams.count());
                for _ in 0..missing {
                    dialing.fetch_add(1, Ordering::AcqRel);
                    scope.spawn(|| {
                        if let Err(error) = self.dial() {
                            self.stream_failed(&error, &failures);
                        }
                        dialing.fetch_sub(1, Ordering::AcqRel);
                    });
                }
                let wait = 5 << failures.load(Ordering::Relaxed).min(8);
                self.half().stop().wait(Duration::from_millis(wait));
            }
        });
    }

    fn stream_failed(&self, error: &Error, failures: &AtomicU32) {
        if self.ended() {
            return;
        }
        let count = failures.fetch_add(1, Ordering::Relaxed) + 1;
        self.account.retried("a stream", error, 5 << count.min(8));
        if count > self.retries * u32::from(self.half().streams().target().max(1)) {
            self.fail(error);
        }
    }

    fn dial(&self) -> Result<()> {
        let Ok(number) = u16::try_from(self.next_stream.fetch_add(1, Ordering::Relaxed)) else {
            let error = Error::new(ErrorKind::ConnectionLost, "this session has used up its stream numbers");
            self.fail(&error);
            return Err(error);
        };
        match (&self.remote, self.half()) {
            (Some((dialer, _)), Half::Sender(half)) => half.attach(number, dialer.sink(number)?),
            (Some((dialer, _)), Half::Receiver(half)) => half.attach(number, dialer.source(number)?),
            (None, _) => {
                let (sink, source) = memory::stream(8);
                for (half, _) in &self.halves {
                    if let Half::Receiver(half) = half {
                        half.attach(number, source)?;
                        break;
                    }
                }
                match self.half() {
                    Half::Sender(half) => half.attach(number, sink),
                    Half::Receiver(_) => Ok(()),
                }
            }
        }
    }
}

fn first_error(results: Vec<Result<()>>) -> Result<()> {
    let mut errors: Vec<Error> = results.into_iter().filter_map(Result::err).collect();
    // A closed channel only tells that the other side knows better.
    errors.sort_by_key(|error| error.kind() == ErrorKind::ConnectionLost);
    errors.into_iter().next().map_or(Ok(()), Err)
}

fn sender(work: &Work, store: &Arc<dyn Store>, control: &Control, account: Option<Arc<Account>>) -> Result<Half> {
    let parts = SenderParts {
        store: Arc::clone(store),
        options: work.send.clone(),
        mirror: work.receive.selection == 2,
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
        transfer: work.transfer,
        control: Arc::clone(&control.sender),
        buffer: work.buffer,
        account,
        discard: Discard::AtOnce,
    })))
}

/// What the controller tunes: the halves here, and through them the one at the peer.
struct CallerPlant<'a> {
    caller: &'a Caller,
    cancel: &'a Stop,
    /// The workers that the peer's stage was asked to have, and how often its meters had come by then.
    asked: Option<(u16, u64)>,
}

impl CallerPlant<'_> {
    /// Whether the peer's meters show the workers that it was asked for, or so much later that it will not have them: meters from before
    /// would count the workers of an earlier decision in an interval of this one.
    fn peer_settled(&self) -> bool {
        let caller = self.caller;
        let (Some((workers, heard)), Some(_)) = (self.asked, &caller.remote) else { return true };
        let meters = caller.meters.lock();
        let stage = if matches!(caller.half(), Half::Sender(_)) { meters.write } else { meters.read };
        stage.workers == workers || caller.heard.load(Ordering::Acquire) >= heard + PATIENCE
    }
}

impl Plant for CallerPlant<'_> {
    fn sample(&mut self) -> Result<Sample> {
        let caller = self.caller;
        let remote = caller.meters.lock().clone();
        let mut of_sender = remote.clone();
        let mut of_receiver = remote;
        for (half, _) in &caller.halves {
            match half {
                Half::Sender(half) => of_sender = half.meters(),
                Half::Receiver(half) => of_receiver = half.meters(),
            }
        }
        Ok(Sample::from_halves(&of_sender, &of_receiver))
    }

    fn apply(&mut self, decision: &Decision) -> Result<()> {
        let tune = Tune {
            read: Some(decision.concurrency.read),
            network: Some(decision.concurrency.network),
            write: Some(decision.concurrency.write),
            parallelism: Some(decision.parallelism),
            // Within one process there are no connections to be made anew, and their numbers would run out.
            pipelining: Some(if self.caller.remote.is_none() { decision.pipelining.max(1) } else { decision.pipelining }),
        };
        for (half, _) in &self.caller.halves {
            half.tune(&tune);
        }
        let there = if matches!(self.caller.half(), Half::Sender(_)) { tune.write } else { tune.read };
        self.asked = there.map(|workers| (workers.max(1), self.caller.heard.load(Ordering::Acquire)));
        self.caller.remote.as_ref().map_or(Ok(()), |(_, control)| control.send(&Message::Tune(tune)))
    }

    fn finished(&self) -> bool {
        if self.cancel.is_set() {
            for (half, _) in &self.caller.halves {
                half.stop().set(self.cancel.error());
            }
        }
        self.caller.ended()
    }

    fn settled(&self) -> bool {
        let streams = self.caller.half().streams();
        streams.count() == streams.target() && self.peer_settled()
    }

    fn totals(&self) -> Totals {
        self.caller.account.totals()
    }
}
