//! The sender half: reads the source, and keeps every stream busy until all of it is acknowledged.

mod chunk;
pub(crate) mod feed;
pub(crate) mod outstanding;
mod pacing;
mod pending;
pub(crate) mod queue;
mod read;
mod settle;
mod stream;
mod tcp;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::buffer::{Budget, Slab, SlabPool};
use crate::error::{Error, ErrorKind, Result};
use crate::link::{ControlSender, FrameSink};
use crate::metrics::{StageMeter, listed};
use crate::optimizer::{Listed, SizeShare};
use crate::path::RelativePath;
use crate::pipeline::account::Account;
use crate::pipeline::frames::FrameBuffer;
use crate::pipeline::limiter::Limiter;
use crate::pipeline::pool::{Turn, WorkerPool};
use crate::pipeline::sender::chunk::Pace;
use crate::pipeline::sender::feed::{Feed, Known};
use crate::pipeline::sender::outstanding::Outstanding;
use crate::pipeline::sender::pacing::Pacing;
use crate::pipeline::sender::pending::PendingItems;
use crate::pipeline::sender::queue::{Next, Queue, Unit, Worker, least_share};
use crate::pipeline::sender::read::{Tagged, UnitReader};
use crate::pipeline::sender::tcp::TcpCounters;
use crate::pipeline::stop::{Stop, guarded};
use crate::pipeline::streams::Streams;
use crate::plan::Filter;
use crate::protocol::message::{Message, Meters, SendOptions, Tune};
use crate::store::Store;
use crate::sync::Mutex;

const PATIENCE: Duration = Duration::from_millis(50);

/// Frames that may wait for a stream, as many as the largest buffer has slabs: those of holes have none that would bound them.
const WAITING: usize = 8192;

/// What a sender half is made of.
pub(crate) struct SenderParts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) options: SendOptions,
    /// The files and directories below the only root that are sent; `None`: all.
    pub(crate) files: Option<Arc<[RelativePath]>>,
    /// Whether the receiver mirrors, and so must hear of every path.
    pub(crate) mirror: bool,
    /// Whether files are copied by the services that hold them.
    pub(crate) copied: bool,
    /// Whether a file is finished before the next one is begun.
    pub(crate) one_by_one: bool,
    pub(crate) control: ControlSender,
    /// Bytes of the buffer.
    pub(crate) buffer: u64,
    /// The account of the transfer, in the caller's process; elsewhere the other half keeps it.
    pub(crate) account: Option<Arc<Account>>,
}

/// The sender half of one session.
pub(crate) struct Sender {
    shared: Arc<Shared>,
    readers: WorkerPool,
    known: Mutex<Option<Known>>,
    ahead: AtomicBool,
    planner: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// What the threads of a sender share.
#[expect(clippy::struct_excessive_bools, reason = "each says something else of the session")]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) options: SendOptions,
    pub(crate) files: Option<Arc<[RelativePath]>>,
    pub(crate) filter: Filter,
    pub(crate) mirror: bool,
    pub(crate) copied: bool,
    one_by_one: bool,
    /// The least bytes of a part of a chunk that another worker takes over.
    least_share: u64,
    pub(crate) blake3: bool,
    control: ControlSender,
    account: Option<Arc<Account>>,
    pub(crate) stop: Stop,
    pub(crate) queue: Queue,
    outstanding: Outstanding,
    pending: Mutex<PendingItems>,
    pub(crate) next_number: AtomicU32,
    planned: AtomicBool,
    intact: AtomicBool,
    finishing: AtomicBool,
    complete: AtomicBool,
    /// Whether the receiver may hand files back, to be begun again.
    hands_back: AtomicBool,
    pool: SlabPool,
    frames: FrameBuffer<Tagged>,
    fused: AtomicBool,
    parallelism: AtomicU16,
    pipelining: AtomicU16,
    streams: Arc<Streams>,
    limiter: Limiter,
    read: Arc<StageMeter>,
    network: Arc<StageMeter>,
    tcp: TcpCounters,
    pacing: Pacing,
    /// The files to be sent that were listed so far.
    sizes: Mutex<Listed>,
    begun: Instant,
    pace: Pace,
    sent: AtomicU64,
}

