//! What stands before every call: the secret, and how many calls run at once. It also hands out streams of data without copying them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use edt::auth::secret::Secret;
use edt::sync::Mutex;
use edt::{Error, ErrorKind};
use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

use super::listener::Peer;
use super::root::Root;
use super::wire;
use crate::status::{status, unauthenticated};

/// How long a caller without the secret waits for its answer, so that guessing is slow.
const DELAY: Duration = Duration::from_millis(500);

const HINT: &str = "send the header `authorization: Bearer SECRET` with the secret that `edt serve` showed, or authenticate with any user \
                    name and the secret as password";

/// A client that makes calls after one another pauses no longer than this between two.
const PAUSE: Duration = Duration::from_secs(2);

/// How often is looked whether all calls have ended.
const POLL: Duration = Duration::from_millis(50);

/// Who may call, and how many calls run at once.
#[derive(Clone)]
pub(super) struct Admission {
    secret: Secret,
    calls: Arc<Semaphore>,
    most: usize,
    /// When the last call ended.
    ended: Arc<Mutex<Option<Instant>>>,
}

impl Admission {
    pub(super) fn new(secret: Secret, most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self { secret, calls: Arc::new(Semaphore::new(most)), most, ended: Arc::default() }
    }

    fn knows_secret(&self, headers: &HeaderMap) -> bool {
        // A secret may have letters beyond ASCII, with which a header is no text to its library.
        let header = headers.get(AUTHORIZATION).and_then(|header| std::str::from_utf8(header.as_bytes()).ok());
        let Some(shown) = header.and_then(credential) else { return false };
        verify_slices_are_equal(&shown, self.secret.as_bytes()).is_ok()
    }

    /// Waits until no call runs, and those that ran have no other behind them.
    pub(super) async fn quiet(&self) {
        let runs = || self.calls.available_permits() < self.most;
        while runs() || self.ended.lock().is_some_and(|at| at.elapsed() < PAUSE) {
            tokio::time::sleep(POLL).await;
        }
    }

    fn permit(&self) -> Result<Held, Status> {
        let permit = Arc::clone(&self.calls).try_acquire_owned().map_err(|_| {
            let error = Error::new(ErrorKind::Throttled, format!("the server is busy with {} calls", self.most))
                .with_hint("try again later, or ask its operator for a larger --max-sessions");
            status(&error)
        })?;
        Ok(Held { ended: Arc::clone(&self.ended), _permit: permit })
    }
}

/// A place among the calls.
struct Held {
    ended: Arc<Mutex<Option<Instant>>>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.ended.lock() = Some(Instant::now());
    }
}

/// The secret in a header: behind `Bearer`, or the password behind `Basic`.
fn credential(header: &str) -> Option<Vec<u8>> {
    let (scheme, rest) = header.trim().split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = BASE64_STANDARD.decode(rest).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

/// The service behind the gate.
#[derive(Clone)]
pub(super) struct Gate<S> {
    inner: S,
    admission: Admission,
    root: Arc<Root>,
}

impl<S> Gate<S> {
    pub(super) fn new(inner: S, admission: Admission, root: Arc<Root>) -> Self {
        Self { inner, admission, root }
    }
}

impl<S> Service<Request<Body>> for Gate<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !self.admission.knows_secret(request.headers()) {
            return Box::pin(refused(request));
        }
        let held = match self.admission.permit() {
            Ok(held) => held,
            Err(busy) => return Box::pin(std::future::ready(Ok(busy.into_http()))),
        };
        if let Some(peer) = request.extensions().get::<Peer>() {
            peer.admit();
        }
        let (request, cut) = watched(request);
        let answered: BoxFuture<'static, Result<Response<Body>, Infallible>> = if wire::serves(request.uri().path()) {
            let root = Arc::clone(&self.root);
            Box::pin(async move { Ok(wire::answer(root, request).await.unwrap_or_else(Status::into_http)) })
        } else {
            let mut request = request;
            request.extensions_mut().insert(cut);
            Box::pin(self.inner.call(request))
        };
        Box::pin(async move { Ok(answered.await?.map(|body| Body::new(Answer { body, _held: held }))) })
    }
}

