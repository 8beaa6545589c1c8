//! Where a model promises most, by a quasi-Newton method in the box of what was measured [HARP §2.2.3].
//!
//! The paper names BFGS; its authors' program has L-BFGS-B. Here it is L-BFGS, of whose memory three variables never use up all, on
//! the angles of `x = middle + half * sin(angle)`, which no step can lead out of the box.

use argmin::core::{CostFunction, Error, Executor, Gradient, State as _};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use nalgebra::Vector3;

use super::polynomial::{Bounds, Point, Polynomial};

/// Pairs of steps and gradients that are remembered.
const MEMORY: usize = 7;

const MOST_STEPS: u64 = 100;

/// How near to an edge of the box, of 1, a climb may begin: on an edge itself the angle has no slope.
const NEAR_EDGE: f64 = 0.95;

type Angles = Vector3<f64>;

/// The highest point that climbs from `starts` reach, or the highest of `starts` itself. The box of a polynomial has several local
/// maxima, and a climb finds one.
pub(super) fn maximum(f: &Polynomial, bounds: &Bounds, starts: &[Point]) -> Point {
    let begun: Vec<Point> = starts.iter().map(|start| bounds.clamp(*start)).collect();
    let reached: Vec<Point> = begun.iter().filter_map(|start| climbed(f, bounds, *start)).collect();
    let highest = begun.into_iter().chain(reached).max_by(|a, b| f.value(*a).total_cmp(&f.value(*b)));
    highest.unwrap_or(bounds.least)
}

fn climbed(f: &Polynomial, bounds: &Bounds, start: Point) -> Option<Point> {
    let hill = Hill { f, bounds, scale: f.magnitude().max(f64::MIN_POSITIVE) };
    let angles = bounds.scaled(start).map(|at| at.clamp(-NEAR_EDGE, NEAR_EDGE).asin());
    let search: MoreThuenteLineSearch<Angles, Angles, f64> = MoreThuenteLineSearch::new();
    let solver: LBFGS<_, Angles, Angles, f64> = LBFGS::new(search, MEMORY);
    let executor = Executor::new(hill, solver).configure(|state| state.param(Angles::from(angles)).max_iters(MOST_STEPS));
    let state = executor.run().ok()?.state;
    let found = point(bounds, state.get_best_param()?);
    found.iter().all(|value| value.is_finite()).then_some(found)
}

/// The point that angles stand for.
fn point(bounds: &Bounds, angles: &Angles) -> Point {
    let at = |variable: usize| bounds.least[variable] + bounds.half(variable) * (1.0 + angles[variable].sin());
    bounds.clamp(std::array::from_fn(at))
}

/// A polynomial upside down, over angles, and relative to its magnitude.
struct Hill<'a> {
    f: &'a Polynomial,
    bounds: &'a Bounds,
    scale: f64,
}

impl CostFunction for Hill<'_> {
    type Param = Angles;
    type Output = f64;

    fn cost(&self, angles: &Angles) -> Result<f64, Error> {
        Ok(-self.f.value(point(self.bounds, angles)) / self.scale)
    }
}

impl Gradient for Hill<'_> {
    type Param = Angles;
    type Gradient = Angles;

    fn gradient(&self, angles: &Angles) -> Result<Angles, Error> {
        let slopes = self.f.gradient(point(self.bounds, angles));
        Ok(Angles::from_fn(|i, _| -slopes[i] * self.bounds.half(i) * angles[i].cos() / self.scale))
    }
}

#[cfg(test)]
mod tests {
    use super::super::polynomial::Measured;
    use super::super::testing::grid;
    use super::*;

    fn fitted(f: impl Fn(Point) -> f64, degree: u8) -> (Polynomial, Bounds) {
        let rows = grid(|at| 1e9 * f(at));
        (Polynomial::fit(&rows, degree), Bounds::around(&rows))
    }

    fn is_near(found: Point, expected: Point) -> bool {
        found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.01)
    }

    #[test]
    fn the_maximum_of_a_hill_within_the_box_is_found_from_any_start() {
        let (hill, bounds) = fitted(|[cc, p, pp]| 50.0 - (cc - 20.0).powi(2) - (p - 5.0).powi(2) - (pp - 11.0).powi(2), 2);
        for start in [[1.0; 3], [32.0; 3], [32.0, 1.0, 16.0]] {
            let found = maximum(&hill, &bounds, &[start]);
            assert!(is_near(found, [20.0, 5.0, 11.0]), "{found:?}");
        }
    }

    #[test]
    fn where_it_rises_towards_an_edge_the_maximum_is_on_the_edge() {
        let (slope, bounds) = fitted(|[cc, p, pp]| 10.0 + cc - 0.5 * p - (pp - 4.0).powi(2), 2);
        let found = maximum(&slope, &bounds, &[[8.0, 8.0, 8.0]]);
        assert!(is_near(found, [32.0, 1.0, 4.0]), "{found:?}");
        assert!(found[0] <= 32.0 && found[1] >= 1.0);
    }

    #[test]
    fn of_two_hills_the_higher_one_counts() {
        let two = |[cc, ..]: Point| -(cc - 4.0).powi(2) * (cc - 28.0).powi(2) / 1e2 + cc;
        let (hills, bounds) = fitted(two, 4);
        let found = maximum(&hills, &bounds, &[[2.0, 1.0, 1.0], [30.0, 1.0, 1.0]]);
        assert!((found[0] - 28.087).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_plain_and_what_does_not_vary_keep_the_start() {
        let (plain, bounds) = fitted(|_| 3.0, 2);
        let found = maximum(&plain, &bounds, &[[5.0, 6.0, 7.0]]);
        assert!(is_near(found, [5.0, 6.0, 7.0]), "{found:?}");
        let rows: Vec<_> = (1..20u8).map(|cc| Measured { at: [cc.into(), 2.0, 9.0], throughput: f64::from(cc) }).collect();
        let found = maximum(&Polynomial::fit(&rows, 2), &Bounds::around(&rows), &[[3.0, 2.0, 9.0]]);
        assert!(is_near(found, [19.0, 2.0, 9.0]), "{found:?}");
    }
}
