//! Tests of where things are kept, and of the database as the whole module uses it.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::database::migrate;
use super::schema::MIGRATIONS;
use super::testing::{age, column, ending, record, sampled, tuned};
use super::*;
use crate::options::{Remember, TransferOptions};

fn file(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("data").join("history.db")
}

fn text(word: &str) -> Cell {
    Cell::Text(word.to_owned())
}

fn key(source: &str, destination: &str) -> String {
    pair_key(&source.into(), &destination.into()).unwrap()
}

#[test]
fn a_pair_is_named_by_its_machines_and_not_by_its_paths() {
    assert_eq!(key("data/", "edt://dtn.example:9000/a/b"), "local--dtn.example_9000");
    assert_eq!(key("edts://dtn.example/", "null:"), "dtn.example_7632--local");
    assert_eq!(key("zero:4x1GiB", "file:///data"), "local--local");
    assert_eq!(key("edt://[fe80::1]:9/", "."), "fe80__1_9--local");
}

#[test]
fn no_host_name_leads_out_of_the_directory() {
    let file = path_file(&"edt://..:1/../x".into(), &"edt://a\\b%2f/".into(), 1).unwrap();
    assert_eq!(file.file_name().unwrap().to_str().unwrap(), ".._1--a_b_2f_7632.json");
    assert_eq!(file.parent().unwrap(), data_directory().unwrap().join("paths"));
}

#[test]
fn paths_and_agents_have_names_of_their_own() {
    let (source, destination) = (Endpoint::from("."), Endpoint::from("edt://h:1/"));
    assert!(path_file(&source, &destination, 1).unwrap().ends_with("paths/local--h_1.json"));
    assert!(path_file(&source, &destination, 3).unwrap().ends_with("paths/local--h_1-3.json"));
    assert!(agent_file(&source, &destination, "edt").unwrap().ends_with("agents/local--h_1-edt.safetensors"));
    assert_eq!(path_file(&source, &destination, 2).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn an_endpoint_that_is_none_has_no_key() {
    assert!(pair_key(&"gopher://x/".into(), &".".into()).is_err());
}

#[test]
fn a_transfer_leaves_its_row_its_intervals_and_its_decisions() {
    let directory = tempfile::tempdir().unwrap();
    record(&file(&directory), "dtn.example", 3);
    let history = History::open_at(&file(&directory)).unwrap();
    for (name, cell) in [
        ("source", text("local")),
        ("destination", text("dtn.example_7632")),
        ("source_name", Cell::Null),
        ("destination_name", Cell::Null),
        ("optimizer", text("falcon")),
        ("policy", text("fair")),
        ("outcome", text("complete")),
        ("error", Cell::Null),
        ("bytes_done", Cell::Integer(100 << 20)),
        ("elapsed_s", Cell::Real(3.5)),
        ("listed_files", Cell::Integer(100)),
        ("listed_complete", Cell::Boolean(true)),
        ("size_classes", text("[[20,100,104857600]]")),
        ("bottleneck", text("write")),
        ("rate_limited", Cell::Boolean(false)),
    ] {
        assert_eq!(column(&history, Table::Transfers, name), [cell], "{name}");
    }
    let numbers = [0, 1, 2].map(Cell::Integer);
    assert_eq!(column(&history, Table::Intervals, "number"), numbers);
    assert_eq!(column(&history, Table::Intervals, "rtt_s"), [0.04, 0.04, 0.04].map(Cell::Real));
    assert_eq!(column(&history, Table::Intervals, "parallelism"), [Cell::Null, Cell::Null, Cell::Null]);
    assert_eq!(column(&history, Table::Intervals, "pipelining"), [7, 7, 7].map(Cell::Integer));
    assert_eq!(column(&history, Table::Intervals, "judged"), vec![Cell::Boolean(true); 3]);
    assert_eq!(column(&history, Table::Decisions, "reason"), [text("4 are best")]);
    assert_eq!(history.newest(5).unwrap(), [1]);
}

#[test]
fn no_name_of_a_place_is_anywhere_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    record(&file(&directory), "dtn.example", 2);
    drop(History::open_at(&file(&directory)).unwrap());
    let bytes = std::fs::read(file(&directory)).unwrap();
    let holds = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
    assert!(holds(b"dtn.example_7632") && !holds(b"secret"));
}

#[cfg(unix)]
#[test]
fn the_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = tempfile::tempdir().unwrap();
    let history = History::open_at(&file(&directory)).unwrap();
    for name in ["history.db", "history.db-wal"] {
        let found = std::fs::metadata(file(&directory).with_file_name(name)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600, "{name}");
    }
    drop(history);
}

