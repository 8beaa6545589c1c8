//! Tables in files of this machine to a service: one put for each file.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::{FlightClient, FlightDescriptor};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::SchemaRef;
use edt::endpoint::Location;
use edt::options::TransferOptions;
use edt::store::remote::spawn;
use edt::transfer::job::{Job, Made, Progress, Way};
use edt::{Endpoint, Error, ErrorKind, Result};
use futures_util::{TryStreamExt as _, stream};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tokio::sync::mpsc;
use tonic::metadata::MetadataMap;

use super::{check_options, file_error, stream_error};
use crate::client::host::{Host, Lease};
use crate::contract::{Command, Kind, Rule};
use crate::pieces::Pieces;

/// Bytes of a message: every service takes it, by any default limit.
const MESSAGE: usize = 1 << 20;

/// Rows of a batch from a Parquet file.
const ROWS: usize = 8192;

/// Batches that may wait for the network.
const WAITING: usize = 4;

/// What a file of Arrow's file format begins with; a stream does not.
const MAGIC: &[u8] = b"ARROW1";

/// Bytes of a buffer before a file.
const BUFFER: usize = 256 << 10;

type Batches = Box<dyn Iterator<Item = std::result::Result<RecordBatch, arrow_schema::ArrowError>>>;

/// Tables on their way to a service.
pub(in crate::client) struct Bring {
    host: Arc<Host>,
    /// Of edt's own service, which publishes whole tables: what it is told besides the name.
    own: Option<Command>,
    files: Vec<(PathBuf, String)>,
}

impl Bring {
    /// Finds the files; the name at the service is that of the URL, or each file's own below it, with the directories that it is in.
    pub(in crate::client) fn new(
        host: &Arc<Host>,
        command: &Command,
        (sources, destination): (&[Endpoint], &Endpoint),
        options: &TransferOptions,
    ) -> Result<Self> {
        check_options(options)?;
        let mut found = Vec::new();
        for source in sources {
            let Location::Local { path, .. } = source.resolve()? else {
                return Err(Error::new(ErrorKind::Unsupported, format!("could not bring `{source}` to `{destination}`"))
                    .with_cause("only tables in files of this machine can be put to a Flight service that is not edt's"));
            };
            found.extend(tables(&path)?);
        }
        let into = found.len() > 1 || matches!(destination.resolve()?, Location::Service(url) if url.directory);
        let named = |(path, own): (PathBuf, String)| {
            let name = match (into, command.path.is_empty()) {
                (false, _) => command.path.clone(),
                (true, true) => own,
                (true, false) => format!("{}/{own}", command.path),
            };
            (path, name)
        };
        let files = found.into_iter().map(named).collect();
        let rule = Rule::from(options.overwrite);
        let own = command.form.is_some().then(|| Command { overwrite: Some(rule), ..command.clone() });
        Ok(Self { host: Arc::clone(host), own, files })
    }

    fn gone(&self, name: &str) -> Error {
        Error::new(ErrorKind::ConnectionLost, format!("could not put `{name}` to `{}`", self.host.name()))
    }

    fn descriptor(&self, name: &str) -> FlightDescriptor {
        match &self.own {
            Some(own) => FlightDescriptor::new_cmd(Command { path: name.to_owned(), ..own.clone() }.to_json()),
            None => FlightDescriptor::new_path(name.split('/').map(str::to_owned).collect()),
        }
    }

