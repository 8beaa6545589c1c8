//! Lower parameters that cost little throughput [HARP §2.2.4].

use super::polynomial::Point;

const CONCURRENCY: usize = 0;
const PARALLELISM: usize = 1;
const PIPELINING: usize = 2;

/// In this order, the lowest value of each parameter that keeps this share of what the relaxation before it had left [HARP eq. 5].
const RELAXED: [(usize, f64); 3] = [(PIPELINING, 0.99), (PARALLELISM, 0.7), (CONCURRENCY, 0.7)];

/// Goes from the maximum `best` of `f` to the lowest whole values, each from `least` on, that keep enough of it.
pub(super) fn relaxed(f: impl Fn(Point) -> f64, least: Point, best: Point) -> Point {
    let mut point = best;
    for (variable, share) in RELAXED {
        let enough = share * f(point);
        let mut lower = point;
        lower[variable] = least[variable].ceil();
        while lower[variable] < point[variable] {
            if f(lower) >= enough {
                point = lower;
                break;
            }
            lower[variable] += 1.0;
        }
    }
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONES: Point = [1.0; 3];

    fn assert_relaxed(f: impl Fn(Point) -> f64, least: Point, best: Point, expected: Point) {
        assert_eq!(relaxed(f, least, best).as_slice(), expected.as_slice());
    }

    #[test]
    fn each_parameter_keeps_its_share_of_what_the_one_before_left() {
        // 100 at (10, 10, 10); each parameter that is one lower costs a tenth of what is left.
        let f = |[cc, p, pp]: Point| 100.0 * (cc / 10.0) * (p / 10.0) * (pp / 10.0);
        // 0.99 * 100 needs pp = 10; 0.7 * 100 needs p = 7; 0.7 * 70 = 49 needs cc = 7.
        assert_relaxed(f, ONES, [10.0, 10.0, 10.0], [7.0, 7.0, 10.0]);
    }

    #[test]
    fn pipelining_that_brings_less_than_a_hundredth_goes() {
        let f = |[cc, p, pp]: Point| 10.0 * cc.min(20.0) + p + 0.01 * pp;
        // At the maximum 220.24; from pp = 1 on 99 % is there, p = 1 keeps 70 %, and cc = 14 does: 141.01 >= 0.7 * 201.01 = 140.7.
        assert_relaxed(f, ONES, [32.0, 20.0, 24.0], [14.0, 1.0, 1.0]);
    }

    #[test]
    fn whole_values_begin_at_the_least_that_was_measured_and_end_below_the_maximum() {
        let flat = |_: Point| 5.0;
        assert_relaxed(flat, [4.0, 2.0, 0.0], [7.5, 2.0, 3.0], [4.0, 2.0, 0.0]);
        let steep = |[cc, ..]: Point| if cc >= 7.5 { 100.0 } else { 1.0 };
        // The maximum itself, where no less is enough.
        assert_relaxed(steep, [4.0, 2.0, 0.0], [7.5, 2.0, 0.0], [7.5, 2.0, 0.0]);
    }
}
