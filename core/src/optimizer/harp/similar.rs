//! Which past transfers are like the one at hand: weighted cosine similarity [HARP §2.2.2].

use super::cluster::Class;
use super::path::{Path, bandwidths, rtt_s, without_queues};
use crate::history::Past;

/// Weights of bandwidth, round trip time, bandwidth-delay product over buffer, class, file size and file count [HARP §2.2.2].
const WEIGHTS: [f64; FEATURES] = [2.0, 2.0, 10.0, 10.0, 3.0, 1.0];

const FEATURES: usize = 6;

/// The similarity that is asked for at first, in thousandths, of which it goes down by one as long as too few are as similar.
const FIRST_THRESHOLD: f64 = 990.0;

/// The least that it goes down to, so that nothing is made of what is not similar. On the same path the next class of files may be as
/// similar as that, and one beyond it is not.
const LEAST_THRESHOLD: f64 = 950.0;

/// How far apart round trip times may be, as a factor: those of the paper's networks that learn from each other are 40 and 100 ms, and
/// those of its local network 0.2 ms. Where the buffer is not known, the cosine of the rest hardly tells them apart.
const MOST_TRIPS: f64 = 4.0;

/// Rows that are enough, and those of the history in the paper: of a shorter history the same share is enough, and no more than all of
/// that are learned from, so that learning takes no longer however much is known.
const ENOUGH: usize = 6_000;
const OF_ROWS: usize = 21_000;

/// Where the features have the round trip time.
const RTT: usize = 1;

/// What is compared: a cluster of files and the path that it goes over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Task {
    pub(super) path: Path,
    pub(super) class: Class,
    /// Mean size in bytes.
    pub(super) size: f64,
    pub(super) files: u64,
}

/// What is not known of a transfer is `None`.
type Features = [Option<f64>; FEATURES];

impl Task {
    /// A past transfer as a task, over a link of this bandwidth.
    pub(super) fn of(past: &Past, bandwidth: f64) -> Self {
        let buffer = past.tcp_buffer.filter(|buffer| *buffer > 0.0);
        let path = Path { bandwidth, carried: past.goodput, rtt_s: rtt_s(past), buffer };
        Self { path, class: Class::of(past.mean_size(), path.bdp()), size: past.mean_size(), files: past.files }
    }

    // Sizes and counts are compared by their logarithms, as in the authors' program.
    fn features(&self) -> Features {
        let known = |value: f64| Some(value).filter(|value| *value > 0.0);
        [
            known(self.path.bandwidth),
            known(self.path.rtt_s),
            self.path.buffer.and_then(|buffer| known(self.path.bdp() / buffer)),
            Some(self.class.density()),
            Some(self.size.max(1.0).log10()),
            Some((self.files.max(1) as f64).log10() + 1.0),
        ]
    }
}

/// Past transfers, and what of each is compared: worked out once, for all clusters and for as long as they are moved.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pasts: Vec<Past>,
    features: Vec<Features>,
}

impl Known {
    /// Takes past transfers, oldest first.
    pub(super) fn of(mut pasts: Vec<Past>) -> Self {
        without_queues(&mut pasts);
        let tasks = pasts.iter().zip(bandwidths(&pasts)).map(|(past, bandwidth)| Task::of(past, bandwidth));
        let features = tasks.map(|task| task.features()).collect();
        Self { pasts, features }
    }

    pub(super) fn pasts(&self) -> &[Past] {
        &self.pasts
    }

    /// The rows that are most like the task, by index and in their order. Where too many are, the newest of the most similar.
    pub(super) fn similar(&self, task: &Task) -> Vec<usize> {
        let wanted = task.features();
        let greatest = greatest(self.features.iter().chain([&wanted]));
        let thousandths: Vec<f64> = self.features.iter().map(|row| in_thousandths(row, &wanted, &greatest)).collect();
        let threshold = threshold(&thousandths);
        let mut rows: Vec<usize> = (0..thousandths.len()).filter(|row| thousandths[*row] >= threshold).collect();
        if rows.len() > OF_ROWS {
            let rank = |row: usize| thousandths[row].floor();
            rows.sort_unstable_by(|a, b| rank(*b).total_cmp(&rank(*a)).then(b.cmp(a)));
            rows.truncate(OF_ROWS);
            rows.sort_unstable();
        }
        rows
    }
}

