//! A stream within one process that needs no thread at the receiver: who sends a frame writes it.
//!
//! A frame that another thread takes costs waking that thread, and bytes that are in the cache of another processor by then; and while it
//! waits, more slabs are in use than there are threads. Here a block is read, digested and written by one thread in one slab.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::buffer::SLAB_SIZE;
use crate::error::{Error, ErrorKind, Result};
use crate::link::{Breaker, Frame, FrameSink, Pacer, TcpGauge};
use crate::pipeline::receiver::stream::Intake;
use crate::pipeline::receiver::{Receiver, Shared};
use crate::protocol::message::SendOptions;

/// The sending end of such a stream.
pub(super) struct Direct {
    intake: Intake,
    broken: Arc<AtomicBool>,
}

impl Direct {
    pub(super) fn new(shared: &Arc<Shared>, number: u16) -> Self {
        Self { intake: Intake::new(shared, number), broken: Arc::default() }
    }
}

impl Receiver {
    /// The sending end of a stream of which the thread that sends a frame takes it.
    pub(crate) fn direct(&self, number: u16) -> Box<dyn FrameSink> {
        Box::new(Direct::new(&self.shared, number))
    }

    /// Bytes of the slabs that wait for a writer.
    pub(crate) fn waiting(&self) -> u64 {
        (self.shared.frames.len() * SLAB_SIZE) as u64
    }
}

impl FrameSink for Direct {
    fn configure(&self, _: &SendOptions) {}

    fn pacer(&self) -> Option<Pacer> {
        None
    }

