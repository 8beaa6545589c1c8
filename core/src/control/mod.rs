//! The control loop: applies a decision, waits until it took effect, measures an interval, and asks the optimizer for the next.
//!
//! The loop owns the time and the measurements; an optimizer only answers. A decision is judged only on data from after it took
//! effect, and an observation carries the concurrency that was applied in its interval.

use std::time::Duration;

use crate::broker::{Member, Use};
use crate::error::{Error, Result};
use crate::event::{Event, EventSender, Sampled, Totals, Tuned};
use crate::history::{Judged, Recorder};
use crate::metrics::{Rates, Sample, sampler};
use crate::optimizer::guard::is_nearly_done;
use crate::optimizer::pace::{FIRST_WINDOW, New};
use crate::optimizer::{Decision, Listed, Optimizer, Pace, Policy};

mod beginning;
mod bottleneck;
mod change;
mod clock;
mod interventions;
mod standstill;
#[cfg(test)]
mod tests;
mod thinned;
mod tuner;

pub(crate) use clock::Waited;
pub use clock::{Clock, SystemClock};

pub(crate) use bottleneck::remedy;
pub use bottleneck::{Limited, SetBy};

use beginning::First;
use bottleneck::Tally;
use change::Change;
use interventions::Interventions;
use standstill::Standstill;
use thinned::Thinned;
use tuner::Tuner;

/// Longest time between two samples for a display.
const DISPLAY: Duration = Duration::from_millis(500);

/// By what part of itself the shortest round trip is taken to be longer with each sample, for paths change.
const LONGER: f64 = 0.000_5;

/// What is tuned: the stages of both halves.
pub trait Plant: Send {
    /// Reads the cumulative counters; an error skips the interval, as while a connection is made again.
    fn sample(&mut self) -> Result<Sample>;

    /// Begins to resize the stages; [`Plant::settled`] tells when that is done.
    fn apply(&mut self, decision: &Decision) -> Result<()>;

    /// Whether the transfer has ended, in whatever way.
    fn finished(&self) -> bool;

    /// Whether the stages have the sizes last asked for, or as many as they can get.
    fn settled(&self) -> bool;

    /// The counters of the transfer.
    fn totals(&self) -> Totals;
}

/// How to tune.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What limits this transfer.
    pub policy: Policy,
    /// What sets the limit of the policy.
    pub set_by: SetBy,
    /// Time between two decisions; `None`: as its pace is.
    pub interval: Option<Duration>,
    /// How soon the optimizer decides, as far as the interval does not say it.
    pub pace: Pace,
    /// Round trip time as measured when the other side was called, of a service a hint; `None` where there is no network between.
    pub rtt: Option<Duration>,
    /// Who watches.
    pub events: EventSender,
    /// What keeps the intervals and decisions.
    pub recorder: Recorder,
    /// What this transfer shares with others of its host.
    pub member: Member,
}

/// The account of the control loop.
#[derive(Debug, Default)]
pub struct Outcome {
    /// One entry an interval, thinned evenly to at most 2,000.
    pub timeline: Vec<Sampled>,
    /// Every decision, thinned likewise.
    pub decisions: Vec<Tuned>,
    /// How often the guard decided instead of the optimizer.
    pub interventions: u32,
    /// For how long what limited.
    pub limited: Limited,
    /// What would help beyond the remedy of the bottleneck, for people; of several sessions of the one that was longer than all before it.
    pub advice: Vec<String>,
    /// Why the tuning ended before the transfer, if it did.
    pub tuning_error: Option<Error>,
    /// The files to be sent, by size, as far as they were listed; of several sessions those of the one that had most.
    pub listed: Listed,
}

impl Outcome {
    /// Adds what a further session of the same transfer had.
    pub fn extend(&mut self, later: Self) {
        self.timeline.extend(later.timeline);
        self.decisions.extend(later.decisions);
        thinned::thin(&mut self.timeline, |sampled| sampled.elapsed_s);
        thinned::thin(&mut self.decisions, |tuned| tuned.elapsed_s);
        self.interventions += later.interventions;
        if later.limited.all > self.limited.all {
            self.advice = later.advice;
        }
        self.limited.add(later.limited);
        self.tuning_error = self.tuning_error.take().or(later.tuning_error);
        // What an earlier session has sent is not listed again: with files of one before, those of a later one are not all.
        if later.listed.files() > self.listed.files() {
            let complete = later.listed.complete && self.listed.files() == 0;
            self.listed = Listed { complete, ..later.listed };
        }
    }
}

