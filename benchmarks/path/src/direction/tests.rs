//! A direction on a clock that the tests move by hand.

use super::*;
use crate::schedule::Background;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A direction, the time, and what came out of it.
struct Bench {
    direction: Direction,
    now: Duration,
    arrivals: Vec<(Duration, Packet)>,
    dropped: Vec<Packet>,
    sent: u32,
}

impl Bench {
    fn new(options: PathOptions) -> Self {
        let direction = Direction::new(&options.validated().unwrap(), 7);
        Self { direction, now: Duration::ZERO, arrivals: Vec::new(), dropped: Vec::new(), sent: 0 }
    }

    /// Moves the clock from event to event up to a time, so that arrivals have the times at which they are due.
    fn run_until(&mut self, end: Duration) {
        while let Some(next) = self.direction.next().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            self.collect();
        }
        self.now = end;
        self.collect();
    }

    fn collect(&mut self) {
        let mut batch = Batch::default();
        self.direction.advance(self.now, &mut batch);
        self.take(&mut batch);
    }

    fn take(&mut self, batch: &mut Batch) {
        self.arrivals.extend(batch.delivered.drain(..).map(|packet| (self.now, packet)));
        self.dropped.append(&mut batch.dropped);
    }

    fn send(&mut self, flow: u32, bytes: u32, count: u32) {
        for _ in 0..count {
            let mut batch = Batch::default();
            let key = FlowKey { ports: flow, ..FlowKey::default() };
            self.direction.offer(self.now, key, Packet { slot: self.sent, bytes }, &mut batch);
            self.sent += 1;
            self.take(&mut batch);
        }
    }

    fn bytes_arrived(&self, from: Duration, to: Duration) -> u64 {
        self.arrivals.iter().filter(|(at, _)| *at > from && *at <= to).map(|(_, packet)| u64::from(packet.bytes)).sum()
    }
}

/// A path without delay and without limits; the tests add the one they are about.
fn plain() -> PathOptions {
    PathOptions { rate: Rate::UNLIMITED, rtt: Duration::ZERO, ..PathOptions::default() }
}

#[test]
fn a_packet_alone_takes_half_an_rtt_and_the_time_of_its_bits() {
    let mut bench = Bench::new(PathOptions { rate: Rate::bytes(1e6), rtt: 60 * MS, ..plain() });
    bench.send(1, 1000, 1);
    bench.run_until(SECOND);
    assert_eq!(bench.arrivals, [(31 * MS, Packet { slot: 0, bytes: 1000 })]);
}

#[test]
fn the_bottleneck_passes_its_rate_exactly() {
    let mut bench = Bench::new(PathOptions { rate: Rate::bytes(1e6), queue: Some(1 << 30), ..plain() });
    bench.send(1, 1000, 1500);
    bench.send(2, 700, 1500);
    bench.run_until(SECOND);
    assert_eq!(bench.bytes_arrived(Duration::ZERO, SECOND), 1_000_000);
}

#[test]
fn a_flow_passes_its_own_rate_and_others_do_not_suffer() {
    let options = PathOptions { rate: Rate::bytes(1e6), stream_rate: Rate::bytes(1e5), stream_queue: Some(1 << 30), ..plain() };
    let mut bench = Bench::new(options);
    bench.send(1, 1000, 500);
    bench.send(2, 1000, 20);
    bench.run_until(SECOND);
    let of_second_flow = bench.arrivals.iter().filter(|(_, packet)| packet.slot >= 500);
    assert_eq!(of_second_flow.clone().count(), 20);
    assert!(of_second_flow.clone().all(|(at, _)| *at <= 202 * MS), "the second flow waited for the first");
    let of_first = bench.arrivals.iter().filter(|(_, packet)| packet.slot < 500).count();
    assert!((99..=100).contains(&of_first), "{of_first} packets of 1000 bytes in one second at 100 kB/s");
}

