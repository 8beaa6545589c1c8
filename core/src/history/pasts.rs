//! Past transfers for optimizers that learn from them: those of edt, stretch by stretch, and those of other tools.

use std::time::{Duration, Instant};

use rusqlite::{Row, params};

use super::shares::Amount;
use super::stretches::{Facts, Measured, stretches};
use super::{History, Past, place};
use crate::endpoint::{Endpoint, Location};
use crate::error::Result;
use crate::optimizer::SizeClass;

/// Intervals of a transfer that are looked at.
const MOST_OF_ONE: usize = 5000;

const OF_PAIR: &str = "source = ?1 AND destination = ?2";
const OF_OTHERS: &str = "NOT (source = ?1 AND destination = ?2)";

const TRANSFERS: &str = "
SELECT id, began_s, source, destination, bandwidth, rtt_s, tcp_buffer, coalesce(listed_files, files_done),
    coalesce(listed_bytes, bytes_done), coalesce(listed_complete, 0), size_classes, json_extract(options, '$.chunk_size')
FROM transfers";

/// Transfers that somebody held back tell nothing of a path.
const TELLING: &str = "json_extract(options, '$.limit_rate') IS NULL AND json_extract(options, '$.worker_rate') IS NULL";

/// Nor do those of which a side is no storage. Before intervals were judged these were kept as of this machine: where no name was kept
/// either, a transfer from then may be one of them.
const OF_STORAGE: &str =
    "source <> 'zero' AND destination <> 'null' AND NOT ('local' IN (source, destination) AND source_name IS NULL
    AND (SELECT judged FROM intervals WHERE transfer = transfers.id ORDER BY number LIMIT 1) IS NULL)";

const INTERVALS: &str = "
SELECT elapsed_s, interval_s, network_concurrency, parallelism, pipelining, write_throughput, files_done, bytes_verified, judged
FROM intervals WHERE transfer = ?1 ORDER BY number LIMIT ?2";

const IMPORTED: &str = "
SELECT began_s, source, destination, bandwidth, rtt_s, tcp_buffer, files, bytes, concurrency, parallelism, pipelining, throughput
FROM imported";

/// The past transfers of this user: those between the machines of two endpoints first, each part oldest first. Reading them takes no longer
/// than a moment; what there was no time for is left out, the oldest first.
pub fn pasts(source: &Endpoint, destination: &Endpoint) -> Result<Vec<Past>> {
    let (source, destination) = (place(source)?, place(destination)?);
    let effort = Effort::of_a_moment();
    match History::open_to_read_within(effort.time)? {
        Some(history) => history.pasts_within(&source, &destination, effort.begun()),
        None => Ok(Vec::new()),
    }
}

/// What reading may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Past transfers, or stretches of them, that are handed out.
    pub(super) pasts: usize,
    /// Transfers of edt that are looked at.
    pub(super) transfers: usize,
    /// Intervals of them that may still be looked at.
    pub(super) intervals: usize,
    /// The time it takes, and that for others that write.
    pub(super) time: Duration,
    until: Instant,
}

impl Effort {
    pub(super) fn of_a_moment() -> Self {
        Self::of(60_000, 5000, 400_000, Duration::from_secs(1))
    }

    pub(super) fn of(pasts: usize, transfers: usize, intervals: usize, time: Duration) -> Self {
        Self { pasts, transfers, intervals, time, until: Instant::now() + time }
    }

    /// The same, from now on.
    fn begun(self) -> Self {
        Self { until: Instant::now() + self.time, ..self }
    }

    fn is_spent(&self) -> bool {
        self.intervals == 0 || Instant::now() >= self.until
    }
}

impl History {
    /// Past transfers: those between two machines first, each part oldest first. Where there are very many, those of other machines and
    /// the oldest are left out.
    pub fn pasts(&self, source: &str, destination: &str) -> Result<Vec<Past>> {
        self.pasts_within(source, destination, Effort::of_a_moment())
    }

