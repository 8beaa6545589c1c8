//! From cumulative counters of the two halves to rates and to what an optimizer sees.

use std::collections::HashMap;
use std::time::Duration;

use crate::metrics::held_back::is_held_back;
use crate::metrics::{Processors, listed};
use crate::optimizer::pace::FIRST_WINDOW;
use crate::optimizer::{Buffers, Decision, Listed, Observation, PerStage, Policy};
use crate::protocol::message::{Meters, RateMeters, StageMeters, TcpMeters};

/// Segments of a first window, and bytes of the smallest and the largest that there are.
const SEGMENTS: f64 = 10.0;
const SEGMENT: (f64, f64) = (536.0, 65_536.0);

/// Most streams that are compared; of more nothing is told.
const MOST_TOLD: usize = 4096;

/// The fewest segments of each of them, in the mean, of which one more or less is little.
const TELLING: f64 = 12.0;

/// The same of all that are compared: few are equal by chance where each got little through.
const TELLING_ALL: f64 = 48.0;

/// Cumulative counters of both halves at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// The stages; network as the sender counts it.
    pub stages: PerStage<StageSample>,
    /// The network stage as the receiver counts it: what arrived.
    pub arrived: StageSample,
    /// TCP counters of the sender's streams.
    pub tcp: Option<TcpMeters>,
    /// The number of each of its open streams, and the segments that it got through.
    pub delivered: Vec<(u16, u64)>,
    /// Free buffer at both ends.
    pub buffers: Buffers,
    /// Bytes not yet sent; `None` while listing goes on.
    pub bytes_left: Option<u64>,
    /// Files not yet sent; `None` while listing goes on.
    pub files_left: Option<u64>,
    /// The files to be sent that were listed so far.
    pub listed: Listed,
    /// What a rate that transfers of the sender's host share does to its streams; `None` where there is none.
    pub host_rate: Option<RateMeters>,
    /// As in [`Observation::work_unit`].
    pub work_unit: Option<u64>,
    /// The processors of this host; `None` where the system does not tell.
    pub processors: Option<Processors>,
}

/// Cumulative counters of one stage, stamped with the clock of the half they come from: two halves share no clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageSample {
    /// When, on the clock of the half.
    pub at: Duration,
    /// Bytes out of the stage.
    pub bytes: u64,
    /// Worker time spent working.
    pub busy: Duration,
    /// Worker time in existence.
    pub workers_time: Duration,
    /// Workers at that moment.
    pub workers: u16,
}

/// What happened between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Time between the samples, on the sender's clock.
    pub interval: Duration,
    /// Bytes per second out of each stage.
    pub throughput: PerStage<f64>,
    /// Time-averaged workers of each stage.
    pub concurrency: PerStage<f64>,
    /// Share of their time that the workers of each stage worked, 0 to 1.
    pub busy: PerStage<f64>,
    /// Round trip time at the end, if the system tells.
    pub rtt: Option<Duration>,
    /// Retransmitted share of the segments sent, 0 to 1, if the system tells and any were sent.
    pub loss: Option<f64>,
    /// As in [`Observation::cpu_bound`].
    pub cpu_bound: bool,
}

impl Sample {
    /// Joins the meters of the two halves.
    pub fn from_halves(sender: &Meters, receiver: &Meters) -> Self {
        Self {
            stages: PerStage {
                read: StageSample::new(sender.at_us, sender.read),
                network: StageSample::new(sender.at_us, sender.network),
                write: StageSample::new(receiver.at_us, receiver.write),
            },
            arrived: StageSample::new(receiver.at_us, receiver.network),
            tcp: sender.tcp,
            delivered: sender.delivered.as_ref().filter(|all| all.len() <= MOST_TOLD).cloned().unwrap_or_default(),
            buffers: Buffers {
                sender: sender.buffer_free,
                receiver: receiver.buffer_free,
                sender_capacity: sender.buffer_capacity,
                receiver_capacity: receiver.buffer_capacity,
            },
            bytes_left: sender.bytes_left,
            files_left: sender.files_left,
            listed: listed::understood(sender.listed.as_ref()),
            host_rate: sender.host_rate,
            work_unit: None,
            processors: None,
        }
    }

    /// Smoothed round trip time, if the system tells.
    pub fn rtt(&self) -> Option<Duration> {
        self.tcp.map(|tcp| Duration::from_micros(tcp.rtt_us)).filter(|rtt| !rtt.is_zero())
    }

