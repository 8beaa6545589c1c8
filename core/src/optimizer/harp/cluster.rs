//! Clusters of files by size, and the parameters with which their sample transfer begins [HARP §2.1].

use serde::Serialize;

use super::path::Path;
use crate::optimizer::heuristic::{TCP_BUFFER, parameters};
use crate::optimizer::setting::Setting;
use crate::optimizer::{Listed, Policy};

/// Sizes up to which files are tiny, small and medium, in bandwidth-delay products of the path. The paper does not print them; these
/// part the sizes of its tests (1 to 5 MB, 15 to 30 MB, 50 to 200 MB, 1 to 5 GB) at all of its products from 48 to 100 MB.
const BORDERS: [f64; 3] = [0.2, 1.0, 10.0];

/// How large the files of a cluster are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// A small part of what is under way on the path.
    Tiny,
    /// Up to what is under way.
    Small,
    /// Up to ten times as much.
    Medium,
    /// Beyond that.
    Large,
}

impl Class {
    /// The class of files of `size` bytes on a path with `bdp` bytes under way.
    pub(super) fn of(size: f64, bdp: f64) -> Self {
        match BORDERS.iter().filter(|border| size > **border * bdp).count() {
            0 => Self::Tiny,
            1 => Self::Small,
            2 => Self::Medium,
            _ => Self::Large,
        }
    }

    /// As the authors' program counts classes where it compares transfers.
    pub(super) fn density(self) -> f64 {
        match self {
            Self::Tiny => 1.0,
            Self::Small => 11.0,
            Self::Medium => 21.0,
            Self::Large => 31.0,
        }
    }

    /// The word for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }
}

/// Files of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cluster {
    pub(super) class: Class,
    /// The power of two of the size of its smallest files.
    pub(super) exponent: u8,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Cluster {
    /// Mean size in bytes.
    pub(super) fn mean_size(&self) -> f64 {
        self.bytes as f64 / self.files.max(1) as f64
    }

    /// The number of files, as far as it can be a number of streams.
    pub(super) fn most_concurrency(&self) -> u16 {
        u16::try_from(self.files).unwrap_or(u16::MAX).max(1)
    }

    /// The parameters that need no history [HARP §2, its reference 20].
    pub(super) fn heuristic(&self, path: &Path, policy: &Policy) -> Setting {
        let buffer = path.buffer.unwrap_or(TCP_BUFFER);
        parameters((path.under_way(), buffer), (self.files, self.mean_size().max(1.0)), policy.limit.network.max(1))
    }
}

/// The clusters of what is listed, smallest files first. Files whose sizes share a power of two stay together.
pub(super) fn partition(listed: &Listed, bdp: f64) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for size in listed.classes.iter().filter(|size| size.files > 0) {
        let class = Class::of(size.bytes as f64 / size.files as f64, bdp);
        match clusters.last_mut().filter(|last| last.class == class) {
            Some(last) => (last.files, last.bytes) = (last.files + size.files, last.bytes + size.bytes),
            None => clusters.push(Cluster { class, exponent: size.exponent, files: size.files, bytes: size.bytes }),
        }
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::PolicyName;

    /// The path of the paper's tests over a wide area: 10 Gbit/s, 40 ms, buffers of 32 MB.
    fn wide() -> Path {
        Path { bandwidth: 1.25e9, carried: 1.25e9, rtt_s: 0.04, buffer: Some(32e6) }
    }

    #[test]
    fn the_sizes_of_the_papers_tests_are_of_the_classes_that_it_gives_them() {
        for bdp in [48e6, 55e6, 100e6] {
            for (size, class) in [(3e6, Class::Tiny), (23.6e6, Class::Small), (131e6, Class::Medium), (2.9e9, Class::Large)] {
                assert_eq!(Class::of(size, bdp), class, "{size} at {bdp}");
            }
        }
        assert_eq!(Class::of(1e3, 40e6), Class::Tiny);
        assert_eq!(Class::of(0.0, 0.0), Class::Tiny);
        assert_eq!(Class::of(1.0, 0.0), Class::Large, "over no distance every file is large");
    }

    #[test]
    fn classes_of_sizes_are_gathered_into_clusters() {
        let mut listed = Listed::default();
        for size in [1000, 2000, 8_000_000, 30_000_000, 300_000_000, 600_000_000, 5_000_000_000] {
            listed.add(size);
        }
        let found: Vec<_> = partition(&listed, 50e6).iter().map(|one| (one.class, one.files, one.bytes)).collect();
        assert_eq!(
            found,
            [
                (Class::Tiny, 3, 8_003_000),
                (Class::Small, 1, 30_000_000),
                (Class::Medium, 1, 300_000_000),
                (Class::Large, 2, 5_600_000_000)
            ]
        );
        assert!(partition(&Listed::default(), 50e6).is_empty());
    }

    #[test]
    fn the_heuristic_fills_the_path() {
        let policy = Policy::new(PolicyName::Fair, 64);
        let heuristic = |files: u64, size: u64| {
            Cluster { class: Class::Tiny, exponent: 0, files, bytes: files * size }.heuristic(&wide(), &policy)
        };
        // 50 MB are under way: 50 files of 1 MB.
        assert_eq!(heuristic(10_000, 1_000_000), Setting::new(50, 1, 50));
        assert_eq!(heuristic(7, 1_000_000), Setting::new(7, 1, 50));
        // Two buffers of 32 MB hold 50 MB.
        assert_eq!(heuristic(30, 3_000_000_000), Setting::new(2, 2, 1));
        assert_eq!(heuristic(1, 3_000_000_000), Setting::new(1, 2, 1));
        assert_eq!(heuristic(1_000_000, 100), Setting::new(64, 1, 100), "as the policy limits it");
        let empty = Cluster { class: Class::Tiny, exponent: 0, files: 9, bytes: 0 };
        assert_eq!(empty.heuristic(&wide(), &policy), Setting::new(9, 1, 100));
    }

    #[test]
    fn a_buffer_that_is_not_known_is_as_large_as_the_system_makes_it() {
        let path = Path { buffer: None, ..wide() };
        let large = Cluster { class: Class::Large, exponent: 38, files: 4, bytes: 1 << 40 };
        assert_eq!(
            large.heuristic(&path, &Policy::new(PolicyName::Fair, 64)),
            Setting::new(2, 12, 1),
            "50 MB are 12 times 4 MiB"
        );
    }
}
