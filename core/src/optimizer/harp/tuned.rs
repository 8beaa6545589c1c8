//! One cluster while it is moved: the parameters in force, and what the next ones are to be.

use super::channels::Demand;
use super::cluster::Cluster;
use super::estimate::Models;
use super::online::Online;
use super::path::{Path, is_alike};
use super::polynomial::{Measured, Point};
use super::sampling::Interval;
use super::similar::{Known, Task};
use crate::optimizer::setting::{Setting, whole};
use crate::optimizer::{Policy, SizeShare};

/// A cluster and its parameters.
#[derive(Debug, Clone)]
pub(super) struct Tuned {
    pub(super) cluster: Cluster,
    /// What was estimated for it by itself.
    pub(super) chosen: Chosen,
    /// The files in flight that the distribution left it.
    pub(super) channels: u16,
    basis: Basis,
    /// The files for which the parameters and the distribution of the channels were last worked out.
    counted: u64,
    /// What was learned from past transfers, and for which task.
    learned: Option<(Task, Models)>,
    online: Online,
}

/// What the parameters rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basis {
    /// The heuristic alone: the models were not asked yet.
    Heuristic,
    /// An estimate for far fewer files, or far more.
    Outdated,
    /// An estimate for about as many files as are listed.
    Estimate,
}

/// Parameters of a cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Chosen {
    pub(super) setting: Setting,
    /// Most chunks of one file in flight, and most of a stream without an answer: as in the setting, or `u16::MAX` where nothing is known of
    /// what that does.
    pub(super) limits: (u16, u16),
    /// Bytes per second of one channel; only its ratio to those of others matters.
    unit_throughput: f64,
}

impl Tuned {
    /// Begins with the parameters of the heuristic, and a channel like those of others.
    pub(super) fn begun(cluster: Cluster, path: &Path, policy: &Policy, unit_throughput: f64) -> Self {
        Self {
            cluster,
            chosen: heuristic(cluster.heuristic(path, policy), unit_throughput),
            channels: 1,
            basis: Basis::Heuristic,
            counted: cluster.files,
            learned: None,
            online: Online::default(),
        }
    }

    /// Follows the listing: what was decided for half as many files is decided anew, by the heuristic at once and by the models at the next
    /// estimate. True if so.
    pub(super) fn follow(&mut self, cluster: Cluster, path: &Path, policy: &Policy) -> bool {
        self.cluster = cluster;
        if !is_doubled(cluster.files as f64, self.counted as f64) {
            return false;
        }
        self.counted = cluster.files;
        if self.basis == Basis::Heuristic {
            self.chosen = heuristic(cluster.heuristic(path, policy), self.chosen.unit_throughput);
        } else {
            self.basis = Basis::Outdated;
        }
        true
    }

    /// Whether its parameters are still to be estimated for what is listed.
    pub(super) fn is_due(&self) -> bool {
        self.basis != Basis::Estimate
    }

    pub(super) fn demand(&self) -> Demand {
        Demand {
            concurrency: self.chosen.setting.concurrency,
            bytes: self.cluster.bytes as f64,
            unit_throughput: self.chosen.unit_throughput,
        }
    }

    /// Streams that it is to get.
    pub(super) fn streams(&self, policy: &Policy) -> u32 {
        let parallelism = self.chosen.setting.parallelism.min(policy.parallelism).max(1);
        u32::from(self.channels) * u32::from(parallelism)
    }

    /// The same for the sender, with its own parallelism.
    pub(super) fn share(&self, policy: &Policy) -> SizeShare {
        let streams = u16::try_from(self.streams(policy)).unwrap_or(u16::MAX);
        SizeShare { exponent: self.cluster.exponent, streams, parallelism: self.chosen.limits.0.max(1) }
    }

