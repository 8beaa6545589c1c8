//! One Flight service as its callers share it: connections that are used again, who calls, patience, and an end to all waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arrow_flight::{Action, Empty, HandshakeRequest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use edt::options::TransferOptions;
use edt::store::remote::{Patience, block_on, credentials};
use edt::sync::Mutex;
use edt::{Error, ErrorKind, Result};
use futures_util::future::{Either, select};
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Request, Status};

use super::address::Place;
use super::caller::{Caller, Shown, bearer, found_secret, header};
use super::connection::{Client, Connector, connector};
use super::crowd::Crowd;
use crate::contract::{self, action};
use crate::status;

/// The header that says who calls.
const AUTHORIZATION: &str = "authorization";

/// How long a service that lives may take for the next message of an answer.
const SILENCE: Duration = Duration::from_mins(2);

/// How long clearing up may take.
const LAST: Duration = Duration::from_secs(3);

/// Connections without a call that are kept for the next one.
const IDLE: usize = 64;

/// A service, and what is remembered of it while someone uses it.
pub(super) struct Host {
    connector: Arc<Connector>,
    pub(super) patience: Patience,
    idle: Mutex<Vec<Client>>,
    caller: Caller,
    interrupted: watch::Sender<bool>,
    /// Bytes of uploads that were sent and not acknowledged.
    pub(super) under_way: Arc<AtomicU64>,
    pub(super) crowd: Crowd,
    /// The service said that it can be changed.
    writable: AtomicBool,
}

/// A connection that is used by one call at a time; it is used again unless it broke.
pub(super) struct Lease {
    pub(super) client: Client,
    host: Arc<Host>,
    whole: bool,
}

impl Lease {
    /// Gives the connection back; without this it is closed.
    pub(super) fn keep(&mut self) {
        self.whole = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut idle = self.host.idle.lock();
        if self.whole && idle.len() < IDLE {
            idle.push(self.client.clone());
        }
    }
}

impl Host {
    /// Finds secrets and certificates; connects to nothing.
    pub(super) fn new(place: &Place, options: &TransferOptions) -> Result<Arc<Self>> {
        let caller = Caller { secret: found_secret(options)?, header: Mutex::default() };
        Ok(Arc::new(Self::with(connector(place, options)?, Patience::new(), caller)))
    }

    /// A further place of the same service, which it named, with the same patience. Only the host itself learns who calls.
    pub(super) fn beside(&self, place: &Place, options: &TransferOptions) -> Result<Arc<Self>> {
        let connector = connector(place, options)?;
        let caller = if connector.may_know_callers_of(&self.connector) {
            Caller { secret: self.caller.secret.clone(), header: Mutex::new(self.caller.header.lock().clone()) }
        } else {
            Caller { secret: None, header: Mutex::default() }
        };
        let mut host = Self::with(connector, self.patience.clone(), caller);
        host.interrupted = self.interrupted.clone();
        Ok(Arc::new(host))
    }

    fn with(connector: Arc<Connector>, patience: Patience, caller: Caller) -> Self {
        Self {
            connector,
            patience,
            idle: Mutex::default(),
            caller,
            interrupted: watch::Sender::new(false),
            under_way: Arc::default(),
            crowd: Crowd::default(),
            writable: AtomicBool::new(false),
        }
    }

    /// `host:port`, for people.
    pub(super) fn name(&self) -> String {
        self.connector.place().name()
    }

