//! Answers whose content goes from the connection straight into the buffer of its reader.
//!
//! An HTTP client hands out content in buffers of its own: each is allocated, filled, and copied from. Here hyper sends a request and takes
//! the head of the answer apart, and then gives its connection away: content whose length is known is read from that as from a file.
//! What is answered in any other way, or not at all, is left to the usual client.

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::{Read, ReadBuf};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::web;
use crate::error::Result;
use crate::sync::Mutex;

/// From so many bytes on it pays: each lane then has a second connection, for content alone.
pub(super) const FROM: u64 = 1 << 20;

/// Bytes of a head, and of the content of a refusal.
const MOST_HEAD: usize = 64 << 10;
const MOST_REFUSAL: usize = 1 << 20;

/// As those of the usual client.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;

type Io = MaybeHttpsStream<TokioIo<TcpStream>>;

static PROXIES: LazyLock<Matcher> = LazyLock::new(Matcher::from_system);

/// A connection to a server, between two requests or with an answer's content on it.
pub(super) struct Connection {
    scheme: Scheme,
    authority: Authority,
    io: Io,
    /// Bytes that came with the head.
    ahead: Bytes,
    /// Bytes of the content that were not read yet.
    left: u64,
    /// Whether the server takes another request when the content was read.
    lasting: bool,
}

/// Travels with a request: takes a connection there that waits, and brings back the one that has the content.
#[derive(Clone, Default)]
pub(super) struct Carrier(Arc<Mutex<Option<Connection>>>);

impl Carrier {
    pub(super) fn new(waiting: Option<Connection>) -> Self {
        Self(Arc::new(Mutex::new(waiting)))
    }

    /// The connection; there is none if the content comes with the answer.
    pub(super) fn take(&self) -> Option<Connection> {
        self.0.lock().take()
    }
}

/// Makes a request without content. `None` where the usual client must make it: through a proxy, if there is a redirect, if the length of
/// the content is not known, and if no answer came, for which that one has the right words.
pub(super) async fn ask(carrier: &Carrier, request: &http::request::Parts) -> Option<Response<Bytes>> {
    let waiting = carrier.take();
    let (scheme, authority) = (request.uri.scheme()?.clone(), request.uri.authority()?.clone());
    if request.method != Method::GET || PROXIES.intercept(&request.uri).is_some() {
        return None;
    }
    let io = match waiting {
        Some(waiting) if waiting.scheme == scheme && waiting.authority == authority => waiting.open().await,
        _ => None,
    };
    let io = match io {
        Some(io) => io,
        None => connect(&request.uri).await?,
    };
    let (mut response, mut connection) = exchange(io, plain(request)?).await.ok()?;
    let status = response.status();
    if let Some(left) = straight_length(status, response.headers()) {
        let ahead = read_ahead(response.body_mut()).await;
        let (head, _) = response.into_parts();
        let http1::Parts { io, read_buf, .. } = connection.into_parts();
        let lasting = head.version == Version::HTTP_11 && !closes(&head.headers);
        let ahead = joined(ahead, read_buf);
        *carrier.0.lock() = Some(Connection { scheme, authority, io, ahead, left, lasting });
        return Some(Response::from_parts(head, Bytes::new()));
    }
    if !status.is_client_error() && !status.is_server_error() {
        return None;
    }
    let content = refusal(response.body_mut(), &mut connection).await?;
    let (head, _) = response.into_parts();
    Some(Response::from_parts(head, content))
}

impl Connection {
    /// Reads bytes of the content, as many as there are; none at its end, and none if the connection ends before.
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let buffer = &mut buffer[..most];
        let count = if most == 0 {
            0
        } else if self.ahead.is_empty() {
            std::future::poll_fn(|cx| self.poll_read(cx, buffer)).await?
        } else {
            let count = self.ahead.len().min(buffer.len());
            self.ahead.copy_to_slice(&mut buffer[..count]);
            count
        };
        self.left -= count as u64;
        Ok(count)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.io).poll_read(cx, buffer.unfilled()))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Whether another request may be made when all of the content was read.
    pub(super) fn lasts(&self) -> bool {
        self.lasting && self.left == 0 && self.ahead.is_empty()
    }

    /// Goes on with it, unless the server has closed it or sent what nobody asked for.
    async fn open(mut self) -> Option<Io> {
        let is_open = std::future::poll_fn(|cx| Poll::Ready(self.poll_read(cx, &mut [0]).is_pending())).await;
        is_open.then_some(self.io)
    }
}

