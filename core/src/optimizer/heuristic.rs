//! What the heuristics of Single Chunk and ProMC are made of: the path's product of bandwidth and delay, files in clusters by size, and
//! the three parameters of a cluster [HARP §2, reference 20 (Arslan, Ross and Kosar, Euro-Par 2013)].

use std::collections::VecDeque;
use std::time::Duration;

use super::setting::{Setting, whole};
use super::{Listed, Observation, Policy, utility};

/// The bandwidth in bytes per second that a path is taken to have until more was seen of it. The heuristics ask for that of the link,
/// which nobody tells here; this is what the network interface of a data transfer node has at least.
pub(super) const LEAST_BANDWIDTH: f64 = 125e6;

/// Bytes of a stream's TCP buffer: what Linux lets it grow to by default (`net.ipv4.tcp_wmem`).
pub(super) const TCP_BUFFER: f64 = 4_194_304.0;

/// Most requests ahead, as in the authors' program.
const MOST_PIPELINING: f64 = 100.0;

/// Fewest files in flight, as in the authors' program.
const LEAST_CONCURRENCY: f64 = 2.0;

/// The intervals over which the size of the files at work is measured.
const WINDOW: usize = 5;

/// The bandwidth and the delay of a path, as far as they are known.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathFacts {
    /// Bytes per second.
    pub(super) bandwidth: f64,
    rtt: Option<Duration>,
}

impl PathFacts {
    /// What is known before anything was sent.
    pub(super) fn new(rtt: Option<Duration>) -> Self {
        Self { bandwidth: LEAST_BANDWIDTH, rtt }
    }

    /// Learns the highest throughput and the shortest round trip, which queues do not lengthen.
    pub(super) fn learn(&mut self, observation: &Observation) {
        let arrived = utility::arrived(observation);
        if arrived.is_finite() {
            self.bandwidth = self.bandwidth.max(arrived);
        }
        self.rtt = self.rtt.into_iter().chain(observation.rtt).min();
    }

    /// The product of bandwidth and round trip time, in bytes: what is in flight where the path is full.
    pub(super) fn product(&self) -> f64 {
        self.bandwidth * self.rtt.unwrap_or_default().as_secs_f64()
    }
}

/// How large files are, measured by what the path moves: bounds as in the authors' program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Density {
    /// Up to what the path moves in 0.05 s.
    Small,
    /// Up to what it moves in 0.2 s.
    Medium,
    /// Up to what it moves in 2 s.
    Large,
    /// More.
    Huge,
}

impl Density {
    pub(super) fn of(size: f64, bandwidth: f64) -> Self {
        match size / bandwidth {
            seconds if seconds <= 0.05 => Self::Small,
            seconds if seconds <= 0.2 => Self::Medium,
            seconds if seconds <= 2.0 => Self::Large,
            _ => Self::Huge,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
            Self::Huge => "huge",
        }
    }
}

/// Files of one density.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cluster {
    pub(super) density: Density,
    /// The power of two of the size of its smallest files.
    pub(super) exponent: u8,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Cluster {
    /// Mean size of its files, in bytes; at least 1.
    pub(super) fn mean_size(&self) -> f64 {
        (self.bytes as f64 / self.files.max(1) as f64).max(1.0)
    }

    /// The parameters of the heuristic, with at most `most` files in flight.
    pub(super) fn parameters(&self, path: &PathFacts, most: u16) -> Setting {
        parameters((path.product(), TCP_BUFFER), (self.files, self.mean_size()), most)
    }
}

// Single Chunk: pp = BDP / mean size, p = min(BDP / buffer, mean size / buffer), cc = BDP / mean size, at least 2, at most as many as
// there are files and as the user allows.
/// The parameters of the heuristic for a product of bandwidth and delay and a TCP buffer in bytes, for so many files of a mean size in
/// bytes, with at most `most` of them in flight.
pub(super) fn parameters((product, buffer): (f64, f64), (files, size): (u64, f64), most: u16) -> Setting {
    let pipelining = (product / size).min(MOST_PIPELINING);
    let parallelism = (product / buffer).ceil().min((size / buffer).ceil());
    let concurrency = (product / size).max(LEAST_CONCURRENCY).min(files as f64).min(f64::from(most));
    Setting::new(whole(concurrency), whole(parallelism), whole(pipelining))
}

