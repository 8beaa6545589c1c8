//! Begins an optimizer with the first decision that fits the work and the path, and looks at what came of it.

use std::time::Duration;

use super::first::{FIRST_WINDOW, Wanted};
use super::memory::{Memory, Verdict};
use super::model::{LOSSY, unfound};
use super::pace::New;
use super::{Decision, FirstStreams, Observation, Optimizer, Pace, PerStage, Policy, PolicyName, utility};
use crate::error::Result;
use crate::history::Settled;
use crate::report::{human_bytes, human_count};

/// Where workers make requests, still fewer are not tried while so few seconds of work are left.
const SOON_S: f64 = 60.0;

/// An optimizer whose first decision is fitted to the work, and to where earlier transfers over the path settled. All others are its own,
/// but for the next ones while intervals speak for the memory or against it, and for the fewest where workers make requests and little is left.
pub(crate) struct Fitted {
    inner: Box<dyn Optimizer>,
    first: FirstStreams,
    rtt: Duration,
    /// What earlier transfers tell, until it is forgotten, and the first streams without it.
    memory: Option<Memory>,
    unaided: u16,
    /// The fewest that it goes on with while what is left is soon over.
    least: u16,
    /// Bytes per second of the last intervals.
    lately: f64,
    /// Whether a session has begun: in a further one what is left is not known.
    begun: bool,
    /// Whether it has begun with more streams than usual, and nothing was observed yet.
    hastened: bool,
}

impl Fitted {
    /// `make` makes the optimizer that begins with so many streams, which are its own unless `first` knows of a reason for fewer or more.
    pub(crate) fn new(
        first: FirstStreams,
        rtt: Option<Duration>,
        settled: &[Settled],
        make: impl FnOnce(u16) -> Result<Box<dyn Optimizer>>,
    ) -> Result<Self> {
        let memory = Memory::of(settled, rtt, first.work);
        let rtt = rtt.unwrap_or_default();
        // Without it a crowded start goes on with the usual number too.
        let unaided = first.over(rtt).min(first.usual(rtt));
        let least = first.least(rtt);
        let aided = memory.map(|memory| (first.near(memory.settled, rtt), memory));
        // Where the work asks for fewer streams or more, it is the work that tells.
        let aided = aided.filter(|(near, _)| near.wanted(rtt) == Wanted::Usual);
        let (first, memory) = aided.map_or((first, None), |(near, memory)| (near, Some(memory)));
        Ok(Self { inner: make(first.over(rtt))?, first, rtt, memory, unaided, least, lately: 0.0, begun: false, hastened: false })
    }

    /// Whether the streams have less under way than their first windows: so many have not grown sooner, they only are in each other's way.
    /// Where a rate of the host held them back, that says nothing of their number.
    fn is_crowded(&self, observation: &Observation) -> bool {
        let under_way = utility::arrived(observation) * self.rtt.as_secs_f64();
        !observation.held_back && under_way < FIRST_WINDOW * f64::from(observation.applied.concurrency.network)
    }

    /// The bytes per second that an interval tells of: in the first one those of streams that have found their windows.
    fn rate(&self, memory: &Memory, observation: &Observation) -> f64 {
        let ramp = |new| Pace::Quick.ramp(self.rtt, new, observation.interval);
        let waited = ramp(New::None) + ramp(New::First);
        let unfound = if memory.is_new() { unfound(observation, waited) } else { 0.0 };
        utility::arrived(observation) / (1.0 - unfound)
    }