    /// Bytes per second that the streams get through by their latest round trips, if the system tells.
    pub fn delivery_rate(&self) -> Option<f64> {
        self.tcp.map(|tcp| tcp.delivery_rate as f64).filter(|rate| *rate > 0.0)
    }

    /// As in [`Observation::received`].
    fn received_since(&self, before: &Self) -> Option<f64> {
        let passed = self.stages.network.at.checked_sub(before.stages.network.at).filter(|passed| !passed.is_zero())?;
        // A sum that fell lacks what a stream did not tell at its end.
        let bytes = self.tcp?.received?.checked_sub(before.tcp?.received?)?;
        Some(bytes as f64 / passed.as_secs_f64())
    }

    /// As in [`Observation::spread`].
    fn spread_since(&self, before: &Self) -> Option<f64> {
        let then: HashMap<u16, u64> = before.delivered.iter().copied().collect();
        let passed = self.delivered.iter().map(|(stream, now)| Some(now.checked_sub(*then.get(stream)?)? as f64));
        let passed = passed.collect::<Option<Vec<f64>>>().filter(|_| then.len() == self.delivered.len())?;
        spread(passed)
    }

    /// Bytes that a new stream sends in its first round trip: ten segments [RFC 6928], as large as those that were sent, or of an Ethernet frame where
    /// the system does not tell.
    pub fn first_window(&self) -> f64 {
        let segments = self.tcp.map_or(0, |tcp| tcp.segments) as f64;
        let each = self.arrived.bytes as f64 / segments;
        if each > 0.0 && each.is_finite() { SEGMENTS * each.clamp(SEGMENT.0, SEGMENT.1) } else { FIRST_WINDOW }
    }

    /// The rates from an earlier sample to this one.
    ///
    /// A half that sent no new meters in between borrows the throughput of its neighbour stage.
    pub fn since(&self, before: &Self) -> Rates {
        let (old, new) = (&before.stages, &self.stages);
        let put = new.network.throughput_since(&old.network);
        let arrived = self.arrived.throughput_since(&before.arrived).filter(|_| self.arrived.bytes > 0);
        let network = arrived.or(put);
        Rates {
            interval: new.network.at.saturating_sub(old.network.at),
            throughput: PerStage {
                read: new.read.throughput_since(&old.read).or(network).unwrap_or(0.0),
                network: network.unwrap_or(0.0),
                write: new.write.throughput_since(&old.write).or(network).unwrap_or(0.0),
            },
            concurrency: pairs(old, new, |before, after| after.concurrency_since(before)),
            busy: pairs(old, new, |before, after| after.busy_since(before)),
            rtt: self.rtt(),
            loss: loss(before.tcp, self.tcp),
            cpu_bound: self.processors.zip(before.processors).is_some_and(|(now, then)| now.busy_since(&then)),
        }
    }
}

impl StageSample {
    fn new(at_us: u64, meters: StageMeters) -> Self {
        Self {
            at: Duration::from_micros(at_us),
            bytes: meters.bytes,
            busy: Duration::from_micros(meters.busy_us),
            workers_time: Duration::from_micros(meters.workers_us),
            workers: meters.workers,
        }
    }

    fn throughput_since(&self, before: &Self) -> Option<f64> {
        let passed = self.at.checked_sub(before.at).filter(|passed| !passed.is_zero())?;
        Some(self.bytes.saturating_sub(before.bytes) as f64 / passed.as_secs_f64())
    }

    fn concurrency_since(&self, before: &Self) -> f64 {
        let passed = self.at.saturating_sub(before.at);
        if passed.is_zero() {
            return f64::from(self.workers);
        }
        self.workers_time.saturating_sub(before.workers_time).as_secs_f64() / passed.as_secs_f64()
    }

    fn busy_since(&self, before: &Self) -> f64 {
        let existed = self.workers_time.saturating_sub(before.workers_time);
        if existed.is_zero() {
            return 0.0;
        }
        (self.busy.saturating_sub(before.busy).as_secs_f64() / existed.as_secs_f64()).min(1.0)
    }
}

/// The standard deviation of the closest three quarters of so many counts, as a part of their mean and less that of one, which chance makes;
/// `None` of fewer than two, and of so little that one makes much.
fn spread(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    let most = all.len() - all.len() / 4;
    let relative = |some: &[f64]| {
        let mean = some.iter().sum::<f64>() / some.len() as f64;
        if mean < TELLING.max(TELLING_ALL / some.len() as f64) {
            return f64::NAN;
        }
        let squares: f64 = some.iter().map(|one| (one - mean).powi(2)).sum();
        (squares / (some.len() as f64 - 1.0) - 1.0).max(0.0).sqrt() / mean
    };
    let spreads = all.windows(most.max(2)).map(relative).filter(|spread| spread.is_finite());
    spreads.reduce(f64::min)
}

