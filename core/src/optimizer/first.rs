//! The first decision: how many streams before anything was measured, by the round trip time and by what there is to do.
//!
//! TCP sends ten segments in the first round trip and twice as many in each further one [RFC 6928; RFC 5681 §3.1]: after `k` round trips
//! `n` streams have sent `n * 10 * (2^k - 1)` segments. So twice the streams save one round trip, whatever the path carries: a good part of
//! a transfer that takes twenty, nothing of one that takes thousands. And little work is through before a second connection is of use.
//! From the first observation on the number is the optimizer's.

use std::time::Duration;

use super::setting::whole;
use super::{Decision, Observation, Optimizer, Policy, utility};
use crate::error::Result;
use crate::report::{human_bytes, human_count};

/// The round trip times from which a path counts as long, and as very long.
const LONG_TRIPS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// Bytes and items up to which one stream carries all: so much is often under way at once, and every further connection costs both ends.
const ALONE: (u64, u64) = (4 << 20, 32);

/// Bytes, or items, that each of several streams has at least: the pieces at the end of the work are no smaller, and packs not much.
const SHARE: (u64, u64) = (1 << 20, 64);

/// Most streams that a short transfer of many files begins with, and items that each of them has.
const MOST: u16 = 48;
const MANY: u64 = 8;

/// Bytes of the first window of a stream: ten segments of an Ethernet frame [RFC 6928].
const FIRST_WINDOW: f64 = 14_480.0;

/// Bytes per second that a long path is taken to carry: the first windows of all streams together are no more than it has under way.
const LEAST_RATE: f64 = 12.5e6;

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
    pub const SHORT: u64 = 4 << 30;

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

/// Streams that a transfer begins with, by the round trip time of the path and by the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstStreams {
    /// Over a short, a long and a very long path.
    usual: [u16; 3],
    most: u16,
    work: Option<Extent>,
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
enum Wanted {
    Usual,
    Fewer(u16),
    More(u16),
}

impl FirstStreams {
    /// What `auto` begins around: over a short path one stream goes far; the longer the path, the slower streams are to grow and to
    /// recover from a loss, they are often held to a share of it, and the way up from few takes longer than many a transfer.
    pub const AUTO: Self = Self::by_trip([4, 8, 12]);

    /// The same where a worker makes requests and waits a round trip for each answer, as with object stores.
    pub const AUTO_REQUESTS: Self = Self::by_trip([8, 32, 48]);

    /// The same over every path.
    pub const fn always(streams: u16) -> Self {
        Self::by_trip([streams; 3])
    }

    /// Over a path of less than 5 ms, of less than 100 ms, and of more.
    pub(super) const fn by_trip(usual: [u16; 3]) -> Self {
        Self { usual, most: u16::MAX, work: None, haste: Haste::Never }
    }

    /// No more than so many.
    #[must_use]
    pub fn at_most(self, streams: u16) -> Self {
        Self { most: self.most.min(streams), ..self }
    }

    /// Fitted to the work as far as it is known: no more than have something to do, and more than usual where a short transfer of many
    /// files over a long path would spend much of its time growing, if it may.
    #[must_use]
    pub fn for_work(self, work: Option<Extent>, haste: Haste) -> Self {
        Self { work, haste, ..self }
    }

    /// How many over a path of this round trip time.
    pub fn over(self, rtt: Duration) -> u16 {
        match self.wanted(rtt) {
            Wanted::Usual => self.usual(rtt),
            Wanted::Fewer(streams) | Wanted::More(streams) => streams,
        }
    }

    fn usual(self, rtt: Duration) -> u16 {
        self.usual[LONG_TRIPS.iter().filter(|trip| rtt >= **trip).count()].min(self.most)
    }

    fn wanted(self, rtt: Duration) -> Wanted {
        let usual = self.usual(rtt);
        let Some(work) = self.work else { return Wanted::Usual };
        let hastened = if self.haste == Haste::Allowed { work.hastened().min(filling(rtt)).min(self.most) } else { 0 };
        match usual.max(hastened).min(work.enough()) {
            streams if streams < usual => Wanted::Fewer(streams),
            streams if streams > usual => Wanted::More(streams),
            _ => Wanted::Usual,
        }
    }
}

