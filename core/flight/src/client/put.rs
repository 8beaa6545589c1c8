//! One stream of bytes to an upload: what the service has not acknowledged is kept, and sent again if the connection breaks or the service
//! has no place for the call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_flight::{FlightData, FlightDescriptor};
use edt::error::Retry;
use edt::pipeline::ranges::Ranges;
use edt::store::remote::spawn;
use edt::sync::{Condvar, Mutex, MutexGuard};
use edt::{Error, ErrorKind, Result};
use futures_util::stream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::Status;

use super::crowd::Crowd;
use super::host::{Host, Lease};
use super::rows::RowWriter;
use super::writer::give_up;
use crate::contract::{self, BeginBody, Begun, Command, PutProgress, action};

/// Bytes of one stream that may be on their way without an acknowledgement: the memory that a stream takes, and with the round trip time
/// the most that it can carry. Acknowledgements come at least each 4 MiB.
const WINDOW: u64 = 16 << 20;

/// The same for all streams to one service together.
const ALL_WINDOWS: u64 = 128 << 20;

/// What a stream may have under way even so: a row more than what is acknowledged at once.
const LEAST: u64 = 5 << 20;

/// How long acknowledgements may stay away.
const SILENCE: Duration = Duration::from_mins(2);

/// A call to which nothing is given for this time ends: it holds a place at the service, which others may wait for.
const IDLE: Duration = Duration::from_secs(1);

/// How long who waits may take to notice that waiting has ended.
const POLL: Duration = Duration::from_millis(100);

/// A stream to one upload. One thread at a time sends.
pub(super) struct Put {
    host: Arc<Host>,
    command: Command,
    /// Asks what is there of the upload.
    begun: BeginBody,
    what: String,
    writer: RowWriter,
    shared: Arc<Shared>,
    line: Option<Line>,
    /// A row was given to a call that had just ended.
    missed: bool,
}

/// The call that carries a stream at present.
struct Line {
    /// Dropped when all is said.
    sender: Option<UnboundedSender<FlightData>>,
    task: JoinHandle<()>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Bytes that all streams to the service have under way.
    all: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    unacknowledged: VecDeque<Sent>,
    bytes: u64,
    acknowledged: Ranges,
    /// When the service was last heard of, or someone began to wait for it.
    heard: Option<Instant>,
    /// The end of the call.
    ended: Option<Result<()>>,
}

/// A row that was sent.
struct Sent {
    begin: u64,
    end: u64,
    message: FlightData,
}

