//! The rate at which the system sends each stream at most: that of the options, and that of the last decision.

use std::collections::HashMap;

use crate::link::Pacer;
use crate::sync::Mutex;

/// Stands for no limit.
const UNLIMITED: u64 = u64::MAX;

/// The rate of all streams, and how each of them is told.
pub(super) struct Pacing {
    /// Bytes per second of the whole transfer, beyond which none of its streams goes.
    most: u64,
    streams: Mutex<Streams>,
}

struct Streams {
    rate: u64,
    open: HashMap<u16, Pacer>,
}

impl Pacing {
    /// The most bytes per second of the whole transfer, if there is a limit.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates")]
    pub(super) fn new(limit_rate: Option<f64>) -> Self {
        let most = limit_rate.map_or(UNLIMITED, |rate| rate.max(1.0) as u64);
        Self { most, streams: Mutex::new(Streams { rate: most, open: HashMap::new() }) }
    }

    /// Lets each stream, and those that will be opened, send so many bytes per second at most; 0 for no limit.
    pub(super) fn set(&self, rate: u64) {
        let rate = self.most.min(if rate == 0 { UNLIMITED } else { rate });
        let mut streams = self.streams.lock();
        if std::mem::replace(&mut streams.rate, rate) != rate {
            streams.open.values().for_each(|pacer| pacer(rate));
        }
    }

    /// Paces a stream from now on, if its system can.
    pub(super) fn opened(&self, number: u16, pacer: Option<Pacer>) {
        let Some(pacer) = pacer else { return };
        let mut streams = self.streams.lock();
        if streams.rate != UNLIMITED {
            pacer(streams.rate);
        }
        streams.open.insert(number, pacer);
    }

    /// Forgets a stream.
    pub(super) fn ended(&self, number: u16) {
        self.streams.lock().open.remove(&number);
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
        pacing.opened(1, stream(1));
        assert_eq!(heard(), [(1, 1_000_000)]);
        pacing.set(5000);
        pacing.set(5000);
        pacing.opened(2, stream(2));
        assert_eq!(heard(), [(1, 5000), (2, 5000)]);
        pacing.ended(1);
        pacing.set(2_000_000);
        pacing.set(0);
        assert_eq!(heard(), [(2, 1_000_000)]);
        let unlimited = Pacing::new(None);
        unlimited.opened(3, stream(3));
        unlimited.opened(4, None);
        assert_eq!(heard(), []);
        unlimited.set(7);
        unlimited.set(0);
        assert_eq!(heard(), [(3, 7), (3, UNLIMITED)]);
    }
}
