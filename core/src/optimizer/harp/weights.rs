//! Which models count: those that tell the sampled throughput best [HARP §2.2.3].

use dbscan::{Classification, Model};

/// Beyond so many subgroups the nearest ones would have all of the weight anyway, and numbers end.
const MOST_DOUBLINGS: i32 = 1000;

/// Weight of each model from the difference between the sampled throughput and what the model tells for the sample's parameters.
///
/// Models whose differences are dense, no more than `near` apart, form a subgroup and share a weight; subgroups get 1, 2, 4 and so on,
/// the most where the differences are least [HARP §2.2.3]. A model by itself is a subgroup too: the fewest points of a core are one.
pub(super) fn weights(residuals: &[f64], near: f64) -> Vec<f64> {
    let points: Vec<Vec<f64>> = residuals.iter().map(|residual| vec![residual.abs()]).collect();
    let subgroups: Vec<usize> = Model::new(near, 1).run(&points).into_iter().map(number).collect();
    let ranks = ranked(residuals, &subgroups);
    subgroups.iter().map(|subgroup| 2f64.powi(ranks[*subgroup])).collect()
}

fn number(found: Classification) -> usize {
    match found {
        Classification::Core(subgroup) | Classification::Edge(subgroup) => subgroup,
        // Only what is no number is near to nothing, not even to itself.
        Classification::Noise => 0,
    }
}

/// The rank of each subgroup, the one with the greatest differences first. Subgroups do not overlap, so any of its members tells.
fn ranked(residuals: &[f64], subgroups: &[usize]) -> Vec<i32> {
    let count = subgroups.iter().max().map_or(0, |most| most + 1);
    let mut order: Vec<(f64, usize)> = vec![(0.0, 0); count];
    for (residual, subgroup) in residuals.iter().zip(subgroups) {
        order[*subgroup] = (residual.abs(), *subgroup);
    }
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut ranks = vec![0; count];
    for (rank, (_, subgroup)) in (0..MOST_DOUBLINGS).chain(std::iter::repeat(MOST_DOUBLINGS)).zip(order) {
        ranks[subgroup] = rank;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_weights(residuals: &[f64], expected: &[f64]) {
        assert_eq!(weights(residuals, 50.0).as_slice(), expected);
    }

    #[test]
    fn dense_differences_share_a_weight_and_the_least_ones_have_the_most() {
        // As in the paper's example: 1220 and 1250 with 1230 sampled are 10 and 20 away, and weigh the same.
        assert_weights(&[10.0, -20.0, 500.0, 530.0, -300.0], &[4.0, 4.0, 1.0, 1.0, 2.0]);
    }

    #[test]
    fn a_chain_of_near_ones_is_one_subgroup() {
        assert_weights(&[0.0, 40.0, 80.0, 120.0, 400.0], &[2.0, 2.0, 2.0, 2.0, 1.0]);
    }

    #[test]
    fn the_weights_double_from_subgroup_to_subgroup() {
        assert_weights(&[900.0, 700.0, 500.0, 300.0, 100.0], &[1.0, 2.0, 4.0, 8.0, 16.0]);
        assert_weights(&[5.0], &[1.0]);
        assert_weights(&[], &[]);
    }

    #[test]
    fn however_many_subgroups_there_are_the_weights_are_numbers() {
        let many: Vec<f64> = (0..1500).map(|i| f64::from(i) * 100.0).collect();
        let found = weights(&many, 50.0);
        assert!(found.iter().all(|weight| weight.is_finite()));
        assert!(found[0] >= found[600] && found[600] > found[1400]);
    }
}
