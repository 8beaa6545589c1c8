//! How long past transfers are kept.

use std::sync::Once;
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

/// The same beside a transfer, whose own record waits for it.
const A_FEW: u64 = 2;

/// Pages that are given back to the system beside a transfer.
const A_FEW_PAGES: u32 = 256;

/// Transfers without an end that began less long ago may still run, and stay.
const RUNNING_S: f64 = 7.0 * 24.0 * 3600.0;

/// About how many bytes an imported row takes.
const IMPORTED_BYTES: u64 = 150;

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
        let days = days(std::env::var_os("EDT_HISTORY_DAYS").map(|days| days.to_string_lossy().into_owned()).as_deref());
        let older_than = days.map(|days| Duration::from_hours(24 * days));
        Self { older_than, most_bytes: Some(MOST_BYTES), imported: false }
    }
}

/// How many days transfers are kept, by the variable `EDT_HISTORY_DAYS`. What is no number of days removes none for its age.
fn days(variable: Option<&str>) -> Option<u64> {
    static SAID: Once = Once::new();
    let text = variable.unwrap_or_default().trim();
    if text.is_empty() {
        return Some(DAYS);
    }
    let days = text.parse::<u32>().ok().map(|days| u64::from(days.max(1)));
    if days.is_none() {
        SAID.call_once(|| tracing::warn!("`EDT_HISTORY_DAYS` is no whole number of days: nothing goes by itself for its age"));
    }
    days
}

impl History {
    /// Removes transfers, and gives the space of what was removed back to the system.
    pub fn prune(&mut self, prune: &Prune) -> Result<Pruned> {
        let mut pruned = Pruned::default();
        if prune.imported {
            pruned.imported = self.change(|connection| {
                let rows = connection.execute("DELETE FROM imported", [])?;
                connection.execute("DELETE FROM imports", [])?;
                Ok(rows as u64)
            })?;
        }
        let before = prune.older_than.map(|age| now_s() - age.as_secs_f64());
        while let removed @ 1.. = self.remove_surplus(before, prune.most_bytes, AT_ONCE)? {
            pruned.transfers += removed;
        }
        if pruned != Pruned::default() {
            self.give_back(None)?;
        }
        Ok(pruned)
    }

    /// Removes a few transfers of those that are due.
    pub(super) fn prune_a_few(&mut self) -> Result<()> {
        let due = Prune::due();
        let before = due.older_than.map(|age| now_s() - age.as_secs_f64());
        match self.remove_surplus(before, due.most_bytes, A_FEW)? {
            0 => Ok(()),
            _ => self.give_back(Some(A_FEW_PAGES)),
        }
    }

    /// Removes so many of the transfers that are too old or too many; returns how many there were.
    fn remove_surplus(&mut self, before: Option<f64>, most_bytes: Option<u64>, most: u64) -> Result<u64> {
        match self.surplus(before, most_bytes)? {
            Surplus::None => Ok(0),
            Surplus::Old(before) => self.change(|connection| remove(connection, before, most)),
            Surplus::Any => self.change(|connection| remove(connection, now_s() - YOUNG.as_secs_f64(), most)),
        }
    }

    /// Gives the space of what was removed back to the system: so many pages at most.
    fn give_back(&self, pages: Option<u32>) -> Result<()> {
        let given = match pages {
            Some(pages) => self.connection.pragma(None, "incremental_vacuum", pages, |_| Ok(())),
            None => self.connection.pragma_query(None, "incremental_vacuum", |_| Ok(())),
        };
        given.map_err(|cause| self.unread(&cause))
    }

    fn surplus(&self, before: Option<f64>, most_bytes: Option<u64>) -> Result<Surplus> {
        let failed = |cause: rusqlite::Error| self.unread(&cause);
        if let Some(before) = before {
            let old = format!("SELECT EXISTS (SELECT 1 FROM transfers WHERE {REMOVABLE})");
            if self.connection.query_row(&old, [before, now_s() - RUNNING_S], |row| row.get(0)).map_err(failed)? {
                return Ok(Surplus::Old(before));
            }
        }
        let beyond = most_bytes.map(|most| self.takes_more_than(most)).transpose().map_err(failed)?;
        Ok(if beyond == Some(true) { Surplus::Any } else { Surplus::None })
    }

    /// Whether the pages in use take more bytes, but for those of imported rows, which go only when they are told to.
    fn takes_more_than(&self, most: u64) -> rusqlite::Result<bool> {
        let pragma = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
        let used = pragma("page_count")?.saturating_sub(pragma("freelist_count")?) * pragma("page_size")?;
        if used <= most {
            return Ok(false);
        }
        let imported: u64 = self.connection.query_row("SELECT COUNT(*) FROM imported", [], |row| row.get(0))?;
        Ok(used.saturating_sub(imported * IMPORTED_BYTES) > most)
    }
}

/// Transfers that began before the first moment and run no more, as far as the second tells.
const REMOVABLE: &str = "began_s < ?1 AND (outcome <> 'unfinished' OR began_s < ?2)";

/// Which transfers are to go next.
enum Surplus {
    None,
    /// Those that began before.
    Old(f64),
    /// The oldest, whenever they began.
    Any,
}

/// Removes so many of the oldest transfers that began before a moment, and returns how many there were.
fn remove(connection: &Connection, before: f64, most: u64) -> rusqlite::Result<u64> {
    let oldest =
        format!("DELETE FROM transfers WHERE id IN (SELECT id FROM transfers WHERE {REMOVABLE} ORDER BY began_s LIMIT ?3)");
    connection.execute(&oldest, params![before, now_s() - RUNNING_S, most]).map(|removed| removed as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_that_are_no_number_remove_nothing() {
        for (variable, kept) in [(None, 180), (Some(""), 180), (Some(" 30 "), 30), (Some("0"), 1)] {
            assert_eq!(days(variable), Some(kept), "{variable:?}");
        }
        for mistake in ["abc", "30d", "1.5", "-1", "\u{fffd}"] {
            assert_eq!(days(Some(mistake)), None, "{mistake}");
        }
    }
}
