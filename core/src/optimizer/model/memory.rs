//! What past transfers over the same path tell before the first interval.

use std::time::Duration;

use super::fit::{Bound, Point};
use crate::history::Past;

/// The latest stretches of past transfers that are looked at, and what each counts beside a measurement of this transfer.
const MOST: usize = 24;
const WEIGHT: f64 = 0.25;

/// How far the round trip time of a path may be from that of the same path another day: by this factor, or by this many seconds.
const SAME_TRIP: (f64, f64) = (1.3, 0.002);

/// Measurements from past transfers, and the most streams that any of them had.
pub(super) struct Memory {
    pub(super) points: Vec<Point>,
    pub(super) most: u16,
}

impl Memory {
    /// What there is of the latest transfers over a path of this round trip time; `history` has the oldest first.
    pub(super) fn of(history: &[Past], rtt: Option<Duration>) -> Self {
        let moves = |past: &Past| past.goodput.is_finite() && past.goodput > 0.0 && past.all_streams() > 0;
        let latest: Vec<&Past> = history.iter().rev().filter(|past| moves(past) && is_same(past, rtt)).take(MOST).collect();
        let point = |past: &&Past| Point::new(f64::from(past.all_streams()), past.goodput, Bound::Exact).weighing(WEIGHT);
        let most = latest.iter().map(|past| past.all_streams()).max().unwrap_or(0);
        Self { points: latest.iter().map(point).collect(), most }
    }
}

/// Whether the round trip times are those of one path, as far as they are known.
fn is_same(past: &Past, rtt: Option<Duration>) -> bool {
    let (Some(then), Some(now)) = (past.rtt_s, rtt) else { return past.rtt_s.is_none() && rtt.is_none() };
    let now = now.as_secs_f64();
    (then - now).abs() <= SAME_TRIP.1 || (then <= SAME_TRIP.0 * now && now <= SAME_TRIP.0 * then)
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A past transfer of so many streams over a path of 50 ms.
    pub(in crate::optimizer::model) fn past(streams: u16, goodput: f64) -> Past {
        Past {
            began_s: 0.0,
            source: "a".to_owned(),
            destination: "b".to_owned(),
            bandwidth: None,
            rtt_s: Some(0.05),
            tcp_buffer: None,
            files: 10,
            bytes: 1 << 30,
            concurrency: streams,
            parallelism: 1,
            streams: None,
            pipelining: 32,
            goodput,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::past;
    use super::*;

    #[test]
    fn the_latest_transfers_over_the_same_path_are_taken() {
        let mut history: Vec<Past> = (1..=40).map(|n| past(n, 1e6 * f64::from(n))).collect();
        history.push(Past { rtt_s: Some(0.2), ..past(60, 1e9) });
        history.push(Past { rtt_s: None, ..past(61, 1e9) });
        history.push(past(62, 0.0));
        history.push(past(63, f64::NAN));
        let memory = Memory::of(&history, Some(Duration::from_millis(45)));
        assert_eq!((memory.points.len(), memory.most), (MOST, 40));
        assert!(memory.points.iter().all(|point| point.workers > 16.0));
        assert!(Memory::of(&history, Some(Duration::from_millis(400))).points.is_empty());
        assert_eq!(Memory::of(&history, None).most, 61);
    }

    #[test]
    fn the_streams_that_ran_count_and_not_what_they_came_to_for_each_file() {
        let shared = Past { concurrency: 5, parallelism: 2, ..past(5, 1e8) };
        let history = [shared.clone(), Past { streams: Some(8), ..shared }];
        let memory = Memory::of(&history, Some(Duration::from_millis(50)));
        let workers: Vec<f64> = memory.points.iter().map(|point| point.workers).collect();
        assert_eq!((workers, memory.most), (vec![8.0, 10.0], 10));
    }
}
