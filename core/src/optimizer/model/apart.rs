//! Three stages with workers of their own, where storage limits.
//!
//! A worker that reads and sends in turn does both more slowly than two workers that do one each, so that where reading or writing takes
//! much of the time, that stage gets workers of its own [AutoMDT §IV]. Each stage then has its own filter. What a stage moves while it
//! waits for a neighbour, as the buffers between them tell, bounds its curve from below alone: it could have moved more.

use std::time::Duration;

use super::choose::Price;
use super::fit::Bound;
use super::seen::{Counted, Paced, Seen};
use super::stage::{Next, Stage};
use super::unfound;
use crate::optimizer::{Observation, PerStage, Policy, pace, utility};

/// The part of its time that a worker has to spend on storage for that to limit: at the source, where it also sends, and at the
/// destination.
const READING: f64 = 0.5;
const WRITING: f64 = 0.8;

/// Workers are taken for busy all the time from this part on: then only the buffers tell who waits.
const ALWAYS: f64 = 0.95;

/// What the other stages get workers for, in terms of what the slowest moves.
const MARGIN: f64 = 1.05;

/// A stage that needs no more than this part of the streams has its work done by them.
const LIGHT: f64 = 0.3;

/// Intervals in a row in which both do, before the stages are one again.
const CALM: u32 = 5;

/// Intervals after which workers of its own must have been worth it for the stage, as a part of the utility before.
const TRIAL: u32 = 8;
const WORTH: f64 = 0.95;

/// The stages beside the network, with workers of their own.
#[derive(Debug, Clone)]
pub(super) struct Apart {
    read: Stage,
    write: Stage,
    /// Intervals in a row in which neither needed them.
    calm: u32,
    /// The utility before, and lately, and intervals since.
    before: f64,
    lately: f64,
    intervals: u32,
}

/// Which storage limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Storage {
    Source,
    Destination,
}

/// Whether storage limits where streams also read and write. Where the meters of one side are missing, nothing is said.
pub(super) fn limiting(observation: &Observation) -> Option<Storage> {
    let PerStage { read, network, write } = observation.busy;
    if [read, network, write].iter().any(|busy| busy.is_nan() || *busy <= 0.0) {
        return None;
    }
    if read.min(network).min(write) >= ALWAYS {
        let (sender, receiver) = levels(observation);
        return match (sender, receiver) {
            (_, Level::Full) => Some(Storage::Destination),
            (Level::Empty, _) => Some(Storage::Source),
            _ => None,
        };
    }
    if write >= WRITING {
        return Some(Storage::Destination);
    }
    (read >= READING && read >= network).then_some(Storage::Source)
}

impl Apart {
    /// Parts the stages where storage limits: what is known of all together is told of each, by its part of the time.
    pub(super) fn new(together: &mut Stage, limit: Storage, observation: &Observation, before: f64) -> Self {
        let busy = observation.busy;
        let exact = |busy: f64| if busy < ALWAYS { Bound::Exact } else { Bound::AtLeast };
        let (reads, sends, writes) = match limit {
            Storage::Source => (Bound::Exact, exact(busy.network), exact(busy.write)),
            // Streams that wait for writers seem to send.
            Storage::Destination => (exact(busy.read), Bound::AtLeast, Bound::Exact),
        };
        let read = together.told_of("readers", busy.read, reads);
        let write = together.told_of("writers", busy.write, writes);
        *together = together.told_of("streams", busy.network, sends);
        Self { read, write, calm: 0, before, lately: before, intervals: 0 }
    }

    /// Takes what was seen of the three stages.
    pub(super) fn observe(&mut self, network: &mut Stage, observation: &Observation, waited: Duration) {
        let mut seen = seen(observation);
        seen.network.lack = unfound(observation, waited);
        self.read.observe(&seen.read);
        network.observe(&seen.network);
        self.write.observe(&seen.write);
        self.lately = f64::midpoint(self.lately, utility::of(observation));
        self.intervals = self.intervals.saturating_add(1);
    }

    /// Whether workers of their own have brought less than none.
    pub(super) fn is_in_vain(&self) -> bool {
        // Where much is lost the utility is below zero.
        self.intervals == TRIAL && self.lately < self.before - (1.0 - WORTH) * self.before.abs()
    }

    /// Whether the stages may be one again.
    pub(super) fn is_over(&self) -> bool {
        self.calm >= CALM
    }

    /// The next workers of each stage, and why.
    pub(super) fn decide(&mut self, network: &mut Stage, policy: &Policy) -> (PerStage<u16>, String) {
        let prices = policy.limit.map(|limit| Price::of(policy, limit));
        let able =
            [self.read.capability(&prices.read), network.capability(&prices.network), self.write.capability(&prices.write)];
        let order = able.iter().enumerate().filter_map(|(index, able)| able.map(|able| (index, able)));
        let (slowest, rate) = order.min_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or((1, f64::INFINITY));
        let enough = |index| (index != slowest).then_some(MARGIN * rate).filter(|rate| rate.is_finite());
        let next = [
            self.read.decide(&prices.read, enough(0)),
            network.decide(&prices.network, enough(1)),
            self.write.decide(&prices.write, enough(2)),
        ];
        let streams = next[1].workers;
        let limits = policy.limit;
        let read = beside(next[0].workers, streams, limits.read);
        let write = beside(next[2].workers, streams, limits.write);
        self.calm = if read == streams && write == streams { self.calm + 1 } else { 0 };
        let name = ["read", "network", "write"][slowest];
        let Next { reason, .. } = &next[slowest];
        let reason = format!("{name} limits, {reason}; {read} readers, {streams} streams, {write} writers");
        (PerStage { read, network: streams, write }, reason)
    }
}

