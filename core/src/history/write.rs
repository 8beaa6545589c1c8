//! What is written of a transfer: its row when it begins, intervals and decisions while it goes on, and the rest of its row at the end.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, named_params, params};

use super::History;
use super::beginning::{Beginning, word};
use super::recording::{Batch, End, Ending, IntervalRow, Judged};
use crate::error::Result;
use crate::event::{Totals, Tuned};
use crate::optimizer::Listed;

const BEGIN: &str = "
INSERT INTO transfers (began_s, version, source, destination, source_name, destination_name, optimizer, policy, options, rtt_s,
    bandwidth, tcp_buffer, mtu, outcome)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 'unfinished')";

const INTERVAL: &str = "
INSERT OR REPLACE INTO intervals (transfer, number, elapsed_s, interval_s, read_concurrency, network_concurrency, write_concurrency,
    parallelism, pipelining, read_throughput, network_throughput, write_throughput, read_busy, network_busy, write_busy, rtt_s, loss,
    files_done, bytes_verified, bottleneck, judged)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";

const DECISION: &str = "
INSERT OR REPLACE INTO decisions (transfer, number, elapsed_s, read_concurrency, network_concurrency, write_concurrency, parallelism,
    pipelining, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

const END: &str = "
UPDATE transfers SET ended_s = :ended_s, outcome = :outcome, error = :error, elapsed_s = :elapsed_s, files_done = :files_done,
    files_skipped = :files_skipped, others_done = :others_done, failed = :failed, removed = :removed, bytes_done = :bytes_done,
    bytes_skipped = :bytes_skipped, bytes_resumed = :bytes_resumed, bytes_sent = :bytes_sent, bytes_verified = :bytes_verified,
    retries = :retries, bottleneck = :bottleneck, rate_limited = :rate_limited
WHERE id = :id";

const LISTED: &str = "
UPDATE transfers SET listed_files = ?2, listed_bytes = ?3, listed_complete = ?4, size_classes = ?5 WHERE id = ?1";

impl History {
    /// Writes the row of a transfer that begins, and returns its number.
    pub(super) fn begin(&mut self, beginning: &Beginning) -> Result<i64> {
        let facts = beginning.path_facts();
        let names = beginning.names.as_ref();
        self.change(|connection| {
            connection.execute(
                BEGIN,
                params![
                    beginning.began_s,
                    env!("CARGO_PKG_VERSION"),
                    beginning.source,
                    beginning.destination,
                    names.map(|names| &names.0),
                    names.map(|names| &names.1),
                    beginning.optimizer,
                    beginning.policy,
                    beginning.options,
                    beginning.rtt.map(|rtt| rtt.as_secs_f64()),
                    facts.bandwidth,
                    facts.tcp_buffer,
                    facts.mtu,
                ],
            )?;
            Ok(connection.last_insert_rowid())
        })
    }

    /// Writes intervals and decisions of a transfer.
    pub(super) fn write(&mut self, transfer: i64, batch: &Batch) -> Result<()> {
        self.change(|connection| rows(connection, transfer, batch))
    }

    /// Whether the row of a transfer was removed while it went on. Where that cannot be told it was not.
    pub(super) fn has_removed(&self, transfer: i64) -> bool {
        let there = "SELECT EXISTS (SELECT 1 FROM transfers WHERE id = ?1)";
        self.connection.query_row(there, [transfer], |row| row.get(0)).is_ok_and(|there: bool| !there)
    }

    /// Writes the end of a transfer, and with it what was not written before.
    pub(super) fn end(&mut self, transfer: i64, batch: &Batch, ending: &Ending) -> Result<()> {
        self.change(|connection| {
            rows(connection, transfer, batch)?;
            end(connection, transfer, ending)?;
            // A sender elsewhere may not have told of the files before all was over.
            if ending.listed.files() > 0 { listed(connection, transfer, &ending.listed) } else { Ok(()) }
        })
    }
}

fn rows(connection: &Connection, transfer: i64, batch: &Batch) -> rusqlite::Result<()> {
    let mut insert = connection.prepare(INTERVAL)?;
    for (number, row) in &batch.intervals.rows {
        interval(&mut insert, transfer, *number, row)?;
    }
    let mut insert = connection.prepare(DECISION)?;
    for (number, row) in &batch.decisions.rows {
        decision(&mut insert, transfer, *number, row)?;
    }
    Ok(())
}

fn interval(insert: &mut rusqlite::Statement<'_>, transfer: i64, number: u64, row: &IntervalRow) -> rusqlite::Result<()> {
    let sampled = &row.sampled;
    let (workers, moved, busy) = (sampled.concurrency, sampled.throughput, sampled.busy);
    insert.execute(params![
        transfer,
        number,
        sampled.elapsed_s,
        row.length.as_secs_f64(),
        workers.read,
        workers.network,
        workers.write,
        limit(row.parallelism),
        limit(row.pipelining),
        moved.read,
        moved.network,
        moved.write,
        busy.read,
        busy.network,
        busy.write,
        sampled.rtt_ms.map(|rtt_ms| rtt_ms / 1000.0),
        sampled.loss,
        whole(sampled.totals.files_done),
        whole(sampled.totals.bytes_verified),
        sampled.bottleneck.map(word),
        row.judged == Judged::Yes,
    ])?;
    Ok(())
}

fn decision(insert: &mut rusqlite::Statement<'_>, transfer: i64, number: u64, row: &Tuned) -> rusqlite::Result<()> {
    let decision = &row.decision;
    let workers = decision.concurrency;
    insert.execute(params![
        transfer,
        number,
        row.elapsed_s,
        workers.read,
        workers.network,
        workers.write,
        limit(decision.parallelism),
        limit(decision.pipelining),
        decision.reason,
    ])?;
    Ok(())
}

fn end(connection: &Connection, transfer: i64, ending: &Ending) -> rusqlite::Result<()> {
    let (outcome, error) = match &ending.end {
        End::Complete => ("complete", None),
        End::Incomplete => ("incomplete", None),
        End::Cancelled => ("cancelled", None),
        End::Failed(kind) => ("failed", Some(kind.name())),
    };
    let totals: &Totals = &ending.totals;
    connection.execute(
        END,
        named_params! {
            ":id": transfer, ":ended_s": now_s(), ":outcome": outcome, ":error": error, ":elapsed_s": totals.elapsed_s,
            ":files_done": whole(totals.files_done), ":files_skipped": whole(totals.files_skipped), ":others_done": whole(totals.others_done),
            ":failed": whole(totals.failed), ":removed": whole(totals.removed), ":bytes_done": whole(totals.bytes_done),
            ":bytes_skipped": whole(totals.bytes_skipped), ":bytes_resumed": whole(totals.bytes_resumed), ":bytes_sent": whole(totals.bytes_sent),
            ":bytes_verified": whole(totals.bytes_verified), ":retries": whole(totals.retries),
            ":bottleneck": ending.bottleneck.map(word), ":rate_limited": ending.rate_limited,
        },
    )?;
    Ok(())
}

/// Size classes as JSON: exponent, files and bytes of each.
fn listed(connection: &Connection, transfer: i64, listed: &Listed) -> rusqlite::Result<()> {
    let classes: Vec<(u8, u64, u64)> = listed.classes.iter().map(|class| (class.exponent, class.files, class.bytes)).collect();
    let classes = serde_json::to_string(&classes).unwrap_or_default();
    connection.execute(LISTED, params![transfer, whole(listed.files()), whole(listed.bytes()), listed.complete, classes])?;
    Ok(())
}

/// A number as the database can hold it; what a peer has told may be larger.
fn whole(number: impl Into<u64>) -> i64 {
    i64::try_from(number.into()).unwrap_or(i64::MAX)
}

/// A limit as it is kept: none is NULL.
fn limit(number: u16) -> Option<u16> {
    (number != u16::MAX).then_some(number)
}

/// Seconds since 1970.
pub(super) fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64()
}
