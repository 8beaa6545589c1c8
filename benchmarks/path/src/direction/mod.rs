//! One direction of a path: what happens to each packet, and when. No sockets, no clock: time is an argument.

mod bottleneck;
mod line;
mod shaper;
mod statistics;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::flow::FlowKey;
use crate::options::{Cliff, PathOptions};
use crate::schedule::Change;
use crate::units::Rate;

use bottleneck::Bottleneck;
use line::{Line, Random};
use shaper::Shapers;
use statistics::Counters;
pub use statistics::{Drops, Second};

/// A packet: where its bytes are kept, and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Place of the bytes, for whoever keeps them.
    pub slot: u32,
    /// Size of the IP packet in bytes.
    pub bytes: u32,
}

/// What became of packets; whoever keeps their bytes empties it.
#[derive(Debug, Default)]
pub struct Batch {
    /// Packets that have arrived at the other end, in order.
    pub delivered: Vec<Packet>,
    /// Packets that were lost on the way.
    pub dropped: Vec<Packet>,
}

/// One direction of a path.
///
/// Each flow has a shaper of its own; what passes it queues for the bottleneck; what leaves the bottleneck is lost at random or
/// arrives after the delay. Packets of a flow never overtake one another. Times given to it must not go back.
#[derive(Debug)]
pub struct Direction {
    limits: Limits,
    shapers: Shapers,
    bottleneck: Bottleneck,
    line: Line,
    counters: Counters,
    collapsed_until: Duration,
}

/// The parameters that hold at present.
#[derive(Clone, Debug)]
struct Limits {
    bottleneck: Limit,
    stream: Limit,
    /// What flows of others take, in bytes per second.
    background: f64,
    delay: Duration,
    loss: f64,
    cliff: Option<Cliff>,
}

/// What a queue bears: how fast it is emptied, and how many bytes fit.
#[derive(Clone, Copy, Debug)]
struct Limit {
    rate: Rate,
    bytes: u64,
}

/// Share of the bottleneck that flows of others leave to the rest, however much they send.
const LEFT_BY_BACKGROUND: f64 = 0.05;

impl Direction {
    /// An empty direction; `seed` decides the random losses. The options must have been validated.
    pub fn new(options: &PathOptions, seed: u64) -> Self {
        Self {
            limits: Limits {
                bottleneck: Limit { rate: options.rate, bytes: options.queue.unwrap_or(u64::MAX) },
                stream: Limit { rate: options.stream_rate, bytes: options.stream_queue.unwrap_or(u64::MAX) },
                background: 0.0,
                delay: options.rtt / 2,
                loss: options.loss,
                cliff: options.cliff,
            },
            shapers: Shapers::default(),
            bottleneck: Bottleneck::default(),
            line: Line::new(Random::new(seed)),
            counters: Counters::default(),
            collapsed_until: Duration::ZERO,
        }
    }

    /// Takes a packet that a host sends at `now`. Call [`advance`](Self::advance) to `now` first.
    pub fn offer(&mut self, now: Duration, flow: FlowKey, packet: Packet, batch: &mut Batch) {
        self.counters.enter(packet);
        if !self.shapers.offer(now, flow, packet, self.limits.stream) {
            self.counters.drops.stream_queue += 1;
            batch.dropped.push(packet);
        }
    }

    /// Lets everything happen that is due by `now`, in the order of its time.
    pub fn advance(&mut self, now: Duration, batch: &mut Batch) {
        loop {
            match (self.bottleneck.next(), self.shapers.next()) {
                (Some(at), leaves) if at <= now && leaves.is_none_or(|leaves| at <= leaves) => self.leave_bottleneck(at, batch),
                (_, Some(at)) if at <= now => self.leave_shaper(at, batch),
                _ => break,
            }
        }
        while let Some((due, packet)) = self.line.arrived(now) {
            self.counters.leave(packet, now.saturating_sub(due));
            batch.delivered.push(packet);
        }
    }

    /// When something happens next; `None` while the direction is empty.
    pub fn next(&self) -> Option<Duration> {
        [self.shapers.next(), self.bottleneck.next(), self.line.next()].into_iter().flatten().min()
    }

    /// Changes parameters from now on. What is being sent already is not sent again at the new rate.
    pub fn change(&mut self, change: &Change) {
        let limits = &mut self.limits;
        limits.bottleneck.rate = change.rate.unwrap_or(limits.bottleneck.rate);
        limits.delay = change.rtt.map_or(limits.delay, |rtt| rtt / 2);
        limits.stream.rate = change.stream_rate.unwrap_or(limits.stream.rate);
        limits.loss = change.loss.unwrap_or(limits.loss);
        limits.bottleneck.bytes = change.queue.unwrap_or(limits.bottleneck.bytes);
        limits.background = change.background.map_or(limits.background, |background| background.total());
    }

    /// Ends a second: says what happened in it, forgets idle flows, and lets the bottleneck collapse where there were too many.
    pub fn second(&mut self, now: Duration) -> Second {
        let active_flows = self.shapers.second(now);
        if let Some(cliff) = self.limits.cliff
            && active_flows > cliff.flows
            && now >= self.collapsed_until
        {
            self.collapsed_until = now + cliff.lasts;
        }
        let queue_bytes = self.shapers.bytes() + self.bottleneck.bytes();
        self.counters.second(active_flows, queue_bytes, self.rate(now))
    }

    /// A packet is let through by its shaper.
    fn leave_shaper(&mut self, at: Duration, batch: &mut Batch) {
        let packet = self.shapers.leave(at, self.limits.stream.rate);
        let limit = Limit { rate: self.rate(at), ..self.limits.bottleneck };
        if !self.bottleneck.offer(at, packet, limit) {
            self.counters.drops.bottleneck_queue += 1;
            batch.dropped.push(packet);
        }
    }

    /// A packet is through the bottleneck.
    fn leave_bottleneck(&mut self, at: Duration, batch: &mut Batch) {
        let rate = self.rate(at);
        let packet = self.bottleneck.leave(at, rate);
        if !self.line.send(at + self.limits.delay, packet, self.limits.loss) {
            self.counters.drops.loss += 1;
            batch.dropped.push(packet);
        }
    }

    /// The rate of the bottleneck for those who use it.
    fn rate(&self, at: Duration) -> Rate {
        let cliff = self.limits.cliff.filter(|_| at < self.collapsed_until);
        self.limits.bottleneck.rate.map(|whole| {
            let left = whole - self.limits.background.min(whole * (1.0 - LEFT_BY_BACKGROUND));
            cliff.map_or(left, |cliff| left * cliff.share)
        })
    }
}
