//! What joins the two halves of a transfer: one control channel and any number of one-way streams, over TCP or in memory.

pub mod acceptor;
pub mod client;
mod connection;
pub mod control;
pub mod memory;
pub mod port;
mod raw;
pub mod socket;
pub mod stream;
mod tls;
mod unsent;

use crossbeam_channel::Receiver;

use crate::buffer::{Slab, SlabPool};
use crate::error::Result;
use crate::metrics::TcpSnapshot;
use crate::protocol::frame::FrameHeader;
use crate::protocol::message::{Message, SendOptions};

/// A frame in memory: the header, and the slab that holds the payload if there is one.
pub struct Frame {
    /// The header; its `sequence` is set by the stream that sends it, and its `payload_crc32c` if the frame leaves this process.
    pub header: FrameHeader,
    /// The payload; `None` where the header says that none is on the wire.
    pub payload: Option<Slab>,
}

/// The sending end of a stream. One thread uses it.
pub trait FrameSink: Send {
    /// Sends a frame, blocking until the stream takes it, and returns its sequence number.
    fn send(&mut self, frame: Frame) -> Result<u32>;

    /// Sends [`crate::protocol::frame::FrameKind::Finish`] and everything still buffered, and ends the stream.
    fn finish(&mut self) -> Result<()>;

    /// Lets the system send this stream with the congestion control of the options, as far as it can.
    fn configure(&self, options: &SendOptions);

    /// A handle by which another thread tells how fast the system sends this stream at most; `None` if it is no TCP stream.
    fn pacer(&self) -> Option<Pacer>;

    /// Whether `send` does the work of the receiver, which counts the time that it takes: it waits for no network and no other thread.
    fn is_direct(&self) -> bool;

    /// A handle by which another thread reads the cumulative counters of this stream, even during a `send`; `None` if it is no TCP stream.
    fn tcp(&self) -> Option<TcpGauge>;

    /// Whether the system still holds bytes that the peer's has not; false where it does not tell.
    fn is_sending(&self) -> bool;

    /// A handle by which another thread ends a blocked `send` with an error.
    fn breaker(&self) -> Breaker;
}

/// The receiving end of a stream. One thread uses it.
pub trait FrameSource: Send {
    /// Receives the next frame, and checks header and payload if it was not in this process before; takes a slab for the payload from
    /// `pool`, waiting as long as it must. `None` after [`crate::protocol::frame::FrameKind::Finish`]. An end without it is an error.
    /// `arrived` is told the bytes of payloads as they come, those of a frame that never comes whole too: a slow stream takes seconds for one.
    fn receive(&mut self, pool: &SlabPool, arrived: &dyn Fn(usize)) -> Result<Option<Frame>>;

    /// Whether payloads are the very memory whose digests the sender computed, so that nothing lies between that could change them.
    fn shares_memory(&self) -> bool;

    /// A handle by which another thread ends a blocked `receive` with an error.
    fn breaker(&self) -> Breaker;
}

/// Reads the cumulative counters of a stream; `None` where the system does not tell, or if the stream is no more.
pub type TcpGauge = std::sync::Arc<dyn Fn() -> Option<TcpSnapshot> + Send + Sync>;

/// Limits the bytes per second at which the system sends a stream, as far as it can, without bursts; `u64::MAX` for no limit.
pub type Pacer = std::sync::Arc<dyn Fn(u64) + Send + Sync>;

/// Ends a blocked stream operation from another thread; may be called any number of times.
pub type Breaker = std::sync::Arc<dyn Fn() + Send + Sync>;

/// One end of a control channel.
pub struct Control {
    /// Sends a message in order; cheap to clone and to share between threads.
    pub sender: ControlSender,
    /// Messages of the other end; disconnected when the channel is closed or broken, and then `sender.failure()` tells why.
    pub receiver: Receiver<Message>,
}

/// The sending side of a control channel.
pub trait SendMessage: Send + Sync {
    /// Sends one message; blocks while the peer does not take it.
    fn send(&self, message: &Message) -> Result<()>;

    /// Closes the channel; the other end sees its receiver disconnected.
    fn close(&self);

    /// Why the channel broke, if it did: for the reason that the peer gave, if it gave one.
    fn failure(&self) -> Option<crate::error::Error>;
}

/// A shared sending side.
pub type ControlSender = std::sync::Arc<dyn SendMessage>;

/// Makes streams for one session: the caller dials, the server waits for it.
pub trait Dialer: Send + Sync {
    /// Dials a stream on which this side sends.
    fn sink(&self, number: u16) -> Result<Box<dyn FrameSink>>;

    /// Dials a stream on which this side receives.
    fn source(&self, number: u16) -> Result<Box<dyn FrameSource>>;
}

/// This side's end of a stream that the other side dialled.
pub struct IncomingStream {
    /// The stream's number within its session.
    pub number: u16,
    /// The end.
    pub end: StreamEnd,
}

/// An end of a stream, by the direction of its frames.
pub enum StreamEnd {
    /// This side sends.
    Sink(Box<dyn FrameSink>),
    /// This side receives.
    Source(Box<dyn FrameSource>),
}
