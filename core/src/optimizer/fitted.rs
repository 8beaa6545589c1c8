//! Begins an optimizer with the first decision that fits the work and the path, and looks at what came of it.

use std::time::Duration;

use super::first::{FIRST_WINDOW, Wanted};
use super::guard::within;
use super::memory::{Memory, Verdict};
use super::model::{LOSSY, unfound};
use super::pace::New;
use super::{Beginning, Decision, FirstStreams, Observation, Optimizer, Pace, PerStage, Policy, PolicyName, utility};
use crate::error::Result;
use crate::history::Settled;
use crate::report::{human_bytes, human_count};

/// Where workers make requests, still fewer are not tried while so few seconds of work are left.
const SOON_S: f64 = 60.0;

/// An optimizer whose first decision is fitted to the work, and to where earlier transfers over the path settled. All others are its own,
/// but for the next ones while intervals speak for the memory or against it, and for the fewest where workers make requests and little is left.
pub(crate) struct Fitted {
    inner: Box<dyn Optimizer>,
    first: FirstStreams,
    rtt: Duration,
    /// What earlier transfers tell, until it is forgotten, and the first streams without it.
    memory: Option<Memory>,
    unaided: u16,
    /// The fewest that it goes on with while what is left is soon over.
    least: u16,
    /// Bytes per second of the last intervals.
    lately: f64,
    /// Whether a session has begun: in a further one what is left is not known.
    begun: bool,
    /// Whether it has begun with more streams than usual, and nothing was observed yet.
    hastened: bool,
}

impl Fitted {
    /// `make` makes the optimizer that begins with so many streams, which are its own unless `first` knows of a reason for fewer or more.
    pub(crate) fn new(
        first: FirstStreams,
        rtt: Option<Duration>,
        settled: &[Settled],
        make: impl FnOnce(u16) -> Result<Box<dyn Optimizer>>,
    ) -> Result<Self> {
        let memory = Memory::of(settled, rtt, first.work);
        let rtt = rtt.unwrap_or_default();
        // Without it a crowded start goes on with the usual number too.
        let unaided = first.over(rtt).min(first.usual(rtt));
        let least = first.least(rtt);
        let aided = memory.map(|memory| (first.near(memory.settled, rtt), memory));
        // Where the work asks for fewer streams or more, it is the work that tells.
        let aided = aided.filter(|(near, _)| near.wanted(rtt) == Wanted::Usual);
        let (first, memory) = aided.map_or((first, None), |(near, memory)| (near, Some(memory)));
        Ok(Self { inner: make(first.over(rtt))?, first, rtt, memory, unaided, least, lately: 0.0, begun: false, hastened: false })
    }

    /// Whether the streams have less under way than their first windows: so many have not grown sooner, they only are in each other's way.
    /// Where a rate of the host held them back, that says nothing of their number.
    fn is_crowded(&self, observation: &Observation) -> bool {
        let under_way = utility::arrived(observation) * self.rtt.as_secs_f64();
        !observation.held_back && under_way < FIRST_WINDOW * f64::from(observation.applied.concurrency.network)
    }

    /// The bytes per second that an interval tells of: in the first one those of streams that have found their windows.
    fn rate(&self, memory: &Memory, observation: &Observation) -> f64 {
        let pacing = observation.applied.pacing.map(|rate| rate as f64 / observation.first_window);
        let ramp = |new| Pace::Quick.ramp(self.rtt, new, observation.interval, pacing);
        let waited = ramp(New::None) + ramp(New::First);
        let unfound = if memory.is_new() { unfound(observation, waited) } else { 0.0 };
        utility::arrived(observation) / (1.0 - unfound)
    }

    /// The answer to an interval that tells of the memory: where the streams of earlier transfers move much less than then, as many as
    /// there would have been without them, or what the inner optimizer asks for beyond; and where they move about the same, not far from
    /// them, nor more than it asks for where much is lost. Workers of their own for reading and writing are not its matter. What else it
    /// would try before it has measured much, was tried then.
    fn check(&mut self, memory: Memory, observation: &Observation) -> Result<Decision> {
        let next = self.inner.decide(observation)?;
        if observation.held_back {
            self.memory = Some(memory);
            return Ok(next);
        }
        let PerStage { read, network, write } = next.concurrency;
        if read.max(write) > network {
            return Ok(next);
        }
        let (ran, rate) = (observation.applied.concurrency.network, self.rate(&memory, observation));
        let (near, why) = match memory.judge(ran, rate) {
            Verdict::Wrong(why) if ran > self.unaided => (1..=self.unaided, format!("{why}, forgotten")),
            Verdict::Wrong(why) if ran < self.unaided => (self.unaided..=u16::MAX, format!("{why}, forgotten")),
            Verdict::Right => {
                let near = self.memory.insert(memory.confirmed(ran, rate)).near();
                let least = if observation.loss.is_some_and(|lost| lost > LOSSY) { 1 } else { *near.start() };
                (least..=*near.end(), "near what earlier copies settled at".to_owned())
            }
            _ => return Ok(next),
        };
        let (asked, limit) = (next.concurrency.network, observation.policy.limit);
        let streams = asked.clamp(*near.start(), *near.end()).min(limit.network.max(1));
        if streams == asked {
            return Ok(next);
        }
        let reason = format!("{} ({why}: {streams} instead of {asked} streams)", next.reason);
        Ok(Decision { concurrency: within(PerStage::all(streams), limit), reason, ..next })
    }

