//! Falcon's utility: what a setting is worth, throughput less a price for streams and for loss.

use super::{Observation, Policy};

/// The utility of `streams` that together move `throughput` bytes per second [Falcon eq. 4].
///
/// In bytes per second: what the throughput is worth after the price of its streams, so that ratios of two utilities compare two
/// settings of one path whatever its capacity. Unknown loss counts as none. Negative where loss costs more than the bytes bring.
pub fn utility(throughput: f64, streams: f64, loss: Option<f64>, policy: &Policy) -> f64 {
    // Falcon eq. 4: U = n t / K^n - n t L B; n t, streams times their mean throughput, is the throughput of all.
    throughput / policy.k.powf(streams) - throughput * loss.unwrap_or(0.0) * policy.loss_weight
}

/// The utility of an observed interval at the concurrency that was applied in it.
pub fn of(observation: &Observation) -> f64 {
    let streams = f64::from(observation.applied.concurrency.network);
    utility(arrived(observation), streams, observation.loss, &observation.policy)
}

/// Bytes per second that the network stage delivered; those written where the network is not metered.
pub fn arrived(observation: &Observation) -> f64 {
    let throughput = observation.throughput;
    if throughput.network == 0.0 { throughput.write } else { throughput.network }
}

/// The number of streams below which the utility is strictly concave: 2 / ln K [Falcon eq. 5].
pub fn concave_below(k: f64) -> f64 {
    2.0 / k.ln()
}

/// The number of streams beyond which further ones never pay, even where each brings as much as the first: 1 / ln K.
pub fn most_that_pay(k: f64) -> f64 {
    1.0 / k.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::PolicyName;

    fn linear(streams: f64, policy: &Policy) -> f64 {
        utility(streams, streams, None, policy)
    }

    #[test]
    fn the_utility_is_concave_up_to_the_stated_limit_and_not_beyond() {
        for name in [PolicyName::Fair, PolicyName::High, PolicyName::Low] {
            let policy = Policy::new(name, 1000);
            let limit = concave_below(policy.k);
            let bend = |n: f64| linear(n + 0.5, &policy) + linear(n - 0.5, &policy) - 2.0 * linear(n, &policy);
            assert!(bend(0.5) < 0.0 && bend(limit * 0.5) < 0.0 && bend(limit - 1.0) < 0.0);
            assert!(bend(limit + 1.0) > 0.0);
        }
    }

    #[test]
    fn even_on_a_path_without_end_no_more_streams_pay_than_stated() {
        let policy = Policy::new(PolicyName::Fair, 1000);
        let best = most_that_pay(policy.k);
        assert!((50.0..51.0).contains(&best));
        assert!(linear(best, &policy) > linear(best - 1.0, &policy));
        assert!(linear(best, &policy) > linear(best + 1.0, &policy));
    }

    #[test]
    fn a_stream_must_bring_the_gain_that_k_names() {
        let policy = Policy::new(PolicyName::Fair, 64);
        assert!(utility(103.0, 11.0, None, &policy) > utility(100.0, 10.0, None, &policy));
        assert!(utility(101.0, 11.0, None, &policy) < utility(100.0, 10.0, None, &policy));
    }

    #[test]
    fn loss_costs_its_share_times_b_and_unknown_loss_costs_nothing() {
        let policy = Policy::new(PolicyName::Fair, 64);
        let clean = utility(100.0, 1.0, Some(0.0), &policy);
        assert!((clean - utility(100.0, 1.0, None, &policy)).abs() < 1e-9);
        assert!((clean - utility(100.0, 1.0, Some(0.02), &policy) - 20.0).abs() < 1e-9);
    }
}
