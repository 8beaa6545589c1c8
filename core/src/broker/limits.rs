//! What options and variables say of the limits of the host, and what holds for all its transfers.

use std::ffi::OsString;
use std::num::NonZeroU16;

use minicbor::{Decode, Encode};

use crate::broker::record::Record;
use crate::buffer::memory_limit;
use crate::endpoint::{parse_rate, parse_size};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{HostLimits, Sharing};

/// Streams to all servers together, and to one, where nothing else is said: of the first a transfer alone never comes near, of the second it
/// has all that [`crate::TransferOptions::max_streams`] allows by default.
const STREAMS: (u16, u16) = (256, 64);

/// The part of the machine's memory that buffers may take where nothing else is said.
const MEMORY_PART: u64 = 4;

/// The least that can be asked for: a transfer needs that much.
const LEAST_MEMORY: u64 = 16 << 20;

/// What one transfer says of the limits of the host; where it says nothing, others may, and else the defaults hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct Limits {
    /// Streams of all transfers.
    #[n(0)]
    pub(super) streams: Option<u16>,
    /// Streams to one server or service.
    #[n(1)]
    pub(super) server_streams: Option<u16>,
    /// Bytes in buffers.
    #[n(2)]
    pub(super) memory: Option<u64>,
    /// Bytes per second.
    #[n(3)]
    pub(super) rate: Option<f64>,
}

impl Limits {
    /// What options say, and variables where those do not; `None` if the transfer takes no part.
    pub(crate) fn read(options: &HostLimits) -> Result<Option<Self>> {
        Self::read_from(options, std::env::var_os)
    }

    fn read_from(options: &HostLimits, variable: impl Fn(&'static str) -> Option<OsString>) -> Result<Option<Self>> {
        // One that is no text holds something all the same, which is refused.
        let text = |name| variable(name).map(|value| value.to_string_lossy().trim().to_owned());
        let variable = |name| text(name).filter(|text| !text.is_empty());
        let apart = match (options.sharing, variable("EDT_BROKER").as_deref()) {
            (Sharing::Apart, _) | (Sharing::Environment, Some("off")) => true,
            (Sharing::Shared, _) | (Sharing::Environment, None | Some("on")) => false,
            (Sharing::Environment, Some(_)) => return Err(unusable("EDT_BROKER", "write `on` or `off`")),
        };
        if apart {
            return Ok(None);
        }
        let number = |name: &'static str, option: Option<NonZeroU16>| {
            let given = |text: String| text.parse::<NonZeroU16>().map_err(|_| unusable(name, "write a number from 1 to 65535"));
            option.map_or_else(|| variable(name).map(given).transpose(), |number| Ok(Some(number)))
        };
        let memory = |text: String| parse_size(&text).ok_or_else(|| unusable("EDT_HOST_MEMORY", "write bytes: 4GiB or 4GB"));
        let rate = |text: String| parse_rate(&text).ok_or_else(|| unusable("EDT_HOST_RATE", "write 100MB or 800Mbit"));
        let limits = Self {
            streams: number("EDT_HOST_STREAMS", options.streams)?.map(NonZeroU16::get),
            server_streams: number("EDT_SERVER_STREAMS", options.server_streams)?.map(NonZeroU16::get),
            memory: options
                .memory
                .map_or_else(|| variable("EDT_HOST_MEMORY").map(memory).transpose(), |bytes| Ok(Some(bytes)))?,
            rate: options.rate.map_or_else(|| variable("EDT_HOST_RATE").map(rate).transpose(), |rate| Ok(Some(rate)))?,
        };
        limits.check().map(Some)
    }

    fn check(self) -> Result<Self> {
        let bad = |text: &str| Err(Error::new(ErrorKind::InvalidInput, text));
        if self.memory.is_some_and(|bytes| bytes < LEAST_MEMORY) {
            return bad("the memory of all transfers of this host must be at least 16 MiB");
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate < 1.0) {
            return bad("the rate of all transfers of this host must be at least one byte per second");
        }
        Ok(self)
    }
}

fn unusable(variable: &str, hint: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("could not use the variable `{variable}`")).with_hint(hint)
}

/// What all transfers of the host may have together: of what several of them say the least holds, so that they agree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget<'a> {
    present: &'a [&'a Record],
    /// Streams.
    pub(super) streams: u16,
    /// Bytes in buffers.
    pub(super) memory: u64,
    /// Bytes per second.
    pub(super) rate: Option<f64>,
}

impl<'a> Budget<'a> {
    /// Of all that are present.
    pub(super) fn of(present: &'a [&'a Record]) -> Self {
        let said = |of: fn(&Limits) -> Option<u16>| present.iter().filter_map(|record| of(&record.limits)).min();
        let memory = present.iter().filter_map(|record| record.limits.memory).min();
        Self {
            present,
            streams: said(|limits| limits.streams).unwrap_or_else(|| STREAMS.0.max(widest(present, |_| true))),
            memory: memory.unwrap_or_else(|| memory_limit() / MEMORY_PART),
            rate: present.iter().filter_map(|record| record.limits.rate).min_by(f64::total_cmp),
        }
    }

    /// Streams to one server.
    pub(super) fn of_server(&self, server: &str) -> u16 {
        let said = self.present.iter().filter_map(|record| record.limits.server_streams).min();
        let own = said.unwrap_or_else(|| STREAMS.1.max(widest(self.present, |record| record.server == server)));
        own.min(self.streams)
    }
}

