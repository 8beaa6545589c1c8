//! Which stage limits, and what would help.

use std::time::Duration;

use crate::event::Stage;
use crate::metrics::Rates;
use crate::optimizer::{Buffers, PerStage, Policy};

/// Least share of their time that the workers of a limiting stage work.
const BUSY: f64 = 0.5;

/// How far the busiest stage must be ahead of the next.
const AHEAD: f64 = 0.15;

/// Share of the time for which something must have limited to be named for the whole transfer.
const MOSTLY: f64 = 0.4;

/// Mean loss that is worth a word.
const LOSSY: f64 = 0.01;

/// The stage that limits during an interval: the one whose workers are clearly the busiest, or else the one that the buffers
/// point at, if its workers are as busy as any, or else storage that holds streams up. `None` if nothing moves or nothing stands out.
pub(super) fn of(rates: &Rates, buffers: &Buffers) -> Option<Stage> {
    if rates.throughput.network <= 0.0 && rates.throughput.write <= 0.0 {
        return None;
    }
    let busy = &rates.busy;
    // Where streams also read and write, no buffer fills up, whatever limits.
    let pointed = || from_buffers(buffers).filter(|stage| of_stage(busy, *stage) + AHEAD >= most(busy));
    busiest(busy).or_else(pointed).or_else(|| held_up(busy))
}

/// Writing, where streams are as busy as it is and reading is not: a stream that waits for the receiver to take more counts as busy, but a
/// writer that waits for streams does not.
fn held_up(busy: &PerStage<f64>) -> Option<Stage> {
    let writes = busy.write >= BUSY && busy.write + AHEAD >= busy.network;
    (writes && busy.read + AHEAD < most(busy)).then_some(Stage::Write)
}

fn of_stage(busy: &PerStage<f64>, stage: Stage) -> f64 {
    match stage {
        Stage::Read => busy.read,
        Stage::Network => busy.network,
        Stage::Write => busy.write,
    }
}

fn most(busy: &PerStage<f64>) -> f64 {
    busy.read.max(busy.network).max(busy.write)
}

fn busiest(busy: &PerStage<f64>) -> Option<Stage> {
    let mut stages = [(busy.read, Stage::Read), (busy.network, Stage::Network), (busy.write, Stage::Write)];
    stages.sort_by(|a, b| b.0.total_cmp(&a.0));
    (stages[0].0 >= BUSY && stages[0].0 >= stages[1].0 + AHEAD).then_some(stages[0].1)
}

fn from_buffers(buffers: &Buffers) -> Option<Stage> {
    let sender = Level::of(buffers.sender, buffers.sender_capacity);
    let receiver = Level::of(buffers.receiver, buffers.receiver_capacity);
    match (sender, receiver) {
        (_, Level::Full) => Some(Stage::Write),
        (Level::Full, Level::Empty) => Some(Stage::Network),
        (Level::Empty, _) => Some(Stage::Read),
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum Level {
    Empty,
    Between,
    Full,
}

impl Level {
    fn of(free: u64, capacity: u64) -> Self {
        match free.saturating_mul(4) {
            _ if capacity == 0 => Self::Between,
            free if free <= capacity => Self::Full,
            free if free >= capacity.saturating_mul(3) => Self::Empty,
            _ => Self::Between,
        }
    }
}

/// What would help where the processors of this host limited.
const CPU_BOUND: &str =
    "edt kept the processors of this host busy: more streams will not help, faster processors or fewer other programs would";

/// What sets the most streams that there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    /// The option alone: with a higher one there may be more.
    Option,
    /// A server, a service, or the parts of the work, whatever the option says.
    Others,
}

/// For how long what limited.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limited {
    /// The time that was measured.
    pub all: Duration,
    /// The part of it in which each stage limited.
    pub by: PerStage<Duration>,
    /// The part of it in which the rate that all transfers of the host share was what limited.
    pub by_host: Duration,
    /// That rate in bytes per second, as it was the last time.
    pub host_rate: Option<f64>,
}

impl Limited {
    /// The stage that limited longest, if it did so for at least 40 % of the time.
    pub fn bottleneck(&self) -> Option<Stage> {
        let PerStage { read, network, write } = self.by;
        let times = [(read, Stage::Read), (network, Stage::Network), (write, Stage::Write)];
        let (time, stage) = times.into_iter().max_by_key(|(time, _)| *time)?;
        self.is_most(time).then_some(stage)
    }

    /// The rate of the host, if it limited for at least 40 % of the time.
    pub fn held_to(&self) -> Option<f64> {
        self.host_rate.filter(|_| self.is_most(self.by_host))
    }