async fn refused(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.address);
    tracing::info!(?peer, "refused a Flight call: it does not know the secret");
    // What a stranger sends is not kept while it waits.
    drop(request);
    tokio::time::sleep(DELAY).await;
    let error = Error::new(ErrorKind::Refused, "the server refused the call")
        .with_cause("it does not know the shared secret")
        .with_hint(HINT);
    Ok(unauthenticated(&error).into_http())
}

/// Whether the caller broke its call off: a library tells a request that was cut off from one that ended in errors alone, and takes a
/// cancelled one for one that ended.
#[derive(Clone, Default)]
pub(super) struct Cut(Arc<AtomicBool>);

impl Cut {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

fn watched(request: Request<Body>) -> (Request<Body>, Cut) {
    let cut = Cut::default();
    let noted = cut.clone();
    (request.map(|body| Body::new(Watched { body, cut: noted })), cut)
}

/// The body of a request, noting when it breaks off.
struct Watched {
    body: Body,
    cut: Cut,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        // A reset that says of itself that it is no error ends the frames as well, before the end of the stream.
        let cut_short = matches!(polled, Poll::Ready(None)) && !self.body.is_end_stream();
        if cut_short || matches!(polled, Poll::Ready(Some(Err(_)))) {
            self.cut.0.store(true, Ordering::SeqCst);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, which holds its place among the calls until it has ended.
struct Answer {
    body: Body,
    _held: Held,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef";

    fn knows(header: Option<String>) -> bool {
        knows_of(SECRET, header)
    }

    fn knows_of(secret: &str, header: Option<String>) -> bool {
        let admission = Admission::new(Secret::new(secret, "a test").unwrap(), 1);
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(AUTHORIZATION, header.parse().unwrap());
        }
        admission.knows_secret(&headers)
    }

    #[test]
    fn the_secret_is_taken_as_a_token_and_as_a_password() {
        assert!(knows(Some(format!("Bearer {SECRET}"))) && knows(Some(format!("bearer  {SECRET} "))));
        assert!(knows(Some(format!("Basic {}", BASE64_STANDARD.encode(format!("anyone:{SECRET}"))))));
        assert!(knows(Some(format!("basic {}", BASE64_STANDARD.encode(format!(":{SECRET}"))))));
    }

    #[test]
    fn a_secret_with_letters_beyond_ascii_is_taken_as_well() {
        let secret = "schlüssel-für-alle";
        assert!(knows_of(secret, Some(format!("Bearer {secret}"))));
        assert!(knows_of(secret, Some(format!("Basic {}", BASE64_STANDARD.encode(format!("anyone:{secret}"))))));
        assert!(!knows_of(secret, Some("Bearer schlussel-fur-alle".to_owned())));
    }

    #[test]
    fn nothing_else_is_taken_for_the_secret() {
        let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        let other = "0123456789abcdeX";
        assert!(!knows(None) && !knows(Some(SECRET.to_owned())) && !knows(Some("Bearer".to_owned())));
        assert!(!knows(Some(format!("Bearer {other}"))) && !knows(Some(format!("Bearer {SECRET}0"))));
        assert!(!knows(Some(basic(&format!("anyone:{other}")))) && !knows(Some(basic(SECRET))));
        assert!(!knows(Some("Basic !!!".to_owned())) && !knows(Some(format!("Digest {SECRET}"))));
    }

    #[test]
    fn a_call_above_the_limit_is_told_so_and_the_next_one_may_come() {
        let admission = Admission::new(Secret::new(SECRET, "a test").unwrap(), 1);
        let first = admission.permit().ok().unwrap();
        assert_eq!(admission.permit().err().unwrap().code(), tonic::Code::ResourceExhausted);
        drop(first);
        assert!(admission.permit().is_ok());
    }
}
