//! What is believed of one stage, measurement by measurement: it notices when the path has changed, and remembers what it was like before.
//!
//! A measurement far from what was expected is held for an error, unless fewer ran than ever, or a probe plainly found more. The second in
//! a row, on the same side, is a change: all but the latest
//! is forgotten, except what a worker moves alone, which capacities that come and go leave as it is. What was forgotten is kept aside, and
//! comes back when it explains a surprise: paths return to what they were.

use super::fit::{Bound, Company, Fit, Point, first_noise};

/// Measurements that are kept; of the most frequent setting the oldest goes first.
const WINDOW: usize = 40;

/// Standard deviations, and relative distance, from which on a measurement is a surprise.
const SURPRISE: (f64, f64) = (3.0, 0.1);

/// What is known of a worker alone from before a change counts as this part of a measurement.
const HEARSAY: f64 = 0.5;

/// How far a measurement may be from what an earlier state of the path says: so many standard deviations, within these relative bounds.
/// Without the upper one, a state of which little is known would explain anything.
const FAMILIAR: f64 = 2.0;
const FAMILIAR_BOUNDS: (f64, f64) = (0.05, 0.15);

/// What is left of what told of others after an interval, and growth up to which a change counts as theirs.
const ALONE: f64 = 0.97;
const GROWTH: f64 = 1.1;

/// By how much measurements exceed what the path carried before others came, in logarithms, where it carries more by now; how far short of
/// filling it workers may have been for that to be known; and the noise up to which anything of the kind is.
const EXCEEDS: f64 = 0.15;
const FILLED: f64 = 0.9;
const TELLING: f64 = 0.1;

/// How many times as many workers as fill a stage are sure to do so.
const SURELY: f64 = 2.0;

/// How many intervals are the beginning, in which streams may find their share slowly; and by how much each has to move more than each did
/// before for that to be seen, at least, and as a multiple of the noise.
const BEGINNING: usize = 6;
const RISEN: (f64, f64) = (0.25, 3.0);

/// How old measurements may be, in intervals, that a probe relies on.
const RECENT: i32 = 3;

/// By what a probe has to exceed what was expected of as many workers to be believed at once, as a part of what so many more would bring on
/// an empty stage; less is measured again.
const CLEAR: f64 = 0.7;

/// What a measurement said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// What was expected, or nothing was.
    Expected,
    /// Much less or much more than expected, for the first time.
    Surprise(Side),
    /// The path has changed.
    Changed,
    /// The path is what it was before its last change.
    Returned,
}

/// On which side of what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Less,
    More,
}

/// What is believed of one stage.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    points: Vec<Point>,
    /// Measurements from before the last change.
    former: Vec<Point>,
    fit: Option<Fit>,
    /// The side of the last surprise, if the last measurement was one.
    surprised: Option<Side>,
    company: Company,
    /// Logarithm of the bytes per second that the stage carried before the last surprise, where it was full.
    carried: Option<f64>,
    /// Workers of the last measurement.
    last: f64,
}

impl Filter {
    /// What is believed; `None` before anything was measured.
    pub(super) fn fit(&self) -> Option<&Fit> {
        self.fit.as_ref()
    }

    /// Whether anything was measured that the stage itself limited.
    pub(super) fn is_informed(&self) -> bool {
        self.points.iter().any(|point| point.bound == Bound::Exact)
    }

    /// The workers of all measurements.
    fn ran(&self) -> impl Iterator<Item = f64> {
        self.points.iter().filter(|point| !point.derived).map(|point| point.workers)
    }

    /// The fewest workers of all measurements; 0 before any.
    pub(super) fn fewest(&self) -> f64 {
        self.ran().reduce(f64::min).unwrap_or(0.0)
    }

    /// The most workers of all measurements; 0 before any.
    fn most(&self) -> f64 {
        self.ran().fold(0.0, f64::max)
    }

    /// The same, those before the last change included.
    pub(super) fn most_ever(&self) -> f64 {
        let former = self.former.iter().filter(|point| !point.derived);
        former.fold(self.most(), |most, point| most.max(point.workers))
    }

    /// Whether the last measurement was the second one of all.
    pub(super) fn is_second(&self) -> bool {
        self.is_first_state() && self.ran().count() == 2
    }

    /// Whether no change was seen.
    pub(super) fn is_first_state(&self) -> bool {
        self.former.is_empty()
    }

