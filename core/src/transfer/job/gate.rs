//! Lets so many workers work at a time; the others wait, those in the middle of a part before those that would begin one.

use std::time::Duration;

use crate::pipeline::stop::Stop;
use crate::sync::{Condvar, Mutex};

/// How long who waits may take to notice that the transfer ends.
const POLL: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    allowed: u16,
    active: u16,
    paused: u16,
}

impl Gate {
    /// Changes how many may work.
    pub(super) fn allow(&self, workers: u16) {
        self.state.lock().allowed = workers;
        self.changed.notify_all();
    }

    /// How many work, and how many may.
    pub(super) fn count(&self) -> (u16, u16) {
        let state = self.state.lock();
        (state.active, state.allowed)
    }

    /// Waits for a turn to begin something; false if the transfer ends.
    pub(super) fn enter(&self, stop: &Stop) -> bool {
        let mut state = self.state.lock();
        while state.active >= state.allowed || state.paused > 0 {
            if stop.is_set() {
                return false;
            }
            self.changed.wait_for(&mut state, POLL);
        }
        state.active += 1;
        !stop.is_set() || {
            state.active -= 1;
            false
        }
    }

    /// Ends a turn.
    pub(super) fn leave(&self) {
        self.state.lock().active -= 1;
        self.changed.notify_all();
    }

    /// Gives the turn up while more work than may, and takes it again later.
    pub(super) fn pause_if_surplus(&self, stop: &Stop) {
        let mut state = self.state.lock();
        if state.active <= state.allowed {
            return;
        }
        state.active -= 1;
        state.paused += 1;
        while state.active >= state.allowed && !stop.is_set() {
            self.changed.wait_for(&mut state, POLL);
        }
        state.paused -= 1;
        state.active += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_paused_worker_goes_on_before_another_begins() {
        let (gate, stop, began) = (Gate::default(), Stop::default(), AtomicBool::new(false));
        gate.allow(2);
        assert!(gate.enter(&stop) && gate.enter(&stop));
        gate.allow(1);
        std::thread::scope(|scope| {
            let paused = scope.spawn(|| {
                gate.pause_if_surplus(&stop);
                assert!(!began.load(Ordering::SeqCst));
                gate.leave();
            });
            while gate.count().0 > 1 {
                std::thread::yield_now();
            }
            let begins = scope.spawn(|| {
                let entered = gate.enter(&stop);
                began.store(true, Ordering::SeqCst);
                entered
            });
            gate.leave();
            paused.join().unwrap();
            assert!(begins.join().unwrap());
        });
        assert_eq!(gate.count(), (1, 1));
    }

    #[test]
    fn who_waits_is_let_go_when_the_transfer_ends() {
        let (gate, stop) = (Gate::default(), Stop::default());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.enter(&stop));
            stop.set(None);
            assert!(!waiting.join().unwrap());
        });
        assert_eq!(gate.count(), (0, 0));
    }
}