    fn is_most(&self, time: Duration) -> bool {
        !time.is_zero() && time.as_secs_f64() >= MOSTLY * self.all.as_secs_f64()
    }

    /// Adds what was measured later.
    pub(super) fn add(&mut self, later: Self) {
        let (own, by) = (self.by, later.by);
        self.all += later.all;
        self.by = PerStage { read: own.read + by.read, network: own.network + by.network, write: own.write + by.write };
        self.by_host += later.by_host;
        self.host_rate = later.host_rate.or(self.host_rate);
    }
}

/// Counts over a whole session.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) time: Limited,
    intervals: u32,
    at_limit: u32,
    cpu_bound: Duration,
    loss: f64,
    loss_known: u32,
}

impl Tally {
    pub(super) fn count(&mut self, bottleneck: Option<Stage>, rates: &Rates, policy: &Policy) {
        self.intervals += 1;
        self.time.all += rates.interval;
        match bottleneck {
            Some(Stage::Read) => self.time.by.read += rates.interval,
            Some(Stage::Network) => self.time.by.network += rates.interval,
            Some(Stage::Write) => self.time.by.write += rates.interval,
            None => {}
        }
        if rates.cpu_bound {
            self.cpu_bound += rates.interval;
        }
        self.at_limit += u32::from(rates.concurrency.network + 1.5 >= f64::from(policy.limit.network));
        if let Some(loss) = rates.loss {
            self.loss += loss;
            self.loss_known += 1;
        }
    }

    /// Counts an interval in which the bytes per second that all of the host may move together were what limited, if they were.
    pub(super) fn hold_back(&mut self, host_rate: Option<f64>, interval: Duration) {
        if host_rate.is_some() {
            self.time.add(Limited { by_host: interval, host_rate, ..Limited::default() });
        }
    }

    /// What would help beyond the [`remedy`] of the stage that limits, for people.
    pub(super) fn advice(&self, policy: &Policy, set_by: SetBy) -> Vec<String> {
        let bottleneck = self.time.bottleneck();
        let by_storage = matches!(bottleneck, Some(Stage::Read | Stage::Write));
        let mut advice = Vec::new();
        let loss = self.loss / f64::from(self.loss_known.max(1));
        if loss > LOSSY {
            advice.push(format!(
                "{:.1} % of the segments were sent again: the path is congested or faulty; at a quieter time, or with \
                 `--congestion bbr`, more would arrive",
                100.0 * loss
            ));
        }
        if self.time.is_most(self.cpu_bound) {
            advice.push(CPU_BOUND.to_owned());
        } else if !by_storage && self.at_limit * 2 > self.intervals && set_by == SetBy::Option {
            advice.push(format!("`--max-streams {}` limits: a higher one may move more", policy.limit.network));
        }
        advice
    }
}

