//! Where calls meet threads that may block: one piece of work, or a stream whose next item is made while the last one travels.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use edt::{Error, ErrorKind, Result};
use futures_util::Stream;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tonic::Status;

use crate::status::status;

/// Runs work that may block, and answers as a call does.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T, Status> {
    match spawn_blocking(work).await {
        Ok(outcome) => outcome.map_err(|error| status(&error)),
        Err(broken) => Err(failed(&broken)),
    }
}

/// The same for work that takes long, which is told when its caller has gone.
pub(super) async fn endable<T: Send + 'static>(
    work: impl FnOnce(&dyn Fn() -> bool) -> Result<T> + Send + 'static,
) -> Result<T, Status> {
    let caller = Caller::default();
    let gone = caller.gone();
    blocking(move || work(&gone)).await
}

/// Who waits for work; dropped with the call.
#[derive(Default)]
pub(super) struct Caller(Arc<AtomicBool>);

/// Tells work whether its caller has gone.
pub(super) type Gone = Box<dyn Fn() -> bool + Send>;

impl Caller {
    pub(super) fn gone(&self) -> Gone {
        let gone = Arc::clone(&self.0);
        Box::new(move || gone.load(Ordering::Relaxed))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What makes the items of a stream; it may block.
pub(super) type Feed<T> = Box<dyn Iterator<Item = Result<T>> + Send>;

/// A stream over a feed. One item is made ahead of what was asked for; a client that takes none holds that item and no thread.
pub(super) struct Ahead<T>(Option<JoinHandle<Made<T>>>);

/// A feed, and the item that it made last.
type Made<T> = (Feed<T>, Option<Result<T>>);

impl<T: Send + 'static> Ahead<T> {
    pub(super) fn new(feed: Feed<T>) -> Self {
        Self(Some(next(feed)))
    }
}

impl<T: Send + 'static> Stream for Ahead<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(running) = &mut self.0 else { return Poll::Ready(None) };
        let made = ready!(Pin::new(running).poll(context));
        self.0 = None;
        Poll::Ready(match made {
            Ok((feed, Some(Ok(item)))) => {
                self.0 = Some(next(feed));
                Some(Ok(item))
            }
            Ok((_, Some(Err(error)))) => Some(Err(status(&error))),
            Ok((_, None)) => None,
            Err(broken) => Some(Err(failed(&broken))),
        })
    }
}

fn next<T: Send + 'static>(mut feed: Feed<T>) -> JoinHandle<Made<T>> {
    spawn_blocking(move || {
        let item = feed.next();
        (feed, item)
    })
}

/// A library gave up on what it was given; the call ends, the server goes on.
fn failed(broken: &JoinError) -> Status {
    if broken.is_cancelled() {
        return status(
            &Error::new(ErrorKind::ConnectionLost, "the server is shutting down")
                .with_hint("run the same command again to resume"),
        );
    }
    tracing::error!(%broken, "a call failed");
    status(&Error::new(ErrorKind::Io, "could not finish the call").with_cause("the file has a form that its library cannot take"))
}
