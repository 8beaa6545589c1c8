//! The runtime below the clients of services: its threads drive connections, the thread that calls takes the bytes.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

const TOO_OFTEN: &str = "this process was forked from one that was forked, more often than is possible";

/// How often a process may have been forked from one that has been forked.
const GENERATIONS: usize = 16;

/// What all of a process share, and one that was forked from it makes anew: the threads and connections behind it are not its own.
///
/// Read without a lock, for a fork may come at any moment, and a lock that is held then stays so in the child. Each generation has a place
/// of its own, behind those of the processes that it comes from: what these made goes on there, and must not be ended here.
pub(super) struct OfProcess<T> {
    made: [OnceLock<(u32, T)>; GENERATIONS],
    making: Mutex<()>,
}

impl<T: Clone> OfProcess<T> {
    pub(super) const fn new() -> Self {
        Self { made: [const { OnceLock::new() }; GENERATIONS], making: Mutex::new(()) }
    }

    /// What this process has, made now if it has none.
    pub(super) fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let process = std::process::id();
        if let Some(value) = self.made_by(process) {
            return Ok(value);
        }
        let _making = self.making.lock();
        if let Some(value) = self.made_by(process) {
            return Ok(value);
        }
        let value = make()?;
        let free = self.made.iter().find(|place| place.get().is_none());
        let kept = free.is_some_and(|place| place.set((process, value.clone())).is_ok());
        if kept {
            Ok(value)
        } else {
            Err(Error::new(ErrorKind::Unsupported, "could not set up connections").with_cause(TOO_OFTEN))
        }
    }

    fn made_by(&self, process: u32) -> Option<T> {
        let made = self.made.iter().map_while(OnceLock::get);
        made.filter(|(of, _)| *of == process).map(|(_, value)| value.clone()).next()
    }
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OfProcess<&'static Runtime> = OfProcess::new();
    let build = || {
        let built = Builder::new_multi_thread().worker_threads(2).thread_name("edt-io").enable_all().build();
        built.map(|runtime| &*Box::leak(Box::new(runtime))).map_err(|cause| Error::io("could not set up connections", &cause))
    };
    RUNTIME.get(build).expect("a process that may have neither two more threads nor a descriptor cannot transfer anything")
}

/// Waits for a future on the calling thread, which must be none of the runtime's own.
pub fn block_on<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
}

/// Begins a future beside those that wait; it goes on without anyone who waits for it.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    runtime().spawn(future)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_wait_at_once() {
        std::thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn(move || {
                    let task = block_on(async move { tokio::spawn(async move { number + 1 }).await });
                    assert_eq!(task.unwrap(), number + 1);
                });
            }
        });
    }
}