#[test]
fn a_transfer_that_ends_without_a_word_stays_unfinished_with_what_was_measured() {
    let directory = tempfile::tempdir().unwrap();
    let recording = Recording::begin(Some(Beginning::of_a_test(&file(&directory), "h")), "falcon");
    recording.recorder().interval(&sampled(1, 4.0), Duration::from_secs(1), &tuned(4).decision, Judged::No);
    drop(recording);
    let late = Instant::now() + Duration::from_secs(20);
    loop {
        let history = History::open_at(&file(&directory)).unwrap();
        if history.count(Table::Intervals).unwrap() == 1 {
            assert_eq!(column(&history, Table::Transfers, "outcome"), [text("unfinished")]);
            assert_eq!(column(&history, Table::Transfers, "ended_s"), [Cell::Null]);
            assert_eq!(column(&history, Table::Intervals, "judged"), [Cell::Boolean(false)]);
            return;
        }
        assert!(Instant::now() < late, "it was not written");
        std::thread::yield_now();
    }
}

#[test]
fn each_end_has_its_word() {
    let directory = tempfile::tempdir().unwrap();
    for end in [End::Incomplete, End::Cancelled, End::Failed(ErrorKind::ConnectionLost)] {
        Recording::begin(Some(Beginning::of_a_test(&file(&directory), "h")), "falcon").finish(ending(end));
    }
    let history = History::open_at(&file(&directory)).unwrap();
    assert_eq!(column(&history, Table::Transfers, "outcome"), ["incomplete", "cancelled", "failed"].map(text));
    assert_eq!(column(&history, Table::Transfers, "error"), [Cell::Null, Cell::Null, text("connection-lost")]);
}

#[test]
fn many_transfers_are_written_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let path = &path;
            scope.spawn(move || (0..5).for_each(|_| record(path, &format!("host-{number}"), 20)));
        }
    });
    let history = History::open_at(&path).unwrap();
    // A transfer does not wait for ever until its end is written.
    let late = Instant::now() + Duration::from_secs(20);
    while column(&history, Table::Transfers, "outcome") != vec![text("complete"); 40] && Instant::now() < late {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(column(&history, Table::Transfers, "outcome"), vec![text("complete"); 40]);
    assert_eq!(history.count(Table::Intervals).unwrap(), 40 * 20);
    let of_one = |table| {
        let mut rows = 0;
        history
            .rows(table, Some(7), |_| {
                rows += 1;
                Ok(())
            })
            .unwrap();
        rows
    };
    assert_eq!((of_one(Table::Transfers), of_one(Table::Intervals), of_one(Table::Decisions)), (1, 20, 1));
}

#[test]
fn tables_of_an_older_version_are_brought_up_to_date_with_their_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let mut old = Connection::open(&path).unwrap();
    assert_eq!(migrate(&mut old, &MIGRATIONS[..1]).unwrap(), 1);
    old.execute_batch(
        "INSERT INTO transfers (began_s, version, source, destination, optimizer, policy, options, outcome)
         VALUES (1, '0', 'a', 'b', 'fixed', 'fair', '{}', 'complete');
         INSERT INTO intervals (transfer, number, elapsed_s, interval_s, read_concurrency, network_concurrency, write_concurrency,
             read_throughput, network_throughput, write_throughput, read_busy, network_busy, write_busy, files_done, bytes_verified)
         VALUES (1, 0, 1, 1, 4, 4, 4, 1e6, 1e6, 1e6, 1, 1, 1, 9, 1000000), (1, 1, 2, 1, 4, 4, 4, 1, 1, 1, 1, 1, 1, 9, 1000000)",
    )
    .unwrap();
    drop(old);
    let history = History::open_at(&path).unwrap();
    assert_eq!(column(&history, Table::Transfers, "source"), [text("a")]);
    assert_eq!(history.count(Table::Imported).unwrap(), 0);
    let version: i64 = history.connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, i64::try_from(MIGRATIONS.len()).unwrap());
    // Nobody judged then, and the last interval counts for nothing.
    assert_eq!(column(&history, Table::Intervals, "judged"), [Cell::Null, Cell::Null]);
    let pasts = history.pasts("a", "b").unwrap();
    assert_eq!((pasts.len(), pasts[0].goodput), (1, 1e6));
}

