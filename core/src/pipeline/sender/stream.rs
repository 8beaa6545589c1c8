//! The network stage at the sender: one worker for each stream, which also reads where the stages are fused.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::buffer::Slab;
use crate::error::{Error, ErrorKind, Result};
use crate::link::{Frame, FrameSink};
use crate::pipeline::sender::outstanding::{Tag, units};
use crate::pipeline::sender::queue::{Next, Worker};
use crate::pipeline::sender::read::{Tagged, UnitReader};
use crate::pipeline::sender::{PATIENCE, Shared};
use crate::protocol::frame::{FrameHeader, FrameKind};
use crate::protocol::message::{FileHeader, ItemKind};

/// An idle stream says that it lives this often.
const PING_EVERY: Duration = Duration::from_secs(20);

/// A stream that leaves looks this often whether what it sent has arrived, for so long.
const DRAINED_EVERY: Duration = Duration::from_millis(10);
const DRAINED_WITHIN: Duration = Duration::from_secs(10);

/// How many files a stream remembers having opened; forgetting one only costs a second `Open`.
const OPENED_KEPT: usize = 4096;

/// Sends on one stream until it is surplus or used up, the session is complete, or it breaks; what it had not delivered goes to the others.
pub(crate) fn run(shared: &Shared, number: u16, sink: Box<dyn FrameSink>) -> Result<()> {
    let _worker = shared.network.worker();
    let mut stream = Stream {
        shared,
        number,
        sink,
        opened: HashSet::new(),
        worker: Worker::default(),
        reading: None,
        last_sent: Instant::now(),
        leaving: false,
    };
    stream.sink.configure(&shared.options);
    shared.pacing.opened(number, stream.sink.pacer());
    shared.tcp.opened(number, stream.sink.tcp());
    let outcome = stream.serve();
    if let Some(reading) = stream.reading.take() {
        shared.put_back(reading.into_rest());
    }
    shared.queue.leave(&mut stream.worker);
    if outcome.is_ok() && stream.leaving {
        stream.drain();
    }
    shared.tcp.ended(number);
    shared.pacing.ended(number);
    if outcome.is_err() {
        shared.requeue(number);
    }
    outcome
}

struct Stream<'a> {
    shared: &'a Shared,
    number: u16,
    sink: Box<dyn FrameSink>,
    opened: HashSet<u32>,
    worker: Worker,
    reading: Option<UnitReader>,
    last_sent: Instant,
    /// There are to be fewer streams, and this one is not among them.
    leaving: bool,
}