impl Sender {
    pub(crate) fn new(parts: SenderParts) -> Result<Self> {
        let pool = SlabPool::new(Budget::process(), parts.buffer);
        let shared = Arc::new(Shared {
            filter: Filter::new(&parts.options.include, &parts.options.exclude)?,
            blake3: parts.options.digest == 1,
            least_share: least_share(&parts.store.capabilities()),
            limiter: Limiter::new(parts.options.limit_rate),
            pacing: Pacing::new(parts.options.limit_rate),
            store: parts.store,
            options: parts.options,
            files: parts.files,
            mirror: parts.mirror,
            copied: parts.copied,
            one_by_one: parts.one_by_one,
            control: parts.control,
            account: parts.account,
            stop: Stop::default(),
            queue: Queue::default(),
            outstanding: Outstanding::default(),
            pending: Mutex::default(),
            next_number: AtomicU32::new(1),
            planned: AtomicBool::new(false),
            intact: AtomicBool::new(true),
            finishing: AtomicBool::new(false),
            complete: AtomicBool::new(false),
            hands_back: AtomicBool::new(false),
            pool,
            frames: FrameBuffer::default(),
            fused: AtomicBool::new(true),
            parallelism: AtomicU16::new(u16::MAX),
            pipelining: AtomicU16::new(u16::MAX),
            streams: Arc::default(),
            read: StageMeter::new(),
            network: StageMeter::new(),
            tcp: TcpCounters::default(),
            sizes: Mutex::default(),
            begun: Instant::now(),
            pace: Pace::new(Instant::now()),
            sent: AtomicU64::new(0),
        });
        let body = Arc::clone(&shared);
        let read = move |turn: &Turn| guarded(&body.stop, || body.read_worker(turn));
        let readers = WorkerPool::new("read", Arc::new(read));
        Ok(Self {
            shared,
            readers,
            known: Mutex::new(Some(Known::default())),
            ahead: AtomicBool::new(false),
            planner: Mutex::new(None),
        })
    }

    /// Takes a message of the receiver.
    pub(crate) fn handle(&self, message: Message) -> Result<()> {
        match message {
            Message::Have(have) => {
                let last = have.last;
                if have.hands_back == Some(true) {
                    self.shared.hands_back.store(true, Ordering::Relaxed);
                }
                if let Some(account) = self.shared.account.as_ref().filter(|_| last) {
                    account.resolved(have.inside == Some(true));
                }
                match self.known.lock().as_mut() {
                    Some(known) => known.add(have),
                    // It has begun already: what is there nevertheless is sent again, which changes nothing.
                    None if self.ahead.load(Ordering::Relaxed) => return Ok(()),
                    None => return Err(Error::new(ErrorKind::Protocol, "the receiver told twice what it has")),
                }
                if last { self.plan() } else { Ok(()) }
            }
            Message::Ack(ack) => {
                self.shared.acknowledged(ack);
                Ok(())
            }
            Message::ItemFailed(item) => {
                self.shared.handed_back(item);
                Ok(())
            }
            Message::Tune(tune) => {
                self.tune(&tune);
                Ok(())
            }
            Message::Complete(complete) => {
                self.shared.completed(&complete);
                Ok(())
            }
            Message::Fail(failed) => Err(failed.into()),
            other => Err(unexpected(&other)),
        }
    }

    /// Begins before the receiver has told what it has, which saves a round trip where that is known to be nothing.
    pub(crate) fn begin_ahead(&self) {
        if !self.ahead.swap(true, Ordering::Relaxed)
            && let Err(error) = self.plan()
        {
            self.shared.stop.set(Some(error));
        }
    }

    fn plan(&self) -> Result<()> {
        let Some(known) = self.known.lock().take() else { return Ok(()) };
        let shared = Arc::clone(&self.shared);
        let planner = std::thread::Builder::new()
            .name("edt-plan".to_owned())
            .spawn(move || match guarded(&shared.stop, || Feed::new(&shared, known).run()) {
                Ok(()) => {
                    shared.queue.complete();
                    shared.planned.store(true, Ordering::SeqCst);
                    shared.finish_if_settled();
                }
                Err(error) => shared.stop.set(Some(error)),
            })
            .map_err(|cause| Error::io("could not start the planning thread", &cause))?;
        *self.planner.lock() = Some(planner);
        Ok(())
    }

    /// Changes the sizes of the stages: equal ones are fused into one worker, which costs less and gives the same [DESIGN §5].
    pub(crate) fn tune(&self, tune: &Tune) {
        let shared = &self.shared;
        if let Some(network) = tune.network {
            shared.streams.set_target(network.max(1));
        }
        if let Some(parallelism) = tune.parallelism {
            shared.parallelism.store(parallelism.max(1), Ordering::Relaxed);
        }
        if let Some(pipelining) = tune.pipelining {
            shared.pipelining.store(pipelining, Ordering::Relaxed);
        }
        if let Some(shares) = &tune.shares {
            let share = |&(exponent, streams, parallelism)| SizeShare { exponent, streams, parallelism };
            shared.queue.divide(shares.iter().map(share));
        }
        if let Some(rate) = tune.limit_rate {
            shared.limiter.limit(rate, Instant::now());
        }
        if let Some(rate) = tune.pacing {
            shared.pacing.set(rate);
        }
        if let Some(read) = tune.read {
            let fused = read == shared.streams.target();
            shared.fused.store(fused, Ordering::Relaxed);
            self.readers.resize(if fused { 0 } else { read.max(1) });
        }
    }