#[test]
fn tables_of_a_newer_version_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    drop(History::open_at(&file(&directory)).unwrap());
    Connection::open(file(&directory)).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = History::open_at(&file(&directory)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.cause().unwrap().contains("99") && error.hint().unwrap().contains("newer edt"));
    // A transfer goes on without it.
    record(&file(&directory), "h", 1);
}

#[test]
fn every_column_is_one_of_the_database_and_none_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let history = History::open_at(&file(&directory)).unwrap();
    for table in Table::ALL {
        let mut statement = history.connection.prepare(&format!("SELECT * FROM {}", table.name())).unwrap();
        // The label of an import stands in a table of its own.
        let names: Vec<&str> = table.columns().iter().map(|column| column.name).filter(|name| *name != "label").collect();
        assert_eq!(statement.column_names().collect::<Vec<_>>(), names);
        assert!(statement.query([]).unwrap().next().unwrap().is_none());
        assert_eq!(Table::named(table.name()), Some(table));
    }
}

#[test]
fn a_file_that_is_none_or_cannot_be_made_keeps_nobody_from_a_transfer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    std::fs::write(&path, vec![b'x'; 8192]).unwrap();
    let error = History::open_at(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupted);
    assert!(error.hint().unwrap().contains("move"), "{error:?}");
    let begun = Instant::now();
    record(&path, "h", 3);
    assert_eq!(std::fs::read(&path).unwrap(), vec![b'x'; 8192]);
    let below_a_file = path.join("history.db");
    assert!(History::open_at(&below_a_file).unwrap_err().hint().unwrap().contains("EDT_DATA_DIR"));
    record(&below_a_file, "h", 3);
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_writer_that_has_to_wait_holds_up_no_end_for_long() {
    let directory = tempfile::tempdir().unwrap();
    let holder = History::open_at(&file(&directory)).unwrap();
    holder.connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = Instant::now();
    record(&file(&directory), "h", 1);
    assert_eq!(History::open_at(&file(&directory)).unwrap().count(Table::Transfers).unwrap(), 0);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    holder.connection.execute_batch("ROLLBACK").unwrap();
}

fn sizes(path: &Path) -> (u64, u64) {
    let history = History::open_at(path).unwrap();
    let pragma = |name| history.connection.pragma_query_value(None, name, |row| row.get(0)).unwrap();
    (pragma("page_count"), pragma("freelist_count"))
}

#[test]
fn a_transfer_whose_row_was_removed_leaves_nothing_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    let recording = Recording::begin(Some(Beginning::of_a_test(&path, "h")), "falcon");
    let late = Instant::now() + Duration::from_secs(20);
    let history = History::open_at(&path).unwrap();
    while history.connection.execute("DELETE FROM transfers", []).unwrap() == 0 {
        assert!(Instant::now() < late, "it was not begun");
        std::thread::yield_now();
    }
    recording.recorder().interval(&sampled(1, 4.0), Duration::from_secs(1), &tuned(4).decision, Judged::Yes);
    recording.finish(ending(End::Complete));
    assert_eq!((history.count(Table::Transfers).unwrap(), history.count(Table::Intervals).unwrap()), (0, 0));
}

#[test]
fn whoever_is_slow_to_use_rows_keeps_nobody_from_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    let log = "start_s,files,bytes,concurrency,throughput_bytes_per_s\n";
    let many = format!("{log}{}", "7,5,500,2,1e6\n".repeat(2500));
    let mut history = History::open_at(&path).unwrap();
    history.import_from(many.as_bytes(), "log", "log").unwrap();
    let other = History::open_at(&path).unwrap();
    other.connection.busy_timeout(Duration::ZERO).unwrap();
    let mut numbers = Vec::new();
    let each = |row: Vec<Cell>| {
        if numbers.is_empty() {
            other.connection.execute("UPDATE imports SET label = 'other'", []).unwrap();
            // All of the log of changes can be put into the database only while nobody reads.
            let left: i64 = other.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
            assert_eq!(left, 0);
        }
        numbers.push(row[2].clone());
        Ok(())
    };
    history.rows(Table::Imported, Some(1), each).unwrap();
    assert!(numbers.into_iter().eq((0..2500).map(Cell::Integer)));
    let one = history.page(Table::Imported, None, Some((1, 2497)), 10).unwrap();
    assert_eq!((one.rows.len(), one.last), (2, None));
    let full = history.page(Table::Imported, None, Some((1, 99)), 3).unwrap();
    assert_eq!((full.rows[0][2].clone(), full.last), (Cell::Integer(100), Some((1, 102))));
}