/// Streams whose first windows are what a path of the least rate has under way.
fn filling(rtt: Duration) -> u16 {
    whole((LEAST_RATE * rtt.as_secs_f64() / FIRST_WINDOW).floor())
}

/// An optimizer whose first decision is fitted to the work. All others are its own.
pub(crate) struct Fitted {
    inner: Box<dyn Optimizer>,
    first: FirstStreams,
    rtt: Duration,
    /// Whether a session has begun: in a further one what is left is not known.
    begun: bool,
    /// Whether it has begun with more streams than usual, and nothing was observed yet.
    hastened: bool,
}

impl Fitted {
    /// `inner` begins with its own number unless `first` knows of a reason for fewer or more.
    pub(crate) fn new(inner: Box<dyn Optimizer>, first: FirstStreams, rtt: Duration) -> Self {
        Self { inner, first, rtt, begun: false, hastened: false }
    }

    /// Whether the streams have less under way than their first windows: so many have not grown sooner, they only are in each other's way.
    /// Where a rate of the host held them back, that says nothing of their number.
    fn is_crowded(&self, observation: &Observation) -> bool {
        let under_way = utility::arrived(observation) * self.rtt.as_secs_f64();
        !observation.held_back && under_way < FIRST_WINDOW * f64::from(observation.applied.concurrency.network)
    }

    fn reason(&self, streams: u16) -> String {
        let begin = format!("start: {}", human_count(u64::from(streams), "stream"));
        let Some(work) = self.first.work else { return begin };
        let all = format!("{begin} for {} of {}", human_count(work.items, "item"), human_bytes(work.bytes));
        if self.hastened { format!("{all}: many grow sooner over {} ms", self.rtt.as_millis()) } else { all }
    }
}

