//! The beginning of a stream: how fast the system sends it at most until it is known how fast it gets through.
//!
//! TCP sends ten segments in the first round trip and twice as many in each further one [RFC 6928; RFC 5681 §3.1], until some are lost: of
//! large segments, as jumbo frames are, that is more at once than a slow path has under way, and where many streams begin together half of what
//! they send is lost. So a stream begins as slowly as one of small segments would, and is sent twice as fast as what got through in the last
//! round trip, until a queue shows by its delay, or a loss; then it is sent at what gets through, and a little faster each round trip, as TCP itself would where it avoids congestion.
//! Each time that this loses some it begins anew from what gets through, and TCP makes its window smaller, until that is what holds it back.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::metrics::TcpSnapshot;

/// Bytes of the first round trip: ten segments of an Ethernet frame [RFC 6928].
const FIRST_WINDOW: f64 = 14_480.0;

/// The round trip time from which on a path is long enough: over shorter ones what is lost is soon sent again.
const LONG: Duration = Duration::from_millis(5);

/// How many times as fast as what got through until there is a queue, and what the rate is multiplied by each round trip after that.
const FAST: f64 = 2.0;
const STEADY: f64 = 1.25;
const GENTLE: f64 = 1.02;

/// By what part of the shortest round trip time the present one is longer where there is a queue, and at least and at most [RFC 9406 §4.2].
const QUEUED: u32 = 8;
const LONGER: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));

/// The round trip time follows a few segments slowly. So there is a queue also where so many times what gets through in a round trip is under way,
/// and so many segments more; from so many round trips on.
const UNDER_WAY: f64 = 2.0;
const MORE: f64 = 2.0;
const SETTLED: u32 = 3;

/// The parts of what gets through at which a stream is sent then, until the queue is empty, and after that.
const EMPTYING: f64 = 0.75;
const SLOWER: f64 = 0.95;

/// The part of its rate below which something else holds a stream back.
const HELD: f64 = 0.8;

/// Segments from which on what gets through is known, and is known that well.
const FEW: f64 = 4.0;
const MANY: f64 = 12.0;

/// Round trips until then, in which what is lost was sent before.
const LATE: u32 = 3;

/// How many looks at what arrived are remembered.
const KEPT: usize = 32;

/// Bytes per second from which on nothing holds a stream back, and how many times what got through.
const MOST: f64 = 2.5e9;
const FREE: f64 = 4.0;

/// A stream that begins.
pub(super) struct Start {
    /// Most bytes per second.
    rate: f64,
    /// The rate that got through when there was a queue or a loss, and when that was.
    found: Option<(f64, Instant)>,
    /// When it began, and the shortest round trip time.
    begun: Instant,
    trip: Duration,
    retransmitted: u64,
    times: u8,
    empty: bool,
    /// When how many bytes had arrived, over some round trips.
    arrived: VecDeque<(Instant, f64)>,
}

impl Start {
    /// The beginning of a stream, as its connection is now; `None` where the path is short, or the system does not tell.
    pub(super) fn of(tcp: &TcpSnapshot, now: Instant) -> Option<Self> {
        let trip = shortest(tcp);
        (trip >= LONG).then(|| Self {
            rate: FIRST_WINDOW / trip.as_secs_f64(),
            found: None,
            begun: now,
            trip,
            retransmitted: tcp.retransmitted,
            times: 3,
            empty: false,
            arrived: VecDeque::from([(now, tcp.arrived())]),
        })
    }

    /// How fast it is sent at most, in bytes per second.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates, and the rate is at least 1")]
    pub(super) fn rate(&self) -> u64 {
        self.rate.max(1.0) as u64
    }

    /// After how much time it is looked at again.
    pub(super) fn soon(&self) -> Duration {
        self.trip / 2
    }

