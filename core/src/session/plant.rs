//! What the controller tunes of a session.

use std::sync::atomic::Ordering;

use super::Caller;
use crate::broker::Member;
use crate::control::Plant;
use crate::error::Result;
use crate::event::Totals;
use crate::metrics::sampler::Sample;
use crate::optimizer::Decision;
use crate::pipeline::half::Half;
use crate::pipeline::stop::Stop;
use crate::protocol::message::{Message, Tune};

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

    /// Keeps to the memory of this transfer: both halves alike, where both are in this process.
    fn hold(&self) {
        let halves = &self.caller.halves;
        if let Some(bytes) = self.member.memory() {
            for (half, _) in halves {
                half.hold(bytes / halves.len() as u64);
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
        for (half, _) in &caller.halves {
            match half {
                Half::Sender(half) => of_sender = half.meters(),
                Half::Receiver(half) => of_receiver = half.meters(),
            }
        }
        Ok(Sample::from_halves(&of_sender, &of_receiver))
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
        let streams = self.caller.half().streams();
        streams.count() == streams.target() && self.peer_settled()
    }

    fn totals(&self) -> Totals {
        self.caller.account.totals()
    }
}
