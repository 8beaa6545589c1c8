//! What a transfer knows of the sharing, and its turns at the table.

use std::io;

use crate::broker::record::{Record, shortened};
use crate::broker::share::{self, Share};
use crate::broker::table::{Slot, Table};
use crate::broker::{Limits, is_present, now_ms};
use crate::optimizer::{PerStage, PolicyName};

/// The part of a stream that a mean over time may have too much.
const NOISE: f64 = 0.05;

/// What a transfer brings along.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// The server or service at the other side; empty where there is none.
    pub(crate) server: String,
    /// How hard it competes.
    pub(crate) policy: PolicyName,
    /// Most streams that it may have by its own options.
    pub(crate) limit: u16,
    /// The stages whose workers are at this host: the network always is.
    pub(crate) here: PerStage<bool>,
    /// Bytes that it would hold in buffers.
    pub(crate) memory: u64,
    /// Most bytes per second that it may move by its own options.
    pub(crate) rate: Option<f64>,
}

/// What a transfer was measured to use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    /// Time-averaged workers of each stage.
    pub(crate) workers: PerStage<f64>,
    /// Bytes per second.
    pub(crate) rate: f64,
}

/// One transfer at the table.
pub(super) struct State {
    pub(super) table: Table,
    pub(super) slot: Slot,
    pub(super) record: Record,
    pub(super) claim: Claim,
    pub(super) share: Share,
    /// Streams of the last decision.
    decided: u16,
    /// Whether there has been a limit of the rate.
    pub(super) limited: bool,
}

impl State {
    pub(super) fn join(mut table: Table, limits: Limits, claim: Claim) -> io::Result<Option<Self>> {
        let now = now_ms();
        let record = Record {
            process: std::process::id(),
            began_ms: now,
            beat_ms: now,
            server: shortened(&claim.server),
            weight: weight(claim.policy),
            limit: claim.limit,
            wanted: 1,
            held: 1,
            rate_wanted: claim.rate.unwrap_or(f64::INFINITY),
            memory_wanted: claim.memory,
            limits,
            ..Record::default()
        };
        let joined = table.alone_to_join(|table| {
            let Some(slot) = table.claim()? else { return Ok(None) };
            let record = Record { slot: slot.number, ..record };
            table.write(&slot, &record)?;
            Ok(Some((slot, record)))
        })?;
        let Some((slot, record)) = joined.flatten() else { return Ok(None) };
        let share = Share::of(&record, &[]);
        Ok(Some(Self { table, slot, record, claim, share, decided: 1, limited: false }))
    }

    /// Computes the share from what all have written, and keeps as much of it until it is [`State::settle`]d. Where the table cannot be had
    /// now the last share goes on.
    pub(super) fn ask(&mut self, used: Option<Use>) {
        if let Some(used) = used {
            self.measured(used);
        }
        let (record, slot, own_rate) = (&mut self.record, &self.slot, self.claim.rate.unwrap_or(f64::INFINITY));
        let asked = self.table.alone(|table| {
            let now = now_ms();
            let others = table.records()?.into_iter();
            let others: Vec<Record> =
                others.filter(|other| other.slot != slot.number && is_present(other.beat_ms, now)).collect();
            let share = Share::of(record, &others);
            record.beat_ms = now;
            record.share = share.streams;
            record.held = record.used.max(share.streams);
            record.rate_held = share.rate.map_or(f64::INFINITY, |(rate, _)| rate).min(own_rate);
            record.memory_held = share.memory;
            table.write(slot, record)?;
            Ok(share)
        });
        match asked {
            Ok(Some(share)) => self.share = share,
            Ok(None) => tracing::debug!("the shares of the host's transfers could not be looked up now"),
            Err(cause) => tracing::debug!(%cause, "the shares of the host's transfers could not be looked up"),
        }
        self.limited |= self.share.rate.is_some();
    }

    pub(super) fn settle(&mut self, decided: u16) {
        self.decided = decided;
        self.record.wanted = share::wanted(decided, self.share.streams, self.claim.limit);
        self.write();
    }

    /// Takes note of what is used. What was given up is held as long as it is still used.
    pub(super) fn measured(&mut self, used: Use) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
        let workers = used.workers.map(|workers| (workers - NOISE).ceil() as u16);
        self.record.used = self.largest(workers);
        self.record.rate = used.rate;
        self.record.rate_wanted = share::rate_wanted(used.rate, self.share.rate, self.claim.rate);
    }

    pub(super) fn write(&mut self) {
        self.record.held = self.decided.max(self.record.used);
        self.record.beat_ms = now_ms();
        let (record, slot) = (&self.record, &self.slot);
        if let Err(cause) = self.table.alone(|table| table.write(slot, record)) {
            tracing::debug!(%cause, "could not tell the other transfers of the host");
        }
    }

    /// The most workers of a stage at this host.
    pub(super) fn largest(&self, workers: PerStage<u16>) -> u16 {
        let here = self.claim.here;
        let counted = [(workers.read, here.read), (workers.network, here.network), (workers.write, here.write)];
        counted.iter().filter(|(_, here)| *here).map(|(workers, _)| *workers).max().unwrap_or(0)
    }
}

/// What a policy counts beside the others'.
fn weight(policy: PolicyName) -> u8 {
    match policy {
        PolicyName::High => 4,
        PolicyName::Fair | PolicyName::Fixed => 2,
        PolicyName::Low => 1,
    }
}
