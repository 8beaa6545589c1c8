//! The buffer between two stages: a queue whose bytes are bounded by the pool that its slabs come from. Frames without a slab are for
//! those who push to bound.

use std::collections::VecDeque;
use std::time::Duration;

use crate::sync::{Condvar, Mutex};

/// A queue of frames between the workers of two stages.
pub(crate) struct FrameBuffer<T> {
    state: Mutex<(VecDeque<T>, bool)>,
    changed: Condvar,
}

impl<T> Default for FrameBuffer<T> {
    fn default() -> Self {
        Self { state: Mutex::new((VecDeque::new(), false)), changed: Condvar::new() }
    }
}

impl<T> FrameBuffer<T> {
    /// Adds a frame; false if the buffer is closed and the frame was dropped.
    pub(crate) fn push(&self, frame: T) -> bool {
        let mut state = self.state.lock();
        if state.1 {
            return false;
        }
        state.0.push_back(frame);
        drop(state);
        self.changed.notify_one();
        true
    }

    /// Takes the oldest frame, waiting at most `patience` for one.
    pub(crate) fn pop(&self, patience: Duration) -> Option<T> {
        let mut state = self.state.lock();
        if state.0.is_empty() && !state.1 && !patience.is_zero() {
            self.changed.wait_for(&mut state, patience);
        }
        state.0.pop_front()
    }

    /// How many frames wait.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().0.len()
    }

    /// Drops what is in the buffer and all that comes.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.1 = true;
        state.0.clear();
        drop(state);
        self.changed.notify_all();
    }
}
