//! One stage: from what its workers moved to how many there shall be, and why.

use super::choose::{Price, choose, fewer};
use super::filter::{Filter, News, Side};
use super::fit::{Bound, Fit};
use super::joining::Lost;
use super::losses::{Joined, Losses};
use super::probe::{Measured, Probe};
use super::seen::{Paced, Seen};
use crate::optimizer::setting::whole;

mod growth;
mod reason;
#[cfg(test)]
mod tests;

/// Most that the number of workers grows by in one decision, as the guard has it; most where so much was lost, or by new ones before they
/// found their rate, that far more of them cost much; most after a change, which may be the room that one of many others left, until there
/// are enough; and most where workers are paced, for those that are too many lose what they are sent, unless each is known to have a rate
/// of its own and they are few: then twice or half as many again, up to so many. Most that it shrinks by, and most
/// that it goes below the fewest that were tried, unless much is lost: too few cost more than too many.
const BOUND: u16 = 4;
const LOSSY_BOUND: u16 = 2;
const CAREFUL_BOUND: f64 = 1.5;
const PACED_BOUND: f64 = 1.25;
const FEW: u16 = 18;
const FEWER: u16 = 4;
const SHRINKING: u16 = 3;
const UNTRIED: f64 = 2.0;
pub(in crate::optimizer) const LOSSY: f64 = 0.01;

/// For how many seconds after its workers waited for processors a stage has no more of them than have run.
const BOUNDED: f64 = 10.0;

/// The lost share from which on that is much: as much as half of what the path brings is worth.
pub(super) const MUCH: f64 = 0.05;

/// The part of proportional growth that a probe has to bring to be followed.
pub(super) const ENOUGH_GAIN: f64 = 0.5;

/// Growth up to which the workers of an interval count as those of the one before.
const SETTLED: f64 = 1.1;

/// For how many seconds after an interval in which workers joined others these lose with them, unless it was as long itself.
const JOINED: f64 = 1.0;

/// Numbers of workers up to this factor apart tell about the same.
const ALIKE: f64 = 1.5;

/// What is left of the workers of a stage that has only ever waited.
const IDLE: f64 = 0.8;

/// How many workers there shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) workers: u16,
    /// Why, for people.
    pub(super) reason: String,
}

/// What a stage grows after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    /// Nothing of note.
    Usual,
    /// The path has changed, and there were ever more workers since, but for surprises.
    Changed,
}

/// A stage that is tuned.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    filter: Filter,
    losses: Losses,
    probe: Probe,
    /// What its workers are called, in the plural.
    workers: &'static str,
    /// Workers of the last interval, and of the one before it.
    ran: u16,
    before: u16,
    /// For how many more seconds it tells in what is lost that workers have joined others.
    joined: f64,
    /// Bytes per second of the last interval, and for how many intervals its workers may have been growing into the place of others that have
    /// gone.
    rate: f64,
    growing: u8,
    /// Bytes per second of the interval before it.
    rate_before: f64,
    /// The shares that the last interval lost, and the time before it in which new workers found their rate; 0 where the system does not tell.
    lost: f64,
    lost_before: f64,
    /// The share that the interval before the last one lost, and the workers whose growth was undone, which happens once.
    lost_then: f64,
    reverted: u16,
    /// What the last interval counts for where time has to pass, 0 to 1.
    time: f64,
    /// Whether its workers waited for processors in the last interval, and for how many more seconds there are no more than have run.
    cpu_bound: bool,
    bounded: f64,
    /// Whether its workers, sent as fast as TCP finds right, had a queue before them.
    queued: bool,
    /// Bytes per second of each of its workers, if all moved equally much, no less than fewer of them did; and the most that there were.
    own: Option<f64>,
    most_own: f64,
    /// Whether each of its workers was paced, half of them if these may carry it all, and the most for which there is room.
    paced: Paced,
    half: Option<u16>,
    room: Option<u16>,
    /// Whether it was seen beforehand that there is room for those that have joined, which then lose less.
    has_room: bool,
    /// For how many more intervals, of a second or more, there is no second worker, because a look has found no room for it.
    vain: f64,
    news: News,
    growth: Growth,
    /// Where the probe began that was measured last, and where one began whose find is measured again.
    probed: Option<u16>,
    pending: Option<u16>,
    /// The last measured rate, as a share of what was expected.
    achieved: f64,
}

