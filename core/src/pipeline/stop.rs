//! How a half ends early: the first error wins, and everyone who waits is woken.

use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::sync::{Condvar, Mutex};

/// Tells the threads of one half to end, and why.
#[derive(Default)]
pub(crate) struct Stop {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    set: bool,
    error: Option<Error>,
}

impl Stop {
    /// Ends the half; the first error is kept.
    pub(crate) fn set(&self, error: Option<Error>) {
        let mut state = self.state.lock();
        if !state.set {
            state.set = true;
            state.error = error;
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn is_set(&self) -> bool {
        self.state.lock().set
    }

    /// Why, if it was an error.
    pub(crate) fn error(&self) -> Option<Error> {
        self.state.lock().error.clone()
    }

    /// Waits; true if the half ends.
    pub(crate) fn wait(&self, duration: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.set {
            self.changed.wait_while_for(&mut state, |state| !state.set, duration);
        }
        state.set
    }
}

/// Runs what a half depends on; if it panics, the half ends instead of waiting for ever.
pub(crate) fn guarded<T>(stop: &Stop, body: impl FnOnce() -> T) -> T {
    struct Guard<'a>(&'a Stop);
    impl Drop for Guard<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.set(Some(Error::new(ErrorKind::Io, "a thread of the transfer panicked")));
            }
        }
    }
    let _guard = Guard(stop);
    body()
}
