//! Past transfers of like files over one path at about the same time, which met about the same load [HARP §2.2.2].

use std::collections::{HashMap, HashSet};

use super::path::{is_alike, rtt_s};
use super::polynomial::{Measured, Point};
use crate::history::Past;

/// Seconds without such a transfer after which the load may be another.
const GAP_S: f64 = 3.0 * 3600.0;

/// Most requests ahead of the answers: more than any tool asks for counts as this.
const MOST_PIPELINING: u16 = 100;

/// A group that has so many rows ends where a setting comes again, as in the authors' program: one row less than all settings that the
/// paper's grid of six values each has.
const FULL: usize = 215;

/// Rows that differ in the parameters only, as far as is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Group {
    pub(super) rows: Vec<Measured>,
    /// Where they are in the history.
    pub(super) indices: Vec<usize>,
}

/// A group that may get more rows.
struct Open {
    group: Group,
    settings: HashSet<[u16; 3]>,
    /// Mean size in bytes and round trip time in seconds of its first row, which others must be near.
    size: f64,
    rtt_s: f64,
    last_s: f64,
}

/// The groups of some rows of a history, oldest first, given by index and in order of time.
pub(super) fn groups(history: &[Past], rows: &[usize]) -> Vec<Group> {
    let mut paths: HashMap<(&str, &str), Vec<Open>> = HashMap::new();
    let mut closed: Vec<Group> = Vec::new();
    for index in rows {
        let past = &history[*index];
        let open = paths.entry((past.source.as_str(), past.destination.as_str())).or_default();
        closed.extend(open.extract_if(.., |group| group.ends_before(past)).map(|ended| ended.group));
        match open.iter_mut().find(|group| group.takes(past)) {
            Some(group) => group.add(past, *index),
            None => open.push(Open::begun(past, *index)),
        }
    }
    closed.extend(paths.into_values().flatten().map(|open| open.group));
    closed.sort_by_key(|group| group.indices[0]);
    closed
}

impl Open {
    fn begun(past: &Past, index: usize) -> Self {
        let mut open = Self {
            group: Group::default(),
            settings: HashSet::new(),
            size: past.mean_size(),
            rtt_s: rtt_s(past),
            last_s: past.began_s,
        };
        open.add(past, index);
        open
    }

    /// Whether files and path of a transfer are like those of its first row. The reference stays, so that a group does not wander off.
    fn takes(&self, past: &Past) -> bool {
        is_alike(past.mean_size(), self.size) && is_alike(rtt_s(past), self.rtt_s)
    }

    /// Whether it gets no more rows where this one comes next.
    fn ends_before(&self, past: &Past) -> bool {
        let late = past.began_s - self.last_s > GAP_S;
        let full = self.group.rows.len() >= FULL && self.settings.contains(&setting(past));
        late || (full && self.takes(past))
    }

    fn add(&mut self, past: &Past, index: usize) {
        self.group.rows.push(Measured { at: parameters(past), throughput: past.goodput });
        self.group.indices.push(index);
        self.settings.insert(setting(past));
        self.last_s = past.began_s;
    }
}

fn setting(past: &Past) -> [u16; 3] {
    [past.concurrency, past.parallelism, past.pipelining]
}

/// The parameters of a past transfer.
pub(super) fn parameters(past: &Past) -> Point {
    [past.concurrency, past.parallelism, past.pipelining.min(MOST_PIPELINING)].map(f64::from)
}

#[cfg(test)]
mod tests {
    use super::super::testing::past;
    use super::*;

    fn groups_of(history: &[Past]) -> Vec<Vec<usize>> {
        let rows: Vec<usize> = (0..history.len()).collect();
        groups(history, &rows).into_iter().map(|group| group.indices).collect()
    }

    fn at(began_s: f64, concurrency: u16) -> Past {
        Past { began_s, concurrency, ..past() }
    }

    #[test]
    fn a_group_ends_where_time_passed_without_such_a_transfer() {
        let history = [at(0.0, 1), at(3600.0, 2), at(10_000.0, 1), at(30_000.0, 2), at(31_000.0, 3)];
        assert_eq!(groups_of(&history), [vec![0, 1, 2], vec![3, 4]]);
    }

    #[test]
    fn other_files_and_other_paths_are_other_groups_at_the_same_time() {
        let larger = Past { bytes: 5 * past().bytes, ..at(1.0, 2) };
        let elsewhere = Past { destination: "elsewhere".to_owned(), ..at(2.0, 2) };
        let further = Past { rtt_s: Some(0.4), ..at(3.0, 2) };
        let history = [at(0.0, 1), larger, elsewhere, further, at(5.0, 2)];
        assert_eq!(groups_of(&history), [vec![0, 4], vec![1], vec![2], vec![3]]);
    }

    #[test]
    fn sizes_and_round_trips_that_differ_by_less_than_a_quarter_are_one_group_wherever_they_lie() {
        // 2^20 bytes and 2^15 µs lie between.
        let sized = |began_s, bytes: u64, rtt_s| Past { files: 1, bytes, rtt_s: Some(rtt_s), ..at(began_s, 1) };
        let history = [
            sized(0.0, 1_000_000, 0.0325),
            sized(1.0, 1_100_000, 0.0330),
            sized(2.0, 760_000, 0.0270),
            sized(3.0, 1_300_000, 0.0325),
            sized(4.0, 1_240_000, 0.0325),
            sized(5.0, 1_000_000, 0.0450),
            sized(6.0, 1_600_000, 0.0325),
        ];
        // 1.24 MB are near both 1.0 and 1.3, and join the older; 1.6 MB are near 1.3, not 1.0.
        assert_eq!(groups_of(&history), [vec![0, 1, 2, 4], vec![3, 6], vec![5]]);
    }

    #[test]
    fn a_full_group_ends_where_a_setting_comes_again() {
        let history: Vec<Past> = (0..500u16).map(|row| at(f64::from(row), 1 + row % 216)).collect();
        let found = groups_of(&history);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [216, 216, 68]);
        let few: Vec<Past> = (0..100u16).map(|row| at(f64::from(row), 1 + row % 4)).collect();
        assert_eq!(groups_of(&few).len(), 1, "a short one goes on");
    }

    #[test]
    fn only_the_rows_that_are_asked_for_are_grouped() {
        let history = [at(0.0, 1), at(1.0, 2), at(2.0, 3)];
        assert_eq!(groups(&history, &[0, 2])[0].indices, [0, 2]);
    }

    #[test]
    fn more_pipelining_than_ever_helps_is_as_much_as_that() {
        let row = Past { concurrency: 24, parallelism: 3, pipelining: u16::MAX, ..past() };
        assert_eq!(parameters(&row).as_slice(), [24.0, 3.0, 100.0].as_slice());
    }
}
