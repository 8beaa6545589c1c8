//! The receiver half: verifies what arrives, writes it under temporary names, journals it, and publishes whole files.

mod acks;
mod direct;
mod file;
mod finish;
mod publish;
mod resume;
mod stream;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::buffer::{Budget, SlabPool};
use crate::error::{Error, ErrorKind, Result};
use crate::link::{ControlSender, Frame, FrameSource};
use crate::metrics::StageMeter;
use crate::options::{Digest, Fsync, Overwrite};
use crate::path::RelativePath;
use crate::pipeline::account::Account;
use crate::pipeline::frames::FrameBuffer;
use crate::pipeline::journal::Journal;
use crate::pipeline::pool::{Turn, WorkerPool};
use crate::pipeline::receiver::acks::Acks;
use crate::pipeline::receiver::file::{Files, TargetDirectory};
use crate::pipeline::receiver::publish::Publisher;
use crate::pipeline::receiver::resume::Partials;
use crate::pipeline::sender::unexpected;
use crate::pipeline::stop::{Stop, guarded};
use crate::pipeline::streams::Streams;
use crate::protocol::TransferId;
use crate::protocol::message::{Key, Message, Meters, ReceiveOptions, Tune};
use crate::store::{Capabilities, Copier, Store};
use crate::sync::Mutex;

/// How often written ranges are journaled and acknowledged.
const ACK_EVERY: Duration = Duration::from_millis(20);

/// When the journal of a complete transfer is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discard {
    /// With the transfer's completion: whoever must hear of it is in this process.
    AtOnce,
    /// When the caller has heard of the completion: a connection that breaks before must not cost a second transfer.
    OnGoodbye,
}

/// What a receiver half is made of.
pub(crate) struct ReceiverParts {
    pub(crate) store: Arc<dyn Store>,
    /// The destination as the caller named it, in the store.
    pub(crate) destination: RelativePath,
    pub(crate) options: ReceiveOptions,
    /// What the sender was told to send below the destination; `None`: all of its sources.
    pub(crate) files: Option<Arc<[RelativePath]>>,
    pub(crate) transfer: TransferId,
    pub(crate) control: ControlSender,
    /// Bytes of the buffer.
    pub(crate) buffer: u64,
    /// The account of the transfer, in the caller's process.
    pub(crate) account: Option<Arc<Account>>,
    /// Copies files that the services of both sides hold; only where both halves are in one process.
    pub(crate) copier: Option<Arc<dyn Copier>>,
    pub(crate) discard: Discard,
}

