//! What earlier transfers over the same path tell of the first streams: where they settled. The first intervals confirm it or not, and then
//! it is forgotten, so that a wrong memory costs little.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Extent;
use crate::history::Settled;
use crate::report::{human_count, human_rate};

/// Most transfers that are gone by, the newest.
const MOST: usize = 5;

/// How far the round trip time of a path may be from that of the same path another day: by this factor, or by this many seconds.
const SAME_TRIP: (f64, f64) = (1.3, 0.002);

/// Bytes of a file, in the mean, up to which files are small: then requests and storage limit rather than the path.
const SMALL: f64 = 1_048_576.0;

/// Rates up to these factors apart are about the same: those of today and of another day, and those of two intervals.
const ABOUT: f64 = 1.5;
const CLOSE: f64 = 1.05;

/// How often a memory may be confirmed before it is forgotten.
const HELD: u8 = 3;

/// Where earlier transfers over a path settled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Memory {
    /// Their streams.
    pub(super) settled: u16,
    /// Those that it is held to: theirs, and from the first interval on that confirms it those that ran in it.
    streams: u16,
    /// Bytes per second that so many moved.
    rate: f64,
    /// How many transfers there were.
    transfers: usize,
    /// How many intervals have confirmed it.
    confirmed: u8,
}

/// What is to be thought of a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They move about what is to be expected of them.
    Right,
    /// They move much less; why, for people.
    Wrong(String),
    /// Neither.
    Open,
}

impl Memory {
    /// That of the newest transfers over a path of this round trip time, with files of this kind where they are known: the one of them in
    /// the middle by its streams. `settled` has the newest first.
    pub(crate) fn of(settled: &[Settled], rtt: Option<Duration>, work: Option<Extent>) -> Option<Self> {
        let like = |past: &&Settled| past.rate.is_finite() && past.rate > 0.0 && is_same(past, rtt) && is_alike(past, work);
        let mut newest: Vec<&Settled> = settled.iter().filter(like).take(MOST).collect();
        newest.sort_by_key(|past| past.streams);
        let middle = newest.get(newest.len() / 2)?;
        let (streams, rate) = (middle.streams, middle.rate);
        Some(Self { settled: streams, streams, rate, transfers: newest.len(), confirmed: 0 })
    }

    /// Why a transfer begins with so many streams.
    pub(super) fn reason(&self, streams: u16) -> String {
        let (begin, settled) = (human_count(u64::from(streams), "stream"), human_count(u64::from(self.settled), "stream"));
        let copies = if self.transfers == 1 { "1 earlier copy".to_owned() } else { format!("{} earlier copies", self.transfers) };
        format!("start: {begin}, as {copies} on this path settled at {settled}")
    }

    /// Whether no interval has told of it yet.
    pub(super) fn is_new(&self) -> bool {
        self.confirmed == 0
    }

    /// What is to be thought of it after so many streams have moved so many bytes per second.
    pub(super) fn judge(&self, streams: u16, rate: f64) -> Verdict {
        let expected = self.rate * (f64::from(streams) / f64::from(self.streams)).min(1.0);
        let about = if self.is_new() { ABOUT } else { CLOSE };
        match (about * rate < expected, rate < about * expected) {
            (true, _) if self.is_new() => {
                Verdict::Wrong(format!("{} of about {} that earlier copies had", human_rate(rate), human_rate(expected)))
            }
            (false, true) if self.confirmed < HELD => Verdict::Right,
            _ => Verdict::Open,
        }
    }

    /// The same after so many streams have moved what was expected of them: from the first time on it is held to what was measured then.
    pub(super) fn confirmed(self, streams: u16, rate: f64) -> Self {
        let (streams, rate) = if self.is_new() { (streams, rate) } else { (self.streams, self.rate) };
        Self { streams, rate, confirmed: self.confirmed + 1, ..self }
    }

    /// As many streams as settled or as confirmed it, or not much fewer or more: so few less that what they move less is no surprise.
    pub(super) fn near(&self) -> RangeInclusive<u16> {
        let (least, most) = (self.settled.min(self.streams), self.settled.max(self.streams));
        least - least / 10..=most.saturating_add(most.div_ceil(3))
    }
}

