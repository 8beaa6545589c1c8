//! The rate at which the system sends each stream at most: that of the options, that of the last decision, and in the beginning of a stream of
//! which nothing was decided, what may get through.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::link::{Pacer, TcpGauge};
use crate::pipeline::sender::start::Start;

/// Stands for no limit.
const UNLIMITED: u64 = u64::MAX;

/// How often streams that begin are looked at, at most.
const OFTEN: Duration = Duration::from_millis(5);

/// The rate of all streams, and how each of them is told.
pub(super) struct Pacing {
    /// Bytes per second of the whole transfer, beyond which none of its streams goes.
    most: u64,
    streams: Arc<Mutex<Streams>>,
}

struct Streams {
    rate: u64,
    open: HashMap<u16, Open>,
    /// Whether a thread looks at those that begin.
    watched: bool,
}

struct Open {
    pacer: Pacer,
    tcp: Option<TcpGauge>,
    start: Option<Start>,
}

impl Pacing {
    /// The most bytes per second of the whole transfer, if there is a limit.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates")]
    pub(super) fn new(limit_rate: Option<f64>) -> Self {
        let most = limit_rate.map_or(UNLIMITED, |rate| rate.max(1.0) as u64);
        Self { most, streams: Arc::new(Mutex::new(Streams { rate: most, open: HashMap::new(), watched: false })) }
    }

    /// Lets each stream, and those that will be opened, send so many bytes per second at most; 0 for no limit.
    pub(super) fn set(&self, rate: u64) {
        let rate = self.most.min(if rate == 0 { UNLIMITED } else { rate });
        let mut streams = self.streams.lock();
        if std::mem::replace(&mut streams.rate, rate) != rate {
            for open in streams.open.values_mut() {
                open.start = None;
                (open.pacer)(rate);
            }
        }
    }

    /// Paces a stream from now on, if its system can; where nothing was decided and the system tells how it does, it begins slowly.
    pub(super) fn opened(&self, number: u16, pacer: Option<Pacer>, tcp: Option<TcpGauge>) {
        let Some(pacer) = pacer else { return };
        let mut streams = self.streams.lock();
        let told = tcp.as_ref().filter(|_| streams.rate == self.most).and_then(|tcp| tcp());
        let start = told.and_then(|told| Start::of(&told, Instant::now())).filter(|start| start.rate() < streams.rate);
        let rate = start.as_ref().map_or(streams.rate, Start::rate);
        if rate != UNLIMITED {
            pacer(rate);
        }
        let begins = start.is_some();
        streams.open.insert(number, Open { pacer, tcp, start });
        if begins && !streams.watched {
            streams.watched = true;
            let weak = Arc::downgrade(&self.streams);
            let watcher = std::thread::Builder::new().name("edt-start".to_owned()).spawn(move || watch(&weak));
            if watcher.is_err() {
                streams.watched = false;
                streams.begin_freely();
            }
        }
    }

    /// Forgets a stream.
    pub(super) fn ended(&self, number: u16) {
        self.streams.lock().open.remove(&number);
    }
}

impl Streams {
    /// Looks at the streams that begin; after how much time that is due again, if any do.
    fn look(&mut self, now: Instant) -> Option<Duration> {
        let mut soon: Option<Duration> = None;
        for Open { pacer, tcp, start } in self.open.values_mut() {
            let Some(begins) = start else { continue };
            let told = tcp.as_ref().and_then(|tcp| tcp());
            if told.is_some_and(|told| begins.goes_on(&told, now)) && begins.rate() < self.rate {
                pacer(begins.rate());
                soon = soon.into_iter().chain([begins.soon()]).min();
            } else {
                *start = None;
                pacer(self.rate);
            }
        }
        soon
    }

    fn begin_freely(&mut self) {
        let rate = self.rate;
        for open in self.open.values_mut() {
            if open.start.take().is_some() {
                (open.pacer)(rate);
            }
        }
    }
}

/// Looks at streams that begin, as long as there are any.
fn watch(streams: &Weak<Mutex<Streams>>) {
    let mut pause = OFTEN;
    loop {
        std::thread::sleep(pause);
        let Some(streams) = streams.upgrade() else { return };
        let mut streams = streams.lock();
        let Some(soon) = streams.look(Instant::now()) else {
            streams.watched = false;
            return;
        };
        pause = soon.max(OFTEN);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn all_streams_keep_to_the_last_rate_and_never_go_beyond_that_of_the_transfer() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let stream = |number: u16| -> Option<Pacer> {
            let told = Arc::clone(&told);
            Some(Arc::new(move |rate| told.lock().push((number, rate))))
        };
        let heard = || std::mem::take(&mut *told.lock());
        let pacing = Pacing::new(Some(1e6));
        pacing.opened(1, stream(1), None);
        assert_eq!(heard(), [(1, 1_000_000)]);
        pacing.set(5000);
        pacing.set(5000);
        pacing.opened(2, stream(2), None);
        assert_eq!(heard(), [(1, 5000), (2, 5000)]);
        pacing.ended(1);
        pacing.set(2_000_000);
        pacing.set(0);
        assert_eq!(heard(), [(2, 1_000_000)]);
        let unlimited = Pacing::new(None);
        unlimited.opened(3, stream(3), None);
        unlimited.opened(4, None, None);
        assert_eq!(heard(), []);
        unlimited.set(7);
        unlimited.set(0);
        assert_eq!(heard(), [(3, 7), (3, UNLIMITED)]);
    }
}