/// The receiver half of one session.
pub(crate) struct Receiver {
    shared: Arc<Shared>,
    writers: WorkerPool,
    publisher: Publisher,
    acknowledger: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// Works on the beginning and the end of the session, so that messages are taken meanwhile.
    beside: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

/// A frame that waits for a writer, with the stream and sequence that it is acknowledged by.
pub(crate) struct Arrived {
    stream: u16,
    sequence: u32,
    frame: Frame,
}

/// What the threads of a receiver share.
pub(crate) struct Shared {
    store: Arc<dyn Store>,
    capabilities: Capabilities,
    options: ReceiveOptions,
    chosen: Option<Arc<[RelativePath]>>,
    fsync: Fsync,
    overwrite: Overwrite,
    digest: Digest,
    transfer: TransferId,
    key: String,
    control: ControlSender,
    account: Option<Arc<Account>>,
    copier: Option<Arc<dyn Copier>>,
    discard: Discard,
    /// Whether the journal is of no more use once the caller has heard of the completion.
    spent: AtomicBool,
    pub(crate) stop: Stop,
    /// The destination as resolved: known before the first frame is taken.
    base: Mutex<RelativePath>,
    ready: AtomicBool,
    complete: AtomicBool,
    failures: AtomicBool,
    finishing: AtomicBool,
    /// Whether there is anything in the journal that another attempt could use.
    resumable: AtomicBool,
    /// Whether the journal knows partial or published files of an attempt at others than were chosen now.
    set_aside: AtomicBool,
    pool: SlabPool,
    frames: FrameBuffer<Arrived>,
    fused: AtomicBool,
    streams: Arc<Streams>,
    files: Files,
    directories: Mutex<Vec<TargetDirectory>>,
    touched: Mutex<HashSet<RelativePath>>,
    kept: Mutex<HashSet<Key>>,
    /// Items removed so far because they were in a directory that stood where a mirror brought something else.
    made_way: AtomicU64,
    partials: Partials,
    journal: Mutex<Option<Journal>>,
    acks: Acks,
    publishing: publish::Queue,
    /// Closed files of which bytes are still on their way, with the crc64nvme that the source's store keeps of them.
    vouched: Mutex<HashMap<u32, Option<u64>>>,
    /// All closed files that are not yet under their final names.
    closing: AtomicUsize,
    /// Frames that are being written and are on no list of acknowledgements yet.
    taking: AtomicUsize,
    network: Arc<StageMeter>,
    write: Arc<StageMeter>,
    written: AtomicU64,
    begun: Instant,
}

impl Receiver {
    pub(crate) fn new(parts: ReceiverParts) -> Self {
        let shared = Arc::new(Shared {
            fsync: match parts.options.fsync {
                0 => Fsync::None,
                2 => Fsync::Full,
                _ => Fsync::File,
            },
            overwrite: if parts.options.overwrite == 1 { Overwrite::Never } else { Overwrite::Replace },
            digest: if parts.options.digest == 1 { Digest::Blake3 } else { Digest::None },
            transfer: parts.transfer,
            key: parts.transfer.key(),
            capabilities: parts.store.capabilities(),
            store: parts.store,
            options: parts.options,
            chosen: parts.files,
            control: parts.control,
            account: parts.account,
            copier: parts.copier,
            discard: parts.discard,
            spent: AtomicBool::new(false),
            stop: Stop::default(),
            base: Mutex::new(parts.destination),
            ready: AtomicBool::new(false),
            complete: AtomicBool::new(false),
            failures: AtomicBool::new(false),
            finishing: AtomicBool::new(false),
            resumable: AtomicBool::new(false),
            set_aside: AtomicBool::new(false),
            pool: SlabPool::new(Budget::process(), parts.buffer),
            frames: FrameBuffer::default(),
            fused: AtomicBool::new(true),
            streams: Arc::default(),
            files: Files::default(),
            directories: Mutex::default(),
            touched: Mutex::default(),
            kept: Mutex::default(),
            made_way: AtomicU64::new(0),
            partials: Partials::default(),
            journal: Mutex::new(None),
            acks: Acks::default(),
            publishing: publish::Queue::default(),
            vouched: Mutex::default(),
            closing: AtomicUsize::new(0),
            taking: AtomicUsize::new(0),
            network: StageMeter::new(),
            write: StageMeter::new(),
            written: AtomicU64::new(0),
            begun: Instant::now(),
        });
        let body = Arc::clone(&shared);
        let write = move |turn: &Turn| guarded(&body.stop, || body.write_worker(turn));
        let writers = WorkerPool::new("write", Arc::new(write));
        let publisher = Publisher::new(&shared);
        Self { shared, writers, publisher, acknowledger: Mutex::new(None), beside: Mutex::default() }
    }

    /// Finds out what is there already and tells the sender, on a thread of its own: it may take as long as reading the partial files.
    pub(crate) fn prepare_beside(&self) -> Result<()> {
        self.start()?;
        self.beside(|shared| {
            shared.prepare()?;
            shared.ready.store(true, Ordering::SeqCst);
            Ok(())
        })
    }

