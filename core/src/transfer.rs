//! A transfer from one endpoint to another: the entry point of the crate.

mod explanation;
mod handle;
pub mod job;
mod learned;
mod runner;
mod settings;
mod sources;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use crate::auth::secret;
use crate::broker::{Limits, Member};
use crate::control::{Outcome, Settings, SystemClock, Waited};
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventSender;
use crate::history::{Beginning, Recording};
use crate::link::client::{self, Opening, Session, Target};
use crate::link::socket::{by_bbr, check_congestion};
use crate::open::{self, Destination, Sources};
use crate::optimizer::{Extent, FirstStreams, Optimizer, Pace, PerStage, Policy, PolicyName};
use crate::options::{RunMode, TransferOptions};
use crate::pipeline::account::Account;
use crate::pipeline::manifest::Manifest;
use crate::pipeline::stop::Stop;
use crate::plan::{Filter, glance, minimal};
use crate::protocol::TransferId;
use crate::protocol::message::{Key, MadeUp, ReceiveOptions, Root, SendOptions};
use crate::report::Report;
use crate::session::{Steering, Work};
use crate::store::{Store, Times};
use crate::transfer::job::{Job, JobRunner, Way};
use crate::transfer::learned::Learned;
use crate::transfer::runner::{Ended, Guarding, Runner, SharedOptimizer};
use crate::transfer::settings::{Here, chosen, claim, haste, limit, policy, receive_options, send_options};
use crate::transfer::sources::name_roots;

pub use handle::{Canceller, TransferHandle};

/// The longest round trip time that the first contact with a service is taken for.
const MOST_HINTED: Duration = Duration::from_millis(100);

/// What a session for a download is opened with: before the server was asked for the sources nothing is known but that there will be a
/// stream. Its connection is made meanwhile.
const DOWNLOAD: Opening<'static> = Opening { messages: &[], streams: FirstStreams::always(1), upload: false };

/// What to move, and how.
pub struct Transfer {
    sources: Vec<Endpoint>,
    destination: Endpoint,
    options: TransferOptions,
    optimizer: Option<Box<dyn Optimizer>>,
    guarding: Guarding,
    /// What is sent from memory to memory; `None`: files.
    made_up: Option<MadeUp>,
    /// Whether an attempt that ends early leaves nothing behind.
    forget: bool,
}

impl Transfer {
    /// A file to a file, or a directory's content into a directory.
    pub fn new(source: impl Into<Endpoint>, destination: impl Into<Endpoint>) -> Self {
        Self::from_many(vec![source.into()], destination)
    }

    /// Several sources of one store (all local, or all on one server) into a directory, each under its own name.
    pub fn from_many(sources: Vec<Endpoint>, destination: impl Into<Endpoint>) -> Self {
        Self {
            sources,
            destination: destination.into(),
            options: TransferOptions::default(),
            optimizer: None,
            guarding: Guarding::Guarded,
            made_up: None,
            forget: false,
        }
    }

    /// From memory to memory, to measure the path between the machines of two endpoints: the sender makes files up, and the receiver
    /// throws them away.
    ///
    /// The machine of a URL is its server; that of a path, of `zero:` and of `null:` is this one. No file of either is touched.
    pub fn memory_to_memory(source: &Endpoint, destination: &Endpoint, made_up: MadeUp) -> Result<Self> {
        let MadeUp { count, size } = made_up;
        let source = open::memory(source, format!("zero:{count}x{size}"))?;
        let destination = open::memory(destination, "null:".to_owned())?;
        Ok(Self { made_up: Some(made_up), ..Self::new(source, destination) })
    }

    /// Replaces the options.
    #[must_use]
    pub fn with_options(mut self, options: TransferOptions) -> Self {
        self.options = options;
        self
    }

    /// Tunes with this optimizer instead of the one that the options name.
    #[must_use]
    pub fn with_optimizer(mut self, optimizer: impl Optimizer + 'static) -> Self {
        self.optimizer = Some(Box::new(optimizer));
        self
    }

