//! The tables of the history, as the steps in which they came to be: each version of the database is one step ahead of the one before.

/// What makes the tables of a version from those of the one before; the first from nothing. A step that was released never changes.
pub(super) const MIGRATIONS: [&str; 4] = [TRANSFERS, IMPORTS, JUDGED, MEANT];

/// What shows a connection that cannot write the tables of a version as those of the next: one for each step but the first.
pub(super) const VIEWS: [&str; 3] = [NO_IMPORTS, NOT_JUDGED, AS_MEANT];

/// Times are seconds since 1970, rates bytes per second, absent values NULL: unknown, or no limit.
const TRANSFERS: &str = "
CREATE TABLE transfers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    began_s REAL NOT NULL,
    ended_s REAL,
    version TEXT NOT NULL,
    source TEXT NOT NULL,
    destination TEXT NOT NULL,
    source_name TEXT,
    destination_name TEXT,
    optimizer TEXT NOT NULL,
    policy TEXT NOT NULL,
    options TEXT NOT NULL,
    rtt_s REAL,
    bandwidth REAL,
    tcp_buffer INTEGER,
    mtu INTEGER,
    outcome TEXT NOT NULL,
    error TEXT,
    elapsed_s REAL,
    files_done INTEGER NOT NULL DEFAULT 0,
    files_skipped INTEGER NOT NULL DEFAULT 0,
    others_done INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0,
    bytes_done INTEGER NOT NULL DEFAULT 0,
    bytes_skipped INTEGER NOT NULL DEFAULT 0,
    bytes_resumed INTEGER NOT NULL DEFAULT 0,
    bytes_sent INTEGER NOT NULL DEFAULT 0,
    bytes_verified INTEGER NOT NULL DEFAULT 0,
    retries INTEGER NOT NULL DEFAULT 0,
    listed_files INTEGER,
    listed_bytes INTEGER,
    listed_complete INTEGER,
    size_classes TEXT,
    bottleneck TEXT,
    rate_limited INTEGER
);
CREATE INDEX transfers_by_time ON transfers (began_s);
CREATE TABLE intervals (
    transfer INTEGER NOT NULL REFERENCES transfers (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    elapsed_s REAL NOT NULL,
    interval_s REAL NOT NULL,
    read_concurrency REAL NOT NULL,
    network_concurrency REAL NOT NULL,
    write_concurrency REAL NOT NULL,
    parallelism INTEGER,
    pipelining INTEGER,
    read_throughput REAL NOT NULL,
    network_throughput REAL NOT NULL,
    write_throughput REAL NOT NULL,
    read_busy REAL NOT NULL,
    network_busy REAL NOT NULL,
    write_busy REAL NOT NULL,
    rtt_s REAL,
    loss REAL,
    files_done INTEGER NOT NULL,
    bytes_verified INTEGER NOT NULL,
    bottleneck TEXT,
    PRIMARY KEY (transfer, number)
) WITHOUT ROWID;
CREATE TABLE decisions (
    transfer INTEGER NOT NULL REFERENCES transfers (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    elapsed_s REAL NOT NULL,
    read_concurrency INTEGER NOT NULL,
    network_concurrency INTEGER NOT NULL,
    write_concurrency INTEGER NOT NULL,
    parallelism INTEGER,
    pipelining INTEGER,
    reason TEXT NOT NULL,
    PRIMARY KEY (transfer, number)
) WITHOUT ROWID;
";

/// Logs of other tools.
const IMPORTS: &str = "
CREATE TABLE imports (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    label TEXT NOT NULL,
    digest TEXT NOT NULL UNIQUE,
    imported_s REAL NOT NULL
);
CREATE TABLE imported (
    import INTEGER NOT NULL REFERENCES imports (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    began_s REAL NOT NULL,
    source TEXT NOT NULL,
    destination TEXT NOT NULL,
    bandwidth REAL,
    rtt_s REAL,
    tcp_buffer REAL,
    files INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    concurrency INTEGER NOT NULL,
    parallelism INTEGER NOT NULL,
    pipelining INTEGER NOT NULL,
    throughput REAL NOT NULL,
    PRIMARY KEY (import, number)
) WITHOUT ROWID;
CREATE INDEX imported_by_time ON imported (began_s);
";

/// Whether an interval says something of its setting; NULL in rows from before. Pairs of machines are looked up.
const JUDGED: &str = "
ALTER TABLE intervals ADD COLUMN judged INTEGER;
CREATE INDEX transfers_by_pair ON transfers (source, destination, began_s);
CREATE INDEX imported_by_pair ON imported (source, destination, began_s);
";

/// One request after the other is a pipelining of 1, which logs of other tools call 0. Files that are made up and discarded were kept as of
/// this machine at first; where they were named, this tells.
const MEANT: &str = "
UPDATE imported SET pipelining = 1 WHERE pipelining = 0;
UPDATE transfers SET source = 'zero' WHERE source = 'local' AND source_name LIKE 'zero:%';
UPDATE transfers SET destination = 'null' WHERE destination = 'local' AND destination_name = 'null:';
";

const NO_IMPORTS: &str = "
CREATE TEMP TABLE imports (id, label, digest, imported_s);
CREATE TEMP TABLE imported (import, number, began_s, source, destination, bandwidth, rtt_s, tcp_buffer, files, bytes, concurrency,
    parallelism, pipelining, throughput);
";

const NOT_JUDGED: &str = "
CREATE TEMP VIEW intervals AS SELECT *, NULL AS judged FROM main.intervals;
";

/// Where nothing could be imported yet, there is a table of that name already.
const AS_MEANT: &str = "
CREATE TEMP VIEW IF NOT EXISTS imported AS SELECT import, number, began_s, source, destination, bandwidth, rtt_s, tcp_buffer, files, bytes,
    concurrency, parallelism, max(pipelining, 1) AS pipelining, throughput FROM main.imported;
CREATE TEMP VIEW transfers AS SELECT id, began_s, ended_s, version,
    iif(source = 'local' AND source_name LIKE 'zero:%', 'zero', source) AS source,
    iif(destination = 'local' AND destination_name = 'null:', 'null', destination) AS destination,
    source_name, destination_name, optimizer, policy, options, rtt_s, bandwidth, tcp_buffer, mtu, outcome, error, elapsed_s, files_done,
    files_skipped, others_done, failed, removed, bytes_done, bytes_skipped, bytes_resumed, bytes_sent, bytes_verified, retries,
    listed_files, listed_bytes, listed_complete, size_classes, bottleneck, rate_limited
    FROM main.transfers;
";

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use rusqlite::{Connection, params};

    use super::super::database::{PATIENCE, migrate};
    use super::super::testing::column;
    use super::super::{Cell, History, Table};
    use super::*;

    /// A database of before sides without storage had words. What a transfer moved tells which it was: so many MB/s.
    fn of_before(directory: &Path) -> PathBuf {
        let path = directory.join("history.db");
        let mut old = Connection::open(&path).unwrap();
        assert_eq!(migrate(&mut old, &MIGRATIONS[..3]).unwrap(), 3);
        let named = |source, destination| (Some(source), Some(destination));
        let transfers = [
            ("local", (None, None), None),
            ("local", named("zero:4x1MiB", "edt://h/"), None),
            ("local", named("/data/zero:", "edt://h/"), None),
            ("local", (None, None), Some(true)),
            ("a_1", (None, None), None),
        ];
        for (number, (source, names, judged)) in (1..).zip(transfers) {
            old.execute(
                "INSERT INTO transfers (began_s, version, source, destination, source_name, destination_name, optimizer, policy, options,
                     outcome) VALUES (?1, '0', ?2, 'h_1', ?3, ?4, 'fixed', 'fair', '{}', 'complete')",
                params![number, source, names.0, names.1],
            )
            .unwrap();
            for second in 1..=2 {
                old.execute(
                    "INSERT INTO intervals (transfer, number, elapsed_s, interval_s, read_concurrency, network_concurrency,
                         write_concurrency, read_throughput, network_throughput, write_throughput, read_busy, network_busy, write_busy,
                         files_done, bytes_verified, judged)
                     VALUES (?1, ?2, ?2, 1, 4, 4, 4, 1e6, 1e6, ?1 * 1e6, 1, 1, 1, 9, 1000000, ?3)",
                    params![number, second, judged],
                )
                .unwrap();
            }
        }
        old.execute_batch(
            "INSERT INTO transfers (began_s, version, source, destination, source_name, destination_name, optimizer, policy, options,
                 outcome) VALUES (6, '0', 'h_1', 'local', 'edt://h/', 'null:', 'fixed', 'fair', '{}', 'complete');
             INSERT INTO imports VALUES (1, 'log', 'd', 1);
             INSERT INTO imported VALUES (1, 0, 1, 'a', 'b', 1e9, 0.1, 1e6, 1, 1, 2, 1, 0, 1e6);
             INSERT INTO imported VALUES (1, 1, 2, 'a', 'b', 1e9, 0.1, 1e6, 1, 1, 2, 1, 8, 1e6)",
        )
        .unwrap();
        path
    }

    fn texts(history: &History, name: &str) -> Vec<String> {
        let text = |cell| match cell {
            Cell::Text(text) => text,
            other => panic!("{other:?} is no text"),
        };
        column(history, Table::Transfers, name).into_iter().map(text).collect()
    }

    #[test]
    fn what_was_kept_otherwise_before_is_as_it_was_meant_and_teaches_only_what_is_certain() {
        let directory = tempfile::tempdir().unwrap();
        let path = of_before(directory.path());
        let check = |history: &History| {
            assert_eq!(texts(history, "source"), ["local", "zero", "local", "local", "a_1", "h_1"]);
            assert_eq!(texts(history, "destination"), ["h_1", "h_1", "h_1", "h_1", "h_1", "null"]);
            assert_eq!(column(history, Table::Imported, "pipelining"), [Cell::Integer(1), Cell::Integer(8)]);
            let moved = |source: &str, destination: &str| -> Vec<f64> {
                let pasts = history.pasts(source, destination).unwrap().into_iter();
                pasts.filter(|past| past.destination == destination).map(|past| past.goodput / 1e6).collect()
            };
            assert_eq!(moved("local", "h_1"), [3.0, 4.0, 5.0], "named, judged, and then one between other machines");
        };
        check(&History::open_read_only(&path, PATIENCE).unwrap());
        check(&History::open_at(&path).unwrap());
    }
}
