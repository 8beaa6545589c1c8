//! The TCP counters of all streams of a sender, read from the system when they are asked for: a slow stream is in `send` for seconds.

use std::collections::HashMap;

use crate::link::TcpGauge;
use crate::metrics::TcpSnapshot;
use crate::protocol::message::TcpMeters;
use crate::sync::Mutex;

/// The counters of streams that are open, and of those that were.
#[derive(Default)]
pub(super) struct TcpCounters(Mutex<Counters>);

#[derive(Default)]
struct Counters {
    open: HashMap<u16, Open>,
    ended: Option<TcpMeters>,
}

/// An open stream: what tells its counters, and what they were when they were read last.
struct Open {
    gauge: TcpGauge,
    last: TcpSnapshot,
}

impl Open {
    /// Its counters now. Those that the system keeps in 32 bits begin anew after some terabytes; here they go on.
    fn read(&mut self) -> Option<TcpSnapshot> {
        let (last, now) = (self.last, (self.gauge)()?);
        self.last = TcpSnapshot {
            segments_out: carried_on(last.segments_out, now.segments_out),
            retransmitted: carried_on(last.retransmitted, now.retransmitted),
            delivered: carried_on(last.delivered, now.delivered),
            ..now
        };
        Some(self.last)
    }
}

/// A counter that was at `before`, carried on to where its lower 32 bits are those of `now`; one that fell stays.
fn carried_on(before: u64, now: u64) -> u64 {
    let grown = now.wrapping_sub(before) & u64::from(u32::MAX);
    if grown > u64::from(u32::MAX / 2) { before } else { before + grown }
}

impl TcpCounters {
    /// Counts a stream from now on, if its system tells anything of it.
    pub(super) fn opened(&self, number: u16, gauge: Option<TcpGauge>) {
        if let Some(gauge) = gauge {
            self.0.lock().open.insert(number, Open { gauge, last: TcpSnapshot::default() });
        }
    }

    /// Counts what a stream has sent until now, and no more of it.
    pub(super) fn ended(&self, number: u16) {
        let mut counters = self.0.lock();
        if let Some(last) = counters.open.remove(&number).and_then(|mut open| open.read()).map(TcpMeters::from) {
            let before = counters.ended.unwrap_or_default();
            counters.ended = Some(TcpMeters {
                segments: before.segments + last.segments,
                retransmitted: before.retransmitted + last.retransmitted,
                received: counters.ended.map_or(Some(0), |before| before.received).zip(last.received).map(|(a, b)| a + b),
                ..TcpMeters::default()
            });
        }
    }