    /// Lets decisions of the optimizer pass without the guard, which answers bad settings with better ones: a measurement wants both.
    #[must_use]
    pub fn without_guard(mut self) -> Self {
        self.guarding = Guarding::Unguarded;
        self
    }

    /// Keeps nothing for another attempt if this one ends early.
    #[must_use]
    pub fn without_resuming(mut self) -> Self {
        self.forget = true;
        self
    }

    /// Starts the transfer on threads of its own. Fails at once on options, endpoints, secrets and connections that cannot work.
    pub fn start(self) -> Result<TransferHandle> {
        self.options.validate()?;
        let limits = Limits::read(&self.options.host)?.filter(|_| self.options.run == RunMode::Copy);
        let beginning = self.beginning();
        let learned = match self.optimizer {
            Some(_) => Learned::default(),
            None => Learned::read(&self.options, &self.sources, &self.destination, beginning.as_ref())?,
        };
        crate::limits::raise_open_files();
        if let Some(job) = crate::store::remote::added::job(&self.sources, &self.destination, &self.options)? {
            if self.options.files.is_some() {
                return Err(Error::new(ErrorKind::Unsupported, "files can be chosen of a directory, and not of a table"));
            }
            return self.start_job(job, learned, beginning, limits);
        }
        let (events, receiver) = EventSender::channel();
        let (mut work, target, peer) = self.open()?;
        let manifest = Manifest::of(&self.options)?;
        let account = Arc::new(Account::new(events.clone(), manifest));
        let cancel: Arc<Stop> = Arc::default();
        let allowed = peer.as_ref().map_or(u16::MAX, |peer| peer.limits.max_streams);
        let (policy, set_by) = policy(&self.options, &work, allowed);
        let trip = peer.as_ref().map_or(work.contact / 2, |peer| peer.rtt);
        let rtt = (peer.is_some() || !trip.is_zero()).then_some(trip);
        let beginning = beginning.map(|beginning| beginning.over(rtt, peer.as_ref().and_then(|peer| peer.local)));
        if let Some(peer) = &peer {
            let bbr = by_bbr(self.options.congestion.as_deref(), work.source.is_some(), peer.bbr, peer.limits.bbr);
            work.first_streams = work.first_streams.sent_by(bbr).in_segments(peer.segment);
        }
        let (optimizer, pace) = match self.optimizer {
            Some(own) => (own, Pace::Usual),
            None => (learned.optimizer(&self.options, work.first_streams, rtt)?, Pace::of(&self.options.optimizer)),
        };
        // In half a second a worker of a service makes few requests, and the losses of its connections are not to be seen. What the first
        // contact took is no more than a hint of its round trip time, and no reason for intervals of more than a second.
        let service = peer.is_none() && rtt.is_some();
        let (pace, rtt) = if service { (Pace::Usual, rtt.map(|rtt| rtt.min(MOST_HINTED))) } else { (pace, rtt) };
        let optimizer = SharedOptimizer::new(optimizer, &self.options, self.guarding);
        let recording = Recording::begin(beginning, optimizer.name());
        let member = Member::join(limits, claim(&self.options, &self.sources, &self.destination, &policy, &Here::of(&work)));
        let interval = self.options.interval;
        let settings = Settings { policy, set_by, interval, pace, rtt, events, recorder: recording.recorder(), member };
        let runner = Runner {
            optimizer,
            sources: self.sources,
            destination: self.destination,
            options: self.options,
            work,
            target,
            steering: Steering { account, cancel: Arc::clone(&cancel), settings, clock: SystemClock::new() },
            recording,
            outcome: Outcome::default(),
            failures: 0,
            progress: 0,
        };
        TransferHandle::spawn(receiver, cancel, move || runner.run(peer))
    }

