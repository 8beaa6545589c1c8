//! A past transfer as optimizers that learn from history see it: what was moved, over which path, with which setting, how fast.

use serde::{Deserialize, Serialize};

/// One past transfer, or one stretch of it during which the setting stayed the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// When it began, in seconds since 1970.
    pub began_s: f64,
    /// The machine that the files came from; empty if it is not known.
    pub source: String,
    /// The machine that they went to; empty if it is not known.
    pub destination: String,
    /// Bytes per second that the path carries; `None` if nobody knows.
    pub bandwidth: Option<f64>,
    /// Round trip time in seconds; `None` if it was not measured.
    pub rtt_s: Option<f64>,
    /// Bytes of the TCP buffer of one stream; `None` if it is not known.
    pub tcp_buffer: Option<f64>,
    /// Files that were moved.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files in flight at once.
    pub concurrency: u16,
    /// Streams for each of them.
    pub parallelism: u16,
    /// All streams, as they were measured; `None` where only the two numbers above are known, whose product is rounded.
    pub streams: Option<u16>,
    /// Requests sent without waiting for answers.
    pub pipelining: u16,
    /// Bytes per second.
    pub goodput: f64,
}

impl Past {
    /// Mean size of the files, in bytes.
    pub fn mean_size(&self) -> f64 {
        self.bytes as f64 / self.files.max(1) as f64
    }

    /// All streams: those that were measured, or else files in flight times streams for each.
    pub fn all_streams(&self) -> u16 {
        self.streams.unwrap_or_else(|| self.concurrency.saturating_mul(self.parallelism.max(1)))
    }
}