    /// The sums over all streams, and the mean round trip time of those that know theirs; and the segments that each open one got through.
    /// `None` where the system tells nothing.
    pub(super) fn meters(&self) -> Option<(TcpMeters, Vec<(u16, u64)>)> {
        let mut counters = self.0.lock();
        let open: Vec<(u16, TcpSnapshot)> =
            counters.open.iter_mut().filter_map(|(number, open)| Some((*number, open.read()?))).collect();
        let each: Vec<TcpMeters> = open.iter().map(|(_, tcp)| TcpMeters::from(*tcp)).chain(counters.ended).collect();
        let sum = |of: fn(&TcpMeters) -> u64| each.iter().map(of).sum::<u64>();
        let timed = each.iter().filter(|tcp| tcp.rtt_us > 0).count() as u64;
        let all = TcpMeters {
            segments: sum(|tcp| tcp.segments),
            retransmitted: sum(|tcp| tcp.retransmitted),
            rtt_us: sum(|tcp| tcp.rtt_us) / timed.max(1),
            delivery_rate: sum(|tcp| tcp.delivery_rate),
            received: each.iter().map(|tcp| tcp.received).sum(),
            fills_queues: each.iter().filter_map(|tcp| tcp.fills_queues).reduce(|all, one| all && one),
        };
        (!each.is_empty()).then(|| (all, open.into_iter().map(|(number, tcp)| (number, tcp.delivered)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    fn stream(segments: &Arc<AtomicU64>, rtt_us: u64) -> TcpGauge {
        let (segments, rtt) = (Arc::clone(segments), Duration::from_micros(rtt_us));
        Arc::new(move || {
            let sent = segments.load(Ordering::Relaxed);
            let retransmitted = sent / 10;
            let delivered = sent - retransmitted;
            let (segments_out, bytes_acked) = (sent, 1000 * delivered);
            let told = TcpSnapshot { segments_out, retransmitted, bytes_acked, delivered, ..TcpSnapshot::default() };
            Some(TcpSnapshot { rtt, delivery_rate: 7, fills_queues: rtt_us < 9000, ..told })
        })
    }

    /// Of fifty segments of 1000 bytes, a tenth of which had to be sent again.
    fn all(rtt_us: u64, delivery_rate: u64) -> TcpMeters {
        TcpMeters { segments: 50, retransmitted: 5, rtt_us, delivery_rate, received: Some(45_000), fills_queues: Some(true) }
    }

    fn sums(counters: &TcpCounters) -> TcpMeters {
        counters.meters().unwrap().0
    }

    #[test]
    fn counters_follow_a_stream_that_sends_one_long_frame() {
        let (counters, sent) = (TcpCounters::default(), Arc::new(AtomicU64::new(10)));
        counters.opened(1, Some(stream(&sent, 4000)));
        assert_eq!(sums(&counters).segments, 10);
        sent.store(50, Ordering::Relaxed);
        assert_eq!(sums(&counters), all(4000, 7));
    }

    #[test]
    fn what_ended_streams_sent_stays_counted_and_their_rates_go() {
        let (counters, one, other) = (TcpCounters::default(), Arc::new(AtomicU64::new(20)), Arc::new(AtomicU64::new(30)));
        counters.opened(1, Some(stream(&one, 2000)));
        counters.opened(2, Some(stream(&other, 6000)));
        assert_eq!(sums(&counters), all(4000, 14));
        counters.ended(1);
        assert_eq!(sums(&counters), all(6000, 7));
        // One of another congestion control.
        counters.opened(3, Some(stream(&Arc::default(), 9000)));
        assert_eq!(sums(&counters).fills_queues, Some(false));
        // It has sent nothing, which hides nothing of the others, nor when it ends.
        assert_eq!(sums(&counters).received, Some(45_000));
        counters.ended(3);
        assert_eq!(sums(&counters).received, Some(45_000));
        // A stream of the same number counts besides.
        counters.opened(1, Some(stream(&one, 2000)));
        assert_eq!(sums(&counters).segments, 70);
    }

    #[test]
    fn counters_of_32_bits_that_begin_anew_go_on() {
        const ROUND: u64 = 1 << 32;
        let (counters, segments) = (TcpCounters::default(), Arc::new(AtomicU64::new(0)));
        let told = Arc::clone(&segments);
        counters.opened(
            1,
            Some(Arc::new(move || {
                let all = told.load(Ordering::Relaxed) % ROUND;
                Some(TcpSnapshot { segments_out: all, retransmitted: all, delivered: all, ..TcpSnapshot::default() })
            })),
        );
        for all in [ROUND / 3, ROUND / 3 * 2, ROUND - 5, ROUND + 7, ROUND + ROUND / 3] {
            segments.store(all, Ordering::Relaxed);
            let (sum, each) = counters.meters().unwrap();
            assert_eq!((sum.segments, sum.retransmitted, each), (all, all, vec![(1, all)]));
        }
        segments.store(ROUND + ROUND / 2, Ordering::Relaxed);
        counters.ended(1);
        assert_eq!(sums(&counters).segments, ROUND + ROUND / 2);
        assert_eq!([carried_on(9, 5), carried_on(ROUND + 9, 5), carried_on(0, ROUND - 1)], [9, ROUND + 9, 0]);
    }

    #[test]
    fn what_each_open_stream_got_through_is_told_by_its_number() {
        let counters = TcpCounters::default();
        for (number, sent) in [(3, 20), (7, 50), (9, 70)] {
            counters.opened(number, Some(stream(&Arc::new(AtomicU64::new(sent)), 1000)));
        }
        counters.ended(7);
        let mut each = counters.meters().unwrap().1;
        each.sort_unstable();
        assert_eq!(each, [(3, 18), (9, 63)]);
    }

    #[test]
    fn nothing_is_told_where_the_system_tells_nothing() {
        let counters = TcpCounters::default();
        counters.opened(1, None);
        counters.opened(2, Some(Arc::new(|| None)));
        counters.ended(1);
        assert_eq!(counters.meters(), None);
    }
}
