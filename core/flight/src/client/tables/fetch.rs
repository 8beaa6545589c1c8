//! A table from a service to this machine: its endpoints, several at once, each on a connection of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::{FlightData, FlightDescriptor, FlightEndpoint, FlightInfo};
use arrow_schema::{Schema, SchemaRef};
use edt::endpoint::Location;
use edt::files::Files;
use edt::options::TransferOptions;
use edt::path::RelativePath;
use edt::sync::Mutex;
use edt::transfer::job::{Job, Made, Progress, Way};
use edt::{Endpoint, Error, ErrorKind, Result};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, future};

use super::part::{Part, PartWriter, join};
use super::target::Target;
use super::{check_options, stream_error};
use crate::client::address::{Encryption, Place};
use crate::client::foreign;
use crate::client::host::{Host, Lease};
use crate::contract::{Command, parse_hex64};
use crate::lengths;

/// The location that stands for the connection on which it was told.
const SAME: &str = "arrow-flight-reuse-connection://?";

/// Bytes of a table that all parts together hold back before they are written as row groups, and the least of one.
const HELD: usize = 256 << 20;
const LEAST_HELD: usize = 8 << 20;

/// Most bytes of one row group.
const GROUP: usize = 128 << 20;

/// A table on its way here.
pub(in crate::client) struct Fetch {
    host: Arc<Host>,
    options: TransferOptions,
    name: String,
    info: FlightInfo,
    target: Target,
    /// Other places of the service, by `host:port` and whether they are encrypted.
    places: Mutex<HashMap<(String, Encryption), Arc<Host>>>,
    /// The schema of the first part that began.
    schema: Mutex<Option<SchemaRef>>,
    parts: Mutex<BTreeMap<usize, Part>>,
}

impl Fetch {
    /// Asks the service for the endpoints of the table.
    pub(in crate::client) fn new(host: &Arc<Host>, command: &Command, to: &Location, options: &TransferOptions) -> Result<Self> {
        check_options(options)?;
        let name = command.path.clone();
        let target = Target::new(to, &name, options)?;
        let info = if command.form.is_some() {
            foreign::ask(host, &FlightDescriptor::new_cmd(command.to_json()), &name)?
        } else {
            foreign::info(host, &name)?
        };
        Ok(Self {
            host: Arc::clone(host),
            options: options.clone(),
            name,
            info,
            target,
            places: Mutex::default(),
            schema: Mutex::default(),
            parts: Mutex::default(),
        })
    }

    fn what(&self, part: usize) -> String {
        format!("could not fetch endpoint {part} of `{}` from `{}`", self.name, self.host.name())
    }

    /// Fetches an endpoint into a file of its own, once.
    fn fetch(&self, part: usize, attempt: usize, progress: &Progress) -> Result<Part> {
        let what = || self.what(part);
        let endpoint = &self.info.endpoint[part];
        let host = self.place(endpoint, attempt).map_err(|error| self.about(part, &error))?;
        let mut lease = progress.network(|| host.lease())?;
        let bytes = Arc::new(AtomicU64::new(0));
        let mut batches = progress.network(|| open(&host, &mut lease, endpoint, &bytes, &what))?;
        let mut writer: Option<PartWriter> = None;
        loop {
            progress.turn()?;
            let next = progress.network(|| host.until_interrupted(&what, batches.next()))?;
            let Some(batch) = next else { break };
            let batch = batch.map_err(|error| stream_error(&error, what))?;
            progress.moved(bytes.swap(0, Ordering::Relaxed));
            progress.storage(|| {
                if writer.is_none() {
                    writer = Some(self.begin(part, &batch.schema())?);
                }
                writer.as_mut().map_or(Ok(()), |writer| writer.write(&batch))
            })?;
        }
        lease.keep();
        let empty = || {
            let schema = batches.schema().cloned().map_or_else(|| self.told_schema(), Ok)?;
            self.begin(part, &schema)
        };
        progress.storage(|| writer.map_or_else(empty, Ok)?.finish())
    }

    /// Begins the file of a part; all parts have one schema.
    fn begin(&self, part: usize, schema: &SchemaRef) -> Result<PartWriter> {
        let first = Arc::clone(self.schema.lock().get_or_insert_with(|| Arc::clone(schema)));
        if self.target.is_one() && first.fields() != schema.fields() {
            return Err(Error::new(ErrorKind::InvalidInput, self.what(part))
                .with_cause("its columns are not those of the other endpoints")
                .with_hint("name a directory as the destination: each endpoint becomes a file of its own"));
        }
        let parts = self.info.endpoint.len().clamp(1, usize::from(self.options.max_streams.get()));
        let group = (HELD / parts).clamp(LEAST_HELD, GROUP);
        let schema = if self.target.is_one() { &first } else { schema };
        PartWriter::new(self.target.create(part)?, self.target.kind(), schema, group)
    }

    fn told_schema(&self) -> Result<SchemaRef> {
        let told = self.info.clone().try_decode_schema().map(|schema: Schema| Arc::new(schema));
        told.map_err(|cause| {
            Error::new(ErrorKind::Protocol, format!("could not learn the columns of `{}`", self.name)).with_cause(cause)
        })
    }

