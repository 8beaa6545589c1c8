//! Links within one process: two halves that share memory instead of a network.

use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, bounded, select};

use crate::buffer::SlabPool;
use crate::error::{Error, ErrorKind, Result};
use crate::link::{
    Breaker, Control, Dialer, Frame, FrameSink, FrameSource, IncomingStream, Pacer, SendMessage, StreamEnd, TcpGauge,
};
use crate::protocol::frame::{FrameHeader, FrameKind};
use crate::protocol::message::{Message, SendOptions};
use crate::sync::Mutex;

/// Messages that wait in one direction of a control channel.
const MESSAGES: usize = 256;

/// Frames that wait in a stream between the two halves.
const FRAMES: usize = 8;

/// Dialled streams that wait for the other half.
const STREAMS: usize = 256;

/// Two ends of a control channel; closing or dropping either sender closes it for both.
pub fn pair() -> (Control, Control) {
    let ((left, from_left), (right, from_right)) = (bounded(MESSAGES), bounded(MESSAGES));
    let shared = Arc::new(Channel { directions: Mutex::new([Some(left), Some(right)]), ended: Ended::new() });
    let end = |side: usize, receiver| Control { sender: Arc::new(End { channel: Arc::clone(&shared), side }), receiver };
    (end(0, from_right), end(1, from_left))
}

/// Two ends of a stream that holds at most `capacity` frames.
pub fn stream(capacity: usize) -> (Box<dyn FrameSink>, Box<dyn FrameSource>) {
    let (frames, received) = bounded(capacity);
    let ended = Arc::new(Ended::new());
    let sink = Sink { frames: Some(frames), sequence: 0, ended: Arc::clone(&ended) };
    (Box::new(sink), Box::new(Source { frames: received, ended }))
}

/// Makes streams to the other half in the same process.
pub struct MemoryDialer {
    streams: Sender<IncomingStream>,
}

impl MemoryDialer {
    /// A dialer, and where the other half finds its ends of the dialled streams.
    pub fn new() -> (Self, Receiver<IncomingStream>) {
        let (streams, incoming) = bounded(STREAMS);
        (Self { streams }, incoming)
    }

    fn offer(&self, number: u16, end: StreamEnd) -> Result<()> {
        self.streams.try_send(IncomingStream { number, end }).map_err(|_| {
            Error::new(ErrorKind::ConnectionLost, format!("could not open stream {number}"))
                .with_cause("the other half of the transfer takes no streams")
        })
    }
}

impl Dialer for MemoryDialer {
    fn sink(&self, number: u16) -> Result<Box<dyn FrameSink>> {
        let (sink, source) = stream(FRAMES);
        self.offer(number, StreamEnd::Source(source))?;
        Ok(sink)
    }

    fn source(&self, number: u16) -> Result<Box<dyn FrameSource>> {
        let (sink, source) = stream(FRAMES);
        self.offer(number, StreamEnd::Sink(sink))?;
        Ok(source)
    }
}

/// A flag that a blocked `select` sees: its receiver is disconnected once the sender is dropped.
struct Ended {
    sender: Mutex<Option<Sender<()>>>,
    receiver: Receiver<()>,
}

impl Ended {
    fn new() -> Self {
        let (sender, receiver) = bounded(0);
        Self { sender: Mutex::new(Some(sender)), receiver }
    }

    fn set(&self) {
        self.sender.lock().take();
    }

    fn is_set(&self) -> bool {
        self.sender.lock().is_none()
    }
}

struct Channel {
    directions: Mutex<[Option<Sender<Message>>; 2]>,
    ended: Ended,
}

struct End {
    channel: Arc<Channel>,
    side: usize,
}

impl SendMessage for End {
    fn send(&self, message: &Message) -> Result<()> {
        let sender = self.channel.directions.lock()[self.side].clone().ok_or_else(closed)?;
        select! {
            send(sender, message.clone()) -> sent => sent.map_err(|_| closed()),
            recv(self.channel.ended.receiver) -> _ => Err(closed()),
        }
    }

    fn close(&self) {
        self.channel.ended.set();
        *self.channel.directions.lock() = [None, None];
    }

    fn failure(&self) -> Option<Error> {
        self.channel.ended.is_set().then(closed)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.close();
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::ConnectionLost, "the control channel ended").with_cause("a half of the transfer closed it")
}

struct Sink {
    frames: Option<Sender<Frame>>,
    sequence: u32,
    ended: Arc<Ended>,
}

impl FrameSink for Sink {
    fn configure(&self, _: &SendOptions) {}

    fn pacer(&self) -> Option<Pacer> {
        None
    }

    fn send(&mut self, mut frame: Frame) -> Result<u32> {
        let sequence = self.sequence;
        frame.header.sequence = sequence;
        let frames = self.frames.as_ref().filter(|_| !self.ended.is_set()).ok_or_else(broken)?;
        select! {
            send(frames, frame) -> sent => sent.map_err(|_| broken())?,
            recv(self.ended.receiver) -> _ => return Err(broken()),
        }
        self.sequence = sequence.wrapping_add(1);
        Ok(sequence)
    }

