//! The first decision: how many streams before anything was measured, by the round trip time and by what there is to do.
//!
//! TCP sends ten segments in the first round trip and twice as many in each further one [RFC 6928; RFC 5681 §3.1]: after `k` round trips
//! `n` streams have sent `n * 10 * (2^k - 1)` segments. So twice the streams save one round trip, whatever the path carries: a good part of
//! a transfer that takes twenty, nothing of one that takes thousands. And little work is through before a second connection is of use.
//! From the first observation on the number is the optimizer's, but for the fewest where workers make requests and little is left.

use std::time::Duration;

use super::setting::whole;

/// The round trip times from which a path counts as long, and as very long. What `auto` begins with is soon measured over a short path, and
/// too many streams lose much there; who makes requests waits for each.
const LONG_TRIPS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];
const LONG_TRIPS_AUTO: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(100)];

/// What is usual over a path that is not short where streams are sent by BBR: there one goes far, and many that look for its rate at once lose
/// most of what they send.
const BY_BBR: u16 = 1;

/// Bytes and items up to which one stream carries all: so much is often under way at once, and every further connection costs both ends.
const ALONE: (u64, u64) = (4 << 20, 32);

/// Bytes, or items, that each of several streams has at least: the pieces at the end of the work are no smaller, and packs not much.
const SHARE: (u64, u64) = (1 << 20, 64);

/// Most streams that a short transfer of many files begins with, and items that each of them has.
const MOST: u16 = 48;
const MANY: u64 = 8;

/// Bytes of the first window of a stream: ten segments of an Ethernet frame [RFC 6928].
pub(super) const FIRST_WINDOW: f64 = 14_480.0;

/// How many times fewer and more than usual there may be where earlier transfers settled at so many: few may have been the share that others
/// of the host had left, and are slow to grow.
const BOUNDS: (u16, u16) = (2, 4);

/// Bytes per second that a long path is taken to carry: the first windows of all streams together are no more than it has under way.
const LEAST_RATE: f64 = 12.5e6;

/// Bytes per second of a slow path: a quarter of that, for slow start has doubled the first windows twice before it is seen to fill the path.
/// And segments of a first window [RFC 6928].
const SLOW_RATE: f64 = LEAST_RATE / 4.0;
const SEGMENTS: f64 = 10.0;

/// What is known of the work before a transfer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Files, directories and links.
    pub items: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Whether this is all, or there is more.
    pub complete: bool,
}

impl Extent {
    /// Bytes up to which a transfer is short: on a fast path it takes seconds, of which the beginning is a part.
    pub const SHORT: u64 = 1 << 30;

    /// One file.
    pub fn of_file(bytes: u64) -> Self {
        Self { items: 1, bytes, complete: true }
    }

    /// The most streams for a short transfer of many files; 0 for any other: few files take long to send whatever the beginning was.
    fn hastened(&self) -> u16 {
        let short = self.complete && self.bytes <= Self::SHORT;
        if short { u16::try_from(self.items / MANY).unwrap_or(u16::MAX).min(MOST) } else { 0 }
    }

    /// The most streams that have anything to do.
    fn enough(&self) -> u16 {
        if !self.complete {
            return u16::MAX;
        }
        if self.bytes <= ALONE.0 && self.items <= ALONE.1 {
            return 1;
        }
        let streams = self.bytes.div_ceil(SHARE.0).max(self.items.div_ceil(SHARE.1));
        u16::try_from(streams).unwrap_or(u16::MAX)
    }
}

/// Streams that have just begun to send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beginning {
    /// How many there are.
    pub streams: u16,
    /// Retransmitted share of the segments sent, 0 to 1.
    pub loss: f64,
    /// Bytes per second that all of them get through at present, as the system tells.
    pub rate: f64,
    /// Whether it is not what they lose that calls for a limit, but a queue that a single one fills.
    pub fills: bool,
}