    /// Where an endpoint is served; further attempts go to its other locations.
    fn place(&self, endpoint: &FlightEndpoint, attempt: usize) -> Result<Arc<Host>> {
        let here = |uri: &str| uri.is_empty() || uri.trim_end_matches('?') == SAME.trim_end_matches('?');
        let places: Vec<Option<Place>> = endpoint
            .location
            .iter()
            .filter_map(|location| if here(&location.uri) { Some(None) } else { Place::of_location(&location.uri).map(Some) })
            .collect();
        if endpoint.location.is_empty() {
            return Ok(Arc::clone(&self.host));
        }
        if places.is_empty() {
            let named: Vec<_> = endpoint.location.iter().map(|location| location.uri.as_str()).collect();
            return Err(Error::new(ErrorKind::Unsupported, format!("could not reach {}", named.join(", ")))
                .with_cause("edt speaks to grpc://, grpc+tcp:// and grpc+tls:// locations"));
        }
        let Some(place) = &places[attempt % places.len()] else { return Ok(Arc::clone(&self.host)) };
        let mut known = self.places.lock();
        let key = (place.name(), place.encryption);
        if let Some(host) = known.get(&key) {
            return Ok(Arc::clone(host));
        }
        let host = self.host.beside(place, &self.options)?;
        known.insert(key, Arc::clone(&host));
        Ok(host)
    }

    fn about(&self, part: usize, error: &Error) -> Error {
        Error::new(error.kind(), self.what(part)).with_cause(error)
    }

    fn made(&self, path: &std::path::Path) -> Result<Made> {
        let endpoint = Endpoint::from(path);
        let files = Files::open(&endpoint, &self.options)?;
        let entry = files.stat(&RelativePath::root())?;
        let digests = files.digests(&RelativePath::root())?;
        let blake3 = blake3::Hash::from_hex(&digests.blake3)
            .map_err(|cause| Error::new(ErrorKind::Io, format!("could not read `{}` again", path.display())).with_cause(cause))?;
        Ok(Made {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            size: digests.size,
            metadata: edt::store::Metadata { modified_ns: entry.modified_ns, mode: entry.mode },
            digests: Some((parse_hex64(&digests.crc64nvme)?, *blake3.as_bytes())),
        })
    }
}

/// Opens an endpoint. `bytes` counts what arrives.
fn open(
    host: &Arc<Host>,
    lease: &mut Lease,
    endpoint: &FlightEndpoint,
    bytes: &Arc<AtomicU64>,
    what: &dyn Fn() -> String,
) -> Result<FlightRecordBatchStream> {
    let request = host.request(endpoint.ticket.clone().unwrap_or_default());
    let answer = host.until_interrupted(what, lease.client.do_get(request))?;
    let stream = answer.map_err(|status| host.failed(&status, what))?.into_inner();
    let arrived = Arc::clone(bytes);
    let counted = stream.map_err(FlightError::from).inspect_ok(move |data: &FlightData| {
        arrived.fetch_add(data.data_body.len() as u64, Ordering::Relaxed);
    });
    Ok(FlightRecordBatchStream::new_from_flight_data(with_content(counted)))
}

/// Leaves out messages that hold nothing but metadata, which are no part of the table, and refuses those that claim too much.
fn with_content(
    messages: impl Stream<Item = Result<FlightData, FlightError>> + Send + 'static,
) -> impl Stream<Item = Result<FlightData, FlightError>> + Send + 'static {
    let checked = |data: FlightData| lengths::check_data(&data).map(|()| data).map_err(FlightError::DecodeError);
    messages.try_filter(|data| future::ready(!data.data_header.is_empty())).and_then(move |data| future::ready(checked(data)))
}

impl Job for Fetch {
    fn parts(&self) -> usize {
        self.info.endpoint.len()
    }

    fn bytes(&self) -> Option<u64> {
        u64::try_from(self.info.total_bytes).ok().filter(|bytes| *bytes > 0)
    }

    fn way(&self) -> Way {
        Way::Here
    }

    fn planned(&self) -> Vec<Made> {
        // How the service's bytes divide over several files is not known.
        let (files, size) = if self.target.is_one() { (1, self.bytes().unwrap_or(0)) } else { (self.parts().max(1), 0) };
        let name = |part| self.target.path(part).file_name().unwrap_or_default().to_string_lossy().into_owned();
        (0..files).map(|part| Made { name: name(part), size, ..Made::default() }).collect()
    }

    fn carry_out(&self, part: usize, progress: &Progress) -> Result<()> {
        let attempts = AtomicUsize::new(0);
        let part_file = self.host.patience.run(|| {
            let attempt = attempts.fetch_add(1, Ordering::Relaxed);
            progress.check()?;
            self.fetch(part, attempt, progress).inspect_err(|error| {
                if error.kind() != ErrorKind::Cancelled {
                    progress.retried(&format!("endpoint {part}"), error);
                }
            })
        })?;
        self.parts.lock().insert(part, part_file);
        Ok(())
    }

    fn finish(&self) -> Result<Vec<Made>> {
        let mut parts = std::mem::take(&mut *self.parts.lock());
        if parts.is_empty() {
            parts.insert(0, self.begin(0, &self.told_schema()?)?.finish()?);
        }
        let files: Vec<_> = if self.target.is_one() && parts.len() > 1 {
            let parts: Vec<Part> = parts.into_values().collect();
            vec![(0, join(&parts, self.target.kind(), self.target.create(0)?)?)]
        } else {
            parts.into_iter().map(|(part, made)| (part, made.file)).collect()
        };
        files.iter().try_for_each(|(part, _)| self.target.check(*part))?;
        let paths = files.into_iter().map(|(part, file)| self.target.publish(part, file)).collect::<Result<Vec<_>>>()?;
        self.target.flush()?;
        paths.iter().map(|path| self.made(path)).collect()
    }

    fn abandon(&self) {
        self.parts.lock().clear();
    }

    fn interrupt(&self) {
        self.host.interrupt();
    }
}
