//! A pool of worker threads whose size can change at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::sync::Mutex;

/// What the workers of a pool do: one call is one worker's life; it returns when [`Turn::over`] says so at a border between items.
pub(crate) type Body = Arc<dyn Fn(&Turn) + Send + Sync>;

/// Worker threads that come and go as the pool is resized.
pub(crate) struct WorkerPool {
    name: &'static str,
    body: Body,
    shared: Arc<Shared>,
    threads: Mutex<Vec<Option<JoinHandle<()>>>>,
}

#[derive(Default)]
struct Shared {
    size: AtomicUsize,
    closed: AtomicBool,
}

/// A worker's view of its pool.
pub(crate) struct Turn {
    index: usize,
    shared: Arc<Shared>,
}

impl Turn {
    /// Whether this worker should end at the next border.
    pub(crate) fn over(&self) -> bool {
        self.shared.closed.load(Ordering::Relaxed) || self.index >= self.shared.size.load(Ordering::Relaxed)
    }

    /// Whether others of the pool do its work from now on. The first worker never is: in a pool that ends it does what is left.
    pub(crate) fn is_surplus(&self) -> bool {
        self.index >= self.shared.size.load(Ordering::Relaxed).max(1)
    }

    /// Whether the whole pool ends.
    pub(crate) fn closed(&self) -> bool {
        self.shared.closed.load(Ordering::Relaxed)
    }
}

impl WorkerPool {
    pub(crate) fn new(name: &'static str, body: Body) -> Self {
        Self { name, body, shared: Arc::default(), threads: Mutex::default() }
    }

    /// Changes the number of workers; surplus ones end at their next border, and their places are filled again by a later growth.
    pub(crate) fn resize(&self, size: u16) {
        let size = usize::from(size);
        let mut threads = self.threads.lock();
        if self.shared.closed.load(Ordering::Relaxed) {
            return;
        }
        self.shared.size.store(size, Ordering::Relaxed);
        if threads.len() < size {
            threads.resize_with(size, || None);
        }
        for (index, place) in threads.iter_mut().enumerate().take(size) {
            if place.as_ref().is_none_or(JoinHandle::is_finished) {
                *place = self.spawn(index);
            }
        }
    }

    fn spawn(&self, index: usize) -> Option<JoinHandle<()>> {
        let turn = Turn { index, shared: Arc::clone(&self.shared) };
        let body = Arc::clone(&self.body);
        let thread = std::thread::Builder::new().name(format!("edt-{}-{index}", self.name));
        thread.spawn(move || body(&turn)).inspect_err(|cause| tracing::warn!(%cause, "could not start a worker")).ok()
    }

    /// Asks all workers to end at their next border.
    pub(crate) fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }

    /// Ends all workers and waits for them.
    pub(crate) fn join(&self) {
        self.close();
        let threads: Vec<_> = self.threads.lock().drain(..).flatten().collect();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn until(what: impl Fn() -> bool) {
        let begin = Instant::now();
        while !what() {
            assert!(begin.elapsed() < Duration::from_secs(10), "it never came to be");
            std::thread::yield_now();
        }
    }

    #[test]
    fn all_but_the_first_worker_are_surplus_in_a_pool_that_ends() {
        let pool = WorkerPool::new("test", Arc::new(|_: &Turn| {}));
        let turn = |index| Turn { index, shared: Arc::clone(&pool.shared) };
        for (size, surplus) in [(3, [false, false, false, true]), (1, [false, true, true, true]), (0, [false, true, true, true])]
        {
            pool.resize(size);
            assert_eq!([0, 1, 2, 3].map(|index| turn(index).is_surplus()), surplus);
            assert_eq!(turn(0).over(), size == 0);
        }
    }

    #[test]
    fn a_pool_grows_shrinks_and_grows_again() {
        let live = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&live);
        let pool = WorkerPool::new(
            "test",
            Arc::new(move |turn: &Turn| {
                counter.fetch_add(1, Ordering::SeqCst);
                while !turn.over() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                counter.fetch_sub(1, Ordering::SeqCst);
            }),
        );
        for size in [3, 1, 5, 0, 2] {
            pool.resize(size);
            until(|| {
                pool.resize(size);
                live.load(Ordering::SeqCst) == usize::from(size)
            });
        }
        pool.join();
        assert_eq!(live.load(Ordering::SeqCst), 0);
    }
}
