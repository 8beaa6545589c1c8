//! The live streams of a half: who they are, how many there should be, and how to break them.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::link::Breaker;
use crate::sync::Mutex;

/// The streams of one half.
#[derive(Default)]
pub(crate) struct Streams {
    target: AtomicU16,
    ended: AtomicU64,
    live: Mutex<Vec<Live>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    last_error: Mutex<Option<Error>>,
}

struct Live {
    number: u16,
    breaker: Breaker,
    /// It takes nothing more, but what it has sent is still on its way.
    leaving: bool,
}

impl Streams {
    /// How many there should be.
    pub(crate) fn set_target(&self, target: u16) {
        self.target.store(target, Ordering::Relaxed);
    }

    pub(crate) fn target(&self) -> u16 {
        self.target.load(Ordering::Relaxed)
    }

    /// How many there are that do not leave.
    pub(crate) fn count(&self) -> u16 {
        u16::try_from(self.live.lock().iter().filter(|live| !live.leaving).count()).unwrap_or(u16::MAX)
    }

    /// Whether there are as many as there should be, and none that leaves.
    pub(crate) fn is_settled(&self) -> bool {
        self.live.lock().len() == usize::from(self.target()) && self.count() == self.target()
    }

    /// Whether this stream is beyond the target: the oldest ones stay. None is before there is a target, which a stream may overtake.
    pub(crate) fn is_surplus(&self, number: u16) -> bool {
        let target = usize::from(self.target());
        let live = self.live.lock();
        let place = live.iter().filter(|live| !live.leaving).position(|live| live.number == number);
        target > 0 && place.is_none_or(|place| place >= target)
    }

    /// A stream takes nothing more, and ends when what it has sent has arrived.
    pub(crate) fn leave(&self, number: u16) {
        self.live.lock().iter_mut().filter(|live| live.number == number).for_each(|live| live.leaving = true);
    }

    /// Runs a stream on its own thread until `body` returns.
    pub(crate) fn run(
        self: &std::sync::Arc<Self>,
        number: u16,
        breaker: Breaker,
        body: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.live.lock().push(Live { number, breaker, leaving: false });
        let streams = std::sync::Arc::clone(self);
        let thread = std::thread::Builder::new().name(format!("edt-stream-{number}")).spawn(move || {
            let outcome = body();
            streams.live.lock().retain(|live| live.number != number);
            if let Err(error) = outcome {
                *streams.last_error.lock() = Some(error);
            }
            streams.ended.fetch_add(1, Ordering::Relaxed);
        });
        match thread {
            Ok(thread) => {
                let mut threads = self.threads.lock();
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                Ok(())
            }
            Err(cause) => {
                self.live.lock().retain(|live| live.number != number);
                Err(Error::io("could not start a thread for a stream", &cause))
            }
        }
    }

    /// The error of the stream that broke last; each is told once.
    pub(crate) fn take_error(&self) -> Option<Error> {
        self.last_error.lock().take()
    }

    /// Breaks all streams.
    pub(crate) fn break_all(&self) {
        for live in self.live.lock().iter() {
            (live.breaker)();
        }
    }

    /// Waits for the threads of all streams.
    pub(crate) fn join(&self) {
        let threads: Vec<_> = self.threads.lock().drain(..).collect();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_streams_stay_and_all_of_them_before_it_is_said_how_many() {
        let streams = Streams::default();
        streams.live.lock().extend([1, 2, 3].map(|number| Live { number, breaker: std::sync::Arc::new(|| {}), leaving: false }));
        let surplus = || [1, 2, 3].map(|number| streams.is_surplus(number));
        assert_eq!(surplus(), [false; 3]);
        streams.set_target(2);
        assert_eq!(surplus(), [false, false, true]);
        assert!(streams.is_surplus(4), "it has ended");
        streams.leave(3);
        assert_eq!((streams.count(), streams.is_settled()), (2, false));
        // There are to be three again, while one of the three is leaving: one is missing, and that one stays surplus.
        streams.set_target(3);
        assert_eq!(surplus(), [false, false, true]);
        assert_eq!((streams.count(), streams.is_settled()), (2, false));
    }
}