/// Tunes `plant` until it is finished. `clock` counts from the beginning of the transfer.
pub fn run(plant: &mut dyn Plant, optimizer: Box<dyn Optimizer>, settings: Settings, clock: &dyn Clock) -> Outcome {
    let mut tuner = Tuner::start(optimizer, &settings.policy);
    tuner.narrow(&settings.member.ask(&settings.policy, None));
    let first = plant.sample().ok();
    // There may be no stream yet that tells its own.
    let first_trip = settings.rtt.or_else(|| first.as_ref().and_then(Sample::rtt));
    let mut controller = Controller {
        plant,
        tuner,
        settings,
        clock,
        timeline: Thinned::new(),
        decisions: Thinned::new(),
        interventions: Interventions::default(),
        tally: Tally::default(),
        shown: first.clone(),
        shown_at: clock.now(),
        recorded: first,
        unapplied: false,
        change: Change::default(),
        beginning: None,
        held_back: false,
        standstill: Standstill::default(),
        trip: first_trip,
    };
    controller.tune();
    controller.outcome()
}

struct Controller<'a> {
    plant: &'a mut dyn Plant,
    tuner: Tuner,
    settings: Settings,
    clock: &'a dyn Clock,
    timeline: Thinned<Sampled>,
    decisions: Thinned<Tuned>,
    interventions: Interventions,
    tally: Tally,
    /// The sample up to which the watcher knows.
    shown: Option<Sample>,
    shown_at: Duration,
    /// The sample up to which the timeline goes.
    recorded: Option<Sample>,
    /// The last decision has not reached the plant yet.
    unapplied: bool,
    change: Change,
    /// As long as it is looked whether new streams lose much, or are about to.
    beginning: Option<First>,
    /// The last interval was held back by the rate of the host.
    held_back: bool,
    standstill: Standstill,
    /// The shortest round trip.
    trip: Option<Duration>,
}