#[test]
fn what_has_no_storage_at_one_side_is_kept_and_teaches_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    for (source, destination) in [("data", "edt://h/x"), ("zero:4x1MiB", "edt://h/x"), ("edt://h/x", "null:")] {
        let options = TransferOptions { history: Remember::Machines, ..TransferOptions::default() };
        let beginning = Beginning::of(&[source.into()], &destination.into(), &options).unwrap();
        let recording = Recording::begin(Some(beginning.into_file(&path)), "falcon");
        recording.recorder().interval(&sampled(1, 4.0), Duration::from_secs(1), &tuned(4).decision, Judged::Yes);
        recording.finish(ending(End::Complete));
    }
    let history = History::open_at(&path).unwrap();
    assert_eq!(column(&history, Table::Transfers, "source"), ["local", "zero", "h_7632"].map(text));
    let pasts = history.pasts("local", "h_7632").unwrap();
    assert_eq!(pasts.iter().map(|past| past.source.as_str()).collect::<Vec<_>>(), ["local"]);
}

#[test]
fn old_transfers_go_with_all_that_belongs_to_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    (0..30).for_each(|_| record(&path, "old", 30));
    let mut history = History::open_at(&path).unwrap();
    age(&history, 200);
    record(&path, "new", 1);
    // The new one has taken some with it, and the rest goes here.
    let pruned = history.prune(&Prune::due()).unwrap();
    assert!(pruned.transfers <= 30 && pruned.imported == 0);
    assert_eq!(column(&history, Table::Transfers, "destination"), [text("new_7632")]);
    assert_eq!((history.count(Table::Intervals).unwrap(), history.count(Table::Decisions).unwrap()), (1, 1));
    assert_eq!(history.prune(&Prune::due()).unwrap(), Pruned::default());
    drop(history);
    let (pages, free) = sizes(&path);
    assert!(free == 0 && pages < 40, "{pages} pages, {free} of them free");
}

#[test]
fn the_oldest_go_where_all_take_too_much_but_for_those_of_today() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    (0..30).for_each(|_| record(&path, "h", 100));
    let mut history = History::open_at(&path).unwrap();
    let tight = Prune { most_bytes: Some(1), ..Prune::default() };
    assert_eq!(history.prune(&tight).unwrap().transfers, 0);
    age(&history, 2);
    record(&path, "young", 1);
    assert_eq!(history.prune(&tight).unwrap().transfers, 30);
    assert_eq!(column(&history, Table::Transfers, "destination"), [text("young_7632")]);
}

#[test]
fn past_transfers_of_the_pair_come_first_and_held_back_ones_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    record(&path, "other", 3);
    record(&path, "dtn", 3);
    let mut history = History::open_at(&path).unwrap();
    age(&history, 1);
    record(&path, "dtn", 3);
    record(&path, "limited", 3);
    let limit = "UPDATE transfers SET options = json_set(options, '$.limit_rate', 1e6) WHERE destination = 'limited_7632'";
    history.connection.execute(limit, []).unwrap();
    let log = directory.path().join("log.csv");
    let rows = "start_s,source,destination,files,bytes,concurrency,throughput_bytes_per_s\n7,local,dtn_7632,5,500,2,1e6\n8,a,b,1,9,2,1e6";
    std::fs::write(&log, rows).unwrap();
    assert_eq!(history.import(&log, "log").unwrap(), Imported::Rows(2));
    let pasts = history.pasts("local", "dtn_7632").unwrap();
    let found: Vec<_> = pasts.iter().map(|past| (past.destination.as_str(), past.concurrency, past.pipelining)).collect();
    assert_eq!(found, [("dtn_7632", 2, 1), ("dtn_7632", 4, 7), ("dtn_7632", 4, 7), ("b", 2, 1), ("other_7632", 4, 7)]);
    assert!(pasts[..3].is_sorted_by(|one, next| one.began_s < next.began_s));
    assert_eq!((pasts[1].files, pasts[1].goodput, pasts[1].parallelism), (100, 4e7, 1));
}
