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
                let kept = self.since_change(probed.filter(|_| self.surprised.is_none()));
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

    /// At the beginning, where each of more workers moves more than each of fewer did, those had not found their rate: they can move at least
    /// what they moved.
    fn doubt_beginning(&mut self, new: &Point) {
        let begins = self.is_first_state() && self.points.len() <= BEGINNING && new.bound == Bound::Exact;
        let Some(fit) = self.fit.as_ref().filter(|_| begins) else { return };
        let risen = RISEN.0.max(RISEN.1 * fit.noise) + new.doubt;
        for point in self.points.iter_mut().filter(|point| !point.derived && GROWTH * point.workers < new.workers) {
            if new.rate - new.workers.ln() > point.rate - point.workers.ln() + risen + point.doubt {
                point.bound = Bound::AtLeast;
            }
        }
    }

    /// Takes note of what a measurement tells of others: what changes without growth of one's own, they may have changed, and if it became
    /// less, the path carries with them what it carried before.
    fn hear_of_others(&mut self, news: News, new: &Point, probed: Option<f64>) {
        let unprovoked = probed.is_none() && new.workers <= GROWTH * self.last;
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
        if self.points.len() < 2 || explained || error.abs() <= (SURPRISE.0 * deviation).max(SURPRISE.1) {
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

    /// What still holds after a change: what a worker moves alone, and the first surprise, or where the probe began what was measured there.
    fn since_change(&self, probed: Option<f64>) -> Vec<Point> {
        let holds = |point: &&Point| match probed {
            Some(workers) => point.age <= RECENT && (point.workers - workers).abs() < 1.0,
            None => point.age <= 1,
        };
        self.alone().into_iter().chain(self.points.iter().filter(holds).cloned()).collect()
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
mod tests {
    use super::*;

    fn taught(rates: &[(f64, f64)]) -> Filter {
        let mut filter = Filter::default();
        for &(workers, rate) in rates {
            assert_eq!(see(&mut filter, workers, rate), News::Expected, "{workers} {rate}");
        }
        filter
    }

    fn see(filter: &mut Filter, workers: f64, rate: f64) -> News {
        filter.observe(Point::new(workers, rate, Bound::Exact), None)
    }

    /// Ten workers fill it.
    fn settled() -> Filter {
        taught(&[(4.0, 40.0), (12.0, 100.0), (10.0, 100.0), (10.0, 100.0), (10.0, 100.0)])
    }

    #[test]
    fn one_surprise_is_an_error_and_two_on_one_side_are_a_change() {
        let mut filter = settled();
        assert_eq!(see(&mut filter, 10.0, 50.0), News::Surprise(Side::Less));
        assert_eq!(see(&mut filter, 10.0, 100.0), News::Expected);
        assert_eq!(see(&mut filter, 10.0, 50.0), News::Surprise(Side::Less));
        assert_eq!(see(&mut filter, 10.0, 50.0), News::Changed);
        let fit = filter.fit().unwrap();
        assert!((fit.worker_rate() / 10.0 - 1.0).abs() < 0.1, "{}", fit.worker_rate());
        let (ten, _) = fit.predict(10.0);
        assert!((ten.exp() / 50.0 - 1.0).abs() < 0.05, "{}", ten.exp());
    }

    #[test]
    fn what_a_path_carried_before_others_came_is_known_until_it_carries_more() {
        let mut filter = settled();
        (0..3).for_each(|_| _ = see(&mut filter, 10.0, 100.0));
        see(&mut filter, 10.0, 50.0);
        see(&mut filter, 10.0, 50.0);
        let known = filter.company.capacity.unwrap().exp();
        assert!((known / 100.0 - 1.0).abs() < 0.05, "{known}");
        // Ten of others leave five of ten, a third to five.
        see(&mut filter, 5.0, 33.0);
        assert!(filter.fit().unwrap().load(5.0) > 1.3, "{}", filter.fit().unwrap().load(5.0));
        (0..2).for_each(|_| _ = see(&mut filter, 15.0, 140.0));
        assert_eq!(filter.company.capacity, None);
        // Too little was measured before.
        let mut filter = settled();
        (0..2).for_each(|_| _ = see(&mut filter, 10.0, 50.0));
        assert_eq!(filter.company.capacity, None);
    }

    #[test]
    fn streams_that_are_slow_to_find_their_share_do_not_hide_the_end_of_the_capacity() {
        let mut filter = Filter::default();
        for (workers, rate) in [(8.0, 147.0), (14.0, 306.0), (15.0, 382.0), (30.0, 500.0), (30.0, 500.0)] {
            see(&mut filter, workers, rate);
        }
        assert!(filter.fit().unwrap().saturation() < 30.0, "{}", filter.fit().unwrap().saturation());
    }

    #[test]
    fn only_a_change_without_growth_tells_of_others_and_that_is_forgotten() {
        let changed = |workers: [f64; 2]| {
            let mut filter = settled();
            for workers in workers {
                see(&mut filter, workers, 50.0);
            }
            filter
        };
        assert!(changed([14.0, 20.0]).company.told < 1e-12);
        let mut filter = changed([10.0, 10.0]);
        assert!((filter.company.told - 1.0).abs() < 1e-12);
        (0..40).for_each(|_| _ = see(&mut filter, 5.0, 50.0));
        assert!(filter.company.told < 0.3);
    }

    #[test]
    fn a_path_that_is_again_what_it_was_is_known_at_once() {
        let mut filter = settled();
        see(&mut filter, 10.0, 50.0);
        see(&mut filter, 10.0, 50.0);
        (0..4).for_each(|_| _ = see(&mut filter, 6.0, 50.0));
        assert_eq!(see(&mut filter, 8.0, 80.0), News::Returned);
        assert!((9.0..11.0).contains(&filter.fit().unwrap().saturation()));
    }

    #[test]
    fn growth_that_meets_the_same_capacity_is_no_return() {
        let mut filter = settled();
        // Streams move half from now on, so that twenty fill the path.
        for (workers, rate) in [(10.0, 50.0), (10.0, 50.0), (5.0, 25.0), (5.0, 25.0), (18.0, 88.0)] {
            see(&mut filter, workers, rate);
        }
        assert_ne!(see(&mut filter, 34.0, 100.0), News::Returned);
    }

    #[test]
    fn a_former_state_of_which_little_is_known_is_not_what_every_wild_measurement_returns_to() {
        let mut filter = settled();
        for rate in [50.0, 50.0, 25.0, 25.0] {
            see(&mut filter, 10.0, rate);
        }
        let former = Fit::of(&filter.former, 0.02, filter.company);
        let (mean, deviation) = former.predict(30.0);
        assert!(2.0 * deviation > 0.3, "{deviation}: the former state knows too much for this test");
        (0..3).for_each(|_| _ = see(&mut filter, 5.0, 25.0));
        let wild = (mean + 0.25).exp();
        assert!(!filter.is_familiar(&Point::new(30.0, wild, Bound::Exact), 0.02));
        assert!(filter.is_familiar(&Point::new(30.0, mean.exp(), Bound::Exact), 0.02));
    }

    #[test]
    fn what_a_probe_finds_is_believed_at_once() {
        let mut filter = settled();
        (0..4).for_each(|_| _ = see(&mut filter, 13.0, 100.0));
        let found = Point::new(13.0, 130.0, Bound::Exact);
        assert_eq!(filter.observe(found, Some(10.0)), News::Changed);
        let (mean, _) = filter.fit().unwrap().predict(13.0);
        assert!((mean.exp() / 130.0 - 1.0).abs() < 0.1, "{}", mean.exp());
    }

    #[test]
    fn where_a_probe_finds_half_of_what_it_might_that_is_measured_again() {
        for (again, news) in [(100.0, News::Expected), (112.0, News::Changed)] {
            let mut filter = settled();
            (0..4).for_each(|_| _ = see(&mut filter, 12.0, 100.0));
            see(&mut filter, 10.0, 100.0);
            assert_eq!(filter.observe(Point::new(12.0, 112.0, Bound::Exact), Some(10.0)), News::Surprise(Side::More));
            assert_eq!(see(&mut filter, 12.0, again), news);
            assert!(filter.company.told < 1e-12, "{}", filter.company.told);
        }
    }

    #[test]
    fn what_fewer_than_ever_move_is_no_surprise() {
        let mut filter = taught(&[(32.0, 100.0), (16.0, 100.0), (16.0, 100.0)]);
        assert_eq!(see(&mut filter, 8.0, 60.0), News::Expected);
        assert!((11.0..15.0).contains(&filter.fit().unwrap().saturation()));
        assert_eq!(see(&mut filter, 8.0, 30.0), News::Surprise(Side::Less));
        // Half of the workers that move an eighth: the path has changed.
        let mut filter = taught(&[(32.0, 100.0), (16.0, 100.0), (16.0, 100.0)]);
        assert_eq!(see(&mut filter, 8.0, 12.0), News::Surprise(Side::Less));
    }

    #[test]
    fn of_many_measurements_the_rare_settings_stay() {
        let mut filter = settled();
        (0..100).for_each(|_| _ = see(&mut filter, 10.0, 100.0));
        assert_eq!(filter.points.len(), WINDOW);
        assert!(filter.points.iter().any(|point| point.workers < 5.0));
    }

    #[test]
    fn a_stage_that_waited_surprises_nobody_by_moving_less() {
        let mut filter = settled();
        let waited = |rate| Point::new(10.0, rate, Bound::AtLeast);
        assert_eq!(filter.observe(waited(20.0), None), News::Expected);
        assert_eq!(filter.observe(waited(200.0), None), News::Surprise(Side::More));
    }
}
