//! What throughputs mean over time: when one has settled after a change, and when one stays away from what was expected.

use super::search::Sample;
use super::setting::Setting;
use super::surface::Side;

/// Two intervals with the same setting whose throughputs differ by less than this share have settled.
const SETTLED: f64 = 0.1;

/// Intervals with the same setting after which the last one counts, settled or not.
const PATIENCE: u32 = 3;

/// Intervals in a row on the same side that are no accident.
const PERSISTENT: u32 = 3;

/// Intervals after which the last one counts in any case: where the setting changes all the time, none is seen twice.
const LONGEST: u32 = 6;

/// Least share of the expected throughput that a deviation has to exceed.
const LEAST_DEVIATION: f64 = 0.1;

/// Makes samples of intervals: new streams take a while to grow, so that the first interval of a setting says too little.
#[derive(Debug, Clone, Default)]
pub(super) struct Settling {
    last: Option<Sample>,
    /// With the setting of the last one.
    intervals: u32,
    /// Since one counted.
    waited: u32,
}

impl Settling {
    /// Takes the throughput of an interval; answers with it as a sample if it has settled.
    pub(super) fn settled(&mut self, setting: Setting, throughput: f64) -> Option<Sample> {
        let sample = Sample { setting, throughput };
        let last = self.last.replace(sample).filter(|last| last.setting.resembles(setting));
        self.intervals = if last.is_some() { self.intervals + 1 } else { 1 };
        let close = last.is_some_and(|last| (throughput - last.throughput).abs() < SETTLED * last.throughput);
        self.waited += 1;
        let counts = close || self.intervals >= PATIENCE || self.waited >= LONGEST;
        if counts {
            self.waited = 0;
        }
        counts.then_some(sample)
    }
}

/// Compares what is achieved with what is expected, interval after interval.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    expected: f64,
    bound: f64,
    deviating: Option<(Side, u32)>,
    elsewhere: u32,
}

impl Watch {
    /// Expects a throughput, give or take a bound, both in bytes per second.
    pub(super) fn new(expected: f64, bound: f64) -> Self {
        Self { expected, bound: bound.max(LEAST_DEVIATION * expected), deviating: None, elsewhere: 0 }
    }

    /// Takes note of an interval in which another setting ran; answers whether that has become a habit.
    pub(super) fn is_elsewhere(&mut self) -> bool {
        self.deviating = None;
        self.elsewhere = (self.elsewhere + 1) % PERSISTENT;
        self.elsewhere == 0
    }

    /// Takes the throughput of an interval; answers with the side if those of late all lie beyond the bound there.
    pub(super) fn deviates(&mut self, throughput: f64) -> Option<Side> {
        self.elsewhere = 0;
        let side = match throughput - self.expected {
            more if more > self.bound => Some(Side::Lighter),
            less if less < -self.bound => Some(Side::Heavier),
            _ => None,
        };
        self.deviating = match (side, self.deviating) {
            (Some(now), Some((before, times))) if now == before => Some((now, times + 1)),
            (now, _) => now.map(|side| (side, 1)),
        };
        self.deviating.filter(|(_, times)| *times >= PERSISTENT).map(|(side, _)| side)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::setting;
    use super::*;

    #[test]
    fn a_throughput_counts_once_it_has_settled_or_time_has_passed() {
        let mut settling = Settling::default();
        let one = setting(1, 8, 4);
        let counted: Vec<bool> =
            [50.0, 100.0, 104.0, 60.0, 61.0].iter().map(|throughput| settling.settled(one, *throughput).is_some()).collect();
        assert_eq!(counted, [false, false, true, true, true]);
        assert_eq!(settling.settled(setting(2, 8, 4), 61.0), None, "another setting begins anew");
        assert!(settling.settled(setting(2, 8, 4), 62.0).is_some());
        assert!(settling.settled(setting(2, 7, 4), 62.0).is_some(), "two of sixteen streams more or less are the same setting");
        assert_eq!(settling.settled(setting(2, 5, 4), 62.0), None);
    }

    #[test]
    fn where_the_setting_changes_all_the_time_the_sixth_interval_counts() {
        let mut settling = Settling::default();
        let counted: Vec<bool> =
            (0..13).map(|interval| settling.settled(setting(1, 2 + 2 * (interval % 2), 4), 100.0).is_some()).collect();
        let places: Vec<usize> = (0..13).filter(|place| counted[*place]).collect();
        assert_eq!(places, [5, 11]);
    }

    #[test]
    fn three_intervals_in_a_row_with_another_setting_are_a_habit() {
        let mut watch = Watch::new(100.0, 20.0);
        assert_eq!([watch.is_elsewhere(), watch.is_elsewhere()], [false, false]);
        assert_eq!(watch.deviates(100.0), None);
        let habits: Vec<bool> = (0..6).map(|_| watch.is_elsewhere()).collect();
        assert_eq!(habits, [false, false, true, false, false, true]);
    }

    #[test]
    fn three_intervals_on_one_side_are_a_change() {
        let mut watch = Watch::new(100.0, 20.0);
        let sides: Vec<_> = [130.0, 125.0, 90.0, 130.0, 121.0, 140.0].iter().map(|t| watch.deviates(*t)).collect();
        assert_eq!(sides, [None, None, None, None, None, Some(Side::Lighter)]);
        let mut watch = Watch::new(100.0, 1.0);
        let sides: Vec<_> = [95.0, 89.0, 89.0, 112.0, 89.0, 85.0, 80.0].iter().map(|t| watch.deviates(*t)).collect();
        assert_eq!(sides, [None, None, None, None, None, None, Some(Side::Heavier)]);
    }
}
