//! Options of a transfer and of a server: one plain struct each, filled by every face of edt, validated once at start.

mod host;

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

pub use host::{HostLimits, Sharing};

use crate::error::{Error, ErrorKind, Result};
use crate::optimizer::PolicyName;
use crate::path::RelativePath;

/// The lowest [`TransferOptions::worker_rate`], in bytes per second.
const LEAST_WORKER_RATE: f64 = 100e3;

/// Shortest and longest interval between two decisions.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_hours(1);

/// What a transfer may be told; the defaults are right for almost everyone.
#[derive(Debug, Clone)]
pub struct TransferOptions {
    /// The optimizer's name, see [`crate::optimizer::NAMES`]; default `auto`.
    pub optimizer: String,
    /// Streams for the optimizer `fixed`; default 4.
    pub concurrency: u16,
    /// The agent file for the optimizers `edt`, `automdt` and `drl`; default `None`: the one kept for the endpoints.
    pub agent: Option<PathBuf>,
    /// The knowledge file for the optimizer `asm`; default `None`: the one that `edt learn` keeps.
    pub knowledge: Option<PathBuf>,
    /// Whether an agent takes the mean, or the most likely move, instead of sampling as the papers do; default it samples.
    pub deterministic: bool,
    /// The seed of an agent's sampling: the same observations give the same decisions; default 0.
    pub seed: u64,
    /// How hard to compete with others on the path; default fair.
    pub policy: PolicyName,
    /// Upper limit of the whole transfer in bytes per second; default none.
    pub limit_rate: Option<f64>,
    /// Most bytes per second that each worker of this side reads or writes, at least 100 kB, as on storage that limits every process; default none.
    pub worker_rate: Option<f64>,
    /// Upper limit of streams and of workers per stage; default 64.
    pub max_streams: NonZeroU16,
    /// Most chunks of one file in flight at once; 1 sends each file whole on one stream; default `None`: no limit.
    pub parallelism: Option<NonZeroU16>,
    /// Most chunks that a stream may have unacknowledged; 0 opens a new connection for each chunk or small file; default `None`: no limit.
    pub pipelining: Option<u16>,
    /// TCP congestion control of the streams, by the sending machine's name for it; default the system's.
    pub congestion: Option<String>,
    /// Bytes of a chunk; default `None`: what the path moves in 0.1 s, between 16 and 64 MiB [EDT §IV-A].
    pub chunk_size: Option<u64>,
    /// Time between two decisions; default `None`: ten round trips, from 1 s to 5 s; eight, from half a second, for `auto` and `model`,
    /// except with services and tables.
    pub interval: Option<Duration>,
    /// Files and whole directories below the source, which is a directory, that are copied: nothing else is looked at. One that is
    /// missing is an item that failed. Default `None`: all are.
    pub files: Option<Vec<RelativePath>>,
    /// Names this transfer among those between the same endpoints: an attempt goes on where the last one of its name ended, whatever
    /// `files` it chooses, and two at once are refused; default `None`: the chosen files tell transfers apart.
    pub name: Option<String>,
    /// Patterns of which a file must match one to be copied; default none: all are.
    pub include: Vec<String>,
    /// Patterns of files and directories to leave out; default none. Excluding wins over including.
    pub exclude: Vec<String>,
    /// Which sources keep their names below the destination; default those of several.
    pub naming: Naming,
    /// Whether files that are already there are sent again; default all are.
    pub selection: Selection,
    /// What happens to a file that stands at the destination under the same name; default replace.
    pub overwrite: Overwrite,
    /// What becomes of symbolic links; default keep them as links.
    pub symlinks: Symlinks,
    /// When data is forced to stable storage; default before each rename.
    pub fsync: Fsync,
    /// Digest of whole files in the manifest; default BLAKE3. A crc32c per chunk and a crc64nvme per file are always computed.
    pub digest: Digest,
    /// Whether bytes are moved or the work is only listed; default move.
    pub run: RunMode,
    /// How often a broken connection is made again without any progress in between before the transfer fails; default 5.
    pub retries: u32,
    /// Bytes that one side of this transfer may hold in buffers; default 96 MiB.
    pub buffer: u64,
    /// Where the secret comes from; default `EDT_TOKEN`, then the user's configuration directory.
    pub secret: SecretSource,
    /// Whether encryption may be left out beyond loopback; default never.
    pub plain: Plain,
    /// Where pinned identities of peers are kept; default `known_hosts` in the user's configuration directory for edt.
    pub known_hosts: Option<PathBuf>,
    /// Where the manifest (JSON lines) of the transfer is kept; default a temporary file that the report owns. A dry run leaves
    /// the file as it is.
    pub manifest: Option<PathBuf>,
    /// What this transfer shares with all others of its host; default what variables say, see [`HostLimits`].
    pub host: HostLimits,
    /// What the history keeps of the transfer; default what `EDT_HISTORY` says, else all but the names of endpoints.
    pub history: Remember,
}

