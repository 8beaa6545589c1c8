//! Fewer streams than have had a pacing are sent faster: where all share one rate, they carry it all, and where each has a rate of its own they do
//! not.

use super::full::LESS;
use super::sent::{Found, Slower, State};
use super::{CARRIED, Pacing, SLOWER};
use crate::optimizer::model::stage::LOSSY;

/// How many of such streams one of them may be enough for.
const FEWER: u16 = 2;

impl Pacing {
    /// Where all share one rate and lose nothing, so few of them as may carry it all. It is tried once, for what comes of it tells.
    pub(in super::super) fn enough(&self) -> Option<u16> {
        let State::Paced { rate } = self.state else { return None };
        let sent = self.last;
        let rests = self.is_steady() && self.quiet > 0.0 && sent.lost() <= LOSSY && self.slower.is_none();
        let fewer = sent.streams.div_ceil(FEWER);
        let all = rate * f64::from(self.rates.fewest) >= CARRIED * sent.rate;
        (rests && self.rates.shared && !self.rates.own && all && fewer < self.rates.fewest.min(self.rates.tried)).then_some(fewer)
    }

    /// Each of fewer streams than have had this rate carries more, unless a rate of its own is what it has.
    pub(super) fn fewer(&mut self, rate: f64, next: u16) {
        let before = self.slower.unwrap_or(Slower { rate, fewest: self.rates.fewest, fewer: next, too_few: false });
        let shared = rate * f64::from(self.rates.fewest) / f64::from(next.max(1));
        (self.state, self.slower) = (State::Paced { rate: shared }, Some(Slower { fewer: next, too_few: false, ..before }));
        // How many carry as much is not known of that rate.
        (self.rates.fewest, self.rates.most) = (next, next);
    }

    /// What it says that fewer streams were sent at this rate.
    pub(super) fn sent_faster(&mut self, slower: Slower, rate: f64) -> Found {
        let sent = self.last;
        let (held, lossy, alone) = (self.is_held_back(rate), sent.lost() > LOSSY, self.are_alone(slower, rate));
        self.rates.tried = sent.streams;
        if held && !lossy && !alone {
            self.slower = None;
            (self.rates.own, self.rates.proven) = (false, false);
        } else if !alone && (slower.too_few || self.is_far_above(slower, rate)) {
            self.slower = Some(Slower { too_few: true, ..slower });
            self.settle(rate);
        } else {
            // What each gets through may be more than before.
            let rate = (SLOWER * sent.at_end()).max(slower.rate).min(rate);
            (self.state, self.slower) = (State::Paced { rate }, None);
            (self.rates.own, self.rates.proven) = (true, true);
            return Found::OwnRate;
        }
        Found::Usual
    }

    /// Whether each of fewer streams fills a queue of its own: they carry equally much, and together less than more of them did.
    fn are_alone(&self, before: Slower, rate: f64) -> bool {
        let sent = self.last;
        let less = sent.rate < SLOWER * before.rate * f64::from(before.fewest);
        sent.even && sent.queued && less && sent.each() < LESS * self.part * rate
    }

    /// Whether fewer streams that were to be sent at this rate carried far more than before, and lost nothing: they may be too few, but have no
    /// rate of their own.
    pub(super) fn is_far_above(&self, before: Slower, rate: f64) -> bool {
        self.last.each() > (before.rate * rate).sqrt() && self.last.lost() <= LOSSY
    }
}
