//! Paths for tests of the model: one stage with its knee, noise, losses, changes and neighbours, and three stages with their buffers.

use std::time::Duration;

use super::Model;
use crate::optimizer::pace::New;
use crate::optimizer::{Buffers, Decision, Observation, Optimizer, Pace, PerStage, Policy, PolicyName, Setup, utility};

/// A change of the path at the beginning of an interval: what of the capacity and of the rate of a stream is left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) at: u32,
    pub(super) capacity: f64,
    pub(super) stream: f64,
}

/// A path and how it is measured. Its law is that of the simulator, with the knee of the hypotheses.
#[derive(Debug, Clone)]
pub(super) struct Path {
    /// Bytes per second of a stream alone, and of all.
    pub(super) stream: f64,
    pub(super) capacity: f64,
    pub(super) knee: f64,
    pub(super) contention: f64,
    pub(super) base_loss: f64,
    pub(super) congestion_loss: f64,
    /// What each stream loses that is sent as fast as TCP finds right: it overflows a queue of its own.
    pub(super) unpaced_loss: f64,
    /// Round trip time, by which new streams find their rate.
    pub(super) rtt: Duration,
    /// How long intervals are.
    pub(super) pace: Pace,
    /// Growth in an interval of streams that take the place of others which have gone.
    pub(super) regrowth: f64,
    /// Relative standard deviation of what is measured, and the chance that it is half.
    pub(super) noise: f64,
    pub(super) outliers: f64,
    pub(super) changes: Vec<Change>,
}

impl Path {
    /// A clean path of 10 MB/s a stream that so many fill.
    pub(super) fn of_streams(best: f64) -> Self {
        Self {
            stream: 10e6,
            capacity: 10e6 * best,
            knee: 100.0,
            contention: 0.0,
            base_loss: 0.0,
            congestion_loss: 0.0,
            unpaced_loss: 0.0,
            rtt: Duration::ZERO,
            pace: Pace::Usual,
            regrowth: f64::INFINITY,
            noise: 0.0,
            outliers: 0.0,
            changes: Vec::new(),
        }
    }

    /// What so many streams move beside so many of others, and the share of it that is lost.
    pub(super) fn moves(&self, interval: u32, own: f64, others: f64) -> (f64, f64) {
        let (mut capacity, mut stream) = (self.capacity, self.stream);
        for change in self.changes.iter().filter(|change| interval >= change.at) {
            (capacity, stream) = (self.capacity * change.capacity, self.stream * change.stream);
        }
        let all = own + others;
        let load = all * stream / capacity;
        let over = (load - 1.0).max(0.0);
        let used = capacity * load * (1.0 + load.powf(self.knee)).powf(-1.0 / self.knee) / (1.0 + self.contention * over);
        let loss = (self.base_loss + self.congestion_loss * over).min(0.9);
        (used * own / all * (1.0 - loss), loss)
    }

    /// The part of an interval that a new stream loses while its window doubles from ten segments on, each round trip: some are over when
    /// the interval begins, and what is sent in the others is worth one.
    fn lost_by_new(&self, first: bool) -> f64 {
        let rtt_s = self.rtt.as_secs_f64();
        let ramp = |new| Pace::Quick.ramp(self.rtt, new, self.pace.interval(self.rtt, false), None);
        let waited = if first { ramp(New::None) + ramp(New::First) } else { ramp(New::Some) };
        let found_s = ((self.stream * rtt_s / 14_480.0).log2() - 1.0) * rtt_s;
        (found_s - waited.as_secs_f64()).max(0.0) / self.pace.interval(self.rtt, false).as_secs_f64()
    }

    /// The highest utility of a constant number of streams in an interval.
    pub(super) fn best(&self, interval: u32, policy: &Policy) -> f64 {
        let utility = |n: u16| {
            let (rate, loss) = self.moves(interval, f64::from(n), 0.0);
            utility::utility(rate, f64::from(n), Some(loss), policy)
        };
        (1..=policy.limit.network).map(utility).fold(f64::MIN_POSITIVE, f64::max)
    }
}