/// How similar a row is; not at all if its path is of another kind.
fn in_thousandths(row: &Features, wanted: &Features, greatest: &[f64; FEATURES]) -> f64 {
    let comparable = match (row[RTT], wanted[RTT]) {
        (Some(a), Some(b)) => a.max(b) <= MOST_TRIPS * a.min(b),
        (None, None) => true,
        _ => false,
    };
    if comparable { 1000.0 * cosine(row, wanted, greatest) } else { 0.0 }
}

/// The greatest threshold that leaves enough rows, or the least that there is.
fn threshold(thousandths: &[f64]) -> f64 {
    let enough = (thousandths.len() * ENOUGH).div_ceil(OF_ROWS).min(ENOUGH);
    let mut falling = thousandths.to_vec();
    falling.sort_unstable_by(|a, b| b.total_cmp(a));
    let last = enough.checked_sub(1).and_then(|at| falling.get(at)).copied().unwrap_or(FIRST_THRESHOLD);
    last.floor().clamp(LEAST_THRESHOLD, FIRST_THRESHOLD)
}

/// The greatest value of each feature: divided by it, all have the same range, and none outweighs the others.
fn greatest<'a>(rows: impl Iterator<Item = &'a Features>) -> [f64; FEATURES] {
    rows.fold([f64::MIN_POSITIVE; FEATURES], |greatest, row| {
        std::array::from_fn(|feature| row[feature].map_or(greatest[feature], |value| value.max(greatest[feature])))
    })
}