async fn connect(to: &Uri) -> Option<Io> {
    let mut connector = connector().ok()?;
    timeout(web::CONNECT, connector.call(to.clone())).await.ok()?.ok()
}

fn connector() -> Result<HttpsConnector<HttpConnector>> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(web::CONNECT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(web::SILENCE));
    Ok(HttpsConnector::from((tcp, web::shared_tls()?)))
}

/// The request as it goes over a connection to its server.
fn plain(request: &http::request::Parts) -> Option<Request<String>> {
    let path = request.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let mut plain = Request::new(String::new());
    *plain.uri_mut() = Uri::from(path);
    plain.headers_mut().clone_from(&request.headers);
    if !plain.headers().contains_key(HOST) {
        plain.headers_mut().insert(HOST, HeaderValue::from_str(&host(&request.uri)?).ok()?);
    }
    Some(plain)
}

/// The server as requests name it, and are signed for: with its port only where that is not the usual one.
fn host(uri: &Uri) -> Option<String> {
    let usual = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let host = uri.host()?;
    Some(match uri.port_u16() {
        Some(port) if port != usual => format!("{host}:{port}"),
        _ => host.to_owned(),
    })
}

type Driven = http1::Connection<Io, String>;

/// Sends a request and waits for the head of its answer.
async fn exchange(io: Io, request: Request<String>) -> io::Result<(Response<Incoming>, Driven)> {
    let (mut sender, mut connection) =
        http1::Builder::new().max_buf_size(MOST_HEAD).handshake(io).await.map_err(io::Error::other)?;
    let response = {
        let mut asked = pin!(sender.send_request(request));
        std::future::poll_fn(|cx| {
            let driven = connection.poll_without_shutdown(cx);
            match (asked.as_mut().poll(cx), driven) {
                (Poll::Ready(answer), _) => Poll::Ready(answer.map_err(io::Error::other)),
                (Poll::Pending, Poll::Ready(_)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                (Poll::Pending, Poll::Pending) => Poll::Pending,
            }
        })
        .await?
    };
    Ok((response, connection))
}

/// The length of an answer's content, if that is known and the content as it is kept.
fn straight_length(status: StatusCode, headers: &HeaderMap) -> Option<u64> {
    if !matches!(status, StatusCode::OK | StatusCode::PARTIAL_CONTENT) || headers.contains_key(TRANSFER_ENCODING) {
        return None;
    }
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn closes(headers: &HeaderMap) -> bool {
    let words = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    words.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("close"))
}

/// The content that hyper has taken from the connection already; waits for nothing.
async fn read_ahead(body: &mut Incoming) -> Bytes {
    let mut ahead = BytesMut::new();
    std::future::poll_fn(|cx| {
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut *body).poll_frame(cx) {
            ahead.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        }
        Poll::Ready(())
    })
    .await;
    ahead.freeze()
}

fn joined(first: Bytes, second: Bytes) -> Bytes {
    if first.is_empty() { second } else { [first, second].concat().into() }
}

/// All of the content of a refusal; `None` if it breaks off or is too long.
async fn refusal(body: &mut Incoming, connection: &mut Driven) -> Option<Bytes> {
    let (mut content, mut over) = (BytesMut::new(), false);
    std::future::poll_fn(|cx| {
        loop {
            // What is over must not be driven any more.
            over = over || connection.poll_without_shutdown(cx).is_ready();
            match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                Some(Ok(frame)) => content.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                Some(Err(_)) => return Poll::Ready(None),
                None => return Poll::Ready(Some(())),
            }
            if content.len() > MOST_REFUSAL {
                return Poll::Ready(None);
            }
        }
    })
    .await?;
    Some(content.freeze())
}

#[cfg(test)]
mod tests;
