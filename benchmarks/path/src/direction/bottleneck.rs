//! The bottleneck: one drop-tail queue that all flows share.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Limit, Packet};
use crate::units::Rate;

/// The queue in front of the slowest link, with the packet that it is sending at its head.
#[derive(Debug, Default)]
pub(super) struct Bottleneck {
    queue: VecDeque<Packet>,
    bytes: u64,
    /// When the head is through; meaningless while the queue is empty.
    through: Duration,
}

impl Bottleneck {
    /// Puts a packet at the end of the queue; false where it does not fit. An empty queue takes any packet.
    pub(super) fn offer(&mut self, at: Duration, packet: Packet, limit: Limit) -> bool {
        let size = u64::from(packet.bytes);
        if self.queue.is_empty() {
            self.through = at + limit.rate.time_for(packet.bytes);
        } else if self.bytes + size > limit.bytes {
            return false;
        }
        self.queue.push_back(packet);
        self.bytes += size;
        true
    }

    /// When the head is through.
    pub(super) fn next(&self) -> Option<Duration> {
        if self.queue.is_empty() { None } else { Some(self.through) }
    }

    /// Takes the head, which is through at `at`; the packet behind it starts then.
    pub(super) fn leave(&mut self, at: Duration, rate: Rate) -> Packet {
        let packet = self.queue.pop_front().expect("`next` named a packet");
        self.bytes -= u64::from(packet.bytes);
        if let Some(following) = self.queue.front() {
            self.through = at + rate.time_for(following.bytes);
        }
        packet
    }

    /// Bytes in the queue, those of the head included.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
