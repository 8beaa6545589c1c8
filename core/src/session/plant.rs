//! What the controller tunes of a session.

use std::sync::atomic::Ordering;

use super::Caller;
use crate::broker::Member;
use crate::control::Plant;
use crate::error::Result;
use crate::event::Totals;
use crate::metrics::{Processors, Sample};
use crate::optimizer::Decision;
use crate::pipeline::half::Half;
use crate::pipeline::stop::Stop;
use crate::protocol::message::{Message, Meters, Tune};

/// Meters of the peer after which a decision has taken effect there, whatever they show: a server may allow fewer workers.
const PATIENCE: u64 = 5;

/// What the controller tunes: the halves here, and through them the one at the peer.
pub(super) struct CallerPlant<'a> {
    caller: &'a Caller,
    cancel: &'a Stop,
    /// The workers that the peer's stage was asked to have, and how often its meters had come by then.
    asked: Option<(u16, u64)>,
    /// What limits this transfer for the sake of others of its host.
    member: &'a Member,
}

impl<'a> CallerPlant<'a> {
    pub(super) fn new(caller: &'a Caller, cancel: &'a Stop, member: &'a Member) -> Self {
        Self { caller, cancel, asked: None, member }
    }

    /// Keeps to the memory of this transfer: both halves alike, where both are in this process and each has a buffer.
    fn hold(&self) {
        let caller = self.caller;
        let buffers = if caller.direct { 1 } else { caller.halves.len() };
        if let Some(bytes) = self.member.memory() {
            for (half, _) in &caller.halves[..buffers] {
                half.hold(bytes / buffers as u64);
            }
        }
    }

    /// Whether the peer's meters show the workers that it was asked for, or so much later that it will not have them: meters from before
    /// would count the workers of an earlier decision in an interval of this one.
    fn peer_settled(&self) -> bool {
        let caller = self.caller;
        let (Some((workers, heard)), Some(_)) = (self.asked, &caller.remote) else { return true };
        let meters = caller.meters.lock();
        let stage = if matches!(caller.half(), Half::Sender(_)) { meters.write } else { meters.read };
        stage.workers == workers || caller.heard.load(Ordering::Acquire) >= heard + PATIENCE
    }
}

impl Plant for CallerPlant<'_> {
    fn sample(&mut self) -> Result<Sample> {
        let caller = self.caller;
        let remote = caller.meters.lock().clone();
        let mut of_sender = remote.clone();
        let mut of_receiver = remote;
        let (mut waiting, mut work_unit) = (0, None);
        for (half, _) in &caller.halves {
            match half {
                Half::Sender(half) => (of_sender, work_unit) = (half.meters(), half.work_unit()),
                Half::Receiver(half) => (of_receiver, waiting) = (half.meters(), half.waiting()),
            }
        }
        if caller.direct {
            part(&mut of_sender, &mut of_receiver, waiting);
        }
        Ok(Sample { work_unit, processors: Processors::now(), ..Sample::from_halves(&of_sender, &of_receiver) })
    }

    fn apply(&mut self, decision: &Decision) -> Result<()> {
        let tune = Tune {
            read: Some(decision.concurrency.read),
            network: Some(decision.concurrency.network),
            write: Some(decision.concurrency.write),
            parallelism: Some(decision.parallelism),
            // Within one process there are no connections to be made anew, and their numbers would run out.
            pipelining: Some(if self.caller.remote.is_none() { decision.pipelining.max(1) } else { decision.pipelining }),
            limit_rate: self.member.rate(),
            shares: Some(decision.shares.iter().map(|share| (share.exponent, share.streams, share.parallelism)).collect()),
            pacing: Some(decision.pacing.unwrap_or(0)),
        };
        self.hold();
        for (half, _) in &self.caller.halves {
            half.tune(&tune);
        }
        if let (true, Half::Sender(half)) = (self.caller.ahead, self.caller.half()) {
            half.begin_ahead();
        }
        let there = if matches!(self.caller.half(), Half::Sender(_)) { tune.write } else { tune.read };
        self.asked = there.map(|workers| (workers.max(1), self.caller.heard.load(Ordering::Acquire)));
        self.caller.remote.as_ref().map_or(Ok(()), |(_, control)| control.send(&Message::Tune(tune)))
    }

    fn finished(&self) -> bool {
        self.caller.heed(self.cancel);
        self.caller.ended()
    }

    fn settled(&self) -> bool {
        self.caller.half().streams().is_settled() && self.peer_settled()
    }

    fn totals(&self) -> Totals {
        self.caller.account.totals()
    }
}

/// Counts as the receiver's what waits for its writers in the only buffer of a direct session.
fn part(sender: &mut Meters, receiver: &mut Meters, waiting: u64) {
    let waiting = waiting.min(sender.buffer_capacity - sender.buffer_free.min(sender.buffer_capacity));
    sender.buffer_free += waiting;
    (receiver.buffer_capacity, receiver.buffer_free) = (sender.buffer_capacity, sender.buffer_capacity - waiting);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_the_writers_of_a_direct_session_is_in_the_receivers_buffer() {
        for (free, waiting, sender_free, receiver_free) in [(20, 70, 90, 30), (100, 0, 100, 100), (60, 70, 100, 60)] {
            let mut sender = Meters { buffer_free: free, buffer_capacity: 100, ..Meters::default() };
            let mut receiver = Meters { buffer_free: 7, buffer_capacity: 7, ..Meters::default() };
            part(&mut sender, &mut receiver, waiting);
            assert_eq!((sender.buffer_free, sender.buffer_capacity), (sender_free, 100));
            assert_eq!((receiver.buffer_free, receiver.buffer_capacity), (receiver_free, 100));
        }
    }
}
