//! Transfers made up for the tests of the history.

use std::path::Path;
use std::time::Duration;

use super::beginning::Beginning;
use super::recording::{End, Ending, Judged, Recording};
use super::{Cell, History, Table};
use crate::event::{Sampled, Stage, Totals, Tuned};
use crate::optimizer::{Buffers, Decision, Listed, PerStage};

/// An interval of a second with so many streams, of which each moved 10 MB/s.
pub(super) fn sampled(second: u32, streams: f64) -> Sampled {
    Sampled {
        elapsed_s: f64::from(second),
        throughput: PerStage::all(1e7 * streams),
        concurrency: PerStage { read: 1.0, network: streams, write: 2.0 },
        busy: PerStage::all(0.5),
        buffers: Buffers::default(),
        rtt_ms: Some(40.0),
        loss: None,
        totals: Totals { files_done: u64::from(second), bytes_verified: u64::from(second) << 20, ..Totals::default() },
        bottleneck: Some(Stage::Network),
    }
}

pub(super) fn tuned(streams: u16) -> Tuned {
    Tuned { elapsed_s: 0.0, decision: Decision { pipelining: 7, ..Decision::uniform(streams, format!("{streams} are best")) } }
}

/// The end of a transfer of 100 files of 1 MiB.
pub(super) fn ending(end: End) -> Ending {
    let mut listed = Listed { complete: true, ..Listed::default() };
    (0..100).for_each(|_| listed.add(1 << 20));
    let totals = Totals { files_done: 100, bytes_done: 100 << 20, elapsed_s: 3.5, ..Totals::default() };
    Ending { end, totals, listed, bottleneck: Some(Stage::Write), rate_limited: false }
}

/// Records a transfer of that many intervals to a machine.
pub(super) fn record(file: &Path, destination: &str, seconds: u32) {
    let recording = Recording::begin(Some(Beginning::of_a_test(file, destination)), "falcon");
    let recorder = recording.recorder();
    recorder.decision(&tuned(4), None);
    for second in 1..=seconds {
        recorder.interval(&sampled(second, 4.0), Duration::from_secs(1), &tuned(4).decision, Judged::Yes);
    }
    recording.finish(ending(End::Complete));
}

/// The cells of a column, of all rows of a table.
pub(super) fn column(history: &History, table: Table, name: &str) -> Vec<Cell> {
    let at = table.columns().iter().position(|column| column.name == name).unwrap();
    let mut cells = Vec::new();
    history
        .rows(table, None, |mut row| {
            cells.push(row.swap_remove(at));
            Ok(())
        })
        .unwrap();
    cells
}

/// Makes transfers older.
pub(super) fn age(history: &History, days: u32) {
    let sql = "UPDATE transfers SET began_s = began_s - 86400.0 * ?1";
    history.connection.execute(sql, [days]).unwrap();
}