// HARP eq. 1, of the normalised and weighted features that are known of both.
fn cosine(a: &Features, b: &Features, greatest: &[f64; FEATURES]) -> f64 {
    let scales = WEIGHTS.iter().zip(greatest).map(|(weight, greatest)| weight / greatest);
    let (mut both, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for ((a, b), scale) in a.iter().zip(b).zip(scales) {
        let (Some(a), Some(b)) = (a, b) else { continue };
        let (a, b) = (scale * a, scale * b);
        both += a * b;
        of_a += a * a;
        of_b += b * b;
    }
    if of_a > 0.0 && of_b > 0.0 { both / (of_a * of_b).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::testing::past;
    use super::*;

    fn task(class: Class, size: f64, rtt_s: f64) -> Task {
        Task { path: Path { bandwidth: 1.25e9, carried: 1e8, rtt_s, buffer: Some(32e6) }, class, size, files: 100 }
    }

    /// So many transfers of a hundred files of this size, over 10 Gbit/s.
    fn rows(count: usize, size: u64, rtt_s: Option<f64>) -> Vec<Past> {
        vec![Past { bytes: 100 * size, rtt_s, ..past() }; count]
    }

    fn task_of(past: &Past) -> Task {
        Task::of(past, 1.25e9)
    }

    fn similarity(a: &Task, b: &Task) -> f64 {
        let (a, b) = (a.features(), b.features());
        cosine(&a, &b, &greatest([&a, &b].into_iter()))
    }

    #[test]
    fn the_similarity_of_two_tasks_is_that_of_equation_1() {
        let (tiny, large) = (task(Class::Tiny, 1e6, 0.04), task(Class::Large, 1e9, 0.04));
        assert!((similarity(&tiny, &tiny) - 1.0).abs() < 1e-12);
        // Weighted and divided by the greater: (2, 2, 10, 10/31, 3 * 6/9, 1) and (2, 2, 10, 10, 3, 1).
        let (a, b) = ([2.0, 2.0, 10.0, 10.0 / 31.0, 2.0, 1.0], [2.0, 2.0, 10.0, 10.0, 3.0, 1.0]);
        let dot = |a: [f64; 6], b: [f64; 6]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let expected = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
        assert!((similarity(&tiny, &large) - expected).abs() < 1e-12, "{} {expected}", similarity(&tiny, &large));
    }

    #[test]
    fn the_class_counts_more_than_the_size_and_the_path_more_than_the_count() {
        let asked = task(Class::Tiny, 1e6, 0.04);
        let smaller = similarity(&asked, &task(Class::Tiny, 1e3, 0.04));
        assert!(smaller > similarity(&asked, &task(Class::Large, 1e9, 0.04)), "both are a factor of 1000 away");
        let fewer = Task { files: 10, ..asked };
        assert!(similarity(&asked, &fewer) > similarity(&asked, &task(Class::Tiny, 1e6, 0.004)));
    }

    #[test]
    fn what_is_not_known_of_one_is_compared_of_neither() {
        let asked = task(Class::Small, 2e7, 0.04);
        let vague = Task { path: Path { buffer: None, rtt_s: 0.0, ..asked.path }, ..asked };
        assert!((similarity(&asked, &vague) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_threshold_falls_until_the_same_share_of_rows_is_left_as_in_the_paper() {
        let here = Some(0.04);
        let pasts = [rows(5, 1_000_000, here), rows(6, 20_000_000, here), rows(10, 1_000_000_000, here)].concat();
        let known = Known::of(pasts.clone());
        // Of 21 rows 6 are enough: the five alike are not, and the next most similar come too.
        assert_eq!(known.similar(&task_of(&pasts[0])), (0..11).collect::<Vec<_>>());
        // Here the ten that are alike are enough.
        assert_eq!(known.similar(&task_of(&pasts[20])), (11..21).collect::<Vec<_>>());
        assert!(Known::of(Vec::new()).similar(&task_of(&pasts[0])).is_empty());
    }

    #[test]
    fn what_is_not_similar_is_left_out_however_little_is_known() {
        let here = Some(0.04);
        let large = task_of(&rows(1, 1_000_000_000, here)[0]);
        assert!(Known::of(rows(9, 1_000_000, here)).similar(&large).is_empty(), "files of another kind");
        assert_eq!(Known::of(rows(9, 200_000_000, here)).similar(&large).len(), 9, "of the next one");
        for (rtt_s, similar) in [(Some(0.1), 9), (Some(0.01), 9), (Some(0.000_2), 0), (Some(0.2), 0), (None, 0)] {
            // Without a buffer only bandwidth and round trip time tell paths apart.
            let elsewhere: Vec<Past> =
                rows(9, 1_000_000_000, rtt_s).into_iter().map(|past| Past { tcp_buffer: None, ..past }).collect();
            assert_eq!(Known::of(elsewhere).similar(&large).len(), similar, "{rtt_s:?}");
        }
        let local = task_of(&rows(1, 1_000_000_000, None)[0]);
        assert_eq!(Known::of(rows(9, 1_000_000_000, None)).similar(&local).len(), 9, "where there is no network");
    }

    #[test]
    fn what_came_of_a_transfer_does_not_decide_whether_it_is_similar() {
        let of_goodput = |goodput: f64| Past { goodput, bandwidth: None, ..past() };
        let pasts: Vec<Past> = (1..=40u8).map(|row| of_goodput(25e6 * f64::from(row))).collect();
        let found = Known::of(pasts).similar(&Task::of(&past(), 1e9));
        assert_eq!(found, (0..40).collect::<Vec<_>>(), "from 25 MB/s to 1 GB/s on one path");
    }

    #[test]
    fn of_more_rows_than_the_papers_history_has_the_newest_of_the_most_similar_count() {
        let of_files = |files: u64, count: usize| vec![Past { files, bytes: files * 1_000_000, ..past() }; count];
        let pasts = [of_files(100, 20_000), of_files(10_000, 10_000), of_files(100, 2_000)].concat();
        let found = Known::of(pasts).similar(&task_of(&past()));
        assert_eq!(found, (1_000..20_000).chain(30_000..32_000).collect::<Vec<_>>());
    }

    #[test]
    fn of_a_long_history_six_thousand_rows_are_enough() {
        let rising: Vec<f64> = (0..50_000).map(|row| 955.0 + 30.0 * f64::from(row) / 50_000.0).collect();
        let found = threshold(&rising);
        let left = rising.iter().filter(|value| **value >= found).count();
        // A thousandth is 1,667 of them.
        assert!((6000..7700).contains(&left), "{left}");
        assert!((threshold(&vec![1000.0; 50_000]) - FIRST_THRESHOLD).abs() < 1e-9);
        assert!((threshold(&vec![300.0; 50_000]) - LEAST_THRESHOLD).abs() < 1e-9);
    }
}
