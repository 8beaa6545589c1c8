//! The shapers: each flow is let through at a rate of its own, from a drop-tail queue of its own.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use super::{Limit, Packet};
use crate::flow::FlowKey;
use crate::units::Rate;

/// A flow is forgotten once it has been idle for so long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// Packets above this size carry data; acknowledgements are smaller.
const DATA_ABOVE: u32 = 256;

/// A flow is active in a second in which it carried that much in packets with data.
const ACTIVE_BYTES: u64 = 16 * 1024;

/// The flows of one direction.
#[derive(Debug, Default)]
pub(super) struct Shapers {
    places: HashMap<FlowKey, u32>,
    flows: Vec<Flow>,
    free: Vec<u32>,
    /// When the first packet of each flow that has one leaves.
    leaving: BinaryHeap<Reverse<(Duration, u32)>>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Flow {
    queue: VecDeque<Packet>,
    bytes: u64,
    data_bytes: u64,
    seen: Duration,
}

impl Shapers {
    /// Puts a packet into the queue of its flow; false where it does not fit. An empty queue takes any packet.
    pub(super) fn offer(&mut self, now: Duration, key: FlowKey, packet: Packet, limit: Limit) -> bool {
        let place = self.place(key);
        let flow = &mut self.flows[place as usize];
        let size = u64::from(packet.bytes);
        flow.seen = now;
        flow.data_bytes += if packet.bytes > DATA_ABOVE { size } else { 0 };
        if flow.queue.is_empty() {
            self.leaving.push(Reverse((now + limit.rate.time_for(packet.bytes), place)));
        } else if flow.bytes + size > limit.bytes {
            return false;
        }
        flow.queue.push_back(packet);
        flow.bytes += size;
        self.bytes += size;
        true
    }

    /// When the next packet leaves.
    pub(super) fn next(&self) -> Option<Duration> {
        self.leaving.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the packet that leaves at `at`, the time that [`next`](Self::next) said; the one behind it starts then.
    pub(super) fn leave(&mut self, at: Duration, rate: Rate) -> Packet {
        let Reverse((_, place)) = self.leaving.pop().expect("`next` named a packet");
        let flow = &mut self.flows[place as usize];
        let packet = flow.queue.pop_front().expect("a flow is among the leaving ones only with a packet");
        flow.bytes -= u64::from(packet.bytes);
        self.bytes -= u64::from(packet.bytes);
        if let Some(following) = flow.queue.front() {
            self.leaving.push(Reverse((at + rate.time_for(following.bytes), place)));
        }
        packet
    }

    /// Bytes in all queues.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends a second: returns the number of flows that were active in it, and forgets the idle ones.
    pub(super) fn second(&mut self, now: Duration) -> u32 {
        let mut active = 0;
        let Self { places, flows, free, .. } = self;
        places.retain(|_, place| {
            let flow = &mut flows[*place as usize];
            active += u32::from(std::mem::take(&mut flow.data_bytes) >= ACTIVE_BYTES);
            let keep = !flow.queue.is_empty() || now.saturating_sub(flow.seen) < FORGOTTEN_AFTER;
            if !keep {
                free.push(*place);
            }
            keep
        });
        active
    }

    /// The place of a flow; a new one takes that of a forgotten one, with its memory.
    fn place(&mut self, key: FlowKey) -> u32 {
        let Self { places, flows, free, .. } = self;
        *places.entry(key).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                flows.push(Flow::default());
                u32::try_from(flows.len() - 1).expect("ports and addresses of two hosts make fewer flows")
            })
        })
    }
}
