//! Online tuning: parameters change only when estimates agree for a while [HARP §3.2].

use std::collections::VecDeque;

use crate::optimizer::setting::Setting;

/// Estimates in a row that must agree: k in [HARP §3.2].
const AGREEING: usize = 4;

/// The least change of concurrency and parallelism, for which connections are made or closed [HARP §3.2].
const LEAST_CHANGE: u16 = 2;

/// The last estimates of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Online {
    estimates: VecDeque<Setting>,
}

impl Online {
    /// Adds an estimate, made while `current` was in force; answers what is to be in its place, if anything.
    ///
    /// Of each parameter the estimates need not be the same, but all above or all below the current value; then it becomes their mean,
    /// as in the authors' program.
    pub(super) fn estimated(&mut self, current: Setting, estimate: Setting) -> Option<Setting> {
        self.estimates.push_back(estimate);
        if self.estimates.len() > AGREEING {
            self.estimates.pop_front();
        }
        if self.estimates.len() < AGREEING {
            return None;
        }
        let next = Setting {
            concurrency: self.next(current, |setting| setting.concurrency, LEAST_CHANGE),
            parallelism: self.next(current, |setting| setting.parallelism, LEAST_CHANGE),
            pipelining: self.next(current, |setting| setting.pipelining, 1),
        };
        if next == current {
            return None;
        }
        self.estimates.clear();
        Some(next)
    }

    fn next(&self, current: Setting, of: fn(Setting) -> u16, least_change: u16) -> u16 {
        let now = of(current);
        let values = || self.estimates.iter().copied().map(of);
        if !values().all(|value| value > now) && !values().all(|value| value < now) {
            return now;
        }
        let sum: usize = values().map(usize::from).sum();
        let mean = u16::try_from((sum + AGREEING / 2) / AGREEING).unwrap_or(u16::MAX);
        if mean.abs_diff(now) < least_change { now } else { mean }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Setting = Setting::new(4, 3, 5);

    /// What is answered to each of these estimates, given as concurrency, parallelism and pipelining.
    fn answers(estimates: &[(u16, u16, u16)]) -> Vec<Option<Setting>> {
        let mut online = Online::default();
        estimates.iter().map(|(cc, p, pp)| online.estimated(NOW, Setting::new(*cc, *p, *pp))).collect()
    }

    #[test]
    fn four_estimates_that_agree_change_a_parameter_to_their_mean() {
        let found = answers(&[(8, 3, 5), (6, 3, 5), (7, 3, 5), (9, 3, 5)]);
        assert_eq!(found, [None, None, None, Some(Setting::new(8, 3, 5))], "7.5");
        let found = answers(&[(1, 9, 5), (2, 7, 5), (1, 8, 5), (2, 8, 5)]);
        assert_eq!(found[3], Some(Setting::new(2, 8, 5)), "1.5 and 8");
    }

    #[test]
    fn one_that_does_not_agree_keeps_what_is_until_it_is_forgotten() {
        let found = answers(&[(8, 3, 5), (3, 3, 5), (8, 3, 5), (8, 3, 5), (8, 3, 5), (8, 3, 5)]);
        assert_eq!(found, [None, None, None, None, None, Some(Setting::new(8, 3, 5))]);
    }

    #[test]
    fn a_change_of_one_is_no_change_but_for_pipelining() {
        assert_eq!(answers(&[(5, 4, 5); 8]), [None; 8], "as in the paper: from 4 to 5 nothing changes");
        assert_eq!(answers(&[(5, 2, 6); 4])[3], Some(Setting::new(4, 3, 6)));
    }

    #[test]
    fn after_a_change_the_estimates_begin_anew() {
        let found = answers(&[(8, 3, 5); 8]);
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, false, true, false, false, false, true]);
    }
}
