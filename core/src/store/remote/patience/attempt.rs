//! The attempt that a thread makes: an interrupt ends it in the midst of a request, and none begins after that but to clear up.

use std::cell::RefCell;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::time::sleep;

use super::Patience;
use crate::error::{Error, ErrorKind, Result};

/// How long an answer is waited for after an interrupt where something is cleared up; without one it is left to `edt clean`.
const LAST: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(3) };

thread_local! {
    /// What this thread does at present.
    static PRESENT: RefCell<Present> = const { RefCell::new(Present::Other) };
}

/// What a thread does.
#[derive(Clone)]
enum Present {
    /// An attempt that ends when this is interrupted.
    Attempt(Patience),
    /// It clears up, which goes on for a while when this is interrupted.
    Clearing(Option<Patience>),
    /// Something else, of which an interrupt knows nothing.
    Other,
}

impl Present {
    /// Begins to do this, until the answer is dropped.
    fn begin(self) -> Before {
        Before(PRESENT.replace(self))
    }
}

/// What a thread did before, and does again when this is dropped.
struct Before(Present);

impl Drop for Before {
    fn drop(&mut self) {
        PRESENT.set(std::mem::replace(&mut self.0, Present::Other));
    }
}

/// Makes an attempt that ends when `patience` is interrupted. None is begun after that: its answer would be waited for.
pub(super) fn make<T>(patience: &Patience, attempt: impl FnOnce() -> Result<T>) -> Result<T> {
    let clears = PRESENT.with_borrow(|present| matches!(present, Present::Clearing(_)));
    let _before = if clears {
        Present::Clearing(Some(patience.clone())).begin()
    } else {
        patience.check("could not make a request")?;
        Present::Attempt(patience.clone()).begin()
    };
    attempt()
}

/// Does what an interrupt does not prevent, as far as this thread makes its requests: what was sent in vain is removed.
pub(in crate::store::remote) fn clearing<T>(work: impl FnOnce() -> T) -> T {
    let patience = match PRESENT.with_borrow(Clone::clone) {
        Present::Attempt(patience) => Some(patience),
        Present::Clearing(patience) => patience,
        Present::Other => None,
    };
    let _before = Present::Clearing(patience).begin();
    work()
}

/// Waits for an answer as long as the attempt goes on that the calling thread makes; `what` is for the error.
pub(in crate::store::remote) async fn unless_interrupted<F: Future>(what: &str, answer: F) -> Result<F::Output> {
    let (patience, grace) = match PRESENT.with_borrow(Clone::clone) {
        Present::Attempt(patience) => (patience, Duration::ZERO),
        Present::Clearing(Some(patience)) => (patience, LAST),
        Present::Clearing(None) | Present::Other => return Ok(answer.await),
    };
    let ended = async {
        let interrupted = patience.shared.interrupts.notified();
        // One that came since the attempt began wakes nobody any more.
        if !patience.is_interrupted() {
            interrupted.await;
        }
        if !grace.is_zero() {
            sleep(grace).await;
        }
    };
    // In this order, so that what was interrupted asks nothing.
    match select(pin!(ended), pin!(answer)).await {
        Either::Left(_) => Err(cancelled(what)),
        Either::Right((answer, _)) => Ok(answer),
    }
}

pub(super) fn cancelled(what: &str) -> Error {
    Error::new(ErrorKind::Cancelled, what).with_cause("the transfer was cancelled")
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::mpsc;

    use super::*;
    use crate::store::remote::runtime::block_on;

    #[test]
    fn an_interrupt_ends_a_request_that_is_never_answered() {
        let patience = Patience::new();
        let (begun, begins) = mpsc::channel();
        std::thread::scope(|scope| {
            let asks = scope.spawn(|| {
                patience.run(|| {
                    begun.send(()).unwrap();
                    block_on(unless_interrupted("could not read `x`", pending::<()>()))
                })
            });
            begins.recv().unwrap();
            patience.interrupt();
            assert_eq!(asks.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
        });
    }

    #[test]
    fn after_an_interrupt_nothing_is_asked_but_what_clears_up() {
        let patience = Patience::new();
        patience.interrupt();
        let ask = || patience.run(|| block_on(unless_interrupted("could not remove `x`", async { 7 })));
        assert_eq!(ask().unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(clearing(ask).unwrap(), 7);
        assert_eq!(patience.once(|| Ok(7)).unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(block_on(unless_interrupted("could not find `x`", async { 8 })).unwrap(), 8);
    }

    #[test]
    fn what_clears_up_after_an_interrupt_does_not_wait_for_ever() {
        let patience = Patience::new();
        patience.interrupt();
        let ask = || patience.run(|| block_on(unless_interrupted("could not remove `x`", pending::<()>())));
        assert_eq!(clearing(ask).unwrap_err().kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn what_clears_up_in_an_attempt_that_was_interrupted_is_answered() {
        let patience = Patience::new();
        let ended = patience.run(|| {
            patience.interrupt();
            let remove = || block_on(unless_interrupted("could not remove `x`", async { 7 }));
            assert_eq!(clearing(remove).unwrap(), 7);
            remove()
        });
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
