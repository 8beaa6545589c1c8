//! What similar past transfers make of a sample: the optimizer of the paper [HARP §2.2].

use super::groups::groups;
use super::model::Model;
use super::polynomial::{Measured, Point};
use super::similar::{Task, similar};
use super::weights::weights;
use crate::history::Past;

/// How near differences of one subgroup are, as a share of the bandwidth: 50 Mbit/s of 10 Gbit/s, as in the authors' program.
const NEAR: f64 = 0.005;

/// The models of the past transfers that are like a task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Models {
    models: Vec<Model>,
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
    pub(super) fn learned(history: &[Past], task: &Task, limit: u16) -> Self {
        let tasks: Vec<Task> = history.iter().map(|past| Task::of(past, task.path.bandwidth)).collect();
        let rows = similar(&tasks, task);
        let models = groups(history, &rows).iter().filter_map(|group| Model::of(group, limit)).collect();
        Self { models, near: NEAR * task.path.bandwidth }
    }

    pub(super) fn count(&self) -> usize {
        self.models.len()
    }

    /// The estimate after a sample; `None` without models.
    pub(super) fn estimate(&self, sample: Measured) -> Option<Estimate> {
        // HARP eq. 3
        let residuals: Vec<f64> = self.models.iter().map(|model| sample.throughput - model.throughput(sample.at)).collect();
        let weighted: Vec<(&Model, f64)> = self.models.iter().zip(weights(&residuals, self.near)).collect();
        if weighted.is_empty() {
            return None;
        }
        let (relaxed, best) = (mean_point(&weighted, |model| model.relaxed), mean_point(&weighted, |model| model.best));
        Some(Estimate {
            relaxed,
            best,
            throughput: mean(&weighted, |model| model.throughput(relaxed)),
            unit_throughput: mean(&weighted, |model| model.unit_throughput(relaxed)),
            known: [0, 1, 2].map(|variable| self.models.iter().any(|model| model.knows(variable))),
        })
    }
}

// HARP eq. 6
fn mean(models: &[(&Model, f64)], of: impl Fn(&Model) -> f64) -> f64 {
    let total: f64 = models.iter().map(|(_, weight)| weight).sum();
    models.iter().map(|(model, weight)| weight * of(model)).sum::<f64>() / total
}

fn mean_point(models: &[(&Model, f64)], of: impl Fn(&Model) -> Point) -> Point {
    std::array::from_fn(|variable| mean(models, |model| of(model)[variable]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{pass, past};
    use super::*;

    const DAY_S: f64 = 86_400.0;

    /// Bytes per second, most at concurrency `top`, whatever the rest.
    fn hill(top: f64, scale: f64) -> impl Fn(u16, u16, u16) -> f64 {
        move |cc, _, _| scale * (400.0 - (f64::from(cc) - top).powi(2))
    }

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3 * b.abs().max(1.0)
    }

    #[test]
    fn one_pass_by_itself_is_what_is_estimated() {
        let history = pass(&past(), 0.0, hill(16.0, 1e6));
        let models = Models::learned(&history, &Task::of(&past(), 1.25e9), 64);
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
        let models = Models::learned(&history, &Task::of(&past(), 1.25e9), 64);
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
        let found = Models::learned(&history, &Task::of(&past(), 1.25e9), 64)
            .estimate(Measured { at: [4.0; 3], throughput: 1.0 })
            .unwrap();
        assert_eq!(found.known, [true, false, true]);
        assert_eq!(found.relaxed.map(f64::round).as_slice(), [6.0, 4.0, 1.0].as_slice());
    }

    #[test]
    fn without_a_model_there_is_no_estimate() {
        let models = Models::learned(&[past()], &Task::of(&past(), 1.25e9), 64);
        assert_eq!(models.count(), 0);
        assert_eq!(models.estimate(Measured { at: [1.0; 3], throughput: 1.0 }), None);
    }
}
