//! The network stage at the receiver: one thread for each stream, which also writes where the stages are fused.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::link::{Frame, FrameSource};
use crate::metrics::meter::LiveWorker;
use crate::pipeline::digest::crc64nvme;
use crate::pipeline::receiver::{Arrived, Shared};
use crate::protocol::frame::{FLAG_ZERO, FrameKind};
use crate::protocol::message::FileHeader;

/// Receives on one stream until its sender finishes it; an end without that is reported, so that the rest is sent again.
pub(crate) fn run(shared: &Arc<Shared>, number: u16, mut source: Box<dyn FrameSource>) -> Result<()> {
    let outcome = serve(&mut Intake::new(shared, number), source.as_mut());
    if outcome.is_err() && !shared.stop.is_set() {
        shared.acks.lost(number);
    }
    outcome
}

fn serve(intake: &mut Intake, source: &mut dyn FrameSource) -> Result<()> {
    if !intake.shared.wait_until_ready() {
        return Ok(());
    }
    while !intake.shared.stop.is_set() {
        let shared = &intake.shared;
        let arrived = |bytes: usize| shared.network.add_bytes(bytes as u64);
        let Some(frame) = source.receive(&shared.pool, &arrived)? else { return Ok(()) };
        if !source.shares_memory() {
            verify(&frame)?;
        }
        intake.take(frame)?;
    }
    Ok(())
}

/// Takes the frames of one stream, on the thread that has them.
pub(super) struct Intake {
    pub(super) shared: Arc<Shared>,
    number: u16,
    /// The sequence of the next frame.
    pub(super) expected: u32,
    _worker: LiveWorker,
    fused_worker: Option<LiveWorker>,
}

impl Intake {
    pub(super) fn new(shared: &Arc<Shared>, number: u16) -> Self {
        Self { shared: Arc::clone(shared), number, expected: 0, _worker: shared.network.worker(), fused_worker: None }
    }

    /// Takes the next frame: writes it where the stages are fused, or gives it to the writers.
    pub(super) fn take(&mut self, frame: Frame) -> Result<()> {
        let (shared, number) = (&self.shared, self.number);
        if frame.header.sequence != self.expected {
            return Err(Error::new(ErrorKind::Protocol, format!("a frame is missing on stream {number}")));
        }
        self.expected = self.expected.wrapping_add(1);
        let fused = shared.fused.load(Ordering::Relaxed);
        if fused != self.fused_worker.is_some() {
            self.fused_worker = fused.then(|| shared.write.worker());
        }
        let arrived = Arrived { stream: number, sequence: frame.header.sequence, frame };
        match arrived.frame.header.kind {
            // Files are opened in the order of the stream, before any writer meets their bytes.
            FrameKind::Open => {
                shared.open(&arrived.frame)?;
                shared.acks.frame(number, arrived.sequence, 0);
            }
            FrameKind::Ping | FrameKind::Finish => shared.acks.frame(number, arrived.sequence, 0),
            FrameKind::Data | FrameKind::Pack if fused => {
                while let Some(waiting) = shared.frames.pop(Duration::ZERO) {
                    shared.take(&waiting);
                }
                shared.take(&arrived);
            }
            // It takes nothing of the buffer, which would hold up nobody who sends millions of such.
            FrameKind::Data | FrameKind::Pack if arrived.frame.payload.is_none() => shared.take(&arrived),
            FrameKind::Data | FrameKind::Pack => {
                shared.frames.push(arrived);
                // The writers may just have left for good.
                while shared.fused.load(Ordering::Relaxed)
                    && let Some(waiting) = shared.frames.pop(Duration::ZERO)
                {
                    shared.take(&waiting);
                }
            }
        }
        Ok(())
    }
}

/// Checks a payload against the digests that were computed when it was read; a stream that carried a wrong one is given up.
fn verify(frame: &Frame) -> Result<()> {
    if frame.header.flags & FLAG_ZERO != 0 {
        return Ok(());
    }
    let payload = frame.payload.as_deref().unwrap_or_default();
    if frame.header.kind == FrameKind::Data && crc64nvme(payload) != frame.header.crc64nvme {
        return Err(Error::new(ErrorKind::Corrupted, "bytes of a file are not what their crc64nvme says"));
    }
    Ok(())
}

impl Shared {
    /// Writes one frame; whatever becomes of its items, the frame is acknowledged.
    pub(crate) fn take(&self, arrived: &Arrived) {
        let begun = Instant::now();
        self.taking.fetch_add(1, Ordering::SeqCst);
        let bytes = match arrived.frame.header.kind {
            FrameKind::Pack => self.take_pack(arrived),
            _ => self.take_data(&arrived.frame),
        };
        if let Some(bytes) = bytes {
            self.acks.frame(arrived.stream, arrived.sequence, bytes);
        }
        self.taking.fetch_sub(1, Ordering::SeqCst);
        if arrived.frame.header.kind == FrameKind::Data {
            self.close_if_whole(arrived.frame.header.file);
        }
        self.write.add_busy(begun.elapsed());
        self.write.add_bytes(u64::from(arrived.frame.header.length));
    }

    fn open(&self, frame: &Frame) -> Result<()> {
        let header: FileHeader = minicbor::decode(frame.payload.as_deref().unwrap_or_default())
            .map_err(|cause| Error::new(ErrorKind::Protocol, "could not understand the header of a file").with_cause(cause))?;
        if header.file != frame.header.file {
            return Err(Error::new(ErrorKind::Protocol, "a file's header has another file's number"));
        }
        self.open_file(header)
    }
}