/// Whether the round trip times are those of one path, as far as they are known.
fn is_same(past: &Settled, rtt: Option<Duration>) -> bool {
    let (Some(then), Some(now)) = (past.rtt_s, rtt) else { return past.rtt_s.is_none() && rtt.is_none() };
    let now = now.as_secs_f64();
    (then - now).abs() <= SAME_TRIP.1 || (then <= SAME_TRIP.0 * now && now <= SAME_TRIP.0 * then)
}

/// Whether the files were small where these are small.
fn is_alike(past: &Settled, work: Option<Extent>) -> bool {
    // Of directories and links too: those of the past are not told apart from files everywhere.
    let mean_size = |work: Extent| work.bytes as f64 / work.items.max(1) as f64;
    work.is_none_or(|work| (past.mean_size <= SMALL) == (mean_size(work) <= SMALL))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    fn settled(streams: u16, rate: f64) -> Settled {
        Settled { rtt_s: Some(0.05), mean_size: 1e9, streams, rate }
    }

    #[test]
    fn the_newest_over_the_same_path_with_the_same_kind_of_files_are_gone_by() {
        let mut past: Vec<_> = [12, 30, 11, 2, 13, 1].map(|streams| settled(streams, 1e7 * f64::from(streams))).to_vec();
        past.insert(0, Settled { rtt_s: Some(0.2), ..settled(60, 1e9) });
        past.insert(0, Settled { rtt_s: None, ..settled(61, 1e9) });
        past.insert(0, settled(62, 0.0));
        past.insert(0, Settled { mean_size: 1e4, ..settled(63, 1e9) });
        let work = |bytes| Some(Extent { items: 100, bytes, complete: false });
        let memory = |work| Memory::of(&past, Some(Duration::from_millis(45)), work).unwrap();
        let of_newest = Memory { settled: 12, streams: 12, rate: 12e7, transfers: 5, confirmed: 0 };
        assert_eq!(memory(work(1 << 40)), of_newest);
        assert_eq!(memory(work(1 << 20)), Memory { settled: 63, streams: 63, rate: 1e9, transfers: 1, confirmed: 0 });
        assert_eq!(memory(None), of_newest);
        assert_eq!(Memory::of(&past, None, None).unwrap().streams, 61);
        assert_eq!(Memory::of(&past, Some(Duration::from_millis(400)), None), None);
        assert_eq!(memory(None).reason(8), "start: 8 streams, as 5 earlier copies on this path settled at 12 streams");
        assert_eq!(memory(work(1)).reason(1), "start: 1 stream, as 1 earlier copy on this path settled at 63 streams");
    }

    #[test]
    fn much_less_than_was_moved_contradicts_it_and_fewer_streams_owe_less() {
        let memory = Memory::of(&[settled(20, 200e6)], Some(RTT), None).unwrap();
        let wrong = |streams, rate| matches!(memory.judge(streams, rate), Verdict::Wrong(_));
        assert!(!wrong(20, 140e6) && wrong(20, 130e6) && !wrong(40, 140e6) && wrong(40, 130e6));
        assert!(!wrong(10, 70e6) && wrong(10, 60e6) && !wrong(20, 2e9) && wrong(20, 0.0));
        let why = "400 Mbit/s of about 800 Mbit/s that earlier copies had".to_owned();
        assert_eq!(memory.judge(10, 50e6), Verdict::Wrong(why));
        let right = |streams, rate| memory.judge(streams, rate) == Verdict::Right;
        assert!(right(20, 140e6) && right(20, 290e6) && !right(20, 310e6) && right(10, 90e6) && right(40, 200e6));
    }

    #[test]
    fn what_was_confirmed_is_held_to_closely_and_not_for_long() {
        let memory = Memory::of(&[settled(20, 200e6)], Some(RTT), None).unwrap();
        let mut memory = memory.confirmed(12, 150e6);
        assert_eq!(memory.near(), 11..=27);
        for (streams, rate, verdict) in [
            (16, 155e6, Verdict::Right),
            (16, 180e6, Verdict::Open),
            (16, 120e6, Verdict::Open),
            (6, 75e6, Verdict::Right),
            (6, 150e6, Verdict::Open),
        ] {
            assert_eq!(memory.judge(streams, rate), verdict, "{streams} {rate}");
        }
        for _ in 1..HELD {
            assert_eq!(memory.judge(12, 150e6), Verdict::Right);
            memory = memory.confirmed(9, 112e6);
        }
        assert_eq!((memory.streams, memory.judge(12, 150e6)), (12, Verdict::Open));
    }
}
