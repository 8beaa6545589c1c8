//! The share of one transfer, computed from what all of them have written: pure.

use crate::broker::Limits;
use crate::broker::fill::{self, Demand};
use crate::broker::limits::Budget;
use crate::broker::record::Record;
use crate::report::human_rate;

/// What a transfer may have at least, whatever the others do: bytes in buffers, and the part of its fair rate while they give the rest back.
const LEAST_MEMORY: u64 = 16 << 20;
const LEAST_RATE: f64 = 0.25;

/// What a transfer would use that has a number of streams: room to try half as many more. One that comes within a quarter of its share
/// may need any number. The first is more than the second, or what it gets by the one would make it hungry by the other, back and forth.
const ROOM: u16 = 2;
const HUNGER: u16 = 4;

/// The same for rates: what is wanted of what is moved, and the part of the share from which on all is wanted.
const RATE_ROOM: f64 = 1.5;
const RATE_HUNGER: f64 = 0.8;

/// The part of the host's rate that even a transfer wants that moves nothing.
const RATE_LEAST: f64 = 0.02;

/// As one of how many a transfer counts that cannot see the others.
pub(super) const SUPPOSED: u16 = 4;

/// What one transfer may have.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Share {
    /// Streams, and workers of each stage at this host.
    pub(super) streams: u16,
    /// Of how many, and the server to which these are, if not all of the host.
    of: (u16, Option<String>),
    /// Bytes in buffers.
    pub(super) memory: u64,
    /// Bytes per second, and of how many; `None` without a limit.
    pub(super) rate: Option<(f64, f64)>,
    /// The transfers that share it, this one among them.
    transfers: usize,
    /// Whether the others are only supposed to be there.
    unseen: bool,
}

impl Share {
    /// The share of the one that has the slot `own` among all that are present.
    pub(super) fn of(own: &Record, others: &[Record]) -> Self {
        let mut present: Vec<&Record> = others.iter().chain([own]).collect();
        // So that all who compute this give what does not divide evenly to the same ones.
        present.sort_by_key(|record| record.slot);
        let index = present.iter().position(|record| record.slot == own.slot).unwrap_or(0);
        let budget = Budget::of(&present);
        let crowd: Vec<&Record> = present.iter().copied().filter(|record| record.server == own.server).collect();
        let of_server = budget.of_server(&own.server);
        let asked: u32 = crowd.iter().map(|record| u32::from(wanted_of(record, own))).sum();
        let at_server = !own.server.is_empty() && of_server < budget.streams && asked > u32::from(of_server);
        Self {
            streams: streams(own, index, &present, &budget),
            of: if at_server { (of_server, Some(own.server.clone())) } else { (budget.streams, None) },
            memory: memory(index, &present, &budget),
            rate: budget.rate.map(|total| (rate(own, index, &present, total), total)),
            transfers: if at_server { crowd.len() } else { present.len() },
            unseen: false,
        }
    }

    /// The share of one that cannot see the others, where somebody has set a limit for all of them: it counts with some that want as much.
    /// Where nobody has, it has all.
    pub(super) fn unseen(own: &Record) -> Self {
        if own.limits == Limits::default() {
            return Self::of(own, &[]);
        }
        let other = |number| Record {
            slot: own.slot.wrapping_add(number),
            wanted: own.limit,
            held: 0,
            used: 0,
            rate_held: 0.0,
            memory_held: 0,
            ..own.clone()
        };
        let others: Vec<Record> = (1..SUPPOSED).map(other).collect();
        Self { unseen: true, ..Self::of(own, &others) }
    }

    /// Why a transfer has no more streams than these, for people.
    pub(super) fn reason(&self) -> String {
        let (share, (total, server)) = (self.streams, &self.of);
        if self.unseen {
            return format!("{share} of {total} streams: the other transfers of this host cannot be seen");
        }
        match (server, self.transfers) {
            (None, 1) => format!("{share} of {total} streams: the limit of this host"),
            (None, transfers) => format!("{share} of {total} streams: {transfers} transfers share this host"),
            (Some(server), 1) => format!("{share} of {total} streams to `{server}`: the limit of this host"),
            (Some(server), transfers) => format!("{share} of {total} streams to `{server}`: {transfers} transfers share them"),
        }
    }

    /// Why a transfer is no faster, for people.
    pub(super) fn rate_reason(&self) -> Option<String> {
        let (share, total) = self.rate?;
        Some(format!("{} of {}, the rate of this host", human_rate(share), human_rate(total)))
    }
}

/// Streams that a transfer with a share would use, which has decided to have some.
pub(super) fn wanted(decided: u16, share: u16, limit: u16) -> u16 {
    let hungry = decided.saturating_add(decided / HUNGER).saturating_add(1) >= share;
    if hungry { limit } else { decided.saturating_add(decided / 2).saturating_add(ROOM).min(limit) }
}

