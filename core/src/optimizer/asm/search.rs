//! The search for the surface of the present load: algorithm 1 of the paper.
//!
//! It begins with the surface of the median load, at the setting of its maximum. A throughput outside of the confidence bound
//! there speaks for a lighter or a heavier load: only surfaces on that side are still candidates, and the closest of them is next.
//!
//! Surfaces cross, so that which load is the lighter depends on the setting. What counts is what the surfaces say of the setting that
//! was sampled; the order of their loads counts where they say the same. "Closest" takes all samples so far into account, each by
//! the logarithm of its ratio to the prediction, so that one that says little does not decide alone; of two that are as close it
//! is the lighter one.

use super::setting::{Bounds, Setting};
use super::surface::{Cluster, Side};

/// Predictions for one setting that differ by less than this share do not tell two loads apart.
const ALIKE: f64 = 0.05;

/// A throughput that was achieved with a setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// What was in effect.
    pub setting: Setting,
    /// Bytes per second.
    pub throughput: f64,
}

/// What a sample says of the surface that it was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It lies within the confidence bound: this is the load.
    Fits,
    /// It does not; the surface is now another one, on this side, whose best setting is to be sampled.
    Moved(Side),
    /// It does not, and there is no surface left on this side.
    Exhausted(Side),
}

/// The surfaces of one cluster that may be that of the present load.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    candidates: Vec<usize>,
    current: usize,
    samples: Vec<Sample>,
}

impl Search {
    /// Begins with all surfaces, at the median load [ASM algorithm 1, lines 3 to 5].
    pub fn new(cluster: &Cluster) -> Self {
        let candidates: Vec<usize> = (0..cluster.surfaces()).collect();
        Self { current: (candidates.len() - 1) / 2, candidates, samples: Vec::new() }
    }

    /// Begins anew where the load has changed: with the surface, of those on the side where it went, that is closest to what was
    /// achieved last [ASM section 4.2].
    pub fn resume(&mut self, cluster: &Cluster, recent: Sample, side: Side) {
        (self.candidates, self.samples) = ((0..cluster.surfaces()).collect(), vec![recent]);
        let mut near = self.beyond(cluster, recent.setting, side);
        near.push(self.current);
        near.sort_unstable();
        self.current = self.closest(cluster, &near).unwrap_or(self.current);
    }

    /// The surface that the load is taken for.
    pub fn surface(&self) -> usize {
        self.current
    }

    /// How many surfaces are still candidates, this one among them.
    pub fn candidates(&self) -> usize {
        self.candidates.len()
    }

    /// Takes a sample into account [ASM algorithm 1, lines 9 to 15].
    pub fn sampled(&mut self, cluster: &Cluster, sample: Sample, bounds: Bounds) -> Step {
        self.samples.push(sample);
        loop {
            let Some(side) = cluster.predict(self.current, sample.setting).side(sample.throughput) else { return Step::Fits };
            let left = self.beyond(cluster, sample.setting, side);
            let Some(next) = self.closest(cluster, &left) else { return Step::Exhausted(side) };
            (self.candidates, self.current) = (left, next);
            // Where the next surface has its maximum at the same setting, the same sample speaks for it too.
            if !cluster.best(next, bounds).resembles(sample.setting) {
                return Step::Moved(side);
            }
        }
    }

    /// The setting to stay with, and the throughput to expect: the best of the surface, or a sampled one that gave more.
    pub fn conclusion(&self, cluster: &Cluster, bounds: Bounds) -> Sample {
        let best = cluster.best(self.current, bounds);
        let measured = self.samples.iter().rev().find(|sample| sample.setting.resembles(best)).map(|sample| sample.throughput);
        let throughput = measured.unwrap_or_else(|| cluster.predict(self.current, best).throughput);
        let expected = Sample { setting: best, throughput };
        let allowed = self.samples.iter().filter(|sample| bounds.allow(sample.setting) && sample.throughput > throughput);
        allowed.max_by(|a, b| a.throughput.total_cmp(&b.throughput)).copied().unwrap_or(expected)
    }

    /// The candidates on one side of the present surface, as a setting sees them.
    fn beyond(&self, cluster: &Cluster, setting: Setting, side: Side) -> Vec<usize> {
        let present = cluster.predict(self.current, setting).throughput;
        let is_beyond = |surface: usize| {
            let ratio = cluster.predict(surface, setting).throughput / present;
            match side {
                Side::Lighter => ratio > 1.0 + ALIKE || (ratio > 1.0 - ALIKE && surface < self.current),
                Side::Heavier => ratio < 1.0 / (1.0 + ALIKE) || (ratio < 1.0 / (1.0 - ALIKE) && surface > self.current),
            }
        };
        self.candidates.iter().copied().filter(|surface| is_beyond(*surface)).collect()
    }