#[test]
fn more_flows_than_the_bottleneck_bears_share_it() {
    let mut bench = Bench::new(PathOptions { rate: Rate::bytes(5e5), stream_rate: Rate::bytes(1e5), ..plain() });
    while bench.now < 2 * SECOND {
        for flow in 0..10 {
            bench.send(flow, 1000, 1);
        }
        bench.run_until(bench.now + 10 * MS);
    }
    let bytes = bench.bytes_arrived(SECOND, 2 * SECOND);
    assert!((499_000..=501_000).contains(&bytes), "{bytes} bytes in one second at 500 kB/s");
}

#[test]
fn the_queue_of_a_flow_drops_its_tail() {
    let mut bench = Bench::new(PathOptions { stream_rate: Rate::bytes(1e6), stream_queue: Some(10_000), ..plain() });
    bench.send(1, 1000, 15);
    assert_eq!(bench.dropped.iter().map(|packet| packet.slot).collect::<Vec<_>>(), [10, 11, 12, 13, 14]);
    bench.run_until(SECOND);
    assert_eq!(bench.arrivals.len(), 10);
    assert_eq!(bench.direction.second(SECOND).drops, Drops { stream_queue: 5, ..Drops::default() });
}

#[test]
fn the_queue_of_the_bottleneck_drops_its_tail() {
    let mut bench = Bench::new(PathOptions { rate: Rate::bytes(1e6), queue: Some(10_000), ..plain() });
    bench.send(1, 1000, 15);
    bench.run_until(SECOND);
    assert_eq!(bench.arrivals.len(), 10);
    assert_eq!(bench.direction.second(SECOND).drops, Drops { bottleneck_queue: 5, ..Drops::default() });
}

#[test]
fn a_packet_larger_than_a_queue_passes_alone() {
    let mut bench = Bench::new(PathOptions { rate: Rate::bytes(1e6), queue: Some(100), ..plain() });
    bench.send(1, 1000, 2);
    bench.run_until(SECOND);
    assert_eq!((bench.arrivals.len(), bench.dropped.len()), (1, 1));
}

#[test]
fn the_share_lost_is_the_one_asked_for_and_repeats_with_the_seed() {
    let lost = || {
        let mut bench = Bench::new(PathOptions { loss: 0.01, ..plain() });
        for _ in 0..100_000 {
            bench.send(1, 100, 1);
            bench.collect();
        }
        bench.dropped.iter().map(|packet| packet.slot).collect::<Vec<_>>()
    };
    let first = lost();
    // Five standard deviations of the binomial distribution are 157.
    assert!((843..=1157).contains(&first.len()), "{} of 100,000 lost at 1 %", first.len());
    assert_eq!(first, lost());
}

#[test]
fn a_change_of_rate_holds_from_the_next_packet_on() {
    let mut bench = Bench::new(PathOptions { rate: Rate::bytes(1e6), queue: Some(1 << 30), ..plain() });
    bench.send(1, 1000, 3000);
    bench.run_until(SECOND);
    bench.direction.change(&Change { rate: Some(Rate::bytes(5e5)), ..Change::default() });
    bench.run_until(2 * SECOND);
    let bytes = bench.bytes_arrived(SECOND, 2 * SECOND);
    assert!((499_000..=501_000).contains(&bytes), "{bytes} bytes after the rate was halved");
}

#[test]
fn a_shorter_delay_lets_no_packet_overtake() {
    let mut bench = Bench::new(PathOptions { rtt: 100 * MS, ..plain() });
    bench.send(1, 100, 1);
    bench.run_until(MS);
    bench.direction.change(&Change { rtt: Some(10 * MS), ..Change::default() });
    bench.send(1, 100, 1);
    bench.run_until(SECOND);
    assert_eq!(bench.arrivals, [(50 * MS, Packet { slot: 0, bytes: 100 }), (50 * MS, Packet { slot: 1, bytes: 100 })]);
}

