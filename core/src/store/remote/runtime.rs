//! The runtime below the clients of services: its threads drive connections, the thread that calls takes the bytes.

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::sync::RwLock;

/// What all of a process share, and one that was forked from it makes anew: the threads and connections behind it are not its own.
pub(super) struct OfProcess<T>(RwLock<Option<(u32, T)>>);

impl<T: Clone> OfProcess<T> {
    pub(super) const fn new() -> Self {
        Self(RwLock::new(None))
    }

    /// What this process has, made now if it has none.
    pub(super) fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let process = std::process::id();
        let own = |kept: &Option<(u32, T)>| kept.as_ref().filter(|(of, _)| *of == process).map(|(_, value)| value.clone());
        if let Some(value) = own(&self.0.read()) {
            return Ok(value);
        }
        let mut kept = self.0.write();
        if let Some(value) = own(&kept) {
            return Ok(value);
        }
        let value = make()?;
        // That of another process goes on there, and must not be ended here.
        std::mem::forget(kept.replace((process, value.clone())));
        Ok(value)
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