    /// Its part of a monitor interval, by its share of the streams that were asked for: edt measures one throughput for all clusters.
    ///
    /// Where more or fewer streams ran, so did its channels. Where the guard lifted the limits, there is a stream for each file as long as
    /// there are files enough, and then more for each, which is how the history counts transfers without limits.
    pub(super) fn sample(&self, interval: &Interval, asked: u32, policy: &Policy) -> Measured {
        let share = f64::from(self.streams(policy)) / f64::from(asked.max(1));
        // What did not run at all cannot be divided by.
        let streams = (interval.streams * share).max(0.01);
        let (limits, setting) = (self.chosen.limits, self.chosen.setting);
        let lifted = interval.limits.0 > limits.0;
        let most = f64::from(if lifted { self.cluster.most_concurrency() } else { u16::MAX });
        let parallelism = if lifted { 1.0 } else { f64::from(setting.parallelism.min(policy.parallelism).max(1)) };
        let channels = (streams / parallelism).min(most);
        let pipelining = if interval.limits.1 > limits.1 { interval.limits.1 } else { setting.pipelining };
        let at: Point = [channels, streams / channels, f64::from(pipelining)];
        Measured { at, throughput: interval.throughput * share }
    }

    /// Asks the models what they make of a sample; true if the parameters change. An estimate that was due counts at once, others when
    /// enough of them agree.
    pub(super) fn judge(&mut self, known: &Known, path: &Path, sample: Measured, policy: &Policy) -> bool {
        let best = self.best(known, path, sample, policy);
        let next = if self.is_due() {
            self.online = Online::default();
            Some(best.setting)
        } else {
            self.online.estimated(self.chosen.setting, best.setting)
        };
        self.basis = Basis::Estimate;
        let Some(setting) = next else { return false };
        let changes = self.chosen.setting != setting;
        let limited = |limit: u16, value: u16| if limit == u16::MAX { limit } else { value };
        let limits = (limited(best.limits.0, setting.parallelism), limited(best.limits.1, setting.pipelining));
        self.chosen = Chosen { setting, limits, ..best };
        changes
    }

    /// How many models know transfers like this one.
    pub(super) fn models(&self) -> usize {
        self.learned.as_ref().map_or(0, |(_, models)| models.count())
    }

    /// What the models take for best, or the heuristic where there are none.
    fn best(&mut self, known: &Known, path: &Path, sample: Measured, policy: &Policy) -> Chosen {
        let limit = policy.limit.network.max(1);
        let cluster = self.cluster;
        let Some(estimate) = self.models_within(known, path, limit).estimate(sample) else {
            return heuristic(cluster.heuristic(path, policy), sample.throughput / sample.at[0]);
        };
        let [concurrency, parallelism, pipelining] = estimate.relaxed.map(whole);
        let known = |variable: usize, value: u16| if estimate.known[variable] { value } else { u16::MAX };
        Chosen {
            setting: Setting::new(concurrency.min(limit).min(cluster.most_concurrency()), parallelism, pipelining),
            limits: (known(1, parallelism), known(2, pipelining)),
            unit_throughput: positive(estimate.unit_throughput),
        }
    }

    /// The models of past transfers like this one, with at most `limit` files in flight. They are learned anew where what is known of the
    /// task is another than when they were; another limit, such as the guard sets for a while, takes no more than their maxima anew.
    fn models_within(&mut self, known: &Known, path: &Path, limit: u16) -> &Models {
        let cluster = self.cluster;
        let task = Task { path: *path, class: cluster.class, size: cluster.mean_size(), files: cluster.files };
        let kept = self.learned.take().filter(|(of, _)| is_like(&task, of));
        let (of, mut models) = kept.unwrap_or_else(|| (task, Models::learned(known, &task, limit)));
        models.bound(limit);
        &self.learned.insert((of, models)).1
    }
}

/// Whether what was learned for a task holds for another of its class.
fn is_like(task: &Task, of: &Task) -> bool {
    !is_doubled(task.size, of.size)
        && !is_doubled(task.files as f64, of.files as f64)
        && !is_doubled(task.path.bandwidth, of.path.bandwidth)
        && is_alike(task.path.rtt_s, of.path.rtt_s)
}

/// Whether a value is at least twice another, or half of it at most.
fn is_doubled(value: f64, other: f64) -> bool {
    value.max(other) > 0.0 && value.max(other) >= 2.0 * value.min(other)
}

fn heuristic(setting: Setting, unit_throughput: f64) -> Chosen {
    Chosen { setting, limits: (setting.parallelism, setting.pipelining), unit_throughput: positive(unit_throughput) }
}

