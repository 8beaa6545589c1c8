//! What a stage did in one interval, and what that says of it.

use super::fit::{Bound, Fit, Point};
use super::stage::{ENOUGH_GAIN, LOSSY, MUCH};

/// Most of what arrives that may be late: as much as was lost before, where that is much, beyond what is lost now.
const MOST_LATE: f64 = 0.25;

/// Whether the system sent each worker's bytes no faster than it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paced {
    No,
    /// It did not, and each lost what was beyond a queue of its own.
    Alone,
    /// It did, and whether each has a rate of its own is not known.
    Untold,
    /// It did, and that is known.
    Told,
    /// It did, and the path is full: there is a queue, and they carry less than that, or it came with them.
    Crowded,
    /// It did, only to see whether there is room for more workers.
    Look,
}

impl Paced {
    /// Whether they are to stay so.
    pub(super) fn lasts(self) -> bool {
        matches!(self, Self::Untold | Self::Told | Self::Crowded)
    }
}

/// Which bytes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// Those that arrived in their order, some of which may be late.
    InOrder,
    /// All that got through, also beyond gaps.
    BeyondGaps,
}

/// What was seen of a stage in one interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Workers that there were.
    pub(super) ran: f64,
    /// Workers that worked, waiting not counted.
    pub(super) working: f64,
    /// Bytes per second; positive.
    pub(super) rate: f64,
    /// How that was counted.
    pub(super) counted: Counted,
    /// Lost share of what was sent, where the system tells.
    pub(super) loss: Option<f64>,
    /// The same of the time before the interval in which new workers found their rate.
    pub(super) loss_before: Option<f64>,
    /// Whether they are what the stage can move.
    pub(super) bound: Bound,
    /// The part of the interval that new workers may have spent below their rate, 0 to 1.
    pub(super) lack: f64,
    /// What the interval counts for where time has to pass, 0 to 1.
    pub(super) time: f64,
    /// Whether the round trip time is that of a queue.
    pub(super) queued: bool,
    /// Whether they fill the path, where a queue tells that which they share, or that there is none.
    pub(super) fills: Option<bool>,
    /// Whether the processors of this host were what limited.
    pub(super) cpu_bound: bool,
    /// Whether it was paced.
    pub(super) paced: Paced,
    /// Half of its workers, where all share one rate and these may carry it all.
    pub(super) half: Option<u16>,
    /// The most of its workers for which there is room, where a queue has told.
    pub(super) room: Option<u16>,
}

impl Seen {
    /// A second in which all that ran worked, and nothing was lost.
    #[cfg(test)]
    pub(super) fn of(ran: f64, rate: f64) -> Self {
        let (bound, working) = (Bound::Exact, ran);
        Self {
            ran,
            working,
            rate,
            counted: Counted::InOrder,
            loss: None,
            loss_before: None,
            bound,
            lack: 0.0,
            time: 1.0,
            queued: false,
            fills: None,
            cpu_bound: false,
            paced: Paced::No,
            half: None,
            room: None,
        }
    }

    /// The measurement, where there were `before` workers in the interval before, which lost this share. What new workers lacked is made up for by
    /// half, and in doubt, and so is what arrives only now because something before it was lost; where workers have gone and the others still grow
    /// into their place, it is the least that these can move.
    pub(super) fn measured(&self, before: u16, lost: f64, grows: bool) -> Point {
        let new = (1.0 - f64::from(before) / self.ran.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let lacked = -0.5 * (-new * self.lack).ln_1p();
        let late = if lost > MUCH && self.counted == Counted::InOrder {
            (lost - self.loss.unwrap_or(0.0)).clamp(0.0, MOST_LATE)
        } else {
            0.0
        };
        let bound = if grows { Bound::AtLeast } else { self.bound };
        Point::new(self.working, self.rate, bound).filling(self.fills).corrected(lacked - late, lacked + late)
    }

    /// Whether there is no room for so many: paced workers lose some, or a look has found none.
    pub(super) fn is_in_vain(&self) -> bool {
        self.paced == Paced::Look || self.paced.lasts() && self.loss.is_some_and(|loss| loss > LOSSY)
    }

    /// Whether a probe that began with so many workers brought at least half of what as many more would bring on an empty stage.
    pub(super) fn gained(&self, fit: &Fit, from: u16) -> bool {
        let from = f64::from(from.max(1));
        self.rate.ln() - fit.predict(from).0 >= ENOUGH_GAIN * (self.working / from).ln()
    }
}
