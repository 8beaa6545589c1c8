//! A file of edt's own service, read by ranges: one call for each, whose bytes are counted and compared with what the service sent.

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
use crate::contract::{self, Command, Form, ReadEnd};

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
        Ok(Box::new(RowBody {
            host: Arc::clone(&self.host),
            lease,
            stream: response.into_inner(),
            what,
            begin: range.start,
            left: range,
            arrived: VecDeque::new(),
            crc64nvme: 0,
            end: None,
        }))
    }

    fn stat(&self) -> Result<store::Entry> {
        Ok(described(&self.host, &self.path)?.entry)
    }
}

/// The rows of one call on their way.
struct RowBody {
    host: Arc<Host>,
    lease: Lease,
    stream: Streaming<FlightData>,
    what: String,
    begin: u64,
    /// What has not arrived.
    left: Range<u64>,
    arrived: VecDeque<Bytes>,
    crc64nvme: u64,
    end: Option<ReadEnd>,
}

impl RowBody {
    /// Takes the next message; false at the end of the stream.
    fn receive(&mut self) -> Result<bool> {
        let message = self.host.wait_for_message(&|| self.what.clone(), self.stream.message())?;
        let Some(message) = message else {
            self.lease.keep();
            return Ok(false);
        };
        for row in rows(&message)? {
            self.take(row)?;
        }
        if !message.app_metadata.is_empty() {
            self.end = Some(
                contract::parse(&message.app_metadata, "the end of a stream")
                    .map_err(|error| Error::new(ErrorKind::Protocol, self.what.clone()).with_cause(error))?,
            );
        }
        Ok(true)
    }

    fn take(&mut self, (offset, bytes): Row) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let length = bytes.len() as u64;
        if offset != self.left.start || length > self.left.end - offset {
            return Err(Error::new(ErrorKind::Protocol, self.what.clone())
                .with_cause(format!("the service sent {length} bytes at {offset} instead of those at {}", self.left.start)));
        }
        self.crc64nvme = combine(self.crc64nvme, crc64nvme(&bytes), length);
        self.left.start += length;
        self.arrived.push_back(bytes);
        Ok(())
    }

    /// Waits for the end of the stream and compares what arrived with what was sent.
    fn verify(&mut self) -> Result<()> {
        while self.receive()? {}
        let Some(end) = &self.end else {
            return Err(Error::new(ErrorKind::ConnectionLost, self.what.clone())
                .with_cause("the service ended the stream without telling what it had sent"));
        };
        let arrived = ReadEnd { bytes: self.left.end - self.begin, crc64nvme: contract::hex64(self.crc64nvme) };
        if *end == arrived {
            return Ok(());
        }
        // What was handed out before may be wrong: only the whole file can be read again, which this kind of error asks for.
        Err(Error::new(ErrorKind::SourceChanged, self.what.clone()).with_cause(format!(
            "{} bytes with the crc64nvme {} arrived, and {} with {} were sent",
            arrived.bytes, arrived.crc64nvme, end.bytes, end.crc64nvme
        )))
    }
}

impl Body for RowBody {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.arrived.is_empty() && !self.left.is_empty() {
            if !self.receive()? {
                return Ok(0);
            }
            // The last bytes are handed out once it is certain that they are right.
            if self.left.is_empty() {
                self.verify()?;
            }
        }
        let Some(first) = self.arrived.front_mut() else { return Ok(0) };
        let count = first.len().min(buffer.len());
        buffer[..count].copy_from_slice(&first.split_to(count));
        if first.is_empty() {
            self.arrived.pop_front();
        }
        Ok(count)
    }
}