/// What an optimizer sees of the time between two samples. Its concurrency is the one that was applied, as measured; of
/// `requested` only the limits within streams and files are taken, which have no meter.
pub fn observe(before: &Sample, after: &Sample, elapsed: Duration, requested: &Decision, policy: &Policy) -> Observation {
    let rates = after.since(before);
    Observation {
        elapsed,
        interval: rates.interval,
        applied: Decision { concurrency: rates.concurrency.map(rounded), ..requested.clone() },
        workers: rates.concurrency,
        throughput: rates.throughput,
        busy: rates.busy,
        rtt: rates.rtt,
        loss: rates.loss,
        loss_before: None,
        delivery_rate: after.delivery_rate(),
        received: after.received_since(before),
        fills_queues: after.tcp.is_some_and(|tcp| tcp.fills_queues == Some(true)),
        spread: after.spread_since(before),
        buffer_free: after.buffers,
        bytes_left: after.bytes_left,
        files_left: after.files_left,
        listed: after.listed.clone(),
        held_back: is_held_back(before, after, &rates),
        cpu_bound: rates.cpu_bound,
        work_unit: after.work_unit,
        first_window: after.first_window(),
        policy: *policy,
    }
}

fn loss(before: Option<TcpMeters>, after: Option<TcpMeters>) -> Option<f64> {
    // There may have been no stream before.
    let (before, after) = (before.unwrap_or_default(), after?);
    let sent = after.segments.saturating_sub(before.segments);
    let again = after.retransmitted.saturating_sub(before.retransmitted);
    (sent > 0).then(|| (again as f64 / sent as f64).min(1.0))
}

fn rounded(concurrency: f64) -> u16 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = concurrency.round().clamp(0.0, f64::from(u16::MAX)) as u16;
    whole
}

