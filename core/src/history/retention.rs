//! How long past transfers are kept.

use std::time::Duration;

use rusqlite::{Connection, params};

use super::History;
use super::write::now_s;
use crate::error::Result;

/// How long a transfer is kept, where `EDT_HISTORY_DAYS` says nothing else.
const DAYS: u64 = 180;

/// Bytes that the database may hold before the oldest transfers go.
const MOST_BYTES: u64 = 256 << 20;

/// Transfers that are removed at a time, so that others who write need not wait.
const AT_ONCE: u64 = 20;

/// How often in a row that is done beside a transfer.
pub(super) const NOW_AND_THEN: u32 = 20;

/// Transfers that began less long ago than this may still run, and stay whatever they take.
const YOUNG: Duration = Duration::from_hours(24);

/// What to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prune {
    /// Transfers that began longer ago than this; `None`: whatever their age, none.
    pub older_than: Option<Duration>,
    /// The oldest transfers, until the database holds no more than so many bytes; `None`: whatever its size, none.
    pub most_bytes: Option<u64>,
    /// Whether what was imported goes too.
    pub imported: bool,
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Transfers, with their intervals and decisions.
    pub transfers: u64,
    /// Rows that were imported.
    pub imported: u64,
}

impl Prune {
    /// What goes by itself: transfers of more than 180 days (`EDT_HISTORY_DAYS`), and the oldest beyond 256 MiB.
    pub fn due() -> Self {
        let days = days(std::env::var("EDT_HISTORY_DAYS").ok().as_deref());
        let older_than = Some(Duration::from_hours(24 * days));
        Self { older_than, most_bytes: Some(MOST_BYTES), imported: false }
    }
}

fn days(variable: Option<&str>) -> u64 {
    variable.and_then(|days| days.parse::<u32>().ok()).map_or(DAYS, |days| u64::from(days.max(1)))
}

impl History {
    /// Removes transfers, and gives the space of what was removed back to the system.
    pub fn prune(&mut self, prune: &Prune) -> Result<Pruned> {
        self.prune_some(prune, u32::MAX)
    }

    /// The same in so many rounds at most, each of a moment.
    pub(super) fn prune_some(&mut self, prune: &Prune, rounds: u32) -> Result<Pruned> {
        let mut pruned = Pruned::default();
        if prune.imported {
            pruned.imported = self.change(|connection| {
                let rows = connection.execute("DELETE FROM imported", [])?;
                connection.execute("DELETE FROM imports", [])?;
                Ok(rows as u64)
            })?;
        }
        let before = prune.older_than.map(|age| now_s() - age.as_secs_f64());
        for _ in 0..rounds {
            let removed = match self.surplus(before, prune.most_bytes)? {
                Surplus::None => 0,
                Surplus::Old(before) => self.change(|connection| remove(connection, before))?,
                Surplus::Any => self.change(|connection| remove(connection, now_s() - YOUNG.as_secs_f64()))?,
            };
            if removed == 0 {
                break;
            }
            pruned.transfers += removed;
        }
        if pruned != Pruned::default() {
            let give_back = self.connection.pragma_query(None, "incremental_vacuum", |_| Ok(()));
            give_back.map_err(|cause| self.unread(&cause))?;
        }
        Ok(pruned)
    }

    fn surplus(&self, before: Option<f64>, most_bytes: Option<u64>) -> Result<Surplus> {
        let failed = |cause: rusqlite::Error| self.unread(&cause);
        if let Some(before) = before {
            let old = "SELECT EXISTS (SELECT 1 FROM transfers WHERE began_s < ?1)";
            if self.connection.query_row(old, [before], |row| row.get(0)).map_err(failed)? {
                return Ok(Surplus::Old(before));
            }
        }
        let beyond = most_bytes.map(|most| self.used_bytes().map(|used| used > most)).transpose().map_err(failed)?;
        Ok(if beyond == Some(true) { Surplus::Any } else { Surplus::None })
    }

    /// Bytes of the pages in use.
    fn used_bytes(&self) -> rusqlite::Result<u64> {
        let pragma = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
        Ok(pragma("page_count")?.saturating_sub(pragma("freelist_count")?) * pragma("page_size")?)
    }
}

/// Which transfers are to go next.
enum Surplus {
    None,
    /// Those that began before.
    Old(f64),
    /// The oldest, whenever they began.
    Any,
}

/// Removes some of the oldest transfers that began before a moment, and returns how many.
fn remove(connection: &Connection, before: f64) -> rusqlite::Result<u64> {
    let oldest = "DELETE FROM transfers WHERE id IN (SELECT id FROM transfers WHERE began_s < ?1 ORDER BY began_s LIMIT ?2)";
    connection.execute(oldest, params![before, AT_ONCE]).map(|removed| removed as u64)
}
