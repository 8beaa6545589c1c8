//! Where the latest transfers over a path settled: read beside what a transfer does before it can begin, from files that are left as they
//! are.

use std::path::Path;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use rusqlite::{Row, params};

use super::History;
use super::beginning::Beginning;
use crate::error::Result;

/// How long the reading is waited for beyond connecting, and how long it waits for those that write.
const PATIENCE: Duration = Duration::from_millis(50);

/// How old a transfer may be, and how many of the newest of a path are looked at.
const MOST_AGE: Duration = Duration::from_hours(30 * 24);
const NEWEST: u32 = 200;

/// Intervals after which a transfer counts as settled, and how many of the last ones after them are looked at, at most and at least.
const SETTLING: u32 = 8;
const LAST: (u32, usize) = (10, 5);

/// Complete transfers over a path that were tuned as this one will be, within no less: the optimizer, the policy, the interval and the
/// limits are the same.
const TRANSFERS: &str = "
SELECT id, rtt_s, coalesce(listed_files, files_done) + others_done, coalesce(listed_bytes, bytes_done)
FROM (SELECT * FROM transfers WHERE source = ?1 AND destination = ?2 AND began_s > ?3 ORDER BY began_s DESC LIMIT ?4)
WHERE outcome = 'complete' AND optimizer IN ('auto (model)', 'model') AND policy = ?5 AND NOT rate_limited
    AND json_extract(options, '$.max_streams') >= json_extract(?6, '$.max_streams')
    AND json_extract(options, '$.interval_s') IS json_extract(?6, '$.interval_s')
    AND json_extract(options, '$.limit_rate') IS json_extract(?6, '$.limit_rate')
    AND json_extract(options, '$.worker_rate') IS json_extract(?6, '$.worker_rate')
    AND json_extract(options, '$.parallelism') IS json_extract(?6, '$.parallelism')
    AND json_extract(options, '$.pipelining') IS json_extract(?6, '$.pipelining')
    AND json_extract(options, '$.congestion') IS json_extract(?6, '$.congestion')
ORDER BY began_s DESC";

/// What the last intervals of a transfer that tell of their setting were like. Where the network is not metered, what was written counts.
/// With far more readers or writers than streams the network did not limit: then streams that also read and write would be too few.
const INTERVALS: &str = "
SELECT network_concurrency, iif(network_throughput > 0, network_throughput, write_throughput)
FROM intervals WHERE transfer = ?1 AND number >= ?2 AND judged
    AND max(read_concurrency, write_concurrency) < 1.5 * network_concurrency
ORDER BY number DESC LIMIT ?3";

/// Where a transfer settled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Settled {
    /// Round trip time of its path in seconds; `None` if it was not measured.
    pub(crate) rtt_s: Option<f64>,
    /// Mean size of its files, directories and links, in bytes.
    pub(crate) mean_size: f64,
    /// The median of its streams.
    pub(crate) streams: u16,
    /// The median of what they moved, in bytes per second.
    pub(crate) rate: f64,
}

/// The reading of what a path is remembered by.
#[derive(Debug, Default)]
pub(crate) struct Recollection {
    found: Option<Receiver<Vec<Settled>>>,
}

impl Recollection {
    /// Begins to read for a transfer. Of copies within this machine, which are over many paths, nothing is remembered.
    pub(crate) fn begin(beginning: &Beginning) -> Self {
        if !beginning.has_path() {
            return Self::default();
        }
        let (sender, found) = bounded(1);
        let beginning = beginning.clone();
        let read = move || {
            let settled = beginning.file.clone().and_then(|file| read(&file, &beginning)).unwrap_or_else(|error| {
                tracing::debug!("nothing is remembered of the path: {error}");
                Vec::new()
            });
            let _ = sender.send(settled);
        };
        let started = std::thread::Builder::new().name("edt-memory".to_owned()).spawn(read);
        Self { found: started.is_ok().then_some(found) }
    }

    /// What was found, the newest first. A disk or a lock that hangs is waited for no longer than a moment: then it is nothing.
    pub(crate) fn end(self) -> Vec<Settled> {
        self.found.and_then(|found| found.recv_timeout(PATIENCE).ok()).unwrap_or_default()
    }
}

fn read(file: &Path, beginning: &Beginning) -> Result<Vec<Settled>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let history = History::open_to_glance(file, PATIENCE)?;
    history.settled(beginning).map_err(|cause| history.unread(&cause))
}