    pub(super) fn pasts_within(&self, source: &str, destination: &str, mut effort: Effort) -> Result<Vec<Past>> {
        let pair = (source, destination);
        let mut pasts = self.newest_pasts(pair, OF_PAIR, &mut effort).map_err(|cause| self.unread(&cause))?;
        let of_pair = pasts.len();
        if of_pair < effort.pasts {
            pasts.extend(self.newest_pasts(pair, OF_OTHERS, &mut effort).map_err(|cause| self.unread(&cause))?);
        }
        pasts.truncate(effort.pasts);
        let (of_pair, others) = pasts.split_at_mut(of_pair.min(effort.pasts));
        of_pair.reverse();
        others.reverse();
        Ok(pasts)
    }

    /// Those of edt and of other tools, the newest first.
    fn newest_pasts(&self, pair: (&str, &str), which: &str, effort: &mut Effort) -> rusqlite::Result<Vec<Past>> {
        let mut pasts = self.own(pair, which, effort)?;
        pasts.extend(self.imported(pair, which, effort)?);
        pasts.sort_by(|one, other| other.began_s.total_cmp(&one.began_s));
        Ok(pasts)
    }

    fn own(&self, pair: (&str, &str), which: &str, effort: &mut Effort) -> rusqlite::Result<Vec<Past>> {
        let newest = format!("{TRANSFERS} WHERE {which} AND {TELLING} AND {OF_STORAGE} ORDER BY began_s DESC LIMIT ?3");
        let mut transfers = self.connection.prepare(&newest)?;
        let mut intervals = self.connection.prepare(INTERVALS)?;
        let mut pasts = Vec::new();
        let mut rows = transfers.query(params![pair.0, pair.1, effort.transfers])?;
        while let Some(row) = rows.next()? {
            let (id, facts): (i64, Facts) = (row.get(0)?, facts(row)?);
            let most = MOST_OF_ONE.min(effort.intervals);
            let measured = intervals.query_map(params![id, most], measured)?.collect::<rusqlite::Result<Vec<_>>>()?;
            effort.intervals -= measured.len();
            pasts.extend(stretches(&facts, &measured));
            if pasts.len() >= effort.pasts || effort.is_spent() {
                break;
            }
        }
        Ok(pasts)
    }

    fn imported(&self, pair: (&str, &str), which: &str, effort: &Effort) -> rusqlite::Result<Vec<Past>> {
        let newest = format!("{IMPORTED} WHERE {which} ORDER BY began_s DESC, number DESC LIMIT ?3");
        let mut statement = self.connection.prepare(&newest)?;
        let mut rows = statement.query(params![pair.0, pair.1, effort.pasts])?;
        let mut pasts = Vec::new();
        while let Some(row) = rows.next()? {
            pasts.push(imported(row)?);
            if effort.is_spent() {
                break;
            }
        }
        Ok(pasts)
    }
}

fn facts(row: &Row<'_>) -> rusqlite::Result<Facts> {
    let destination: String = row.get(3)?;
    Ok(Facts {
        began_s: row.get(1)?,
        source: row.get(2)?,
        bandwidth: row.get(4)?,
        rtt_s: row.get(5)?,
        tcp_buffer: row.get(6)?,
        all: Amount { files: row.get(7)?, bytes: row.get(8)? },
        complete: row.get(9)?,
        classes: row.get::<_, Option<String>>(10)?.map(|text| classes(&text)).unwrap_or_default(),
        one_by_one: is_service(&destination),
        chunk_size: row.get(11)?,
        destination,
    })
}

/// Size classes as they are kept: exponent, files and bytes of each.
fn classes(text: &str) -> Vec<SizeClass> {
    let kept: Vec<(u8, u64, u64)> = serde_json::from_str(text).unwrap_or_default();
    let class = |(exponent, files, bytes)| SizeClass { exponent, files, bytes };
    kept.into_iter().map(class).filter(|class| class.files > 0).collect()
}