    fn beside(&self, work: impl FnOnce(&Shared) -> Result<()> + Send + 'static) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("edt-beside".to_owned()).spawn(move || {
            if let Err(error) = guarded(&shared.stop, || work(&shared)) {
                shared.stop.set(Some(error));
            }
        });
        self.beside.lock().push(thread.map_err(|cause| Error::io("could not start a thread of the receiver", &cause))?);
        Ok(())
    }

    /// Whether the end of the session is being worked on.
    pub(crate) fn is_finishing(&self) -> bool {
        self.shared.finishing.load(Ordering::SeqCst)
    }

    fn start(&self) -> Result<()> {
        self.publisher.start();
        let shared = Arc::clone(&self.shared);
        let acknowledge = move || guarded(&shared.stop, || shared.acknowledge_all());
        let thread = std::thread::Builder::new().name("edt-ack".to_owned()).spawn(acknowledge);
        *self.acknowledger.lock() = Some(thread.map_err(|cause| Error::io("could not start the acknowledging thread", &cause))?);
        Ok(())
    }

    /// Takes a message of the sender.
    pub(crate) fn handle(&self, message: Message) -> Result<()> {
        let shared = &self.shared;
        match message {
            Message::Close(files, kept) => files.into_iter().for_each(|file| shared.close(file, kept)),
            Message::Abandon(file) => shared.abandon(file),
            Message::Keep(keys) => shared.kept.lock().extend(keys),
            Message::Finish(intact) if !shared.finishing.swap(true, Ordering::SeqCst) => {
                // A sender that began ahead may be through before it is known where to.
                self.beside(move |shared| if shared.wait_until_ready() { shared.finish(intact) } else { Ok(()) })?;
            }
            Message::Listed(listed) => self.account(|account| account.listed(listed)),
            Message::ItemFailed(item) => {
                shared.failures.store(true, Ordering::SeqCst);
                self.account(|account| account.failed(&item.path, &item.failed.into()));
            }
            Message::Retried(item) => self.account(|account| {
                account.retried(String::from_utf8_lossy(&item.path), &item.failed.into(), 0);
            }),
            Message::Skipped(skipped) => {
                self.account(|account| skipped.iter().for_each(|skipped| account.left_out(skipped)));
            }
            Message::Tune(tune) => self.tune(&tune),
            Message::Fail(failed) => return Err(failed.into()),
            other => return Err(unexpected(&other)),
        }
        Ok(())
    }

    fn account(&self, tell: impl FnOnce(&Account)) {
        if let Some(account) = &self.shared.account {
            tell(account);
        }
    }

    /// Changes the size of the write stage: as many writers as streams are fused with them.
    pub(crate) fn tune(&self, tune: &Tune) {
        let shared = &self.shared;
        if let Some(network) = tune.network {
            shared.streams.set_target(network.max(1));
        }
        if let Some(write) = tune.write {
            self.publisher.tune(write);
            let fused = write == shared.streams.target();
            shared.fused.store(fused, Ordering::Relaxed);
            self.writers.resize(if fused { 0 } else { write.max(1) });
        }
    }

    /// Changes how many bytes this half may hold in buffers.
    pub(crate) fn hold(&self, bytes: u64) {
        self.shared.pool.resize(bytes);
    }

    /// Begins to receive on a stream.
    pub(crate) fn attach(&self, number: u16, source: Box<dyn FrameSource>) -> Result<()> {
        let (shared, breaker) = (Arc::clone(&self.shared), source.breaker());
        let receive = move || guarded(&shared.stop, || stream::run(&shared, number, source));
        self.shared.streams.run(number, breaker, receive)
    }

    pub(crate) fn streams(&self) -> &Arc<Streams> {
        &self.shared.streams
    }

    pub(crate) fn meters(&self) -> Meters {
        let shared = &self.shared;
        let now = Instant::now();
        let (buffer_free, buffer_capacity) = shared.pool.free();
        Meters {
            at_us: u64::try_from(now.duration_since(shared.begun).as_micros()).unwrap_or(u64::MAX),
            network: shared.network.snapshot(now),
            write: shared.write.snapshot(now),
            buffer_free,
            buffer_capacity,
            ..Meters::default()
        }
    }

    /// Whether everything was published and the sender was told so.
    pub(crate) fn is_complete(&self) -> bool {
        self.shared.complete.load(Ordering::SeqCst)
    }

    /// The caller has heard of the completion.
    pub(crate) fn goodbye(&self) {
        if self.shared.spent.swap(false, Ordering::SeqCst) {
            self.shared.discard();
        }
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.shared.stop
    }

    /// Ends all threads and waits for them; what was written and journaled stays for resuming.
    pub(crate) fn close(&self) {
        self.shared.stop.set(None);
        self.shared.streams.break_all();
        self.shared.streams.join();
        self.writers.join();
        self.shared.frames.close();
        let beside: Vec<_> = self.beside.lock().drain(..).collect();
        for thread in beside {
            let _ = thread.join();
        }
        self.publisher.join();
        if let Some(thread) = self.acknowledger.lock().take() {
            let _ = thread.join();
        }
        let journaled = self.shared.journal.lock().is_some();
        self.shared.close_journal();
        if journaled && !self.shared.is_resumable() {
            self.shared.discard();
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Waits until it is known where the destination is and what it has; false if the half ends before.
    fn wait_until_ready(&self) -> bool {
        while !self.ready.load(Ordering::SeqCst) {
            if self.stop.wait(Duration::from_millis(2)) {
                return false;
            }
        }
        true
    }

    fn write_worker(&self, turn: &Turn) {
        let _worker = self.write.worker();
        // However many frames wait: those who stay, or the streams where the stages are fused, take them.
        while !turn.is_surplus() {
            match self.frames.pop(Duration::from_millis(50)) {
                Some(arrived) => self.take(&arrived),
                None if turn.over() && (turn.closed() || self.frames.len() == 0) => return,
                None => {}
            }
        }
    }

    /// Whether what is there when the session ends early is kept for another attempt.
    fn is_resumable(&self) -> bool {
        self.resumable.load(Ordering::Relaxed) && !self.options.forget
    }

    /// Ends the half when a frame shows that the peer or the path cannot be trusted, or when its own journal fails.
    fn fatal(&self, error: Error) {
        self.stop.set(Some(error));
    }

    /// The name in the store of an item below the destination.
    fn target(&self, path: &[u8]) -> Result<RelativePath> {
        let path = RelativePath::from_bytes(path)
            .map_err(|error| Error::new(ErrorKind::Protocol, "the sender names an impossible path").with_cause(error))?;
        Ok(self.base.lock().join(&path))
    }
}
