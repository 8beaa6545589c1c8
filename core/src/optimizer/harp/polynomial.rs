//! Polynomials of the three parameters, fitted by least squares [HARP §2.2.3].

use nalgebra::{DMatrix, DVector};

/// Concurrency, parallelism and pipelining, in this order.
pub type Point = [f64; 3];

/// Singular values below this share of the largest count as none: a coefficient that the data leave open stays zero.
const NEGLIGIBLE: f64 = 1e-12;

/// What came of some parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    /// The parameters.
    pub(super) at: Point,
    /// Bytes per second.
    pub(super) throughput: f64,
}

/// The box around what was measured: of what lies outside a polynomial knows nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounds {
    pub(super) least: Point,
    pub(super) most: Point,
}

impl Bounds {
    /// The smallest box around all rows.
    pub(super) fn around(rows: &[Measured]) -> Self {
        let mut bounds = Self { least: [f64::INFINITY; 3], most: [f64::NEG_INFINITY; 3] };
        for row in rows {
            for (variable, value) in row.at.into_iter().enumerate() {
                bounds.least[variable] = bounds.least[variable].min(value);
                bounds.most[variable] = bounds.most[variable].max(value);
            }
        }
        bounds
    }

    /// The nearest point in the box.
    pub(super) fn clamp(&self, point: Point) -> Point {
        std::array::from_fn(|variable| point[variable].max(self.least[variable]).min(self.most[variable]))
    }

    /// Half of the length of a side; 0 where a variable does not vary.
    pub(super) fn half(&self, variable: usize) -> f64 {
        ((self.most[variable] - self.least[variable]) / 2.0).max(0.0)
    }

    /// The point in the middle.
    pub(super) fn middle(&self) -> Point {
        std::array::from_fn(|variable| self.least[variable] + self.half(variable))
    }

    /// All of its corners; where a variable does not vary, some are the same.
    pub(super) fn corners(&self) -> [Point; 8] {
        std::array::from_fn(|corner| {
            let is_most = |variable: usize| (corner >> variable) & 1 == 1;
            std::array::from_fn(|variable| if is_most(variable) { self.most[variable] } else { self.least[variable] })
        })
    }

    /// The point with each variable that varies between -1 and 1, and the others at 0.
    pub(super) fn scaled(&self, point: Point) -> Point {
        std::array::from_fn(|variable| {
            let half = self.half(variable);
            if half > 0.0 { (point[variable] - self.least[variable]) / half - 1.0 } else { 0.0 }
        })
    }
}

/// A polynomial of the parameters in the box that it was fitted to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Polynomial {
    bounds: Bounds,
    terms: Vec<Term>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Term {
    powers: [i32; 3],
    coefficient: f64,
}

impl Polynomial {
    /// The polynomial of this degree at most with the least sum of squared residuals.
    pub(super) fn fit(rows: &[Measured], degree: u8) -> Self {
        let bounds = Bounds::around(rows);
        let powers = powers(rows, degree);
        let mut squares = DMatrix::<f64>::zeros(powers.len(), powers.len());
        let mut products = DVector::<f64>::zeros(powers.len());
        for row in rows {
            let at = bounds.scaled(row.at);
            let terms = DVector::from_iterator(powers.len(), powers.iter().map(|powers| monomial(at, *powers)));
            squares.ger(1.0, &terms, &terms, 1.0);
            products.axpy(row.throughput, &terms, 1.0);
        }
        let factors = squares.svd(true, true);
        let least = NEGLIGIBLE * factors.singular_values.max();
        let solved = factors.solve(&products, least).expect("both orthogonal factors were asked for");
        let terms = powers.iter().zip(solved.iter()).map(|(powers, value)| Term { powers: *powers, coefficient: *value });
        Self { bounds, terms: terms.collect() }
    }

    /// Bytes per second at a point.
    pub(super) fn value(&self, point: Point) -> f64 {
        let at = self.bounds.scaled(point);
        self.terms.iter().map(|term| term.coefficient * monomial(at, term.powers)).sum()
    }

    /// No value in the box is further from 0.
    pub(super) fn magnitude(&self) -> f64 {
        self.terms.iter().map(|term| term.coefficient.abs()).sum()
    }

    /// How the value changes with each parameter.
    pub(super) fn gradient(&self, point: Point) -> Point {
        let at = self.bounds.scaled(point);
        std::array::from_fn(|variable| {
            let half = self.bounds.half(variable);
            let slopes = self.terms.iter().filter(|term| term.powers[variable] > 0).map(|term| {
                let mut powers = term.powers;
                powers[variable] -= 1;
                f64::from(term.powers[variable]) * term.coefficient * monomial(at, powers)
            });
            if half > 0.0 { slopes.sum::<f64>() / half } else { 0.0 }
        })
    }
}

/// The number of coefficients that a polynomial of this degree has for these rows.
pub(super) fn coefficients(rows: &[Measured], degree: u8) -> usize {
    powers(rows, degree).len()
}

/// The powers of each term: together at most the degree, and each below the number of values that its variable takes, for a
/// further power would be made of the lower ones.
fn powers(rows: &[Measured], degree: u8) -> Vec<[i32; 3]> {
    let degree = i32::from(degree);
    let [cc, p, pp] = [0, 1, 2].map(|variable| degree.min(values(rows, variable) - 1).max(0));
    let all = (0..=cc).flat_map(|a| (0..=p).flat_map(move |b| (0..=pp).map(move |c| [a, b, c])));
    all.filter(|powers| powers.iter().sum::<i32>() <= degree).collect()
}

