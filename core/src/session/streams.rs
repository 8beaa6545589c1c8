//! The streams of a session, as the caller dials them.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use super::Caller;
use crate::error::{Error, ErrorKind, Result};
use crate::link::{FrameSink, memory};
use crate::pipeline::half::Half;
use crate::pipeline::receiver::Receiver;
use crate::pipeline::stop::guarded;

impl Caller {
    /// Dials until there are as many streams as there should be; gives up when streams break again and again without progress.
    pub(super) fn keep_streams(&self) {
        let (failures, dialing) = (AtomicU32::new(0), AtomicU16::new(0));
        std::thread::scope(|scope| {
            let mut progress = 0;
            while !self.ended() {
                if self.account.progress() != progress {
                    progress = self.account.progress();
                    failures.store(0, Ordering::Relaxed);
                }
                if let Some(error) = self.halves.iter().find_map(|(half, _)| half.streams().take_error()) {
                    self.stream_failed(&error, &failures);
                }
                let streams = self.half().streams();
                let missing = streams.target().saturating_sub(dialing.load(Ordering::Acquire) + streams.count());
                for _ in 0..missing {
                    dialing.fetch_add(1, Ordering::AcqRel);
                    let dial = || {
                        if let Err(error) = guarded(self.half().stop(), || self.dial()) {
                            self.stream_failed(&error, &failures);
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
                let wait = 5 << failures.load(Ordering::Relaxed).min(8);
                self.half().stop().wait(Duration::from_millis(wait));
            }
        });
    }

    fn stream_failed(&self, error: &Error, failures: &AtomicU32) {
        if self.ended() {
            return;
        }
        let count = failures.fetch_add(1, Ordering::Relaxed) + 1;
        self.account.retried("a stream", error, 5 << count.min(8));
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