/// Bytes per second that a transfer with a share would move, at most `limit`.
pub(super) fn rate_wanted(moved: f64, share: Option<(f64, f64)>, limit: Option<f64>) -> f64 {
    let limit = limit.unwrap_or(f64::INFINITY);
    match share {
        Some((share, total)) if moved < RATE_HUNGER * share => (RATE_ROOM * moved + RATE_LEAST * total).min(limit),
        _ => limit,
    }
}

/// Of its own it asks for all it may have: what it would use is for the others to count with.
fn wanted_of(record: &Record, own: &Record) -> u16 {
    if record.slot == own.slot { own.limit } else { record.wanted }
}

fn streams(own: &Record, index: usize, present: &[&Record], budget: &Budget<'_>) -> u16 {
    let demands: Vec<Demand<'_>> = present
        .iter()
        .map(|record| Demand { server: &record.server, weight: record.weight, wanted: wanted_of(record, own) })
        .collect();
    let fair = fill::streams(&demands, budget.streams, |server| budget.of_server(server))[index];
    let held = |which: &dyn Fn(&Record) -> bool| -> u16 {
        let others = present.iter().filter(|record| record.slot != own.slot && which(record));
        others.fold(0u16, |sum, record| sum.saturating_add(record.held))
    };
    let mut room = budget.streams.saturating_sub(held(&|_| true));
    if !own.server.is_empty() {
        let at_server = held(&|record| record.server == own.server);
        room = room.min(budget.of_server(&own.server).saturating_sub(at_server));
    }
    // What others have not given back yet is theirs; what this one has of its fair share it keeps.
    fair.min(room.max(own.held)).max(1)
}

fn memory(index: usize, present: &[&Record], budget: &Budget<'_>) -> u64 {
    let demands: Vec<(f64, f64)> =
        present.iter().map(|record| (f64::from(record.weight.max(1)), record.memory_wanted as f64)).collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a number of bytes is one")]
    let share = fill::amounts(&demands, budget.memory as f64)[index] as u64;
    share.max(LEAST_MEMORY)
}

