//! What a transfer knows of the sharing, and its turns at the table.

use std::io;
use std::path::PathBuf;

use crate::broker::folder::Folder;
use crate::broker::record::{Record, shortened};
use crate::broker::share::{self, Share};
use crate::broker::table::{self, Slot, Table};
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

/// One transfer among the others, or without them as long as it finds no place.
pub(super) struct State {
    /// Where the table lies, if not where all look for it.
    directory: Option<PathBuf>,
    seat: Option<Seat>,
    /// Whether it has had a place, and so a share among the others.
    seated: bool,
    pub(super) record: Record,
    pub(super) claim: Claim,
    pub(super) share: Share,
    /// Streams of the last decision.
    decided: u16,
    /// Whether there has been a limit of the rate.
    pub(super) limited: bool,
    /// Whether it was said that there is no place any more.
    said: bool,
}

/// A slot of the table.
struct Seat {
    table: Table,
    slot: Slot,
}

impl State {
    /// Takes a place, and nothing else yet. Without one the transfer keeps to a part of what its own options say.
    pub(super) fn join(directory: Option<PathBuf>, limits: Limits, claim: Claim) -> Self {
        let record = at_first(&claim, limits, now_ms());
        let share = Share::of(&record, &[]);
        let (seat, seated, limited, said) = (None, false, false, false);
        let mut state = Self { directory, seat, seated, record, claim, share, decided: 1, limited, said };
        if let Err(cause) = state.sit(table::PATIENTLY) {
            state.go_without(&cause);
        }
        state
    }

    /// Computes the share from what all have written, and keeps as much of it until it is [`State::settle`]d. Where the table cannot be had
    /// now the last share goes on.
    pub(super) fn ask(&mut self, used: Option<Use>) {
        if let Some(used) = used {
            self.measured(used);
        }
        let mut asked = self.turn();
        // The table may have been removed, and another one made.
        if asked.is_err() && self.seat.take().is_some() {
            asked = self.turn();
        }
        if let Err(cause) = asked {
            self.go_without(&cause);
        }
        self.limited |= self.share.rate.is_some();
    }

    fn turn(&mut self) -> io::Result<()> {
        if self.seat.is_none() {
            self.sit(table::ATTEMPTS)?;
        }
        self.wake();
        let Some(Seat { table, slot }) = &mut self.seat else { return Ok(()) };
        let (record, own_rate) = (&mut self.record, self.claim.rate.unwrap_or(f64::INFINITY));
        let asked = table.alone(|table| {
            let now = now_ms();
            let share = look(table, record, now)?;
            record.beat_ms = now;
            record.share = share.streams;
            record.held = record.used.max(share.streams);
            record.rate_held = share.rate.map_or(f64::INFINITY, |(rate, _)| rate).min(own_rate);
            record.memory_held = share.memory;
            table.write(slot, record)?;
            Ok(share)
        })?;
        if let Some(share) = asked {
            self.share = share;
        } else {
            tracing::debug!("the shares of the host's transfers could not be looked up now");
        }
        Ok(())
    }

    /// What it had before it was silent for long others may have.
    fn wake(&mut self) {
        if !is_present(self.record.beat_ms, now_ms()) {
            (self.decided, self.record.held) = (1, 1);
        }
    }

    /// Takes a place.
    fn sit(&mut self, attempts: u32) -> io::Result<()> {
        let mut table = Table::open(Folder::find(self.directory.as_deref())?)?;
        let record = &mut self.record;
        let taken = table.alone_within(attempts, |table| {
            let slot = table.claim()?.ok_or_else(|| io::Error::other("all places are taken"))?;
            (record.slot, record.beat_ms) = (slot.number, now_ms());
            let share = look(table, record, record.beat_ms)?;
            table.write(&slot, record)?;
            Ok((slot, share))
        })?;
        let (slot, share) = taken.ok_or_else(|| io::Error::other("another transfer stays at the table"))?;
        (self.seat, self.share) = (Some(Seat { table, slot }), share);
        (self.seated, self.said) = (true, false);
        Ok(())
    }

    /// Keeps to the share that it had, or else to a part of its own limits: those who set limits for the host did so for all of them, and
    /// nobody is seen now. Says so once: aloud if somebody has asked for limits.
    fn go_without(&mut self, cause: &io::Error) {
        self.seat = None;
        if !self.seated {
            self.share = Share::unseen(&self.record);
        }
        if std::mem::replace(&mut self.said, true) {
            return;
        }
        if self.record.limits == Limits::default() {
            tracing::debug!(%cause, "this transfer does not share the limits of the host");
        } else if self.seated {
            tracing::warn!("this transfer keeps the share of the host's limits that it had: {cause}");
        } else {
            tracing::warn!("this transfer counts as one of {} within the limits of the host: {cause}", share::SUPPOSED);
        }
    }

    /// Gives everything back, until it asks again.
    pub(super) fn leave(&mut self) {
        (self.record, self.decided) = (at_first(&self.claim, self.record.limits, self.record.began_ms), 1);
        let Some(Seat { mut table, slot }) = self.seat.take() else { return };
        let left = match table.alone(|table| table.leave(&slot)) {
            Ok(None) => table.leave(&slot),
            left => left.map(drop),
        };
        if let Err(cause) = left {
            tracing::debug!(%cause, "could not leave the other transfers of the host");
        }
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
        self.wake();
        let Some(Seat { table, slot }) = &mut self.seat else { return };
        self.record.held = self.decided.max(self.record.used);
        self.record.beat_ms = now_ms();
        if let Err(cause) = table.alone(|table| table.write(slot, &self.record)) {
            tracing::debug!(%cause, "could not tell the other transfers of the host");
        }
    }

    /// What the others see after a minute without a word.
    #[cfg(test)]
    pub(super) fn fall_silent(&mut self) {
        self.record.beat_ms -= 60_000;
        let Some(Seat { table, slot }) = &mut self.seat else { return };
        table.write(slot, &self.record).unwrap();
    }

    /// The most workers of a stage at this host.
    pub(super) fn largest(&self, workers: PerStage<u16>) -> u16 {
        let here = self.claim.here;
        let counted = [(workers.read, here.read), (workers.network, here.network), (workers.write, here.write)];
        counted.iter().filter(|(_, here)| *here).map(|(workers, _)| *workers).max().unwrap_or(0)
    }
}

/// What a transfer tells of itself before it has anything.
fn at_first(claim: &Claim, limits: Limits, began_ms: u64) -> Record {
    Record {
        process: std::process::id(),
        began_ms,
        server: shortened(&claim.server),
        weight: weight(claim.policy),
        limit: claim.limit,
        wanted: 1,
        held: 1,
        rate_wanted: claim.rate.unwrap_or(f64::INFINITY),
        memory_wanted: claim.memory,
        limits,
        ..Record::default()
    }
}

/// The share of a transfer among all others that are present.
fn look(table: &mut Table, own: &Record, now_ms: u64) -> io::Result<Share> {
    let others = table.records()?.into_iter();
    let others: Vec<Record> = others.filter(|other| other.slot != own.slot && is_present(other.beat_ms, now_ms)).collect();
    Ok(Share::of(own, &others))
}

/// What a policy counts beside the others'.
fn weight(policy: PolicyName) -> u8 {
    match policy {
        PolicyName::High => 4,
        PolicyName::Fair | PolicyName::Fixed => 2,
        PolicyName::Low => 1,
    }
}