/// Workers of a stage beside so many streams: as many as these, if the streams shall do its work, and another number otherwise.
fn beside(wanted: u16, streams: u16, limit: u16) -> u16 {
    if f64::from(wanted) <= LIGHT * f64::from(streams) {
        return streams;
    }
    if wanted == streams && wanted < limit { wanted + 1 } else { wanted }
}

/// What the meters and the buffers tell of each stage.
fn seen(observation: &Observation) -> PerStage<Seen> {
    let (sender, receiver) = levels(observation);
    let (busy, workers, rate) = (observation.busy, observation.workers, observation.throughput);
    let arrived = utility::arrived(observation);
    let stage = |workers: f64, busy: f64, rate: f64, waits: bool| Seen {
        ran: workers,
        working: if busy > 0.0 { workers * busy } else { workers },
        rate: if rate.is_finite() && rate > 0.0 { rate } else { arrived },
        counted: Counted::InOrder,
        loss: None,
        loss_before: None,
        bound: if waits { Bound::AtLeast } else { Bound::Exact },
        lack: 0.0,
        time: pace::weight(observation.interval),
        queued: false,
        fills: None,
        cpu_bound: observation.cpu_bound,
        paced: Paced::No,
        half: None,
        room: None,
    };
    let reading = stage(workers.read, busy.read, rate.read, sender == Level::Full && busy.read >= ALWAYS);
    let blocked = receiver == Level::Full || (sender == Level::Empty && busy.network >= ALWAYS);
    let sending = stage(workers.network, busy.network, arrived, blocked);
    let writing = stage(workers.write, busy.write, rate.write, receiver == Level::Empty && busy.write >= ALWAYS);
    PerStage {
        read: reading,
        network: Seen { loss: observation.loss, loss_before: observation.loss_before, ..sending },
        write: writing,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Empty,
    Between,
    Full,
}

/// How full the buffers at the sender and at the receiver are.
fn levels(observation: &Observation) -> (Level, Level) {
    let level = |free: u64, capacity: u64| match free.saturating_mul(10) {
        _ if capacity == 0 => Level::Between,
        free if free <= capacity => Level::Full,
        free if free >= capacity.saturating_mul(9) => Level::Empty,
        _ => Level::Between,
    };
    let buffers = observation.buffer_free;
    (level(buffers.sender, buffers.sender_capacity), level(buffers.receiver, buffers.receiver_capacity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::{Buffers, Decision};

    fn observed(busy: (f64, f64, f64), free: (u64, u64)) -> Observation {
        let (read, network, write) = busy;
        Observation {
            busy: PerStage { read, network, write },
            buffer_free: Buffers { sender: free.0, receiver: free.1, sender_capacity: 100, receiver_capacity: 100 },
            ..Observation::of_a_test(Decision::uniform(10, ""), 1e8, 64)
        }
    }

    #[test]
    fn storage_limits_where_it_takes_most_of_the_workers_time() {
        assert_eq!(limiting(&observed((0.1, 0.8, 0.2), (50, 50))), None);
        assert_eq!(limiting(&observed((0.6, 0.4, 0.2), (50, 50))), Some(Storage::Source));
        assert_eq!(limiting(&observed((0.2, 0.8, 0.9), (50, 50))), Some(Storage::Destination));
        assert_eq!(limiting(&observed((0.0, 0.8, 0.9), (50, 50))), None, "a side without meters");
        assert_eq!(limiting(&observed((f64::NAN, 0.8, 0.9), (50, 50))), None);
    }

    #[test]
    fn where_all_are_always_busy_the_buffers_tell() {
        let always = (1.0, 1.0, 1.0);
        assert_eq!(limiting(&observed(always, (50, 2))), Some(Storage::Destination));
        assert_eq!(limiting(&observed(always, (99, 99))), Some(Storage::Source));
        assert_eq!(limiting(&observed(always, (2, 99))), None);
        let PerStage { read, network, write } = seen(&observed(always, (2, 2))).map(|seen| seen.bound);
        assert_eq!((read, network, write), (Bound::AtLeast, Bound::AtLeast, Bound::Exact));
        let PerStage { read, network, write } = seen(&observed(always, (99, 99))).map(|seen| seen.bound);
        assert_eq!((read, network, write), (Bound::Exact, Bound::AtLeast, Bound::AtLeast));
    }

    #[test]
    fn workers_of_their_own_are_never_as_many_as_streams() {
        assert_eq!([3, 7, 10, 20].map(|wanted| beside(wanted, 10, 64)), [10, 7, 11, 20]);
        assert_eq!(beside(10, 10, 10), 10);
    }

    #[test]
    fn where_readers_limit_they_get_the_workers_and_the_streams_become_fewer() {
        let mut network = Stage::new("streams");
        // Reading takes two thirds of the time of each of 19 streams, which fill a path of 1 GB/s.
        for (ran, rate) in [(4.0, 210e6), (12.0, 630e6), (19.0, 1e9), (24.0, 1e9), (19.0, 1e9)] {
            network.observe(&Seen::of(ran, rate));
        }
        let observation = observed((0.66, 0.33, 0.1), (50, 50));
        let mut apart = Apart::new(&mut network, Storage::Source, &observation, 1.0);
        let (next, reason) = apart.decide(&mut network, &observation.policy);
        assert!((11..=14).contains(&next.read) && (5..=8).contains(&next.network), "{next:?} {reason}");
        assert!(reason.contains("limits"), "{reason}");
    }
}
