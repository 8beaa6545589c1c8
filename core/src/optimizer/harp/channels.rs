//! How the channels are distributed over the clusters, which run together [HARP algorithm 1].

/// What the distribution needs of a cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Demand {
    /// The concurrency that was estimated for it by itself.
    pub(super) concurrency: u16,
    /// Bytes of its files.
    pub(super) bytes: f64,
    /// Bytes per second of one channel.
    pub(super) unit_throughput: f64,
}

/// The channels of each cluster: the largest of the estimated concurrencies is shared by weight, which is the greater the larger and
/// the slower a cluster is, and none gets more than was estimated for it [HARP algorithm 1, lines 15 to 20].
///
/// Each gets one at least: as printed, a light cluster gets none and would never be moved.
pub(super) fn distribute(clusters: &[Demand]) -> Vec<u16> {
    let most = clusters.iter().map(|cluster| cluster.concurrency).max().unwrap_or(0);
    let units: f64 = clusters.iter().map(|cluster| cluster.unit_throughput).sum();
    let weights: Vec<f64> = clusters.iter().map(|cluster| cluster.bytes * units / cluster.unit_throughput).collect();
    let total: f64 = weights.iter().sum();
    let shares = clusters.iter().zip(&weights).map(|(cluster, weight)| {
        let share = if total > 0.0 { f64::from(most) * weight / total } else { 0.0 };
        // A hair more, so that a share that is whole is not cut to one less.
        whole(share * (1.0 + 1e-12)).min(cluster.concurrency).max(1)
    });
    shares.collect()
}

fn whole(share: f64) -> u16 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = share.floor().clamp(0.0, f64::from(u16::MAX)) as u16;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(concurrency: u16, bytes: f64, unit_throughput: f64) -> Demand {
        Demand { concurrency, bytes, unit_throughput }
    }

    #[test]
    fn the_example_of_the_paper_comes_out_as_printed() {
        let clusters = [demand(7, 1e9, 100.0), demand(4, 1e9, 200.0), demand(3, 1e9, 400.0)];
        assert_eq!(distribute(&clusters), [4, 2, 1]);
    }

    #[test]
    fn a_cluster_by_itself_gets_what_was_estimated() {
        assert_eq!(distribute(&[demand(9, 3e9, 123.0)]), [9]);
        assert_eq!(distribute(&[]), [0u16; 0]);
    }

    #[test]
    fn none_gets_more_than_was_estimated_for_it_nor_nothing() {
        assert_eq!(distribute(&[demand(8, 1e6, 100.0), demand(2, 1e12, 100.0)]), [1, 2]);
        assert_eq!(distribute(&[demand(2, 1e9, 1.0); 4]), [1, 1, 1, 1]);
        assert_eq!(distribute(&[demand(6, 0.0, 1.0), demand(3, 0.0, 1.0)]), [1, 1], "nothing but empty files");
    }
}
