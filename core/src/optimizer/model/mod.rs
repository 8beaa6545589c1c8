//! The model-based controller: what is believed of the path decides, and each measurement corrects it. It needs no training.
//!
//! A thousand hypotheses say how throughput grows with streams: how many fill the path, how sharp the knee is, what too many cost. Bayes'
//! rule weighs them by what was measured, and the streams with the highest expected utility [Falcon eq. 4] run next; of those within 2 % of
//! it the fewest. The scale of a curve follows from the measurements, so that 1 Mbit/s and 400 Gbit/s are one problem. This is the design
//! of the Bayesian filters that compared well with trained agents in our feasibility study, with these rules besides:
//!
//! - A first surprise is measured again, a second is a change; a state of the path that returns is known again (`filter`).
//! - While all is quiet, a probe looks upwards now and then: capacity that grows in silence shows itself to nobody below it (`probe`).
//! - Streams that carry equally much each have a rate of their own, whatever they lose; those that share a full path differ (`stage`).
//! - Streams that send ever more until a queue overflows do not fill a path without a queue, and fill one whose queue they share (`fit`).
//! - Streams that lose much are sent only as fast as they get through (`pacing`).
//! - Streams that would only take from others' share are not worth having (`curve`).
//! - Streams also read and write, unless storage limits; then each stage has its own filter and its own workers (`apart`).

use std::time::Duration;

use super::guard::within;
use super::pace::New;
use super::setting::whole;
use super::{Beginning, Decision, Observation, Optimizer, Pace, PerStage, Policy, Setup, pace, utility};
use crate::error::Result;
use crate::report::{human_count, human_rate};

mod apart;
mod choose;
mod curve;
mod filter;
mod fit;
mod joining;
mod losses;
mod pacing;
mod probe;
mod seen;
mod stage;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use apart::{Apart, limiting};
use choose::Price;
use fit::Bound;
use pacing::{Found, Pacing, Sent};
use seen::{Counted, Paced, Seen};
pub(super) use stage::LOSSY;
use stage::Stage;

/// The most of an interval that new streams are taken to lack.
const MOST_UNFOUND: f64 = 0.5;

/// The same from which on they are slow to find their rate.
const SLOW: f64 = 0.45;

/// How many times the shortest round trip time, and how much more, a queue makes of it.
const QUEUED: f64 = 1.2;
const JITTER: Duration = Duration::from_millis(2);

/// How many times the shortest round trip time, if that is so long at least, is no sign of a queue.
const IDLE_QUEUE: f64 = 1.08;
const TELLING_TRIP: Duration = Duration::from_millis(4);

/// The fewest streams that tell whether all carry equally much, and up to which spread they do: those that share a queue differ by far more.
const EVEN: (u16, f64) = (3, 0.015);

/// The spread from which on streams share something.
const UNEVEN: f64 = 0.05;

/// Intervals in a row in which storage has to limit before it gets workers of its own.
const STRAINED: u32 = 2;

/// Intervals, of a second or more, before that is tried again where it was in vain; each further time doubles them.
const WAIT: f64 = 50.0;

/// Seconds of work that are no longer worth fewer streams: those that stay take the place of the others within seconds at the earliest.
const ENDING_S: f64 = 4.0;

/// Decides by what it believes of the path.
pub struct Model {
    first: u16,
    network: Stage,
    apart: Option<Apart>,
    pacing: Pacing,
    /// Intervals in a row in which storage limited.
    strained: u32,
    /// Intervals, of a second or more, until the stages may be parted, and how many there will be after the next attempt in vain.
    wait: f64,
    again: f64,
    /// The utility of the last intervals.
    lately: f64,
    last: PerStage<u16>,
    /// Intervals since one that lost something: what arrives next may fill its gaps.
    lossless: u32,
    /// The shortest round trip time, by which the control loop goes.
    trip: Option<Duration>,
    /// The same, also from before the path changed: since then there may always have been a queue.
    shortest: Option<Duration>,
    /// Whether there has been a queue: some paths never let one be seen.
    has_queued: bool,
    /// Whether a session has begun.
    begun: bool,
}