fn rate(own: &Record, index: usize, present: &[&Record], total: f64) -> f64 {
    let weight = |record: &Record| f64::from(record.weight.max(1));
    let demands: Vec<(f64, f64)> = present.iter().map(|record| (weight(record), record.rate_wanted)).collect();
    let shares = fill::amounts(&demands, total);
    let weights: f64 = present.iter().map(|record| weight(record)).sum();
    // What nobody wants now is lent by weight, so that whoever wants more can show it.
    let spare = (total - shares.iter().sum::<f64>()).max(0.0);
    let fair = shares[index] + spare * weight(own) / weights;
    let held: f64 = present.iter().filter(|record| record.slot != own.slot).map(|record| record.rate_held.min(total)).sum();
    fair.min((total - held).max(LEAST_RATE * fair)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transfers to one server that ask in turn, and each decides on as many streams as it likes of its share.
    struct Host(Vec<(Record, u16)>);

    impl Host {
        fn new(total: u16, likes: &[u16]) -> Self {
            let limits = Limits { streams: Some(total), ..Limits::default() };
            let record = |slot| Record {
                slot,
                server: "dtn_7632".to_owned(),
                weight: 2,
                limit: 64,
                wanted: 1,
                rate_wanted: f64::INFINITY,
                memory_wanted: 64 << 20,
                limits,
                ..Record::default()
            };
            Self((0..).zip(likes).map(|(slot, likes)| (record(slot), *likes)).collect())
        }

        /// One interval of one transfer; what it stops using it uses until the next.
        fn ask(&mut self, index: usize) -> Share {
            let others: Vec<Record> =
                self.0.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, (record, _))| record.clone()).collect();
            let (own, likes) = &mut self.0[index];
            let share = Share::of(own, &others);
            let decided = share.streams.min(*likes);
            own.held = decided.max(own.used);
            own.wanted = wanted(decided, share.streams, own.limit);
            own.used = decided;
            share
        }

        fn round(&mut self) -> Vec<u16> {
            (0..self.0.len()).map(|index| self.ask(index).streams).collect()
        }

        fn used(&self) -> Vec<u16> {
            self.0.iter().map(|(record, _)| record.used).collect()
        }
    }

    #[test]
    fn one_alone_has_all_that_its_options_allow() {
        let mut host = Host::new(256, &[4]);
        assert_eq!(host.round(), [64]);
        let mut host = Host::new(16, &[40]);
        let share = host.ask(0);
        assert_eq!((share.streams, share.reason().as_str()), (16, "16 of 16 streams: the limit of this host"));
    }

    #[test]
    fn those_who_want_all_have_equal_shares_within_three_rounds_and_never_more_than_there_are() {
        let mut host = Host::new(16, &[64; 8]);
        for round in 0..20 {
            host.round();
            let held: u16 = host.0.iter().map(|(record, _)| record.held).sum();
            assert!(round < 3 || held <= 16, "round {round}: {held}");
        }
        assert_eq!(host.used(), [2; 8]);
        assert_eq!(host.ask(3).reason(), "2 of 16 streams: 8 transfers share this host");
    }

    #[test]
    fn a_share_that_is_not_needed_goes_to_others_and_nothing_swings() {
        let mut host = Host::new(64, &[6, 64, 64]);
        for _ in 0..6 {
            host.round();
        }
        let settled = host.round();
        // Those who need it have what the first leaves, beyond its room to try more.
        assert!(host.used()[0] == 6 && host.used()[1] >= 25 && host.used()[2] >= 25, "{:?}", host.used());
        for _ in 0..10 {
            assert_eq!(host.round(), settled);
        }
    }

    #[test]
    fn who_becomes_hungry_gets_its_share_in_a_few_rounds_and_who_ends_leaves_it_to_the_others() {
        let mut host = Host::new(64, &[2, 64]);
        for _ in 0..5 {
            host.round();
        }
        host.0[0].1 = 64;
        for _ in 0..5 {
            host.round();
        }
        assert_eq!(host.used(), [32, 32]);
        host.0.remove(0);
        assert_eq!(host.round(), [64]);
    }

    #[test]
    fn a_priority_is_a_weight() {
        let mut host = Host::new(60, &[64; 2]);
        host.0[0].0.weight = 4;
        for _ in 0..5 {
            host.round();
        }
        assert_eq!(host.used(), [40, 20]);
    }

    #[test]
    fn what_is_too_many_to_one_server_is_told_so() {
        let mut host = Host::new(256, &[64; 2]);
        for _ in 0..5 {
            host.round();
        }
        assert_eq!(host.used(), [32, 32]);
        assert_eq!(host.ask(0).reason(), "32 of 64 streams to `dtn_7632`: 2 transfers share them");
        host.0[0].0.server = "other".to_owned();
        for _ in 0..3 {
            host.round();
        }
        assert_eq!(host.used(), [64, 64]);
    }

    #[test]
    fn one_that_cannot_see_the_others_has_a_part_of_the_limits_that_were_set_and_all_of_others() {
        let mut own = Host::new(16, &[64]).0.remove(0).0;
        own.held = 9;
        let share = Share::unseen(&own);
        assert_eq!(share.streams, 4);
        assert_eq!(share.reason(), "4 of 16 streams: the other transfers of this host cannot be seen");
        own.limits = Limits { rate: Some(100.0), ..Limits::default() };
        assert_eq!(Share::unseen(&own).rate, Some((25.0, 100.0)));
        own.limits = Limits::default();
        assert_eq!(Share::unseen(&own), Share::of(&own, &[]));
    }

    #[test]
    fn a_rate_is_shared_as_it_is_used() {
        let record = |slot, moved: f64| Record {
            slot,
            weight: 2,
            limit: 64,
            rate: moved,
            rate_wanted: rate_wanted(moved, Some((50.0, 100.0)), None),
            rate_held: 50.0,
            limits: Limits { rate: Some(100.0), ..Limits::default() },
            ..Record::default()
        };
        let (slow, fast) = (record(0, 20.0), record(1, 50.0));
        assert_eq!((slow.rate_wanted, fast.rate_wanted), (32.0, f64::INFINITY));
        assert_eq!(Share::of(&slow, std::slice::from_ref(&fast)).rate, Some((32.0, 100.0)));
        // What the slow one still holds is not the fast one's yet.
        assert_eq!(Share::of(&fast, std::slice::from_ref(&slow)).rate, Some((50.0, 100.0)));
        let yielded = Record { rate_held: 32.0, ..slow };
        assert_eq!(Share::of(&fast, std::slice::from_ref(&yielded)).rate, Some((68.0, 100.0)));
        assert_eq!(Share::of(&fast, &[]).rate, Some((100.0, 100.0)));
        assert!((rate_wanted(1.0, None, Some(7.0)) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn memory_is_shared_but_never_below_what_a_transfer_needs() {
        let record = |slot, wanted| Record {
            slot,
            weight: 2,
            limit: 64,
            memory_wanted: wanted,
            limits: Limits { memory: Some(128 << 20), ..Limits::default() },
            ..Record::default()
        };
        assert_eq!(Share::of(&record(0, 96 << 20), &[record(1, 96 << 20)]).memory, 64 << 20);
        assert_eq!(Share::of(&record(0, 96 << 20), &[record(1, 32 << 20)]).memory, 96 << 20);
        let many: Vec<Record> = (1..50).map(|slot| record(slot, 96 << 20)).collect();
        assert_eq!(Share::of(&record(0, 96 << 20), &many).memory, LEAST_MEMORY);
    }
}
