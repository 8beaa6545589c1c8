//! Past transfers of like files over one path at about the same time, which met about the same load [HARP §2.2.2].

use std::collections::{HashMap, HashSet};

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

/// What the rows of a group have in common besides their time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Kind<'a> {
    source: &'a str,
    destination: &'a str,
    /// The power of two of the mean size, and of the round trip time in µs.
    size: u32,
    rtt: u32,
}

/// A group that may get more rows.
#[derive(Default)]
struct Open {
    group: Group,
    settings: HashSet<[u16; 3]>,
    last_s: f64,
}

/// The groups of some rows of a history, oldest first, given by index and in order of time.
pub(super) fn groups(history: &[Past], rows: &[usize]) -> Vec<Group> {
    let mut open: HashMap<Kind<'_>, Open> = HashMap::new();
    let mut closed: Vec<Group> = Vec::new();
    for index in rows {
        let past = &history[*index];
        let group = open.entry(Kind::of(past)).or_default();
        if group.ends_before(past) {
            closed.push(std::mem::take(group).group);
        }
        group.add(past, *index);
    }
    closed.extend(open.into_values().map(|open| open.group));
    closed.sort_by_key(|group| group.indices[0]);
    closed
}

impl<'a> Kind<'a> {
    fn of(past: &'a Past) -> Self {
        Self {
            source: &past.source,
            destination: &past.destination,
            size: power(past.mean_size()),
            rtt: power(past.rtt_s.unwrap_or(0.0) * 1e6),
        }
    }
}

fn power(value: f64) -> u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let power = value.max(1.0).log2() as u32;
    power
}

impl Open {
    fn ends_before(&self, past: &Past) -> bool {
        let late = past.began_s - self.last_s > GAP_S;
        let full = self.group.rows.len() >= FULL && self.settings.contains(&setting(past));
        !self.group.rows.is_empty() && (late || full)
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