/// The listed files by density, the smallest first; densities without files are left out.
pub(super) fn clusters(listed: &Listed, bandwidth: f64) -> Vec<Cluster> {
    let mut found: Vec<Cluster> = Vec::new();
    for class in &listed.classes {
        let density = Density::of(class.bytes as f64 / class.files.max(1) as f64, bandwidth);
        match found.last_mut().filter(|cluster| cluster.density == density) {
            Some(cluster) => (cluster.files, cluster.bytes) = (cluster.files + class.files, cluster.bytes + class.bytes),
            None => found.push(Cluster { density, exponent: class.exponent, files: class.files, bytes: class.bytes }),
        }
    }
    found
}

/// The cluster whose files are nearest in size.
pub(super) fn nearest(clusters: &[Cluster], size: f64) -> Option<Cluster> {
    let distance = |cluster: &Cluster| (cluster.mean_size().ln() - size.max(1.0).ln()).abs();
    clusters.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// How large the files are that are sent at present. The engine decides what goes first, largest files before small ones as a rule; what
/// was sent in the last intervals tells which cluster is at work.
#[derive(Debug, Clone, Default)]
pub(super) struct AtWork {
    /// Bytes and files left at the ends of the last intervals, the oldest first.
    left: VecDeque<(u64, u64)>,
}

impl AtWork {
    /// The mean size in bytes of the files that were sent lately, or of those listed where that cannot be told.
    pub(super) fn mean_size(&mut self, observation: &Observation) -> f64 {
        let listed = observation.listed.mean_size();
        let (Some(bytes), Some(files)) = (observation.bytes_left, observation.files_left) else {
            self.left.clear();
            return listed;
        };
        // With the end before the first of them, the intervals have one end more.
        if self.left.len() > WINDOW {
            self.left.pop_front();
        }
        self.left.push_back((bytes, files));
        let Some((before, waiting)) = self.left.front() else { return listed };
        match (before.saturating_sub(bytes), waiting.saturating_sub(files)) {
            (0, _) => listed,
            // No file has ended: those at work are at least as large as what a stream has sent of them.
            (sent, 0) => (sent as f64 / f64::from(observation.applied.concurrency.network.max(1))).max(listed),
            (sent, ended) => sent as f64 / ended as f64,
        }
    }
}

/// The most files in flight that the user allows, which the heuristics call maxCC.
pub(super) fn most(policy: &Policy) -> u16 {
    policy.limit.network.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::{Decision, exponent};

    const MB: u64 = 1_000_000;

    fn listed(sizes: &[(u64, u64)]) -> Listed {
        let mut listed = Listed { complete: true, ..Listed::default() };
        for (size, count) in sizes {
            (0..*count).for_each(|_| listed.add(*size));
        }
        listed
    }

    /// A path of 1 Gbit/s over 80 ms: a product of 10 MB.
    fn path() -> PathFacts {
        PathFacts::new(Some(Duration::from_millis(80)))
    }

    #[test]
    fn files_are_clustered_by_how_long_the_path_takes_for_one() {
        let files = listed(&[(MB, 4), (5 * MB, 4), (20 * MB, 3), (200 * MB, 2), (600 * MB, 1)]);
        let found: Vec<_> =
            clusters(&files, 125e6).iter().map(|cluster| (cluster.density, cluster.files, cluster.bytes)).collect();
        assert_eq!(
            found,
            [
                (Density::Small, 8, 24 * MB),
                (Density::Medium, 3, 60 * MB),
                (Density::Large, 2, 400 * MB),
                (Density::Huge, 1, 600 * MB),
            ]
        );
        assert!(clusters(&Listed::default(), 125e6).is_empty());
    }

    #[test]
    fn the_parameters_are_those_of_the_formulas() {
        let parameters = |files, size: u64, most| {
            let cluster = Cluster { density: Density::Small, exponent: 0, files, bytes: files * size };
            let Setting { concurrency, parallelism, pipelining } = cluster.parameters(&path(), most);
            (concurrency, parallelism, pipelining)
        };
        assert_eq!(parameters(1000, MB, 64), (10, 1, 10), "10 MB / 1 MB; a file fits one buffer");
        assert_eq!(parameters(1000, MB / 100, 64), (64, 1, 100), "1,000 of 10 kB, but no more than allowed");
        assert_eq!(parameters(3, MB, 64), (3, 1, 10), "no more than there are files");
        assert_eq!(parameters(50, 400 * MB, 64), (2, 3, 1), "10 MB take three buffers of 4 MiB");
        assert_eq!(parameters(50, 6 * MB, 64), (2, 2, 2), "and 6 MB two");
        let near = PathFacts::new(None);
        let cluster = Cluster { density: Density::Large, exponent: 0, files: 9, bytes: 9 * MB };
        assert_eq!(cluster.parameters(&near, 64), Setting::new(2, 1, 1));
    }

    #[test]
    fn the_path_is_known_by_its_highest_throughput_and_its_shortest_trip() {
        let mut facts = path();
        let mut observation = Observation::of_a_test(Decision::uniform(1, ""), 500e6, 64);
        observation.rtt = Some(Duration::from_millis(120));
        facts.learn(&observation);
        assert!((facts.product() - 40e6).abs() < 1.0);
        observation.throughput.network = 10e6;
        observation.rtt = Some(Duration::from_millis(40));
        facts.learn(&observation);
        assert!((facts.product() - 20e6).abs() < 1.0);
        assert!(PathFacts::new(None).product() == 0.0);
    }

    #[test]
    fn what_was_sent_lately_tells_which_files_are_at_work() {
        let mut work = AtWork::default();
        let mut observation = Observation::of_a_test(Decision::uniform(4, ""), 1e6, 64);
        observation.listed = listed(&[(MB, 8), (100 * MB, 2)]);
        let mean = 20.8e6;
        assert!((work.mean_size(&observation) - mean).abs() < 1.0, "while listing goes on");
        let mut size = |bytes, files| {
            (observation.bytes_left, observation.files_left) = (Some(bytes), Some(files));
            work.mean_size(&observation)
        };
        assert!((size(208 * MB, 10) - mean).abs() < 1.0, "nothing to compare with");
        assert!((size(8 * MB, 8) - 100e6).abs() < 1.0);
        for left in (0..8).rev() {
            size(left * MB, left);
        }
        assert!((size(0, 0) - 1e6).abs() < 1.0);
        let mut work = AtWork::default();
        let mut size = |bytes| {
            (observation.bytes_left, observation.files_left) = (Some(bytes), Some(10));
            work.mean_size(&observation)
        };
        size(2000 * MB);
        assert!((size(1000 * MB) - 250e6).abs() < 1.0, "four streams, no file has ended");
    }

    #[test]
    fn the_last_five_intervals_tell_which_files_are_at_work() {
        let mut work = AtWork::default();
        let mut observation = Observation::of_a_test(Decision::uniform(4, ""), 1e6, 64);
        let mut size = |bytes, files| {
            (observation.bytes_left, observation.files_left) = (Some(bytes), Some(files));
            work.mean_size(&observation)
        };
        // A file of 96 MB in the first interval, and one of 1 MB in each of the others.
        size(200 * MB, 20);
        size(104 * MB, 19);
        for files in (16..19).rev() {
            size((85 + files) * MB, files);
        }
        assert!((size(100 * MB, 15) - 20e6).abs() < 1.0, "100 MB in five files");
        assert!((size(99 * MB, 14) - 1e6).abs() < 1.0, "the first interval is forgotten");
    }

    #[test]
    fn the_nearest_cluster_is_the_one_whose_files_differ_least_by_a_factor() {
        let of = |density, size| Cluster { density, exponent: exponent(size), files: 1, bytes: size };
        let clusters = [of(Density::Small, MB), of(Density::Large, 100 * MB)];
        assert_eq!(nearest(&clusters, 9e6).map(|cluster| cluster.density), Some(Density::Small));
        assert_eq!(nearest(&clusters, 11e6).map(|cluster| cluster.density), Some(Density::Large));
        assert_eq!(nearest(&[], 1.0), None);
    }
}