/// A model may go below nothing at its edge, and nothing may have moved; what is divided by it needs something.
fn positive(throughput: f64) -> f64 {
    if throughput > 1.0 { throughput } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::super::cluster::Class;
    use super::super::testing::{pass, past};
    use super::*;
    use crate::history::Past;
    use crate::optimizer::PolicyName;

    const CLUSTER: Cluster = Cluster { class: Class::Tiny, exponent: 19, files: 100, bytes: 100_000_000 };

    fn path() -> Path {
        Path { bandwidth: 1.25e9, carried: 1.25e9, rtt_s: 0.04, buffer: Some(32e6) }
    }

    fn policy() -> Policy {
        Policy::new(PolicyName::Fair, 64)
    }

    fn measured(throughput: f64) -> Measured {
        Measured { at: [8.0, 1.0, 1.0], throughput }
    }

    /// 400 MB/s at 16 files in flight.
    fn hill() -> Vec<Past> {
        pass(&past(), 0.0, |cc, _, _| 1e6 * (400.0 - (f64::from(cc) - 16.0).powi(2)))
    }

    fn nothing() -> Known {
        Known::of(Vec::new())
    }

    #[test]
    fn its_part_of_an_interval_is_its_share_of_the_streams() {
        let policy = policy();
        let mut tuned = Tuned::begun(CLUSTER, &path(), &policy, 1.0);
        tuned.chosen.setting = Setting::new(10, 3, 5);
        tuned.chosen.limits = (3, 5);
        tuned.channels = 4;
        assert_eq!(tuned.streams(&policy), 12);
        let interval = Interval { throughput: 800.0, streams: 24.0, limits: (3, 5) };
        let sample = tuned.sample(&interval, 48, &policy);
        assert_eq!(sample.at.as_slice(), [2.0, 3.0, 5.0].as_slice(), "half of the streams ran");
        assert!((sample.throughput - 200.0).abs() < 1e-9);
        let lifted = Interval { limits: (u16::MAX, u16::MAX), ..interval };
        assert_eq!(tuned.sample(&lifted, 48, &policy).at.as_slice(), [6.0, 1.0, 65_535.0].as_slice());
        tuned.cluster.files = 4;
        assert_eq!(tuned.sample(&lifted, 48, &policy).at.as_slice(), [4.0, 1.5, 65_535.0].as_slice());
        let narrow = Policy { parallelism: 1, ..policy };
        assert_eq!(tuned.streams(&narrow), 4);
    }

    #[test]
    fn the_first_estimate_counts_at_once_and_later_ones_when_four_agree() {
        let known = Known::of(hill());
        let mut tuned = Tuned::begun(CLUSTER, &path(), &policy(), 1.0);
        assert_eq!(tuned.chosen.setting, Setting::new(50, 1, 50));
        assert!(tuned.judge(&known, &path(), measured(300e6), &policy()));
        assert_eq!(tuned.chosen.setting, Setting::new(6, 1, 1));
        tuned.chosen.setting = Setting::new(12, 1, 1);
        let answers = [0; 4].map(|_| tuned.judge(&known, &path(), measured(300e6), &policy()));
        assert_eq!(answers, [false, false, false, true]);
        assert_eq!(tuned.chosen.setting, Setting::new(6, 1, 1));
    }

    #[test]
    fn without_history_the_heuristic_follows_what_becomes_known_of_the_path() {
        let mut slow = Path { bandwidth: 25e6, carried: 25e6, buffer: None, ..path() };
        let mut tuned = Tuned::begun(CLUSTER, &slow, &policy(), 1.0);
        assert_eq!(tuned.chosen.setting, Setting::new(2, 1, 1), "1 MB under way are one file of 1 MB");
        assert!(!tuned.judge(&nothing(), &slow, measured(25e6), &policy()));
        slow.carries(250e6);
        let answers = [0; 4].map(|_| tuned.judge(&nothing(), &slow, measured(250e6), &policy()));
        assert_eq!(answers, [false, false, false, true]);
        assert_eq!(tuned.chosen.setting, Setting::new(10, 1, 10));
    }

    // With 4 files in flight at most 256 MB/s are promised, of which two files keep 204.
    #[test]
    fn a_limit_of_the_moment_is_forgotten_with_it() {
        let known = Known::of(hill());
        let mut tuned = Tuned::begun(CLUSTER, &path(), &policy(), 1.0);
        tuned.judge(&known, &path(), measured(300e6), &Policy::new(PolicyName::Fair, 4));
        assert_eq!(tuned.chosen.setting, Setting::new(2, 1, 1));
        let answers = [0; 4].map(|_| tuned.judge(&known, &path(), measured(300e6), &policy()));
        assert_eq!(answers, [false, false, false, true]);
        assert_eq!(tuned.chosen.setting, Setting::new(6, 1, 1));
    }

    #[test]
    fn what_was_decided_for_half_as_many_files_is_decided_anew() {
        let (known, policy) = (Known::of(hill()), policy());
        let of_files = |files: u64| Cluster { files, bytes: files * 1_000_000, ..CLUSTER };
        let mut tuned = Tuned::begun(of_files(3), &path(), &policy, 1.0);
        assert_eq!(tuned.chosen.setting.concurrency, 3);
        assert!(!tuned.follow(of_files(5), &path(), &policy));
        assert_eq!(tuned.chosen.setting.concurrency, 3);
        assert!(tuned.follow(of_files(6), &path(), &policy));
        assert_eq!(tuned.chosen.setting.concurrency, 6, "by the heuristic, of which there are no more files");
        assert!(!tuned.follow(of_files(11), &path(), &policy) && tuned.is_due());
        tuned.cluster.files = 4;
        tuned.judge(&known, &path(), measured(300e6), &policy);
        assert_eq!((tuned.chosen.setting.concurrency, tuned.is_due()), (4, false));
        assert!(tuned.follow(of_files(12), &path(), &policy) && tuned.is_due());
        assert_eq!(tuned.chosen.setting.concurrency, 4, "the estimate stays until there is a new one");
        assert!(tuned.judge(&known, &path(), measured(300e6), &policy), "which counts at once");
        assert_eq!((tuned.chosen.setting.concurrency, tuned.is_due()), (6, false));
    }

    #[test]
    fn models_hold_for_tasks_that_are_much_the_same() {
        let task = Task { path: path(), class: CLUSTER.class, size: 1e6, files: 100 };
        assert!(is_like(&task, &task));
        assert!(is_like(&Task { size: 1.9e6, files: 51, ..task }, &task));
        let (longer, wider) = (Path { rtt_s: 0.06, ..path() }, Path { bandwidth: 2.5e9, ..path() });
        let others = [Task { size: 2e6, ..task }, Task { files: 50, ..task }];
        for other in others.into_iter().chain([longer, wider].map(|path| Task { path, ..task })) {
            assert!(!is_like(&other, &task), "{other:?}");
        }
        let empty = Task { size: 0.0, ..task };
        assert!(is_like(&empty, &empty) && !is_like(&task, &empty));
    }

    #[test]
    fn what_no_past_transfer_tried_has_no_limit() {
        let history: Vec<Past> = hill().into_iter().filter(|row| (row.parallelism, row.pipelining) == (2, 8)).collect();
        let history: Vec<Past> = (0..3).flat_map(|_| history.clone()).collect();
        let mut tuned = Tuned::begun(CLUSTER, &path(), &policy(), 1.0);
        tuned.judge(&Known::of(history), &path(), measured(300e6), &policy());
        assert_eq!((tuned.chosen.setting, tuned.chosen.limits), (Setting::new(6, 2, 8), (u16::MAX, u16::MAX)));
    }

    #[test]
    fn neither_the_files_nor_the_limit_are_exceeded() {
        let few = Cluster { files: 3, bytes: 3_000_000, ..CLUSTER };
        let mut tuned = Tuned::begun(few, &path(), &policy(), 1.0);
        tuned.judge(&Known::of(hill()), &path(), measured(300e6), &policy());
        assert_eq!(tuned.chosen.setting.concurrency, 3);
        assert_eq!(Tuned::begun(CLUSTER, &path(), &Policy::new(PolicyName::Fair, 8), 1.0).chosen.setting.concurrency, 8);
    }
}