    /// Starts what a service carries out in its own way.
    fn start_job(
        self,
        job: Box<dyn Job>,
        learned: Learned,
        beginning: Option<Beginning>,
        limits: Option<Limits>,
    ) -> Result<TransferHandle> {
        let (events, receiver) = EventSender::channel();
        let manifest = Manifest::of(&self.options)?;
        let account = Arc::new(Account::new(events.clone(), manifest));
        let cancel: Arc<Stop> = Arc::default();
        let (most, set_by) = limit(&self.options, u16::try_from(job.parts().max(1)).unwrap_or(u16::MAX));
        let policy = Policy::new(self.options.policy, most);
        let first = self.first_streams(true, None);
        let (optimizer, pace) = match self.optimizer {
            Some(own) => (own, Pace::Usual),
            None => (learned.optimizer(&self.options, first, None)?, Pace::Usual),
        };
        let optimizer = SharedOptimizer::new(optimizer, &self.options, self.guarding);
        let recording = Recording::begin(beginning, optimizer.name());
        let stages = PerStage { read: job.way() == Way::There, network: true, write: job.way() == Way::Here };
        let here = Here { stages, buffers: 1 };
        let member = Member::join(limits, claim(&self.options, &self.sources, &self.destination, &policy, &here));
        let interval = self.options.interval;
        let settings = Settings { policy, set_by, interval, pace, rtt: None, events, recorder: recording.recorder(), member };
        let steering = Steering { account, cancel: Arc::clone(&cancel), settings, clock: SystemClock::new() };
        let name = optimizer.name().to_owned();
        let ended =
            Ended { sources: self.sources, destination: self.destination, options: self.options, optimizer: name, recording };
        let runner = JobRunner { job, optimizer, ended, steering };
        TransferHandle::spawn(receiver, cancel, move || runner.run())
    }

    /// What the history is told of this transfer when it begins. Of measurements from memory to memory, and of what leaves nothing for
    /// another attempt, it is told nothing.
    fn beginning(&self) -> Option<Beginning> {
        if self.made_up.is_some() || self.forget {
            return None;
        }
        Beginning::of(&self.sources, &self.destination, &self.options)
    }

    /// Runs the transfer to its end. Items that failed are in the report; an error means that the transfer as a whole ended early.
    pub fn run(self) -> Result<Report> {
        self.start()?.join()
    }

    fn open(&self) -> Result<(Work, Option<Target>, Option<Session>)> {
        let options = &self.options;
        let (mut target, mut peer, mut extent) = (None, None, None);
        let contact = Waited::begin();
        let (source, roots, file_name) = match open::sources(&self.sources, options)? {
            Sources::Here { store, roots, file_name } => (Some(store), roots, file_name),
            // Of what was chosen the server tells which is there.
            Sources::There { target: server, roots } if options.files.is_some() => {
                target = Some(server);
                (None, roots, None)
            }
            Sources::There { target: server, mut roots } => {
                let session = client::connect(&server, options, Some(DOWNLOAD))?;
                let file = name_roots(&session, &mut roots, options)?;
                let size = file.as_ref().map(|(_, size)| *size);
                (target, peer, extent) = (Some(server), Some(session), size.map(Extent::of_file));
                (None, roots, file.map(|(name, _)| name))
            }
        };
        self.check_places(&roots)?;
        let (destination, base, into) = match open::destination(&self.destination, options)? {
            Destination::Here { store, base, into } => (Some(store), base, into),
            Destination::There { target: server, base, into } => {
                if source.is_some() {
                    options.congestion.as_deref().map_or(Ok(()), check_congestion)?;
                    target = Some(server);
                }
                (None, base, into)
            }
        };
        let files = chosen(options, &roots, file_name.is_some())?;
        let quick = file_name.is_some() || destination.is_none();
        let extent = extent.or_else(|| self.extent(source.as_deref().filter(|_| quick)?, &roots));
        let [from, to] = [&source, &destination].map(|store| store.as_ref().map(|store| store.capabilities().flushes));
        let services = [from, to].contains(&Some(false));
        let times = destination.as_ref().map_or(Times::Exact, |store| store.capabilities().times);
        // Memory is no storage.
        let rate = options.worker_rate.filter(|_| self.made_up.is_none());
        let work = Work {
            transfer: self.identifier()?,
            run: Key(crate::auth::secret::random()?),
            send: SendOptions { made_up: self.made_up, times: times.code(), ..send_options(options, roots) },
            receive: ReceiveOptions {
                file_name,
                into,
                discard: self.made_up.is_some(),
                forget: self.forget,
                ..receive_options(options)
            },
            copier: open::copier(&self.sources, &self.destination)?,
            files: files.map(Arc::from),
            source: source.map(|store| open::throttled(store, rate)),
            destination: destination.map(|store| open::throttled(store, rate)),
            // What a service sends waits in the system while its reader writes. A worker that has a rate only reads, or only writes.
            direct: rate.is_none() && (from, to) == (Some(false), Some(true)),
            base,
            buffer: options.buffer,
            retries: options.retries,
            first_streams: self.first_streams(services, extent),
            contact: if services { contact.time() } else { Duration::ZERO },
        };
        let peer = begun(&work, peer, target.as_ref(), options)?;
        Ok((work, target, peer))
    }