/// A generator of random numbers with a seed (xorshift).
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The sum of twelve uniform numbers less its mean, which is normal enough.
    pub(super) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// What a run was like.
#[derive(Debug, Clone, Default)]
pub(super) struct Run {
    pub(super) streams: Vec<u16>,
    /// Utility of each interval, as a share of the best that was possible in it.
    pub(super) utilities: Vec<f64>,
}

impl Run {
    /// The mean utility of some intervals.
    pub(super) fn mean(&self, intervals: std::ops::Range<usize>) -> f64 {
        let part = &self.utilities[intervals];
        part.iter().sum::<f64>() / part.len() as f64
    }

    /// The first interval from which on the mean utility of the next ten is at least 0.9.
    pub(super) fn converged(&self) -> usize {
        (0..self.utilities.len() - 10).find(|from| self.mean(*from..from + 10) >= 0.9).unwrap_or(usize::MAX)
    }
}

/// One transfer on a path, whose neighbours may come and go.
pub(super) struct Transfer {
    optimizer: Box<dyn Optimizer>,
    pub(super) next: Decision,
    pub(super) policy: Policy,
    /// Streams of the interval before, and what each moved.
    before: f64,
    each: f64,
    random: Random,
}

impl Transfer {
    pub(super) fn new(mut optimizer: Box<dyn Optimizer>, limit: u16, seed: u64) -> Self {
        let policy = Policy::new(PolicyName::Fair, limit);
        let next = optimizer.start(&policy);
        Self { optimizer, next, policy, before: 0.0, each: f64::INFINITY, random: Random::new(seed) }
    }

    pub(super) fn streams(&self) -> u16 {
        self.next.concurrency.network
    }

    /// Lets an interval pass beside so many streams of others; answers bytes per second and the lost share.
    pub(super) fn pass(&mut self, path: &Path, interval: u32, others: f64) -> (f64, f64) {
        let streams = f64::from(self.streams());
        let before = std::mem::replace(&mut self.before, streams);
        let missing = path.lost_by_new(before == 0.0) * (streams - before).max(0.0);
        let paced = self.next.pacing.map_or(path.stream, |pacing| path.stream.min(pacing as f64));
        let unpaced_loss = if self.next.pacing.is_some() && paced < path.stream { 0.0 } else { path.unpaced_loss };
        let base_loss = path.base_loss + unpaced_loss;
        let (rate, loss) = Path { stream: paced, base_loss, ..path.clone() }.moves(interval, streams - missing, others);
        let rate = if streams > before { rate } else { rate.min(path.regrowth * self.each * streams) };
        self.each = rate / streams;
        let wild = if self.random.uniform() < path.outliers { 0.5 } else { 1.0 };
        let measured = rate * wild * (path.noise * self.random.normal() - path.noise * path.noise / 2.0).exp();
        let observation = Observation {
            elapsed: Duration::from_secs(u64::from(interval) + 1),
            interval: path.pace.interval(path.rtt, false),
            rtt: Some(path.rtt).filter(|rtt| !rtt.is_zero()),
            loss: Some(loss),
            policy: self.policy,
            ..Observation::of_a_test(self.next.clone(), measured, self.policy.limit.network)
        };
        self.next = self.optimizer.decide(&observation).expect("it answers everything");
        assert!(!self.next.reason.is_empty());
        (rate, loss)
    }
}

