//! Streams over TCP: frames one after another in one direction, plain or under TLS.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::buffer::{Slab, SlabPool};
use crate::error::{Error, ErrorKind, Result};
use crate::link::connection::Connection;
use crate::link::unsent::Unsent;
use crate::link::{Breaker, Frame, FrameSink, FrameSource, Pacer, TcpGauge, socket};
use crate::metrics::tcp_info;
use crate::protocol::frame::{FrameHeader, FrameKind, HEADER_LENGTH, crc32c};
use crate::protocol::message::SendOptions;

/// How often a source that waits for memory looks whether it was broken.
const PATIENCE: Duration = Duration::from_millis(100);

/// What both ends of a stream share: the connection, and what it is called in errors.
struct Stream {
    connection: Connection,
    name: String,
    broken: Arc<AtomicBool>,
    /// The number of the next frame.
    sequence: u32,
    /// Held as long as the stream lives.
    _guard: Option<Box<dyn Send>>,
}

/// The sending end of an open connection; `guard` is dropped with it.
pub(super) fn sink(connection: Connection, name: String, guard: Option<Box<dyn Send>>) -> Result<Box<dyn FrameSink>> {
    Ok(Box::new(Sink { stream: Stream::new(connection, name, guard)?, unsent: Unsent::default() }))
}

/// The receiving end of an open connection; `guard` is dropped with it.
pub(super) fn source(mut connection: Connection, name: String, guard: Option<Box<dyn Send>>) -> Result<Box<dyn FrameSource>> {
    connection.gather();
    Ok(Box::new(Source { stream: Stream::new(connection, name, guard)?, ahead: [0; HEADER_LENGTH], ahead_length: 0 }))
}

impl Stream {
    fn new(mut connection: Connection, name: String, guard: Option<Box<dyn Send>>) -> Result<Self> {
        connection.lift_deadline().map_err(|cause| lost(&format!("could not open {name}"), &cause))?;
        Ok(Self { connection, name, broken: Arc::default(), sequence: 0, _guard: guard })
    }

    fn breaker(&self) -> Breaker {
        let broken = Arc::clone(&self.broken);
        // A weak reference: a breaker that is kept must not keep the connection open.
        let socket: Weak<TcpStream> = Arc::downgrade(&self.connection.socket);
        Arc::new(move || {
            broken.store(true, Ordering::Release);
            if let Some(socket) = socket.upgrade() {
                let _ = socket.shutdown(Shutdown::Both);
            }
        })
    }

    fn failed(&self, operation: &str, cause: &io::Error) -> Error {
        lost(&format!("could not {operation} {}", self.name), cause)
    }
}

struct Sink {
    stream: Stream,
    unsent: Unsent,
}

impl FrameSink for Sink {
    fn send(&mut self, mut frame: Frame) -> Result<u32> {
        let sequence = self.stream.sequence;
        frame.header.sequence = sequence;
        let payload = frame.payload.as_deref().unwrap_or_default();
        if payload.len() != frame.header.wire_length() {
            return Err(Error::new(ErrorKind::Protocol, format!("could not send on {}", self.stream.name))
                .with_cause("a frame's header and payload differ in length"));
        }
        frame.header.payload_crc32c = crc32c(payload);
        let begun = Instant::now();
        self.stream
            .connection
            .write_both(&frame.header.encode(), payload)
            .map_err(|cause| self.stream.failed("send on", &cause))?;
        if self.unsent.learn(payload.len(), begun.elapsed()) {
            // A stream that holds more only ends later.
            let _ = socket::hold(&self.stream.connection.socket, self.unsent.bytes());
        }
        self.stream.sequence = sequence.wrapping_add(1);
        Ok(sequence)
    }

    fn finish(&mut self) -> Result<()> {
        self.send(Frame { header: FrameHeader::empty(FrameKind::Finish), payload: None })?;
        // The receiver sends nothing on a stream, so nothing unread can turn the close into a reset. It may hang up as soon as it has
        // the last frame, so an error of what comes after that says nothing.
        let _ = self.stream.connection.end_writing();
        Ok(())
    }

