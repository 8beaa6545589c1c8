//! What a transfer tells whoever watches. Events are bounded and lossy: a slow watcher never slows the data.

use serde::Serialize;

use crate::error::Error;
use crate::optimizer::{Buffers, Decision, PerStage};

/// Something that happened during a transfer. In JSON each event is an object with its name under `event`.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// More of the source was listed.
    Planned(Planned),
    /// An interval was measured.
    Sampled(Sampled),
    /// The controller decided.
    Tuned(Tuned),
    /// A file is complete, verified and under its final name.
    FileDone(FileDone),
    /// A file needs no bytes: it was complete after an earlier attempt, or unchanged.
    FileSkipped(FileSkipped),
    /// An item failed for good; the others go on.
    FileFailed(Failure),
    /// Something temporary went wrong and is tried again.
    Retried(Retried),
    /// The transfer ended; nothing follows.
    Finished(Totals),
}

/// What is known of the work so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Planned {
    /// Files, directories and links found.
    pub items: u64,
    /// Bytes of the files found.
    pub bytes: u64,
    /// Whether the listing is complete.
    pub complete: bool,
}

/// One measured interval, for progress displays and timelines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sampled {
    /// Seconds since the transfer began.
    pub elapsed_s: f64,
    /// Bytes per second out of each stage.
    pub throughput: PerStage<f64>,
    /// Time-averaged workers of each stage.
    pub concurrency: PerStage<f64>,
    /// Share of their time that the workers of each stage worked, 0 to 1.
    pub busy: PerStage<f64>,
    /// Free buffer at both ends.
    pub buffers: Buffers,
    /// Round trip time in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Retransmitted share of the segments sent.
    pub loss: Option<f64>,
    /// The work so far.
    pub totals: Totals,
    /// Which stage limits at present.
    pub bottleneck: Option<Stage>,
}

/// A stage of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Reading at the source.
    Read,
    /// The streams.
    Network,
    /// Writing at the destination.
    Write,
}

impl Stage {
    /// The name in texts for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Network => "network",
            Self::Write => "write",
        }
    }
}

/// A decision and when it was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tuned {
    /// Seconds since the transfer began.
    pub elapsed_s: f64,
    /// The decision, with its reason.
    pub decision: Decision,
}

/// A complete file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileDone {
    /// The name at the destination, relative to the destination given.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Digest of the content, 16 hexadecimal digits.
    pub crc64nvme: String,
    /// BLAKE3 of the content, if it was asked for.
    pub blake3: Option<String>,
}

/// A file that needed no bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileSkipped {
    /// The name, relative to the source given.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
}

/// An item that failed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The name, relative to the source given.
    pub path: String,
    /// The name of the error's kind, as [`crate::ErrorKind::name`] gives it.
    pub kind: &'static str,
    /// What failed and where.
    pub what: String,
    /// Why, if known.
    pub cause: Option<String>,
    /// What to do about it, if known.
    pub hint: Option<String>,
}

impl Failure {
    /// Records an error for an item.
    pub fn new(path: impl Into<String>, error: &Error) -> Self {
        Self {
            path: path.into(),
            kind: error.kind().name(),
            what: error.what().to_owned(),
            cause: error.cause().map(str::to_owned),
            hint: error.hint().map(str::to_owned),
        }
    }
}

/// Something that is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Retried {
    /// The file, stream or connection.
    pub place: String,
    /// Why.
    pub cause: String,
    /// Milliseconds before the next attempt.
    pub wait_ms: u64,
}

/// Counters of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Totals {
    /// Files published, with verified content.
    pub files_done: u64,
    /// Files that needed no bytes.
    pub files_skipped: u64,
    /// Directories and links made.
    pub others_done: u64,
    /// Items that failed.
    pub failed: u64,
    /// Items removed at the destination because the source does not have them.
    pub removed: u64,
    /// Bytes of published files.
    pub bytes_done: u64,
    /// Bytes of files that needed no bytes.
    pub bytes_skipped: u64,
    /// Bytes of partial files found verified at the destination and not sent again.
    pub bytes_resumed: u64,
    /// Bytes put on the streams, repeated ones counted again.
    pub bytes_sent: u64,
    /// Bytes that the destination has written and acknowledged.
    pub bytes_verified: u64,
    /// Retries of streams, connections and files.
    pub retries: u64,
    /// Wall time in seconds.
    pub elapsed_s: f64,
}

impl Totals {
    /// Bytes of published files per second of wall time.
    pub fn goodput(&self) -> f64 {
        if self.elapsed_s > 0.0 { self.bytes_done as f64 / self.elapsed_s } else { 0.0 }
    }
}

/// Bounded, lossy channel of events.
#[derive(Debug, Clone)]
pub struct EventSender {
    channel: Option<(crossbeam_channel::Sender<Event>, crossbeam_channel::Receiver<Event>)>,
}

/// How many events wait for a slow watcher before further ones are dropped.
pub const EVENT_CAPACITY: usize = 4096;

impl EventSender {
    /// A sender and the receiver for its watcher.
    pub fn channel() -> (Self, crossbeam_channel::Receiver<Event>) {
        let (sender, receiver) = crossbeam_channel::bounded(EVENT_CAPACITY);
        (Self { channel: Some((sender, receiver.clone())) }, receiver)
    }

    /// A sender that nobody listens to.
    pub fn silent() -> Self {
        Self { channel: None }
    }

    /// Sends an event if there is room; for [`Event::Finished`] older ones make room.
    pub fn send(&self, event: Event) {
        let Some((sender, receiver)) = &self.channel else { return };
        let last = matches!(event, Event::Finished(_));
        let mut unsent = sender.try_send(event);
        while let (true, Err(crossbeam_channel::TrySendError::Full(event))) = (last, unsent) {
            let _ = receiver.try_recv();
            unsent = sender.try_send(event);
        }
    }
}
