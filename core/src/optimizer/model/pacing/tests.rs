//! Tests of pacing alone: streams that lose what they send beyond what gets through.

use std::time::Duration;

use super::*;

mod alone;
mod fewer;
mod full;
mod look;
mod trial;

/// A path whose streams lose what they send beyond their own rate, or that of all.
struct Path {
    pacing: Pacing,
    own: f64,
    all: f64,
}

impl Path {
    fn new(own: f64, all: f64) -> Self {
        Self { pacing: Pacing::default(), own, all }
    }

    /// Sends for a second and decides; streams without pacing lose a tenth.
    fn send(&mut self, streams: u16, next: u16) -> (Found, Option<&'static str>) {
        let fair = self.own.min(self.all / f64::from(streams));
        let wanted = self.pacing.rate().map_or(1.1 * fair, |rate| rate as f64);
        let (each, lost) = (wanted.min(fair), (1.0 - fair / wanted).max(0.0));
        let (rate, pacing) = (each * f64::from(streams), self.pacing.rate());
        let found = self.pacing.observe(&Sent { streams, rate, loss: Some(lost), pacing, time: 1.0, ..Sent::default() });
        (found, self.pacing.decide(next, false))
    }

    /// Four streams carry so much each for a second, and lose this part.
    fn carry(&mut self, each: f64, lost: f64) -> Found {
        self.pacing.observe(&Sent {
            streams: 4,
            rate: 4.0 * each,
            loss: Some(lost),
            pacing: self.pacing.rate(),
            time: 1.0,
            ..Sent::default()
        })
    }

    /// So many seconds of four streams; answers how many trials there were.
    fn pass(&mut self, seconds: usize) -> usize {
        (0..seconds).filter(|_| self.send(4, 4).1.is_some()).count()
    }

    fn each(&self) -> f64 {
        self.pacing.rate().map_or(0.0, |rate| rate as f64)
    }
}

/// Whether a rate is near another one, and hardly above it.
fn is_just_below(rate: f64, most: f64) -> bool {
    rate <= 1.01 * most && rate > 0.93 * most
}

#[test]
fn streams_that_lose_much_are_sent_as_fast_as_they_get_through() {
    let mut path = Path::new(1e6, 1e9);
    assert!(path.send(4, 8).1.is_some());
    assert_eq!(path.send(4, 8), (Found::Calm, None));
    assert!(is_just_below(path.each(), 1e6), "{}", path.each());
    // New ones too.
    path.send(8, 16);
    path.send(16, 3);
    assert!(is_just_below(path.each(), 1e6), "each has a rate of its own: {}", path.each());
}

#[test]
fn streams_that_carry_less_than_their_rate_while_a_queue_grows_have_filled_the_path() {
    for (each, queued, told) in [(0.85e6, true, Paced::Crowded), (0.85e6, false, Paced::Told), (0.95e6, true, Paced::Told)] {
        let mut pacing = calm();
        carry(&mut pacing, 5, 1.0, 0.0);
        let pace = pacing.rate();
        pacing.observe(&Sent {
            streams: 6,
            rate: 6.0 * each,
            loss: Some(0.0),
            pacing: pace,
            time: 1.0,
            queued,
            ..Sent::default()
        });
        assert_eq!(pacing.told(), told, "{each} {queued}");
    }
}

/// Four streams that are paced at 1 MB/s and lose nothing.
fn calm() -> Pacing {
    let mut path = Path::new(1e6, 1e9);
    path.send(4, 8);
    assert_eq!(path.send(4, 8), (Found::Calm, None));
    path.pacing
}

/// So many streams each carry this part of their pacing.
fn carry(pacing: &mut Pacing, streams: u16, part: f64, lost: f64) -> Paced {
    let rate = part * f64::from(streams) * pacing.rate().unwrap_or(0) as f64;
    pacing.observe(&Sent { streams, rate, loss: Some(lost), pacing: pacing.rate(), time: 1.0, ..Sent::default() });
    pacing.told()
}

#[test]
fn a_few_more_streams_tell_that_each_has_a_rate_of_its_own_sooner_where_nothing_is_lost() {
    for (part, lost, told) in
        [(0.95, 0.05, Paced::Told), (0.9, 0.0, Paced::Told), (0.9, 0.05, Paced::Untold), (0.8, 0.0, Paced::Untold)]
    {
        let mut pacing = calm();
        assert_eq!(pacing.told(), Paced::Untold);
        assert_eq!(carry(&mut pacing, 5, part, lost), told, "{part} {lost}");
    }
    assert_eq!(Pacing::default().told(), Paced::No);
}