    fn configure(&self, options: &SendOptions) {
        // Whether the system has it was checked at the start; a route may still insist on another.
        let _ = options.congestion.as_ref().map(|name| socket::set_congestion(&self.stream.connection.socket, name));
    }

    fn pacer(&self) -> Option<Pacer> {
        let socket = Arc::downgrade(&self.stream.connection.socket);
        Some(Arc::new(move |rate| {
            // A stream that cannot be paced is only less smooth.
            let _ = socket.upgrade().map(|socket| socket::pace(&socket, rate));
        }))
    }

    fn is_direct(&self) -> bool {
        false
    }

    fn tcp(&self) -> Option<TcpGauge> {
        let socket = Arc::downgrade(&self.stream.connection.socket);
        Some(Arc::new(move || tcp_info(&*socket.upgrade()?)))
    }

    fn is_sending(&self) -> bool {
        tcp_info(&*self.stream.connection.socket).is_some_and(|tcp| tcp.is_sending())
    }

    fn breaker(&self) -> Breaker {
        self.stream.breaker()
    }
}

struct Source {
    stream: Stream,
    /// The header that comes next, as far as it came along with the payload before it.
    ahead: [u8; HEADER_LENGTH],
    ahead_length: usize,
}

impl Source {
    fn slab(&self, pool: &SlabPool) -> Result<Slab> {
        loop {
            if self.stream.broken.load(Ordering::Acquire) {
                return Err(self.stream.failed("receive from", &io::ErrorKind::ConnectionAborted.into()));
            }
            if let Some(slab) = pool.take(PATIENCE) {
                return Ok(slab);
            }
        }
    }

    fn header(&mut self) -> Result<FrameHeader> {
        let here = std::mem::take(&mut self.ahead_length);
        if here < HEADER_LENGTH {
            let rest = &mut self.ahead[here..];
            self.stream.connection.read_exact(rest).map_err(|cause| self.stream.failed("receive from", &cause))?;
        }
        let header = FrameHeader::decode(&self.ahead)?;
        if header.sequence != self.stream.sequence {
            return Err(Error::new(ErrorKind::Protocol, format!("could not receive from {}", self.stream.name))
                .with_cause(format!("frame {} came where {} was due", header.sequence, self.stream.sequence)));
        }
        self.stream.sequence = self.stream.sequence.wrapping_add(1);
        Ok(header)
    }
}

impl FrameSource for Source {
    fn receive(&mut self, pool: &SlabPool, arrived: &dyn Fn(usize)) -> Result<Option<Frame>> {
        let header = self.header()?;
        if header.kind == FrameKind::Finish {
            return Ok(None);
        }
        let length = header.wire_length();
        if length == 0 {
            return Ok(Some(Frame { header, payload: None }));
        }
        let mut slab = self.slab(pool)?;
        // The header's decoder bounds the length by the size of a slab.
        let along = self.stream.connection.read_along(&mut slab.space()[..length], &mut self.ahead, arrived);
        self.ahead_length = along.map_err(|cause| self.stream.failed("receive from", &cause))?;
        slab.set_len(length);
        header.verify(&slab)?;
        Ok(Some(Frame { header, payload: Some(slab) }))
    }

    fn shares_memory(&self) -> bool {
        false
    }

    fn breaker(&self) -> Breaker {
        self.stream.breaker()
    }
}

/// The error of a connection in use: a retry may help, whatever the system calls the cause.
pub(super) fn lost(what: &str, cause: &io::Error) -> Error {
    let kind = match cause.kind() {
        io::ErrorKind::InvalidData => ErrorKind::Corrupted,
        _ => ErrorKind::ConnectionLost,
    };
    let text = match cause.kind() {
        io::ErrorKind::UnexpectedEof => "the peer closed the connection".to_owned(),
        _ => cause.to_string(),
    };
    Error::new(kind, what).with_cause(text)
}