    /// The fewest workers whose rate was what they can move.
    fn fewest_exact(&self) -> f64 {
        let exact = self.points.iter().filter(|point| !point.derived && point.bound == Bound::Exact);
        exact.map(|point| point.workers).reduce(f64::min).unwrap_or(0.0)
    }

    /// Whether the workers of all measurements were less than this factor apart.
    pub(super) fn is_of_one_setting(&self, factor: f64) -> bool {
        self.ran().all(|workers| workers < factor * self.fewest())
    }

    /// The same measurements of a stage that has this part of the workers.
    pub(super) fn scaled(&self, part: f64, bound: Bound) -> Self {
        let points = self.points.iter().map(|point| point.scaled(part, bound)).collect();
        let mut filter = Self { points, ..Self::default() };
        if !filter.points.is_empty() {
            filter.learn();
        }
        filter
    }

    /// Takes a measurement; `probed` is where a probe for more capacity began.
    pub(super) fn observe(&mut self, new: Point, probed: Option<f64>) -> News {
        self.points.iter_mut().chain(&mut self.former).for_each(|point| point.age = point.age.saturating_add(1));
        self.doubt_beginning(&new);
        let news = self.judge(&new, probed);
        self.hear_of_others(news, &new, probed);
        // What is measured again, with as many, grew when it was measured first.
        if !matches!(news, News::Surprise(Side::More)) {
            self.last = new.workers;
        }
        match news {
            News::Expected | News::Surprise(_) => {}
            News::Returned => std::mem::swap(&mut self.points, &mut self.former),
            News::Changed => {
                let kept = self.since_change(&new, probed.filter(|_| self.surprised.is_none()));
                self.former = std::mem::replace(&mut self.points, kept);
            }
        }
        self.surprised = match news {
            News::Surprise(side) => Some(side),
            _ => None,
        };
        self.points.push(new);
        self.thin();
        self.learn();
        news
    }

    /// Takes note of what each worker of the last measurement moves alone, if that is known, whatever was believed of it.
    pub(super) fn carries_alone(&mut self, rate: Option<f64>) {
        let Some(rate) = rate else { return };
        self.points.retain(|point| !point.alone);
        self.points.push(Point::new(1.0, rate, Bound::Exact).derived());
        self.learn();
    }

    /// At the beginning, where each of more workers moves more than each of fewer did, those had not found their rate: they can move at least
    /// what they moved.
    fn doubt_beginning(&mut self, new: &Point) {
        let begins = self.is_first_state() && self.ran().count() <= BEGINNING && new.bound == Bound::Exact;
        let Some(fit) = self.fit.as_ref().filter(|_| begins) else { return };
        let risen = RISEN.0.max(RISEN.1 * fit.noise) + new.doubt;
        let exceeds = |point: &Point| {
            let fewer = GROWTH * point.workers < new.workers;
            fewer && new.rate - new.workers.ln() > point.rate - point.workers.ln() + risen + point.doubt
        };
        self.points.retain(|point| !(point.derived && exceeds(point)));
        self.points.iter_mut().filter(|point| exceeds(point)).for_each(|point| point.bound = Bound::AtLeast);
    }

    /// Takes note of what a measurement tells of others: what changes without growth of one's own, they may have changed, and if it became
    /// less, the path carries with them what it carried before.
    fn hear_of_others(&mut self, news: News, new: &Point, probed: Option<f64>) {
        // Where the path is not full, others are not why.
        let unprovoked = probed.is_none() && new.workers <= GROWTH * self.last && new.fills != Some(false);
        let changed = news == News::Changed && unprovoked;
        let Company { told, capacity } = self.company;
        let told = if changed { 1.0 } else { ALONE * told };
        let known = if changed && self.surprised == Some(Side::Less) { self.carried.or(capacity) } else { capacity };
        self.company = Company { told, capacity: known.filter(|known| new.rate <= known + EXCEEDS) };
        if news == News::Surprise(Side::Less) {
            self.carried = self.capacity();
        }
    }