impl Default for TransferOptions {
    fn default() -> Self {
        Self {
            optimizer: "auto".to_owned(),
            concurrency: 4,
            agent: None,
            knowledge: None,
            deterministic: false,
            seed: 0,
            policy: PolicyName::Fair,
            limit_rate: None,
            worker_rate: None,
            max_streams: NonZeroU16::new(64).expect("64 is not 0"),
            parallelism: None,
            pipelining: None,
            congestion: None,
            chunk_size: None,
            interval: None,
            files: None,
            name: None,
            include: Vec::new(),
            exclude: Vec::new(),
            naming: Naming::OfSeveral,
            selection: Selection::All,
            overwrite: Overwrite::Replace,
            symlinks: Symlinks::Keep,
            fsync: Fsync::File,
            digest: Digest::Blake3,
            run: RunMode::Copy,
            retries: 5,
            buffer: 96 << 20,
            secret: SecretSource::Environment,
            plain: Plain::LoopbackOnly,
            known_hosts: None,
            manifest: None,
            host: HostLimits::default(),
            history: Remember::Environment,
        }
    }
}

impl TransferOptions {
    /// Checks every field; the error names the first that cannot be used.
    pub fn validate(&self) -> Result<()> {
        let bad = |text: String| Err(Error::new(ErrorKind::InvalidInput, text));
        if !crate::optimizer::NAMES.contains(&self.optimizer.as_str()) {
            return Err(crate::optimizer::unknown(&self.optimizer));
        }
        if self.agent.is_some() && !crate::optimizer::AGENTS.contains(&self.optimizer.as_str()) {
            return Err(Error::new(ErrorKind::InvalidInput, format!("the optimizer `{}` takes no agent", self.optimizer))
                .with_hint("choose one of edt, automdt, drl, or leave out the agent"));
        }
        let agent = crate::optimizer::AGENTS.contains(&self.optimizer.as_str()) && self.policy != PolicyName::Fixed;
        if !agent && (self.deterministic || self.seed != 0) {
            return Err(Error::new(ErrorKind::InvalidInput, "a seed and deterministic answers are of agents only")
                .with_hint("choose one of the optimizers edt, automdt, drl, or leave these options out"));
        }
        if !agent && self.agent.is_some() {
            return bad("the policy `fixed` takes no agent".to_owned());
        }
        if self.knowledge.is_some() && (self.optimizer != "asm" || self.policy == PolicyName::Fixed) {
            return Err(Error::new(ErrorKind::InvalidInput, "a knowledge file is of the optimizer `asm` only")
                .with_hint("choose this optimizer, or leave out the knowledge"));
        }
        if self.concurrency == 0 {
            return bad("a concurrency of 0 moves nothing".to_owned());
        }
        if self.limit_rate.is_some_and(|rate| !rate.is_finite() || rate < 1.0) {
            return bad("the rate limit must be at least one byte per second".to_owned());
        }
        check_worker_rate(self.worker_rate)?;
        if self.chunk_size.is_some_and(|size| size < 256 << 10) {
            return bad("the chunk size must be at least 256 KiB".to_owned());
        }
        if self.interval.is_some_and(|interval| !(SHORTEST..=LONGEST).contains(&interval)) {
            return bad("the interval must be from 0.05 s to an hour".to_owned());
        }
        if self.buffer < 4 << 20 {
            return bad("the buffer must be at least 4 MiB".to_owned());
        }
        if let Some(files) = &self.files {
            if self.selection == Selection::Mirror {
                return Err(Error::new(ErrorKind::InvalidInput, "a mirror cannot be of chosen files")
                    .with_hint("leave out the chosen files, or copy what changed without removing anything"));
            }
            crate::plan::check_chosen(files)?;
        }
        crate::plan::Filter::new(&self.include, &self.exclude).map(|_| ())
    }

    /// Whether so many sources are one that goes to the destination itself, and not below it under its own name.
    pub(crate) fn is_alone(&self, sources: usize) -> bool {
        sources == 1 && self.naming == Naming::OfSeveral
    }
}