    /// No fewer workers than the least, or than ran, while what is left is soon over, unless much is lost or they shall stay behind others.
    fn kept(&mut self, observation: &Observation, next: Decision) -> Decision {
        let (rate, policy) = (utility::arrived(observation), &observation.policy);
        let rate = if rate.is_finite() { rate } else { 0.0 };
        // One slow interval does not make the work long.
        self.lately = if self.lately > 0.0 { f64::midpoint(self.lately, rate) } else { rate };
        let left = observation.bytes_left.map_or(f64::INFINITY, |bytes| bytes as f64);
        let lossy = observation.loss.is_some_and(|lost| lost > LOSSY);
        if left >= SOON_S * self.lately || lossy || policy.name == PolicyName::Low {
            return next;
        }
        // Half of what a service admits is enough, too.
        let least = self.least.min(policy.limit.network.div_ceil(2));
        let concurrency = no_fewer(least, next.concurrency, observation.applied.concurrency);
        if concurrency == next.concurrency {
            return next;
        }
        let PerStage { read, network, write } = concurrency;
        let stay = if read == network && write == network {
            human_count(u64::from(network), "stream")
        } else {
            format!("{read} readers, {network} streams, {write} writers")
        };
        Decision { concurrency, reason: format!("{} (the work is soon over: {stay} instead)", next.reason), ..next }
    }

    /// The answer to an observation, before what holds while the work is soon over.
    fn answer(&mut self, observation: &Observation) -> Result<Decision> {
        if let Some(memory) = self.memory.take() {
            return self.check(memory, observation);
        }
        let (applied, limit) = (&observation.applied, observation.policy.limit);
        let (ran, usual) = (applied.concurrency.network, self.first.usual(self.rtt).min(limit.network).max(1));
        if !std::mem::take(&mut self.hastened) || ran <= usual || !self.is_crowded(observation) {
            return self.inner.decide(observation);
        }
        let concurrency = within(PerStage::all(usual), limit);
        let reason = format!("{ran} streams have less under way than their first windows: going on with {usual}");
        Ok(Decision { concurrency, reason, ..applied.clone() })
    }

    fn reason(&self, streams: u16) -> String {
        let begin = format!("start: {}", human_count(u64::from(streams), "stream"));
        let Some(work) = self.first.work else { return begin };
        let all = format!("{begin} for {} of {}", human_count(work.items, "item"), human_bytes(work.bytes));
        if self.hastened { format!("{all}: many grow sooner over {} ms", self.rtt.as_millis()) } else { all }
    }
}

impl Optimizer for Fitted {
    fn name(&self) -> &str {
        self.inner.name()
    }

    /// Those of another congestion control have lost what they lose at the beginning by the time that it is seen.
    fn restrain(&mut self, beginning: &Beginning) -> Option<u64> {
        if self.first.are_by_bbr() { self.inner.restrain(beginning) } else { None }
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        let own = self.inner.start(policy);
        let wanted = self.first.wanted(self.rtt);
        let begun = std::mem::replace(&mut self.begun, true);
        if begun {
            self.memory = None;
        }
        if let Some(memory) = &self.memory {
            return Decision { reason: memory.reason(own.concurrency.network), ..own };
        }
        let streams = match wanted {
            Wanted::Usual => return own,
            _ if begun => return own,
            Wanted::Fewer(streams) if streams > own.concurrency.network => return own,
            Wanted::Fewer(streams) | Wanted::More(streams) => streams.min(policy.limit.network).max(1),
        };
        // A limit may leave no more than usual.
        self.hastened = streams > self.first.usual(self.rtt);
        let concurrency = within(PerStage::all(streams), policy.limit);
        Decision { concurrency, reason: self.reason(streams), ..own }
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let next = self.answer(observation)?;
        Ok(self.kept(observation, next))
    }
}

/// So many workers as were asked for, but at least `least`, unless fewer ran: streams that also read and write, or else the larger of the
/// stages that have workers of their own, which is the one that makes requests. Such a stage has another number than the streams.
fn no_fewer(least: u16, asked: PerStage<u16>, ran: PerStage<u16>) -> PerStage<u16> {
    let PerStage { read, network, write } = asked;
    if read == network && write == network {
        return PerStage::all(network.max(least.min(ran.network)));
    }
    let own = |workers: u16, ran: u16| {
        let kept = workers.max(least.min(ran));
        if kept == network { kept + 1 } else { kept }
    };
    let reads = write == network || (read != network && read > write);
    if reads { PerStage { read: own(read, ran.read), ..asked } } else { PerStage { write: own(write, ran.write), ..asked } }
}

#[cfg(test)]
mod tests;
