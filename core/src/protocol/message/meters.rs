//! Meters of stages and their sizes, as the control loop and its remote half exchange them.

use minicbor::{Decode, Encode};

/// Cumulative meters of one half.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Meters {
    /// Microseconds on the half's own monotonic clock.
    #[n(0)]
    pub at_us: u64,
    /// Read stage, if the half is a sender.
    #[n(1)]
    pub read: StageMeters,
    /// Network stage at this half.
    #[n(2)]
    pub network: StageMeters,
    /// Write stage, if the half is a receiver.
    #[n(3)]
    pub write: StageMeters,
    /// Free bytes of the half's buffer.
    #[n(4)]
    pub buffer_free: u64,
    /// Size of the half's buffer.
    #[n(5)]
    pub buffer_capacity: u64,
    /// Sums over streams that this half sends on, if the system tells.
    #[n(6)]
    pub tcp: Option<TcpMeters>,
    /// Bytes planned and not yet sent; `None` while listing goes on, or at a receiver.
    #[n(7)]
    pub bytes_left: Option<u64>,
    /// Items planned and not yet sent.
    #[n(8)]
    pub files_left: Option<u64>,
    /// Bytes put on streams by a sender half.
    #[n(9)]
    pub bytes_sent: u64,
    /// The files that a sender half has found to send; `None` at a receiver.
    #[n(10)]
    pub listed: Option<ListedFiles>,
    /// What the rate of [`Tune::limit_rate`] does to the streams of a sender half; `None` if there has never been one.
    #[n(11)]
    pub host_rate: Option<RateMeters>,
    /// The number of each open stream of a sender half, and the segments that it got through, if the system tells.
    #[n(12)]
    pub delivered: Option<Vec<(u16, u64)>>,
}

/// Files to be sent, as far as listing has found them, in classes by the power of two of their size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ListedFiles {
    /// Exponent, files and bytes of each class that has any file, smallest first; an exponent is below 64, so there are 64 at most.
    #[n(0)]
    pub classes: Vec<(u8, u64, u64)>,
    /// Whether listing is complete.
    #[n(1)]
    pub complete: bool,
}

/// Cumulative meters of one stage of one half.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StageMeters {
    /// Bytes out of the stage.
    #[n(0)]
    pub bytes: u64,
    /// Worker-microseconds spent working.
    #[n(1)]
    pub busy_us: u64,
    /// Worker-microseconds in existence: its growth over time is the applied concurrency.
    #[n(2)]
    pub workers_us: u64,
    /// Workers at present.
    #[n(3)]
    pub workers: u16,
}

/// Cumulative TCP counters over the streams that a half sends on, closed ones included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TcpMeters {
    /// Data segments sent.
    #[n(0)]
    pub segments: u64,
    /// Segments sent again.
    #[n(1)]
    pub retransmitted: u64,
    /// Smoothed round trip time in microseconds, averaged over open streams.
    #[n(2)]
    pub rtt_us: u64,
    /// Sum of the delivery rates of open streams, bytes per second.
    #[n(3)]
    pub delivery_rate: u64,
    /// Bytes that the peer's kernel has got, also beyond gaps; `None` if the system does not tell.
    #[n(4)]
    pub received: Option<u64>,
    /// Whether the congestion control of all open streams sends ever more until a queue overflows, if the system tells.
    #[n(5)]
    pub fills_queues: Option<bool>,
}

/// What the rate of [`Tune::limit_rate`] does to streams. What it did is cumulative, and counts only while this rate is lower than that of
/// [`super::SendOptions::limit_rate`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RateMeters {
    /// Bytes per second at present; 0 for none any more.
    #[n(0)]
    pub rate: u64,
    /// Worker-microseconds that streams have waited for it.
    #[n(1)]
    pub waited_us: u64,
    /// Microseconds in which it would have let bytes pass, had there been any more.
    #[n(2)]
    pub lapsed_us: u64,
}

/// Sizes of stages; `None` leaves one as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Tune {
    /// Read workers.
    #[n(0)]
    pub read: Option<u16>,
    /// Streams.
    #[n(1)]
    pub network: Option<u16>,
    /// Write workers.
    #[n(2)]
    pub write: Option<u16>,
    /// Chunks of one file in flight.
    #[n(3)]
    pub parallelism: Option<u16>,
    /// Unacknowledged chunks of a stream.
    #[n(4)]
    pub pipelining: Option<u16>,
    /// Most bytes per second of the transfer besides [`super::SendOptions::limit_rate`], for a sender; 0 for none.
    #[n(5)]
    pub limit_rate: Option<u64>,
    /// For a sender: exponent, streams and parallelism of each share of its workers, by the power of two of the size of files; empty where
    /// they are not divided.
    #[n(6)]
    pub shares: Option<Vec<(u8, u16, u16)>>,
    /// For a sender: most bytes per second of each of its streams, which it sends without bursts; 0 for none.
    #[n(7)]
    pub pacing: Option<u64>,
}
