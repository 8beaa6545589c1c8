//! What a direction counts, and what it says once a second.

use std::time::Duration;

use serde::Serialize;

use super::Packet;
use crate::units::Rate;

/// Packets that were dropped, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drops {
    /// The queue of their flow was full.
    pub stream_queue: u64,
    /// The queue of the bottleneck was full.
    pub bottleneck_queue: u64,
    /// They were lost at random.
    pub loss: u64,
}

/// What happened in one direction since the second before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Second {
    /// Bits of IP packets that came in.
    pub bits_in: u64,
    /// Bits of IP packets that arrived at the other end.
    pub bits_out: u64,
    /// Packets that came in.
    pub packets_in: u64,
    /// Packets that arrived at the other end.
    pub packets_out: u64,
    /// Packets that were dropped.
    pub drops: Drops,
    /// Flows that carried data.
    pub active_flows: u32,
    /// Bytes in all queues at the end of the second.
    pub queue_bytes: u64,
    /// Rate of the bottleneck at the end of the second, written as bits per second.
    pub rate_bps: Rate,
    /// How much later than due a packet was handed on at worst, in milliseconds: above 1, the machine is too slow for the path.
    pub late_ms: f64,
}

/// Counts since the last [`Second`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) drops: Drops,
    bytes_in: u64,
    bytes_out: u64,
    packets_in: u64,
    packets_out: u64,
    late: Duration,
}

impl Counters {
    /// A packet came in.
    pub(super) fn enter(&mut self, packet: Packet) {
        self.packets_in += 1;
        self.bytes_in += u64::from(packet.bytes);
    }

    /// A packet arrived at the other end, so much later than it was due.
    pub(super) fn leave(&mut self, packet: Packet, late: Duration) {
        self.packets_out += 1;
        self.bytes_out += u64::from(packet.bytes);
        self.late = self.late.max(late);
    }

    /// Says what was counted and starts anew.
    pub(super) fn second(&mut self, active_flows: u32, queue_bytes: u64, rate_bps: Rate) -> Second {
        let counted = std::mem::take(self);
        Second {
            bits_in: counted.bytes_in * 8,
            bits_out: counted.bytes_out * 8,
            packets_in: counted.packets_in,
            packets_out: counted.packets_out,
            drops: counted.drops,
            active_flows,
            queue_bytes,
            rate_bps,
            late_ms: counted.late.as_secs_f64() * 1e3,
        }
    }
}
