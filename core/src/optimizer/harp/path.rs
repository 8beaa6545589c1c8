//! What is known of the path: from past transfers over paths as long, and from this transfer itself.

use std::collections::HashMap;

use crate::history::Past;
use crate::optimizer::heuristic::LEAST_BANDWIDTH;

/// How far round trip times of one path, or sizes of files of one kind, may be apart, as a share.
const ALIKE: f64 = 0.25;

/// Whether a value is within a quarter of a reference.
pub(super) fn is_alike(value: f64, reference: f64) -> bool {
    (value - reference).abs() <= ALIKE * reference
}

/// Round trip time of a past transfer in seconds; 0 if it is not known.
pub(super) fn rtt_s(past: &Past) -> f64 {
    past.rtt_s.filter(|rtt_s| rtt_s.is_finite() && *rtt_s > 0.0).unwrap_or(0.0)
}

/// Gives each past transfer the round trip time of its path: the shortest between the same machines that its own is less than twice as long
/// as. What is beyond that are queues, which tell of the load: with them, transfers over one path would count as of several.
pub(super) fn without_queues(history: &mut [Past]) {
    let mut known: HashMap<(String, String), Vec<f64>> = HashMap::new();
    for past in &*history {
        known.entry(machines(past)).or_default().extend(Some(rtt_s(past)).filter(|trip| *trip > 0.0));
    }
    for trips in known.values_mut() {
        trips.sort_unstable_by(f64::total_cmp);
    }
    for past in history {
        let own = rtt_s(past);
        if own > 0.0 {
            let trips = &known[&machines(past)];
            past.rtt_s = Some(trips[trips.partition_point(|trip| *trip <= own / 2.0)]);
        }
    }
}

fn machines(past: &Past) -> (String, String) {
    (past.source.clone(), past.destination.clone())
}

/// Bytes per second of the link that each past transfer went over: as it was known, or else the most that is known or was seen of any
/// transfer between the same machines with about the same round trip time. So it is never what came of the transfer itself that tells
/// it from others on its path.
pub(super) fn bandwidths(history: &[Past]) -> Vec<f64> {
    let mut paths: HashMap<(&str, &str), Vec<(f64, usize)>> = HashMap::new();
    let mut most: Vec<f64> = Vec::new();
    let mut path_of: Vec<usize> = Vec::with_capacity(history.len());
    for past in history {
        let rtt_s = rtt_s(past);
        let between = paths.entry((past.source.as_str(), past.destination.as_str())).or_default();
        let known = between.iter().find(|(first_s, _)| is_alike(rtt_s, *first_s)).map(|(_, path)| *path);
        let path = known.unwrap_or_else(|| {
            between.push((rtt_s, most.len()));
            most.push(0.0);
            most.len() - 1
        });
        most[path] = most[path].max(past.bandwidth.unwrap_or(past.goodput));
        path_of.push(path);
    }
    history.iter().zip(path_of).map(|(past, path)| past.bandwidth.unwrap_or(most[path])).collect()
}

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
        let alike = || history.iter().filter(move |past| is_alike(self::rtt_s(past), rtt_s));
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
    fn a_queue_is_no_part_of_a_path() {
        let row = |destination: &str, rtt_s: Option<f64>| Past { destination: destination.to_owned(), rtt_s, ..past() };
        let own = [Some(0.097), Some(0.067), Some(0.068), None, Some(0.2), Some(0.0)];
        let mut history: Vec<Past> = own.map(|rtt_s| row("a", rtt_s)).to_vec();
        history.push(row("b", Some(0.09)));
        without_queues(&mut history);
        let found: Vec<Option<f64>> = history.iter().map(|past| past.rtt_s).collect();
        assert_eq!(
            found,
            [Some(0.067), Some(0.067), Some(0.067), None, Some(0.2), Some(0.0), Some(0.09)],
            "the fifth went another way"
        );
        without_queues(&mut []);
    }

    #[test]
    fn a_bandwidth_that_nobody_knew_is_that_of_the_path_whatever_came_of_the_transfer() {
        let row = |destination: &str, rtt_ms: f64, bandwidth: Option<f64>, goodput: f64| Past {
            destination: destination.to_owned(),
            rtt_s: Some(rtt_ms / 1e3),
            bandwidth,
            goodput,
            ..past()
        };
        let history = [
            row("a", 40.0, None, 1e8),
            row("a", 44.0, None, 3e8),
            row("a", 80.0, None, 2e8),
            row("b", 40.0, None, 9e8),
            row("c", 40.0, None, 1e8),
            row("c", 40.0, Some(1.25e9), 2e8),
            Past { rtt_s: None, ..row("a", 1.0, None, 5e8) },
        ];
        assert_eq!(bandwidths(&history).as_slice(), [3e8, 3e8, 2e8, 9e8, 1.25e9, 1.25e9, 5e8].as_slice());
        assert!(bandwidths(&[]).is_empty());
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
