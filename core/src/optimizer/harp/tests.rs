//! HARP as a whole, on paths made of a few numbers: what it decides after each second, as recorded.

use super::testing::{pass, past};
use super::*;
use crate::optimizer::guard::Guard;
use crate::optimizer::{Listed, PerStage, PolicyName, SizeShare};

const DAY_S: f64 = 86_400.0;
const MB: u64 = 1_000_000;

/// What is observed second by second, and which streams, parallelism and pipelining are decided after each.
struct Trace {
    optimizer: Box<dyn Optimizer>,
    policy: Policy,
    listed: Listed,
    bytes_left: Option<u64>,
    decided: Decision,
}

impl Trace {
    fn begin(mut optimizer: impl Optimizer + 'static, listed: Listed, limit: u16) -> Self {
        let policy = Policy::new(PolicyName::Fair, limit);
        let decided = optimizer.start(&policy);
        Self { optimizer: Box::new(optimizer), policy, listed, bytes_left: None, decided }
    }

    /// So many seconds on a path that tells what streams move, in bytes per second.
    fn seconds(&mut self, count: usize, moves: impl Fn(f64) -> f64) -> Vec<(u16, u16, u16)> {
        (0..count).map(|_| self.second(&moves)).collect()
    }

    fn second(&mut self, moves: impl Fn(f64) -> f64) -> (u16, u16, u16) {
        let throughput = moves(f64::from(self.decided.concurrency.network));
        let observation = Observation {
            listed: self.listed.clone(),
            bytes_left: self.bytes_left,
            policy: self.policy,
            ..Observation::of_a_test(self.decided.clone(), throughput, self.policy.limit.network)
        };
        self.decided = self.optimizer.decide(&observation).unwrap();
        let Decision { concurrency, parallelism, pipelining, .. } = &self.decided;
        assert_eq!(*concurrency, PerStage::all(concurrency.network));
        (concurrency.network, *parallelism, *pipelining)
    }
}

fn setup(history: &[Past], rtt_ms: u64) -> Setup<'_> {
    Setup { history, rtt: Some(Duration::from_millis(rtt_ms)), ..Setup::of_a_test() }
}

fn files(sizes: &[(u64, u64)]) -> Listed {
    let mut listed = Listed::default();
    for (count, size) in sizes {
        (0..*count).for_each(|_| listed.add(*size));
    }
    listed
}

/// Tiny files, of which 16 in flight are best, or 20 and a quarter as fast where others use the path.
fn light(cc: f64) -> f64 {
    1e6 * (400.0 - (cc - 16.0).powi(2))
}

fn heavy(cc: f64) -> f64 {
    0.25e6 * (400.0 - (cc - 20.0).powi(2))
}

fn tiny() -> Past {
    Past { files: 10_000, bytes: 10_000 * MB, ..past() }
}

fn two_loads() -> Vec<Past> {
    let mut history = pass(&tiny(), 0.0, |cc, _, _| light(f64::from(cc)));
    history.extend(pass(&tiny(), DAY_S, |cc, _, _| heavy(f64::from(cc))));
    history
}

// Alone, the light pass asks for 6 files in flight (300 of at most 400 MB/s), and the heavy one for 10. What tells the sample has twice the
// weight: (2 * 6 + 10) / 3 = 7.3 and (6 + 2 * 10) / 3 = 8.7.
#[test]
fn it_samples_with_the_heuristic_takes_what_history_says_and_follows_the_load() {
    let history = two_loads();
    let mut trace = Trace::begin(Harp::new(&setup(&history, 40)), files(&[(10_000, MB)]), 32);
    assert_eq!(trace.decided.concurrency, PerStage::all(16));
    // 400 MB/s for 40 ms are 16 files.
    assert_eq!(trace.seconds(6, light), [(16, 1, 16); 6]);
    assert_eq!(trace.decided.reason, "measuring: tiny 16 x 1 pipelining 16");
    assert_eq!(trace.seconds(1, light), [(7, 1, 1)]);
    assert_eq!(trace.decided.reason, "2 models changed parameters after 400.0 MB/s: tiny 7 x 1 pipelining 1");
    assert_eq!(trace.seconds(6, light), [(7, 1, 1); 6]);
    // Four intervals of three seconds.
    assert_eq!(trace.seconds(11, heavy), [(7, 1, 1); 11]);
    assert_eq!(trace.seconds(1, heavy), [(9, 1, 1)]);
    assert_eq!(trace.seconds(30, heavy), [(9, 1, 1); 30]);
}

