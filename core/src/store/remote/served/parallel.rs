//! Many small requests at once.

use crate::sync::Mutex;

/// Requests that are on their way at once.
const THREADS: usize = 8;

/// Does the same with each item, several at a time; one answer each, in order.
pub fn in_parallel<T: Send, R: Send>(items: Vec<T>, one: impl Fn(T) -> R + Sync) -> Vec<R> {
    if items.len() < 2 {
        return items.into_iter().map(one).collect();
    }
    let threads = items.len().min(THREADS);
    let waiting = Mutex::new(items.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    let work = || {
        loop {
            let next = waiting.lock().next();
            let Some((index, item)) = next else { return };
            let answer = one(item);
            done.lock().push((index, answer));
        }
    };
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| {
            scope.spawn(work);
        });
    });
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_keep_the_order_of_the_items() {
        for count in [0, 1, 2, 100] {
            let items: Vec<u32> = (0..count).collect();
            assert_eq!(in_parallel(items.clone(), |item| item), items);
        }
    }
}