    /// Takes what the system tells of the connection now; whether the beginning goes on.
    pub(super) fn goes_on(&mut self, tcp: &TcpSnapshot, now: Instant) -> bool {
        let before = self.arrived.back().map_or(now, |last| last.0);
        let trips = now.saturating_duration_since(before).as_secs_f64() / self.trip.as_secs_f64();
        let lost = tcp.retransmitted > self.retransmitted;
        self.arrived.push_back((now, tcp.arrived()));
        if self.arrived.len() > KEPT {
            self.arrived.pop_front();
        }
        self.trip = self.trip.min(shortest(tcp));
        let through = self.got_through(FEW * tcp.mean_segment()).unwrap_or(0.0);
        match self.found {
            None if lost || self.is_queued(tcp, through, now) => self.find(through, now),
            None => self.rate = self.rate.max(FAST * through),
            Some((_, since)) if now < since + LATE * self.trip => {}
            Some((found, _)) if self.rate < SLOWER * found => {
                self.rate = SLOWER * found;
                // Before that less was sent.
                self.arrived.drain(..self.arrived.len() - 1);
            }
            Some(_) if tcp.unsent > 0 && self.got_through(MANY * tcp.mean_segment()).is_some_and(|rate| rate < HELD * self.rate) => {
                return false;
            }
            Some(_) if lost => self.find(through, now),
            Some(_) if self.is_queued(tcp, through, now) => {
                if self.times > 0 && std::mem::take(&mut self.empty) {
                    self.times -= 1;
                    self.find(through, now);
                } else {
                    self.rate *= GENTLE.powf(trips);
                }
            }
            Some(_) => {
                self.empty = true;
                self.rate *= STEADY.powf(trips);
            }
        }
        self.retransmitted = tcp.retransmitted;
        self.rate < MOST && self.found.is_none_or(|found| self.rate < FREE * found.0)
    }

    fn is_queued(&self, tcp: &TcpSnapshot, through: f64, now: Instant) -> bool {
        let more = MORE * tcp.mean_segment();
        // A few segments that come together wait for one another.
        let together = Duration::try_from_secs_f64(more / through.max(1.0)).unwrap_or(Duration::MAX);
        let longer = (self.trip / QUEUED).clamp(LONGER.0, LONGER.1).max(together);
        let usual = UNDER_WAY * through * self.trip.as_secs_f64() + more;
        let under_way = tcp.bytes_sent as f64 - tcp.arrived();
        tcp.rtt > self.trip.saturating_add(longer) || now >= self.begun + SETTLED * self.trip && under_way > usual
    }

    /// There is a queue: what gets through is to be sent.
    fn find(&mut self, through: f64, now: Instant) {
        let least = FIRST_WINDOW / self.trip.as_secs_f64();
        let found = through.clamp(least.min(self.rate), self.rate);
        self.rate = EMPTYING * found;
        self.found = Some((found, now));
    }

    /// Bytes per second that arrived in the last round trip, or since so many bytes ago where that is longer; `None` if less is known.
    fn got_through(&self, bytes: f64) -> Option<f64> {
        let (now, all) = *self.arrived.back()?;
        let tells = |&&(then, before): &&(Instant, f64)| now - then >= self.trip && all - before >= bytes;
        let (then, before) = *self.arrived.iter().rev().find(tells)?;
        Some((all - before) / (now - then).as_secs_f64())
    }
}

