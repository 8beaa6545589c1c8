//! Max-min fair shares: nobody's can grow but at the cost of one that, by its weight, is no larger.
//!
//! The progressive filling of Bertsekas and Gallager, Data Networks, section 6.5.2: all shares grow alike until a demand is met or what is
//! shared is used up. Whole streams are given one by one; amounts that can be cut at will need one pass.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Weights are divisors of this.
pub(super) const HEAVIEST: u8 = 4;

/// What one transfer wants of the streams.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand<'a> {
    /// The server or service at the other side; empty where there is none.
    pub(super) server: &'a str,
    /// 1, 2 or [`HEAVIEST`].
    pub(super) weight: u8,
    /// Streams that it would use.
    pub(super) wanted: u16,
}

/// The streams of each transfer, of `total` and of what `of_server` allows to each server. Everybody has one, even of too few; of what does
/// not divide evenly the first have more.
pub(super) fn streams(demands: &[Demand<'_>], total: u16, of_server: impl Fn(&str) -> u16) -> Vec<u16> {
    let mut shares = vec![1u16; demands.len()];
    let mut left = usize::from(total).saturating_sub(demands.len());
    let mut at_servers: HashMap<&str, u16> = HashMap::new();
    for demand in demands.iter().filter(|demand| !demand.server.is_empty()) {
        let free = at_servers.entry(demand.server).or_insert_with(|| of_server(demand.server));
        *free = free.saturating_sub(1);
    }
    let level = |share: u16, demand: &Demand<'_>| u32::from(share) * u32::from(HEAVIEST / demand.weight.clamp(1, HEAVIEST));
    let mut lowest: BinaryHeap<_> = demands.iter().enumerate().map(|(index, one)| Reverse((level(1, one), index))).collect();
    while left > 0 {
        let Some(Reverse((_, index))) = lowest.pop() else { break };
        let demand = &demands[index];
        if shares[index] >= demand.wanted {
            continue;
        }
        match at_servers.get_mut(demand.server) {
            Some(0) => continue,
            Some(free) => *free -= 1,
            None => {}
        }
        shares[index] += 1;
        left -= 1;
        lowest.push(Reverse((level(shares[index], demand), index)));
    }
    shares
}

/// The amounts of each transfer, of `total`, by weight and what it wants.
pub(super) fn amounts(demands: &[(f64, f64)], total: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    let satisfied_at = |index: &usize| demands[*index].1 / demands[*index].0;
    order.sort_by(|one, other| satisfied_at(one).total_cmp(&satisfied_at(other)));
    let mut weights: f64 = demands.iter().map(|(weight, _)| weight).sum();
    let (mut left, mut shares) = (total, vec![0.0; demands.len()]);
    for index in order {
        let (weight, wanted) = demands[index];
        shares[index] = wanted.min(left * weight / weights);
        (left, weights) = (left - shares[index], weights - weight);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(wanted: &[(&str, u8, u16)], total: u16, server: u16) -> Vec<u16> {
        let demands: Vec<_> = wanted.iter().map(|&(server, weight, wanted)| Demand { server, weight, wanted }).collect();
        streams(&demands, total, |_| server)
    }

    #[test]
    fn what_one_does_not_want_goes_to_the_others() {
        assert_eq!(shared(&[("", 2, 64)], 64, 64), [64]);
        assert_eq!(shared(&[("", 2, 64), ("", 2, 64)], 64, 64), [32, 32]);
        assert_eq!(shared(&[("", 2, 6), ("", 2, 64), ("", 2, 64)], 64, 64), [6, 29, 29]);
        assert_eq!(shared(&[("", 2, 2), ("", 2, 3)], 64, 64), [2, 3]);
    }

    #[test]
    fn weights_are_kept_in_proportion() {
        assert_eq!(shared(&[("", 4, 99), ("", 2, 99), ("", 1, 99)], 70, 99), [40, 20, 10]);
        assert_eq!(shared(&[("", 4, 8), ("", 2, 99), ("", 1, 99)], 38, 99), [8, 20, 10]);
    }

    #[test]
    fn everybody_has_one_and_the_first_have_what_does_not_divide() {
        assert_eq!(shared(&[("", 2, 9), ("", 2, 9), ("", 2, 9)], 2, 99), [1, 1, 1]);
        assert_eq!(shared(&[("", 2, 9), ("", 2, 9), ("", 2, 9)], 11, 99), [4, 4, 3]);
        assert_eq!(shared(&[("", 2, 0)], 5, 99), [1]);
    }

    #[test]
    fn a_crowded_server_leaves_the_rest_to_those_of_others() {
        let wanted = [("a", 2, 99), ("a", 2, 99), ("b", 2, 99), ("", 2, 99)];
        assert_eq!(shared(&wanted, 40, 8), [4, 4, 8, 24]);
        assert_eq!(shared(&wanted, 40, 1), [1, 1, 1, 37]);
    }

    #[test]
    fn shares_are_max_min_fair_whatever_is_wanted() {
        for seed in 0..200u16 {
            let wanted: Vec<_> =
                (0..=seed % 9).map(|n| ("", [1, 2, 4][usize::from(n % 3)], 1 + (seed * 7 + n * 13) % 40)).collect();
            let total = 10 + seed % 60;
            let shares = shared(&wanted, total, 99);
            let (sum, demand): (u16, u16) = (shares.iter().sum(), wanted.iter().map(|one| one.2).sum());
            assert_eq!(sum, demand.min(total).max(u16::try_from(wanted.len()).unwrap()), "{wanted:?} of {total}: {shares:?}");
            for (share, one) in shares.iter().zip(&wanted).filter(|(share, one)| **share < one.2) {
                // Nobody has, by weight, a whole stream more than one who wants more, but for the one that everybody has.
                let richer = shares
                    .iter()
                    .zip(&wanted)
                    .find(|(other, another)| **other > 1 && (**other - 1) * u16::from(one.1) > *share * u16::from(another.1));
                assert!(richer.is_none(), "{wanted:?} of {total}: {shares:?}");
            }
        }
    }

    #[test]
    fn amounts_are_cut_by_weight_and_demand() {
        assert_eq!(amounts(&[(2.0, f64::INFINITY)], 100.0), [100.0]);
        assert_eq!(amounts(&[(2.0, 10.0), (2.0, f64::INFINITY), (2.0, f64::INFINITY)], 100.0), [10.0, 45.0, 45.0]);
        assert_eq!(amounts(&[(4.0, f64::INFINITY), (1.0, f64::INFINITY)], 100.0), [80.0, 20.0]);
        assert_eq!(amounts(&[(2.0, 10.0), (1.0, 20.0)], 100.0), [10.0, 20.0]);
        assert!(amounts(&[], 100.0).is_empty());
    }
}