#[test]
fn without_online_tuning_the_first_estimate_stays() {
    let history = two_loads();
    let mut trace = Trace::begin(Harp::once(&setup(&history, 40)), files(&[(10_000, MB)]), 32);
    trace.seconds(7, light);
    assert_eq!(trace.seconds(30, heavy), [(7, 1, 1); 30]);
    assert!(trace.decided.reason.starts_with("tuned once"), "{}", trace.decided.reason);
}

#[test]
fn a_load_that_passes_changes_nothing() {
    let history = two_loads();
    let mut trace = Trace::begin(Harp::new(&setup(&history, 40)), files(&[(10_000, MB)]), 32);
    trace.seconds(7, light);
    for _ in 0..5 {
        assert_eq!(trace.seconds(9, heavy), [(7, 1, 1); 9]);
        assert_eq!(trace.seconds(3, light), [(7, 1, 1); 3]);
    }
}

// For large files 900 MB/s at 16 files and 4 streams each; lowered to 2 and 2 (544 MB/s of 760), of which one file has 512.5.
#[test]
fn clusters_share_the_channels_by_what_they_need() {
    let large = Past { files: 10, bytes: 30_000 * MB, ..past() };
    let mut history = pass(&tiny(), 0.0, |cc, _, _| light(f64::from(cc)));
    history.extend(pass(&large, DAY_S, |cc, p, _| {
        1e6 * (900.0 - 1.1 * (f64::from(cc) - 16.0).powi(2) - 35.0 * (f64::from(p) - 4.0).powi(2))
    }));
    let listed = files(&[(10_000, MB), (10, 3000 * MB)]);
    let mut trace = Trace::begin(Harp::new(&setup(&history, 40)), listed, 64);
    // 900 MB/s for 40 ms are 36 files of 1 MB: by size, tiny ones get 9 of 36 channels, and large ones their two, of two buffers each.
    assert_eq!(trace.seconds(6, |streams| 50e6 * streams), [(13, 2, 36); 6]);
    // 10 GB of 175 MB/s and 30 GB of 512.5 MB/s a channel are about as much time: 2.96 and 3.04 of the 6 channels, of which two ask for 2.
    assert_eq!(trace.seconds(20, |streams| 50e6 * streams), [(6, 2, 1); 20]);
    assert!(trace.decided.reason.ends_with("tiny 2 x 1 pipelining 1, large 2 x 2 pipelining 1"), "{}", trace.decided.reason);
    let share = |exponent, streams, parallelism| SizeShare { exponent, streams, parallelism };
    assert_eq!(
        trace.decided.shares,
        [share(19, 2, 1), share(31, 4, 2)],
        "2^19 bytes are the first power below 1 MB, 2^31 below 3 GB"
    );
}

// 4 ms are 24 files of 40 kB at 240 MB/s, 30 at 300 MB/s, and 50 at 500 MB/s.
#[test]
fn without_history_the_heuristic_follows_what_the_path_is_seen_to_carry() {
    let crowded = |streams: f64| (30e6 * streams).min(300e6);
    let empty = |streams: f64| (30e6 * streams).min(500e6);
    let mut trace = Trace::begin(Harp::new(&setup(&[], 4)), files(&[(10_000, 40_000)]), 64);
    assert_eq!(trace.decided.concurrency, PerStage::all(8));
    assert_eq!(trace.seconds(6, crowded), [(24, 1, 24); 6]);
    assert_eq!(trace.seconds(1, crowded), [(30, 1, 30)]);
    let reason = "the heuristic, for want of similar transfers, changed parameters after 300.0 MB/s: tiny 30 x 1 pipelining 30";
    assert_eq!(trace.decided.reason, reason);
    assert_eq!(trace.seconds(11, empty), [(30, 1, 30); 11]);
    assert_eq!(trace.seconds(30, empty), [(50, 1, 50); 30]);
}