/// A worker waits for its rate behind each block, and is not woken before: a low one would hold up the end of a transfer.
fn check_worker_rate(rate: Option<f64>) -> Result<()> {
    if rate.is_some_and(|rate| !rate.is_finite() || rate < LEAST_WORKER_RATE) {
        return Err(Error::new(ErrorKind::InvalidInput, "the rate of a worker must be at least 100 kB per second")
            .with_hint("limit the whole transfer with `limit_rate` instead"));
    }
    Ok(())
}

/// Which sources keep their names below the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// Each of several; one alone goes to the destination itself: a file to a file, or a directory's content into a directory.
    OfSeveral,
    /// One alone as well, as if there were others.
    OfEach,
}

/// Which files are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// All of the source.
    All,
    /// Those whose size or modification time differs at the destination.
    Changed,
    /// The same, and what the source does not have is removed from the destination.
    Mirror,
}

/// What happens to a file that stands at the destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// It is replaced, atomically.
    #[default]
    Replace,
    /// It stays, and the item fails.
    Never,
}

/// What becomes of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symlinks {
    /// They are made again as links.
    Keep,
    /// What they point to is copied in their place.
    Follow,
    /// They are left out.
    Skip,
}

/// When data is forced to stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Never: a crash of the machine may lose files that were reported as done.
    None,
    /// The data before each rename, many files at a time, and the directories at the end.
    File,
    /// The data and the directory of every file before it is reported as done.
    Full,
}

/// The digest of whole files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    /// BLAKE3, as `b3sum` prints it.
    Blake3,
    /// None beyond the crc64nvme.
    None,
}

/// Whether bytes are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    /// They are.
    Copy,
    /// The work is listed as events, and nothing is changed.
    DryRun,
}

/// Where a shared secret comes from. It is never an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// `EDT_TOKEN`, then the file `token` in the user's configuration directory for edt.
    Environment,
    /// The first line of a file.
    File(PathBuf),
    /// The text itself, from a program that embeds edt.
    Text(String),
}

/// What the history keeps of a transfer. Names of files are never kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Remember {
    /// What `EDT_HISTORY` says: `off`, or `names`; else the machines.
    #[default]
    Environment,
    /// Nothing.
    Nothing,
    /// How it went, between which machines.
    Machines,
    /// The same, and its sources and its destination as they were named.
    Names,
}

/// Where connections may go without encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {
    /// On the loopback interface only.
    LoopbackOnly,
    /// Anywhere: both sides must say so.
    Anywhere,
}

/// What a server may be told.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The directory that clients see as the root and never leave.
    pub root: PathBuf,
    /// Where to listen; default `127.0.0.1:7632`; port 0 takes a free one.
    pub listen: String,
    /// Where the secret comes from; default `EDT_TOKEN`, then the configuration directory, where a new one is generated.
    pub secret: SecretSource,
    /// Whether clients may change anything below the root; default they may.
    pub access: Access,
    /// Certificate and key in PEM files; default an own self-signed identity that clients pin on first use.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Where an automatic identity is kept; default the user's configuration directory for edt.
    pub identity: Option<PathBuf>,
    /// Whether clients beyond loopback may come without encryption; default not.
    pub plain: Plain,
    /// Sessions at once, at least 1; further ones are refused with a hint; default 256.
    pub max_sessions: usize,
    /// Streams of one session; default 128.
    pub max_streams: NonZeroU16,
    /// Bytes that one session may hold in buffers; default 96 MiB.
    pub buffer: u64,
    /// Most bytes per second that each worker of a session reads or writes below the root, at least 100 kB; default none.
    pub worker_rate: Option<f64>,
    /// How long sessions may go on after a shutdown was asked for; default 30 s.
    pub grace: Duration,
}

impl ServeOptions {
    /// The defaults for a root directory.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            listen: "127.0.0.1:7632".to_owned(),
            secret: SecretSource::Environment,
            access: Access::ReadWrite,
            certificate: None,
            identity: None,
            plain: Plain::LoopbackOnly,
            max_sessions: 256,
            max_streams: const { NonZeroU16::new(128).expect("128 is not 0") },
            buffer: 96 << 20,
            worker_rate: None,
            grace: Duration::from_secs(30),
        }
    }

    /// Checks every field; the error names the first that cannot be used.
    pub fn validate(&self) -> Result<()> {
        if self.max_sessions == 0 {
            return Err(Error::new(ErrorKind::InvalidInput, "the sessions at once must be at least 1"));
        }
        check_worker_rate(self.worker_rate)
    }
}

/// What clients may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read and write.
    ReadWrite,
    /// Read only.
    ReadOnly,
}