/// Streams that a transfer begins with, by the round trip time of the path and by the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstStreams {
    /// Over a short, a long and a very long path, and from which round trip times on a path is that.
    usual: [u16; 3],
    long: [Duration; 2],
    most: u16,
    /// Whether fewer are usual where they are sent by BBR, or begin with large segments, and the bytes of one, where that is known.
    careful: bool,
    segment: Option<u32>,
    /// Whether they are sent by BBR.
    by_bbr: bool,
    /// Whether a worker makes requests, and waits for the answers.
    requests: bool,
    pub(super) work: Option<Extent>,
    haste: Haste,
}

/// Whether a short transfer may begin with more streams than usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// It may.
    Allowed,
    /// Not one that stays behind others, nor one that may have less to send than there is.
    Never,
}

/// The streams for the work, beside the usual ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Usual,
    Fewer(u16),
    More(u16),
}

impl FirstStreams {
    /// What `auto` begins around: over a short path one stream goes far; the longer the path, the slower streams are to grow and to
    /// recover from a loss, they are often held to a share of it, and the way up from few takes longer than many a transfer.
    pub const AUTO: Self = Self { long: LONG_TRIPS_AUTO, careful: true, ..Self::by_trip([4, 8, 12]) };

    /// The same where a worker makes requests and waits a round trip for each answer, as with object stores.
    pub const AUTO_REQUESTS: Self = Self { requests: true, ..Self::by_trip([8, 32, 48]) };

    /// The same over every path.
    pub const fn always(streams: u16) -> Self {
        Self::by_trip([streams; 3])
    }

    /// Over a path of less than 5 ms, of less than 100 ms, and of more.
    pub(super) const fn by_trip(usual: [u16; 3]) -> Self {
        Self {
            usual,
            long: LONG_TRIPS,
            most: u16::MAX,
            careful: false,
            segment: None,
            by_bbr: false,
            requests: false,
            work: None,
            haste: Haste::Never,
        }
    }

    /// No more than so many.
    #[must_use]
    pub fn at_most(self, streams: u16) -> Self {
        Self { most: self.most.min(streams), ..self }
    }

    /// Fitted to the congestion control: whether the sending system's is BBR.
    #[must_use]
    pub fn sent_by(self, bbr: bool) -> Self {
        let [short, ..] = self.usual;
        let fitted = Self { by_bbr: bbr, ..self };
        if bbr && self.careful { Self { usual: [short, BY_BBR, BY_BBR], long: LONG_TRIPS, ..fitted } } else { fitted }
    }

    /// Fitted to the bytes of a segment, where the system tells: over a long path no more than usual over a short one unless their first windows
    /// take a part of what a slow path has under way, which slow start soon multiplies.
    #[must_use]
    pub fn in_segments(self, bytes: Option<u32>) -> Self {
        Self { segment: bytes, ..self }
    }

    /// Fitted to the work as far as it is known: no more than have something to do, and more than usual where a short transfer of many
    /// files over a long path would spend much of its time growing, if it may.
    #[must_use]
    pub fn for_work(self, work: Option<Extent>, haste: Haste) -> Self {
        Self { work, haste, ..self }
    }

    /// As many as usual as earlier transfers over this path settled at, as far as that is not far from usual.
    pub(super) fn near(self, settled: u16, rtt: Duration) -> Self {
        let usual = self.usual(rtt);
        Self { usual: [settled.clamp(usual.div_ceil(BOUNDS.0), usual.saturating_mul(BOUNDS.1)); 3], ..self }
    }

    /// The fewest that go on while little work is left. Whether still fewer would do is known after seconds in which too few wait for
    /// answers, and only a longer transfer gains those back.
    pub(super) fn least(self, rtt: Duration) -> u16 {
        if self.requests { self.usual(rtt).div_ceil(2) } else { 1 }
    }

    /// Whether they are sent by BBR.
    pub(super) fn are_by_bbr(self) -> bool {
        self.by_bbr
    }