/// Transfers by the model that share a path, of which each begins and may end at some interval: Jain's index of their goodputs between
/// two changes, from ten intervals after the first, and the streams of all together, as a multiple of those that fill the path.
pub(super) fn together(path: &Path, spans: &[(u32, u32)], intervals: u32, seed: u64) -> Vec<(f64, f64)> {
    let mut transfers: Vec<Transfer> = (0..).zip(spans).map(|(at, _)| Transfer::new(model(), 64, seed + 100 * at)).collect();
    let mut changes: Vec<u32> = spans.iter().flat_map(|span| [span.0, span.1]).filter(|at| *at < intervals).collect();
    changes.sort_unstable();
    let mut found = Vec::new();
    for (from, to) in changes.iter().zip(changes.iter().skip(1).chain([&intervals])) {
        let (mut goodputs, mut streams) = (vec![0.0; spans.len()], 0.0);
        for interval in *from..*to {
            let there = |at: usize| (spans[at].0..spans[at].1).contains(&interval);
            let counts: Vec<f64> =
                transfers.iter().enumerate().map(|(at, one)| if there(at) { f64::from(one.streams()) } else { 0.0 }).collect();
            let all: f64 = counts.iter().sum();
            for (at, transfer) in transfers.iter_mut().enumerate().filter(|(at, _)| there(*at)) {
                let (rate, _) = transfer.pass(path, interval, all - counts[at]);
                goodputs[at] += if interval >= from + 10 { rate } else { 0.0 };
            }
            streams += if interval >= from + 10 { all * path.stream / path.capacity } else { 0.0 };
        }
        goodputs.retain(|goodput| *goodput > 0.0);
        found.push((jain(&goodputs), streams / f64::from((to - from).saturating_sub(10).max(1))));
    }
    found
}

/// Jain's index of fairness: 1 where all get the same.
fn jain(goodputs: &[f64]) -> f64 {
    let squares: f64 = goodputs.iter().map(|goodput| goodput * goodput).sum();
    goodputs.iter().sum::<f64>().powi(2) / (goodputs.len() as f64 * squares)
}

/// The model, where nothing is known.
pub(super) fn model() -> Box<dyn Optimizer> {
    Box::new(Model::new(&Setup::of_a_test()))
}

/// So many intervals of an optimizer alone on a path.
pub(super) fn run(optimizer: Box<dyn Optimizer>, path: &Path, intervals: u32, seed: u64) -> Run {
    let mut transfer = Transfer::new(optimizer, 64, seed);
    let mut run = Run::default();
    for interval in 0..intervals {
        let streams = transfer.streams();
        let (rate, loss) = transfer.pass(path, interval, 0.0);
        let utility = utility::utility(rate, f64::from(streams), Some(loss), &transfer.policy);
        run.streams.push(streams);
        run.utilities.push(utility / path.best(interval, &transfer.policy));
    }
    run
}

/// Reading, sending and writing, as the engine does them: in turn by one worker where there are equally many, beside each other otherwise.
pub(super) struct Stages {
    /// Bytes per second of one worker of each stage.
    pub(super) worker: PerStage<f64>,
    pub(super) capacity: f64,
}

impl Stages {
    /// What is observed once the buffers between the stages are as full as they get.
    pub(super) fn observe(&self, applied: Decision, limit: u16) -> Observation {
        let workers = applied.concurrency.map(f64::from);
        let PerStage { read, network, write } = self.worker;
        let fused = applied.concurrency.read == applied.concurrency.network;
        let source = workers.read * read;
        let sending = workers.network * if fused { 1.0 / (1.0 / read + 1.0 / network) } else { network };
        let writing = workers.write * write;
        let rate = source.min(sending).min(writing).min(self.capacity);
        let blocked = writing <= rate;
        let sends = if fused && blocked { 1.0 - rate / source } else { rate / (workers.network * network) };
        let sends = if !fused && (blocked || self.capacity <= rate) { 1.0 } else { sends };
        let full = |full: bool| if full { 0 } else { 1000 };
        Observation {
            busy: PerStage { read: rate / source, network: sends, write: rate / writing },
            buffer_free: Buffers {
                sender: full(!fused && source > rate),
                receiver: full(blocked),
                sender_capacity: 1000,
                receiver_capacity: 1000,
            },
            ..Observation::of_a_test(applied, rate, limit)
        }
    }
}