impl Model {
    /// Begins with the streams of the setup, and knows the round trip time.
    pub fn new(setup: &Setup<'_>) -> Self {
        Self {
            first: setup.streams.max(1),
            network: Stage::new("streams"),
            apart: None,
            pacing: Pacing::default(),
            strained: 0,
            wait: 0.0,
            again: WAIT,
            lately: 0.0,
            last: PerStage::all(1),
            lossless: u32::MAX,
            trip: setup.rtt,
            shortest: setup.rtt,
            has_queued: false,
            begun: false,
        }
    }

    fn answer(&mut self, concurrency: PerStage<u16>, policy: &Policy, reason: String) -> Decision {
        self.last = within(concurrency, policy.limit);
        let pacing = self.pacing.rate();
        let reason = match pacing {
            Some(rate) => format!("{reason}, each paced at {}", human_rate(rate as f64)),
            None => reason,
        };
        Decision { concurrency: self.last, pacing, ..Decision::uniform(1, reason) }
    }

    /// One number of workers for all stages: streams that also read and write.
    fn together(&mut self, observation: &Observation) -> Decision {
        let policy = &observation.policy;
        let received = self.received(observation);
        let rate = carried(observation, received);
        self.trip = observation.rtt.into_iter().chain(self.trip).min();
        self.shortest = self.trip.into_iter().chain(self.shortest).min();
        self.has_queued |= self.is_queued(observation);
        let time = pace::weight(observation.interval);
        let ran = observation.applied.concurrency.network;
        let (loss, loss_before) = (observation.loss, observation.loss_before);
        let (delivered, pacing) = (observation.delivery_rate, observation.applied.pacing);
        let queued = self.is_queued(observation);
        let trip = observation.rtt.unwrap_or_default();
        let lack = unfound(observation, self.waited(observation));
        // Those that wait for processors are equal too.
        let (even, uneven) = (is_even(observation) && !observation.cpu_bound, is_uneven(observation));
        let sent = Sent { streams: ran, rate, loss, loss_before, delivered, pacing, time, queued, even, uneven, trip, lack };
        let found = self.pacing.observe(&sent);
        match found {
            Found::Usual | Found::OwnRate | Found::Full => {}
            Found::Calm => self.network.lose_no_more(),
            Found::Room | Found::Missed | Found::Nothing => return self.stay(found, observation),
        }
        let counted = if received.is_some() { Counted::BeyondGaps } else { Counted::InOrder };
        let seen = Seen { rate, counted, ..self.seen(found, observation) };
        self.network.observe(&seen);
        if self.network.has_changed() {
            self.trip = observation.rtt.or(self.trip);
        }
        if self.network.has_grown() {
            self.pacing.has_grown();
        }
        let now = utility::of(observation);
        self.lately = if self.lately == 0.0 { now } else { f64::midpoint(self.lately, now) };
        self.wait -= time;
        let limit = limiting(observation).filter(|_| self.wait <= 0.0);
        self.strained = limit.map_or(0, |_| self.strained + 1);
        if let Some(limit) = limit.filter(|_| self.strained >= STRAINED) {
            self.apart = Some(Apart::new(&mut self.network, limit, observation, self.lately));
            // Streams that do not read and write carry more each.
            self.pacing = Pacing::default();
            return self.apart(observation);
        }
        let next = self.network.decide(&Price::of(policy, policy.limit.network), None);
        if (next.workers < ran || self.network.is_costly_look(next.workers)) && is_ending(observation) {
            let reason = format!("{} ({ran} to the end, which is near)", next.reason);
            return self.answer(PerStage::all(ran), policy, reason);
        }
        match self.pacing.decide(next.workers, self.network.is_probing()) {
            None => {
                if self.network.is_costly_look(next.workers) {
                    let slow = unfound(observation, self.waited(observation)) >= SLOW;
                    self.pacing.look(next.workers, slow);
                }
                self.answer(PerStage::all(next.workers), policy, next.reason)
            }
            Some(trial) => self.answer(PerStage::all(ran), policy, format!("{} ({ran} until then: {trial})", next.reason)),
        }
    }

    /// Bytes per second that got through, where what arrives in order is more or less than that because some was lost, and the system tells.
    fn received(&mut self, observation: &Observation) -> Option<f64> {
        let lost = |loss: Option<f64>| loss.is_some_and(|loss| loss > 0.0);
        self.lossless = if lost(observation.loss) { 0 } else { self.lossless.saturating_add(1) };
        let may_be_late = self.lossless <= 1 || lost(observation.loss_before);
        // Where nothing got through, what arrives was held up before.
        observation.received.filter(|rate| may_be_late && *rate > 0.0)
    }