    fn finish(&mut self) -> Result<()> {
        self.send(Frame { header: FrameHeader::empty(FrameKind::Finish), payload: None })?;
        self.frames = None;
        Ok(())
    }

    fn is_direct(&self) -> bool {
        false
    }

    fn tcp(&self) -> Option<TcpGauge> {
        None
    }

    fn is_sending(&self) -> bool {
        false
    }

    fn breaker(&self) -> Breaker {
        breaker(&self.ended)
    }
}

struct Source {
    frames: Receiver<Frame>,
    ended: Arc<Ended>,
}

impl FrameSource for Source {
    fn receive(&mut self, _: &SlabPool, arrived: &dyn Fn(usize)) -> Result<Option<Frame>> {
        if self.ended.is_set() {
            return Err(broken());
        }
        let frame = select! {
            recv(self.frames) -> frame => frame.map_err(|_| broken())?,
            recv(self.ended.receiver) -> _ => return Err(broken()),
        };
        arrived(frame.header.wire_length());
        Ok((frame.header.kind != FrameKind::Finish).then_some(frame))
    }

    fn shares_memory(&self) -> bool {
        true
    }

    fn breaker(&self) -> Breaker {
        breaker(&self.ended)
    }
}

fn breaker(ended: &Arc<Ended>) -> Breaker {
    let ended = Arc::downgrade(ended);
    Arc::new(move || {
        if let Some(ended) = Weak::upgrade(&ended) {
            ended.set();
        }
    })
}

fn broken() -> Error {
    Error::new(ErrorKind::ConnectionLost, "a stream ended early").with_cause("the other half of the transfer gave it up")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Budget;

    fn pool() -> SlabPool {
        SlabPool::new(Budget::new(4 << 20), 4 << 20)
    }

    fn ping() -> Frame {
        Frame { header: FrameHeader::empty(FrameKind::Ping), payload: None }
    }

    #[test]
    fn messages_arrive_in_order_and_a_close_ends_both_ends() {
        let (left, right) = pair();
        left.sender.send(&Message::Close(vec![1], None)).unwrap();
        left.sender.send(&Message::Ping).unwrap();
        left.sender.close();
        assert_eq!(right.receiver.iter().collect::<Vec<_>>(), [Message::Close(vec![1], None), Message::Ping]);
        assert!(left.receiver.recv().is_err());
        assert!(right.sender.send(&Message::Ping).is_err());
        assert_eq!(right.sender.failure().unwrap().kind(), ErrorKind::ConnectionLost);
    }

    #[test]
    fn dropping_one_end_ends_a_send_that_is_blocked_at_the_other() {
        let (left, right) = pair();
        let sender = Arc::clone(&left.sender);
        let blocked = std::thread::spawn(move || (0..=MESSAGES).try_for_each(|_| sender.send(&Message::Ping)));
        while right.receiver.len() < MESSAGES {
            std::thread::yield_now();
        }
        drop(right);
        assert!(blocked.join().unwrap().is_err());
    }

    #[test]
    fn a_stream_numbers_its_frames_and_ends_after_finish() {
        let (dialer, incoming) = MemoryDialer::new();
        let mut sink = dialer.sink(7).unwrap();
        let IncomingStream { number: 7, end: StreamEnd::Source(mut source) } = incoming.recv().unwrap() else {
            panic!("wrong end")
        };
        assert_eq!((sink.send(ping()).unwrap(), sink.send(ping()).unwrap()), (0, 1));
        sink.finish().unwrap();
        drop(sink);
        let pool = pool();
        assert_eq!(source.receive(&pool, &|_| ()).unwrap().unwrap().header.sequence, 0);
        assert_eq!(source.receive(&pool, &|_| ()).unwrap().unwrap().header.sequence, 1);
        assert!(source.receive(&pool, &|_| ()).unwrap().is_none());
    }

    #[test]
    fn a_sink_dropped_before_finish_is_an_error_at_the_source() {
        let (sink, mut source) = stream(1);
        drop(sink);
        assert_eq!(source.receive(&pool(), &|_| ()).err().unwrap().kind(), ErrorKind::ConnectionLost);
    }

    #[test]
    fn breakers_end_blocked_operations_of_both_ends() {
        let (mut sink, source) = stream(1);
        sink.send(ping()).unwrap();
        let breaker = source.breaker();
        let blocked = std::thread::spawn(move || sink.send(ping()).is_err());
        breaker();
        breaker();
        assert!(blocked.join().unwrap());
        let (sink, mut source) = stream(1);
        let breaker = sink.breaker();
        let blocked = std::thread::spawn(move || source.receive(&pool(), &|_| ()).is_err());
        breaker();
        assert!(blocked.join().unwrap());
        drop(sink);
    }
}
