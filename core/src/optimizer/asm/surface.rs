//! Throughput surfaces on their grids: what a setting gives under a load, and which setting gives most.

use serde::Deserialize;

use super::knowledge::refused;
use super::setting::{Bounds, Setting};
use crate::error::Result;

/// Standard deviations on either side of a prediction within which a throughput agrees with it: half of all do. A wider bound ends
/// a search at a surface that is not the right one, a narrower one goes on where there is nothing to find; the paper does not say
/// how wide it is, and on the transfer logs published with HARP this predicts best.
const CONFIDENCE: f64 = 0.6745;

/// The least bound, as a share of the prediction: the throughput of an interval is no more exact.
const LEAST_BOUND: f64 = 0.05;

/// Of the settings that promise at least this share of the highest throughput, the one with the fewest streams is the best: what
/// the others promise beyond it is within the noise, and their streams are taken from others on the path.
pub(super) const ENOUGH: f64 = 0.98;

/// The settings that surfaces are known at: all combinations of three ascending lists.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Grid {
    pub(super) parallelism: Vec<u16>,
    pub(super) concurrency: Vec<u16>,
    pub(super) pipelining: Vec<u16>,
}

impl Grid {
    pub(super) fn check(&self) -> Result<()> {
        for (name, axis) in self.axes() {
            let ascends = axis.windows(2).all(|pair| pair[0] < pair[1]);
            if !ascends || axis.first().is_none_or(|first| *first == 0) {
                return Err(refused(format!("the {name} of a grid is not an ascending list of numbers from 1")));
            }
        }
        Ok(())
    }

    fn axes(&self) -> [(&'static str, &[u16]); 3] {
        [("parallelism", &self.parallelism), ("concurrency", &self.concurrency), ("pipelining", &self.pipelining)]
    }

    /// How many settings there are.
    pub(super) fn points(&self) -> usize {
        self.parallelism.len() * self.concurrency.len() * self.pipelining.len()
    }

    /// All settings, parallelism slowest and pipelining fastest.
    pub(super) fn settings(&self) -> impl Iterator<Item = Setting> {
        self.parallelism.iter().flat_map(move |&parallelism| {
            self.concurrency.iter().flat_map(move |&concurrency| {
                self.pipelining.iter().map(move |&pipelining| Setting { parallelism, concurrency, pipelining })
            })
        })
    }

    /// The place of the nearest setting in that order.
    fn index(&self, setting: Setting) -> usize {
        let parallelism = nearest(&self.parallelism, setting.parallelism);
        let concurrency = nearest(&self.concurrency, setting.concurrency);
        let pipelining = nearest(&self.pipelining, setting.pipelining);
        (parallelism * self.concurrency.len() + concurrency) * self.pipelining.len() + pipelining
    }

    /// In how many of parallelism and pipelining this grid has a limit and the setting has none, or the other way round.
    fn mismatches(&self, setting: Setting) -> usize {
        let last = |axis: &[u16]| axis.last().copied() == Some(u16::MAX);
        let own = [last(&self.parallelism), last(&self.pipelining)];
        own.iter().zip(setting.unlimited()).filter(|(own, other)| **own != *other).count()
    }
}

/// The place of the value whose ratio to this one is nearest to 1, in an ascending list that is not empty.
fn nearest(axis: &[u16], value: u16) -> usize {
    let above = axis.partition_point(|each| *each < value);
    let square = u32::from(value).pow(2);
    match (above.checked_sub(1), axis.get(above)) {
        (Some(below), Some(high)) if square >= u32::from(axis[below]) * u32::from(*high) => above,
        (Some(below), _) => below,
        (None, _) => above,
    }
}

/// What is expected of a setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Bytes per second: mu [ASM eq. 13].
    pub throughput: f64,
    /// Its standard deviation in bytes per second: sigma [ASM eq. 14].
    pub deviation: f64,
}

/// Where a load lies from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Less is going on beside the transfer.
    Lighter,
    /// More is.
    Heavier,
}

impl Prediction {
    /// The load that a throughput speaks for; `None` if it lies within the confidence bound.
    pub fn side(self, achieved: f64) -> Option<Side> {
        let bound = self.bound();
        if achieved > self.throughput + bound {
            Some(Side::Lighter)
        } else if achieved < self.throughput - bound {
            Some(Side::Heavier)
        } else {
            None
        }
    }

    /// Bytes per second on either side.
    pub(super) fn bound(self) -> f64 {
        (CONFIDENCE * self.deviation).max(LEAST_BOUND * self.throughput)
    }
}

