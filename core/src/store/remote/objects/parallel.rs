//! Many requests at once, for calls that answer for many items.

use std::panic::resume_unwind;

use crate::sync::Mutex;

/// Works on each item, on at most `threads` threads; the answers are in the order of the items.
pub(super) fn each<T: Send, R: Send>(items: Vec<T>, threads: usize, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.into_iter().map(work).collect();
    }
    let queue = Mutex::new(items.into_iter().enumerate());
    let serve = || {
        let mut answers = Vec::new();
        loop {
            let next = queue.lock().next();
            let Some((index, item)) = next else { return answers };
            answers.push((index, work(item)));
        }
    };
    let mut answers: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(serve)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    answers.sort_unstable_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_keep_the_order_of_the_items() {
        for (count, threads) in [(0, 4), (1, 4), (100, 4), (3, 16)] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(each(items, threads, |item| item * 2), (0..count).map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