    /// Changes how many bytes this half may hold in buffers.
    pub(crate) fn hold(&self, bytes: u64) {
        self.shared.pool.resize(bytes);
    }

    /// Begins to send on a stream.
    pub(crate) fn attach(&self, number: u16, sink: Box<dyn FrameSink>) -> Result<()> {
        let (shared, breaker) = (Arc::clone(&self.shared), sink.breaker());
        let send = move || guarded(&shared.stop, || stream::run(&shared, number, sink));
        self.shared.streams.run(number, breaker, send)
    }

    pub(crate) fn streams(&self) -> &Arc<Streams> {
        &self.shared.streams
    }

    pub(crate) fn meters(&self) -> Meters {
        self.shared.meters()
    }

    /// As in [`crate::optimizer::Observation::work_unit`].
    pub(crate) fn work_unit(&self) -> Option<u64> {
        self.shared.work_unit()
    }

    /// Whether the receiver has completed everything.
    pub(crate) fn is_complete(&self) -> bool {
        self.shared.complete.load(Ordering::SeqCst)
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.shared.stop
    }

    /// Ends all threads and waits for them. After a complete session the streams drain; otherwise they are broken.
    pub(crate) fn close(&self) {
        self.shared.stop.set(None);
        self.shared.queue.close();
        self.shared.frames.close();
        self.readers.close();
        if !self.is_complete() {
            self.shared.streams.break_all();
        }
        self.shared.streams.join();
        self.readers.join();
        if let Some(planner) = self.planner.lock().take() {
            let _ = planner.join();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// A slab of this half's buffer; `None` when the half stops.
    pub(crate) fn slab(&self) -> Option<Slab> {
        while !self.stop.is_set() {
            if let Some(slab) = self.pool.take(PATIENCE) {
                return Some(slab);
            }
        }
        None
    }

    fn read_worker(&self, turn: &Turn) {
        let _worker = self.read.worker();
        let mut worker = Worker::default();
        while !turn.over() && !self.stop.is_set() {
            let Next::Unit(unit) = self.queue.take(&mut worker, self.cut(), PATIENCE) else { continue };
            let mut reader = UnitReader::new(unit);
            while let Some(tagged) = reader.next(self) {
                if !self.frames.push(tagged) || turn.over() {
                    break;
                }
                while self.frames.len() >= WAITING && !self.stop.wait(Duration::from_millis(1)) {}
            }
            self.put_back(reader.into_rest());
        }
        self.queue.leave(&mut worker);
    }

    fn put_back(&self, unit: Option<Unit>) {
        if let Some(unit) = unit {
            self.queue.put_back(unit);
        }
    }

    pub(crate) fn read_done(&self, bytes: usize, took: Duration) {
        self.read.add_bytes(bytes as u64);
        self.read.add_busy(took);
    }

    fn meters(&self) -> Meters {
        let now = Instant::now();
        let (buffer_free, buffer_capacity) = self.pool.free();
        let left = self.queue.left();
        let (tcp, delivered) = self.tcp.meters().unzip();
        Meters {
            at_us: u64::try_from(now.duration_since(self.begun).as_micros()).unwrap_or(u64::MAX),
            read: self.read.snapshot(now),
            network: self.network.snapshot(now),
            buffer_free,
            buffer_capacity,
            tcp,
            delivered,
            // What waits in the buffer was read and is not sent.
            bytes_left: left.map(|bytes| bytes + (buffer_capacity - buffer_free)),
            files_left: left.map(|_| self.pending.lock().items.len() as u64),
            bytes_sent: self.sent.load(Ordering::Relaxed),
            listed: Some(listed::told(&self.sizes.lock())),
            host_rate: self.limiter.meters(now),
            ..Meters::default()
        }
    }
}

/// The error for a message that has no place here.
pub(crate) fn unexpected(message: &Message) -> Error {
    let name = format!("{message:?}");
    let name = name.split(['(', ' ', '{']).next().unwrap_or_default().to_owned();
    Error::new(ErrorKind::Protocol, format!("the peer sent `{name}` where it has no meaning"))
}
