//! What is known of the path: from past transfers over paths as long, and from this transfer itself.

use crate::history::Past;
use crate::optimizer::heuristic::LEAST_BANDWIDTH;

/// How far round trip times of one path may be apart, as a share.
const ALIKE: f64 = 0.25;

/// A path between two machines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Path {
    /// Bytes per second of the link, at least what was seen on it.
    pub(super) bandwidth: f64,
    /// Most bytes per second that were seen on it: links of machines are often faster than what lies between.
    pub(super) carried: f64,
    /// Round trip time in seconds; 0 if it is not known, as where there is no network between.
    pub(super) rtt_s: f64,
    /// Bytes of the TCP buffer of one stream, if known.
    pub(super) buffer: Option<f64>,
}

impl Path {
    /// A path of this round trip time, with what history tells of such. Of a transfer no one knows the bandwidth beforehand: where the
    /// history does not say it either, the fastest transfer tells.
    pub(super) fn known(history: &[Past], rtt_s: f64) -> Self {
        let alike = || history.iter().filter(move |past| (past.rtt_s.unwrap_or(0.0) - rtt_s).abs() <= ALIKE * rtt_s);
        let most = |of: fn(&Past) -> f64| alike().map(of).reduce(f64::max).unwrap_or(LEAST_BANDWIDTH);
        Self {
            bandwidth: most(|past| past.bandwidth.unwrap_or(past.goodput)),
            carried: most(|past| past.goodput),
            rtt_s,
            buffer: alike().rev().find_map(|past| past.tcp_buffer).filter(|buffer| *buffer > 0.0),
        }
    }

    /// Takes note of a throughput, in bytes per second.
    pub(super) fn carries(&mut self, throughput: f64) {
        self.bandwidth = self.bandwidth.max(throughput);
        self.carried = self.carried.max(throughput);
    }

    /// Bytes under way when the link is full: the bandwidth-delay product, by which transfers are compared.
    pub(super) fn bdp(&self) -> f64 {
        self.bandwidth * self.rtt_s
    }

    /// Bytes under way when the path carries the most that was seen: what parameters have to fill.
    pub(super) fn under_way(&self) -> f64 {
        self.carried * self.rtt_s
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::past;
    use super::*;

    #[test]
    fn transfers_over_paths_as_long_tell_bandwidth_and_buffer() {
        let near = Past { rtt_s: Some(0.002), bandwidth: Some(9e9), ..past() };
        let old = Past { rtt_s: Some(0.05), bandwidth: None, goodput: 3e8, tcp_buffer: Some(4e6), ..past() };
        let new = Past { rtt_s: Some(0.045), bandwidth: Some(1e9), goodput: 2e8, tcp_buffer: Some(8e6), ..past() };
        let unknown = Past { rtt_s: Some(0.04), bandwidth: None, goodput: 1e8, tcp_buffer: None, ..past() };
        let path = Path::known(&[near, old, new, unknown], 0.048);
        assert_eq!(path, Path { bandwidth: 1e9, carried: 3e8, rtt_s: 0.048, buffer: Some(8e6) });
    }

    #[test]
    fn without_history_the_transfer_itself_tells() {
        let mut path = Path::known(&[], 0.1);
        assert_eq!(path, Path { bandwidth: LEAST_BANDWIDTH, carried: LEAST_BANDWIDTH, rtt_s: 0.1, buffer: None });
        path.carries(5e8);
        path.carries(2e8);
        assert!((path.bdp() - 5e7).abs() < 1e-6 && (path.under_way() - 5e7).abs() < 1e-6);
    }
}