    /// Connects, says who calls if that is asked for, and asks whether the service is edt's own.
    pub(super) fn greet(self: &Arc<Self>) -> Result<Service> {
        let greeted = self.patience.run(|| {
            let mut lease = self.lease()?;
            match self.actions(&mut lease) {
                Err(error) if error.kind() == ErrorKind::Refused && self.show_secret() => self.actions(&mut lease),
                // A service without actions is none of edt's.
                Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput | ErrorKind::Io) => {
                    Ok(Service::Foreign)
                }
                answer => answer,
            }
        });
        greeted.map_err(|error| match error.kind() {
            ErrorKind::ConnectionLost | ErrorKind::Unreachable if error.hint().is_none() => {
                error.with_hint(self.connector.advice())
            }
            _ => error,
        })
    }

    fn actions(self: &Arc<Self>, lease: &mut Lease) -> Result<Service> {
        let what = || format!("could not ask the Flight service `{}` what it can do", self.name());
        let request = self.request(Empty {});
        let names: Result<Vec<String>> = self.wait(SILENCE, &what, async {
            let actions = lease.client.list_actions(request).await?.into_inner();
            let named = actions.map(|action| action.map(|action| action.r#type)).collect::<Vec<_>>().await;
            named.into_iter().collect::<Result<_, Status>>()
        });
        let names = names.map_err(|error| {
            if error.kind() == ErrorKind::Refused { self.caller.unknown(self.connector.place(), &error, what()) } else { error }
        })?;
        lease.keep();
        let knows = |name: &str| names.iter().any(|known| known == name);
        self.writable.store(action::ALL.iter().all(|(name, _)| knows(name)), Ordering::Relaxed);
        let own = action::READING.into_iter().all(knows);
        Ok(if own { Service::Own } else { Service::Foreign })
    }

    /// Refuses to change what edt's own service does not let anyone change.
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.writable.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Refused, format!("could not change anything at `{}`", self.name()))
            .with_cause("the server is read-only")
            .with_hint("ask its operator to start it without --read-only"))
    }

    /// A connection: one that is idle, or a new one.
    pub(super) fn lease(self: &Arc<Self>) -> Result<Lease> {
        let idle = self.idle.lock().pop();
        let client = match idle {
            Some(client) => client,
            None => self.until_interrupted(&|| format!("could not connect to `{}`", self.name()), self.connect())??,
        };
        Ok(Lease { client, host: Arc::clone(self), whole: false })
    }

    async fn connect(&self) -> Result<Client> {
        let mut client = self.connector.connect().await?;
        let wanted = self.caller.header.lock().is_none();
        let header = match (&self.connector.place().user, &self.caller.secret) {
            (Some(user), _) if wanted => Some(self.log_in(&mut client, user).await?),
            (None, Some((secret, Shown::Always))) if wanted => Some(bearer(secret)?),
            _ => None,
        };
        if let Some(header) = header {
            *self.caller.header.lock() = Some(header);
        }
        Ok(client)
    }

    /// Shows the secret from now on, if there is one that was not shown yet.
    fn show_secret(&self) -> bool {
        let mut header = self.caller.header.lock();
        let Some(bearer) = self.caller.secret.as_ref().filter(|_| header.is_none()).and_then(|(secret, _)| bearer(secret).ok())
        else {
            return false;
        };
        *header = Some(bearer);
        true
    }

    /// Exchanges user and password for the header of all further calls.
    async fn log_in(&self, client: &mut Client, user: &str) -> Result<MetadataValue<Ascii>> {
        let what = || format!("could not log in to `{}` as `{user}`", self.name());
        let known = credentials(&self.connector.place().host, Some(user)).map(|(_, password)| password);
        let password = known.or_else(|| self.caller.secret.as_ref().map(|(secret, _)| secret.clone())).ok_or_else(|| {
            Error::new(ErrorKind::Refused, what())
                .with_cause("there is no password for this user")
                .with_hint("put it into ~/.netrc, or set EDT_TOKEN to the secret of an edt server")
        })?;
        let basic = header(&format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))))?;
        let mut request = Request::new(stream::iter([HandshakeRequest::default()]));
        request.metadata_mut().insert(AUTHORIZATION, basic.clone());
        let late = |_| Error::new(ErrorKind::ConnectionLost, what()).with_cause("the service fell silent");
        let answer = timeout(SILENCE, client.handshake(request)).await.map_err(late)?;
        let response = match answer {
            // Services that have no login may know who calls all the same.
            Err(status) if status.code() == Code::Unimplemented => return Ok(basic),
            answer => answer.map_err(|status| Host::error(&status, what))?,
        };
        let granted = response.metadata().get(AUTHORIZATION).cloned();
        let mut answers = response.into_inner();
        let read = async {
            while answers.message().await?.is_some() {}
            Ok(())
        };
        timeout(SILENCE, read).await.map_err(late)?.map_err(|status: Status| Host::error(&status, what))?;
        // A service that answers with no header of its own is asked with the password each time.
        Ok(granted.unwrap_or(basic))
    }

    /// A call with the header that says who calls.
    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(header) = &*self.caller.header.lock() {
            request.metadata_mut().insert(AUTHORIZATION, header.clone());
        }
        request
    }

    /// Carries out one of edt's actions, once, and takes its results.
    pub(super) fn act<T: DeserializeOwned>(
        self: &Arc<Self>,
        name: &str,
        body: &impl Serialize,
        what: &dyn Fn() -> String,
    ) -> Result<Vec<T>> {
        let mut lease = self.lease()?;
        let request = self.request(Action::new(name, contract::json(body)));
        let results = self.until_interrupted(what, async {
            let results = lease.client.do_action(request).await?.into_inner().collect::<Vec<_>>().await;
            results.into_iter().collect::<Result<Vec<_>, Status>>()
        })?;
        let results = results.map_err(|status| {
            if !is_lost(&status) {
                lease.keep();
            }
            self.failed(&status, what)
        })?;
        lease.keep();
        results.iter().map(|result| contract::parse(&result.body, "an answer")).collect()
    }

    /// The same, again while that may help, for actions with one result.
    pub(super) fn act_once<T: DeserializeOwned>(
        self: &Arc<Self>,
        name: &str,
        body: &impl Serialize,
        what: &dyn Fn() -> String,
    ) -> Result<T> {
        let mut results = self.patience.run(|| self.act(name, body, what))?;
        let lacking = || Error::new(ErrorKind::Protocol, what()).with_cause("the service answered without a result");
        results.pop().ok_or_else(lacking)
    }

    /// Waits for a message, no longer than a service that lives may take.
    pub(super) fn wait<T>(
        &self,
        most: Duration,
        what: &dyn Fn() -> String,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T> {
        match self.until_interrupted(what, async { timeout(most, call).await })? {
            Ok(answer) => answer.map_err(|status| self.failed(&status, what)),
            Err(_) => Err(Error::new(ErrorKind::ConnectionLost, what()).with_cause("the service fell silent")),
        }
    }

    /// Waits for the next message of a stream.
    pub(super) fn wait_for_message<T>(
        &self,
        what: &dyn Fn() -> String,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T> {
        self.wait(SILENCE, what, call)
    }

    /// Waits as long as it takes, or until waiting is ended.
    pub(super) fn until_interrupted<T>(&self, what: &dyn Fn() -> String, call: impl Future<Output = T>) -> Result<T> {
        let mut interrupted = self.interrupted.subscribe();
        let waited = block_on(async {
            let end = std::pin::pin!(interrupted.wait_for(|interrupted| *interrupted));
            match select(std::pin::pin!(call), end).await {
                Either::Left((answer, _)) => Some(answer),
                Either::Right(_) => None,
            }
        });
        waited.ok_or_else(|| Error::new(ErrorKind::Cancelled, what()).with_cause("the transfer was cancelled"))
    }

    /// Carries out an action whether or not waiting was ended, for a few seconds: what is left behind at the service is cleared away.
    pub(super) fn act_last(self: &Arc<Self>, name: &str, body: &impl Serialize, what: &dyn Fn() -> String) -> Result<()> {
        let call = async {
            let idle = self.idle.lock().pop();
            let mut client = match idle {
                Some(client) => client,
                None => self.connect().await?,
            };
            let request = self.request(Action::new(name, contract::json(body)));
            let results = client.do_action(request).await.map_err(|status| self.failed(&status, what))?.into_inner();
            let results: Vec<_> = results.collect().await;
            results.into_iter().collect::<Result<Vec<_>, Status>>().map(drop).map_err(|status| self.failed(&status, what))
        };
        let late = |_| Error::new(ErrorKind::ConnectionLost, what()).with_cause("the service fell silent");
        block_on(async { timeout(LAST, call).await }).map_err(late)?
    }

    /// Ends all waiting.
    pub(super) fn interrupt(&self) {
        self.interrupted.send_replace(true);
        self.patience.interrupt();
    }

    pub(super) fn is_interrupted(&self) -> bool {
        *self.interrupted.borrow()
    }

    /// The error of a call. Where a connection broke, those that wait beside it may be as dead.
    pub(super) fn failed(&self, status: &Status, what: impl FnOnce() -> String) -> Error {
        if is_lost(status) {
            self.idle.lock().clear();
        }
        let error = Self::error(status, what);
        if error.kind() == ErrorKind::Throttled {
            self.crowd.refused();
        }
        error
    }

    /// The error of a call.
    pub(super) fn error(status: &Status, what: impl FnOnce() -> String) -> Error {
        if is_lost(status) {
            return Error::new(ErrorKind::ConnectionLost, what()).with_cause(lost_cause(status));
        }
        let error = status::error(status, what);
        match error.kind() {
            ErrorKind::Refused if error.hint().is_none() => {
                error.with_hint("set EDT_TOKEN or use --token-file, or name a user in the URL and put the password into ~/.netrc")
            }
            _ => error,
        }
    }
}

/// Whose a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// One of `edt serve --flight`: a store of files.
    Own,
    /// Another: flights of tables.
    Foreign,
}

/// Whether a status was made on this side, because the connection broke: one that the service sent has no source.
pub(super) fn is_lost(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// The innermost reason, which says most.
fn lost_cause(status: &Status) -> String {
    let mut cause: &dyn std::error::Error = status;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