impl Put {
    /// Sends nothing yet.
    pub(super) fn new(host: &Arc<Host>, command: Command, begun: BeginBody, what: String) -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), all: Arc::clone(&host.under_way) });
        Self { host: Arc::clone(host), command, begun, what, writer: RowWriter::default(), shared, line: None, missed: false }
    }

    /// Sends bytes, and waits while too many are unacknowledged; again on another connection while that may help.
    pub(super) fn send(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut message = Some(self.writer.message(offset, bytes)?);
        let end = offset + bytes.len() as u64;
        self.patiently(|put| {
            let mut state = put.ready(end - offset)?;
            // Once it counts as sent, a further attempt has nothing left to do.
            if let Some(message) = message.take() {
                state.bytes += end - offset;
                state.unacknowledged.push_back(Sent { begin: offset, end, message: message.clone() });
                drop(state);
                put.shared.all.fetch_add(end - offset, Ordering::Relaxed);
                put.say(message);
            }
            Ok(())
        })
    }

    /// Says that nothing follows.
    pub(super) fn close(&mut self) {
        if let Some(line) = &mut self.line {
            line.sender = None;
        }
    }

    /// Waits until the service has everything.
    pub(super) fn finish(mut self) -> Result<()> {
        self.patiently(|put| {
            if put.line.is_some() {
                put.settle()?;
            }
            while !put.shared.state.lock().unacknowledged.is_empty() {
                put.open()?;
                put.settle()?;
            }
            Ok(())
        })
    }

    /// Makes attempts while a further one may help. Those that the service has no place for are made until it has one: places become free
    /// as others end, which no pace of requests can foresee.
    fn patiently(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let (patience, begun) = (self.host.patience.clone(), Instant::now());
        let mut refusals = 0;
        // Giving a row to a call that lives is no request, and keeps to no pace.
        let mut made = attempt(self);
        while let Err(error) = made {
            match error.retry() {
                Retry::Throttled if self.host.crowd.is_hopeless(begun) => return Err(error),
                Retry::Throttled => {
                    self.host.crowd.refused();
                    self.host.until_interrupted(&|| self.what.clone(), async { sleep(Crowd::pause(refusals)).await })?;
                    refusals += 1;
                    made = attempt(self);
                }
                Retry::Temporary => {
                    made = patience.run(|| match attempt(self) {
                        Err(error) if error.retry() == Retry::Throttled => Ok(Err(error)),
                        made => made.map(Ok),
                    })?;
                }
                Retry::Never => return Err(error),
            }
        }
        Ok(())
    }

    /// Opens a call if there is none, and waits until `length` more bytes may be on their way.
    fn ready(&mut self, length: u64) -> Result<MutexGuard<'_, State>> {
        loop {
            if self.line.as_ref().is_some_and(Line::is_over) {
                self.settle()?;
            }
            if self.line.is_none() {
                self.open()?;
            }
            let mut state = self.shared.state.lock();
            if self.is_full(&state, length) {
                state.listen();
            }
            while state.ended.is_none() && self.is_full(&state, length) {
                self.wait(&mut state)?;
            }
            if state.ended.is_none() {
                drop(state);
                return Ok(self.shared.state.lock());
            }
            drop(state);
            self.settle()?;
        }
    }

    /// Says that nothing follows, and waits for the end of the call.
    fn settle(&mut self) -> Result<()> {
        self.close();
        let mut state = self.shared.state.lock();
        state.listen();
        while state.ended.is_none() {
            self.wait(&mut state)?;
        }
        let ended = state.ended.take().unwrap_or(Ok(()));
        let lacking = !state.unacknowledged.is_empty();
        drop(state);
        self.line = None;
        let missed = std::mem::take(&mut self.missed);
        ended.and_then(|()| if lacking && !missed { Err(self.unfinished()) } else { Ok(()) })
    }

    /// Whether `length` more bytes are too many. A few always may go, or the service would have nothing to acknowledge.
    fn is_full(&self, state: &State, length: u64) -> bool {
        let bytes = state.bytes + length;
        let all = self.shared.all.load(Ordering::Relaxed) + length;
        state.bytes > 0 && bytes > LEAST && (bytes > WINDOW || all > ALL_WINDOWS)
    }

    fn wait(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        if self.host.is_interrupted() {
            return Err(self.error(ErrorKind::Cancelled, "the transfer was cancelled"));
        }
        if state.heard.is_some_and(|heard| heard.elapsed() > SILENCE) {
            state.ended = Some(Err(self.error(ErrorKind::ConnectionLost, "the service acknowledged nothing for minutes")));
            return Ok(());
        }
        self.shared.changed.wait_for(state, POLL);
        Ok(())
    }

    /// Makes a call, and sends again what was not acknowledged by an earlier one.
    fn open(&mut self) -> Result<()> {
        if !self.shared.state.lock().unacknowledged.is_empty() {
            self.learn()?;
        }
        let lease = self.host.lease()?;
        let (sender, receiver) = unbounded_channel();
        let descriptor = FlightDescriptor::new_cmd(self.command.to_json());
        let first = FlightData { flight_descriptor: Some(descriptor), ..RowWriter::schema()? };
        let mut state = self.shared.state.lock();
        (state.ended, state.heard) = (None, None);
        let again = state.unacknowledged.iter().map(|sent| sent.message.clone());
        for message in std::iter::once(first).chain(again) {
            // The receiver lives until the call is made.
            let _ = sender.send(message);
        }
        drop(state);
        let call = carry(Arc::clone(&self.host), lease, receiver, Arc::clone(&self.shared), self.what.clone());
        let task = spawn(call);
        self.line = Some(Line { sender: Some(sender), task });
        Ok(())
    }

    /// Asks what arrived although nobody said so: a connection may break each time before an acknowledgement comes through.
    fn learn(&self) -> Result<()> {
        let what = || self.what.clone();
        let begun: Vec<Begun> = self.host.act(action::BEGIN, &self.begun, &what)?;
        if let Some(other) = begun.iter().find(|one| Some(&one.upload) != self.command.upload.as_ref()) {
            give_up(&self.host, &other.upload);
            return Err(self.error(ErrorKind::Io, "the service has lost the upload").with_hint("run the same command again"));
        }
        self.shared.state.lock().acknowledged = Ranges::new();
        for one in begun {
            self.shared.acknowledge(one.ranges);
        }
        Ok(())
    }

    /// A call that has ended takes nothing, and says so where its end is looked at.
    fn say(&mut self, message: FlightData) {
        if let Some(sender) = self.line.as_ref().and_then(|line| line.sender.as_ref()) {
            self.missed |= sender.send(message).is_err();
        }
    }

    fn unfinished(&self) -> Error {
        self.error(ErrorKind::ConnectionLost, "the service ended the stream before it had acknowledged all of it")
    }

    fn error(&self, kind: ErrorKind, cause: &str) -> Error {
        Error::new(kind, self.what.clone()).with_cause(cause)
    }
}