#[test]
fn what_a_few_more_streams_tell_is_taken_back_by_many_more_unless_these_were_seen_to_have_it() {
    let mut pacing = calm();
    carry(&mut pacing, 5, 1.0, 0.0);
    carry(&mut pacing, 8, 0.6, 0.3);
    assert!(pacing.rates.shared && !pacing.rates.own);
    assert_eq!(pacing.rates.fewest, 5, "which carry together what all share");
    let mut proven = calm();
    carry(&mut proven, 8, 1.0, 0.0);
    carry(&mut proven, 16, 0.5, 0.3);
    assert!(proven.rates.shared && proven.rates.own);
}

#[test]
fn streams_that_lose_twice_are_sent_slower_also_where_there_are_more_of_them() {
    let mut pacing = calm();
    carry(&mut pacing, 4, 0.95, 0.0);
    let before = pacing.rate();
    carry(&mut pacing, 5, 0.95, 0.03);
    assert_eq!(pacing.rate(), before, "new ones lose some");
    carry(&mut pacing, 7, 0.95, 0.03);
    assert!(pacing.rate() < before);
}

#[test]
fn where_the_rate_falls_to_half_the_next_trial_begins_there() {
    let mut path = Path::new(1e6, 1e9);
    path.pass(3);
    path.own = 5e5;
    path.pass(4);
    assert!(is_just_below(path.each(), 5e5), "{}", path.each());
}

#[test]
fn a_rate_above_what_each_has_is_left_soon() {
    let mut path = Path::new(1e6, 1e9);
    let sent = Sent { streams: 4, rate: 4e6, loss: Some(0.1), pacing: Some(1_150_000), time: 1.0, ..Sent::default() };
    path.pacing.observe(&sent);
    for _ in 0..8 {
        path.send(8, 8);
    }
    assert!(is_just_below(path.each(), 1e6), "{}", path.each());
}

#[test]
fn a_few_more_streams_wait_for_a_higher_rate_unless_each_has_its_own() {
    let mut path = Path::new(1e6, 1e9);
    path.send(8, 8);
    assert!(path.send(8, 9).1.is_some());
    let mut path = Path::new(1e6, 1e9);
    path.send(8, 8);
    path.send(8, 16);
    path.send(16, 16);
    path.pass(1);
    assert!(path.pacing.rates.own && path.send(16, 18).1.is_none());
}

#[test]
fn a_higher_rate_is_found_and_one_that_loses_is_left_again() {
    let mut path = Path::new(1e6, 1e9);
    path.pass(3);
    let vain = path.pass(60);
    assert!(is_just_below(path.each(), 1e6) && (2..8).contains(&vain), "{vain}: {}", path.each());
    path.own = 5e6;
    path.pass(45);
    assert!(is_just_below(path.each(), 5e6), "{}", path.each());
    path.own = 2e6;
    path.pass(40);
    assert!(path.each() < 2.2e6, "{}", path.each());
}

#[test]
fn where_pacing_loses_as_much_it_is_left_and_tried_ever_less_often() {
    let mut pacing = Pacing::default();
    let mut trials = Vec::new();
    for second in 0..120 {
        let found = pacing.observe(&Sent {
            streams: 4,
            rate: 4e6,
            loss: Some(0.03),
            pacing: pacing.rate(),
            time: 1.0,
            ..Sent::default()
        });
        assert_eq!(found == Found::Nothing, trials.last().is_some_and(|last| last + 1 == second));
        if pacing.decide(4, false).is_some() {
            trials.push(second);
        }
    }
    assert_eq!(trials, [1, 6, 15, 32, 65]);
}

#[test]
fn what_is_lost_whatever_the_rate_never_makes_it_ever_lower() {
    for even in [false, true] {
        let mut pacing = Pacing::default();
        // The first trial is kept by chance: half as much is lost in its interval.
        for (second, lost) in [0.05, 0.05, 0.02].into_iter().chain([0.02; 300]).enumerate() {
            let each = pacing.rate().map_or(1e6, |rate| 1e6_f64.min(rate as f64));
            let (now, loss) = (pacing.rate(), Some(lost));
            pacing.observe(&Sent { streams: 4, rate: 4.0 * each, loss, pacing: now, time: 1.0, even, ..Sent::default() });
            pacing.decide(4, false);
            assert!(each > 0.8e6, "{second}: {each}");
        }
        assert_eq!(pacing.rate(), None);
    }
}

#[test]
fn equal_streams_that_never_cease_to_lose_are_sent_more_slowly() {
    let lowered = |even| {
        let mut pacing = Pacing { state: State::Paced { rate: 1.08e6 }, ..Pacing::default() };
        for _ in 0..4 {
            let (rate, now) = (pacing.rate().map_or(0.0, |rate| rate as f64), pacing.rate());
            let lost = Some((1.0 - 1e6 / rate).max(0.0));
            pacing.observe(&Sent { streams: 4, rate: 4e6, loss: lost, pacing: now, time: 1.0, even, ..Sent::default() });
        }
        pacing.rate()
    };
    assert!(lowered(true) < Some(1_000_000) && lowered(false) > Some(1_000_000), "{:?} {:?}", lowered(true), lowered(false));
}

