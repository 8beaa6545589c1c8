//! What was sent, what that says, and at which rate streams are.

use std::time::Duration;

use crate::optimizer::model::stage::MUCH;

/// The least part of what streams carried that they may get through at the end.
const LEAST_AT_END: f64 = 0.7;

/// What was sent in an interval.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Sent {
    pub(in super::super) streams: u16,
    /// Bytes per second of all streams.
    pub(in super::super) rate: f64,
    /// Lost share, where the system tells.
    pub(in super::super) loss: Option<f64>,
    /// The same of the time before the interval in which new streams found their rate.
    pub(in super::super) loss_before: Option<f64>,
    /// Bytes per second that all get through at its end, where the system tells.
    pub(in super::super) delivered: Option<f64>,
    /// Most bytes per second of each stream that was in effect.
    pub(in super::super) pacing: Option<u64>,
    /// What the interval counts for where time has to pass, 0 to 1.
    pub(in super::super) time: f64,
    /// Whether the round trip time is that of a queue.
    pub(in super::super) queued: bool,
    /// Whether several streams carried equally much, or plainly did not.
    pub(in super::super) even: bool,
    pub(in super::super) uneven: bool,
    /// The round trip time; 0 where the system does not tell.
    pub(in super::super) trip: Duration,
    /// The part of the interval that new streams may have spent below their rate, 0 to 1.
    pub(in super::super) lack: f64,
}

/// What an interval says of the number of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Found {
    /// As much as any.
    Usual,
    /// Also that some was lost until now, and what was says nothing any more.
    Calm,
    /// That each has a rate of its own, beyond which it lost what was lost.
    OwnRate,
    /// That there is no room for so many, and what these carry.
    Full,
    /// That there is room for so many, and not what these carry.
    Room,
    /// Nothing, for there were not as many as wanted to see whether there is room.
    Missed,
    /// Nothing: it was a trial of a pacing that is not right, or the first interval of fewer streams, which lose what those that left had put into
    /// queues.
    Nothing,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) enum State {
    /// As fast as TCP finds right.
    #[default]
    Free,
    /// So many bytes per second of each stream are tried, where this share was lost, also on while that fades, and so many times more if it is too
    /// fast, or loses much although it was right.
    Trying { rate: f64, lost: f64, more: u8, right: Option<f64> },
    /// At so many bytes per second little is lost.
    Paced { rate: f64 },
    /// More bytes per second than at which little is lost are tried.
    Raising { rate: f64, from: f64 },
    /// It is seen whether there is room for more streams.
    Looking(Look),
    /// As fast as TCP finds right is tried, where so many bytes per second were right.
    Freeing { from: f64 },
}

/// More streams, which are together sent a little faster than those before them were.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Bytes per second of each.
    pub(super) rate: f64,
    /// Those of all before them.
    pub(super) carried: f64,
    /// What each of those carried: of two intervals the less, unless it was far less.
    pub(super) each: f64,
    /// The limit of those, if they had one.
    pub(super) from: Option<f64>,
    /// How many there were, and how many there are to be.
    pub(super) streams: (u16, u16),
    /// Whether another interval is waited for.
    pub(super) again: bool,
}

/// The rate, and the fewest streams that had it, which come back unless the fewer streams that are sent faster carry as much together; and
/// whether these are known to be too few for that, although each carries far more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slower {
    pub(super) rate: f64,
    pub(super) fewest: u16,
    pub(super) fewer: u16,
    pub(super) too_few: bool,
}

impl Sent {
    pub(super) fn each(&self) -> f64 {
        self.rate / f64::from(self.streams.max(1))
    }

    /// Bytes per second of each, or what it gets through at the end where much was lost: before, it may have carried the burst that a limit of the
    /// path allows. Far less is what TCP sends while it makes up for that.
    pub(super) fn at_end(&self) -> f64 {
        let (each, delivered) = (self.each(), self.delivered.filter(|_| self.lost() > MUCH));
        delivered.map_or(each, |delivered| (delivered / f64::from(self.streams.max(1))).clamp(LEAST_AT_END * each, each))
    }

    pub(super) fn lost(&self) -> f64 {
        self.loss.unwrap_or(0.0)
    }

    /// Bytes per second that each stream is worth, which carries more than that by what it loses [Falcon eq. 4, with B = 10].
    pub(super) fn worth(&self) -> f64 {
        self.worth_losing(self.lost())
    }

    /// The same where only so much of what it loses counts.
    pub(super) fn worth_losing(&self, lost: f64) -> f64 {
        self.each() * (1.0 - lost / (2.0 * MUCH))
    }
}