/// How many values a variable takes.
fn values(rows: &[Measured], variable: usize) -> i32 {
    let mut values: Vec<f64> = rows.iter().map(|row| row.at[variable]).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    i32::try_from(values.len()).unwrap_or(i32::MAX)
}

fn monomial(at: Point, powers: [i32; 3]) -> f64 {
    at.into_iter().zip(powers).map(|(value, power)| value.powi(power)).product()
}

/// The share of the variance that a prediction explains: 1 if all of it, 0 if no more than the mean does, or if there is none.
pub(super) fn r_squared(rows: &[Measured], predict: impl Fn(Point) -> f64) -> f64 {
    let mean = rows.iter().map(|row| row.throughput).sum::<f64>() / rows.len().max(1) as f64;
    let total: f64 = rows.iter().map(|row| (row.throughput - mean).powi(2)).sum();
    if total > 0.0 { 1.0 - squared_residuals(rows, predict) / total } else { 0.0 }
}

/// The sum of the squared differences between what was measured and a prediction.
pub(super) fn squared_residuals(rows: &[Measured], predict: impl Fn(Point) -> f64) -> f64 {
    rows.iter().map(|row| (row.throughput - predict(row.at)).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::testing::grid;
    use super::*;

    fn known([cc, p, pp]: Point) -> f64 {
        7.0 + 3.0 * cc - 0.25 * cc * p + 0.125 * pp * pp - 0.01 * cc * cc * p + 0.002 * p * p * p
    }

    #[test]
    fn a_known_polynomial_is_found_again() {
        let fitted = Polynomial::fit(&grid(known), 3);
        assert_eq!(fitted.terms.len(), 20);
        for at in [[1.0, 1.0, 1.0], [5.0, 7.0, 3.0], [30.0, 2.5, 11.0], [32.0, 32.0, 32.0]] {
            assert!((fitted.value(at) - known(at)).abs() < 1e-6, "{at:?}: {} instead of {}", fitted.value(at), known(at));
        }
        assert!(r_squared(&grid(known), |at| fitted.value(at)) > 1.0 - 1e-12);
    }

    #[test]
    fn a_lower_degree_explains_less_and_the_mean_nothing() {
        let rows = grid(known);
        let explained = [0, 1, 2, 3, 4].map(|degree| {
            let fitted = Polynomial::fit(&rows, degree);
            r_squared(&rows, |at| fitted.value(at))
        });
        assert!(explained[0].abs() < 1e-12, "{explained:?}");
        assert!(explained.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9), "{explained:?}");
        assert!(explained[2] < 0.9999 && explained[3] > 0.999_999, "{explained:?}");
    }

    #[test]
    fn the_gradient_is_that_of_the_known_polynomial() {
        let fitted = Polynomial::fit(&grid(known), 3);
        let [cc, p, pp] = [6.0, 9.0, 4.0];
        let expected = [3.0 - 0.25 * p - 0.02 * cc * p, -0.25 * cc - 0.01 * cc * cc + 0.006 * p * p, 0.25 * pp];
        for (found, expected) in fitted.gradient([cc, p, pp]).into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} instead of {expected}");
        }
    }

    #[test]
    fn what_never_varied_has_no_coefficient_and_no_slope() {
        let rows: Vec<_> = [1.0, 2.0, 3.0, 4.0].map(|cc| Measured { at: [cc, 2.0, 100.0], throughput: 10.0 * cc }).to_vec();
        assert_eq!(coefficients(&rows, 4), 4, "of four values a cubic is the most");
        let fitted = Polynomial::fit(&rows, 2);
        assert!((fitted.value([2.5, 9.0, 0.0]) - 25.0).abs() < 1e-9);
        let [cc, p, pp] = fitted.gradient([2.5, 2.0, 100.0]);
        assert!((cc - 10.0).abs() < 1e-9 && p == 0.0 && pp == 0.0);
    }

    #[test]
    fn a_box_has_eight_corners_around_its_middle() {
        let bounds = Bounds { least: [1.0, 2.0, 3.0], most: [5.0, 2.0, 9.0] };
        assert_eq!(bounds.middle().as_slice(), [3.0, 2.0, 6.0].as_slice());
        let corners = bounds.corners();
        assert_eq!((corners[0], corners[7]), (bounds.least, bounds.most));
        for corner in [[1.0, 2.0, 3.0], [5.0, 2.0, 3.0], [1.0, 2.0, 9.0], [5.0, 2.0, 9.0]] {
            assert_eq!(corners.iter().filter(|found| found.as_slice() == corner.as_slice()).count(), 2, "{corner:?}");
        }
    }

    #[test]
    fn without_variance_or_rows_nothing_is_explained() {
        let flat = grid(|_| 5.0);
        let nothing = [r_squared(&flat, |_| 5.0), r_squared(&[], |_| 5.0), Polynomial::fit(&[], 2).value([1.0, 2.0, 3.0])];
        assert!(nothing.iter().all(|value| *value == 0.0), "{nothing:?}");
    }
}