/// The most streams that one of them may have by its own options: a default is never less.
fn widest(present: &[&Record], which: impl Fn(&Record) -> bool) -> u16 {
    present.iter().filter(|record| which(record)).map(|record| record.limit).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &HostLimits, variables: &[(&str, &str)]) -> Result<Option<Limits>> {
        Limits::read_from(options, |name| variables.iter().find(|(other, _)| *other == name).map(|(_, text)| text.into()))
    }

    #[test]
    fn options_win_over_variables_and_nothing_is_said_by_default() {
        let none = HostLimits::default();
        assert_eq!(read(&none, &[]).unwrap(), Some(Limits::default()));
        let variables =
            [("EDT_HOST_STREAMS", "16"), ("EDT_SERVER_STREAMS", " 8 "), ("EDT_HOST_MEMORY", "1GiB"), ("EDT_HOST_RATE", "80Mbit")];
        let said = Limits { streams: Some(16), server_streams: Some(8), memory: Some(1 << 30), rate: Some(1e7) };
        assert_eq!(read(&none, &variables).unwrap(), Some(said));
        let options = HostLimits { streams: NonZeroU16::new(9), rate: Some(5e6), ..none };
        assert_eq!(read(&options, &variables).unwrap(), Some(Limits { streams: Some(9), rate: Some(5e6), ..said }));
    }

    #[test]
    fn a_transfer_takes_no_part_if_the_option_or_the_variable_says_so() {
        let of = |sharing| HostLimits { sharing, ..HostLimits::default() };
        assert!(read(&of(Sharing::Environment), &[("EDT_BROKER", "off")]).unwrap().is_none());
        assert!(read(&of(Sharing::Shared), &[("EDT_BROKER", "off")]).unwrap().is_some());
        assert!(read(&of(Sharing::Apart), &[("EDT_BROKER", "on"), ("EDT_HOST_STREAMS", "x")]).unwrap().is_none());
        assert!(read(&of(Sharing::Environment), &[("EDT_BROKER", "")]).unwrap().is_some());
    }

    #[test]
    fn what_is_not_understood_is_refused_by_its_name() {
        let mistakes = [("EDT_BROKER", "no"), ("EDT_HOST_STREAMS", "0"), ("EDT_HOST_MEMORY", "much"), ("EDT_HOST_RATE", "fast")];
        for (name, text) in mistakes {
            let error = read(&HostLimits::default(), &[(name, text)]).unwrap_err();
            assert!(error.what().contains(name) && error.kind() == ErrorKind::InvalidInput, "{error}");
        }
        for options in
            [HostLimits { memory: Some(1), ..HostLimits::default() }, HostLimits { rate: Some(0.0), ..HostLimits::default() }]
        {
            assert!(read(&options, &[]).is_err());
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_text_is_refused_too() {
        use std::os::unix::ffi::OsStringExt as _;

        for name in ["EDT_BROKER", "EDT_HOST_STREAMS", "EDT_SERVER_STREAMS", "EDT_HOST_MEMORY", "EDT_HOST_RATE"] {
            let variable = |other: &'static str| (other == name).then(|| OsString::from_vec(b"1\xff".to_vec()));
            let error = Limits::read_from(&HostLimits::default(), variable).unwrap_err();
            assert!(error.what().contains(name) && error.kind() == ErrorKind::InvalidInput, "{error}");
        }
    }

    #[test]
    fn the_least_that_is_said_holds_and_a_default_is_never_less_than_one_transfer_may_have() {
        let of = |limit, limits| Record { server: "a".to_owned(), limit, limits, ..Record::default() };
        let (narrow, wide) = (of(64, Limits::default()), of(300, Limits::default()));
        let budget = |present: &[&Record]| (Budget::of(present).streams, Budget::of(present).of_server("a"));
        assert_eq!(budget(&[&narrow]), (256, 64));
        assert_eq!(budget(&[&narrow, &wide]), (300, 300));
        assert_eq!(Budget::of(&[&wide]).of_server("b"), 64);
        let (two, five) = (Limits { streams: Some(2), ..Limits::default() }, Limits { streams: Some(5), ..Limits::default() });
        assert_eq!(budget(&[&wide, &of(64, two), &of(64, five)]), (2, 2));
        let said = Limits { server_streams: Some(7), rate: Some(5.0), memory: Some(100), ..Limits::default() };
        let record = of(64, said);
        let present = [&record, &wide];
        let budget = Budget::of(&present);
        assert_eq!((budget.of_server("b"), budget.rate, budget.memory), (7, Some(5.0), 100));
    }
}
