//! Tests of pacing alone: streams that lose what they send beyond what gets through.

use super::*;

mod alone;
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
fn fewer_streams_that_share_a_rate_are_sent_faster() {
    for all in [4e6, 4.4e6] {
        let mut path = Path::new(1e9, all);
        path.send(4, 8);
        path.send(4, 8);
        for (streams, next) in [(8, 4), (4, 2), (2, 1)] {
            path.send(streams, next);
        }
        assert!(is_just_below(path.each(), all), "{}", path.each());
        assert_eq!(path.send(1, 2).0, Found::Usual);
    }
}

/// Paced streams that share one rate, which twice as many have shown.
fn sharing() -> Path {
    let mut path = Path::new(1e9, 4e6);
    path.send(4, 8);
    path.send(4, 8);
    path.send(8, 4);
    path.send(4, 5);
    assert_eq!(path.pacing.enough(), None, "it is not known yet what four lose");
    path.send(4, 5);
    path
}

#[test]
fn where_all_share_one_rate_half_of_them_are_tried_until_one_carries_it() {
    let mut path = sharing();
    for fewer in [2, 1] {
        assert_eq!(path.pacing.enough(), Some(fewer));
        path.send(2 * fewer, fewer);
        path.send(fewer, fewer + 1);
        path.send(fewer, fewer + 1);
    }
    assert_eq!(path.pacing.enough(), None);
    assert!(is_just_below(path.each(), 4e6), "{}", path.each());
}

#[test]
fn half_of_them_are_tried_once_and_judged_when_they_become_no_faster() {
    let (mut path, mut slow) = (sharing(), sharing());
    let before = path.each();
    let carry = |path: &mut Path, streams: u16, each: f64, next: u16| {
        let (rate, pacing) = (each * f64::from(streams), path.pacing.rate());
        let found = path.pacing.observe(&Sent { streams, rate, loss: Some(0.0), pacing, time: 1.0, ..Sent::default() });
        (found, path.pacing.decide(next, false))
    };
    for path in [&mut path, &mut slow] {
        carry(path, 4, before, 2);
        assert_eq!(carry(path, 2, 1.2 * before, 2), (Found::Usual, None), "they become faster");
    }
    assert_eq!(carry(&mut path, 2, 1.2 * before, 3).0, Found::OwnRate);
    assert!(is_just_below(path.each(), 1.01 * before));
    // Somebody wants more before that is known.
    carry(&mut slow, 2, 1.3 * before, 4);
    assert!(is_just_below(slow.each(), 1.01 * before));
    for path in [&mut path, &mut slow] {
        for _ in 0..3 {
            carry(path, 4, path.each(), 5);
        }
        assert_eq!(path.pacing.enough(), None);
    }
}

#[test]
fn what_those_that_left_had_put_into_queues_is_not_held_against_the_others() {
    let (mut right, mut wrong) = (sharing(), sharing());
    for (path, lost) in [(&mut right, 0.0), (&mut wrong, 0.1)] {
        let before = path.each();
        path.send(4, 2);
        let carry = |path: &mut Path, loss: f64| {
            let (rate, pacing) = (2.0 * path.each(), path.pacing.rate());
            let found = path.pacing.observe(&Sent { streams: 2, rate, loss: Some(loss), pacing, time: 1.0, ..Sent::default() });
            path.pacing.decide(2, false);
            found
        };
        assert_eq!(carry(path, 0.1), Found::Nothing);
        assert!(path.each() > 1.9 * before);
        let found = carry(path, lost);
        assert_eq!(found, if lost > 0.0 { Found::OwnRate } else { Found::Usual });
        assert_eq!(path.each() > 1.9 * before, lost == 0.0);
    }
}

#[test]
fn half_of_them_are_not_tried_where_some_is_lost_or_each_may_have_its_own() {
    let mut path = sharing();
    path.all = 3.5e6;
    path.send(4, 5);
    assert_eq!(path.pacing.enough(), None);
    let mut path = Path::new(1e6, 5e6);
    path.send(4, 5);
    path.send(4, 5);
    // Rates of their own that just fill the path.
    for _ in 0..4 {
        path.send(5, 5);
    }
    assert_eq!(path.pacing.enough(), None);
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
fn fewer_streams_that_never_were_leave_the_rate_as_it_was() {
    let mut path = Path::new(1e9, 4e6);
    path.send(4, 8);
    path.send(4, 8);
    path.send(8, 3);
    path.send(5, 4);
    path.send(4, 2);
    assert!(is_just_below(path.each(), 2e6), "{}", path.each());
}

#[test]
fn fewer_streams_that_carry_no_more_each_go_back_to_the_rate_of_before() {
    let mut path = Path::new(1e6, 5e6);
    path.send(5, 5);
    path.send(5, 4);
    assert!(path.each() > 1.1e6);
    path.send(4, 5);
    assert!(is_just_below(path.each(), 1e6), "{}", path.each());
    path.send(5, 4);
    assert!(is_just_below(path.each(), 1e6), "{}", path.each());
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
    let mut pacing = Pacing::default();
    // The first trial is kept by chance: half as much is lost in its interval.
    for (second, lost) in [0.05, 0.05, 0.02].into_iter().chain([0.02; 300]).enumerate() {
        let each = pacing.rate().map_or(1e6, |rate| 1e6_f64.min(rate as f64));
        let (pacing_before, loss) = (pacing.rate(), Some(lost));
        pacing.observe(&Sent { streams: 4, rate: 4.0 * each, loss, pacing: pacing_before, time: 1.0, ..Sent::default() });
        pacing.decide(4, false);
        assert!(each > 0.8e6, "{second}: {each}");
    }
    assert_eq!(pacing.rate(), None);
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
