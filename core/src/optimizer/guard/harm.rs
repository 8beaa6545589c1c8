//! The rule of doing no harm: whoever stays far below the best setting seen is overruled.
//!
//! The best is believed only while it delivers: what is brought back is measured again, and forgotten if the path has changed.

use crate::optimizer::{Decision, Observation, pace, utility};

/// Below this share of the best utility an interval is poor.
const POOR: f64 = 0.8;

/// Poor intervals in a row, of a second or more, that bring the best setting back.
const PATIENCE: f64 = 2.9;

/// What is left of the best utility after an interval of a second or more: paths change, and an old best counts for less.
const AGEING: f64 = 0.998;

/// By what part of the way the loss of the path is taken to rise to what an interval shows.
const RISE: f64 = 0.02;

/// Growth up to which the streams of an interval count as those of the one before. New ones lose much until they have found their rate,
/// which says little of what so many lose.
const SETTLED: f64 = 1.1;

/// For so many intervals of growth in a row the loss of new streams is left out.
const GROWING: u32 = 3;

/// Intervals, of a second or more, that an overruled optimizer has to wait for its next chance, at first and at most; each further time
/// doubles them.
const HOLDS: (f64, f64) = (8.0, 128.0);

/// Such intervals without a poor one after which earlier failures are forgiven.
const FORGIVEN: f64 = 30.0;

/// Intervals that the return to the best setting may take until it is applied.
const ARRIVAL: u32 = 4;

pub(super) struct Harm {
    best: Option<Best>,
    poor: f64,
    good: f64,
    hold: f64,
    /// The least loss of late: that of the path.
    base: Option<f64>,
    /// Streams of the last interval, and in how many in a row they have grown.
    before: f64,
    grown: u32,
    /// Intervals so far, and the number, the streams and the utility of the last one that was judged, if many of its streams were not new.
    intervals: u64,
    previous: Option<(u64, u16, f64)>,
    state: State,
}

struct Best {
    decision: Decision,
    utility: f64,
}

/// The utility of an interval, and the lower of it and of the one before, if about as many streams ran in that: one that was lucky is no
/// yardstick.
#[derive(Clone, Copy)]
struct Worth {
    now: f64,
    steady: f64,
}

#[derive(Clone, Copy)]
enum State {
    /// The optimizer decides.
    Free,
    /// The best setting was brought back and is measured again; so many intervals ago.
    Recheck(u32),
    /// The best setting delivered and stays for so many intervals of a second or more.
    Held(f64),
}

pub(super) enum Verdict {
    Fine,
    Forgotten(String),
    Overruled(Decision),
}

impl Harm {
    pub(super) fn new() -> Self {
        Self {
            best: None,
            poor: 0.0,
            good: 0.0,
            hold: HOLDS.0,
            base: None,
            before: 0.0,
            grown: 0,
            intervals: 0,
            previous: None,
            state: State::Free,
        }
    }

    /// Drops the best setting, after something else has shown that it is none.
    pub(super) fn forget(&mut self) {
        (self.best, self.poor, self.state) = (None, 0.0, State::Free);
    }

    /// The utility of an interval without the price of loss that streams do not cause, or only new ones: it says nothing of one setting
    /// against another.
    fn priced(&mut self, observation: &Observation) -> f64 {
        let Some(loss) = observation.loss else { return utility::of(observation) };
        let base = self.base.map_or(loss, |base| loss.min(base + RISE * (loss - base)));
        self.base = Some(base);
        let priced = if self.has_grown() { 0.0 } else { loss - base };
        let streams = f64::from(observation.applied.concurrency.network);
        utility::utility(utility::arrived(observation), streams, Some(priced), &observation.policy)
    }

    /// What an interval is worth.
    fn worth(&mut self, observation: &Observation) -> Worth {
        let (now, streams) = (self.priced(observation), observation.applied.concurrency.network);
        let next = (!self.has_grown()).then_some((self.intervals, streams, now));
        let last = std::mem::replace(&mut self.previous, next);
        let alike = last.filter(|(at, before, _)| at + 1 == self.intervals && is_near(*before, streams));
        Worth { now, steady: alike.map_or(now, |(_, _, before)| now.min(before)) }
    }

