//! Whether each stream has a rate of its own, or all share one: what more of them carry tells, or fewer.

use super::OTHER;
use super::sent::Sent;

/// Growth of the streams that tells whether each has a rate of its own, and the most that each loses with it then, as a power of the growth: all
/// of it is lost where they share one rate. Where next to nothing is lost they may carry a little less, as by noise.
pub(super) const TELLING: f64 = 1.2;
const SHARED: f64 = 0.4;
const SHARED_LOSSLESS: f64 = 0.55;

/// Growth that tells that they share one also where rates of their own may just have filled the path, and that proves that they do not.
const SURE: f64 = 1.5;

/// What is known of it, at one pacing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rates {
    /// The fewest streams that were sent so fast, and the most that carried as much each.
    pub(super) fewest: u16,
    pub(super) most: u16,
    /// The fewest of which it is known whether they carry it all.
    pub(super) tried: u16,
    /// Whether more of them carried as much each, or fewer no more; the same of many more; whether many more did not.
    pub(super) own: bool,
    pub(super) proven: bool,
    pub(super) shared: bool,
}

impl Rates {
    /// Nothing but that so many streams are sent so fast.
    pub(super) fn of(streams: u16) -> Self {
        Self { fewest: streams, most: streams, tried: streams, ..Self::default() }
    }

    fn growth(self, sent: &Sent) -> f64 {
        f64::from(sent.streams) / f64::from(self.fewest.max(1))
    }

    /// Whether there are so many more that what they carry tells.
    pub(super) fn tell(self, sent: &Sent) -> bool {
        self.growth(sent) >= TELLING
    }

    /// Whether each carries as much as fewer did. Where all share one rate, so many more lose what they are sent beyond it; how much each carried
    /// is known less well.
    pub(super) fn each(self, sent: &Sent, rate: f64) -> bool {
        let lossless = sent.loss.is_some_and(|loss| loss <= OTHER);
        sent.each() > rate * self.growth(sent).powf(if lossless { -SHARED_LOSSLESS } else { -SHARED })
    }

    /// Takes what they carried.
    pub(super) fn learn(&mut self, sent: &Sent, rate: f64) {
        let (each, many) = (self.each(sent, rate), self.growth(sent) >= SURE);
        if each {
            self.most = self.most.max(sent.streams);
        }
        self.own |= self.tell(sent) && each && !self.shared;
        self.proven |= many && each;
        if many && !each {
            if !self.proven {
                // A few more had room beside a rate that was too low: together they carry what is shared.
                self.fewest = self.fewest.max(self.most);
            }
            (self.own, self.shared) = (self.proven, true);
        }
    }
}
