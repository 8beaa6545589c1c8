//! A Gaussian process over one variable (Rasmussen and Williams, "Gaussian Processes for Machine Learning", MIT Press 2006).

use nalgebra::linalg::Cholesky;
use nalgebra::{DMatrix, DVector, Dyn};

/// Length scales that are tried, in units of the variable: the process varies little within one.
const LENGTHS: [f64; 4] = [0.25, 0.5, 1.0, 2.0];

/// Standard deviations of the noise that are tried, as shares of that of the values.
const NOISES: [f64; 4] = [0.02, 0.05, 0.1, 0.3];

/// A process that has seen some points. Values are in standard deviations from the mean of those that it saw.
pub(super) struct Process {
    places: Vec<f64>,
    /// The inverse of the covariance, times the values.
    weights: DVector<f64>,
    factor: Cholesky<f64, Dyn>,
    length: f64,
    mean: f64,
    deviation: f64,
}

/// What a process says of one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sight {
    /// What is expected there.
    pub(super) mean: f64,
    /// The standard deviation of what is expected.
    pub(super) deviation: f64,
}

impl Process {
    /// The process under which these places and values are likeliest, over a grid of lengths and noises; `None` if there is none.
    pub(super) fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean = points.iter().map(|(_, value)| value).sum::<f64>() / count;
        let deviation = (points.iter().map(|(_, value)| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        if !(deviation.is_finite() && mean.is_finite()) {
            return None;
        }
        // Values that are all equal are a flat curve and no fault.
        let deviation = deviation.max(1e-9 * mean.abs()).max(f64::MIN_POSITIVE);
        let places: Vec<_> = points.iter().map(|(place, _)| *place).collect();
        let values = DVector::from_iterator(points.len(), points.iter().map(|(_, value)| (value - mean) / deviation));
        let mut best: Option<(f64, Self)> = None;
        for (length, noise) in LENGTHS.into_iter().flat_map(|length| NOISES.map(|noise| (length, noise))) {
            let Some(factor) = Cholesky::new(covariance(&places, length, noise)) else { continue };
            let weights = factor.solve(&values);
            let likelihood = likelihood(&factor, &weights, &values);
            if best.as_ref().is_none_or(|(best, _)| likelihood > *best) {
                best = Some((likelihood, Self { places: places.clone(), weights, factor, length, mean, deviation }));
            }
        }
        best.map(|(_, process)| process)
    }

    // Rasmussen and Williams, eq. 2.25 and 2.26.
    /// What is expected at a place.
    pub(super) fn sight(&self, place: f64) -> Sight {
        let near = DVector::from_iterator(self.places.len(), self.places.iter().map(|other| kernel(place - other, self.length)));
        let variance = kernel(0.0, self.length) - near.dot(&self.factor.solve(&near));
        Sight { mean: near.dot(&self.weights), deviation: variance.max(0.0).sqrt() }
    }

    /// A gain over `best`, both in standard deviations, as a share of it.
    pub(super) fn share(&self, gain: f64, best: f64) -> f64 {
        self.deviation * gain / (self.mean + self.deviation * best).abs().max(f64::MIN_POSITIVE)
    }
}

fn covariance(places: &[f64], length: f64, noise: f64) -> DMatrix<f64> {
    DMatrix::from_fn(places.len(), places.len(), |i, j| {
        kernel(places[i] - places[j], length) + if i == j { noise * noise } else { 0.0 }
    })
}

// Rasmussen and Williams, eq. 4.17: Matérn with nu = 5/2.
fn kernel(distance: f64, length: f64) -> f64 {
    let r = 5.0_f64.sqrt() * distance.abs() / length;
    (1.0 + r + r * r / 3.0) * (-r).exp()
}

// Rasmussen and Williams, eq. 2.30, without the constant.
fn likelihood(factor: &Cholesky<f64, Dyn>, weights: &DVector<f64>, values: &DVector<f64>) -> f64 {
    let half_log_determinant: f64 = factor.l().diagonal().iter().map(|value| value.ln()).sum();
    -0.5 * values.dot(weights) - half_log_determinant
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_sure_of_what_it_saw_and_knows_nothing_far_away() {
        let points = [(0.0, 10.0), (1.0, 30.0), (2.0, 20.0)];
        let process = Process::fit(&points).unwrap();
        for (place, value) in points {
            let sight = process.sight(place);
            let found = process.mean + process.deviation * sight.mean;
            assert!((found - value).abs() < 1.0 && sight.deviation < 0.3, "{found} instead of {value}, {sight:?}");
        }
        let far = process.sight(50.0);
        assert!(far.mean.abs() < 1e-6 && (far.deviation - 1.0).abs() < 1e-6, "{far:?}");
    }

    #[test]
    fn one_place_seen_twice_is_worth_the_mean_of_both() {
        let process = Process::fit(&[(1.0, 10.0), (1.0, 12.0), (3.0, 5.0), (3.0, 7.0)]).unwrap();
        let found = process.mean + process.deviation * process.sight(1.0).mean;
        assert!((found - 11.0).abs() < 0.5, "{found}");
    }

    #[test]
    fn values_that_are_all_equal_are_a_flat_curve() {
        let process = Process::fit(&[(0.0, 5.0), (1.0, 5.0), (2.0, 5.0)]).unwrap();
        let value = process.mean + process.deviation * process.sight(0.5).mean;
        assert!((value - 5.0).abs() < 1e-6, "{value}");
    }

    #[test]
    fn what_is_no_number_fits_no_curve() {
        assert!(Process::fit(&[(0.0, f64::NAN), (1.0, 2.0)]).is_none());
        assert!(Process::fit(&[]).is_none());
    }
}
