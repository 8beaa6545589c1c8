//! How well HARP describes a history: what its paper says of its models in table 3, figure 4 and section 3.1.

use serde::Serialize;

use super::cluster::Class;
use super::estimate::Models;
use super::groups::{Group, groups, parameters};
use super::maximum::maximum;
use super::model::{Fitted, Model, Parts};
use super::polynomial::{Measured, Point, Polynomial, coefficients, r_squared, squared_residuals};
use super::similar::Task;
use crate::history::Past;

/// A group of past transfers and what its model tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Assessed {
    /// How large the files are.
    pub class: Class,
    /// The rows of the history that it is made of.
    pub rows: Vec<usize>,
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
    let fastest = fastest(history);
    let assess = |group: Group| {
        let class = Task::of(&history[group.indices[0]], fastest).class;
        let model = Model::of(&group, limit).map(|model| told(&group.rows, &model));
        Assessed { class, rows: group.indices, model }
    };
    groups(history, &all).into_iter().map(assess).collect()
}

/// The bandwidth of transfers of which nobody knew it.
fn fastest(history: &[Past]) -> f64 {
    history.iter().map(|past| past.goodput).fold(0.0, f64::max)
}

fn told(rows: &[Measured], model: &Model) -> Told {
    let Fitted { degree, training, validation, .. } = model.fitted;
    Told {
        degree,
        training,
        validation,
        predicted: rows.iter().map(|row| model.fitted.polynomial.value(row.at)).collect(),
        best: model.best,
        relaxed: model.relaxed,
        accuracy: accuracy(&Parts::of(rows).validation, model),
    }
}

/// The validation accuracy: 1 - |T - P| / P, where T is the most that a model of the validating rows promises, and P what that model
/// tells for the parameters that the model of the training rows takes for best [HARP §3.1].
fn accuracy(validation: &[Measured], model: &Model) -> Option<f64> {
    if validation.len() < coefficients(validation, model.fitted.degree) {
        return None;
    }
    let tested = Polynomial::fit(validation, model.fitted.degree);
    let best = maximum(&tested, &model.bounds, &[model.bounds.least, model.best]);
    let (most, projected) = (tested.value(best), tested.value(model.best));
    Some(if projected > 0.0 { (1.0 - (most - projected).abs() / projected).max(0.0) } else { 0.0 })
}

/// One polynomial of this degree for a whole history [HARP table 3].
pub fn globally(history: &[Past], degree: u8) -> Global {
    let rows: Vec<Measured> = history.iter().map(|past| Measured { at: parameters(past), throughput: past.goodput }).collect();
    let fitted = Polynomial::fit(&rows, degree);
    Global {
        r_squared: r_squared(&rows, |at| fitted.value(at)),
        residual_variance: squared_residuals(&rows, |at| fitted.value(at)) / rows.len().max(1) as f64,
    }
}

/// What is chosen for a transfer of which `sample` is a part, from a history that may know it or not; `None` without models.
pub fn chosen(history: &[Past], sample: &Past, limit: u16) -> Option<Choice> {
    let models = Models::learned(history, &Task::of(sample, fastest(history)), limit);
    let estimate = models.estimate(Measured { at: parameters(sample), throughput: sample.goodput })?;
    Some(Choice { relaxed: estimate.relaxed, best: estimate.best, throughput: estimate.throughput, models: models.count() })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{pass, past};
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
    }

    #[test]
    fn the_accuracy_is_what_the_best_parameters_are_worth_where_the_rest_of_the_rows_is_modelled() {
        let history = pass(&past(), 0.0, hill(1e6));
        let rows: Vec<Measured> =
            history.iter().map(|past| Measured { at: parameters(past), throughput: past.goodput }).collect();
        let group = groups(&history, &(0..rows.len()).collect::<Vec<_>>()).remove(0);
        let mut model = Model::of(&group, 64).unwrap();
        model.best = [6.0, 1.0, 1.0];
        // It promises 400 at best, and 300 there.
        let found = accuracy(&rows, &model).unwrap();
        assert!((found - 2.0 / 3.0).abs() < 1e-4, "{found}");
        let few: Vec<Measured> = rows.into_iter().step_by(24).collect();
        assert_eq!(accuracy(&few, &model), None, "four rows for five coefficients");
    }

    #[test]
    fn one_polynomial_for_all_loads_explains_less_than_one_for_each() {
        let mut history = pass(&past(), 0.0, hill(1e6));
        history.extend(pass(&past(), DAY_S, hill(0.2e6)));
        let global = globally(&history, 4);
        assert!(global.r_squared < 0.6, "{global:?}");
        assert!(global.residual_variance > 1e15, "{global:?}");
        assert!(globally(&history[..96], 2).r_squared > 0.999);
    }

    #[test]
    fn a_sample_chooses_among_what_is_known() {
        let history = pass(&past(), 0.0, hill(1e6));
        let choice = chosen(&history, &Past { concurrency: 4, goodput: 250e6, ..past() }, 64).unwrap();
        assert_eq!(choice.models, 1);
        assert_eq!(choice.relaxed.map(f64::round).as_slice(), [6.0, 1.0, 1.0].as_slice());
        assert_eq!(chosen(&[], &past(), 64), None);
    }
}