    /// The answer to an interval that tells of the memory: where the streams of earlier transfers move much less than then, as many as
    /// there would have been without them, or what the inner optimizer asks for beyond; and where they move about the same, not far from
    /// them, nor more than it asks for where much is lost. Workers of their own for reading and writing are not its matter. What else it
    /// would try before it has measured much, was tried then.
    fn check(&mut self, memory: Memory, observation: &Observation) -> Result<Decision> {
        let next = self.inner.decide(observation)?;
        if observation.held_back {
            self.memory = Some(memory);
            return Ok(next);
        }
        let PerStage { read, network, write } = next.concurrency;
        if read.max(write) > network {
            return Ok(next);
        }
        let (ran, rate) = (observation.applied.concurrency.network, self.rate(&memory, observation));
        let (near, why) = match memory.judge(ran, rate) {
            Verdict::Wrong(why) if ran > self.unaided => (1..=self.unaided, format!("{why}, forgotten")),
            Verdict::Wrong(why) if ran < self.unaided => (self.unaided..=u16::MAX, format!("{why}, forgotten")),
            Verdict::Right => {
                let near = self.memory.insert(memory.confirmed(ran, rate)).near();
                let least = if observation.loss.is_some_and(|lost| lost > LOSSY) { 1 } else { *near.start() };
                (least..=*near.end(), "near what earlier copies settled at".to_owned())
            }
            _ => return Ok(next),
        };
        let (asked, limit) = (next.concurrency.network, observation.policy.limit);
        let streams = asked.clamp(*near.start(), *near.end()).min(limit.network.max(1));
        if streams == asked {
            return Ok(next);
        }
        let reason = format!("{} ({why}: {streams} instead of {asked} streams)", next.reason);
        Ok(Decision { concurrency: limit.map(|limit| streams.min(limit.max(1))), reason, ..next })
    }

    /// No fewer workers than the least, or than ran, while what is left is soon over, unless much is lost or they shall stay behind others.
    fn kept(&mut self, observation: &Observation, next: Decision) -> Decision {
        let (rate, policy) = (utility::arrived(observation), &observation.policy);
        let rate = if rate.is_finite() { rate } else { 0.0 };
        // One slow interval does not make the work long.
        self.lately = if self.lately > 0.0 { f64::midpoint(self.lately, rate) } else { rate };
        let left = observation.bytes_left.map_or(f64::INFINITY, |bytes| bytes as f64);
        let lossy = observation.loss.is_some_and(|lost| lost > LOSSY);
        if left >= SOON_S * self.lately || lossy || policy.name == PolicyName::Low {
            return next;
        }
        // Half of what a service admits is enough, too.
        let least = self.least.min(policy.limit.network.div_ceil(2));
        let concurrency = no_fewer(least, next.concurrency, observation.applied.concurrency);
        if concurrency == next.concurrency {
            return next;
        }
        let PerStage { read, network, write } = concurrency;
        let stay = if read == network && write == network {
            human_count(u64::from(network), "stream")
        } else {
            format!("{read} readers, {network} streams, {write} writers")
        };
        Decision { concurrency, reason: format!("{} (the work is soon over: {stay} instead)", next.reason), ..next }
    }

    /// The answer to an observation, before what holds while the work is soon over.
    fn answer(&mut self, observation: &Observation) -> Result<Decision> {
        if let Some(memory) = self.memory.take() {
            return self.check(memory, observation);
        }
        let (applied, limit) = (&observation.applied, observation.policy.limit);
        let (ran, usual) = (applied.concurrency.network, self.first.usual(self.rtt).min(limit.network).max(1));
        if !std::mem::take(&mut self.hastened) || ran <= usual || !self.is_crowded(observation) {
            return self.inner.decide(observation);
        }
        let concurrency = limit.map(|limit| usual.min(limit.max(1)));
        let reason = format!("{ran} streams have less under way than their first windows: going on with {usual}");
        Ok(Decision { concurrency, reason, ..applied.clone() })
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
        if begun {
            self.memory = None;
        }
        if let Some(memory) = &self.memory {
            return Decision { reason: memory.reason(own.concurrency.network), ..own };
        }
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
        let next = self.answer(observation)?;
        Ok(self.kept(observation, next))
    }
}

