//! How well HARP describes a history: what its paper says of its models in table 3, figure 4 and section 3.1.

use serde::Serialize;

use super::cluster::Class;
use super::estimate::Models;
use super::groups::{Group, groups, parameters};
use super::maximum::maximum;
use super::model::{Fitted, Model, Parts, highest};
use super::path::{Path, bandwidths, rtt_s};
use super::polynomial::{Measured, Point, Polynomial, coefficients, r_squared, squared_residuals};
use super::similar::{Known, Task};
use crate::history::Past;

/// A group of past transfers and what its model tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Assessed {
    /// How large the files are.
    pub class: Class,
    /// The rows of the history that it is made of.
    pub rows: Vec<usize>,
    /// Those of them that no model is fitted to: they choose its degree, and whether the group is an outlier.
    pub validating: Vec<usize>,
    /// `None` if it is an outlier.
    pub model: Option<Told>,
}

/// What the model of a group tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Told {
    /// Its degree.
    pub degree: u8,
    /// The share of the variance that it explains of the rows it was fitted to.
    pub training: f64,
    /// The same of the other rows.
    pub validation: f64,
    /// Bytes per second that it tells for each row of the group.
    pub predicted: Vec<f64>,
    /// Where it promises most.
    pub best: Point,
    /// The parameters after the relaxation.
    pub relaxed: Point,
    /// How well its best parameters do in a model of the validating rows, 0 to 1 [HARP §3.1]; `None` if these are too few for one.
    pub accuracy: Option<f64>,
}

/// What one polynomial for a whole history tells.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Global {
    /// The share of the variance that it explains.
    pub r_squared: f64,
    /// Mean squared difference, in (bytes per second)².
    pub residual_variance: f64,
}

/// What is chosen after a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Choice {
    /// The parameters after the relaxation.
    pub relaxed: Point,
    /// The parameters with the most throughput.
    pub best: Point,
    /// Bytes per second that the relaxed parameters promise.
    pub throughput: f64,
    /// Models that had a say.
    pub models: usize,
}

/// All groups of a history, oldest first, with at most `limit` files in flight.
pub fn assessed(history: &[Past], limit: u16) -> Vec<Assessed> {
    let all: Vec<usize> = (0..history.len()).collect();
    let bandwidths = bandwidths(history);
    let assess = |group: Group| {
        let first = group.indices[0];
        let class = Task::of(&history[first], bandwidths[first]).class;
        let model = Model::of(&group).and_then(|model| told(&group, &model, limit));
        Assessed { class, validating: Parts::of(&group.indices).validation, rows: group.indices, model }
    };
    groups(history, &all).into_iter().map(assess).collect()
}

fn told(group: &Group, model: &Model, limit: u16) -> Option<Told> {
    let Fitted { degree, training, validation, .. } = model.fitted;
    let peak = model.peak(limit)?;
    Some(Told {
        degree,
        training,
        validation,
        predicted: group.rows.iter().map(|row| model.fitted.polynomial.value(row.at)).collect(),
        best: peak.best,
        relaxed: peak.relaxed,
        accuracy: accuracy(&Parts::of(&group.rows).validation, model, peak.best, limit),
    })
}

/// The validation accuracy: 1 - |T - P| / P, where T is the most that a model of the validating rows promises, and P what that model
/// tells for the parameters `judged`, which the model of the training rows takes for best [HARP §3.1].
///
/// T is looked for from everywhere in the box but from `judged`: a search from there finds nothing better all too easily.
fn accuracy(validation: &[Measured], model: &Model, judged: Point, limit: u16) -> Option<f64> {
    if validation.len() < coefficients(validation, model.fitted.degree) {
        return None;
    }
    let (tested, bounds) = (Polynomial::fit(validation, model.fitted.degree), model.permitted(limit));
    let highest = highest(validation).map(|row| row.at);
    let starts: Vec<Point> = bounds.corners().into_iter().chain([bounds.middle()]).chain(highest).collect();
    let (most, projected) = (tested.value(maximum(&tested, &bounds, &starts)), tested.value(judged));
    Some(if projected > 0.0 { (1.0 - (most - projected).abs() / projected).max(0.0) } else { 0.0 })
}

/// What one polynomial of this degree for many rows of a history, given by index, tells of some of them or of others [HARP table 3].
///
/// # Panics
/// Where there is no row of an index.
pub fn globally(history: &[Past], degree: u8, fitted: &[usize], told: &[usize]) -> Global {
    let measured = |row: &usize| Measured { at: parameters(&history[*row]), throughput: history[*row].goodput };
    let polynomial = Polynomial::fit(&fitted.iter().map(measured).collect::<Vec<_>>(), degree);
    let rows: Vec<Measured> = told.iter().map(measured).collect();
    Global {
        r_squared: r_squared(&rows, |at| polynomial.value(at)),
        residual_variance: squared_residuals(&rows, |at| polynomial.value(at)) / rows.len().max(1) as f64,
    }
}

