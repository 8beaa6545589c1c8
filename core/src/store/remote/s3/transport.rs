//! The SDK's requests, sent by the HTTP client of the lane that they are made on, or else by that of all services.

use std::time::Duration;

use aws_sdk_s3::config::http::{HttpRequest, HttpResponse};
use aws_sdk_s3::config::{HttpClient, RuntimeComponents};
use aws_sdk_s3::primitives::{ByteStream, SdkBody};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector};
use aws_smithy_runtime_api::client::result::ConnectorError;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind};
use crate::store::remote::lane;
use crate::store::remote::straight::{self, Carrier};
use crate::store::remote::web::Web;

/// How long a server may think before it answers, and be silent between two pieces of an answer.
pub(super) const SILENCE: Duration = Duration::from_mins(1);
/// The same for POST and for copies: a server may copy all parts of an upload before it answers to its completion.
const ASSEMBLY: Duration = Duration::from_mins(15);
/// Bytes per second that an upload has at least; a connection on which nothing moves is ended by TCP much earlier.
const SLOWEST: u64 = 64 << 10;

/// Where the metadata service of a machine names the role that the machine has.
const ROLE: &str = "/latest/meta-data/iam/security-credentials/";

/// Sends requests, each within a time that the SDK or the size of its content sets.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    web: Web,
    within: Option<Duration>,
}

/// How long a request may take that sends so many bytes, with all of its answer: a service may say at once that it completes an upload, and
/// say no more until it has done it.
pub(super) fn longest(bytes: usize) -> Duration {
    ASSEMBLY + limit(SILENCE, bytes)
}

fn limit(thought: Duration, bytes: usize) -> Duration {
    thought + Duration::from_secs(bytes as u64 / SLOWEST)
}

/// The error for an answer that does not end.
pub(super) fn endless(what: &str, within: Duration) -> Error {
    Error::new(ErrorKind::ConnectionLost, what).with_cause(format!("the answer did not end within {} s", within.as_secs()))
}

impl Transport {
    pub(super) fn new(web: Web) -> Self {
        Self { web, within: None }
    }
}

impl HttpClient for Transport {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        // Set for the metadata service of a cloud, which must be given up soon where there is none.
        let within = settings.read_timeout().map(|read| read + settings.connect_timeout().unwrap_or_default());
        SharedHttpConnector::new(Self { web: self.web.clone(), within })
    }
}

impl HttpConnector for Transport {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let client = lane::client().unwrap_or_else(|| self.web.client());
        HttpConnectorFuture::new(send(client, request, self.within))
    }
}

async fn send(client: reqwest::Client, request: HttpRequest, within: Option<Duration>) -> Result<HttpResponse, ConnectorError> {
    let (parts, body) = request.try_into_http1x().map_err(|cause| ConnectorError::user(cause.into()))?.into_parts();
    if let Some(carrier) = parts.extensions.get::<Carrier>() {
        let answer =
            timeout(SILENCE, straight::ask(carrier, &parts)).await.map_err(|late| ConnectorError::timeout(late.into()))?;
        if let Some(answer) = answer {
            return HttpResponse::try_from(answer.map(SdkBody::from)).map_err(|cause| ConnectorError::other(cause.into(), None));
        }
    }
    // Everything that is sent lies in memory already: this takes it and copies nothing.
    let content = ByteStream::new(body).collect().await.map_err(|cause| ConnectorError::user(cause.into()))?.into_bytes();
    let copies = parts.method == http::Method::POST || parts.headers.contains_key("x-amz-copy-source");
    let thought = if copies { ASSEMBLY } else { SILENCE };
    let limit = within.unwrap_or_else(|| limit(thought, content.len()));
    let asks_for_role = parts.uri.path() == ROLE;
    let request = http::Request::from_parts(parts, content);
    let request = reqwest::Request::try_from(request).map_err(|cause| ConnectorError::user(cause.into()))?;
    let response = timeout(limit, client.execute(request)).await.map_err(|late| ConnectorError::timeout(late.into()))?;
    let response = response.map_err(|cause| ConnectorError::io(cause.into()))?;
    if asks_for_role && response.status().is_success() {
        return role(response).await;
    }
    let response = http::Response::<reqwest::Body>::from(response);
    HttpResponse::try_from(response.map(SdkBody::from_body_1_x)).map_err(|cause| ConnectorError::other(cause.into(), None))
}

/// Refuses what is no name of a role, as the page of a login portal: the SDK asks for the role's credentials by its name, and panics where
/// that cannot stand in a URL.
async fn role(response: reqwest::Response) -> Result<HttpResponse, ConnectorError> {
    let name = response.text().await.map_err(|cause| ConnectorError::io(cause.into()))?;
    let is_name = name.trim().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+=,.@_-".contains(&byte));
    if !is_name {
        return Err(ConnectorError::other("the metadata service of the machine names no role".into(), None));
    }
    let response = http::Response::new(SdkBody::from(name.trim()));
    HttpResponse::try_from(response).map_err(|cause| ConnectorError::other(cause.into(), None))
}
