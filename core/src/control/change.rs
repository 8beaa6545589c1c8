//! What the last decision changed, as far as the time that it needs depends on it.

use crate::optimizer::Decision;
use crate::optimizer::pace::New;

/// How many times as much paced streams are sent, together, where it only has to be seen whether that gets through.
const MORE: f64 = 1.1;

/// The last decision, beside the one before it.
pub(super) struct Change {
    streams: u16,
    pacing: Option<u64>,
    /// Which of its streams are new, but for those of the first decision, for which the warm-up waits.
    new: New,
    /// Whether it only has to be seen if what its streams are sent gets through: there are more of them, paced as those before them were, and sent more
    /// together, or they have just been restrained.
    pub(super) more: bool,
}

impl Default for Change {
    fn default() -> Self {
        Self { streams: u16::MAX, pacing: None, new: New::None, more: false }
    }
}

impl Change {
    /// Takes the next decision.
    pub(super) fn follow(&mut self, decision: &Decision) {
        let (streams, pacing) = (decision.concurrency.network, decision.pacing);
        let sent = |streams: u16, pacing: Option<u64>| pacing.map(|each| f64::from(streams) * each as f64);
        let (now, before) = (sent(streams, pacing), sent(self.streams, self.pacing));
        let grown = streams > self.streams;
        if grown && self.new == New::None {
            self.new = New::Some;
        }
        // Those that are only sent faster need longer: BBR looks for more every eight round trips.
        self.more = grown && now.zip(before).is_some_and(|(now, before)| now > MORE * before);
        (self.streams, self.pacing) = (streams, pacing);
    }

    /// Its streams were restrained before they had found their windows.
    pub(super) fn restrained(&mut self) {
        (self.new, self.more) = (New::First, true);
    }

    /// Which of its streams are new, for once.
    pub(super) fn take_new(&mut self) -> New {
        std::mem::replace(&mut self.new, New::None)
    }
}