/// Whether a machine is one of a service: a scheme, host and port, and not host and port.
fn is_service(machine: &str) -> bool {
    let Some((scheme, rest)) = machine.split_once('_') else { return false };
    rest.contains('_') && matches!(Endpoint::new(format!("{scheme}://h/")).resolve(), Ok(Location::Service(_)))
}

fn measured(row: &Row<'_>) -> rusqlite::Result<Measured> {
    Ok(Measured {
        elapsed_s: row.get(0)?,
        interval_s: row.get(1)?,
        streams: row.get(2)?,
        parallelism: row.get(3)?,
        pipelining: row.get(4)?,
        goodput: row.get(5)?,
        done: Amount { files: row.get(6)?, bytes: row.get(7)? },
        judged: row.get(8)?,
    })
}

fn imported(row: &Row<'_>) -> rusqlite::Result<Past> {
    Ok(Past {
        began_s: row.get(0)?,
        source: row.get(1)?,
        destination: row.get(2)?,
        bandwidth: row.get(3)?,
        rtt_s: row.get(4)?,
        tcp_buffer: row.get(5)?,
        files: row.get(6)?,
        bytes: row.get(7)?,
        concurrency: row.get(8)?,
        parallelism: row.get(9)?,
        streams: None,
        pipelining: row.get(10)?,
        goodput: row.get(11)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{age, record};
    use super::*;

    #[test]
    fn services_are_told_from_hosts() {
        for (endpoint, service) in [
            ("s3://bucket/key", true),
            ("az://container/x", true),
            ("https://host:8443/x", true),
            ("sftp://host/", true),
            ("edt://s3/", false),
            ("edt://[fe80::1]:9/", false),
            ("edt://dtn.example:9000/", false),
            (".", false),
        ] {
            let machine = place(&Endpoint::new(endpoint)).unwrap();
            assert_eq!(is_service(&machine), service, "{machine}");
        }
    }

    #[test]
    fn size_classes_that_are_none_are_nothing() {
        let class = SizeClass { exponent: 20, files: 3, bytes: 5 << 20 };
        assert_eq!(classes("[[10,0,0],[20,3,5242880]]"), [class]);
        assert!(classes("").is_empty() && classes("[[300,1,1]]").is_empty() && classes("{}").is_empty());
    }

    #[test]
    fn where_there_is_no_time_for_all_the_newest_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.db");
        let mut history = History::open_at(&path).unwrap();
        for host in ["old", "dtn", "new"] {
            age(&history, 1);
            record(&path, host, 10);
        }
        let found = |effort| {
            let pasts = history.pasts_within("local", "dtn_7632", effort).unwrap();
            pasts.into_iter().map(|past| past.destination).collect::<Vec<_>>()
        };
        let ample = Duration::from_mins(10);
        let effort = |intervals, time| Effort::of(1000, 1000, intervals, time);
        assert_eq!(found(Effort::of(1, 1000, 1000, ample)), ["dtn_7632"]);
        assert_eq!(found(Effort::of(1000, 1, 1000, ample)), ["dtn_7632", "new_7632"]);
        assert_eq!(found(effort(1000, ample)), ["dtn_7632", "old_7632", "new_7632"]);
        assert_eq!(found(effort(15, ample)), ["dtn_7632", "new_7632"]);
        assert_eq!(found(effort(10, ample)), ["dtn_7632"]);
        // The newest of each part is read, however late it is.
        assert_eq!(found(effort(1000, Duration::ZERO)), ["dtn_7632", "new_7632"]);
        let log = "start_s,source,destination,files,bytes,concurrency,throughput_bytes_per_s\n1,local,dtn_7632,5,500,2,1e6\n";
        let many = format!("{log}{}", "2,a,b,1,9,2,1e6\n".repeat(500));
        history.import_from(many.as_bytes(), "log", "log").unwrap();
        assert_eq!(history.pasts_within("local", "dtn_7632", effort(1000, Duration::ZERO)).unwrap().len(), 4);
        assert_eq!(history.pasts("local", "dtn_7632").unwrap().len(), 504);
    }
}