impl Stream<'_> {
    fn serve(&mut self) -> Result<()> {
        let shared = self.shared;
        let mut fused_worker = None;
        loop {
            self.leaving = shared.streams.is_surplus(self.number);
            if self.leaving {
                shared.streams.leave(self.number);
            }
            if self.leaving || shared.complete.load(Ordering::Relaxed) {
                return self.sink.finish();
            }
            if shared.stop.is_set() {
                return Ok(());
            }
            let fused = shared.fused.load(Ordering::Relaxed);
            if fused != fused_worker.is_some() {
                fused_worker = fused.then(|| shared.read.worker());
            }
            match self.next(fused) {
                Some(tagged) => {
                    let used_up = tagged.1.ends_chunk() && shared.pipelining.load(Ordering::Relaxed) == 0;
                    self.send(tagged)?;
                    if used_up {
                        return self.sink.finish();
                    }
                }
                None => self.keep_alive()?,
            }
        }
    }

    fn next(&mut self, fused: bool) -> Option<Tagged> {
        let shared = self.shared;
        // Reading has workers of its own now: one who sends and goes on to read would be one more than was decided.
        if !fused {
            shared.queue.leave(&mut self.worker);
            if let Some(reading) = self.reading.take() {
                shared.put_back(reading.into_rest());
            }
        }
        if let Some(reading) = &mut self.reading {
            if let Some(tagged) = reading.next(shared) {
                return Some(tagged);
            }
            self.reading = None;
        }
        if shared.outstanding.chunks(self.number) >= usize::from(shared.pipelining.load(Ordering::Relaxed).max(1)) {
            shared.stop.wait(Duration::from_millis(1));
            return None;
        }
        let buffered = shared.frames.pop(if fused { Duration::ZERO } else { PATIENCE });
        if buffered.is_some() || !fused {
            return buffered;
        }
        let Next::Unit(unit) = shared.queue.take(&mut self.worker, shared.cut(), PATIENCE) else { return None };
        self.reading = Some(UnitReader::new(unit));
        self.reading.as_mut()?.next(shared)
    }

    fn send(&mut self, (frame, tag): Tagged) -> Result<()> {
        let shared = self.shared;
        if let Tag::Data { file, .. } = &tag {
            if self.opened.len() >= OPENED_KEPT {
                self.opened.clear();
            }
            if self.opened.insert(file.header.file) {
                let introduction = open(&file.header);
                if let Err(error) = self.put(introduction, Tag::Other) {
                    for unit in units([tag]) {
                        shared.queue.put_back(unit);
                    }
                    return Err(error);
                }
            }
        }
        let booking = shared.limiter.book(frame.header.wire_length(), Instant::now());
        while let Some(wait) = shared.limiter.wait(booking, Instant::now()) {
            if shared.stop.wait(wait) {
                return Ok(());
            }
        }
        let (length, content) = (frame.header.wire_length() as u64, content_of(&frame, &tag));
        self.put(frame, tag)?;
        shared.network.add_bytes(length);
        if let Some(account) = &shared.account {
            account.sent(content);
        }
        Ok(())
    }

    fn put(&mut self, frame: Frame, tag: Tag) -> Result<()> {
        let part = match &tag {
            Tag::Data { file, range, .. } => Some((Arc::clone(file), range.end - range.start)),
            _ => None,
        };
        let content = if matches!(tag, Tag::Other) { 0 } else { content_of(&frame, &tag) };
        if let Err(units) = self.shared.outstanding.sending(self.number, tag) {
            for unit in units {
                self.shared.queue.put_back(unit);
            }
            return Err(Error::new(ErrorKind::ConnectionLost, format!("the receiver lost stream {}", self.number)));
        }
        // Before it may be the last of all, after which nobody is told of it any more.
        self.shared.sent.fetch_add(content, Ordering::SeqCst);
        // Counted as soon as it is outstanding: what fails to be sent is counted back when it is lost.
        let last = part.filter(|(file, bytes)| file.unsent.fetch_sub(*bytes, Ordering::SeqCst) == *bytes);
        let begun = Instant::now();
        self.sink.send(frame).inspect_err(|_| {
            self.shared.sent.fetch_sub(content, Ordering::SeqCst);
        })?;
        if !self.sink.is_direct() {
            self.shared.network.add_busy(begun.elapsed());
        }
        if let Some((file, _)) = last {
            self.shared.close(&file);
        }
        self.last_sent = begun;
        Ok(())
    }

    /// Waits until what was sent has arrived: as long as the system still sends it, there is one stream more than is asked for, and what
    /// arrives is of all of them. A stream whose path has died is not waited for long.
    fn drain(&self) {
        let (shared, begun) = (self.shared, Instant::now());
        let on_its_way = || self.sink.is_sending() && shared.outstanding.is_waiting(self.number);
        while on_its_way() && !shared.complete.load(Ordering::Relaxed) && begun.elapsed() < DRAINED_WITHIN {
            if shared.stop.wait(DRAINED_EVERY) {
                return;
            }
        }
    }

    fn keep_alive(&mut self) -> Result<()> {
        if self.last_sent.elapsed() > PING_EVERY {
            let ping = Frame { header: FrameHeader::empty(FrameKind::Ping), payload: None };
            self.put(ping, Tag::Other)?;
            self.last_sent = Instant::now();
        }
        Ok(())
    }
}

/// Bytes of files that a frame carries, without headers and holes.
fn content_of(frame: &Frame, tag: &Tag) -> u64 {
    match tag {
        Tag::Pack(items) => items.iter().filter(|item| item.header.kind == ItemKind::File).map(|item| item.header.size).sum(),
        _ => frame.header.wire_length() as u64,
    }
}

/// The frame that introduces a file on a stream.
fn open(file: &FileHeader) -> Frame {
    let payload = minicbor::to_vec(file).expect("writing to memory cannot fail");
    let mut header = FrameHeader::empty(FrameKind::Open);
    header.file = file.file;
    header.length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    Frame { header, payload: Some(Slab::detached(payload)) }
}
