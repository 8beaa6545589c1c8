//! The HTTP client of all services that are reached over HTTP: one pool of connections, and errors that say what to do.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use reqwest::{Client, Request, RequestBuilder, Response, Url};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::time::timeout;

use super::Body;
use super::patience::unless_interrupted;
use super::runtime::{OfProcess, block_on};
use crate::error::{Error, ErrorKind, Result};

mod failure;
mod redirects;

pub(crate) use failure::{request_error, status_error};
pub(crate) use redirects::carried_out;

pub(super) const CONNECT: Duration = Duration::from_secs(15);
/// How long a server may be silent: before it answers to what it has read, and between two pieces of an answer.
pub(super) const SILENCE: Duration = Duration::from_mins(1);
/// Bytes per second that an upload has at least; a connection on which nothing moves is ended by TCP much earlier.
const SLOWEST: u64 = 64 << 10;

/// The client of this process: a connection belongs to one alone.
static SHARED: OfProcess<Client> = OfProcess::new();
/// Bytes of text that an answer may have.
const MOST_TEXT: usize = 16 << 20;
/// Bytes that are read to their end to keep a connection, rather than to open another one.
const DRAINED: usize = 64 << 10;
const DRAINING: Duration = Duration::from_secs(1);
/// Bytes of an error's text that are looked at.
const MOST_DETAIL: usize = 8 << 10;

/// The client. HTTP/1.1 only, so that every request in flight has a connection of its own; a clone is the same client.
///
/// Trusts what the platform trusts (on Linux `SSL_CERT_FILE` and `SSL_CERT_DIR` first), takes proxies from the environment, leaves
/// compressed content compressed. Follows redirects, but never from https to http, and tells no credentials to another host; to the same
/// one over TLS it does.
#[derive(Debug, Clone)]
pub(crate) struct Web {
    /// That of the process that opened it.
    client: Client,
}

impl Web {
    /// The client of this process.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { client: SHARED.get(client)? })
    }

    /// To make requests with, for [`Web::send`].
    pub(crate) fn client(&self) -> Client {
        SHARED.get(client).unwrap_or_else(|_| self.client.clone())
    }

    /// Makes one attempt. `what` is the operation and place, for errors: "could not read `https://..`". A status of 300 and more is
    /// an error, by [`status_error`], unless it is `accepted`. A request's own timeout replaces the usual wait for an answer.
    pub(crate) fn send(&self, what: &str, request: RequestBuilder, accepted: &[u16]) -> Result<Answer> {
        let request = request.build().map_err(|error| request_error(what, &error))?;
        let (method, asked) = (request.method().clone(), request.url().clone());
        let kept = redirects::kept(&request);
        let response = self.carry_out(what, request)?;
        let Some(again) = kept.and_then(|request| redirects::secured(request, &response)) else {
            return Answer::judged(what, carried_out(what, &method, &asked, response)?, accepted);
        };
        drop(Flow(response));
        let secured = again.url().clone();
        let response = self.carry_out(what, again)?;
        Answer::judged(what, carried_out(what, &method, &secured, response)?, accepted)
    }

    fn carry_out(&self, what: &str, request: Request) -> Result<Response> {
        let limit = request.timeout().copied().unwrap_or_else(|| answer_limit(&request));
        match block_on(unless_interrupted(what, async { timeout(limit, self.client().execute(request)).await }))? {
            Ok(answered) => answered.map_err(|error| request_error(what, &error)),
            Err(_) => Err(silent(what, limit)),
        }
    }
}

/// A client with connections of its own, for a runtime other than the shared one.
pub(crate) fn separate() -> Result<Client> {
    client()
}

