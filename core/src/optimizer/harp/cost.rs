//! From which size on a sample pays [HARP §2.3].

/// What a sample costs, and what it brings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Costs {
    /// Seconds that the sample takes.
    pub(super) sampling_s: f64,
    /// Seconds in which nothing moves while the parameters are estimated.
    pub(super) estimating_s: f64,
    /// How much more is moved with the estimated parameters, as a share of what is moved without.
    pub(super) gain: f64,
    /// How much less is moved during the sample, as a share of the same.
    pub(super) slowdown: f64,
}

impl Costs {
    /// The size from which on it pays, in seconds of the throughput without it: where both durations of [HARP eq. 7 and 9] are equal.
    pub(super) fn least_size_s(self) -> f64 {
        let Self { sampling_s, estimating_s, gain, slowdown } = self;
        ((sampling_s + estimating_s) * (1.0 + gain) - sampling_s * (1.0 - slowdown)) / gain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_table_4_comes_out() {
        for (gain, slowdown, expected) in [
            (0.1, 0.5, 90.0),
            (0.1, 0.3, 60.0),
            (0.1, 0.1, 30.0),
            (0.3, 0.5, 40.0),
            (0.3, 0.3, 30.0),
            (0.3, 0.1, 20.0),
            (0.5, 0.5, 30.0),
            (0.5, 0.3, 24.0),
            (0.5, 0.1, 18.0),
        ] {
            let found = Costs { sampling_s: 15.0, estimating_s: 0.0, gain, slowdown }.least_size_s();
            assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
        }
    }

    #[test]
    fn a_sample_that_slows_nothing_down_pays_as_soon_as_it_is_over() {
        for gain in [0.05, 0.3, 0.8] {
            let free = Costs { sampling_s: 15.0, estimating_s: 0.0, gain, slowdown: 0.0 };
            assert!((free.least_size_s() - 15.0).abs() < 1e-9);
        }
        let slow = Costs { sampling_s: 15.0, estimating_s: 3.0, gain: 0.1, slowdown: 0.0 };
        assert!((slow.least_size_s() - 48.0).abs() < 1e-9);
    }
}
