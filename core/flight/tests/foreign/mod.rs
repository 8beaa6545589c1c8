//! A Flight service that is not edt's: tables in memory, cut into endpoints, as people write them with the library.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use base64::Engine as _;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

type Answer<T> = Result<Response<T>, Status>;
type Many<T> = BoxStream<'static, Result<T, Status>>;

/// What callers must say.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Asks {
    Nothing,
    Bearer(String),
    /// User and password, exchanged for a bearer token.
    Login(String, String),
}

/// The tables of a service, by name, and what happened.
pub(crate) struct Tables {
    pub(crate) named: Mutex<HashMap<String, Vec<RecordBatch>>>,
    /// How many calls of `DoGet` break after their first batch before they work.
    pub(crate) failures: AtomicUsize,
    pub(crate) gets: AtomicUsize,
    /// How many calls of `DoGet` must have come before the first is answered.
    pub(crate) together: AtomicUsize,
    /// The calls that each connection carried, by the caller's address.
    pub(crate) callers: Mutex<HashMap<SocketAddr, usize>>,
    asks: Asks,
    location: Mutex<Option<String>>,
}

pub(crate) struct Foreign {
    pub(crate) address: SocketAddr,
    pub(crate) tables: Arc<Tables>,
    _runtime: tokio::runtime::Runtime,
}

/// A table of so many batches of 1,000 rows: `number` counts up, `word` repeats.
pub(crate) fn table(batches: i64) -> Vec<RecordBatch> {
    let batch = |index: i64| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(index * 1000..(index + 1) * 1000));
        let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|row| format!("word {}", row % 7))));
        RecordBatch::try_from_iter([("number", numbers), ("word", words)]).unwrap()
    };
    (0..batches).map(batch).collect()
}

pub(crate) fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
    let column = |batch: &RecordBatch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
    batches.iter().flat_map(column).collect()
}

impl Foreign {
    pub(crate) fn new(asks: Asks) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let tables = Arc::new(Tables {
            named: Mutex::default(),
            failures: AtomicUsize::new(0),
            gets: AtomicUsize::new(0),
            together: AtomicUsize::new(0),
            callers: Mutex::default(),
            asks,
            location: Mutex::default(),
        });
        let service = FlightServiceServer::from_arc(Arc::new(Service(Arc::clone(&tables))));
        let incoming = stream::unfold(listener, |listener| async move {
            let accepted = listener.accept().await.map(|(socket, _)| socket);
            Some((accepted, listener))
        });
        runtime.spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        Self { address, tables, _runtime: runtime }
    }

    pub(crate) fn with(self, name: &str, table: Vec<RecordBatch>) -> Self {
        self.tables.named.lock().unwrap().insert(name.to_owned(), table);
        self
    }

    /// Endpoints are to be fetched from another address.
    pub(crate) fn serving_elsewhere(self, uri: &str) -> Self {
        *self.tables.location.lock().unwrap() = Some(uri.to_owned());
        self
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("flight://{}/{name}", self.address)
    }
}

struct Service(Arc<Tables>);