fn pairs(
    old: &PerStage<StageSample>,
    new: &PerStage<StageSample>,
    f: impl Fn(&StageSample, &StageSample) -> f64,
) -> PerStage<f64> {
    PerStage { read: f(&old.read, &new.read), network: f(&old.network, &new.network), write: f(&old.write, &new.write) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::PolicyName;
    use crate::protocol::message::ListedFiles;

    const SECOND_US: u64 = 1_000_000;

    fn stage(bytes: u64, busy_us: u64, workers_us: u64) -> StageMeters {
        StageMeters { bytes, busy_us, workers_us, workers: 4 }
    }

    fn half(at_us: u64, scale: u64) -> Meters {
        let one = stage(1000 * scale, SECOND_US * scale, 4 * SECOND_US * scale);
        Meters { at_us, read: one, network: one, write: one, ..Meters::default() }
    }

    fn halves(sender: &Meters, receiver: &Meters) -> Sample {
        Sample::from_halves(sender, receiver)
    }

    #[test]
    fn streams_are_told_to_be_equal_if_they_ran_all_the_time() {
        let sample = |delivered: &[(u16, u64)]| Sample { delivered: delivered.to_vec(), ..Sample::default() };
        let spread = |before: &[(u16, u64)], after: &[(u16, u64)]| sample(after).spread_since(&sample(before));
        let before = [(1, 100), (2, 50), (7, 0)];
        assert_eq!(spread(&before, &[(7, 500), (2, 550), (1, 600)]), Some(0.0));
        let unequal = spread(&before, &[(1, 1100), (2, 2050), (7, 3000)]).unwrap();
        assert!((unequal - 0.5).abs() < 1e-6, "{unequal}");
        // One that came, one that went, one that began anew, one alone, and none that got anything through.
        for after in
            [&[(1, 600), (2, 550), (7, 500), (8, 500)][..], &[(1, 600), (2, 550)], &[(1, 90), (2, 550), (7, 500)], &before]
        {
            assert_eq!(spread(&before, after), None, "{after:?}");
        }
        assert_eq!((spread(&[(1, 1)], &[(1, 9)]), spread(&[], &[])), (None, None));
        // Some may be making up for what they have lost.
        let begun = [1, 2, 3, 4].map(|stream| (stream, 0));
        assert_eq!(spread(&begun, &[(1, 500), (2, 30), (3, 500), (4, 500)]), Some(0.0));
        assert_eq!(spread(&begun, &[(1, 10), (2, 11), (3, 9), (4, 10)]), None, "one makes much of so few");
        assert_eq!(spread(&begun, &[(1, 12), (2, 13), (3, 12), (4, 12)]), None, "and of few streams");
        let many = |segments| (0..12).map(|stream| (stream, segments)).collect::<Vec<_>>();
        assert_eq!(spread(&many(0), &many(12)), Some(0.0));
    }

    #[test]
    fn what_was_received_is_a_rate_by_the_clock_of_the_sender_unless_its_sum_fell() {
        let sample = |second: u64, received: Option<u64>| {
            let tcp = Some(TcpMeters { received, ..TcpMeters::default() });
            halves(&Meters { tcp, ..half(second * SECOND_US, second) }, &half(7, 1))
        };
        let before = sample(3, Some(1000));
        let since = |after: Sample| after.received_since(&before);
        assert_eq!((since(sample(5, Some(5000))), since(sample(5, Some(900)))), (Some(2000.0), None));
        assert_eq!((since(sample(5, None)), since(sample(3, Some(5000))), since(Sample::default())), (None, None, None));
    }

    #[test]
    fn each_half_is_timed_by_its_own_clock() {
        let before = halves(&half(5 * SECOND_US, 1), &half(900 * SECOND_US, 1));
        let after = halves(&half(6 * SECOND_US, 2), &half(902 * SECOND_US, 2));
        let rates = after.since(&before);
        assert_eq!(rates.throughput, PerStage { read: 1000.0, network: 500.0, write: 500.0 });
        assert_eq!(rates.concurrency, PerStage { read: 4.0, network: 4.0, write: 2.0 });
        assert_eq!(rates.busy, PerStage::all(0.25));
        assert_eq!(rates.interval, Duration::from_secs(1));
    }

    #[test]
    fn a_half_without_news_borrows_from_its_neighbour() {
        let stale = half(900 * SECOND_US, 1);
        let rates = halves(&half(2 * SECOND_US, 2), &stale).since(&halves(&half(SECOND_US, 1), &stale));
        assert_eq!(rates.throughput, PerStage::all(1000.0));
    }

    #[test]
    fn an_observation_carries_the_applied_concurrency_and_not_the_requested_one() {
        let before = halves(&half(SECOND_US, 1), &half(SECOND_US, 1));
        let listed = Some(ListedFiles { classes: vec![(20, 3, 3 << 20)], complete: true });
        let after = halves(&Meters { listed, ..half(2 * SECOND_US, 2) }, &half(2 * SECOND_US, 2));
        let requested = Decision { pipelining: 7, ..Decision::uniform(60, "wish") };
        let policy = Policy::new(PolicyName::Fair, 64);
        let observation = observe(&before, &after, Duration::from_secs(9), &requested, &policy);
        assert_eq!(observation.applied.concurrency, PerStage::all(4));
        assert_eq!((observation.applied.pipelining, observation.elapsed), (7, Duration::from_secs(9)));
        assert_eq!((observation.listed.files(), observation.listed.complete), (3, true));
    }

    #[test]
    fn a_first_window_is_of_ten_segments_as_large_as_those_that_were_sent() {
        let of = |arrived: u64, segments: u64| {
            let tcp = Some(TcpMeters { segments, ..TcpMeters::default() });
            Sample { arrived: StageSample { bytes: arrived, ..StageSample::default() }, tcp, ..Sample::default() }.first_window()
        };
        let windows = [(0, 0), (5, 0), (0, 5), (100 * 8948, 100), (100, 100), (u64::MAX, 1)].map(|(bytes, sent)| of(bytes, sent));
        assert!(
            windows
                .iter()
                .zip([14_480.0, 14_480.0, 14_480.0, 89_480.0, 5360.0, 655_360.0])
                .all(|(is, due)| (is - due).abs() < 1e-6)
        );
        assert!((Sample::default().first_window() - 14_480.0).abs() < 1e-6);
    }

    #[test]
    fn loss_is_a_share_and_never_negative_and_unknown_without_segments() {
        let tcp = |segments, retransmitted| Some(TcpMeters { segments, retransmitted, ..TcpMeters::default() });
        assert_eq!(loss(tcp(100, 1), tcp(200, 3)), Some(0.02));
        assert_eq!(loss(tcp(100, 5), tcp(200, 3)), Some(0.0));
        assert_eq!(loss(tcp(100, 5), tcp(100, 5)), None);
        assert_eq!((loss(None, tcp(100, 5)), loss(tcp(100, 5), None)), (Some(0.05), None));
    }
}