impl Stage {
    /// A stage of which nothing is known, and what its workers are called.
    pub(super) fn new(workers: &'static str) -> Self {
        Self {
            filter: Filter::default(),
            losses: Losses::default(),
            probe: Probe::default(),
            workers,
            ran: 0,
            before: 0,
            joined: 0.0,
            rate: 0.0,
            growing: 0,
            rate_before: 0.0,
            lost: 0.0,
            lost_before: 0.0,
            lost_then: 0.0,
            reverted: 0,
            time: 1.0,
            cpu_bound: false,
            bounded: 0.0,
            queued: false,
            own: None,
            most_own: 0.0,
            paced: Paced::No,
            half: None,
            room: None,
            has_room: false,
            vain: 0.0,
            news: News::Expected,
            growth: Growth::Usual,
            probed: None,
            pending: None,
            achieved: 1.0,
        }
    }

    /// A stage of which nothing is known any more, but for the workers that it has.
    pub(super) fn forgotten(&self, workers: &'static str) -> Self {
        Self { ran: self.ran, ..Self::new(workers) }
    }

    /// The same with workers that are all new, as after a connection was lost.
    pub(super) fn begin_anew(&mut self) {
        (self.ran, self.growing, self.growth, self.lost, self.has_room) = (0, 0, Growth::Usual, 0.0, false);
    }

    /// What was lost until now says nothing any more.
    pub(super) fn lose_no_more(&mut self) {
        self.losses = self.losses.calm();
    }

    /// Takes note of new workers that lost this share until they were restrained.
    pub(super) fn restrained(&mut self, lost: f64) {
        self.losses.joining.restrained(lost);
    }

    /// Whether the last decision is a look upwards.
    pub(super) fn is_probing(&self) -> bool {
        self.probe.is_going_on()
    }

    /// Whether more workers are a look whether there is room for them, and may make much lost: one more than one, or a look upwards.
    pub(super) fn is_costly_look(&self, next: u16) -> bool {
        next > self.ran && (self.ran == 1 || self.is_probing()) && self.losses.joining.is_costly(self.ran, next)
    }

    /// Whether the last interval has shown that the path has changed.
    pub(super) fn has_changed(&self) -> bool {
        self.news == News::Changed
    }

    /// Whether it has shown that the path carries more than before.
    pub(super) fn has_grown(&self) -> bool {
        matches!(self.news, News::Changed | News::Returned) && self.achieved > 1.0
    }

    /// A stage of as many workers as this, of which the same throughput takes only a part of their time.
    pub(super) fn told_of(&self, workers: &'static str, part: f64, bound: Bound) -> Self {
        Self { filter: self.filter.scaled(part, bound), ran: self.ran, ..Self::new(workers) }
    }