impl Optimizer for Fitted {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        let own = self.inner.start(policy);
        let wanted = self.first.wanted(self.rtt);
        let begun = std::mem::replace(&mut self.begun, true);
        let streams = match wanted {
            Wanted::Usual => return own,
            _ if begun => return own,
            Wanted::Fewer(streams) if streams > own.concurrency.network => return own,
            Wanted::Fewer(streams) | Wanted::More(streams) => streams.min(policy.limit.network).max(1),
        };
        // A limit may leave no more than usual.
        self.hastened = streams > self.first.usual(self.rtt);
        let concurrency = policy.limit.map(|limit| streams.min(limit.max(1)));
        Decision { concurrency, reason: self.reason(streams), ..own }
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let (applied, limit) = (&observation.applied, observation.policy.limit);
        let (ran, usual) = (applied.concurrency.network, self.first.usual(self.rtt).min(limit.network).max(1));
        if !std::mem::take(&mut self.hastened) || ran <= usual || !self.is_crowded(observation) {
            return self.inner.decide(observation);
        }
        let concurrency = limit.map(|limit| usual.min(limit.max(1)));
        let reason = format!("{ran} streams have less under way than their first windows: going on with {usual}");
        Ok(Decision { concurrency, reason, ..applied.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::model::Model;
    use crate::optimizer::{PerStage, PolicyName, Setup};

    const LONG: Duration = Duration::from_millis(67);

    fn work(items: u64, bytes: u64) -> Extent {
        Extent { items, bytes, complete: true }
    }

    fn streams(work: Extent, rtt_ms: u64) -> u16 {
        FirstStreams::AUTO.at_most(64).for_work(Some(work), Haste::Allowed).over(Duration::from_millis(rtt_ms))
    }

    fn fair() -> Policy {
        Policy::new(PolicyName::Fair, 64)
    }

    fn model(first: u16) -> Model {
        Model::starting_at(first, &Setup { rtt: Some(LONG), ..Setup::of_a_test() })
    }

    fn fitted(work: Extent) -> Fitted {
        let first = FirstStreams::AUTO.at_most(64).for_work(Some(work), Haste::Allowed);
        Fitted::new(Box::new(model(first.over(LONG))), first, LONG)
    }

    #[test]
    fn the_usual_number_grows_with_the_round_trip_time() {
        let over = |rtt_ms| FirstStreams::AUTO.over(Duration::from_millis(rtt_ms));
        assert_eq!([0, 4, 5, 99, 100, 300].map(over), [4, 4, 8, 8, 12, 12]);
        assert_eq!(FirstStreams::AUTO_REQUESTS.at_most(40).over(Duration::from_secs(1)), 40);
        assert_eq!(FirstStreams::always(0).over(LONG), 0);
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
        assert_eq!([1, 5, 20, 67, 200].map(|rtt_ms| streams(files, rtt_ms)), [4, 8, 17, 48, 48]);
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

    #[test]
    fn the_first_decision_fits_the_work_and_says_why() {
        let one = fitted(work(1, 3_000_000)).start(&fair());
        assert_eq!(one.concurrency, PerStage::all(1));
        assert_eq!(one.reason, "start: 1 stream for 1 item of 3.0 MB");
        let many = fitted(work(863, 500_000_000)).start(&fair());
        assert_eq!(many.concurrency, PerStage::all(48));
        assert_eq!(many.reason, "start: 48 streams for 863 items of 500 MB: many grow sooner over 67 ms");
        let narrow = fitted(work(863, 500_000_000)).start(&Policy::new(PolicyName::Fair, 6));
        assert_eq!((narrow.concurrency, narrow.reason.as_str()), (PerStage::all(6), "start: 6 streams for 863 items of 500 MB"));
        let usual = fitted(work(863, 50 << 30)).start(&fair());
        assert_eq!(usual, model(8).start(&fair()));
    }

    #[test]
    fn from_the_first_observation_on_the_number_is_the_optimizers() {
        let mut fitted = fitted(work(863, 500_000_000));
        let mut decision = fitted.start(&fair());
        let mut trace = Vec::new();
        for _ in 0..12 {
            // Twelve streams fill the path of 1 Gbit/s.
            let rate = 10e6 * f64::from(decision.concurrency.network.min(12));
            decision = fitted.decide(&Observation::of_a_test(decision, rate, 64)).unwrap();
            trace.push(decision.concurrency.network);
        }
        assert!((12..=48).contains(&trace[0]), "{trace:?}");
        assert!(trace[4..].iter().all(|streams| (10..=17).contains(streams)), "{trace:?}");
    }

    #[test]
    fn many_streams_on_a_path_that_few_fill_are_taken_back_at_once() {
        let mut fitted = fitted(work(863, 500_000_000));
        let first = fitted.start(&fair());
        // 20 Mbit/s: 167 kB are under way in 67 ms, a fourth of 48 first windows.
        let second = fitted.decide(&Observation::of_a_test(first, 2.5e6, 64)).unwrap();
        assert_eq!(second.concurrency, PerStage::all(8));
        assert_eq!(second.reason, "48 streams have less under way than their first windows: going on with 8");
        let third = fitted.decide(&Observation::of_a_test(second, 2.5e6, 64)).unwrap();
        assert!((1..=16).contains(&third.concurrency.network), "{}", third.reason);
    }

    #[test]
    fn a_slow_first_interval_takes_nothing_back_where_a_rate_held_it_or_few_streams_ran() {
        let slow = |held_back: bool, ran: u16| {
            let mut fitted = fitted(work(863, 500_000_000));
            let first = fitted.start(&fair());
            let applied = Decision { concurrency: PerStage::all(ran), ..first };
            let reason = fitted.decide(&Observation { held_back, ..Observation::of_a_test(applied, 1e5, 64) }).unwrap().reason;
            reason.contains("first windows")
        };
        assert_eq!([slow(false, 48), slow(true, 48), slow(false, 6), slow(false, 8)], [true, false, false, false]);
    }

    #[test]
    fn one_stream_is_not_the_last_word() {
        let mut fitted = fitted(work(1, 4 << 20));
        let first = fitted.start(&fair());
        let next = fitted.decide(&Observation::of_a_test(first, 1e5, 64)).unwrap();
        assert!((2..=4).contains(&next.concurrency.network), "{}", next.reason);
    }
}
