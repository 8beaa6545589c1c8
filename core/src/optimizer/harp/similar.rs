//! Which past transfers are like the one at hand: weighted cosine similarity [HARP §2.2.2].

use super::cluster::Class;
use super::path::Path;
use crate::history::Past;

/// Weights of bandwidth, round trip time, bandwidth-delay product over buffer, class, file size and file count [HARP §2.2.2].
const WEIGHTS: [f64; FEATURES] = [2.0, 2.0, 10.0, 10.0, 3.0, 1.0];

const FEATURES: usize = 6;

/// The similarity that is asked for at first, in steps of a thousandth, of which it goes down by one as long as too few are as similar.
const FIRST_THRESHOLD: f64 = 990.0;

/// Rows that are enough, and those of the history in the paper: of a shorter history the same share is enough.
const ENOUGH: usize = 6_000;
const OF_ROWS: usize = 21_000;

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
    /// A past transfer as a task, over a link of `bandwidth` if nobody knew it.
    pub(super) fn of(past: &Past, bandwidth: f64) -> Self {
        let path = Path {
            bandwidth: past.bandwidth.unwrap_or(bandwidth),
            carried: past.goodput,
            rtt_s: past.rtt_s.unwrap_or(0.0),
            buffer: past.tcp_buffer.filter(|buffer| *buffer > 0.0),
        };
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

/// The rows that are most like the task, by index and in their order.
pub(super) fn similar(rows: &[Task], task: &Task) -> Vec<usize> {
    let features: Vec<Features> = rows.iter().map(Task::features).collect();
    let wanted = task.features();
    let greatest = greatest(features.iter().chain([&wanted]));
    let thousandths: Vec<f64> = features.iter().map(|row| 1000.0 * cosine(row, &wanted, &greatest)).collect();
    let threshold = threshold(&thousandths);
    (0..rows.len()).filter(|row| thousandths[*row] >= threshold).collect()
}

/// The greatest threshold that leaves enough rows.
fn threshold(thousandths: &[f64]) -> f64 {
    let enough = (thousandths.len() * ENOUGH).div_ceil(OF_ROWS).min(ENOUGH);
    let mut falling = thousandths.to_vec();
    falling.sort_unstable_by(|a, b| b.total_cmp(a));
    let last = enough.checked_sub(1).and_then(|at| falling.get(at)).copied().unwrap_or(FIRST_THRESHOLD);
    last.floor().min(FIRST_THRESHOLD)
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
    use super::*;

    fn task(class: Class, size: f64, rtt_s: f64) -> Task {
        Task { path: Path { bandwidth: 1.25e9, carried: 1e8, rtt_s, buffer: Some(32e6) }, class, size, files: 100 }
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
        let mut rows = vec![task(Class::Tiny, 1e6, 0.04); 5];
        rows.extend(vec![task(Class::Small, 2e7, 0.04); 6]);
        rows.extend(vec![task(Class::Large, 1e9, 0.04); 10]);
        // Of 21 rows 6 are enough: the five alike are not, and the next most similar come too.
        assert_eq!(similar(&rows, &rows[0]), (0..11).collect::<Vec<_>>());
        // Here the ten that are alike are enough.
        assert_eq!(similar(&rows, &rows[20]), (11..21).collect::<Vec<_>>());
        assert!(similar(&[], &rows[0]).is_empty());
    }

    #[test]
    fn of_a_long_history_six_thousand_rows_are_enough() {
        let rising: Vec<f64> = (0..50_000).map(|row| 980.0 * f64::from(row) / 50_000.0).collect();
        let found = threshold(&rising);
        let left = rising.iter().filter(|value| **value >= found).count();
        assert!((6000..6100).contains(&left), "{left}");
        assert!((threshold(&vec![1000.0; 50_000]) - FIRST_THRESHOLD).abs() < 1e-9);
    }
}
