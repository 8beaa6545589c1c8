//! The calls of the Flight service, each handed to the part that answers it.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse, PollInfo,
    PutResult, Result as ActionResult, SchemaResult, Ticket,
};
use arrow_schema::SchemaRef;
use edt::{Error, ErrorKind};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use super::blocking::{Ahead, Caller, blocking, endable};
use super::gate::Cut;
use super::info::{self, Reading};
use super::root::Root;
use super::wire::{DataStream, boxed};
use super::{actions, put};
use crate::contract::{self, Command, action};
use crate::status::status;

type Answers<T> = BoxStream<'static, Result<T, Status>>;

/// The calls over one served directory.
pub(super) struct Calls {
    root: Arc<Root>,
}

impl Calls {
    pub(super) fn new(root: Arc<Root>) -> Self {
        Self { root }
    }
}

#[tonic::async_trait]
impl FlightService for Calls {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = DataStream;
    type DoPutStream = Answers<PutResult>;
    type DoExchangeStream = DataStream;
    type DoActionStream = Answers<ActionResult>;
    type ListActionsStream = Answers<ActionType>;

    /// Whoever comes this far knows the secret: the token that further calls send is the secret itself.
    async fn handshake(&self, _: Request<Streaming<HandshakeRequest>>) -> Result<Response<Self::HandshakeStream>, Status> {
        let secret = self.root.secret.as_bytes();
        let header = [b"Bearer ", secret].concat();
        let answer = HandshakeResponse { protocol_version: 0, payload: secret.to_vec().into() };
        let mut response = Response::new(stream::iter([Ok(answer)]).boxed());
        let header = MetadataValue::try_from(header).map_err(|_| {
            let error = Error::new(ErrorKind::Unsupported, "could not tell the token")
                .with_cause("the secret has characters that a header cannot hold")
                .with_hint("start the server with a secret of plain letters and digits");
            status(&error)
        })?;
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        let (root, text) = (Arc::clone(&self.root), request.into_inner().expression);
        let caller = Caller::default();
        let gone = caller.gone();
        let feed = blocking(move || {
            let criteria = if text.is_empty() { contract::Criteria::default() } else { contract::parse(&text, "criteria")? };
            info::list(root, &criteria, gone)
        });
        // The caller goes with the stream.
        let infos = Ahead::new(feed.await?).inspect(move |_| _ = &caller);
        Ok(Response::new(infos.boxed()))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        self.info(request.into_inner()).await.map(Response::new)
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        let info = self.info(request.into_inner()).await?;
        Ok(Response::new(PollInfo { info: Some(info), flight_descriptor: None, progress: Some(1.0), expiration_time: None }))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let (root, descriptor) = (Arc::clone(&self.root), request.into_inner());
        let schema = blocking(move || info::schema(&root, &info::command(&descriptor)?)).await?;
        Ok(Response::new(SchemaResult { schema }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        get(Arc::clone(&self.root), request.into_inner()).await.map(Response::new)
    }

    async fn do_put(&self, mut request: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        let cut = request.extensions_mut().remove::<Cut>().unwrap_or_default();
        put::begin(Arc::clone(&self.root), request.into_inner(), cut).await.map(Response::new)
    }

    async fn do_exchange(&self, request: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        Ok(Response::new(exchange(Arc::clone(&self.root), request.into_inner())))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let (root, action) = (Arc::clone(&self.root), request.into_inner());
        let feed = endable(move |gone| actions::run(&root, &action, gone)).await?;
        Ok(Response::new(Ahead::new(feed).boxed()))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        let told =
            |(name, description): (&str, &str)| Ok(ActionType { r#type: name.to_owned(), description: description.to_owned() });
        let all = self.root.writable().is_ok();
        let named = action::ALL.into_iter().filter(move |(name, _)| all || action::READING.contains(name));
        Ok(Response::new(stream::iter(named.map(told)).boxed()))
    }
}

impl Calls {
    async fn info(&self, descriptor: FlightDescriptor) -> Result<FlightInfo, Status> {
        let root = Arc::clone(&self.root);
        blocking(move || info::describe(&root, &info::command(&descriptor)?, descriptor)).await
    }
}

/// Reads what a ticket names.
pub(super) async fn get(root: Arc<Root>, ticket: Ticket) -> Result<DataStream, Status> {
    let reading = blocking(move || info::read(&root, &Command::from_json(&ticket.ticket)?)).await?;
    Ok(boxed(Ahead::new(Box::new(std::iter::once(Ok(reading.first)).chain(reading.feed)))))
}

/// Reads what one command after the other names, all on one stream.
pub(super) fn exchange(root: Arc<Root>, incoming: Streaming<FlightData>) -> DataStream {
    let exchange = Exchange { root, incoming, waiting: VecDeque::new(), schema: None, current: None };
    boxed(stream::try_unfold(exchange, |mut exchange| async move {
        let data = exchange.next().await?;
        Ok(data.map(|data| (data, exchange)))
    }))
}

struct Exchange {
    root: Arc<Root>,
    incoming: Streaming<FlightData>,
    /// Commands that came with one message.
    waiting: VecDeque<Command>,
    /// The columns of the stream, once they were told.
    schema: Option<SchemaRef>,
    current: Option<Ahead<FlightData>>,
}

impl Exchange {
    async fn next(&mut self) -> Result<Option<FlightData>, Status> {
        loop {
            if let Some(current) = &mut self.current {
                match current.next().await {
                    Some(data) => return data.map(Some),
                    None => self.current = None,
                }
            }
            match self.waiting.pop_front() {
                Some(command) => self.begin(command).await?,
                None if !self.receive().await? => return Ok(None),
                None => {}
            }
        }
    }

    /// Takes the commands of the next message; false at the end.
    async fn receive(&mut self) -> Result<bool, Status> {
        let Some(message) = self.incoming.message().await? else { return Ok(false) };
        let described = message.flight_descriptor.as_ref().map(info::command).transpose();
        self.waiting.extend(described.map_err(|error| status(&error))?);
        if !message.app_metadata.is_empty() {
            self.waiting.push_back(Command::from_json(&message.app_metadata).map_err(|error| status(&error))?);
        }
        Ok(true)
    }

    async fn begin(&mut self, command: Command) -> Result<(), Status> {
        let root = Arc::clone(&self.root);
        let Reading { schema, first, feed, end } = blocking(move || info::read(&root, &command)).await?;
        let first = match &self.schema {
            None => Some(first),
            Some(told) if *told == schema => None,
            Some(_) => {
                let error = Error::new(ErrorKind::InvalidInput, "could not read one table after another on one stream")
                    .with_cause("their columns differ")
                    .with_hint("use a stream for each");
                return Err(status(&error));
            }
        };
        self.schema = Some(schema);
        self.current = Some(Ahead::new(Box::new(first.into_iter().map(Ok).chain(feed).chain(end.map(Ok)))));
        Ok(())
    }
}