    /// Takes what was seen.
    pub(super) fn observe(&mut self, seen: &Seen) {
        (self.before, self.ran) = (self.ran, whole(seen.ran));
        let expected = self.filter.fit().map(|fit| fit.predict(seen.working).0);
        self.achieved = expected.map_or(1.0, |expected| seen.rate / expected.exp());
        // A probe that was overruled has found nothing out, and does not count as one in vain.
        self.probed = self.probe.end().filter(|from| f64::from(self.ran) > SETTLED * f64::from(*from));
        self.own = self.own_rate(seen);
        (self.growing, self.lost_then) = (self.growing_since(seen.rate, seen.time), self.lost);
        (self.lost, self.lost_before) = (seen.loss.unwrap_or(0.0), seen.loss_before.unwrap_or(0.0));
        (self.rate_before, self.rate) = (self.rate, seen.rate);
        (self.time, self.cpu_bound, self.paced, self.half, self.room) =
            (seen.time, seen.cpu_bound, seen.paced, seen.half, seen.room);
        self.queued = seen.queued && matches!(seen.paced, Paced::No | Paced::Alone);
        self.bounded = if seen.cpu_bound { BOUNDED } else { self.bounded - seen.time };
        // From as many that worked as they did now.
        let from = self.probed.map(|from| f64::from(from) * seen.working / seen.ran);
        self.news = self.filter.observe(seen.measured(self.before, self.lost_then, self.growing > 0), from);
        self.filter.carries_alone(self.own);
        self.room = self.room.filter(|_| !self.has_grown());
        let ran = f64::from(self.ran);
        self.probed = self.probed.or(self.pending.take().filter(|from| ran > SETTLED * f64::from(*from)));
        let Some(fit) = self.filter.fit() else { return };
        // New streams lose much until they have found their rate, and where they joined others, these still do for a second after it,
        // also if they are gone: that says nothing of what they lose then.
        let grown = f64::from(self.ran) > SETTLED * f64::from(self.before);
        let lost = Lost { before: self.lost_before, within: self.lost, time: self.time };
        let cost = self.losses.joining.cost(lost);
        // What is lost while the path becomes another one is not for those that joined.
        let looked = std::mem::take(&mut self.has_room) || seen.paced == Paced::Look;
        if grown && !looked && !matches!(self.news, News::Changed | News::Surprise(Side::Less)) {
            self.losses.joining.joined(self.before, self.ran, lost);
        }
        // Streams that are sent no faster than each gets through lose only where there are too many.
        let paced = matches!(seen.paced, Paced::Told | Paced::Crowded) && self.before > 0 && self.ran >= self.before;
        let joined = match grown || self.joined > 0.0 {
            true if paced => Joined::Paced,
            true => Joined::Free,
            false => Joined::Long,
        };
        self.losses.paced = matches!(seen.paced, Paced::Told | Paced::Crowded) || self.losses.paced && seen.paced == Paced::Look;
        // What overflows a queue of its own is not for being too many.
        self.losses.observe(seen.working, seen.loss.filter(|_| self.own.is_none()), joined);
        self.joined = match grown && self.before > 0 {
            true if seen.time < JOINED => JOINED,
            true => 0.0,
            false => self.joined - seen.time,
        };
        match (self.news, self.probed) {
            (News::Changed | News::Returned, _) => {
                // What was lost before says as little as what was moved.
                self.losses = self.losses.forgotten();
                self.probe.hasten();
                (self.reverted, self.vain, self.most_own) = (0, 0.0, 0.0);
            }
            (News::Expected, Some(from)) if seen.gained(fit, from) && !seen.is_in_vain() => {
                self.probed = None;
                self.probe.succeeded();
            }
            (News::Surprise(Side::More), Some(_)) if seen.paced != Paced::Look => self.pending = self.probed.take(),
            (_, Some(_)) => self.probe.failed(fit.noise, cost),
            _ if seen.paced == Paced::Look => self.probe.failed(fit.noise, cost),
            _ => {}
        }
        self.vain -= seen.time;
        if seen.paced == Paced::Look {
            self.wait_to_look();
        }
    }

    /// The fewest workers that the next decision may go to. Neighbours may do the work of a stage that does not limit.
    fn least(&self, enough: Option<f64>) -> u16 {
        if enough.is_some() {
            return self.ran.div_ceil(BOUND);
        }
        let untried = if self.lost > MUCH { 1 } else { whole(self.filter.fewest() / UNTRIED) };
        self.ran.div_ceil(SHRINKING).max(untried.min(self.ran)).max(self.undone())
    }

    /// Takes note of an interval that tells nothing but that there is room for more workers.
    pub(super) fn found_room(&mut self) {
        self.has_room = true;
    }

    /// Takes note of a look in vain: there is no second worker before a probe is due.
    pub(super) fn wait_to_look(&mut self) {
        if self.before.min(self.ran) <= 1 {
            self.vain = self.probe.gap();
        }
    }

    /// Takes note of an interval that tells nothing but what it lost.
    pub(super) fn only_lost(&mut self, share: Option<f64>) {
        self.lost = share.unwrap_or(0.0);
    }

    /// Bytes per second that the stage moves with the workers that are best for it alone, from where it is; `None` before anything was measured.
    pub(super) fn capability(&self, price: &Price) -> Option<f64> {
        let fit = self.filter.fit().filter(|_| self.filter.is_informed())?;
        let best = choose(fit, &self.losses, price, self.ran, None);
        Some(fit.predict(f64::from(best)).0.exp())
    }