    /// The surface among some that is closest to all samples.
    fn closest(&self, cluster: &Cluster, among: &[usize]) -> Option<usize> {
        let distance = |surface: usize| -> f64 {
            let ratio = |sample: &Sample| cluster.predict(surface, sample.setting).throughput / sample.throughput;
            self.samples.iter().map(|sample| ratio(sample).ln().powi(2)).sum()
        };
        let distances = among.iter().map(|surface| (*surface, distance(*surface)));
        distances.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(surface, _)| surface)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ANY, cluster, concurrencies, setting};
    use super::*;

    fn sample(concurrency: u16, throughput: f64) -> Sample {
        Sample { setting: setting(1, concurrency, 4), throughput }
    }

    /// Seven loads; surface i peaks at 8 - i files in flight with (8 - i) * 100, and falls off by a sixteenth of it on both
    /// sides.
    fn seven() -> Cluster {
        let surface = |load: i32| -> Vec<f64> {
            let peak = 8 - load;
            (1..=8).map(|cc: i32| 100.0 * f64::from(peak) * (1.0 - f64::from((cc - peak).abs()) / 16.0)).collect()
        };
        let values: Vec<(f64, Vec<f64>)> = (0..7).map(|load| (0.1 * f64::from(load), surface(load))).collect();
        let surfaces: Vec<(f64, &[f64])> = values.iter().map(|(load, values)| (*load, &values[..])).collect();
        cluster(vec![concurrencies(&[1, 2, 3, 4, 5, 6, 7, 8])], &surfaces)
    }

    #[test]
    fn it_begins_at_the_median_load() {
        let known = seven();
        let search = Search::new(&known);
        assert_eq!((search.surface(), search.candidates()), (3, 7));
        assert_eq!(known.best(3, ANY), setting(1, 5, 4));
        let grid = concurrencies(&[1, 2]);
        let two = cluster(vec![grid], &[(0.0, &[1.0, 2.0]), (0.5, &[1.0, 1.0])]);
        assert_eq!(Search::new(&two).surface(), 0);
    }

    #[test]
    fn a_sample_within_the_bound_ends_it() {
        let known = seven();
        let mut search = Search::new(&known);
        assert_eq!(search.sampled(&known, sample(5, 520.0), ANY), Step::Fits);
        assert_eq!(search.surface(), 3);
        assert_eq!(search.conclusion(&known, ANY), sample(5, 520.0));
    }

    #[test]
    fn a_sample_outside_of_it_leaves_the_surfaces_of_its_side() {
        let known = seven();
        let mut search = Search::new(&known);
        // With 5 files in flight surface 4 gives 375 and surface 5 262.5: the former is closer.
        assert_eq!(search.sampled(&known, sample(5, 330.0), ANY), Step::Moved(Side::Heavier));
        assert_eq!((search.surface(), search.candidates()), (4, 3));
        assert_eq!(search.sampled(&known, sample(4, 250.0), ANY), Step::Moved(Side::Heavier));
        assert_eq!((search.surface(), search.candidates()), (5, 2));
        assert_eq!(search.sampled(&known, sample(3, 150.0), ANY), Step::Moved(Side::Heavier));
        assert_eq!((search.surface(), search.candidates()), (6, 1));
        assert_eq!(search.sampled(&known, sample(2, 100.0), ANY), Step::Exhausted(Side::Heavier));
        assert_eq!(search.surface(), 6);
    }

    #[test]
    fn all_samples_decide_which_surface_is_closest() {
        let surfaces: [(f64, &[f64]); 8] = [
            (0.0, &[120.0, 100.0]),
            (0.1, &[115.0, 100.0]),
            (0.2, &[110.0, 100.0]),
            (0.3, &[100.0, 90.0]),
            (0.4, &[51.0, 200.0]),
            (0.5, &[60.0, 105.0]),
            (0.6, &[50.0, 97.0]),
            (0.7, &[40.0, 100.0]),
        ];
        let known = cluster(vec![concurrencies(&[1, 2])], &surfaces);
        let mut search = Search::new(&known);
        assert_eq!(search.sampled(&known, sample(1, 50.8), ANY), Step::Moved(Side::Heavier));
        assert_eq!(search.surface(), 4);
        // By this sample alone it would be surface 7, by both it is 6, whose maximum is where the sample was taken.
        assert_eq!(search.sampled(&known, sample(2, 100.0), ANY), Step::Fits);
        assert_eq!(search.surface(), 6);
    }

    #[test]
    fn which_load_is_the_lighter_depends_on_the_setting() {
        // The last load is the heaviest in all, and yet two files in flight get more under it than under the one before.
        let surfaces: [(f64, &[f64]); 3] = [(0.0, &[300.0, 310.0]), (0.2, &[100.0, 200.0]), (0.4, &[20.0, 260.0])];
        let known = cluster(vec![concurrencies(&[1, 2])], &surfaces);
        let mut search = Search::new(&known);
        assert_eq!(search.sampled(&known, sample(2, 265.0), ANY), Step::Fits);
        assert_eq!((search.surface(), search.candidates()), (2, 2));
        // Where they promise the same, the order of the loads decides.
        let alike: [(f64, &[f64]); 3] =
            [(0.0, &[100.0, 202.0, 400.0]), (0.2, &[100.0, 200.0, 150.0]), (0.4, &[100.0, 198.0, 90.0])];
        let known = cluster(vec![concurrencies(&[1, 2, 4])], &alike);
        let mut search = Search::new(&known);
        assert_eq!(search.sampled(&known, sample(2, 230.0), ANY), Step::Moved(Side::Lighter));
        assert_eq!((search.surface(), search.candidates()), (0, 1));
    }

    #[test]
    fn where_the_load_changed_it_begins_anew_on_that_side() {
        let known = seven();
        for (throughput, side, surface) in [(690.0, Side::Lighter, 0), (290.0, Side::Heavier, 5), (290.0, Side::Lighter, 3)] {
            let mut search = Search::new(&known);
            search.resume(&known, sample(5, throughput), side);
            assert_eq!((search.surface(), search.candidates()), (surface, 7));
        }
    }

    #[test]
    fn a_setting_that_gave_more_than_the_surface_promises_is_kept() {
        let known = seven();
        let mut search = Search::new(&known);
        search.sampled(&known, sample(5, 420.0), ANY);
        assert_eq!(known.best(search.surface(), ANY), setting(1, 4, 4));
        assert_eq!(search.conclusion(&known, ANY), sample(5, 420.0), "400 are predicted for 4 files in flight");
        search.sampled(&known, sample(4, 430.0), ANY);
        assert_eq!(search.conclusion(&known, ANY), sample(4, 430.0));
    }
}
