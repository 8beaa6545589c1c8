//! Past transfers for optimizers that learn from them: those of edt, stretch by stretch, and those of other tools.

use rusqlite::{Row, params};

use super::stretches::{Facts, Measured, stretches};
use super::{History, Past, place};
use crate::endpoint::Endpoint;
use crate::error::Result;

/// Past transfers that are handed out, and transfers of edt that are looked at.
const MOST: usize = 60_000;
const MOST_TRANSFERS: i64 = 5000;

/// Transfers that somebody held back tell nothing of a path.
const TRANSFERS: &str = "
SELECT id, began_s, source, destination, bandwidth, rtt_s, tcp_buffer, coalesce(listed_files, files_done),
    coalesce(listed_bytes, bytes_done), json_extract(options, '$.chunk_size')
FROM transfers
WHERE json_extract(options, '$.limit_rate') IS NULL AND json_extract(options, '$.worker_rate') IS NULL
ORDER BY source = ?1 AND destination = ?2 DESC, began_s DESC LIMIT ?3";

const INTERVALS: &str = "
SELECT elapsed_s, interval_s, network_concurrency, parallelism, pipelining, write_throughput, files_done, bytes_verified
FROM intervals WHERE transfer = ?1 ORDER BY number";

const IMPORTED: &str = "
SELECT began_s, source, destination, bandwidth, rtt_s, tcp_buffer, files, bytes, concurrency, parallelism, pipelining, throughput
FROM imported ORDER BY source = ?1 AND destination = ?2 DESC, began_s DESC, number DESC LIMIT ?3";

/// The past transfers of this user: those between the machines of two endpoints first, each part oldest first.
pub fn pasts(source: &Endpoint, destination: &Endpoint) -> Result<Vec<Past>> {
    let (source, destination) = (place(source)?, place(destination)?);
    History::open_if_there()?.map_or_else(|| Ok(Vec::new()), |history| history.pasts(&source, &destination))
}

impl History {
    /// Past transfers: those between two machines first, each part oldest first. Where there are very many, those of other machines and
    /// the oldest are left out.
    pub fn pasts(&self, source: &str, destination: &str) -> Result<Vec<Past>> {
        let mut pasts = self.own(source, destination).map_err(|cause| self.unread(&cause))?;
        pasts.extend(self.imported(source, destination).map_err(|cause| self.unread(&cause))?);
        let of_pair = |past: &Past| past.source == source && past.destination == destination;
        pasts.sort_by(|one, other| of_pair(other).cmp(&of_pair(one)).then(other.began_s.total_cmp(&one.began_s)));
        pasts.truncate(MOST);
        let others = pasts.partition_point(of_pair);
        pasts[..others].reverse();
        pasts[others..].reverse();
        Ok(pasts)
    }

    fn own(&self, source: &str, destination: &str) -> rusqlite::Result<Vec<Past>> {
        let mut transfers = self.connection.prepare(TRANSFERS)?;
        let mut intervals = self.connection.prepare(INTERVALS)?;
        let mut pasts = Vec::new();
        let mut rows = transfers.query(params![source, destination, MOST_TRANSFERS])?;
        while let Some(row) = rows.next()? {
            let (id, facts): (i64, Facts) = (row.get(0)?, facts(row)?);
            let measured = intervals.query_map([id], measured)?.collect::<rusqlite::Result<Vec<_>>>()?;
            pasts.extend(stretches(&facts, &measured));
            if pasts.len() >= MOST {
                break;
            }
        }
        Ok(pasts)
    }

    fn imported(&self, source: &str, destination: &str) -> rusqlite::Result<Vec<Past>> {
        let mut statement = self.connection.prepare(IMPORTED)?;
        statement.query_map(params![source, destination, MOST], imported)?.collect()
    }
}

fn facts(row: &Row<'_>) -> rusqlite::Result<Facts> {
    Ok(Facts {
        began_s: row.get(1)?,
        source: row.get(2)?,
        destination: row.get(3)?,
        bandwidth: row.get(4)?,
        rtt_s: row.get(5)?,
        tcp_buffer: row.get(6)?,
        files: row.get(7)?,
        bytes: row.get(8)?,
        chunk_size: row.get(9)?,
    })
}

fn measured(row: &Row<'_>) -> rusqlite::Result<Measured> {
    Ok(Measured {
        elapsed_s: row.get(0)?,
        interval_s: row.get(1)?,
        streams: row.get(2)?,
        parallelism: row.get(3)?,
        pipelining: row.get(4)?,
        goodput: row.get(5)?,
        files_done: row.get(6)?,
        bytes_verified: row.get(7)?,
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
        pipelining: row.get(10)?,
        goodput: row.get(11)?,
    })
}