    /// The next number of workers. `enough` are bytes per second beyond which its neighbours take nothing: then it does not probe.
    pub(super) fn decide(&mut self, price: &Price, enough: Option<f64>) -> Next {
        let Some(fit) = self.filter.fit() else {
            return Next { workers: self.ran.clamp(1, price.limit), reason: "nothing measured yet".to_owned() };
        };
        if !self.filter.is_informed() {
            let workers = whole((IDLE * f64::from(self.ran)).floor()).min(price.limit);
            return Next { workers, reason: format!("{} only waited: {} -> {workers}", self.workers, self.ran) };
        }
        let lossy = self.lost > LOSSY;
        let least = if self.growing > 0 { self.ran } else { self.least(enough) };
        let growth = match self.news {
            News::Changed => Growth::Changed,
            News::Returned => Growth::Usual,
            News::Expected | News::Surprise(_) => self.growth,
        };
        let most = self.most(growth, enough.is_none());
        let telling = (lossy || self.cpu_bound) && enough.is_none() && self.paced != Paced::Look;
        let wanted = if telling { self.telling(fit, price) } else { self.answer(fit, price, enough) };
        let wanted = if enough.is_none() && wanted >= self.ran && self.was_wrong() {
            self.reverted = self.ran;
            self.before
        } else {
            wanted
        };
        let workers = wanted.min(self.room.unwrap_or(u16::MAX)).clamp(least, most.max(least)).clamp(1, price.limit);
        // What a look has just told, the next one tells too.
        let workers = if self.vain > 0.0 && !lossy && self.is_costly_look(workers) { self.ran } else { workers };
        if self.is_costly_look(workers) {
            self.probe.stake(self.ran, workers, price);
        }
        // A surprise is measured again first.
        let goes_on = workers > self.ran || self.growing > 0 || matches!(self.news, News::Surprise(_));
        self.growth = if growth == Growth::Changed && goes_on { growth } else { Growth::Usual };
        let reason = self.reason(fit, workers);
        if enough.is_some() || matches!(self.news, News::Surprise(_)) {
            return Next { workers, reason };
        }
        if self.probe.may_look_below(workers == self.ran && self.growing == 0, self.time)
            && let Some(tried) = fewer(fit, &self.losses, price, workers)
        {
            self.probe.looked_below(self.time);
            return Next { workers: tried, reason: format!("{reason}; trying {tried}, which may do as well") };
        }
        if self.bounded > 0.0 || self.growing > 0 {
            return Next { workers, reason };
        }
        if let Some(tried) = self.half.filter(|_| workers == self.ran && self.news == News::Expected) {
            return Next { workers: tried, reason: format!("{reason}; trying {tried}, for all share one rate") };
        }
        let measured = Measured { time: self.time, noise: fit.noise, paced: self.paced.lasts() };
        match self.probe.due(self.ran.max(self.before), workers, price, measured) {
            Some(tried) => Next { workers: tried, reason: format!("{reason}; probing {tried} for capacity that grew unseen") },
            None => Next { workers, reason },
        }
    }

    /// Most paced workers with rates of their own after as few as these.
    fn few(&self) -> u16 {
        let half = whole((CAREFUL_BOUND * f64::from(self.ran)).ceil());
        FEW.min(half.max(self.ran.saturating_mul(LOSSY_BOUND).min(FEWER)))
    }

    fn answer(&self, fit: &Fit, price: &Price, enough: Option<f64>) -> u16 {
        match (self.news, self.probed) {
            _ if self.paced == Paced::Look => choose(fit, &self.losses, price, self.ran, enough).min(self.before),
            // What came with growth is undone until it was measured again.
            (News::Surprise(Side::Less), None) if self.before > 0 && self.ran > self.before => self.before,
            (News::Surprise(_), from) => from.unwrap_or(self.ran),
            (News::Expected, Some(from)) => choose(fit, &self.losses, price, self.ran, enough).min(from),
            _ => choose(fit, &self.losses, price, self.ran, enough),
        }
    }

    /// The answer where some is lost, or workers wait for processors; half of the workers, if nothing but about so many has run yet and so many are
    /// the answer, or more although much is lost, a queue has come too, or processors are busy: running as many again does not tell whether they
    /// are too many, and more may cost far more than they bring. Where each has a rate of its own, they are not.
    fn telling(&self, fit: &Fit, price: &Price) -> u16 {
        let answer = self.answer(fit, price, None);
        let (answered, ran) = (f64::from(answer), f64::from(self.ran));
        let waits = self.cpu_bound && self.filter.is_first_state();
        let queued = self.queued && self.lost > LOSSY && self.filter.is_first_state();
        let open =
            self.own.is_none() && ran < ALIKE * answered && (answered < ALIKE * ran || self.lost > MUCH || waits || queued);
        if open && self.ran > 1 && self.news == News::Expected && self.filter.is_of_one_setting(ALIKE) {
            self.ran / 2
        } else {
            answer
        }
    }
}