impl History {
    /// Where transfers like one that begins settled, the newest first.
    fn settled(&self, like: &Beginning) -> rusqlite::Result<Vec<Settled>> {
        let oldest_s = like.began_s - MOST_AGE.as_secs_f64();
        let mut transfers = self.connection.prepare(TRANSFERS)?;
        let mut intervals = self.connection.prepare(INTERVALS)?;
        let mut found = Vec::new();
        let mut rows = transfers.query(params![like.source, like.destination, oldest_s, NEWEST, like.policy, like.options])?;
        while let Some(row) = rows.next()? {
            let interval = |row: &Row<'_>| -> rusqlite::Result<(f64, f64)> { Ok((row.get(0)?, row.get(1)?)) };
            let last = intervals.query_map(params![row.get::<_, i64>(0)?, SETTLING, LAST.0], interval)?;
            let (streams, rates): (Vec<f64>, Vec<f64>) = last.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().unzip();
            if streams.len() >= LAST.1 {
                let (items, bytes): (f64, f64) = (row.get(2)?, row.get(3)?);
                let mean_size = bytes / items.max(1.0);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is within the bounds of the type"
                )]
                let streams = median(streams).round().clamp(1.0, f64::from(u16::MAX)) as u16;
                found.push(Settled { rtt_s: row.get(1)?, mean_size, streams, rate: median(rates) });
            }
        }
        Ok(found)
    }
}