fn client() -> Result<Client> {
    let builder = Client::builder()
        .tls_backend_preconfigured(shared_tls()?)
        .http1_only()
        .user_agent(concat!("edt/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(redirects::policy())
        // A referring URL may hold a signature.
        .referer(false);
    #[cfg(target_os = "linux")]
    let builder = builder.tcp_user_timeout(SILENCE);
    builder.build().map_err(|error| request_error("could not set up HTTP", &error))
}

/// The trust of this process, read once; what a server gave to resume its sessions is common to all clients.
pub(super) fn shared_tls() -> Result<ClientConfig> {
    static SHARED: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = SHARED.get() {
        return Ok(config.clone());
    }
    let made = tls()?;
    Ok(SHARED.get_or_init(|| made).clone())
}

fn tls() -> Result<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|cause| Error::new(ErrorKind::InvalidInput, "could not set up TLS").with_cause(cause))?;
    let mut config = match Verifier::new(provider) {
        Ok(verifier) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth(),
        // A machine without certificates still speaks http; every https server is refused with a hint.
        Err(_) => builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// A body of several pieces, of which none is copied.
pub(crate) fn joined(pieces: impl Into<VecDeque<Bytes>>) -> reqwest::Body {
    reqwest::Body::wrap(Pieces(pieces.into()))
}

struct Pieces(VecDeque<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

/// How long to wait for the head of an answer, with the time to send the content, which reqwest counts in.
fn answer_limit(request: &Request) -> Duration {
    let content = request.body().and_then(|body| body.size_hint().exact()).unwrap_or(0);
    SILENCE + Duration::from_secs(content / SLOWEST)
}

fn silent(what: &str, limit: Duration) -> Error {
    Error::new(ErrorKind::ConnectionLost, what).with_cause(format!("the server was silent for {} s", limit.as_secs()))
}

/// An answer whose content is still to be read.
pub(crate) struct Answer {
    what: String,
    flow: Flow,
}

impl Answer {
    /// Takes an answer, or makes the error of its status. Not to be called from a task.
    pub(crate) fn judged(what: &str, response: Response, accepted: &[u16]) -> Result<Self> {
        let mut answer = Self { what: what.to_owned(), flow: Flow(response) };
        let status = answer.status();
        if status < 300 || accepted.contains(&status) {
            return Ok(answer);
        }
        let detail = block_on(answer.flow.beginning(MOST_DETAIL));
        let detail = failure::told(&String::from_utf8_lossy(&detail));
        let waits = answer.header("retry-after").map(str::to_owned);
        if status < 400 {
            return Err(failure::redirected(what, status, answer.header("location")));
        }
        Err(status_error(what, status, waits.as_deref(), &detail))
    }

    /// The status.
    pub(crate) fn status(&self) -> u16 {
        self.flow.0.status().as_u16()
    }

    /// Where the answer came from, behind all redirects.
    pub(crate) fn url(&self) -> &Url {
        self.flow.0.url()
    }

    /// A header, if it is there and text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.flow.0.headers().get(name)?.to_str().ok()
    }

    /// What the header `Content-Length` says, also of an answer to HEAD.
    pub(crate) fn length(&self) -> Option<u64> {
        self.header("content-length")?.trim().parse().ok()
    }

    /// The whole content, if it has no more than `most` bytes.
    pub(crate) fn bytes(mut self, most: usize) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        let read = async {
            while let Some(piece) = self.flow.next(&self.what).await? {
                if content.len() + piece.len() > most {
                    let cause = format!("the answer is longer than {most} bytes");
                    return Err(Error::new(ErrorKind::Protocol, self.what.as_str()).with_cause(cause));
                }
                content.extend_from_slice(&piece);
            }
            Ok(content)
        };
        block_on(unless_interrupted(&self.what.clone(), read))?
    }

    /// The whole content as text; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes(MOST_TEXT)?).into_owned())
    }

    /// The next bytes of the content, as they come; `None` at its end.
    pub(crate) fn piece(&mut self) -> Result<Option<Bytes>> {
        block_on(unless_interrupted(&self.what, self.flow.next(&self.what)))?
    }

    /// The content as it comes, which must have `expected` bytes at least and is read no further.
    pub(crate) fn into_body(self, expected: u64) -> Box<dyn Body> {
        Box::new(AnswerBody { what: self.what, flow: self.flow, piece: Bytes::new(), left: expected })
    }
}

/// A response whose connection is kept for the next request if little of it is left when it is dropped.
struct Flow(Response);

impl Flow {
    async fn next(&mut self, what: &str) -> Result<Option<Bytes>> {
        match timeout(SILENCE, self.0.chunk()).await {
            Ok(piece) => piece.map_err(|error| request_error(what, &error)),
            Err(_) => Err(silent(what, SILENCE)),
        }
    }

    /// At least the first `most` bytes, if that many come soon.
    async fn beginning(&mut self, most: usize) -> Vec<u8> {
        let mut content = Vec::new();
        let _ = timeout(DRAINING, async {
            while content.len() < most
                && let Ok(Some(piece)) = self.0.chunk().await
            {
                content.extend_from_slice(&piece);
            }
        })
        .await;
        content
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let worth = self.0.content_length().is_none_or(|left| left > 0 && left <= DRAINED as u64);
        if worth && !std::thread::panicking() && tokio::runtime::Handle::try_current().is_err() {
            block_on(self.beginning(DRAINED));
        }
    }
}

struct AnswerBody {
    what: String,
    flow: Flow,
    piece: Bytes,
    left: u64,
}

impl AnswerBody {
    /// Fills the buffer; if the answer breaks off, what came before it counts, and the next call fails.
    async fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.piece.is_empty() {
                match self.flow.next(&self.what).await {
                    Ok(Some(piece)) => self.piece = piece,
                    _ if filled > 0 => return Ok(filled),
                    Ok(None) => return Err(self.ended()),
                    Err(error) => return Err(error),
                }
            }
            let count = self.piece.len().min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&self.piece.split_to(count));
            filled += count;
            self.left -= count as u64;
        }
        Ok(filled)
    }

    fn ended(&self) -> Error {
        let cause = format!("the answer ended {} bytes early", self.left);
        Error::new(ErrorKind::ConnectionLost, self.what.as_str()).with_cause(cause)
    }
}

impl Body for AnswerBody {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let what = self.what.clone();
        block_on(unless_interrupted(&what, self.fill(&mut buffer[..count])))?
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_body_of_pieces_is_sent_in_order_and_its_length_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut socket, mut request) = (listener.accept().unwrap().0, Vec::new());
            while !request.ends_with(b"one, two, three") {
                let mut piece = [0; 4096];
                let count = socket.read(&mut piece).unwrap();
                assert!(count > 0, "{}", String::from_utf8_lossy(&request));
                request.extend_from_slice(&piece[..count]);
            }
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            String::from_utf8(request).unwrap()
        });
        let web = Web::new().unwrap();
        let pieces = ["one, ", "two, ", "three"].map(|piece| Bytes::from_static(piece.as_bytes()));
        web.send("could not write `x`", web.client().post(url).body(joined(pieces)), &[]).unwrap();
        assert!(served.join().unwrap().contains("content-length: 15\r\n"));
    }
}