/// The throughput over the settings under one load.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Surface {
    /// External load: the share of the throughput that it costs, from 0 to 1.
    pub(super) load: f64,
    /// The setting of the highest throughput.
    pub(super) argmax: Setting,
    /// The setting with the fewest streams that gives about as much.
    pub(super) best: Setting,
    /// Bytes per second at the settings of all grids, one grid after another.
    pub(super) throughput: Vec<f64>,
    /// Standard deviations there, as shares of the throughput.
    pub(super) deviation: Vec<f64>,
}

/// Transfers that resemble each other, and their surfaces from the lightest load to the heaviest.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    pub(super) centroid: Vec<Option<f64>>,
    pub(super) entries: u64,
    pub(super) grids: Vec<Grid>,
    pub(super) surfaces: Vec<Surface>,
    /// The share of the highest throughput from which on a setting is as good as the best.
    pub(super) enough: f64,
}

impl Cluster {
    /// How many surfaces there are, at least one.
    pub fn surfaces(&self) -> usize {
        self.surfaces.len()
    }

    /// The external load of a surface: the share of the throughput that it costs, from 0 to 1.
    pub fn load(&self, surface: usize) -> f64 {
        self.surfaces[surface].load
    }

    /// What a setting gives under the load of a surface: a look-up at the nearest setting of the grid.
    pub fn predict(&self, surface: usize, setting: Setting) -> Prediction {
        let place = self.place(setting);
        let Surface { throughput, deviation, .. } = &self.surfaces[surface];
        Prediction { throughput: throughput[place], deviation: deviation[place] * throughput[place] }
    }

    /// The best setting under the load of a surface, among those that are allowed: the one with the fewest streams of all that give
    /// about as much as the highest.
    pub fn best(&self, surface: usize, bounds: Bounds) -> Setting {
        let Surface { argmax, best, throughput, .. } = &self.surfaces[surface];
        if bounds.allow(*argmax) && bounds.allow(*best) {
            return *best;
        }
        best_of(&self.grids, throughput, bounds, self.enough).unwrap_or_else(|| bounds.within(*argmax))
    }

    /// The same where settings are as good as the best from another share of the highest throughput on, up to 1.
    pub(super) fn with_enough(mut self, enough: f64) -> Self {
        for surface in &mut self.surfaces {
            surface.best = best_of(&self.grids, &surface.throughput, Bounds::NONE, enough).unwrap_or(surface.argmax);
        }
        Self { enough, ..self }
    }

    /// Whether a setting is one of the grids'.
    pub(super) fn has(&self, setting: Setting) -> bool {
        self.grids.iter().flat_map(Grid::settings).any(|each| each == setting)
    }

    /// The place of the setting nearest to this one in the values of a surface.
    fn place(&self, setting: Setting) -> usize {
        let mut offset = 0;
        let mut found = (usize::MAX, 0);
        for grid in &self.grids {
            let mismatches = grid.mismatches(setting);
            if mismatches < found.0 {
                found = (mismatches, offset + grid.index(setting));
            }
            offset += grid.points();
        }
        found.1
    }
}

