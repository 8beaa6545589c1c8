//! A file of edt's own service, read by ranges: one call for each, every row of which is compared with what the service says of it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_flight::{FlightData, Ticket};
use bytes::Bytes;
use edt::path::RelativePath;
use edt::pipeline::digest::{combine, crc64nvme};
use edt::store;
use edt::store::remote::{Body, Ranges};
use edt::{Error, ErrorKind, Result};
use tonic::Streaming;

use super::files::{Known, described};
use super::host::{Host, Lease};
use super::rows::{Row, rows};
use crate::contract::{self, Command, Form, ReadSum};

/// One state of a file.
pub(super) struct FileRanges {
    host: Arc<Host>,
    path: RelativePath,
    command: Command,
}

impl FileRanges {
    pub(super) fn new(host: &Arc<Host>, known: &Known) -> Result<Self> {
        let path = known.entry.path.clone();
        let version = Some(known.version.clone());
        let command = Command { form: Some(Form::Bytes), version, ..Command::of(contract::text(&path)?) };
        Ok(Self { host: Arc::clone(host), path, command })
    }

    fn what(&self, range: &Range<u64>) -> String {
        format!("could not read bytes {}..{} of `{}` at `{}`", range.start, range.end, self.path, self.host.name())
    }
}

impl Ranges for FileRanges {
    fn open(&self, range: Range<u64>) -> Result<Box<dyn Body>> {
        let what = self.what(&range);
        let command = Command { range: Some([range.start, range.end - range.start]), ..self.command.clone() };
        let mut lease = self.host.lease()?;
        let request = self.host.request(Ticket::new(command.to_json()));
        let response = self.host.wait_for_message(&|| what.clone(), lease.client.do_get(request))?;
        Ok(Box::new(RowBody { host: Arc::clone(&self.host), lease, stream: response.into_inner(), rows: Rows::new(what, range) }))
    }

    fn stat(&self) -> Result<store::Entry> {
        Ok(described(&self.host, &self.path)?.entry)
    }
}

/// One call on its way.
struct RowBody {
    host: Arc<Host>,
    lease: Lease,
    stream: Streaming<FlightData>,
    rows: Rows,
}

impl RowBody {
    /// Takes the next message; false at the end of the stream.
    fn receive(&mut self) -> Result<bool> {
        match self.host.wait_for_message(&|| self.rows.what.clone(), self.stream.message())? {
            Some(message) => self.rows.take(&message).map(|()| true),
            None => {
                self.lease.keep();
                Ok(false)
            }
        }
    }
}

impl Body for RowBody {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.rows.arrived.is_empty() && !self.rows.left.is_empty() {
            if !self.receive()? {
                return Ok(0);
            }
            // The last bytes are handed out once it is certain that they are right.
            if self.rows.left.is_empty() {
                while self.receive()? {}
                self.rows.verify()?;
            }
        }
        let Some(first) = self.rows.arrived.front_mut() else { return Ok(0) };
        let count = first.len().min(buffer.len());
        buffer[..count].copy_from_slice(&first.split_to(count));
        if first.is_empty() {
            self.rows.arrived.pop_front();
        }
        Ok(count)
    }
}

/// The rows of a range, which come in order, each with its digest.
struct Rows {
    what: String,
    begin: u64,
    /// What has not arrived.
    left: Range<u64>,
    arrived: VecDeque<Bytes>,
    crc64nvme: u64,
    end: Option<ReadSum>,
}

impl Rows {
    fn new(what: String, range: Range<u64>) -> Self {
        Self { what, begin: range.start, left: range, arrived: VecDeque::new(), crc64nvme: 0, end: None }
    }

    fn take(&mut self, message: &FlightData) -> Result<()> {
        if message.app_metadata.is_empty() {
            // It tells the columns.
            return Ok(());
        }
        let told = contract::parse(&message.app_metadata, "a digest").map_err(|error| self.protocol(error))?;
        match <[Row; 1]>::try_from(rows(message)?) {
            Ok([row]) => self.take_row(row, &told),
            Err(rows) if rows.is_empty() => {
                self.end = Some(told);
                Ok(())
            }
            Err(rows) => Err(self.protocol(format!("the service sent {} rows in one batch", rows.len()))),
        }
    }

    fn take_row(&mut self, (offset, bytes): Row, told: &ReadSum) -> Result<()> {
        let length = bytes.len() as u64;
        if offset != self.left.start || length > self.left.end - offset {
            let wanted = self.left.start;
            return Err(self.protocol(format!("the service sent {length} bytes at {offset} instead of those at {wanted}")));
        }
        let digest = crc64nvme(&bytes);
        self.compare(&ReadSum::of(length, digest), told)?;
        self.crc64nvme = combine(self.crc64nvme, digest, length);
        self.left.start += length;
        self.arrived.push_back(bytes);
        Ok(())
    }

    /// Compares all that arrived with what the end of the stream says of it.
    fn verify(&self) -> Result<()> {
        let Some(end) = &self.end else {
            return Err(Error::new(ErrorKind::ConnectionLost, self.what.clone())
                .with_cause("the service ended the stream without telling what it had sent"));
        };
        self.compare(&ReadSum::of(self.left.end - self.begin, self.crc64nvme), end)
    }

    fn compare(&self, arrived: &ReadSum, sent: &ReadSum) -> Result<()> {
        if arrived == sent {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Corrupted, self.what.clone()).with_cause(format!(
            "{} bytes with the crc64nvme {} arrived, and {} with {} were sent",
            arrived.bytes, arrived.crc64nvme, sent.bytes, sent.crc64nvme
        )))
    }

    fn protocol(&self, cause: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Protocol, self.what.clone()).with_cause(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::RowWriter;
    use super::*;

    fn row(offset: u64, bytes: &[u8], told: &ReadSum) -> FlightData {
        FlightData { app_metadata: contract::json(told).into(), ..RowWriter::default().message(offset, bytes).unwrap() }
    }

    fn end(told: &ReadSum) -> FlightData {
        FlightData { app_metadata: contract::json(told).into(), ..FlightData::default() }
    }

    #[test]
    fn a_row_is_handed_out_only_if_it_is_what_was_sent() {
        let sum = |bytes: &[u8]| ReadSum::of(bytes.len() as u64, crc64nvme(bytes));
        let mut rows = Rows::new("could not read".to_owned(), 5..11);
        rows.take(&row(5, b"abc", &sum(b"abc"))).unwrap();
        for (offset, bytes, kind) in [
            (8, b"dxf".as_slice(), ErrorKind::Corrupted),
            (8, b"de", ErrorKind::Corrupted),
            (9, b"def", ErrorKind::Protocol),
            (8, b"defg", ErrorKind::Protocol),
        ] {
            assert_eq!(rows.take(&row(offset, bytes, &sum(b"def"))).unwrap_err().kind(), kind, "{bytes:?} at {offset}");
        }
        rows.take(&row(8, b"def", &sum(b"def"))).unwrap();
        assert_eq!(rows.verify().unwrap_err().kind(), ErrorKind::ConnectionLost);
        rows.take(&end(&sum(b"abcdeg"))).unwrap();
        assert_eq!(rows.verify().unwrap_err().kind(), ErrorKind::Corrupted);
        rows.take(&end(&sum(b"abcdef"))).unwrap();
        rows.verify().unwrap();
        assert_eq!(rows.arrived, [Bytes::from("abc"), Bytes::from("def")]);
    }
}