/// What would help where a stage limits.
pub(crate) fn remedy(stage: Stage) -> &'static str {
    match stage {
        Stage::Read => {
            "the source's storage limits: more streams will not help, a faster disk or a sender closer to the data would"
        }
        Stage::Network => "the network limits: `edt doctor` on both hosts shows which of their settings hold TCP back",
        Stage::Write => {
            "the destination's storage limits: a faster disk would help, and `--fsync none` where a crash of that machine may \
             cost files"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::PolicyName;

    fn rates(read: f64, network: f64, write: f64) -> Rates {
        Rates {
            interval: Duration::from_secs(1),
            throughput: PerStage::all(1e6),
            concurrency: PerStage::all(4.0),
            busy: PerStage { read, network, write },
            rtt: None,
            loss: Some(0.03),
            cpu_bound: false,
        }
    }

    fn buffers(sender: u64, receiver: u64) -> Buffers {
        Buffers { sender, receiver, sender_capacity: 100, receiver_capacity: 100 }
    }

    #[test]
    fn the_stage_whose_workers_are_clearly_the_busiest_limits() {
        assert_eq!(of(&rates(0.9, 0.3, 0.2), &buffers(50, 50)), Some(Stage::Read));
        assert_eq!(of(&rates(0.3, 0.9, 0.2), &buffers(50, 50)), Some(Stage::Network));
        assert_eq!(of(&rates(0.3, 0.8, 0.99), &buffers(50, 50)), Some(Stage::Write));
        assert_eq!(of(&rates(0.9, 0.9, 0.2), &buffers(50, 50)), None);
    }

    #[test]
    fn where_workers_are_alike_the_buffers_tell() {
        let alike = rates(0.9, 0.9, 0.9);
        assert_eq!(of(&alike, &buffers(90, 90)), Some(Stage::Read));
        assert_eq!(of(&alike, &buffers(5, 90)), Some(Stage::Network));
        assert_eq!(of(&alike, &buffers(5, 5)), Some(Stage::Write));
        assert_eq!(of(&alike, &Buffers::default()), None);
    }

    #[test]
    fn storage_that_holds_streams_up_limits_where_these_write_and_leave_the_buffers_empty() {
        assert_eq!(of(&rates(0.0, 1.0, 1.0), &buffers(99, 99)), Some(Stage::Write));
        assert_eq!(of(&rates(0.02, 0.99, 0.9), &Buffers::default()), Some(Stage::Write));
        assert_eq!(of(&rates(0.4, 0.4, 0.4), &Buffers::default()), None);
        assert_eq!(of(&rates(0.9, 0.8, 0.8), &Buffers::default()), None);
    }

    #[test]
    fn nothing_limits_what_does_not_move() {
        let silent = Rates { throughput: PerStage::all(0.0), ..rates(0.9, 0.1, 0.1) };
        assert_eq!(of(&silent, &buffers(90, 90)), None);
    }

    #[test]
    fn a_stage_is_named_for_the_whole_transfer_from_two_fifths_of_the_time_on() {
        let policy = Policy::new(PolicyName::Fair, 64);
        let mut tally = Tally::default();
        assert_eq!(tally.time.bottleneck(), None);
        for stage in [Some(Stage::Write), None, Some(Stage::Write), Some(Stage::Read), None] {
            tally.count(stage, &rates(0.1, 0.1, 0.1), &policy);
        }
        assert_eq!(tally.time.bottleneck(), Some(Stage::Write));
        tally.count(None, &rates(0.1, 0.1, 0.1), &policy);
        assert_eq!(tally.time.bottleneck(), None);
    }

    #[test]
    fn stages_limit_for_as_long_as_the_intervals_are_in_which_they_do() {
        let policy = Policy::new(PolicyName::Fair, 64);
        let mut tally = Tally::default();
        for (stage, seconds) in [(Some(Stage::Write), 5), (None, 1), (Some(Stage::Read), 2), (Some(Stage::Write), 3)] {
            let interval = Duration::from_secs(seconds);
            tally.count(stage, &Rates { interval, ..rates(0.1, 0.1, 0.1) }, &policy);
        }
        let by = PerStage { read: 2, network: 0, write: 8 }.map(Duration::from_secs);
        let once = Limited { all: Duration::from_secs(11), by, ..Limited::default() };
        assert_eq!(tally.time, once);
        tally.time.add(once);
        assert_eq!((tally.time.all, tally.time.by.write), (2 * once.all, 2 * once.by.write));
    }

    #[test]
    fn a_rate_of_the_host_is_named_from_two_fifths_of_the_time_on() {
        let policy = Policy::new(PolicyName::Fair, 64);
        let mut tally = Tally::default();
        assert_eq!(tally.time.held_to(), None);
        for host_rate in [Some(9e6), None, Some(8e6), None, None] {
            tally.hold_back(host_rate, Duration::from_secs(1));
            tally.count(None, &rates(0.1, 0.1, 0.1), &policy);
        }
        assert_eq!(tally.time.held_to(), Some(8e6));
        tally.count(None, &rates(0.1, 0.1, 0.1), &policy);
        assert_eq!(tally.time.held_to(), None);
    }

    #[test]
    fn advice_names_the_loss_and_the_limit_where_they_matter() {
        let advise = |stage, limit, set_by| {
            let policy = Policy::new(PolicyName::Fair, limit);
            let mut tally = Tally::default();
            tally.count(stage, &rates(0.1, 0.1, 0.1), &policy);
            tally.advice(&policy, set_by).join("\n")
        };
        assert!(!advise(Some(Stage::Write), 4, SetBy::Option).contains("--max-streams"));
        assert!(advise(Some(Stage::Network), 4, SetBy::Option).contains("`--max-streams 4` limits"));
        assert!(!advise(Some(Stage::Network), 4, SetBy::Others).contains("--max-streams"));
        assert!(advise(None, 64, SetBy::Option).contains("3.0 % of the segments"));
        assert!(!advise(None, 64, SetBy::Option).contains("limits"));
    }

    #[test]
    fn busy_processors_are_named_from_two_fifths_of_the_time_on() {
        let policy = Policy::new(PolicyName::Fair, 64);
        let named = |busy: [bool; 5]| {
            let mut tally = Tally::default();
            for cpu_bound in busy {
                tally.count(Some(Stage::Network), &Rates { cpu_bound, ..rates(0.1, 0.9, 0.1) }, &policy);
            }
            tally.advice(&policy, SetBy::Option).iter().any(|advice| advice == CPU_BOUND)
        };
        assert!(named([true, false, true, false, false]) && !named([true, false, false, false, false]));
    }
}