    fn put(&self, part: usize, progress: &Progress) -> Result<()> {
        let (path, name) = &self.files[part];
        let what = || format!("could not put the table `{}` to `{name}` at `{}`", path.display(), self.host.name());
        let (schema, mut batches) = progress.storage(|| read(path))?;
        let lease = progress.network(|| self.host.lease())?;
        let (sender, receiver) = mpsc::channel(WAITING);
        let bytes = Arc::new(AtomicU64::new(0));
        let headers = self.host.request(()).into_parts().0;
        let call = carry(lease, headers, receiver, (schema, self.descriptor(name)), Arc::clone(&bytes));
        let call = spawn(call);
        loop {
            if let Err(error) = progress.turn() {
                call.abort();
                return Err(error);
            }
            let Some(batch) = progress.storage(|| batches.next()) else { break };
            let batch = match batch {
                Ok(batch) => batch,
                Err(cause) => {
                    call.abort();
                    return Err(file_error(path, "read", &cause));
                }
            };
            let sent = Pieces::new(batch, usize::MAX, MESSAGE, 2 * MESSAGE).try_for_each(|piece| {
                let piece = piece.map_err(|cause| file_error(path, "read", &cause))?;
                progress.network(|| self.host.until_interrupted(&what, sender.send(piece)))?.map_err(|_| self.gone(name))?;
                // A file may be one batch: the rate is kept within it.
                progress.moved(bytes.swap(0, Ordering::Relaxed));
                progress.check()
            });
            match sent {
                // A call that has ended says why below.
                Err(error) if error.kind() == ErrorKind::ConnectionLost => break,
                sent => sent?,
            }
        }
        drop(sender);
        let ended = progress.network(|| self.host.until_interrupted(&what, call))?;
        progress.moved(bytes.swap(0, Ordering::Relaxed));
        let ended = ended.map_err(|cause| Error::new(ErrorKind::Io, what()).with_cause(cause))?;
        ended.map_err(|error| stream_error(&error, what))
    }
}

/// Makes the call, and takes what the service answers until it has ended.
async fn carry(
    mut lease: Lease,
    headers: MetadataMap,
    receiver: mpsc::Receiver<RecordBatch>,
    (schema, descriptor): (SchemaRef, FlightDescriptor),
    bytes: Arc<AtomicU64>,
) -> std::result::Result<(), FlightError> {
    let mut receiver = receiver;
    let batches = stream::poll_fn(move |context| receiver.poll_recv(context).map(|batch| batch.map(Ok)));
    let messages =
        FlightDataEncoderBuilder::new().with_schema(schema).with_flight_descriptor(Some(descriptor)).build(batches).inspect_ok(
            move |data| {
                bytes.fetch_add(data.data_body.len() as u64, Ordering::Relaxed);
            },
        );
    let mut client = FlightClient::new_from_inner(lease.client.clone());
    *client.metadata_mut() = headers;
    let mut results = client.do_put(messages).await?;
    while results.try_next().await?.is_some() {}
    lease.keep();
    Ok(())
}

/// The tables that a path names, each with its name there: a file, or those in a directory and below it.
fn tables(path: &Path) -> Result<Vec<(PathBuf, String)>> {
    let refused = |cause: &str| {
        Err(Error::new(ErrorKind::InvalidInput, format!("could not read `{}` as a table", path.display()))
            .with_cause(cause)
            .with_hint("name a Parquet or Arrow file, or a directory of them"))
    };
    if !path.is_dir() {
        std::fs::metadata(path).map_err(|cause| Error::io(format!("could not open the source `{}`", path.display()), &cause))?;
        return if is_table(path) {
            Ok(vec![(path.to_owned(), path.file_name().unwrap_or_default().to_string_lossy().into_owned())])
        } else {
            refused("its name ends in none of .parquet, .pq, .arrow, .feather, .ipc")
        };
    }
    let mut found = Vec::new();
    collect(path, "", &mut found)?;
    if found.is_empty() { refused("no Parquet or Arrow file is in it") } else { Ok(found) }
}

fn is_table(path: &Path) -> bool {
    matches!(Kind::of_name(&path.to_string_lossy()), Some(Kind::Parquet | Kind::Arrow))
}