impl State {
    /// Waiting begins: the service has its time from now on.
    fn listen(&mut self) {
        self.heard = Some(Instant::now());
    }
}

impl Drop for Put {
    fn drop(&mut self) {
        self.line = None;
        let mut state = self.shared.state.lock();
        self.shared.all.fetch_sub(std::mem::take(&mut state.bytes), Ordering::Relaxed);
        state.unacknowledged.clear();
    }
}

impl Line {
    /// Whether the call takes nothing more.
    fn is_over(&self) -> bool {
        self.sender.as_ref().is_none_or(UnboundedSender::is_closed)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Makes the call and takes its acknowledgements.
async fn carry(host: Arc<Host>, mut lease: Lease, receiver: UnboundedReceiver<FlightData>, shared: Arc<Shared>, what: String) {
    let request = host.request(stream::unfold(receiver, next));
    let outcome = async {
        let mut results = lease.client.do_put(request).await?.into_inner();
        while let Some(result) = results.message().await? {
            if let Ok(PutProgress::Ranges { ranges }) = contract::parse(&result.app_metadata, "progress") {
                host.crowd.took();
                shared.acknowledge(ranges);
            }
        }
        Ok::<(), Status>(())
    };
    let outcome = outcome.await.map_err(|status| Host::error(&status, || what));
    if outcome.is_ok() {
        lease.keep();
    }
    drop(lease);
    shared.state.lock().ended = Some(outcome);
    shared.changed.notify_all();
}

/// The next message of a call; none when all is said, or when nothing was said for long.
async fn next(mut receiver: UnboundedReceiver<FlightData>) -> Option<(FlightData, UnboundedReceiver<FlightData>)> {
    let message = if let Ok(message) = timeout(IDLE, receiver.recv()).await {
        message
    } else {
        // What came in this moment still goes.
        receiver.close();
        receiver.recv().await
    };
    message.map(|message| (message, receiver))
}

impl Shared {
    fn acknowledge(&self, ranges: Vec<[u64; 2]>) {
        let mut state = self.state.lock();
        for [begin, length] in ranges {
            state.acknowledged.insert(begin, begin.saturating_add(length));
        }
        let State { unacknowledged, bytes, acknowledged, heard, .. } = &mut *state;
        unacknowledged.retain(|sent| {
            let is_there = acknowledged.contains(sent.begin, sent.end);
            if is_there {
                *bytes -= sent.end - sent.begin;
                self.all.fetch_sub(sent.end - sent.begin, Ordering::Relaxed);
            }
            !is_there
        });
        *heard = heard.map(|_| Instant::now());
        drop(state);
        self.changed.notify_all();
    }
}
