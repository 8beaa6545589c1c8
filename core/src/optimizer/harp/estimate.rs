//! What similar past transfers make of a sample: the optimizer of the paper [HARP §2.2].

use super::groups::{Group, groups};
use super::model::{Model, Peak, are_enough};
use super::polynomial::{Measured, Point};
use super::similar::{Known, Task};
use super::weights::weights;

/// How near differences of one subgroup are, as a share of the bandwidth: 50 Mbit/s of 10 Gbit/s, as in the authors' program.
const NEAR: f64 = 0.005;

/// Most groups that are learned from, the newest: the history of the paper has about as many, and learning takes no longer with a longer
/// one.
const MOST_GROUPS: usize = 256;

/// The models of the past transfers that are like a task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Models {
    groups: Vec<Model>,
    /// Where each promises most with at most `limit` files in flight; `None` if it counts as an outlier there.
    peaks: Vec<Option<Peak>>,
    limit: u16,
    /// Bytes per second between the differences of one subgroup.
    near: f64,
}

/// What is best for a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// The parameters after the relaxation.
    pub(super) relaxed: Point,
    /// The parameters with the most throughput.
    pub(super) best: Point,
    /// Bytes per second that the relaxed parameters promise.
    pub(super) throughput: f64,
    /// Bytes per second of one channel.
    pub(super) unit_throughput: f64,
    /// Which of the parameters any model knows something of.
    pub(super) known: [bool; 3],
}

impl Models {
    /// Learns from the past transfers that are most like the task, with at most `limit` files in flight.
    pub(super) fn learned(known: &Known, task: &Task, limit: u16) -> Self {
        let groups = telling(groups(known.pasts(), &known.similar(task)));
        let models: Vec<Model> = groups.iter().filter_map(Model::of).collect();
        let peaks = peaks(&models, limit);
        Self { groups: models, peaks, limit, near: NEAR * task.path.bandwidth }
    }

    /// Holds to another limit of the files in flight, for which nothing has to be learned anew.
    pub(super) fn bound(&mut self, limit: u16) {
        if self.limit != limit {
            (self.peaks, self.limit) = (peaks(&self.groups, limit), limit);
        }
    }

    /// How many have a say.
    pub(super) fn count(&self) -> usize {
        self.peaks.iter().flatten().count()
    }

    /// The estimate after a sample; `None` without models.
    pub(super) fn estimate(&self, sample: Measured) -> Option<Estimate> {
        let sound = || self.groups.iter().zip(&self.peaks).filter_map(|(model, peak)| peak.map(|peak| (model, peak)));
        // HARP eq. 3
        let residuals: Vec<f64> = sound().map(|(model, _)| sample.throughput - model.throughput(sample.at)).collect();
        let weights = weights(&residuals, self.near).into_iter();
        let weighted: Vec<Weighted<'_>> =
            sound().zip(weights).map(|((model, peak), weight)| Weighted { model, peak, weight }).collect();
        if weighted.is_empty() {
            return None;
        }
        let (relaxed, best) = (mean_point(&weighted, |one| one.peak.relaxed), mean_point(&weighted, |one| one.peak.best));
        Some(Estimate {
            relaxed,
            best,
            throughput: mean(&weighted, |one| one.model.throughput(relaxed)),
            unit_throughput: mean(&weighted, |one| one.model.unit_throughput(relaxed)),
            known: [0, 1, 2].map(|variable| weighted.iter().any(|one| one.model.knows(variable))),
        })
    }
}

/// The newest of the groups that may have a model, oldest first.
fn telling(groups: Vec<Group>) -> Vec<Group> {
    let mut telling: Vec<Group> = groups.into_iter().filter(|group| are_enough(group.rows.len())).collect();
    telling.drain(..telling.len().saturating_sub(MOST_GROUPS));
    telling
}

fn peaks(models: &[Model], limit: u16) -> Vec<Option<Peak>> {
    models.iter().map(|model| model.peak(limit)).collect()
}

/// A model that has a say.
struct Weighted<'a> {
    model: &'a Model,
    peak: Peak,
    weight: f64,
}

// HARP eq. 6
fn mean(models: &[Weighted<'_>], of: impl Fn(&Weighted<'_>) -> f64) -> f64 {
    let total: f64 = models.iter().map(|one| one.weight).sum();
    models.iter().map(|one| one.weight * of(one)).sum::<f64>() / total
}