    /// Takes note of how many streams there were in an interval, be it judged or not.
    pub(super) fn saw(&mut self, observation: &Observation) {
        let streams = f64::from(observation.applied.concurrency.network);
        let before = std::mem::replace(&mut self.before, streams);
        self.intervals += 1;
        self.grown = if before > 0.0 && streams > SETTLED * before { self.grown + 1 } else { 0 };
    }

    /// Whether many of the streams of the interval are new; the first ones do not count as such, nor those of growth without end.
    fn has_grown(&self) -> bool {
        (1..=GROWING).contains(&self.grown)
    }

    pub(super) fn judge(&mut self, observation: &Observation) -> Verdict {
        let worth = self.worth(observation);
        // What may not be had now is nothing to go back to.
        let limit = observation.policy.limit.network;
        if self.best.as_ref().is_some_and(|best| best.decision.concurrency.network > limit) {
            self.forget();
        }
        let Some(best) = &mut self.best else {
            self.learn(observation, worth);
            return Verdict::Fine;
        };
        // Where much is lost the utility is below zero.
        best.utility -= (1.0 - AGEING) * pace::weight(observation.interval) * best.utility.abs();
        let poor = worth.now < best.utility - (1.0 - POOR) * best.utility.abs();
        let there = is_near(observation.applied.concurrency.network, best.decision.concurrency.network);
        match self.state {
            State::Recheck(tries) if !there && tries < ARRIVAL => self.bring_back(State::Recheck(tries + 1)),
            State::Recheck(_) if poor || !there => self.give_up(observation, worth),
            State::Recheck(_) => self.bring_back(State::Held(self.hold)),
            State::Held(_) if poor && there => self.give_up(observation, worth),
            State::Held(left) if left > 0.0 => self.bring_back(State::Held(left - pace::weight(observation.interval))),
            State::Held(_) => {
                (self.state, self.hold) = (State::Free, (self.hold * 2.0).min(HOLDS.1));
                Verdict::Fine
            }
            State::Free => self.watch(observation, worth, poor),
        }
    }

    fn watch(&mut self, observation: &Observation, worth: Worth, poor: bool) -> Verdict {
        self.learn(observation, worth);
        let time = pace::weight(observation.interval);
        (self.poor, self.good) = match (poor, self.has_grown()) {
            (true, _) => (self.poor + time, 0.0),
            // Its loss was not counted: that acquits of nothing.
            (false, true) => (self.poor, self.good),
            (false, false) => (0.0, self.good + time),
        };
        if self.good >= FORGIVEN {
            self.hold = HOLDS.0;
        }
        if self.poor < PATIENCE {
            return Verdict::Fine;
        }
        self.poor = 0.0;
        self.bring_back(State::Recheck(0))
    }

    fn learn(&mut self, observation: &Observation, worth: Worth) {
        let steady = worth.steady;
        // What was not paid for is no yardstick.
        if self.has_grown() {
            return;
        }
        let applied = &observation.applied;
        match &mut self.best {
            // Measured again, the best setting is worth the mean of what it showed: a lucky interval does not stand for long.
            Some(best) if best.decision.concurrency == applied.concurrency => {
                *best = Best { decision: applied.clone(), utility: f64::midpoint(best.utility, steady) };
            }
            Some(best) if steady < best.utility => {}
            _ => self.best = Some(Best { decision: applied.clone(), utility: steady }),
        }
    }

    fn bring_back(&mut self, state: State) -> Verdict {
        self.state = state;
        let Some(best) = &self.best else { return Verdict::Fine };
        let streams = best.decision.concurrency.network;
        let reason = match state {
            State::Held(_) => format!("guard: {streams} streams deliver what they did: staying with them for a while"),
            _ => format!("guard: too long below 80 % of what {streams} streams brought: back to them"),
        };
        Verdict::Overruled(Decision { reason, ..best.decision.clone() })
    }

    fn give_up(&mut self, observation: &Observation, worth: Worth) -> Verdict {
        let streams = self.best.as_ref().map_or(0, |best| best.decision.concurrency.network);
        self.forget();
        // What came before is of another state of the path.
        self.learn(observation, Worth { steady: worth.now, ..worth });
        Verdict::Forgotten(format!("guard: {streams} streams no longer bring what they did, forgotten"))
    }
}

fn is_near(applied: u16, wanted: u16) -> bool {
    applied.abs_diff(wanted) <= (wanted / 4).max(1)
}
