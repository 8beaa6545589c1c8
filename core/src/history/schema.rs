//! The tables of the history, as the steps in which they came to be: each version of the database is one step ahead of the one before.

/// What makes the tables of a version from those of the one before; the first from nothing. A step that was released never changes.
pub(super) const MIGRATIONS: [&str; 3] = [TRANSFERS, IMPORTS, JUDGED];

/// What shows a connection that cannot write the tables of a version as those of the next: one for each step but the first.
pub(super) const VIEWS: [&str; 2] = [NO_IMPORTS, NOT_JUDGED];

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

const NO_IMPORTS: &str = "
CREATE TEMP TABLE imports (id, label, digest, imported_s);
CREATE TEMP TABLE imported (import, number, began_s, source, destination, bandwidth, rtt_s, tcp_buffer, files, bytes, concurrency,
    parallelism, pipelining, throughput);
";

const NOT_JUDGED: &str = "
CREATE TEMP VIEW intervals AS SELECT *, NULL AS judged FROM main.intervals;
";
