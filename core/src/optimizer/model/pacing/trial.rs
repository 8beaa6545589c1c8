//! Tries to send streams that lose much only as fast as they get through.

use super::sent::{Found, State};
use super::{KEPT, LEFT, OTHER, Pacing, SLOWER, STEP};
use crate::optimizer::Beginning;
use crate::optimizer::model::joining::POLICED;
use crate::optimizer::model::stage::{LOSSY, MUCH};

/// How often a trial in which some was lost is repeated with what got through: while queues fill, more seems to than does.
const REPEATED: u8 = 2;

/// The same before its first interval: so many more may pass, if they are short, until what was lost before them is made up for.
const UNTRIED: u8 = REPEATED + 2;

/// The part of what they carried at which equal streams are paced: the queue that each has of its own is to go soon.
const SLOWER_ALONE: f64 = 0.93;

/// The share that streams which are restrained would have lost at least.
const RESTRAINED: f64 = 0.4;

impl Pacing {
    /// Begins a trial of what new streams get through, before anything else is known of them.
    pub(in super::super) fn restrain(&mut self, beginning: &Beginning) -> Option<u64> {
        let rate = SLOWER * beginning.rate / f64::from(beginning.streams.max(1));
        let again = beginning.fills && self.wait > 0.0;
        if !matches!(self.state, State::Free) || !rate.is_normal() || again {
            return None;
        }
        let lost = beginning.loss.max(RESTRAINED);
        (self.state, self.equal) = (State::Trying { rate, lost, more: UNTRIED, right: None }, false);
        self.rate()
    }

    /// Begins a trial of what each carried.
    pub(super) fn begin(&mut self) -> &'static str {
        // Where TCP itself slows down, they may carry less than they can in an interval that loses much.
        let slowed = self.is_steady() && matches!(self.state, State::Free);
        let carried = if slowed { self.before.each().max(self.last.each()) } else { self.last.each() };
        self.equal = self.is_equal();
        let part = if self.equal { SLOWER_ALONE } else { SLOWER };
        self.state = State::Trying { rate: part * carried, lost: self.last.lost(), more: UNTRIED, right: None };
        "seeing whether each loses less if it is sent no faster than it gets through"
    }

    /// What an interval of a trial says.
    pub(super) fn tried(&mut self, rate: f64, lost: f64, more: u8, before: Option<f64>) -> Found {
        let less = self.last.loss.is_some_and(|loss| loss < LEFT * lost);
        let right = less && self.last.each() >= KEPT * rate;
        let early = more > REPEATED && self.is_early();
        // Also what fills a queue is more than gets through; but those that share one may still be making up for what they have lost.
        let fast = self.last.lost() > LOSSY || less && self.last.queued && !self.last.uneven;
        let slower = if right { self.last.lost() > OTHER } else { fast && self.last.at_end() < SLOWER * rate };
        let right = right.then_some(rate).or(before);
        if right.is_none() && !slower && (self.fades() || early) {
            self.state = State::Trying { rate, lost, more: more - u8::from(early), right };
            return Found::Nothing;
        }
        let more = more.min(REPEATED);
        if more > 0 && slower {
            // An interval in which hardly anything was sent is no measure.
            let rate = (SLOWER * self.last.at_end()).clamp(LEFT * rate, SLOWER * rate);
            self.state = State::Trying { rate, lost, more: more - 1, right };
            return Found::Nothing;
        }
        let Some(rate) = right else {
            self.in_vain(State::Free);
            return Found::Nothing;
        };
        self.state = State::Paced { rate };
        self.begin_anew();
        // Where a queue stays, it may be that of a path which they fill.
        self.rates.own = self.equal && !self.last.queued;
        // A rate that was found in steps is what it lacked, and so is one without which that much was lost.
        let at_once = self.last.streams == 1 && more == REPEATED && lost < POLICED;
        self.alone = at_once && self.wait <= 0.0;
        // A little more than what was carried while much was lost may get through.
        (self.quiet, self.gap, self.step, self.lowered) = (self.last.time, 0.0, STEP.0, 0);
        Found::Calm
    }

    /// Whether ever less is lost, but still much: what was lost before is sent again, and counts when it is.
    fn fades(&self) -> bool {
        self.last.lost() > MUCH && self.last.lost() < KEPT * self.before.lost()
    }

    /// Whether what so short an interval lost may be what was sent before it.
    fn is_early(&self) -> bool {
        self.last.lost() > MUCH && self.last.time < 1.0
    }
}