#[test]
fn a_background_takes_its_rate_but_never_all() {
    let mut bench = Bench::new(PathOptions { rate: Rate::bytes(1e6), queue: Some(1 << 30), ..plain() });
    let background = |flows| Change { background: Some(Background { flows, rate: 2e5 }), ..Change::default() };
    bench.direction.change(&background(3));
    bench.send(1, 1000, 2000);
    bench.run_until(SECOND);
    assert_eq!(bench.bytes_arrived(Duration::ZERO, SECOND), 400_000);
    bench.direction.change(&background(30));
    bench.run_until(2 * SECOND);
    let bytes = bench.bytes_arrived(SECOND, 2 * SECOND);
    assert!((49_000..=51_000).contains(&bytes), "{bytes} bytes beside a background of six times the rate");
}

#[test]
fn too_many_active_flows_make_the_rate_collapse_for_a_while() {
    let cliff = Cliff { flows: 4, share: 0.05, lasts: 30 * SECOND };
    let mut bench = Bench::new(PathOptions { rate: Rate::bytes(1e6), cliff: Some(cliff), ..plain() });
    let mut rate_after = |flows: u32| {
        (0..flows).for_each(|flow| bench.send(flow, 1000, 17));
        bench.run_until(bench.now + SECOND);
        bench.direction.second(bench.now).rate_bps
    };
    assert_eq!(rate_after(4), Rate::bits(8e6), "as many as it bears");
    assert_eq!(rate_after(5), Rate::bits(4e5), "one too many");
    assert!((0..29).all(|_| rate_after(1) == Rate::bits(4e5)), "back too early");
    assert_eq!(rate_after(1), Rate::bits(8e6), "back in time");
}

#[test]
fn acknowledgements_are_no_active_flow() {
    let mut bench = Bench::new(plain());
    bench.send(1, 52, 10_000);
    bench.send(2, 1500, 20);
    assert_eq!(bench.direction.second(SECOND).active_flows, 1);
}

#[test]
fn every_packet_arrives_once_or_is_dropped_once() {
    let options = PathOptions { rate: Rate::bytes(2e6), rtt: 30 * MS, stream_rate: Rate::bytes(4e5), loss: 0.02, ..plain() };
    let mut bench = Bench::new(options);
    for turn in 0..2000_u32 {
        bench.send(turn * 7 % 13, 40 + turn * 131 % 8960, 1 + turn % 5);
        bench.run_until(bench.now + Duration::from_micros(u64::from(turn) * 97 % 3000));
        if turn % 500 == 250 {
            bench.direction.change(&Change { rate: Some(Rate::bytes(f64::from(turn) * 1e3)), ..Change::default() });
        }
    }
    bench.run_until(bench.now + 100 * SECOND);
    assert_eq!(bench.direction.next(), None);
    let mut slots: Vec<_> = bench.arrivals.iter().map(|(_, packet)| packet.slot).collect();
    slots.extend(bench.dropped.iter().map(|packet| packet.slot));
    slots.sort_unstable();
    assert_eq!(slots, (0..bench.sent).collect::<Vec<_>>());
    let second = bench.direction.second(bench.now);
    assert!(second.drops.stream_queue > 0 && second.drops.bottleneck_queue > 0 && second.drops.loss > 0, "{:?}", second.drops);
    assert_eq!(second.packets_in, u64::from(bench.sent));
    assert_eq!(second.packets_out, bench.arrivals.len() as u64);
    assert_eq!(second.queue_bytes, 0);
}

#[test]
fn packets_of_a_flow_stay_in_order() {
    let mut bench = Bench::new(PathOptions { rate: Rate::bytes(1e6), rtt: 10 * MS, stream_rate: Rate::bytes(3e5), ..plain() });
    for _ in 0..200 {
        bench.send(1, 1400, 2);
        bench.send(2, 300, 1);
        bench.run_until(bench.now + MS);
    }
    bench.run_until(bench.now + 10 * SECOND);
    for second_flow in [false, true] {
        let slots: Vec<_> =
            bench.arrivals.iter().map(|(_, packet)| packet.slot).filter(|slot| (slot % 3 == 2) == second_flow).collect();
        assert!(slots.len() > 50 && slots.is_sorted());
    }
}
