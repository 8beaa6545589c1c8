//! The attempt that a thread makes: an interrupt ends it in the midst of a request, and not only between two.

use std::cell::RefCell;
use std::pin::pin;

use futures_util::future::{Either, select};

use super::Patience;
use crate::error::{Error, ErrorKind, Result};

thread_local! {
    /// The patience that can end the attempt which this thread makes at present.
    static PRESENT: RefCell<Option<Patience>> = const { RefCell::new(None) };
}

/// Makes an attempt that ends when `patience` is interrupted meanwhile. One that begins after that does not: what was sent in vain is
/// still to be removed.
pub(super) fn make<T>(patience: &Patience, attempt: impl FnOnce() -> T) -> T {
    let ends = (!patience.is_interrupted()).then(|| patience.clone());
    let _before = Before(PRESENT.replace(ends));
    attempt()
}

/// What was there before, which is there again behind it.
struct Before(Option<Patience>);

impl Drop for Before {
    fn drop(&mut self) {
        PRESENT.set(self.0.take());
    }
}

/// Waits for an answer as long as the attempt goes on that the calling thread makes; `what` is for the error.
pub(in crate::store::remote) async fn unless_interrupted<F: Future>(what: &str, answer: F) -> Result<F::Output> {
    let Some(patience) = PRESENT.with_borrow(Clone::clone) else { return Ok(answer.await) };
    let interrupted = patience.shared.interrupts.notified();
    // One that came since the attempt began wakes nobody any more.
    if !patience.is_interrupted()
        && let Either::Left((answer, _)) = select(pin!(answer), pin!(interrupted)).await
    {
        return Ok(answer);
    }
    Err(cancelled(what))
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
    fn what_begins_after_an_interrupt_is_answered() {
        let patience = Patience::new();
        patience.interrupt();
        let removed = patience.run(|| block_on(unless_interrupted("could not remove `x`", async { 7 })));
        assert_eq!(removed.unwrap(), 7);
        assert_eq!(block_on(unless_interrupted("could not find `x`", async { 8 })).unwrap(), 8);
    }
}