impl Service {
    fn check<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let said = request.metadata().get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let known = match &self.0.asks {
            Asks::Nothing => true,
            Asks::Bearer(secret) => said == format!("Bearer {secret}"),
            Asks::Login(..) => said == "Bearer granted",
        };
        if known { Ok(()) } else { Err(Status::unauthenticated("who are you")) }
    }

    fn info(&self, name: &str, descriptor: FlightDescriptor) -> Result<FlightInfo, Status> {
        let tables = self.0.named.lock().unwrap();
        let batches = tables.get(name).ok_or_else(|| Status::not_found(format!("no table {name}")))?;
        let mut info = FlightInfo::new().with_descriptor(descriptor).with_ordered(true).with_total_records(-1);
        let location = self.0.location.lock().unwrap().clone();
        for index in 0..batches.len() {
            let mut endpoint = FlightEndpoint::new().with_ticket(Ticket::new(format!("{name}/{index}")));
            if let Some(uri) = &location {
                endpoint = endpoint.with_location(uri);
            }
            info = info.with_endpoint(endpoint);
        }
        let schema = batches.first().map_or_else(|| table(1)[0].schema(), RecordBatch::schema);
        info.try_with_schema(&schema).map_err(|error| Status::internal(error.to_string()))
    }
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = Many<HandshakeResponse>;
    type ListFlightsStream = Many<FlightInfo>;
    type DoGetStream = Many<FlightData>;
    type DoPutStream = Many<PutResult>;
    type DoActionStream = Many<arrow_flight::Result>;
    type ListActionsStream = Many<ActionType>;
    type DoExchangeStream = Many<FlightData>;

    async fn handshake(&self, request: Request<Streaming<HandshakeRequest>>) -> Answer<Self::HandshakeStream> {
        let Asks::Login(user, password) = &self.0.asks else { return Err(Status::unimplemented("no login")) };
        let basic = base64::prelude::BASE64_STANDARD.encode(format!("{user}:{password}"));
        if request.metadata().get("authorization").is_none_or(|said| *said != format!("Basic {basic}")) {
            return Err(Status::unauthenticated("wrong password"));
        }
        let mut response = Response::new(stream::empty().boxed());
        response.metadata_mut().insert("authorization", "Bearer granted".parse().unwrap());
        Ok(response)
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        self.check(&request)?;
        let mut names: Vec<String> = self.0.named.lock().unwrap().keys().cloned().collect();
        names.sort();
        let infos: Vec<_> = names.iter().map(|name| self.info(name, FlightDescriptor::new_path(vec![name.clone()]))).collect();
        Ok(Response::new(stream::iter(infos).boxed()))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        self.check(&request)?;
        let descriptor = request.into_inner();
        // Queries are commands, as in Flight SQL; `t` is a path only.
        let name = if descriptor.path.is_empty() {
            let text = String::from_utf8_lossy(&descriptor.cmd).into_owned();
            text.strip_prefix("select ").ok_or_else(|| Status::invalid_argument("no query"))?.to_owned()
        } else {
            descriptor.path.join("/")
        };
        self.info(&name, descriptor).map(Response::new)
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<PollInfo> {
        Err(Status::unimplemented("poll"))
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        Err(Status::unimplemented("schema"))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        self.check(&request)?;
        self.0.gets.fetch_add(1, Ordering::SeqCst);
        if let Some(caller) = request.remote_addr() {
            *self.0.callers.lock().unwrap().entry(caller).or_default() += 1;
        }
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
        while self.0.gets.load(Ordering::SeqCst) < self.0.together.load(Ordering::SeqCst) {
            if tokio::time::Instant::now() > deadline {
                return Err(Status::aborted("the others did not come"));
            }
            tokio::task::yield_now().await;
        }
        let ticket = String::from_utf8_lossy(&request.into_inner().ticket).into_owned();
        let (name, index) = ticket.rsplit_once('/').unwrap();
        let batch = self.0.named.lock().unwrap()[name][index.parse::<usize>().unwrap()].clone();
        let halves = vec![Ok(batch.slice(0, 500)), Ok(batch.slice(500, 500))];
        let fails = self.0.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        let messages = FlightDataEncoderBuilder::new().build(stream::iter(halves)).map_err(Status::from);
        Ok(Response::new(if fails {
            messages.take(2).chain(stream::iter([Err(Status::unavailable("gone for a moment"))])).boxed()
        } else {
            messages.boxed()
        }))
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        self.check(&request)?;
        let mut messages = request.into_inner();
        let first = messages.message().await?.ok_or_else(|| Status::invalid_argument("nothing came"))?;
        let name = first.flight_descriptor.clone().map(|descriptor| descriptor.path.join("/")).unwrap_or_default();
        let all = stream::iter([Ok(first)]).chain(messages).map_err(FlightError::from);
        let batches: Vec<RecordBatch> = FlightRecordBatchStream::new_from_flight_data(all).try_collect().await?;
        self.0.named.lock().unwrap().insert(name, batches);
        Ok(Response::new(stream::iter([Ok(PutResult::default())]).boxed()))
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Answer<Self::DoExchangeStream> {
        Err(Status::unimplemented("exchange"))
    }

    async fn do_action(&self, _: Request<Action>) -> Answer<Self::DoActionStream> {
        Err(Status::unimplemented("actions"))
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        self.check(&request)?;
        Ok(Response::new(stream::empty().boxed()))
    }
}