    /// How many over a path of this round trip time.
    pub fn over(self, rtt: Duration) -> u16 {
        match self.wanted(rtt) {
            Wanted::Usual => self.usual(rtt),
            Wanted::Fewer(streams) | Wanted::More(streams) => streams,
        }
    }

    pub(super) fn usual(self, rtt: Duration) -> u16 {
        let usual = self.usual[self.long.iter().filter(|trip| rtt >= **trip).count()].min(self.most);
        match self.segment {
            Some(segment) if self.careful => usual.min(filling(rtt, SLOW_RATE, SEGMENTS * f64::from(segment)).max(self.usual[0])),
            _ => usual,
        }
    }

    pub(super) fn wanted(self, rtt: Duration) -> Wanted {
        let usual = self.usual(rtt);
        let Some(work) = self.work else { return Wanted::Usual };
        let hastened = if self.haste == Haste::Allowed {
            work.hastened().min(filling(rtt, LEAST_RATE, FIRST_WINDOW)).min(self.most)
        } else {
            0
        };
        match usual.max(hastened).min(work.enough()) {
            streams if streams < usual => Wanted::Fewer(streams),
            streams if streams > usual => Wanted::More(streams),
            _ => Wanted::Usual,
        }
    }
}

/// Streams whose first windows are what a path of so many bytes per second has under way.
fn filling(rtt: Duration, rate: f64, window: f64) -> u16 {
    whole((rate * rtt.as_secs_f64() / window.max(1.0)).floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(67);

    fn work(items: u64, bytes: u64) -> Extent {
        Extent { items, bytes, complete: true }
    }

    fn streams(work: Extent, rtt_ms: u64) -> u16 {
        FirstStreams::AUTO.at_most(64).for_work(Some(work), Haste::Allowed).over(Duration::from_millis(rtt_ms))
    }

    #[test]
    fn the_usual_number_grows_with_the_round_trip_time() {
        let over = |rtt_ms| FirstStreams::AUTO.over(Duration::from_millis(rtt_ms));
        assert_eq!([0, 49, 50, 99, 100, 300].map(over), [4, 4, 8, 8, 12, 12]);
        assert_eq!([4, 5].map(|rtt_ms| FirstStreams::AUTO_REQUESTS.over(Duration::from_millis(rtt_ms))), [8, 32]);
        let requests = FirstStreams::AUTO_REQUESTS.at_most(40);
        assert_eq!((requests.over(Duration::from_secs(1)), requests.least(Duration::from_secs(1))), (40, 20));
        assert_eq!([FirstStreams::AUTO, FirstStreams::AUTO_REQUESTS].map(|first| first.least(LONG)), [1, 16]);
        assert_eq!(FirstStreams::always(0).over(LONG), 0);
    }

    #[test]
    fn under_bbr_one_stream_is_usual_over_paths_that_are_not_short_where_the_number_is_not_asked_for() {
        let over = |first: FirstStreams, rtt_ms| first.sent_by(true).over(Duration::from_millis(rtt_ms));
        assert_eq!([0, 4, 5, 67, 200].map(|rtt_ms| over(FirstStreams::AUTO, rtt_ms)), [4, 4, 1, 1, 1]);
        assert_eq!([FirstStreams::always(8), FirstStreams::AUTO_REQUESTS].map(|first| over(first, 67)), [8, 32]);
        assert_eq!([1, 32].map(|settled| FirstStreams::AUTO.sent_by(true).near(settled, LONG).over(LONG)), [1, 4]);
        let many = FirstStreams::AUTO.for_work(Some(work(863, 500_000_000)), Haste::Allowed);
        assert_eq!(over(many, 67), 48);
    }

    #[test]
    fn large_segments_make_no_more_than_usual_over_a_short_path_what_is_soon_too_much_for_a_slow_one() {
        let over = |first: FirstStreams, rtt_ms, segment| first.in_segments(segment).over(Duration::from_millis(rtt_ms));
        assert_eq!([20, 67, 80, 200].map(|rtt_ms| over(FirstStreams::AUTO, rtt_ms, Some(1448))), [4, 8, 8, 12]);
        assert_eq!([0, 20, 80, 120, 200, 900].map(|rtt_ms| over(FirstStreams::AUTO, rtt_ms, Some(8948))), [4, 4, 4, 4, 6, 12]);
        assert_eq!([FirstStreams::always(8), FirstStreams::AUTO_REQUESTS].map(|first| over(first, 67, Some(8948))), [8, 32]);
        assert_eq!(over(FirstStreams::AUTO.sent_by(true), 200, Some(8948)), 1);
        assert_eq!(over(FirstStreams::AUTO.in_segments(Some(8948)).near(30, LONG), 67, Some(8948)), 16);
    }

    #[test]
    fn what_earlier_transfers_settled_at_is_usual_within_bounds_and_little_work_has_no_more() {
        let first = FirstStreams::AUTO.at_most(40);
        let near = |settled, rtt_ms| {
            let rtt = Duration::from_millis(rtt_ms);
            first.near(settled, rtt).over(rtt)
        };
        assert_eq!([1, 2, 12, 32, 100].map(|settled| near(settled, 67)), [4, 4, 12, 32, 32]);
        assert_eq!([near(1, 0), near(100, 0), near(100, 100)], [2, 16, 40]);
        let little = first.for_work(Some(work(1, 5 << 20)), Haste::Allowed).near(12, LONG);
        let many = first.for_work(Some(work(863, 500_000_000)), Haste::Allowed).near(12, LONG);
        assert_eq!([little.over(LONG), many.over(LONG)], [5, 40]);
    }

    #[test]
    fn little_work_has_one_stream_whatever_the_path() {
        for rtt_ms in [0, 20, 67, 300] {
            assert_eq!(streams(work(1, 0), rtt_ms), 1);
            assert_eq!(streams(work(1, 4 << 20), rtt_ms), 1);
            assert_eq!(streams(work(32, 3 << 20), rtt_ms), 1);
        }
    }

    #[test]
    fn no_more_streams_than_have_something_to_do() {
        assert_eq!(streams(work(1, 5 << 20), 67), 5);
        assert_eq!(streams(work(3, 7 << 20), 67), 7);
        assert_eq!(streams(work(400, 1 << 20), 67), 7, "small files take time each");
        assert_eq!(streams(work(4000, 1 << 20), 0), 4);
    }

    #[test]
    fn a_short_transfer_of_many_files_over_a_long_path_begins_with_more_than_usual() {
        let files = work(863, 500_000_000);
        // 20 ms at 100 Mbit/s are 17 first windows; 67 ms are more than there may be.
        assert_eq!([1, 4, 20, 67, 200].map(|rtt_ms| streams(files, rtt_ms)), [4, 4, 17, 48, 48]);
        assert_eq!(streams(work(200, 500_000_000), 67), 25);
        assert_eq!(streams(work(30, 500_000_000), 67), 8);
    }

    #[test]
    fn haste_is_for_short_transfers_of_a_known_length_alone() {
        let first = FirstStreams::AUTO;
        let over = |first: FirstStreams| first.over(LONG);
        let unknown = Extent { complete: false, ..work(16_384, 1 << 20) };
        assert_eq!(over(first.for_work(None, Haste::Allowed)), 8);
        assert_eq!(over(first.for_work(Some(unknown), Haste::Allowed)), 8);
        assert_eq!(over(first.for_work(Some(work(5000, Extent::SHORT + 1)), Haste::Allowed)), 8);
        let short = first.for_work(Some(work(863, 500_000_000)), Haste::Allowed);
        assert_eq!([over(short), over(short.at_most(20))], [48, 20]);
        assert_eq!(over(first.for_work(Some(work(863, 500_000_000)), Haste::Never)), 8);
        assert_eq!(over(first.for_work(Some(work(1, 100)), Haste::Never)), 1);
    }
}