    /// Whether the round trip time is so much longer than it was at least that a queue is why.
    fn is_queued(&self, observation: &Observation) -> bool {
        let (least, now) = (self.trip.unwrap_or_default(), observation.rtt.unwrap_or_default());
        now > least.mul_f64(QUEUED) + JITTER
    }

    /// Whether streams that would fill a queue if nothing else held them back fill the path: not if they have none before them, unless nothing
    /// is lost or there has never been a queue, when something else may be why; and if they share one, as those do that differ.
    fn fills(&self, observation: &Observation) -> Option<bool> {
        let (least, now) = (self.shortest.unwrap_or_default(), observation.rtt.unwrap_or_default());
        let idle = self.has_queued && least >= TELLING_TRIP && now <= least.mul_f64(IDLE_QUEUE) && !now.is_zero();
        let lost = self.lossless <= 1 && observation.loss.is_some_and(|loss| loss <= LOSSY);
        let held_back = !observation.fills_queues || self.pacing.holds_back() || observation.cpu_bound;
        match limiting(observation) {
            None if held_back => None,
            None if idle && lost => Some(false),
            None if self.is_queued(observation) && is_uneven(observation) => Some(true),
            _ => None,
        }
    }

    /// What an interval says of the streams, where pacing has found this.
    fn seen(&self, found: Found, observation: &Observation) -> Seen {
        let paced = if found == Found::Full { Paced::Look } else { self.pacing.told() };
        let (workers, loss) = (running(observation), observation.loss);
        let capped = found == Found::Full && loss.is_some_and(|loss| loss > LOSSY);
        Seen {
            ran: workers,
            working: workers,
            rate: carried(observation, None),
            counted: Counted::InOrder,
            // Streams that were sent too fast lost it, however many they are, and some of it still after they were paced.
            loss: loss.filter(|_| !matches!(found, Found::OwnRate | Found::Calm)),
            loss_before: observation.loss_before,
            // What they lost may be what was sent beyond that.
            bound: if capped { Bound::AtLeast } else { Bound::Exact },
            // In a look each is sent less than it would be, and slow ones have had another interval.
            lack: if found == Found::Full { 0.0 } else { unfound(observation, self.waited(observation)) },
            time: pace::weight(observation.interval),
            queued: self.is_queued(observation),
            fills: self.fills(observation),
            cpu_bound: observation.cpu_bound,
            paced,
            half: self.pacing.enough(),
            room: self.pacing.room(),
        }
    }

    /// As many streams after an interval that tells nothing of their number.
    fn stay(&mut self, found: Found, observation: &Observation) -> Decision {
        let ran = observation.applied.concurrency.network;
        let streams = human_count(u64::from(ran), "stream");
        self.network.only_lost(observation.loss);
        let reason = match found {
            Found::Room => format!("there is room for {streams}"),
            _ => format!("staying at {streams}"),
        };
        match found {
            Found::Room => self.network.found_room(),
            Found::Missed => self.network.wait_to_look(),
            _ => {}
        }
        self.answer(PerStage::all(ran), &observation.policy, reason)
    }

    /// How long the control loop has waited for new streams to find their rate before an interval.
    fn waited(&self, observation: &Observation) -> Duration {
        let trip = self.trip.unwrap_or_default();
        let pacing = observation.applied.pacing.map(|rate| rate as f64 / observation.first_window);
        let ramp = |new| Pace::Quick.ramp(trip, new, observation.interval, pacing);
        if self.network.is_new() { ramp(New::None) + ramp(New::First) } else { ramp(New::Some) }
    }

    /// Workers for each stage.
    fn apart(&mut self, observation: &Observation) -> Decision {
        let policy = &observation.policy;
        let Some(apart) = &mut self.apart else { return self.answer(self.last, policy, "staying".to_owned()) };
        let (concurrency, reason) = apart.decide(&mut self.network, policy);
        if apart.is_over() {
            (self.apart, self.strained, self.lately) = (None, 0, 0.0);
            // What streams moved that neither read nor wrote says little of streams that do.
            (self.wait, self.network) = (WAIT, self.network.forgotten("streams"));
        }
        self.answer(concurrency, policy, reason)
    }

