//! What an optimizer sees of an interval.

use std::time::Duration;

use serde::Serialize;

use super::{Decision, Listed, PerStage, Policy};
#[cfg(test)]
use super::{PolicyName, pace};

/// What was observed during one interval, all of it but `loss_before` after the last decision had taken effect.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observation {
    /// Seconds since the transfer began, at the end of the interval.
    pub elapsed: Duration,
    /// Length of the interval.
    pub interval: Duration,
    /// What was in effect during the interval, as measured: never what was merely requested.
    pub applied: Decision,
    /// Time-averaged workers of each stage; `applied` has them rounded.
    pub workers: PerStage<f64>,
    /// Bytes per second out of each stage.
    pub throughput: PerStage<f64>,
    /// Share of their time, 0 to 1, that the workers of each stage spent working rather than waiting for a neighbour stage.
    pub busy: PerStage<f64>,
    /// Smoothed round trip time, averaged over streams; `None` where the system does not tell.
    pub rtt: Option<Duration>,
    /// Retransmitted share of the segments sent; `None` where the system does not tell.
    pub loss: Option<f64>,
    /// The same of the time since the last decision before it, in which new streams find their windows, if anything was sent.
    pub loss_before: Option<f64>,
    /// Bytes per second that the streams get through by their latest round trips, where the system tells.
    #[serde(skip)]
    pub delivery_rate: Option<f64>,
    /// The same of the whole interval: what the peer's kernel got, also beyond the gaps of what was lost.
    #[serde(skip)]
    pub received: Option<f64>,
    /// Whether streams are known to be sent ever faster until a queue overflows.
    #[serde(skip)]
    pub fills_queues: bool,
    /// The standard deviation of what each stream got through, as a part of the mean, of the closest three quarters of them; `None` where the
    /// system does not tell, where some did not run all the time or got little through, and of fewer than two.
    #[serde(skip)]
    pub spread: Option<f64>,
    /// Free bytes of the buffers at both ends.
    pub buffer_free: Buffers,
    /// Bytes not yet sent; `None` while listing goes on.
    pub bytes_left: Option<u64>,
    /// Files not yet sent; `None` while listing goes on.
    pub files_left: Option<u64>,
    /// The files that were listed so far.
    pub listed: Listed,
    /// Whether a rate that other transfers of this host share, or its change, is what limited: then the interval says nothing of its setting.
    pub held_back: bool,
    /// Whether this program kept the processors of its host busy nearly all of the time, by itself or with others: more workers would only
    /// wait for them. Never where the system does not tell, nor in a program that has other work too.
    pub cpu_bound: bool,
    /// Bytes of the pieces in which what is left is taken to the end; `None` where they are cut as fine as streams need them.
    #[serde(skip)]
    pub work_unit: Option<u64>,
    /// Bytes that a new stream sends in its first round trip.
    #[serde(skip)]
    pub first_window: f64,
    /// What limits this transfer.
    pub policy: Policy,
}

#[cfg(test)]
impl Observation {
    /// A second of so many bytes per second in all stages, under a fair policy with so many workers at most.
    pub(crate) fn of_a_test(applied: Decision, throughput: f64, limit: u16) -> Self {
        Self {
            elapsed: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            workers: applied.concurrency.map(f64::from),
            applied,
            throughput: PerStage::all(throughput),
            busy: PerStage::all(1.0),
            rtt: None,
            loss: None,
            loss_before: None,
            delivery_rate: None,
            received: None,
            fills_queues: false,
            spread: None,
            buffer_free: Buffers::default(),
            bytes_left: None,
            files_left: None,
            listed: Listed::default(),
            held_back: false,
            cpu_bound: false,
            work_unit: None,
            first_window: pace::FIRST_WINDOW,
            policy: Policy::new(PolicyName::Fair, limit),
        }
    }
}

/// Free and total bytes of the buffers between the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Buffers {
    /// Free bytes between read and network, at the sender.
    pub sender: u64,
    /// Free bytes between network and write, at the receiver.
    pub receiver: u64,
    /// Size of the sender's buffer.
    pub sender_capacity: u64,
    /// Size of the receiver's buffer.
    pub receiver_capacity: u64,
}