#[test]
fn where_little_is_left_the_heuristic_stays() {
    let history = two_loads();
    let mut listed = files(&[(10_000, MB)]);
    listed.complete = true;
    let mut trace = Trace::begin(Harp::new(&setup(&history, 40)), listed, 32);
    trace.bytes_left = Some(5900 * MB);
    // 15 s of light(16) = 400 MB/s are 6 GB.
    assert_eq!(trace.seconds(31, light), [(16, 1, 16); 31]);
    assert!(trace.decided.reason.starts_with("too little is left"), "{}", trace.decided.reason);
}

#[test]
fn what_is_little_for_a_fast_path_is_much_for_one_that_has_become_slow() {
    let history = two_loads();
    let mut listed = files(&[(10_000, MB)]);
    listed.complete = true;
    let mut trace = Trace::begin(Harp::new(&setup(&history, 40)), listed, 32);
    trace.bytes_left = Some(5900 * MB);
    assert_eq!(trace.seconds(4, light), [(16, 1, 16); 4]);
    // Now it moves 96 MB/s: 61 s are left. Two intervals of three seconds are the sample, of which the second told that it is due.
    assert_eq!(trace.seconds(5, heavy), [(16, 1, 16); 5]);
    assert_eq!(trace.seconds(1, heavy), [(9, 1, 1)]);
    assert_eq!(trace.decided.reason, "2 models changed parameters after 96.0 MB/s: tiny 9 x 1 pipelining 1");
}

// Over a local network 6 files in flight were best; over this path nothing is known but its delay.
#[test]
fn where_nothing_is_similar_the_heuristic_stays() {
    let local = Past { rtt_s: Some(0.000_2), bandwidth: Some(125e6), tcp_buffer: None, ..tiny() };
    let history = pass(&local, 0.0, |cc, _, _| 100e6 - 1e6 * (f64::from(cc) - 6.0).powi(2) / 10.0);
    let mut trace = Trace::begin(Harp::new(&setup(&history, 40)), files(&[(10_000, MB)]), 32);
    // 16 streams moved 160 MB/s at first: 6.4 files in 40 ms.
    assert_eq!(trace.seconds(19, |streams| 10e6 * streams), [(6, 1, 6); 19]);
    let reason = "the heuristic, for want of similar transfers, kept parameters after 60.0 MB/s: tiny 6 x 1 pipelining 6";
    assert_eq!(trace.decided.reason, reason);
}

#[test]
fn the_heuristic_follows_the_listing_and_the_sample_begins_when_it_has_settled() {
    let history = two_loads();
    let mut trace = Trace::begin(Harp::new(&setup(&history, 40)), files(&[(4, MB)]), 32);
    assert_eq!(trace.seconds(2, light), [(4, 1, 16); 2]);
    trace.listed = files(&[(7, MB)]);
    assert_eq!(trace.seconds(1, light), [(4, 1, 16)], "not yet twice as many");
    trace.listed = files(&[(8, MB)]);
    assert_eq!(trace.seconds(1, light), [(8, 1, 16)]);
    assert_eq!(trace.decided.reason, "more is known of the files: tiny 8 x 1 pipelining 16");
    trace.listed = files(&[(10_000, MB)]);
    assert_eq!(trace.seconds(6, light), [(16, 1, 16); 6]);
    assert_eq!(trace.seconds(1, light), [(7, 1, 1)]);
}

// Of four files four are in flight, whatever the models say; of ten thousand they say 7.
#[test]
fn without_online_tuning_an_estimate_for_a_listing_that_had_only_begun_is_made_once_more() {
    let history = two_loads();
    let mut trace = Trace::begin(Harp::once(&setup(&history, 40)), files(&[(4, MB)]), 32);
    assert_eq!(trace.seconds(6, light), [(4, 1, 16); 6]);
    assert_eq!(trace.seconds(7, light), [(4, 1, 1); 7]);
    assert!(trace.decided.reason.starts_with("tuned once"), "{}", trace.decided.reason);
    trace.listed = files(&[(10_000, MB)]);
    assert_eq!(trace.seconds(3, light), [(4, 1, 1); 3]);
    assert_eq!(trace.seconds(1, light), [(7, 1, 1)]);
    assert_eq!(trace.seconds(30, heavy), [(7, 1, 1); 30]);
}