/// So many workers as were asked for, but at least `least`, unless fewer ran: streams that also read and write, or else the larger of the
/// stages that have workers of their own, which is the one that makes requests. Such a stage has another number than the streams.
fn no_fewer(least: u16, asked: PerStage<u16>, ran: PerStage<u16>) -> PerStage<u16> {
    let PerStage { read, network, write } = asked;
    if read == network && write == network {
        return PerStage::all(network.max(least.min(ran.network)));
    }
    let own = |workers: u16, ran: u16| {
        let kept = workers.max(least.min(ran));
        if kept == network { kept + 1 } else { kept }
    };
    let reads = write == network || (read != network && read > write);
    if reads { PerStage { read: own(read, ran.read), ..asked } } else { PerStage { write: own(write, ran.write), ..asked } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::model::Model;
    use crate::optimizer::testing::{TestPath, Trial};
    use crate::optimizer::{Extent, Haste, Setup};

    const LONG: Duration = Duration::from_millis(67);

    fn work(items: u64, bytes: u64) -> Extent {
        Extent { items, bytes, complete: true }
    }

    fn fair() -> Policy {
        Policy::new(PolicyName::Fair, 64)
    }

    fn model(first: u16) -> Model {
        Model::new(&Setup { streams: first, rtt: Some(LONG), ..Setup::of_a_test() })
    }

    fn fitted(work: Extent) -> Fitted {
        let first = FirstStreams::AUTO.at_most(64).for_work(Some(work), Haste::Allowed);
        begun(first, &[])
    }

    fn begun(first: FirstStreams, settled: &[Settled]) -> Fitted {
        Fitted::new(first, Some(LONG), settled, |streams| Ok(Box::new(model(streams)))).unwrap()
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

    fn settled(streams: u16, rate: f64) -> Settled {
        Settled { rtt_s: Some(LONG.as_secs_f64()), mean_size: 1e9, streams, rate }
    }

    /// The streams of a minute over a path that so many fill, with 10 MB/s each, and their mean utility, as a share of the best.
    fn minute(best: u16, settled: &[Settled]) -> (Vec<u16>, f64) {
        let path = TestPath { rtt: LONG, ..TestPath::of_streams(best) };
        let mut fitted = begun(FirstStreams::AUTO.at_most(64), settled);
        let decisions = Trial::new(&mut fitted, path.clone(), 64).decisions(60);
        let utility = |decision: &Decision| {
            let (rate, loss) = path.moves(decision);
            utility::utility(rate, f64::from(decision.concurrency.network), Some(loss), &fair())
        };
        let most = utility(&Decision::uniform(best, ""));
        let mean = decisions.iter().map(|decision| utility(decision) / most).sum::<f64>() / 60.0;
        (decisions.iter().map(|decision| decision.concurrency.network).collect(), mean)
    }

    #[test]
    fn a_right_memory_saves_a_part_of_the_search() {
        let saved = [1, 4, 12, 24, 40].map(|best| {
            let (without, unaided) = minute(best, &[]);
            let (with, aided) = minute(best, &[settled(best, 10e6 * f64::from(best))]);
            println!("{best}: {unaided:.4} {aided:.4} {:?} {:?}", &without[..10], &with[..10]);
            assert!(aided > unaided - 0.002, "{best}: {aided} and {unaided}: {with:?} {without:?}");
            aided - unaided
        });
        assert!(saved.iter().sum::<f64>() > 0.015, "{saved:?}");
    }

    #[test]
    fn a_wrong_memory_costs_little() {
        for (best, streams, rate) in [
            (4, 32, 320e6),
            (4, 24, 40e6),
            (4, 64, 10e9),
            (1, 48, 480e6),
            (24, 1, 10e6),
            (24, 4, 40e6),
            (24, 8, 80e6),
            (24, 24, 120e6),
            (40, 1, 10e6),
            (40, 8, 80e6),
        ] {
            let (without, unaided) = minute(best, &[]);
            let (with, aided) = minute(best, &[settled(streams, rate)]);
            println!("{best} {streams} {rate:.0}: {unaided:.4} {aided:.4} {:?} {:?}", &without[..10], &with[..10]);
            assert!(aided > unaided - 0.015, "{best}, not {streams}: {aided} and {unaided}: {with:?} {without:?}");
        }
    }

    #[test]
    fn little_work_and_many_small_files_begin_as_they_do_without_a_memory() {
        let first = |work| FirstStreams::AUTO.at_most(64).for_work(Some(work), Haste::Allowed);
        let (large, many) = (work(1, 20 << 20), work(863, 500_000_000));
        for (work, settled) in [(large, settled(32, 320e6)), (many, Settled { mean_size: 1e5, ..settled(32, 320e6) })] {
            assert_eq!(begun(first(work), &[settled]).start(&fair()), begun(first(work), &[]).start(&fair()));
        }
        // As many as haste asks for, over a path that carries little today.
        let past = Settled { mean_size: 1e5, ..settled(48, 480e6) };
        let rtt = Duration::from_millis(120);
        let past = Settled { rtt_s: Some(rtt.as_secs_f64()), ..past };
        let mut fitted = Fitted::new(first(many), Some(rtt), &[past], |streams| Ok(Box::new(model(streams)))).unwrap();
        let began = fitted.start(&fair());
        assert!(began.reason.contains("1 earlier copy"), "{}", began.reason);
        let next = fitted.decide(&Observation::of_a_test(began, 2.5e6, 64)).unwrap();
        assert!(next.concurrency.network <= 12, "{}", next.reason);
    }

    /// Asks for readers of its own after the first interval.
    struct Parted;

    impl Optimizer for Parted {
        fn name(&self) -> &'static str {
            "parted"
        }

        fn start(&mut self, _: &Policy) -> Decision {
            Decision::uniform(8, "start")
        }

        fn decide(&mut self, _: &Observation) -> Result<Decision> {
            Ok(Decision { concurrency: PerStage { read: 16, network: 2, write: 2 }, ..Decision::uniform(1, "readers") })
        }
    }

    /// Always asks for the same.
    struct Asking(PerStage<u16>);

    impl Optimizer for Asking {
        fn name(&self) -> &'static str {
            "asking"
        }

        fn start(&mut self, _: &Policy) -> Decision {
            Decision::uniform(8, "start")
        }

        fn decide(&mut self, _: &Observation) -> Result<Decision> {
            Ok(Decision { concurrency: self.0, ..Decision::uniform(1, "asked") })
        }
    }

    fn asking(first: FirstStreams, rtt: Duration, asked: PerStage<u16>) -> Fitted {
        let mut fitted = Fitted::new(first, Some(rtt), &[], |_| Ok(Box::new(Asking(asked)))).unwrap();
        fitted.start(&fair());
        fitted
    }

    /// What is seen of a transfer with so many streams and seconds of work left.
    fn seen(ran: u16, seconds: u64) -> Observation {
        let seen = Observation::of_a_test(Decision::uniform(ran, ""), 80e6, 64);
        Observation { bytes_left: Some(seconds * 80_000_000), loss: None, ..seen }
    }

    #[test]
    fn where_workers_make_requests_half_of_them_stay_while_the_work_is_soon_over() {
        let asked = |first: FirstStreams, rtt_ms, observation: Observation| {
            let next = asking(first, Duration::from_millis(rtt_ms), PerStage::all(2)).decide(&observation).unwrap();
            assert_eq!(next.reason.contains("soon over"), next.concurrency.network > 2, "{}", next.reason);
            next.concurrency.network
        };
        let requests = FirstStreams::AUTO_REQUESTS;
        assert_eq!([1, 67, 100].map(|rtt_ms| asked(requests, rtt_ms, seen(48, 50))), [4, 16, 24]);
        assert_eq!(asked(requests, 67, seen(8, 50)), 8, "nor more than ran");
        assert_eq!(asked(requests.at_most(10), 67, seen(10, 50)), 5);
        assert_eq!(asked(requests, 67, seen(32, 70)), 2);
        assert_eq!(asked(requests, 67, Observation { bytes_left: None, ..seen(32, 50) }), 2);
        assert_eq!(asked(requests, 67, Observation { loss: Some(0.05), ..seen(32, 50) }), 2);
        assert_eq!(asked(requests, 67, Observation { loss: Some(0.005), ..seen(32, 50) }), 16);
        assert_eq!(asked(requests, 67, Observation { policy: Policy::new(PolicyName::Low, 64), ..seen(32, 50) }), 2);
        assert_eq!(asked(requests, 67, Observation { policy: Policy::new(PolicyName::Fair, 8), ..seen(8, 50) }), 4);
        assert_eq!(asked(FirstStreams::AUTO, 67, seen(32, 50)), 2, "streams of edt wait for no answer");
        let mut stalled = asking(requests, LONG, PerStage::all(2));
        stalled.decide(&seen(32, 20)).unwrap();
        let slow = Observation { throughput: PerStage::all(8e6), ..seen(32, 20) };
        assert_eq!(stalled.decide(&slow).unwrap().concurrency.network, 16, "one slow interval");
    }

    #[test]
    fn of_stages_that_are_parted_the_one_that_makes_requests_keeps_its_workers_and_all_stay_parted() {
        let kept = |read, network, write| {
            let asked = PerStage { read, network, write };
            let PerStage { read, network, write } = no_fewer(16, asked, PerStage { read: 20, network: 20, write: 24 });
            (read, network, write)
        };
        assert_eq!(kept(4, 12, 8), (4, 12, 16));
        assert_eq!(kept(5, 4, 19), (5, 4, 19));
        assert_eq!(kept(16, 16, 14), (16, 16, 17), "not as many as the streams, which would be their own");
        assert_eq!(kept(9, 4, 4), (16, 4, 4));
        assert_eq!(kept(9, 4, 6), (16, 4, 6));
        assert_eq!(kept(3, 3, 3), (16, 16, 16));
    }

    #[test]
    fn stages_that_have_been_parted_stay_so() {
        let mut fitted = Fitted::new(FirstStreams::AUTO, Some(LONG), &[settled(8, 80e6)], |_| Ok(Box::new(Parted))).unwrap();
        let first = fitted.start(&fair());
        assert!(fitted.memory.is_some());
        let next = fitted.decide(&Observation::of_a_test(first, 80e6, 64)).unwrap();
        assert_eq!(next.concurrency, PerStage { read: 16, network: 2, write: 2 });
    }

    #[test]
    fn the_reasons_name_the_memory_and_what_became_of_it() {
        let mut right = begun(FirstStreams::AUTO, &[settled(12, 120e6), settled(12, 130e6)]);
        let first = right.start(&fair());
        assert_eq!(first.reason, "start: 12 streams, as 2 earlier copies on this path settled at 12 streams");
        let mut wrong = begun(FirstStreams::AUTO, &[settled(32, 320e6)]);
        let first = wrong.start(&fair());
        assert_eq!(first.concurrency, PerStage::all(32));
        let next = wrong.decide(&Observation::of_a_test(first, 40e6, 64)).unwrap();
        assert!(next.concurrency.network <= 8, "{}", next.reason);
        assert!(
            next.reason.contains("(320 Mbit/s of about 2.6 Gbit/s that earlier copies had, forgotten: 8 instead of"),
            "{}",
            next.reason
        );
        // Streams that are new over a long path have not found their windows in the first interval.
        let mut growing = begun(FirstStreams::AUTO, &[settled(8, 800e6)]);
        growing.rtt = Duration::from_millis(800);
        let of_long =
            |decision, rate| Observation { rtt: Some(Duration::from_millis(800)), ..Observation::of_a_test(decision, rate, 64) };
        let first = growing.start(&fair());
        let _ = growing.decide(&of_long(first, 500e6)).unwrap();
        assert!(growing.memory.is_some());
        // Where much is lost it is nothing to hold on to.
        let mut lossy = begun(FirstStreams::AUTO, &[settled(32, 320e6)]);
        let first = lossy.start(&fair());
        let lost = Observation { loss: Some(0.05), ..Observation::of_a_test(first, 300e6, 64) };
        assert!(lossy.decide(&lost).unwrap().concurrency.network <= 16);
        // In a further session there is nothing to remember, nor for little work.
        let mut again = begun(FirstStreams::AUTO, &[settled(12, 120e6)]);
        again.start(&fair());
        assert_eq!(again.start(&fair()).reason, "going on with 12 streams");
        let little =
            begun(FirstStreams::AUTO.for_work(Some(work(1, 5 << 20)), Haste::Allowed), &[settled(12, 120e6)]).start(&fair());
        assert_eq!((little.concurrency, little.reason.as_str()), (PerStage::all(5), "start: 5 streams for 1 item of 5.2 MB"));
    }
}