impl Controller<'_> {
    fn tune(&mut self) {
        self.apply();
        let mut warm = false;
        while !self.plant.finished() {
            if self.unapplied {
                self.unapplied = self.plant.apply(&self.tuner.last).is_err();
            }
            if self.settle() || (!warm && self.warm_up()) {
                break;
            }
            warm = true;
            let (before, interval) = (self.plant.sample(), self.interval());
            self.standstill.begin(self.clock.now(), interval);
            // Where streams are restrained they have to find their windows again, at the new rate.
            if !self.wait(interval) {
                continue;
            }
            if let (Ok(before), Ok(after)) = (before, self.plant.sample()) {
                self.beginning = None;
                self.conclude(&before, after);
            }
        }
        self.record_rest();
    }

    /// Waits until the decision took effect, and for new streams to find their window; true if the transfer ended.
    fn settle(&mut self) -> bool {
        let interval = self.interval();
        self.pause(interval, Until::Settled);
        let new = if self.unapplied { New::None } else { self.change.take_new() };
        self.ramp(new)
    }

    fn ramp(&mut self, new: New) -> bool {
        let interval = self.interval();
        let window = self.shown.as_ref().map_or(FIRST_WINDOW, Sample::first_window);
        let pacing = self.tuner.last.pacing.map(|rate| rate as f64 / window);
        let time = self.trip.map_or(Duration::ZERO, |rtt| self.settings.pace.ramp(rtt, new, interval, pacing));
        if self.wait(time) {
            return false;
        }
        let restrained = self.change.take_new();
        self.plant.finished() || restrained == New::First && self.ramp(restrained)
    }

    /// Waits, showing progress meanwhile; true if what it waits for came before the time was over.
    fn pause(&mut self, duration: Duration, until: Until) -> bool {
        let end = self.clock.now() + duration;
        loop {
            let now = self.clock.now();
            if now < end && now >= self.shown_at + DISPLAY {
                self.show();
            }
            let wait = end.min(self.shown_at + DISPLAY).saturating_sub(now);
            let plant = &*self.plant;
            let stop = || plant.finished() || (until == Until::Settled && plant.settled());
            if self.clock.wait(wait, &stop) {
                return true;
            }
            if self.clock.now() >= end {
                return false;
            }
        }
    }

    fn show(&mut self) {
        self.shown_at = self.clock.now();
        let Ok(now) = self.plant.sample() else { return };
        if let Some(before) = &self.shown {
            let rates = now.since(before);
            if !rates.interval.is_zero() {
                self.settings.member.beat(Use { workers: rates.concurrency, rate: rates.throughput.network });
                self.settings.events.send(Event::Sampled(self.sampled(&rates, &now)));
            }
        }
        self.saw(now);
    }

    fn conclude(&mut self, before: &Sample, after: Sample) {
        let elapsed = self.clock.now();
        let mut observation = sampler::observe(before, &after, elapsed, &self.tuner.last, &self.settings.policy);
        if observation.interval.is_zero() {
            return;
        }
        observation.loss_before = self.recorded.as_ref().and_then(|decided| before.since(decided).loss);
        let used = Use { workers: observation.workers, rate: observation.throughput.network };
        let host_rate = self.settings.member.host_rate().filter(|_| observation.held_back);
        // After a rate that held streams back they have to find their windows again.
        observation.held_back |= std::mem::replace(&mut self.held_back, observation.held_back);
        // The end of the work says nothing about a setting: whatever runs then runs dry. Nor does a time in which somebody stood still.
        let silent = self.standstill.end(elapsed, observation.interval) || is_nearly_done(&observation);
        let judged = if silent || observation.held_back { Judged::No } else { Judged::Yes };
        self.tally.hold_back(host_rate, observation.interval);
        self.record(before, after, judged);
        // What the others of this host leave is the limit of the next decision, and of the last one where there is none any more.
        observation.policy = self.settings.member.ask(&self.settings.policy, Some(used));
        let decided = !silent && self.tuner.decide(&observation).is_some();
        self.keep_within(&observation.policy, decided);
    }

    /// Brings the last decision within a policy, and passes it on if it is another one than before.
    fn keep_within(&mut self, policy: &Policy, decided: bool) {
        if self.tuner.narrow(policy) || decided {
            self.apply();
        } else if self.settings.member.takes_part() {
            // The share of memory or of the rate may be another one.
            self.pass_on();
        }
    }

    fn pass_on(&mut self) -> Decision {
        let decision = self.settings.member.settle(self.tuner.last.clone());
        self.unapplied = self.plant.apply(&decision).is_err();
        decision
    }

    fn apply(&mut self) {
        let decision = self.pass_on();
        self.change.follow(&decision);
        let tuned = Tuned { elapsed_s: self.clock.now().as_secs_f64(), decision };
        self.settings.recorder.decision(&tuned, self.tuner.error.as_ref().map(Error::kind));
        self.settings.events.send(Event::Tuned(tuned.clone()));
        self.interventions.follow(&tuned.decision.reason);
        self.decisions.push(tuned);
    }

    fn record(&mut self, before: &Sample, after: Sample, judged: Judged) {
        let rates = after.since(before);
        let sampled = self.sampled(&rates, &after);
        self.tally.count(sampled.bottleneck, &rates, &self.settings.policy);
        self.settings.recorder.interval(&sampled, rates.interval, &self.tuner.last, judged);
        self.settings.events.send(Event::Sampled(sampled.clone()));
        self.timeline.push(sampled);
        self.saw(after.clone());
        self.shown_at = self.clock.now();
        self.recorded = Some(after);
    }

    /// Records what happened after the last whole interval.
    fn record_rest(&mut self) {
        let Ok(now) = self.plant.sample() else { return };
        let Some(before) = self.recorded.take() else { return };
        if !now.since(&before).interval.is_zero() {
            self.record(&before, now, Judged::No);
        }
    }

    fn sampled(&self, rates: &Rates, sample: &Sample) -> Sampled {
        Sampled {
            elapsed_s: self.clock.now().as_secs_f64(),
            throughput: rates.throughput,
            concurrency: rates.concurrency,
            busy: rates.busy,
            buffers: sample.buffers,
            rtt_ms: rates.rtt.map(|rtt| rtt.as_secs_f64() * 1000.0),
            loss: rates.loss,
            totals: self.plant.totals(),
            bottleneck: bottleneck::of(rates, &sample.buffers),
        }
    }

    fn interval(&self) -> Duration {
        let usual = || self.settings.pace.interval(self.trip.unwrap_or_default(), self.change.more);
        self.settings.interval.unwrap_or_else(usual)
    }

    /// Keeps a sample for the display, and the shortest round trip: with full queues it is a multiple of what the path has by itself.
    fn saw(&mut self, sample: Sample) {
        if let Some(rtt) = sample.rtt() {
            self.trip = Some(self.trip.map_or(rtt, |shortest| rtt.min(shortest.mul_f64(1.0 + LONGER))));
        }
        self.shown = Some(sample);
    }

    fn outcome(self) -> Outcome {
        Outcome {
            timeline: self.timeline.into_vec(),
            decisions: self.decisions.into_vec(),
            interventions: self.interventions.count,
            limited: self.tally.time,
            advice: self.tally.advice(&self.settings.policy, self.settings.set_by),
            tuning_error: self.tuner.error,
            listed: self.shown.map(|sample| sample.listed).unwrap_or_default(),
        }
    }
}

/// What a pause waits for besides its time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Finished,
    Settled,
}