/// The one in the middle; the greater one of two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Instant;

    use rusqlite::Connection;

    use super::super::recording::{End, Judged, Recording};
    use super::super::testing::{age, ending, record, sampled, tuned};
    use super::*;
    use crate::optimizer::PolicyName;
    use crate::options::{Remember, TransferOptions};

    fn file(directory: &tempfile::TempDir) -> PathBuf {
        directory.path().join("history.db")
    }

    fn options() -> TransferOptions {
        TransferOptions { history: Remember::Machines, ..TransferOptions::default() }
    }

    fn beginning(file: &Path, source: &str, destination: &str, options: &TransferOptions) -> Beginning {
        Beginning::of(&[source.into()], &destination.into(), options).unwrap().into_file(file)
    }

    /// Keeps a transfer that had so many streams in each interval.
    fn keep(beginning: Beginning, optimizer: &str, end: End, streams: &[f64]) {
        let recording = Recording::begin(Some(beginning.over(Some(Duration::from_millis(40)), None)), optimizer);
        for (second, streams) in (1..).zip(streams) {
            let decision = tuned(4).decision;
            recording.recorder().interval(&sampled(second, *streams), Duration::from_secs(1), &decision, Judged::Yes);
        }
        recording.finish(ending(end));
    }

    const SETTLED: [f64; 16] = [4.0, 15.0, 9.0, 40.0, 40.0, 40.0, 40.0, 40.0, 12.0, 12.1, 16.0, 12.0, 12.0, 9.0, 12.2, 12.0];

    #[test]
    fn a_transfer_that_settled_on_the_same_way_under_the_same_limits_is_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let of = |source: &str, destination: &str, options: &TransferOptions| {
            beginning(&file(&directory), source, destination, options)
        };
        let keep_at = |streams: f64, options: &TransferOptions| {
            keep(of("a", "edt://h/", options), "model", End::Complete, &[streams; 16]);
        };
        assert_eq!(Recollection::begin(&of("a", "edt://h/", &options())).end(), []);
        assert!(!file(&directory).exists(), "reading begins no history");
        keep(of("a", "edt://h/", &options()), "auto (model)", End::Complete, &SETTLED);
        for (optimizer, end, streams) in [
            ("falcon", End::Complete, &SETTLED[..]),
            ("model", End::Cancelled, &SETTLED),
            ("model", End::Complete, &SETTLED[..12]),
        ] {
            keep(of("a", "edt://h/", &options()), optimizer, end, streams);
        }
        keep(of("edt://h/", "a", &options()), "model", End::Complete, &[20.0; 16]);
        keep(of("a", "edt://other/", &options()), "model", End::Complete, &[21.0; 16]);
        keep(of("zero:4x1MiB", "edt://h/", &options()), "model", End::Complete, &[22.0; 16]);
        keep_at(23.0, &TransferOptions { policy: PolicyName::Low, ..options() });
        keep_at(24.0, &TransferOptions { congestion: Some("bbr".to_owned()), ..options() });
        keep_at(25.0, &TransferOptions { limit_rate: Some(1e6), ..options() });
        keep_at(26.0, &TransferOptions { max_streams: 63.try_into().unwrap(), ..options() });
        let found = |options: &TransferOptions| -> Vec<_> {
            let history = History::open_to_glance(&file(&directory), PATIENCE).unwrap();
            history.settled(&of("elsewhere/", "edt://h/b", options)).unwrap()
        };
        let settled = Settled { rtt_s: Some(0.04), mean_size: 1_048_576.0, streams: 12, rate: 120e6 };
        assert_eq!(found(&options()), [settled]);
        let streams = |options| found(&options).iter().map(|settled| settled.streams).collect::<Vec<_>>();
        assert_eq!(streams(TransferOptions { policy: PolicyName::Low, ..options() }), [23]);
        assert_eq!(streams(TransferOptions { congestion: Some("bbr".to_owned()), ..options() }), [24]);
        assert_eq!(streams(TransferOptions { max_streams: 8.try_into().unwrap(), ..options() }), [26, 12]);
        assert_eq!(found(&TransferOptions { interval: Some(Duration::from_secs(1)), ..options() }), []);
        // Many that were too short to settle are no reason to forget the one that did.
        for _ in 0..20 {
            keep(of("a", "edt://h/", &options()), "model", End::Complete, &[3.0; 12]);
        }
        // One read, and two wrote: streams that do both would be too few.
        keep_at(1.3, &options());
        assert_eq!(found(&options()), [settled]);
        age(&History::open_at(&file(&directory)).unwrap(), 29);
        assert_eq!(found(&options()), [settled]);
        age(&History::open_at(&file(&directory)).unwrap(), 1);
        assert_eq!(found(&options()), []);
    }

    #[test]
    fn copies_within_this_machine_and_sides_without_storage_have_no_path() {
        let has = |source, destination| beginning(Path::new("no file"), source, destination, &options()).has_path();
        assert!(has("a", "edt://h/") && has("edt://h/", "a") && has("edt://h/", "edt://g/"));
        assert!(!has("a", "b") && !has("zero:4x1MiB", "edt://h/") && !has("edt://h/", "null:"));
    }

    /// The files of a directory with their content, but for the memory that processes share.
    fn content(directory: &Path) -> Vec<(std::ffi::OsString, Option<Vec<u8>>)> {
        let file = |path: PathBuf| {
            let name = path.file_name().unwrap().to_owned();
            let shared = name.to_string_lossy().ends_with("-shm");
            (name, (!shared).then(|| std::fs::read(path).unwrap()))
        };
        let mut found: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| file(entry.unwrap().path())).collect();
        found.sort();
        found
    }

    #[test]
    fn reading_leaves_every_file_as_it_is_and_makes_none() {
        let directory = tempfile::tempdir().unwrap();
        let like = beginning(&file(&directory), "a", "edt://h/", &options());
        // As a transfer leaves it, with a log that nobody has moved into the database.
        keep(like.clone(), "model", End::Complete, &SETTLED);
        let before = content(directory.path());
        assert_eq!(before.len(), 3, "{before:?}");
        assert_eq!(read(&file(&directory), &like).unwrap().len(), 1);
        assert_eq!(content(directory.path()), before);
        // As one who looks at it leaves it, all in one file.
        drop(History::open_at(&file(&directory)).unwrap());
        let before = content(directory.path());
        assert_eq!(before.len(), 1, "{before:?}");
        assert_eq!(read(&file(&directory), &like).unwrap().len(), 1);
        assert_eq!(content(directory.path()), before);
    }

    #[test]
    fn what_is_of_another_version_or_no_database_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let like = beginning(&file(&directory), "a", "edt://h/", &options());
        std::fs::write(file(&directory), "no database ".repeat(1000)).unwrap();
        assert!(read(&file(&directory), &like).is_err());
        for version in [1, 99] {
            std::fs::remove_file(file(&directory)).unwrap();
            record(&file(&directory), "h", 20);
            let connection = Connection::open(file(&directory)).unwrap();
            connection.pragma_update(None, "user_version", version).unwrap();
            drop(connection);
            let before = content(directory.path());
            assert!(read(&file(&directory), &like).is_err());
            assert_eq!(content(directory.path()), before);
        }
    }

    #[test]
    fn neither_a_lock_nor_a_disk_that_hangs_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let like = beginning(&file(&directory), "a", "edt://h/", &options());
        keep(like.clone(), "model", End::Complete, &SETTLED);
        let locking = Connection::open(file(&directory)).unwrap();
        locking.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; DELETE FROM transfers").unwrap();
        let (never, found) = bounded(1);
        for recollection in [Recollection::begin(&like), Recollection { found: Some(found) }] {
            let begun = Instant::now();
            assert_eq!(recollection.end(), []);
            assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        }
        drop(never);
        locking.execute_batch("ROLLBACK").unwrap();
    }
}
