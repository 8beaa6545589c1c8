//! How far the number of workers grows, and what came of it that there were more than before, or fewer.

use super::{BOUND, CAREFUL_BOUND, ENOUGH_GAIN, Growth, LOSSY, LOSSY_BOUND, MUCH, PACED_BOUND, SETTLED, Stage};
use crate::optimizer::model::filter::News;
use crate::optimizer::model::seen::{Paced, Seen};
use crate::optimizer::setting::whole;

/// A reduction by which the others get a place to grow into; growth of the rate in a second from which on they are still growing; and for how
/// many seconds that is waited for, or intervals that are longer.
const REDUCED: f64 = 1.3;
const MOST_GROWING: f64 = 3.0;
const GROWING: f64 = 0.05;

/// The part of what each of fewer workers moved, below which those that move equally much share it.
const SHARED: f64 = 0.65;

/// The rate of before as a multiple of the present one, from which on that is much less.
const FELL: f64 = 1.1;

impl Stage {
    /// Whether all of its workers are new.
    pub(in crate::optimizer::model) fn is_new(&self) -> bool {
        self.ran == 0
    }

    /// For how many intervals the workers may have been growing into the place of others that have gone: windows grow slowly where nothing
    /// was lost, over seconds, so that the first intervals after a reduction say less than what so many can move.
    pub(super) fn growing_since(&self, rate: f64, time: f64) -> u8 {
        // Where each has a rate of its own, none takes the place of others.
        if self.own.is_some() {
            return 0;
        }
        let (before, ran) = (f64::from(self.before), f64::from(self.ran));
        // By more than noise.
        let more = 1.0 + (GROWING * time).max(2.0 * self.filter.fit().map_or(0.0, |fit| fit.noise));
        if before > REDUCED * ran {
            // Where each moves no more than before, it is not the place of others that it lacks.
            let each = rate / ran.max(1.0) > more * self.rate / before;
            return u8::from(more * rate < self.rate && each);
        }
        let grows = self.growing > 0
            && f64::from(self.growing) * time < MOST_GROWING
            && ran <= SETTLED * before
            && rate > more * self.rate;
        if grows { self.growing + 1 } else { 0 }
    }

    /// Bytes per second of each worker that loses what is beyond a rate of its own: streams that share a full path differ. Where each of more moves
    /// far less, they share it all the same, equally.
    pub(super) fn own_rate(&mut self, seen: &Seen) -> Option<f64> {
        let each = seen.rate / seen.ran;
        let own = seen.paced == Paced::Alone && !seen.cpu_bound && each > SHARED * self.most_own;
        self.most_own = if own { self.most_own.max(each) } else { self.most_own };
        own.then_some(each)
    }

    /// Where growth brought less than there was before, the workers of before it: that is measured again before there are still fewer, for
    /// new workers may need longer than one interval to find their rate.
    pub(super) fn undone(&self) -> u16 {
        let grown = self.before > 0 && f64::from(self.ran) > SETTLED * f64::from(self.before);
        if grown && FELL * self.rate < self.rate_before { self.before } else { 0 }
    }

    /// Whether the last growth brought at least half of what as many more would bring on an empty stage, or has not been seen yet.
    pub(super) fn brought(&self) -> bool {
        let grown = f64::from(self.ran) / f64::from(self.before.max(1));
        grown <= SETTLED || (self.rate / self.rate_before).ln() >= ENOUGH_GAIN * grown.ln()
    }

    /// Whether the last growth has made much lost, and brought less than half of what it should. Where that came before, it is measured again instead.
    pub(super) fn was_wrong(&self) -> bool {
        let lossy = self.lost - self.lost_then > MUCH;
        self.before > 0 && lossy && !self.brought() && self.reverted != self.ran && self.news != News::Returned
    }

    /// The most workers that the next decision may go to, after this growth; `alone` where no neighbour may be what limits.
    pub(super) fn most(&self, growth: Growth, alone: bool) -> u16 {
        let costly = self.losses.joining.is_costly(self.ran, self.ran.saturating_mul(LOSSY_BOUND));
        let careful = if self.paced.lasts() || self.own.is_some() { PACED_BOUND } else { CAREFUL_BOUND };
        let careful = whole((careful * f64::from(self.ran)).ceil());
        // What fewer than the first tell of them counts as if these had told it.
        let from = if self.filter.is_second() { self.ran.max(self.before) } else { self.ran };
        let twice = from.saturating_mul(LOSSY_BOUND).min(self.ran.saturating_mul(BOUND));
        match growth {
            // What those that are left will carry is seen first.
            _ if self.growing > 0 => self.ran,
            // As many as have moved more may come back.
            _ if self.bounded > 0.0 => whole(self.filter.most_ever()).max(self.ran),
            Growth::Changed if self.news != News::Changed && !self.brought() => self.ran,
            Growth::Changed => careful,
            // What those lose that are sent no faster than they get through is for being too many.
            Growth::Usual if self.paced.lasts() && self.lost > 2.0 * LOSSY => self.ran,
            // So few more tell whether they share one rate, and lose less than many if they do.
            // Those that join others with rates of their own are paced.
            Growth::Usual if self.paced == Paced::Untold || self.own.is_some() => careful,
            Growth::Usual if self.paced == Paced::Told => careful.max(self.few()),
            Growth::Usual if self.paced == Paced::Crowded => self.ran,
            Growth::Usual if self.lost.max(self.lost_before) > LOSSY || costly => twice,
            // Whether so few are enough, twice as many tell as well as four times as many, and lose less if so.
            Growth::Usual if self.ran <= LOSSY_BOUND && alone => twice,
            Growth::Usual => self.ran.saturating_mul(BOUND),
        }
    }
}
