//! Where calls meet threads that may block: one piece of work, or a stream whose next item is made while the last one travels.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

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

/// A stream over a feed. What is due next is made while the last items travel, some of them in a turn, so that threads change less often;
/// a client that takes none holds those and no thread.
pub(super) struct Ahead<T> {
    ready: VecDeque<Result<T>>,
    making: Option<JoinHandle<Made<T>>>,
    /// Items that the next turn may make.
    most: usize,
}

/// What a turn made, and the feed if there is more to come.
type Made<T> = (VecDeque<Result<T>>, Option<Feed<T>>);

/// Most items that a turn makes; the first makes one, for a client that waits.
const MOST: usize = 4;

/// How long a turn goes on: long against what it costs to change threads.
const TURN: Duration = Duration::from_millis(1);

impl<T: Send + 'static> Ahead<T> {
    pub(super) fn new(feed: Feed<T>) -> Self {
        let mut new = Self { ready: VecDeque::new(), making: None, most: 1 };
        new.turn(feed);
        new
    }

    fn turn(&mut self, feed: Feed<T>) {
        let most = self.most;
        self.most = (2 * most).min(MOST);
        self.making = Some(spawn_blocking(move || make(feed, most)));
    }
}

impl<T: Send + Unpin + 'static> Stream for Ahead<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while self.ready.is_empty() {
            let Some(making) = &mut self.making else { return Poll::Ready(None) };
            let made = ready!(Pin::new(making).poll(context));
            self.making = None;
            match made {
                Ok((items, feed)) => {
                    self.ready = items;
                    if let Some(feed) = feed {
                        self.turn(feed);
                    }
                }
                Err(broken) => return Poll::Ready(Some(Err(failed(&broken)))),
            }
        }
        Poll::Ready(self.ready.pop_front().map(|item| item.map_err(|error| status(&error))))
    }
}

/// One turn: the items of it; nothing comes behind an error.
fn make<T>(mut feed: Feed<T>, most: usize) -> Made<T> {
    let (mut items, begun) = (VecDeque::with_capacity(most), Instant::now());
    while items.len() < most && (items.is_empty() || begun.elapsed() < TURN) {
        match feed.next() {
            Some(Ok(item)) => items.push_back(Ok(item)),
            Some(Err(error)) => {
                items.push_back(Err(error));
                return (items, None);
            }
            None => return (items, None),
        }
    }
    (items, Some(feed))
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