#[test]
fn what_came_of_a_trial_is_no_second_loss() {
    let mut pacing = Pacing { state: State::Raising { rate: 1.05e6, from: 1e6 }, ..Pacing::default() };
    for lost in [0.03, 0.012] {
        let now = pacing.rate();
        pacing.observe(&Sent { streams: 4, rate: 4e6, loss: Some(lost), pacing: now, time: 1.0, even: true, ..Sent::default() });
    }
    assert_eq!(pacing.rate(), Some(1_000_000));
}

#[test]
fn streams_that_carry_a_little_less_than_they_may_are_sent_faster_too() {
    let mut path = Path::new(1e6, 1e9);
    path.pass(3);
    path.own = 3e6;
    for _ in 0..60 {
        let rate = path.each();
        let carried = 0.95 * rate.min(path.own);
        let (lost, pacing) = ((1.0 - path.own / rate).max(0.0), path.pacing.rate());
        path.pacing.observe(&Sent { streams: 4, rate: 4.0 * carried, loss: Some(lost), pacing, time: 1.0, ..Sent::default() });
        path.pacing.decide(4, false);
    }
    assert!(is_just_below(path.each(), 3e6), "{}", path.each());
}

#[test]
fn trials_end_where_all_streams_are_new() {
    let mut path = Path::new(1e6, 1e9);
    path.send(4, 4);
    path.pacing.begin_again();
    assert_eq!(path.pacing.rate(), None);
    path.send(4, 4);
    let before = path.each();
    path.send(4, 4);
    assert!(path.each() > before, "a higher rate is tried");
    path.pacing.begin_again();
    assert!((path.each() - before).abs() < 1.0);
}

#[test]
fn what_others_decide_holds_and_nothing_is_tried_where_little_is_lost_or_nothing_known() {
    let mut path = Path::new(1e6, 1e9);
    path.send(4, 4);
    path.send(4, 4);
    path.pacing.observe(&Sent { streams: 4, rate: 4e6, loss: Some(0.0), pacing: None, time: 1.0, ..Sent::default() });
    assert_eq!(path.pacing.rate(), None);
    path.pacing.observe(&Sent { streams: 4, rate: 4e6, loss: Some(0.0), pacing: Some(777_777), time: 1.0, ..Sent::default() });
    assert_eq!(path.pacing.rate(), Some(777_777));
    for loss in [None, Some(0.005), Some(f64::NAN)] {
        let mut pacing = Pacing::default();
        for _ in 0..10 {
            pacing.observe(&Sent { streams: 4, rate: 4e6, loss, pacing: None, time: 1.0, ..Sent::default() });
            assert_eq!((pacing.decide(4, false), pacing.rate()), (None, None));
        }
    }
}

/// Four streams that somebody else paced.
fn paced() -> Path {
    let mut path = Path::new(1e6, 1e9);
    let sent = Sent { streams: 4, rate: 4e6, loss: Some(0.0), pacing: Some(1_000_000), time: 1.0, ..Sent::default() };
    path.pacing.observe(&sent);
    path
}

#[test]
fn a_higher_rate_that_fills_a_queue_is_left_again_unless_one_was_there_before() {
    let raised = |queued: [bool; 2]| {
        let mut path = paced();
        let carry = |path: &mut Path, queued: bool| {
            let pacing = path.pacing.rate();
            let rate = 4.0 * path.each();
            path.pacing.observe(&Sent { streams: 4, rate, loss: Some(0.0), pacing, time: 1.0, queued, ..Sent::default() });
            path.pacing.decide(4, false)
        };
        let each = path.each();
        let tried = (0..60).any(|_| carry(&mut path, queued[0]).is_some());
        carry(&mut path, queued[1]);
        tried && path.each() > 1.02 * each
    };
    assert_eq!([[false, false], [false, true], [true, true]].map(raised), [true, false, true]);
}

#[test]
fn a_higher_rate_that_loses_what_it_brings_is_left_again() {
    let raised = |lost: [f64; 2]| {
        let mut path = paced();
        let each = path.each();
        let carry = |path: &mut Path, lost: f64| {
            path.carry(path.each(), lost);
            path.pacing.decide(4, false)
        };
        let tried = (0..60).any(|_| carry(&mut path, lost[0]).is_some());
        carry(&mut path, lost[1]);
        tried && path.each() > 1.02 * each
    };
    assert_eq!([[0.0, 0.0], [0.0, 0.006], [0.006, 0.006]].map(raised), [true, false, true]);
}
