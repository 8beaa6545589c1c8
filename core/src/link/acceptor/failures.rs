//! Slows down addresses that keep failing to prove themselves.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Failures within [`WINDOW`] after which an address has to wait.
const TOLERATED: usize = 5;

const WINDOW: Duration = Duration::from_mins(1);

/// How long such an address waits before each attempt.
const DELAY: Duration = Duration::from_secs(1);

/// Addresses remembered; the one that failed longest ago makes room.
const ADDRESSES: usize = 1024;

/// The recent failures of each address, the last [`TOLERATED`] of them.
#[derive(Default)]
pub(super) struct Failures {
    recent: HashMap<IpAddr, VecDeque<Instant>>,
}

impl Failures {
    /// Notes a failed attempt.
    pub(super) fn record(&mut self, address: IpAddr, now: Instant) {
        let address = network(address);
        if self.recent.len() >= ADDRESSES && !self.recent.contains_key(&address) {
            let oldest = self.recent.iter().min_by_key(|(_, times)| times.back().copied()).map(|(address, _)| *address);
            oldest.and_then(|address| self.recent.remove(&address));
        }
        let times = self.recent.entry(address).or_default();
        times.push_back(now);
        while times.len() > TOLERATED {
            times.pop_front();
        }
    }

    /// How long an attempt from this address has to wait.
    pub(super) fn delay(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let times = self.recent.get(&network(address))?;
        let oldest = times.front().filter(|_| times.len() >= TOLERATED)?;
        (now.saturating_duration_since(*oldest) < WINDOW).then_some(DELAY)
    }
}

/// What an address counts as: whoever has one IPv6 address usually has the other 2^64 of its network as well.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_sixth_attempt_within_a_minute_waits_and_others_do_not() {
        let (mut failures, start, here) = (Failures::default(), Instant::now(), address("2001:db8::1"));
        for second in 0..5 {
            assert_eq!(failures.delay(here, start), None);
            failures.record(here, start + Duration::from_secs(second));
        }
        assert_eq!(failures.delay(address("2001:db8::2"), start + Duration::from_secs(59)), Some(DELAY));
        assert_eq!(failures.delay(here, start + Duration::from_secs(61)), None);
        assert_eq!(failures.delay(address("2001:db8:0:1::1"), start + Duration::from_secs(5)), None);
    }

    #[test]
    fn the_table_forgets_the_oldest_rather_than_grow() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        for n in 0..5000u32 {
            failures.record(IpAddr::from(n.to_be_bytes()), start + Duration::from_millis(n.into()));
        }
        assert_eq!(failures.recent.len(), ADDRESSES);
        assert!(failures.recent.contains_key(&IpAddr::from(4999u32.to_be_bytes())));
    }
}