/// The best of the settings of some grids that are allowed, by the throughputs there; `None` if none is. From the share `enough` of the
/// highest throughput on they are as good as each other, but for their streams.
pub(super) fn best_of(grids: &[Grid], throughput: &[f64], bounds: Bounds, enough: f64) -> Option<Setting> {
    let settings = || grids.iter().flat_map(Grid::settings).zip(throughput).filter(|(setting, _)| bounds.allow(*setting));
    let highest = settings().map(|(_, throughput)| *throughput).max_by(f64::total_cmp)?;
    let good = settings().filter(|(_, throughput)| **throughput >= enough * highest);
    let fewest = good.min_by(|(a, more), (b, less)| a.streams().cmp(&b.streams()).then(less.total_cmp(more)));
    fewest.map(|(setting, _)| setting)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ANY, cluster, concurrencies, setting};
    use super::*;

    #[test]
    fn the_nearest_value_is_the_one_of_the_nearest_ratio() {
        let axis = [1, 2, 4, 8, 32];
        let places: Vec<_> = [1, 2, 3, 5, 6, 8, 15, 16, 32, 500].iter().map(|value| axis[nearest(&axis, *value)]).collect();
        assert_eq!(places, [1, 2, 4, 4, 8, 8, 8, 32, 32, 32]);
        assert_eq!(nearest(&[1, 4], 0), 0);
        assert_eq!(nearest(&[1, 4], 2), 1);
        assert_eq!(nearest(&[u16::MAX], 7), 0);
    }

    #[test]
    fn a_look_up_finds_the_value_of_its_setting() {
        let grid = Grid { parallelism: vec![1, 2], concurrency: vec![1, 4, 8], pipelining: vec![1, 8] };
        let values: Vec<f64> = (0..12).map(|index| f64::from(index) + 1.0).collect();
        let settings: Vec<_> = grid.settings().collect();
        let known = cluster(vec![grid], &[(0.0, &values)]);
        for (setting, value) in settings.iter().zip(&values) {
            assert!((known.predict(0, *setting).throughput - value).abs() < 1e-9, "{setting}");
        }
        assert_eq!(settings[7], setting(2, 1, 8));
        assert!((known.predict(0, setting(64, 1, 100)).throughput - 8.0).abs() < 1e-9);
    }

    #[test]
    fn settings_without_a_limit_have_a_grid_of_their_own() {
        let limited = Grid { parallelism: vec![1, 2], concurrency: vec![1, 8], pipelining: vec![1] };
        let free = Grid { parallelism: vec![u16::MAX], concurrency: vec![8], pipelining: vec![u16::MAX] };
        let known = cluster(vec![limited, free], &[(0.0, &[1.0, 2.0, 3.0, 4.0, 5.0])]);
        assert!((known.predict(0, setting(u16::MAX, 3, u16::MAX)).throughput - 5.0).abs() < 1e-9);
        assert!((known.predict(0, setting(2, 7, 9)).throughput - 4.0).abs() < 1e-9);
        assert_eq!(known.best(0, ANY), setting(u16::MAX, 8, u16::MAX));
    }

    #[test]
    fn the_best_setting_is_the_best_of_those_that_are_allowed() {
        let grid = Grid { parallelism: vec![1, 2], concurrency: vec![1, 4, 8], pipelining: vec![4] };
        let known = cluster(vec![grid], &[(0.0, &[1.0, 5.0, 7.0, 2.0, 7.0, 9.0])]);
        assert_eq!(known.best(0, ANY), setting(2, 8, 4));
        assert_eq!(known.best(0, Bounds { streams: 15, ..ANY }).streams(), 8);
        assert_eq!(known.best(0, Bounds { streams: 4, ..ANY }), setting(1, 4, 4));
        assert_eq!(known.best(0, Bounds { parallelism: 1, ..ANY }), setting(1, 8, 4));
        assert_eq!(known.best(0, Bounds { pipelining: 0, ..ANY }), setting(2, 8, 0));
    }

    #[test]
    fn of_settings_that_give_about_the_same_the_one_with_the_fewest_streams_is_best() {
        let known = cluster(vec![concurrencies(&[1, 2, 4, 8])], &[(0.0, &[97.0, 98.5, 98.0, 100.0])]);
        assert_eq!(known.best(0, ANY), setting(1, 2, 4));
        assert_eq!(known.best(0, Bounds { streams: 6, ..ANY }), setting(1, 1, 4), "97 is enough where 98.5 is the highest");
        let highest = known.with_enough(1.0);
        assert_eq!(highest.best(0, ANY), setting(1, 8, 4));
        assert_eq!(highest.best(0, Bounds { streams: 6, ..ANY }), setting(1, 2, 4));
    }

    #[test]
    fn a_throughput_among_the_nearer_half_agrees() {
        let prediction = Prediction { throughput: 100.0, deviation: 10.0 };
        assert_eq!(prediction.side(106.7), None);
        assert_eq!(prediction.side(106.8), Some(Side::Lighter));
        assert_eq!(prediction.side(93.2), Some(Side::Heavier));
        assert_eq!(Prediction { deviation: 0.0, ..prediction }.side(104.9), None);
    }

    #[test]
    fn an_axis_that_does_not_ascend_is_refused() {
        let grid = |parallelism: &[u16], pipelining: &[u16]| {
            Grid { parallelism: parallelism.to_vec(), concurrency: vec![1], pipelining: pipelining.to_vec() }.check()
        };
        assert!(grid(&[1, 2], &[1]).is_ok());
        for (parallelism, pipelining) in [(&[2, 2][..], &[1][..]), (&[], &[1]), (&[0], &[1]), (&[1], &[0]), (&[1], &[2, 1])] {
            assert!(grid(parallelism, pipelining).is_err(), "{parallelism:?} {pipelining:?}");
        }
    }
}
