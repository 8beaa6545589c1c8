//! The streams of a session, as the caller dials them.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use super::Caller;
use crate::error::{Error, ErrorKind, Result};
use crate::link::{FrameSink, memory};
use crate::pipeline::half::Half;
use crate::pipeline::receiver::Receiver;
use crate::pipeline::stop::guarded;

/// The least wait after a failure, doubled with each further one, so many times at most.
const WAIT_MS: u64 = 5;
const DOUBLED: u32 = 8;

/// Streams that broke, and dials that failed.
#[derive(Default)]
struct Failures {
    /// Since there was progress.
    stuck: AtomicU32,
    /// Since a dial succeeded or all streams were there: what fails for good is not tried all the time while other streams get on.
    vain: AtomicU32,
}

impl Failures {
    /// Counts one more; answers with those since there was progress.
    fn add(&self) -> u32 {
        self.vain.fetch_add(1, Ordering::Relaxed);
        self.stuck.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn progressed(&self) {
        self.stuck.store(0, Ordering::Relaxed);
    }

    fn dialed(&self) {
        self.vain.store(0, Ordering::Relaxed);
    }

    /// How long to wait before the next dial.
    fn wait_ms(&self) -> u64 {
        let count = self.stuck.load(Ordering::Relaxed).max(self.vain.load(Ordering::Relaxed));
        WAIT_MS << count.min(DOUBLED)
    }
}

impl Caller {
    /// Dials until there are as many streams as there should be; gives up when streams break again and again without progress.
    pub(super) fn keep_streams(&self) {
        let (failures, dialing) = (Failures::default(), AtomicU16::new(0));
        std::thread::scope(|scope| {
            let mut progress = 0;
            while !self.ended() {
                if self.account.progress() != progress {
                    progress = self.account.progress();
                    failures.progressed();
                }
                if let Some(error) = self.halves.iter().find_map(|(half, _)| half.streams().take_error()) {
                    self.stream_failed(&error, &failures);
                }
                let streams = self.half().streams();
                // In this order: one that was dialed meanwhile counts twice rather than never.
                let dialed = dialing.load(Ordering::Acquire);
                let missing = streams.target().saturating_sub(streams.count());
                if missing == 0 {
                    failures.dialed();
                }
                for _ in 0..missing.saturating_sub(dialed) {
                    dialing.fetch_add(1, Ordering::AcqRel);
                    let dial = || {
                        match guarded(self.half().stop(), || self.dial()) {
                            Ok(()) => failures.dialed(),
                            Err(error) => self.stream_failed(&error, &failures),
                        }
                        dialing.fetch_sub(1, Ordering::AcqRel);
                    };
                    // A system that gives no thread now may give one later.
                    if let Err(cause) = std::thread::Builder::new().spawn_scoped(scope, dial) {
                        dialing.fetch_sub(1, Ordering::AcqRel);
                        self.stream_failed(&Error::io("could not start a thread for a stream", &cause), &failures);
                        break;
                    }
                }
                self.half().stop().wait(Duration::from_millis(failures.wait_ms()));
            }
        });
    }

    fn stream_failed(&self, error: &Error, failures: &Failures) {
        if self.ended() {
            return;
        }
        let count = failures.add();
        self.account.retried("a stream", error, failures.wait_ms());
        if count > self.retries.saturating_mul(u32::from(self.half().streams().target().max(1))) {
            self.fail(error);
        }
    }

    fn dial(&self) -> Result<()> {
        let Ok(number) = u16::try_from(self.next_stream.fetch_add(1, Ordering::Relaxed)) else {
            let error = Error::new(ErrorKind::ConnectionLost, "this session has used up its stream numbers");
            self.fail(&error);
            return Err(error);
        };
        match (&self.remote, self.half()) {
            (Some((dialer, _)), Half::Sender(half)) => half.attach(number, dialer.sink(number)?),
            (Some((dialer, _)), Half::Receiver(half)) => half.attach(number, dialer.source(number)?),
            (None, Half::Sender(sender)) => self.halves.iter().try_for_each(|(half, _)| match half {
                Half::Receiver(receiver) => sender.attach(number, self.joined(receiver, number)?),
                Half::Sender(_) => Ok(()),
            }),
            (None, Half::Receiver(_)) => Ok(()),
        }
    }

    /// The sending end of a stream to the receiver in this process.
    fn joined(&self, receiver: &Receiver, number: u16) -> Result<Box<dyn FrameSink>> {
        if self.direct {
            return Ok(receiver.direct(number));
        }
        let (sink, source) = memory::stream(8);
        receiver.attach(number, source)?;
        Ok(sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dials_that_fail_while_other_streams_get_on_are_made_ever_later() {
        let failures = Failures::default();
        assert_eq!(failures.wait_ms(), 5);
        let waits: Vec<_> = (0..10)
            .map(|_| {
                assert_eq!(failures.add(), 1, "progress makes up for it");
                failures.progressed();
                failures.wait_ms()
            })
            .collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 1280, 1280]);
        failures.dialed();
        assert_eq!(failures.wait_ms(), 5);
    }

    #[test]
    fn streams_that_break_as_soon_as_they_are_dialed_count_until_there_is_progress() {
        let failures = Failures::default();
        for count in 1..=3 {
            assert_eq!(failures.add(), count);
            failures.dialed();
        }
        assert_eq!(failures.wait_ms(), 40);
        failures.progressed();
        assert_eq!(failures.wait_ms(), 5);
    }
}
