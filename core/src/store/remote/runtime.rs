//! The runtime below the clients of services: its threads drive connections, the thread that calls takes the bytes.

use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let built = Builder::new_multi_thread().worker_threads(2).thread_name("edt-io").enable_all().build();
    built.expect("a process that may have neither two more threads nor a descriptor cannot transfer anything")
});

/// Waits for a future on the calling thread, which must be none of the runtime's own.
pub fn block_on<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// Begins a future beside those that wait; it goes on without anyone who waits for it.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    RUNTIME.spawn(future)
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