    /// Makes the stages one again where workers of their own brought nothing.
    fn give_up(&mut self, observation: &Observation) -> Decision {
        let streams = whole(running(observation));
        (self.apart, self.strained, self.lately) = (None, 0, 0.0);
        (self.wait, self.again) = (self.again, 2.0 * self.again);
        self.network = self.network.forgotten("streams");
        let reason = format!("readers and writers of their own moved no more: {streams} streams read and write again");
        self.answer(PerStage::all(streams), &observation.policy, reason)
    }
}

/// Whether the work is over before fewer streams would move as much as those that run, unless these lose much or wait for processors.
fn is_ending(observation: &Observation) -> bool {
    let left = observation.bytes_left.map_or(f64::INFINITY, |bytes| bytes as f64);
    let pays = observation.cpu_bound || observation.loss.is_some_and(|lost| lost > LOSSY);
    left < ENDING_S * utility::arrived(observation) && !pays
}

/// Whether several streams carried equally much.
fn is_even(observation: &Observation) -> bool {
    let told = observation.applied.concurrency.network >= EVEN.0;
    told && observation.spread.is_some_and(|spread| spread < EVEN.1)
}

/// Whether several streams plainly carried more or less than one another.
fn is_uneven(observation: &Observation) -> bool {
    observation.applied.concurrency.network >= EVEN.0 && observation.spread.is_some_and(|spread| spread > UNEVEN)
}

/// Bytes per second that got through, or else that arrived and no more than the streams were sent: what was lost before may fill a gap only now.
fn carried(observation: &Observation, received: Option<f64>) -> f64 {
    let streams = running(observation).max(f64::from(observation.applied.concurrency.network));
    let sent = observation.applied.pacing.map_or(f64::INFINITY, |each| each as f64 * streams);
    received.unwrap_or_else(|| utility::arrived(observation)).min(sent)
}

/// Streams that ran, averaged over the interval.
fn running(observation: &Observation) -> f64 {
    let workers = observation.workers.network;
    if workers.is_finite() && workers > 0.0 { workers } else { f64::from(observation.applied.concurrency.network.max(1)) }
}

/// The part of the interval, 0 to 1, that a new stream spends below its rate: it begins with a small window, which doubles each round
/// trip. That time is as many trips as it takes less what the control loop has waited before the interval.
pub(super) fn unfound(observation: &Observation, waited: Duration) -> f64 {
    let (Some(rtt), interval_s) = (observation.rtt, observation.interval.as_secs_f64()) else { return 0.0 };
    let rtt_s = rtt.as_secs_f64();
    let window = rtt_s * utility::arrived(observation) / running(observation);
    let part = ((window / observation.first_window).log2() * rtt_s - waited.as_secs_f64()).max(0.0) / interval_s;
    if part.is_finite() { part.min(MOST_UNFOUND) } else { 0.0 }
}

impl Optimizer for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        let count = |streams: u16| human_count(u64::from(streams), "stream");
        if std::mem::replace(&mut self.begun, true) {
            self.network.begin_anew();
            self.pacing.begin_again();
            return self.answer(self.last, policy, format!("going on with {}", count(self.last.network)));
        }
        let streams = self.first.min(Price::of(policy, policy.limit.network).limit);
        self.answer(PerStage::all(streams), policy, format!("start: {}, nothing is known of the path", count(streams)))
    }

    fn restrain(&mut self, beginning: &Beginning) -> Option<u64> {
        let pacing = self.pacing.restrain(beginning)?;
        self.network.restrained(beginning.loss);
        Some(pacing)
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let rate = utility::arrived(observation);
        if !rate.is_finite() || rate <= 0.0 {
            return Ok(self.answer(self.last, &observation.policy, "nothing arrived: staying".to_owned()));
        }
        if observation.held_back {
            return Ok(self.answer(self.last, &observation.policy, "others of this host limited: staying".to_owned()));
        }
        let waited = self.waited(observation);
        let Some(apart) = &mut self.apart else { return Ok(self.together(observation)) };
        apart.observe(&mut self.network, observation, waited);
        if apart.is_in_vain() {
            return Ok(self.give_up(observation));
        }
        Ok(self.apart(observation))
    }
}