/// Adds the tables in a directory and below it, in the order of their names. Directories that begin with `.` or `_` are left out, as the
/// service does when it reads one: what is in them is there for other programs.
fn collect(directory: &Path, prefix: &str, found: &mut Vec<(PathBuf, String)>) -> Result<()> {
    let failed = |cause: std::io::Error| Error::io(format!("could not list `{}`", directory.display()), &cause);
    let listed = std::fs::read_dir(directory).map_err(failed)?;
    let mut entries = listed.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    entries.sort_by_cached_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, own) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().map_err(failed)?.is_dir() {
            if !own.starts_with(['.', '_']) {
                collect(&path, &format!("{prefix}{own}/"), found)?;
            }
        } else if path.is_dir() {
            // It may lead back to where it stands.
            tracing::warn!(path = %path.display(), "a link to a directory is left out");
        } else if path.is_file() && is_table(&path) {
            found.push((path, format!("{prefix}{own}")));
        }
    }
    Ok(())
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

fn read(path: &Path) -> Result<(SchemaRef, Batches)> {
    let failed = |cause: &(dyn std::error::Error + 'static)| file_error(path, "read", cause);
    let mut file = File::open(path).map_err(|cause| failed(&cause))?;
    if Kind::of_name(&path.to_string_lossy()) == Some(Kind::Parquet) {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|cause| failed(&cause))?;
        let (schema, reader) =
            (Arc::clone(builder.schema()), builder.with_batch_size(ROWS).build().map_err(|cause| failed(&cause))?);
        return Ok((schema, Box::new(reader)));
    }
    let mut magic = [0; MAGIC.len()];
    let is_file = file.read_exact(&mut magic).is_ok() && magic == MAGIC;
    file.rewind().map_err(|cause| failed(&cause))?;
    let file = BufReader::with_capacity(BUFFER, file);
    if is_file {
        let reader = FileReader::try_new(file, None).map_err(|cause| failed(&cause))?;
        return Ok((reader.schema(), Box::new(reader)));
    }
    let reader = StreamReader::try_new(file, None).map_err(|cause| failed(&cause))?;
    Ok((reader.schema(), Box::new(reader)))
}

impl Job for Bring {
    fn parts(&self) -> usize {
        self.files.len()
    }

    /// Files are compressed, streams are not: how many bytes will go is not known.
    fn bytes(&self) -> Option<u64> {
        None
    }

    fn way(&self) -> Way {
        Way::There
    }

    fn planned(&self) -> Vec<Made> {
        self.files.iter().map(|(path, name)| Made { name: name.clone(), size: size(path), ..Made::default() }).collect()
    }

    /// Edt's own service publishes a table whole or not at all, so that a further attempt is safe. Another one may add what arrived twice.
    fn carry_out(&self, part: usize, progress: &Progress) -> Result<()> {
        if self.own.is_some() {
            return self.host.patience.run(|| self.put(part, progress));
        }
        self.host.patience.run(|| self.host.lease().map(|mut lease| lease.keep()))?;
        self.put(part, progress)
    }

    fn finish(&self) -> Result<Vec<Made>> {
        Ok(self.planned())
    }

    fn abandon(&self) {}

    fn interrupt(&self) {
        self.host.interrupt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(files: &[&str]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for file in files {
            let path = place.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        place
    }

    #[test]
    fn a_directory_has_the_tables_of_all_that_is_below_it() {
        let place = place(&["b.arrow", "a.parquet", "c/d/e.pq", "c/x.txt", "_tmp/f.parquet", ".edt/g.parquet"]);
        #[cfg(unix)]
        std::os::unix::fs::symlink(".", place.path().join("c/round")).unwrap();
        let names = |path: &Path| tables(path).unwrap().into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(names(place.path()), ["a.parquet", "b.arrow", "c/d/e.pq"]);
        assert_eq!(names(&place.path().join("c")), ["d/e.pq"]);
        assert_eq!(names(&place.path().join("c/d/e.pq")), ["e.pq"]);
        assert_eq!(names(&place.path().join("_tmp")), ["f.parquet"]);
    }

    #[test]
    fn a_directory_without_tables_is_refused() {
        let place = place(&["a/x.txt"]);
        assert_eq!(tables(place.path()).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
