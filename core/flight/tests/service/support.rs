//! A served directory, and calls to it.

use std::path::PathBuf;
use std::thread::JoinHandle;

use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, FlightClient, FlightData, FlightDescriptor, FlightInfo, PutResult, Ticket};
use edt::ServeOptions;
use edt::auth::identity::Identity;
use edt::auth::secret::Secret;
use edt::link::port::Port;
use edt_flight::contract::{self, Command, ReadSum};
use edt_flight::service::{FlightHandle, FlightServer};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

pub(crate) const SECRET: &str = "0123456789abcdef-test";

/// A server over a directory of its own.
pub(crate) struct World {
    pub(crate) directory: TempDir,
    pub(crate) url: String,
    pub(crate) runtime: Runtime,
    handle: FlightHandle,
    serving: Option<JoinHandle<edt::Result<()>>>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A server with other options.
    pub(crate) fn with(change: impl FnOnce(&mut ServeOptions)) -> Self {
        Self::over(tempfile::tempdir().unwrap(), change)
    }

    /// A server over a directory that has something in it already.
    pub(crate) fn over(directory: TempDir, change: impl FnOnce(&mut ServeOptions)) -> Self {
        let mut options = ServeOptions::new(directory.path());
        change(&mut options);
        let identity = tempfile::tempdir().unwrap();
        let identity = Identity::automatic(Some(&identity.path().join("identity.pem"))).unwrap();
        let port = Port::open("127.0.0.1:0", "--flight").unwrap();
        let server = FlightServer::open(&options, port, &Secret::new(SECRET, "a test").unwrap(), &identity).unwrap();
        assert_eq!(server.scheme(), "flight");
        let (url, handle) = (format!("http://{}", server.address()), server.handle());
        let serving = Some(std::thread::spawn(move || server.run()));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Self { directory, url, runtime, handle, serving }
    }

    /// Ends the server at once, and begins another one over the same directory.
    pub(crate) fn restarted(mut self) -> Self {
        self.stop();
        let Self { ref mut directory, .. } = self;
        let directory = std::mem::replace(directory, tempfile::tempdir().unwrap());
        Self::over(directory, |_| {})
    }