    /// An error says that the frame was not taken, or not all of it: its stream is lost.
    fn send(&mut self, mut frame: Frame) -> Result<u32> {
        let shared = &self.intake.shared;
        if !shared.wait_until_ready() || shared.stop.is_set() || self.broken.load(Ordering::Relaxed) {
            let ended = Error::new(ErrorKind::ConnectionLost, "a stream ended early");
            return Err(ended.with_cause("the other half of the transfer has ended"));
        }
        let sequence = self.intake.expected;
        frame.header.sequence = sequence;
        shared.network.add_bytes(frame.header.wire_length() as u64);
        self.intake.take(frame)?;
        Ok(sequence)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    fn is_direct(&self) -> bool {
        true
    }

    fn tcp(&self) -> Option<TcpGauge> {
        None
    }

    fn is_sending(&self) -> bool {
        false
    }

    /// What is being written is written to its end: a store ends its waiting by itself.
    fn breaker(&self) -> Breaker {
        let broken = Arc::clone(&self.broken);
        Arc::new(move || broken.store(true, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::buffer::{Budget, Slab, SlabPool};
    use crate::link::{Control, memory};
    use crate::options::Symlinks;
    use crate::path::RelativePath;
    use crate::pipeline::digest::{block_blake3, crc64nvme};
    use crate::pipeline::receiver::{Discard, ReceiverParts};
    use crate::protocol::TransferId;
    use crate::protocol::frame::{FLAG_ZERO, FrameHeader, FrameKind};
    use crate::protocol::message::{FileHeader, Message, ReceiveOptions};
    use crate::store::Store;
    use crate::store::local::LocalStore;
    use crate::store::memory::MemoryStore;
    use crate::testing::faulty::{Faults, FaultyStore};

    const SIZE: u64 = SLAB_SIZE as u64 + 1000;

    fn receiver() -> (Receiver, Arc<MemoryStore>) {
        let store = Arc::new(MemoryStore::new());
        (receiver_at(Arc::clone(&store) as Arc<dyn Store>).0, store)
    }

    /// A receiver that knows where the destination is, without any thread, and whom it tells of it.
    fn receiver_at(store: Arc<dyn Store>) -> (Receiver, Control) {
        let (near, far) = memory::pair();
        let receiver = Receiver::new(ReceiverParts {
            store,
            destination: RelativePath::root(),
            options: ReceiveOptions::default(),
            files: None,
            transfer: TransferId([1; 16]),
            control: near.sender,
            buffer: 8 << 20,
            account: None,
            copier: None,
            discard: Discard::AtOnce,
        });
        receiver.shared.ready.store(true, Ordering::SeqCst);
        (receiver, far)
    }

    fn path() -> RelativePath {
        RelativePath::from_user("file 1").unwrap()
    }

    fn open() -> Frame {
        let payload = minicbor::to_vec(FileHeader::of_a_test(1, SIZE)).unwrap();
        let mut header = FrameHeader::empty(FrameKind::Open);
        (header.file, header.length) = (1, u32::try_from(payload.len()).unwrap());
        Frame { header, payload: Some(Slab::detached(payload)) }
    }

    fn block(pool: &SlabPool, offset: u64) -> Frame {
        let mut slab = pool.take(std::time::Duration::ZERO).unwrap();
        let length = usize::try_from(SIZE - offset).unwrap().min(SLAB_SIZE);
        slab.space()[..length].fill(7);
        slab.set_len(length);
        let mut header = FrameHeader::empty(FrameKind::Data);
        (header.file, header.offset, header.length) = (1, offset, u32::try_from(length).unwrap());
        (header.crc64nvme, header.blake3) = (crc64nvme(&slab), block_blake3(&slab, offset, SIZE));
        Frame { header, payload: Some(slab) }
    }

    #[test]
    fn a_frame_is_written_and_its_slab_free_when_it_was_sent() {
        let (receiver, store) = receiver();
        let pool = SlabPool::new(Budget::new(4 << 20), 4 << 20);
        let (mut sink, all) = (receiver.direct(1), pool.free());
        assert_eq!(sink.send(open()).unwrap(), 0);
        assert_eq!(sink.send(block(&pool, SLAB_SIZE as u64)).unwrap(), 1);
        assert_eq!(sink.send(block(&pool, 0)).unwrap(), 2);
        assert_eq!(pool.free(), all);
        assert_eq!(receiver.meters().network.bytes, receiver.meters().write.bytes + u64::from(open().header.length));
        receiver.shared.close(1, None);
        sink.finish().unwrap();
        assert_eq!(store.stat(&path()).unwrap().size, SIZE);
        let mut content = vec![0; usize::try_from(SIZE).unwrap()];
        store.open(&path()).unwrap().read_at(0, &mut content).unwrap();
        assert!(content.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_file_is_known_to_be_published_though_the_process_ended_right_after_it_got_its_name() {
        let place = tempfile::tempdir().unwrap();
        let journal = place.path().join(".edt").join(TransferId([1; 16]).key()).join("journal");
        let store = Arc::new(LocalStore::confined(place.path(), Symlinks::Keep).unwrap());
        let (receiver, _far) = receiver_at(Arc::clone(&store) as Arc<dyn Store>);
        receiver.shared.prepare().unwrap();
        let pool = SlabPool::new(Budget::new(4 << 20), 4 << 20);
        let mut sink = receiver.direct(1);
        for frame in [open(), block(&pool, 0), block(&pool, SLAB_SIZE as u64)] {
            sink.send(frame).unwrap();
        }
        receiver.shared.close(1, None);
        assert_eq!(store.stat(&path()).unwrap().size, SIZE);
        let left = std::fs::read(&journal).unwrap();
        receiver.close();
        std::fs::write(&journal, left).unwrap();
        let (receiver, far) = receiver_at(store);
        receiver.shared.prepare().unwrap();
        let Ok(Message::Have(told)) = far.receiver.try_recv() else { panic!("nothing was told") };
        assert_eq!(told.done.len(), 1);
    }

    #[test]
    fn where_writers_have_threads_of_their_own_they_get_the_frames() {
        let (receiver, _store) = receiver();
        let pool = SlabPool::new(Budget::new(4 << 20), 4 << 20);
        let mut sink = receiver.direct(1);
        receiver.shared.fused.store(false, Ordering::Relaxed);
        sink.send(open()).unwrap();
        sink.send(block(&pool, 0)).unwrap();
        let waiting = receiver.shared.frames.pop(std::time::Duration::ZERO).unwrap();
        assert_eq!((waiting.stream, waiting.sequence), (1, 1));
        assert_eq!(receiver.meters().write.workers, 0);
    }

    #[test]
    fn a_hole_waits_for_no_writer_as_the_buffer_would_not_bound_how_many_wait() {
        let (receiver, _store) = receiver();
        let mut sink = receiver.direct(1);
        receiver.shared.fused.store(false, Ordering::Relaxed);
        sink.send(open()).unwrap();
        let mut header = FrameHeader::empty(FrameKind::Data);
        (header.file, header.length, header.flags) = (1, u32::try_from(SLAB_SIZE).unwrap(), FLAG_ZERO);
        sink.send(Frame { header, payload: None }).unwrap();
        assert_eq!((receiver.waiting(), receiver.meters().write.bytes), (0, SLAB_SIZE as u64));
    }

    #[test]
    fn what_waits_when_the_writers_leave_is_written_by_who_sends() {
        let (receiver, store) = receiver();
        let pool = SlabPool::new(Budget::new(4 << 20), 4 << 20);
        let (mut sink, all) = (receiver.direct(1), pool.free());
        receiver.shared.fused.store(false, Ordering::Relaxed);
        sink.send(open()).unwrap();
        sink.send(block(&pool, 0)).unwrap();
        assert_eq!(receiver.waiting(), SLAB_SIZE as u64);
        receiver.shared.fused.store(true, Ordering::Relaxed);
        sink.send(block(&pool, SLAB_SIZE as u64)).unwrap();
        assert_eq!((receiver.waiting(), pool.free()), (0, all));
        receiver.shared.close(1, None);
        assert_eq!(store.stat(&path()).unwrap().size, SIZE);
    }

    #[test]
    fn a_file_that_cannot_be_written_fails_alone_and_its_frames_are_settled() {
        let inner = Arc::new(MemoryStore::new());
        let faults = Faults { full_from_write: Some(2), ..Faults::default() };
        let (receiver, far) = receiver_at(Arc::new(FaultyStore::new(Arc::clone(&inner) as Arc<dyn Store>, faults)));
        let pool = SlabPool::new(Budget::new(4 << 20), 4 << 20);
        let (mut sink, all) = (receiver.direct(1), pool.free());
        sink.send(open()).unwrap();
        for offset in [0, SLAB_SIZE as u64, SLAB_SIZE as u64] {
            sink.send(block(&pool, offset)).unwrap();
        }
        assert_eq!(pool.free(), all);
        receiver.shared.close(1, None);
        assert!(inner.stat(&path()).is_err());
        assert!(!receiver.stop().is_set());
        receiver.shared.acknowledge();
        let Ok(Message::Ack(told)) = far.receiver.try_recv() else { panic!("nothing was told") };
        assert_eq!((told.failed.len(), told.failed[0].file, told.streams), (1, 1, vec![(1, 4)]));
    }

    #[test]
    fn what_is_being_written_when_the_receiver_stops_is_written_to_its_end() {
        let faults = Faults { delay: Some(Duration::from_millis(200)), ..Faults::default() };
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new()), faults));
        let (receiver, _far) = receiver_at(Arc::clone(&store) as Arc<dyn Store>);
        let pool = SlabPool::new(Budget::new(4 << 20), 4 << 20);
        let (mut sink, all) = (receiver.direct(1), pool.free());
        sink.send(open()).unwrap();
        std::thread::scope(|scope| {
            let sends = scope.spawn(|| (sink.send(block(&pool, 0)), sink.send(block(&pool, SLAB_SIZE as u64))));
            while store.counts().1 == 0 {
                std::thread::yield_now();
            }
            receiver.stop().set(None);
            let (during, after) = sends.join().unwrap();
            assert_eq!(during.unwrap(), 1);
            assert_eq!(after.unwrap_err().kind(), ErrorKind::ConnectionLost);
        });
        assert_eq!((store.counts().1, pool.free()), (1, all));
    }

    #[test]
    fn nothing_is_taken_after_the_receiver_stopped_or_the_stream_was_broken() {
        let ends: [fn(&Receiver, &dyn FrameSink); 2] = [|receiver, _| receiver.stop().set(None), |_, sink| sink.breaker()()];
        for end in ends {
            let (receiver, _store) = receiver();
            let mut sink = receiver.direct(1);
            sink.send(open()).unwrap();
            end(&receiver, sink.as_ref());
            assert_eq!(sink.send(open()).unwrap_err().kind(), ErrorKind::ConnectionLost);
        }
    }

    #[test]
    fn a_receiver_that_ends_before_it_is_ready_is_not_waited_for() {
        let (receiver, _store) = receiver();
        receiver.shared.ready.store(false, Ordering::SeqCst);
        let mut sink = receiver.direct(1);
        std::thread::scope(|scope| {
            let sends = scope.spawn(move || sink.send(open()));
            receiver.stop().set(None);
            assert!(sends.join().unwrap().is_err());
        });
    }
}
