//! What the last decision changed, as far as the time that it needs depends on it.

use crate::optimizer::Decision;

/// How many times as much paced streams are sent, together, where it only has to be seen whether that gets through.
const MORE: f64 = 1.1;

/// The last decision, beside the one before it.
pub(super) struct Change {
    streams: u16,
    pacing: Option<u64>,
    /// Whether some of its streams are new: those of the first one are what the warm-up waits for.
    pub(super) grown: bool,
    /// Whether its streams are paced, as those before them were or since they began, and sent more than those together.
    pub(super) more: bool,
}

impl Default for Change {
    fn default() -> Self {
        Self { streams: u16::MAX, pacing: None, grown: false, more: false }
    }
}

impl Change {
    /// Takes the next decision.
    pub(super) fn follow(&mut self, decision: &Decision) {
        let (streams, pacing) = (decision.concurrency.network, decision.pacing);
        let sent = |streams: u16, pacing: Option<u64>| pacing.map(|each| f64::from(streams) * each as f64);
        let (now, before) = (sent(streams, pacing), sent(self.streams, self.pacing));
        self.grown |= streams > self.streams;
        self.more = now.zip(before).is_some_and(|(now, before)| now > MORE * before);
        (self.streams, self.pacing) = (streams, pacing);
    }
}
