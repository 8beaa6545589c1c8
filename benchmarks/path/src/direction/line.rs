//! The line behind the bottleneck: random loss, then the delay of propagation.

use std::collections::VecDeque;
use std::time::Duration;

use super::Packet;

/// Packets on their way, in the order in which they arrive.
#[derive(Debug)]
pub(super) struct Line {
    packets: VecDeque<(Duration, Packet)>,
    random: Random,
}

impl Line {
    /// An empty line.
    pub(super) fn new(random: Random) -> Self {
        Self { packets: VecDeque::new(), random }
    }

    /// Sends a packet that is to arrive at `due`; false if it is lost. On a line that became shorter it arrives with the one before.
    pub(super) fn send(&mut self, due: Duration, packet: Packet, loss: f64) -> bool {
        if loss > 0.0 && self.random.share() < loss {
            return false;
        }
        let last = self.packets.back().map_or(Duration::ZERO, |(last, _)| *last);
        self.packets.push_back((due.max(last), packet));
        true
    }

    /// When the next packet arrives.
    pub(super) fn next(&self) -> Option<Duration> {
        self.packets.front().map(|(due, _)| *due)
    }

    /// Takes the next packet that has arrived by `now`, with the time when it did.
    pub(super) fn arrived(&mut self, now: Duration) -> Option<(Duration, Packet)> {
        if self.next().is_some_and(|due| due <= now) { self.packets.pop_front() } else { None }
    }
}

/// Random numbers from a seed: `SplitMix64` of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Numbers that depend on nothing but the seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to below 1.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // The upper 53 bits are what fits a double exactly.
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}