// Like the light pass, where 32 streams moved most and 23 move 70 % of it, and unlike the heavy one, where one moved most:
// (2 * 23 + 1) / 3 = 15.7. The utility of 16 streams, 233, is three quarters of that of the heuristic's 26, 311; the guard believes in
// these for 8 intervals and then for 16, after which they have aged below it.
#[test]
fn where_the_relaxation_gives_up_too_much_the_guard_overrules_it_for_a_while_and_says_so() {
    let mut history = pass(&tiny(), 0.0, |cc, _, _| 20e6 * f64::from(cc));
    history.extend(pass(&tiny(), DAY_S, |cc, _, _| 30e6 - 0.5e6 * f64::from(cc)));
    let harp = Harp::new(&setup(&history, 40));
    let mut trace = Trace::begin(Guard::new(Box::new(harp)), files(&[(10_000, MB)]), 64);
    let mut found: Vec<(u16, bool, usize)> = Vec::new();
    for _ in 0..60 {
        let (streams, ..) = trace.second(|streams| 20e6 * streams);
        let is_overruled = trace.decided.reason.starts_with("guard: ");
        match found.last_mut().filter(|last| (last.0, last.1) == (streams, is_overruled)) {
            Some(last) => last.2 += 1,
            None => found.push((streams, is_overruled, 1)),
        }
    }
    assert_eq!(found, [(26, false, 6), (16, false, 3), (26, true, 10), (16, false, 3), (26, true, 18), (16, false, 20)]);
}

#[test]
fn files_that_are_listed_later_begin_with_the_heuristic_and_are_estimated_next() {
    let history = two_loads();
    let mut trace = Trace::begin(Harp::new(&setup(&history, 40)), Listed::default(), 32);
    assert_eq!(trace.seconds(3, light), [(16, u16::MAX, u16::MAX); 3]);
    trace.listed = files(&[(4, 3000 * MB)]);
    assert_eq!(trace.seconds(1, light), [(2, 1, 1)]);
    // By size, tiny files get 7.3 of 16 channels, and large ones their two.
    trace.listed = files(&[(10_000, MB), (4, 3000 * MB)]);
    assert_eq!(trace.seconds(1, light), [(9, 1, 16)]);
}

#[test]
fn what_cannot_be_measured_changes_nothing_and_a_lower_limit_holds_at_once() {
    let history = two_loads();
    let mut trace = Trace::begin(Harp::new(&setup(&history, 40)), files(&[(10_000, MB)]), 32);
    trace.seconds(2, light);
    assert_eq!(trace.seconds(9, |_| f64::NAN), [(16, 1, 16); 9]);
    trace.policy.limit = PerStage::all(5);
    trace.policy.pipelining = 3;
    assert_eq!(trace.seconds(1, light), [(5, 1, 3)]);
}

#[test]
fn the_same_observations_give_the_same_decisions() {
    let history = two_loads();
    let run = || {
        let mut trace = Trace::begin(Harp::new(&setup(&history, 40)), files(&[(10_000, MB), (3, 400 * MB)]), 32);
        trace.seconds(60, |streams| 1e6 * streams)
    };
    assert_eq!(run(), run());
}

#[test]
fn the_shortest_round_trip_counts() {
    let mut harp = Harp::new(&setup(&[], 600));
    let mut observation = Observation::of_a_test(Decision::uniform(8, ""), 2e8, 64);
    let mut bdp = |rtt_ms: Option<u64>| {
        observation.rtt = rtt_ms.map(Duration::from_millis);
        harp.path(&observation).bdp()
    };
    let found = [bdp(None), bdp(Some(50)), bdp(Some(90)), bdp(None)].map(|bdp| (bdp / 1e6).round());
    assert_eq!(found.as_slice(), [120.0, 10.0, 10.0, 10.0].as_slice());
}