    fn judge(&self, new: &Point, probed: Option<f64>) -> News {
        let Some(fit) = &self.fit else { return News::Expected };
        let (mean, deviation) = fit.predict(new.workers);
        let (error, deviation) = (new.rate - mean, deviation.hypot(new.doubt));
        let side = if error < 0.0 { Side::Less } else { Side::More };
        let explained = new.bound == Bound::AtLeast && side == Side::Less;
        if self.ran().count() < 2 || explained || error.abs() <= (SURPRISE.0 * deviation).max(SURPRISE.1) {
            return News::Expected;
        }
        // With fewer than ever, less is what so few move, down to their part of what more moved.
        let fewest = self.fewest_exact();
        let part = || fit.predict(fewest).0 + (new.workers / fewest).ln();
        if side == Side::Less && GROWTH * new.workers < fewest && new.rate >= part() - SURPRISE.1 {
            return News::Expected;
        }
        // Where more than ever run in this state of the path, they have found the end of its capacity, which another state may have too.
        let untried = side == Side::Less && new.workers > GROWTH * self.most();
        if !untried && self.is_familiar(new, fit.noise) {
            return News::Returned;
        }
        let again = self.surprised == Some(side);
        // Noise brings less as often as more; what a probe was sent for is believed at once where it is plain.
        let found = side == Side::More && probed.is_some_and(|from| error >= CLEAR * (new.workers / from).ln());
        if again || found { News::Changed } else { News::Surprise(side) }
    }

    /// Whether the state before the last change explains a measurement.
    fn is_familiar(&self, new: &Point, noise: f64) -> bool {
        if self.former.is_empty() {
            return false;
        }
        let (mean, deviation) = Fit::of(&self.former, noise, self.company).predict(new.workers);
        (new.rate - mean).abs() < (FAMILIAR * deviation).clamp(FAMILIAR_BOUNDS.0, FAMILIAR_BOUNDS.1)
    }

    /// What still holds after a change: what a worker moves alone, or the capacity where it is not what has changed; and the first surprise, or where
    /// the probe began what was measured there.
    fn since_change(&self, new: &Point, probed: Option<f64>) -> Vec<Point> {
        let holds = |point: &&Point| match probed {
            Some(workers) => point.age <= RECENT && (point.workers - workers).abs() < 1.0,
            None => point.age <= 1,
        };
        let less = self.fit.as_ref().is_some_and(|fit| new.rate < fit.predict(new.workers).0);
        let known = if new.fills == Some(false) && less { self.when_full(new) } else { self.alone() };
        known.into_iter().chain(self.points.iter().filter(holds).cloned()).collect()
    }

    /// Logarithm of the bytes per second that the stage carries, if so many worked that they filled it, and neither noise nor want of
    /// measurements hides it.
    fn capacity(&self) -> Option<f64> {
        let fit = self.fit.as_ref().filter(|fit| self.points.len() >= BEGINNING && fit.noise < TELLING)?;
        (self.most() >= FILLED * fit.full()).then(|| fit.capacity().ln())
    }

    /// What is believed of a worker alone, as a part of a measurement with so few that they do not fill the stage.
    fn alone(&self) -> Option<Point> {
        let fit = self.fit.as_ref()?;
        let workers = (fit.saturation() / 2.0).min(1.0);
        Some(Point::new(workers, workers * fit.worker_rate(), Bound::Exact).weighing(HEARSAY).derived())
    }

    /// What is believed of so many workers that they fill the stage, as a part of a measurement, where each moves as much as now.
    fn when_full(&self, new: &Point) -> Option<Point> {
        let fit = self.fit.as_ref().filter(|fit| self.most() >= FILLED * fit.full())?;
        let workers = SURELY * new.workers * fit.capacity() / new.rate.exp();
        Some(Point::new(workers, fit.capacity(), Bound::Exact).weighing(HEARSAY).believed())
    }

    /// Makes room for the next measurement.
    fn thin(&mut self) {
        if self.points.len() <= WINDOW {
            return;
        }
        let alike = |one: &Point, other: &Point| (one.workers / other.workers).ln().abs() < 0.05;
        let crowd = |one: &Point| self.points.iter().filter(|other| alike(one, other)).count();
        let fullest = self.points.iter().map(crowd).max().unwrap_or(0);
        let oldest =
            self.points.iter().enumerate().filter(|(_, point)| crowd(point) == fullest).max_by_key(|(_, point)| point.age);
        if let Some(index) = oldest.map(|(index, _)| index) {
            self.points.remove(index);
        }
    }

    fn learn(&mut self) {
        let noise = self.fit.as_ref().map_or_else(first_noise, |fit| fit.noise);
        self.fit = Some(Fit::of(&self.points, noise, self.company));
    }
}

#[cfg(test)]
mod tests;
