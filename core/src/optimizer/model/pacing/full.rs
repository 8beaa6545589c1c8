//! Sees that paced streams fill the path: a queue comes with more of them, and each carries less than those before them did. A queue that each
//! has of its own would leave each what it carried.

use std::time::Duration;

use super::{Pacing, State};
use crate::optimizer::model::stage::LOSSY;
use crate::optimizer::setting::whole;

/// The part of what they usually carry at their pacing below which it is less.
pub(super) const LESS: f64 = 0.98;

/// By how much the round trip time becomes longer with a queue, and by how much more.
const LONGER: f64 = 1.1;
const JITTER: Duration = Duration::from_millis(2);

/// How many times as much without a queue shows that it is no longer full, unless half of what was beyond it does.
const MORE: f64 = 1.08;

/// What may be sent, as a multiple of what a full path carried.
const BEYOND: f64 = 1.03;

/// The part of their pacing from which on fewer streams carry less than more of them.
const NEARLY: f64 = 0.75;

/// What filled the path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Full {
    /// Bytes per second that all were sent at most, that they carried then, and the most that was carried until now.
    sent: f64,
    filled: f64,
    carried: f64,
    /// The round trip time without the queue that came with them.
    trip: Duration,
    /// What those before them carried, if the others were new and may have carried less than they do.
    new: Option<f64>,
}

impl Full {
    /// Whether so many streams of this pacing are sent as much, but for rounding.
    fn is_reached(self, streams: u16, rate: f64) -> bool {
        f64::from(streams) * rate >= LESS * self.sent
    }
}

impl Pacing {
    /// Takes what streams that stay paced carried.
    pub(super) fn fill(&mut self, rate: f64) {
        let (sent, before) = (self.last, self.before);
        let (lossy, all) = (sent.lost() > LOSSY, f64::from(sent.streams) * rate);
        let queue = |without: Duration| sent.trip > without.mul_f64(LONGER) + JITTER;
        let came = sent.streams > before.streams && !before.trip.is_zero() && queue(before.trip);
        // What came after something that was lost has not arrived yet.
        let whole = |carried: f64| if lossy { f64::midpoint(carried, all * (1.0 - sent.lost())) } else { carried };
        if came && sent.each() < LESS * self.part * rate {
            let lacked = sent.lack * (1.0 - f64::from(before.streams) / f64::from(sent.streams));
            let least = self.part * f64::from(before.streams) * rate;
            let filled = whole((sent.rate / (1.0 - lacked)).min(all)).max(least);
            let new = (lacked > 0.0).then_some(least);
            self.full = Some(Full { sent: all, carried: filled, filled, trip: before.trip, new });
            return;
        }
        let Some(full) = &mut self.full else { return };
        if let Some(least) = full.new.take_if(|_| queue(full.trip) && sent.each() < LESS * self.part * rate) {
            full.filled = whole(sent.rate).max(least).min(full.filled);
            full.carried = full.filled;
            return;
        }
        if lossy || before.lost() > LOSSY {
            return;
        }
        full.carried = full.carried.max(sent.rate);
        // What a path carries that has become longer meanwhile has no queue either.
        let much = f64::midpoint(full.filled, self.part * full.sent).min(MORE * full.filled);
        if sent.rate > much && !queue(full.trip) || sent.rate >= LESS * self.part * full.sent {
            self.full = None;
        }
    }

    /// Whether streams that were sent so many times faster would be sent more than a full path carries.
    pub(super) fn would_fill(&self, faster: f64) -> bool {
        let State::Paced { rate } = self.state else { return false };
        let all = f64::from(self.last.streams) * rate;
        let fills = |full: Full| faster * self.part * all > BEYOND * full.carried;
        self.full.is_some_and(|full| full.is_reached(self.last.streams, rate) || fills(full))
    }

    /// Whether as much is sent as filled the path.
    pub(super) fn is_full(&self) -> bool {
        self.would_fill(0.0)
    }

    /// The most streams that the path carries, as far as is known, where each has a rate of its own and carries nearly that, or as much is sent
    /// as filled the path.
    pub(in super::super) fn room(&self) -> Option<u16> {
        let State::Paced { rate } = self.state else { return None };
        let full = self.full.filter(|_| self.rates.own && (self.is_full() || self.last.each() > NEARLY * rate))?;
        Some(whole((BEYOND * full.carried / (self.part * rate)).floor()).max(1))
    }

    /// The path carries more than before.
    pub(in super::super) fn has_grown(&mut self) {
        self.full = None;
    }
}