fn mean_point(models: &[Weighted<'_>], of: impl Fn(&Weighted<'_>) -> Point) -> Point {
    std::array::from_fn(|variable| mean(models, |one| of(one)[variable]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{pass, past};
    use super::*;
    use crate::history::Past;

    const DAY_S: f64 = 86_400.0;

    fn learned(history: Vec<Past>, limit: u16) -> Models {
        Models::learned(&Known::of(history), &Task::of(&past(), 1.25e9), limit)
    }

    /// Bytes per second, most at concurrency `top`, whatever the rest.
    fn hill(top: f64, scale: f64) -> impl Fn(u16, u16, u16) -> f64 {
        move |cc, _, _| scale * (400.0 - (f64::from(cc) - top).powi(2))
    }

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3 * b.abs().max(1.0)
    }

    #[test]
    fn one_pass_by_itself_is_what_is_estimated() {
        let models = learned(pass(&past(), 0.0, hill(16.0, 1e6)), 64);
        assert_eq!(models.count(), 1);
        let found = models.estimate(Measured { at: [4.0, 1.0, 1.0], throughput: 1.0 }).unwrap();
        assert!(is_near(found.best[0], 16.0), "{found:?}");
        // 0.7 * 400 = 280: 400 - (cc - 16)^2 has it from 5.05 on, so at 6.
        assert_eq!(found.relaxed.map(f64::round).as_slice(), [6.0, 1.0, 1.0].as_slice());
        assert!(is_near(found.throughput, 300e6) && is_near(found.unit_throughput, 175e6), "{found:?}");
        assert_eq!(found.known, [true; 3]);
    }

    #[test]
    fn the_pass_that_met_the_load_of_the_sample_weighs_more() {
        let mut history = pass(&past(), 0.0, hill(16.0, 1e6));
        history.extend(pass(&past(), DAY_S, hill(12.0, 0.25e6)));
        let models = learned(history, 64);
        assert_eq!(models.count(), 2);
        let light = models.estimate(Measured { at: [8.0, 1.0, 1.0], throughput: 330e6 }).unwrap();
        // It has twice the weight of the other: (2 * 16 + 12) / 3.
        assert!(is_near(light.best[0], 44.0 / 3.0), "{light:?}");
        let heavy = models.estimate(Measured { at: [8.0, 1.0, 1.0], throughput: 100e6 }).unwrap();
        assert!(is_near(heavy.best[0], 40.0 / 3.0), "{heavy:?}");
    }

    #[test]
    fn what_no_model_knows_of_is_told() {
        let history: Vec<_> = pass(&past(), 0.0, hill(16.0, 1e6)).into_iter().filter(|row| row.parallelism == 4).collect();
        let found = learned(history, 64).estimate(Measured { at: [4.0; 3], throughput: 1.0 }).unwrap();
        assert_eq!(found.known, [true, false, true]);
        assert_eq!(found.relaxed.map(f64::round).as_slice(), [6.0, 4.0, 1.0].as_slice());
    }

    #[test]
    fn another_limit_is_another_maximum_of_the_same_models() {
        let history = pass(&past(), 0.0, hill(16.0, 1e6));
        let mut models = learned(history.clone(), 4);
        let sample = Measured { at: [8.0, 1.0, 1.0], throughput: 336e6 };
        assert!(is_near(models.estimate(sample).unwrap().best[0], 4.0));
        models.bound(64);
        assert!(is_near(models.estimate(sample).unwrap().best[0], 16.0));
        assert_eq!(models, learned(history, 64));
    }

    #[test]
    fn of_very_many_groups_the_newest_are_learned_from() {
        let group = |number: usize, rows: usize| {
            let row = Measured { at: [1.0; 3], throughput: 1.0 };
            Group { rows: vec![row; rows], indices: vec![number; rows] }
        };
        let found = telling((0..2 * MOST_GROUPS).map(|number| group(number, 6 + number % 2)).chain([group(999, 7)]).collect());
        // Every other one has too few rows to be fitted.
        assert_eq!(found.len(), MOST_GROUPS);
        assert_eq!((found[0].indices[0], found[MOST_GROUPS - 1].indices[0]), (3, 999));
    }

    #[test]
    fn without_a_model_there_is_no_estimate() {
        let models = learned(vec![past()], 64);
        assert_eq!(models.count(), 0);
        assert_eq!(models.estimate(Measured { at: [1.0; 3], throughput: 1.0 }), None);
    }
}