    /// Whether the sources and the destination go together, and can be written to.
    fn check_places(&self, roots: &[Root]) -> Result<()> {
        open::overlap::distinct(&self.sources, roots)?;
        open::overlap::mirrored(roots, &self.options)?;
        open::overlap::separate(&self.sources, &self.destination, &self.options)?;
        if self.options.run == RunMode::Copy {
            open::probe::writable(&self.destination)?;
        }
        Ok(())
    }

    /// How much a store holds of what is to be sent, as far as a short look tells; `None` where that would take long or change nothing.
    fn extent(&self, store: &dyn Store, roots: &[Root]) -> Option<Extent> {
        let options = &self.options;
        let fitted = self.optimizer.is_none() && options.optimizer == "auto" && options.policy != PolicyName::Fixed;
        let quick = store.capabilities().flushes && options.files.is_none() && options.run == RunMode::Copy;
        let filter = Filter::new(&options.include, &options.exclude).ok().filter(|_| fitted && quick)?;
        glance(store, roots, &filter)
    }

    /// Streams that the first decision asks for at least, as far as that is known before it is made.
    fn first_streams(&self, services: bool, work: Option<Extent>) -> FirstStreams {
        let options = &self.options;
        let first = match (&self.optimizer, options.optimizer.as_str()) {
            (Some(_), _) => FirstStreams::always(0),
            _ if options.policy == PolicyName::Fixed => FirstStreams::always(options.concurrency),
            (None, "auto") if services => FirstStreams::AUTO_REQUESTS,
            (None, "auto") => FirstStreams::AUTO.for_work(work, haste(options)),
            (None, "model") => FirstStreams::AUTO,
            (None, "fixed") => FirstStreams::always(options.concurrency),
            _ => FirstStreams::always(1),
        };
        first.at_most(options.max_streams.get())
    }

    /// The same for each attempt to copy the same (files of the same) sources to the same destination from this machine; random from memory to memory, where
    /// nothing could be gone on with.
    fn identifier(&self) -> Result<TransferId> {
        if self.made_up.is_some()
            && let Ok(id) = secret::random()
        {
            return Ok(TransferId(id));
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(machine().as_bytes());
        for endpoint in self.sources.iter().chain([&self.destination]) {
            hasher.update(&[0]).update(open::place_of(endpoint)?.as_bytes());
        }
        hasher.update(if self.options.is_alone(1) { b"" } else { b"\x03" });
        match (&self.options.name, &self.options.files) {
            (Some(name), _) => _ = hasher.update(&[1]).update(name.as_bytes()),
            (None, Some(files)) => {
                // An empty choice is none of everything.
                hasher.update(&[2]);
                for path in minimal(files.clone()) {
                    hasher.update(&[0]).update(path.as_bytes());
                }
            }
            (None, None) => {}
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Ok(TransferId(id))
    }
}

/// Begins the work with the server, if there is one: in the session that is open, or in a new one.
fn begun(work: &Work, peer: Option<Session>, server: Option<&Target>, options: &TransferOptions) -> Result<Option<Session>> {
    if let Some(session) = &peer {
        work.begin().iter().try_for_each(|message| session.control.sender.send(message))?;
        return Ok(peer);
    }
    server.map(|server| work.call(server, options)).transpose()
}

fn machine() -> String {
    #[cfg(unix)]
    return rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    return std::env::var("COMPUTERNAME").unwrap_or_default();
}

#[cfg(test)]
mod tests;