/// What is chosen for a transfer of which `sample` is a part, from a history that may know it or not; `None` without models.
pub fn chosen(history: Vec<Past>, sample: &Past, limit: u16) -> Option<Choice> {
    let path = Path::known(&history, rtt_s(sample));
    let task = Task::of(sample, sample.bandwidth.unwrap_or(path.bandwidth));
    let models = Models::learned(&Known::of(history), &task, limit);
    let estimate = models.estimate(Measured { at: parameters(sample), throughput: sample.goodput })?;
    Some(Choice { relaxed: estimate.relaxed, best: estimate.best, throughput: estimate.throughput, models: models.count() })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{grid, pass, past};
    use super::*;

    const DAY_S: f64 = 86_400.0;

    fn hill(scale: f64) -> impl Fn(u16, u16, u16) -> f64 {
        move |cc, _, _| scale * (400.0 - (f64::from(cc) - 16.0).powi(2))
    }

    #[test]
    fn each_pass_is_a_group_and_what_is_noise_an_outlier() {
        let mut history = pass(&past(), 0.0, hill(1e6));
        history.extend(pass(&past(), DAY_S, |cc, p, pp| 1e6 * f64::from((cc * 62 + p * 7 + pp * 40) % 97)));
        let found = assessed(&history, 64);
        assert_eq!(found.iter().map(|group| group.rows.len()).collect::<Vec<_>>(), [96, 96]);
        assert_eq!(found.iter().map(|group| group.class).collect::<Vec<_>>(), [Class::Tiny; 2]);
        assert_eq!(found[1].model, None);
        let told = found[0].model.as_ref().unwrap();
        assert_eq!(told.degree, 2);
        assert!(told.training > 0.999 && told.validation > 0.999 && told.accuracy.unwrap() > 0.999, "{told:?}");
        assert!(told.predicted.iter().zip(&history).all(|(predicted, past)| (predicted - past.goodput).abs() < 1.0));
        for group in &found {
            assert_eq!(group.validating.len(), 29, "of an outlier too");
            assert!(group.validating.iter().all(|row| group.rows.contains(row)));
        }
    }

    #[test]
    fn the_accuracy_is_what_the_best_parameters_are_worth_where_the_rest_of_the_rows_is_modelled() {
        let history = pass(&past(), 0.0, hill(1e6));
        let rows: Vec<Measured> =
            history.iter().map(|past| Measured { at: parameters(past), throughput: past.goodput }).collect();
        let group = groups(&history, &(0..rows.len()).collect::<Vec<_>>()).remove(0);
        let (model, judged) = (Model::of(&group).unwrap(), [6.0, 1.0, 1.0]);
        // It promises 400 at best, and 300 there.
        let found = accuracy(&rows, &model, judged, 64).unwrap();
        assert!((found - 2.0 / 3.0).abs() < 1e-4, "{found}");
        let few: Vec<Measured> = rows.into_iter().step_by(24).collect();
        assert_eq!(accuracy(&few, &model, judged, 64), None, "four rows for five coefficients");
    }

    // 304 at 4 files in flight, where the best row is, and 328 at 28; between them it falls to 100. A climb from 4 stays there.
    #[test]
    fn a_hill_that_is_higher_than_the_judged_one_is_found_though_no_row_stands_on_it() {
        let two_hills = |[cc, ..]: Point| 1e6 * (300.0 + cc - (cc - 4.0).powi(2) * (cc - 28.0).powi(2) / 1e2);
        let rows = grid(two_hills);
        let mut model = Model::of(&Group { indices: (0..rows.len()).collect(), rows: rows.clone() }).unwrap();
        model.fitted.degree = 4;
        let found = accuracy(&rows, &model, [4.0, 1.0, 1.0], 64).unwrap();
        assert!((found - (1.0 - 24.04 / 304.0)).abs() < 1e-3, "{found}");
        assert!(accuracy(&rows, &model, [4.0, 1.0, 1.0], 8).unwrap() > 0.999, "as far as is permitted it is the best");
    }

    #[test]
    fn one_polynomial_for_all_loads_explains_less_than_one_for_each() {
        let mut history = pass(&past(), 0.0, hill(1e6));
        history.extend(pass(&past(), DAY_S, hill(0.2e6)));
        let all: Vec<usize> = (0..history.len()).collect();
        let global = globally(&history, 4, &all, &all);
        assert!(global.r_squared < 0.6, "{global:?}");
        assert!(global.residual_variance > 1e15, "{global:?}");
        let (light, heavy) = all.split_at(96);
        assert!(globally(&history, 2, light, light).r_squared > 0.999);
        assert!(globally(&history, 2, &light[..70], &light[70..]).r_squared > 0.999);
        assert!(globally(&history, 2, light, heavy).r_squared < 0.0, "of the one load the other knows less than its mean");
    }

    #[test]
    fn a_sample_chooses_among_what_is_known() {
        let history = pass(&past(), 0.0, hill(1e6));
        let choice = chosen(history, &Past { concurrency: 4, goodput: 250e6, ..past() }, 64).unwrap();
        assert_eq!(choice.models, 1);
        assert_eq!(choice.relaxed.map(f64::round).as_slice(), [6.0, 1.0, 1.0].as_slice());
        assert_eq!(chosen(Vec::new(), &past(), 64), None);
    }
}