    fn stop(&mut self) {
        self.handle.shutdown();
        self.handle.shutdown();
        if let Some(serving) = self.serving.take() {
            serving.join().unwrap().unwrap();
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Every name in the directory; what is staged shows as `.edt/...`.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut waiting = vec![self.directory.path().to_owned()];
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    waiting.push(path);
                } else {
                    names.push(path.strip_prefix(self.directory.path()).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        names.sort();
        names
    }

    pub(crate) async fn channel(&self) -> Channel {
        Endpoint::from_shared(self.url.clone()).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn client(&self) -> FlightClient {
        let mut client = FlightClient::new(self.channel().await);
        client.add_header("authorization", &format!("Bearer {SECRET}")).unwrap();
        client
    }

    pub(crate) async fn raw(&self) -> FlightServiceClient<Channel> {
        FlightServiceClient::new(self.channel().await).max_decoding_message_size(64 << 20)
    }

    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(crate) fn info(&self, command: &Command) -> Result<FlightInfo, Status> {
        self.run(async { self.client().await.get_flight_info(descriptor(command)).await.map_err(status) })
    }

    pub(crate) fn schema(&self, command: &Command) -> Result<arrow_schema::Schema, Status> {
        self.run(async { self.client().await.get_schema(descriptor(command)).await.map_err(status) })
    }

    /// All batches of a ticket.
    pub(crate) fn get(&self, command: &Command) -> Result<Vec<RecordBatch>, Status> {
        self.get_ticket(command.to_json())
    }

    pub(crate) fn get_ticket(&self, ticket: Vec<u8>) -> Result<Vec<RecordBatch>, Status> {
        self.run(async {
            let stream = self.client().await.do_get(Ticket { ticket: ticket.into() }).await.map_err(status)?;
            stream.try_collect().await.map_err(status)
        })
    }

    /// The messages of a ticket as they are.
    pub(crate) fn messages(&self, command: &Command) -> Result<Vec<FlightData>, Status> {
        self.run(async {
            let ticket = authorized(Ticket { ticket: command.to_json().into() });
            self.raw().await.do_get(ticket).await?.into_inner().try_collect().await
        })
    }

    /// The bytes that a ticket names, after looking whether they are where they say.
    pub(crate) fn bytes(&self, command: &Command) -> Result<Vec<u8>, Status> {
        let begin = command.range.map_or(0, |[offset, _]| offset);
        let bytes = joined(&self.get(command)?, begin);
        let end: ReadSum = contract::parse(&self.messages(command)?.last().unwrap().app_metadata, "an end").unwrap();
        assert_eq!(end, ReadSum::of(bytes.len() as u64, edt::pipeline::digest::crc64nvme(&bytes)));
        Ok(bytes)
    }

    /// What an action answers.
    pub(crate) fn action<T: DeserializeOwned>(&self, name: &str, body: &impl Serialize) -> Result<Vec<T>, Status> {
        self.run(async {
            let results = self.client().await.do_action(Action::new(name, contract::json(body))).await.map_err(status)?;
            let bodies: Vec<bytes::Bytes> = results.try_collect().await.map_err(status)?;
            Ok(bodies.iter().map(|body| contract::parse(body, "a result").unwrap()).collect())
        })
    }

    /// Puts batches, and answers with everything that the server told.
    pub(crate) fn put(&self, command: &Command, batches: Vec<RecordBatch>) -> Result<Vec<contract::PutProgress>, Status> {
        self.run(async {
            let schema = batches.first().map_or_else(contract::bytes_schema, RecordBatch::schema);
            let data = FlightDataEncoderBuilder::new()
                .with_schema(schema)
                .with_dictionary_handling(arrow_flight::encode::DictionaryHandling::Resend)
                .with_max_flight_data_size(8 << 20)
                .with_flight_descriptor(Some(descriptor(command)))
                .build(stream::iter(batches.into_iter().map(Ok)));
            let data: Vec<FlightData> = data.try_collect().await.map_err(status)?;
            self.put_messages(data).await
        })
    }

    pub(crate) async fn put_messages(&self, data: Vec<FlightData>) -> Result<Vec<contract::PutProgress>, Status> {
        let told = self.raw().await.do_put(authorized(stream::iter(data))).await?.into_inner();
        let told: Vec<PutResult> = told.try_collect().await?;
        Ok(told.iter().map(|result| contract::parse(&result.app_metadata, "progress").unwrap()).collect())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn authorized<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {SECRET}").parse().unwrap());
    request
}

pub(crate) fn descriptor(command: &Command) -> FlightDescriptor {
    FlightDescriptor::new_cmd(command.to_json())
}

pub(crate) fn status(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => panic!("no status: {other}"),
    }
}

/// The commands of the endpoints of an info.
pub(crate) fn tickets(info: &FlightInfo) -> Vec<Command> {
    info.endpoint.iter().map(|endpoint| Command::from_json(&endpoint.ticket.as_ref().unwrap().ticket).unwrap()).collect()
}

/// The data of rows that follow one another from `begin`.
pub(crate) fn joined(batches: &[RecordBatch], begin: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            assert_eq!(batch.column(0).as_primitive::<UInt64Type>().value(row), begin + bytes.len() as u64);
            let data = batch.column(1).as_binary::<i32>().value(row);
            assert!(data.len() <= contract::ROW_BYTES && !data.is_empty());
            bytes.extend_from_slice(data);
        }
    }
    bytes
}

/// One batch of rows of bytes.
pub(crate) fn rows<'a>(rows: impl IntoIterator<Item = (u64, &'a [u8])>) -> RecordBatch {
    let (offsets, data): (Vec<u64>, Vec<&[u8]>) = rows.into_iter().unzip();
    let columns: Vec<std::sync::Arc<dyn Array>> = vec![
        std::sync::Arc::new(arrow_array::UInt64Array::from(offsets)),
        std::sync::Arc::new(arrow_array::BinaryArray::from_vec(data)),
    ];
    RecordBatch::try_new(contract::bytes_schema(), columns).unwrap()
}

/// A file as one batch for each row.
pub(crate) fn chunked(content: &[u8], begin: u64, row: usize) -> Vec<RecordBatch> {
    content.chunks(row).enumerate().map(|(number, data)| rows([(begin + (number * row) as u64, data)])).collect()
}

/// Bytes that do not repeat.
pub(crate) fn content(size: usize) -> Vec<u8> {
    (0..size as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// The code of a call that must fail with a hint or a cause in edt's words.
pub(crate) fn refused<T: std::fmt::Debug>(outcome: Result<T, Status>) -> (Code, String) {
    let status = outcome.expect_err("the call should have failed");
    assert!(status.metadata().contains_key("edt-error"), "{status:?}");
    (status.code(), status.message().to_owned())
}

/// Puts items into a stream as somebody sends them.
pub(crate) fn held<T: Send + 'static>(receiver: tokio::sync::mpsc::Receiver<T>) -> impl futures_util::Stream<Item = T> + Send {
    stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|item| (item, receiver)) }).boxed()
}