fn shortest(tcp: &TcpSnapshot) -> Duration {
    if tcp.min_rtt.is_zero() { tcp.rtt } else { tcp.min_rtt }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(80);

    /// A connection that has sent nothing, whose segments have one byte.
    fn idle() -> TcpSnapshot {
        TcpSnapshot { min_rtt: TRIP, rtt: TRIP, segments_out: 1, bytes_sent: 1, unsent: 1, ..TcpSnapshot::default() }
    }

    /// A stream over a path of this many bytes per second whose queue holds what it carries in a round trip: the lost share of what was sent,
    /// and the rate each half round trip until the beginning is over. Its window is twice what is under way until something is lost, and 0.7
    /// times as large after each loss.
    fn over(rate: f64, trips: u32) -> (f64, Vec<f64>) {
        let begun = Instant::now();
        let seconds = TRIP.as_secs_f64() / 2.0;
        let mut tcp = idle();
        let mut start = Start::of(&tcp, begun).unwrap();
        let (mut queue, mut sent, mut lost, mut rates) = (0.0, 0.0, 0.0, Vec::new());
        let (mut window, mut repaired) = (f64::INFINITY, 0);
        for half in 1..=2 * trips {
            let came = start.rate.min(window / tcp.rtt.as_secs_f64()) * seconds;
            let waiting = queue + came;
            let went = waiting.min(rate * seconds);
            queue = (waiting - went).min(rate * TRIP.as_secs_f64());
            let dropped = waiting - went - queue;
            (sent, lost) = (sent + came, lost + dropped);
            if dropped > 0.0 {
                tcp.retransmitted += 1;
                if half >= repaired {
                    window = 0.7 * window.min(2.0 * (rate * TRIP.as_secs_f64() + queue));
                    repaired = half + 4;
                }
            }
            tcp.delivered += bytes(went);
            (tcp.segments_out, tcp.bytes_sent) = (bytes(sent), bytes(sent));
            tcp.rtt = TRIP + Duration::from_secs_f64(queue / rate);
            rates.push(start.rate);
            if !start.goes_on(&tcp, begun + half * TRIP / 2) {
                break;
            }
        }
        (lost / sent, rates)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of a test")]
    fn bytes(of: f64) -> u64 {
        of as u64
    }

    #[test]
    fn a_stream_begins_as_slowly_as_one_of_small_segments_and_doubles_each_round_trip() {
        let (lost, rates) = over(1e9, 6);
        assert!((rates[0] - 181_000.0).abs() < 1.0 && lost <= 0.0);
        assert!((rates[10] / rates[0] - 32.0).abs() < 0.01, "{rates:?}");
    }

    #[test]
    fn it_stops_at_the_first_sign_of_a_queue_and_goes_on_gently_until_its_window_is_what_holds_it_back() {
        for rate in [0.3e6, 0.8e6, 6e6, 70e6] {
            let (lost, rates) = over(rate, 400);
            let peak = rates.iter().copied().fold(0.0, f64::max);
            assert!(lost < 0.02 && rates.len() < 250, "{lost} of {rate}, {} half trips", rates.len());
            assert!(peak < 3.0 * rate, "{peak} of {rate}");
            let last = rates[rates.len() - 1];
            assert!((0.9..1.5).contains(&(last / rate)), "{last} of {rate}");
        }
    }

    #[test]
    fn each_loss_is_taken_for_a_queue_but_those_of_what_was_sent_before() {
        let begun = Instant::now();
        let mut tcp = idle();
        let mut start = Start::of(&tcp, begun).unwrap();
        let mut goes_on = |trip: u32, arrived: u64, retransmitted: u64| {
            (tcp.delivered, tcp.retransmitted) = (tcp.delivered + arrived, retransmitted);
            (tcp.segments_out, tcp.bytes_sent) = (tcp.delivered, tcp.delivered);
            let goes_on = start.goes_on(&tcp, begun + trip * TRIP);
            (goes_on, start.rate * TRIP.as_secs_f64())
        };
        (1..=4).for_each(|trip| assert!(goes_on(trip, 100_000, 0).0));
        for (trip, arrived, retransmitted, rate) in
            [(5, 100_000, 1, 75_000.0), (6, 100_000, 9, 75_000.0), (8, 200_000, 9, 95_000.0), (9, 90_000, 10, 67_500.0)]
        {
            let (on, found) = goes_on(trip, arrived, retransmitted);
            assert!(on && (found - rate).abs() < 2000.0, "{found} after {trip} round trips");
        }
        (10..=11).for_each(|trip| assert!(goes_on(trip, 60_000, 10).0));
        assert!(!goes_on(12, 60_000, 10).0, "its window holds it back");
    }

    #[test]
    fn over_short_paths_and_where_nothing_is_told_a_stream_begins_as_the_system_has_it() {
        for trip in [Duration::ZERO, Duration::from_millis(1)] {
            assert!(Start::of(&TcpSnapshot { min_rtt: trip, rtt: trip, ..TcpSnapshot::default() }, Instant::now()).is_none());
        }
    }
}
