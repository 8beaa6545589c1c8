//! Who shares this host at present, for people: `edt jobs`.

use std::path::PathBuf;

use serde::Serialize;

use crate::broker::folder::Folder;
use crate::broker::limits::Budget;
use crate::broker::record::Record;
use crate::broker::table::Table;
use crate::broker::{is_present, now_ms};
use crate::error::{Error, ErrorKind, Result};

/// The transfers of this host that share its limits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hosted {
    /// The directory whose transfers these are.
    pub directory: PathBuf,
    /// Most streams of all together.
    pub streams: u16,
    /// Most bytes in buffers of all together.
    pub memory: u64,
    /// Most bytes per second of all together; `None`: no limit.
    pub rate: Option<f64>,
    /// The transfers, the oldest first.
    pub transfers: Vec<Sharer>,
}

/// One transfer of this host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sharer {
    /// Its process.
    pub process: u32,
    /// Milliseconds since it began.
    pub age_ms: u64,
    /// The server or service at the other side; `None` where there is none.
    pub server: Option<String>,
    /// Most streams that it may have at present.
    pub share: u16,
    /// Streams that it used when it was last measured.
    pub streams: u16,
    /// Bytes per second that it moved then.
    pub rate: f64,
    /// Most bytes per second that it may move at present; `None`: no limit.
    pub rate_share: Option<f64>,
    /// Bytes that it may hold in buffers.
    pub memory: u64,
    /// What its policy counts beside the others': 4 high, 2 fair, 1 low.
    pub weight: u8,
}

/// Looks up which transfers of this user, or of all who share the directory in `EDT_BROKER_DIR`, run on this host.
pub fn hosted() -> Result<Hosted> {
    let unread = |cause: &std::io::Error| Error::io("could not look up the transfers of this host", cause);
    Folder::find(None).and_then(Table::open).map_err(|cause| unread(&cause)).and_then(|mut table| {
        let records = table.alone(Table::records).map_err(|cause| unread(&cause))?;
        let busy =
            || Error::new(ErrorKind::Io, "could not look up the transfers of this host").with_cause("others keep the table");
        Ok(told(table.folder().to_owned(), &records.ok_or_else(busy)?, now_ms()))
    })
}

fn told(directory: PathBuf, records: &[Record], now_ms: u64) -> Hosted {
    let mut present: Vec<&Record> = records.iter().filter(|record| is_present(record.beat_ms, now_ms)).collect();
    present.sort_by_key(|record| (record.began_ms, record.slot));
    let budget = Budget::of(&present);
    let sharer = |record: &Record| Sharer {
        process: record.process,
        age_ms: now_ms.saturating_sub(record.began_ms),
        server: Some(record.server.clone()).filter(|server| !server.is_empty()),
        share: record.share,
        streams: record.used,
        rate: record.rate,
        rate_share: Some(record.rate_held).filter(|rate| rate.is_finite() && *rate > 0.0),
        memory: record.memory_held.min(record.memory_wanted),
        weight: record.weight,
    };
    Hosted {
        directory,
        streams: budget.streams,
        memory: budget.memory,
        rate: budget.rate,
        transfers: present.iter().map(|record| sharer(record)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Limits;

    #[test]
    fn those_who_are_present_are_told_the_oldest_first() {
        let record = |slot, process, began_ms, beat_ms| Record {
            slot,
            process,
            began_ms,
            beat_ms,
            used: 3,
            share: 8,
            rate_held: f64::INFINITY,
            memory_wanted: 96 << 20,
            memory_held: 1 << 30,
            limits: Limits { streams: Some(16), ..Limits::default() },
            ..Record::default()
        };
        let records = [record(0, 11, 70_000, 90_000), record(1, 22, 60_000, 90_000), record(2, 33, 10_000, 20_000)];
        let hosted = told(PathBuf::from("x"), &records, 100_000);
        let processes: Vec<u32> = hosted.transfers.iter().map(|one| one.process).collect();
        assert_eq!((hosted.streams, processes), (16, vec![22, 11]));
        let one = &hosted.transfers[0];
        assert_eq!((one.age_ms, one.share, one.streams, one.rate_share), (40_000, 8, 3, None));
        assert_eq!((one.server.as_ref(), one.memory), (None, 96 << 20));
    }
}
