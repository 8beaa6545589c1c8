//! What it costs that workers join others: they begin by sending too much, and the others lose with them.

/// For about how many seconds new workers lose before the interval begins that tells of them, in which the least of it is seen; and how many times
/// what is lost before its end is lost in all.
const BEFORE_S: f64 = 0.4;
const ALL: f64 = 1.5;

/// Fewer new workers than this part of all tell no more than so many would; and most that is held possible.
const LEAST_PART: f64 = 0.2;
const MOST: f64 = 1.0;

/// Seconds of what is sent from which on much is lost if workers join others.
const COSTLY: f64 = 0.05;

/// The lost share that is that of a limit which holds a stream to its rate, and not only of how it begins.
pub(super) const POLICED: f64 = 0.5;

/// The share that the first count as having lost at least, if they were restrained.
const LEAST: f64 = 0.1;

/// What an interval adds to what is usually lost.
const USUAL: f64 = 0.25;

/// What was lost when workers joined others, in seconds of all that is sent, and what usually is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Joining {
    /// What would be lost where all workers are new; `None` before any joined.
    all: Option<f64>,
    /// What was lost when the first began, or was lost anyway.
    begun: f64,
    /// The share that the first lost until they were restrained, if they were.
    restrained: Option<f64>,
    /// The share that is lost where none joined; before there was such an interval the least that was lost while some did.
    usual: Option<f64>,
    rested: bool,
}

/// The shares that were lost: in an interval, which counts for its seconds, 1 at most, and before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost {
    pub(super) before: f64,
    pub(super) within: f64,
    pub(super) time: f64,
}

impl Joining {
    /// Takes what an interval lost in which all workers had been there for a while.
    pub(super) fn rested(&mut self, lost: f64) {
        let known = self.usual.filter(|_| self.rested);
        (self.usual, self.rested) = (Some(known.map_or(lost, |usual| usual + USUAL * (lost - usual))), true);
    }

    /// Takes the share that the first lost until they were restrained.
    pub(super) fn restrained(&mut self, lost: f64) {
        self.restrained = Some(lost.max(LEAST));
    }

    /// Takes what was lost where there were more workers than `before`, which may be none.
    pub(super) fn joined(&mut self, before: u16, now: u16, lost: Lost) {
        if !self.rested {
            self.usual = Some(self.usual.map_or(lost.within, |usual| usual.min(lost.within)));
        }
        if before == 0 {
            let begun = ALL * (BEFORE_S * lost.before + lost.time * lost.within);
            self.begun = match self.restrained.take() {
                // By a limit of their own: others that are as fast do not share it.
                Some(lost) if lost >= POLICED => 0.0,
                Some(lost) => begun.max(ALL * lost),
                None => begun.max(0.0),
            };
        } else {
            let all = (self.cost(lost) / part(before, now).max(LEAST_PART)).min(MOST);
            self.all = Some(self.all.map_or(all, |known| f64::midpoint(known, all)));
        }
    }

    /// What is still known of it where nothing is of what is lost otherwise.
    pub(super) fn forgotten(self) -> Self {
        Self { begun: self.begun, restrained: self.restrained, ..Self::default() }
    }

    /// Whether much may be lost if there are more workers than `before`; what the first lost when they began tells before others joined them.
    pub(super) fn is_costly(self, before: u16, now: u16) -> bool {
        self.all.unwrap_or(self.begun.min(MOST)) * part(before, now) > COSTLY
    }

    /// Seconds of what is sent that are lost beyond what usually is, where workers have joined.
    pub(super) fn cost(self, lost: Lost) -> f64 {
        let more = |share: f64| self.usual.map_or(0.0, |usual| (share - usual).max(0.0));
        ALL * (BEFORE_S * more(lost.before) + lost.time * more(lost.within))
    }

    /// The same before there are more workers than `before`.
    pub(super) fn expected(self, before: u16, now: u16) -> f64 {
        self.all.unwrap_or_default() * part(before, now)
    }
}

/// The part of the workers that are new.
fn part(before: u16, now: u16) -> f64 {
    1.0 - f64::from(before.min(now)) / f64::from(now.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_join_the_more_is_lost_beyond_what_usually_is() {
        let mut joining = Joining::default();
        (0..20).for_each(|_| joining.rested(0.02));
        // Two more than eight.
        joining.joined(8, 10, Lost { before: 0.12, within: 0.04, time: 0.5 });
        for (before, now, expected) in [(8, 10, 0.075), (6, 10, 0.15), (0, 10, 0.375), (10, 10, 0.0), (10, 8, 0.0)] {
            assert!((joining.expected(before, now) - expected).abs() < 1e-6, "{before} {now}");
        }
        // One more than ten, of which far too much was lost by chance.
        joining.joined(10, 11, Lost { before: 1.0, within: 1.0, time: 1.0 });
        assert!((joining.expected(0, 10) - 0.6875).abs() < 1e-6);
    }

    #[test]
    fn what_the_first_lost_when_they_began_tells_until_others_have_joined_them() {
        let mut joining = Joining::default();
        assert!(!joining.is_costly(1, 2));
        joining.joined(0, 1, Lost { before: 0.0, within: 0.1, time: 1.0 });
        assert!(joining.is_costly(1, 2) && joining.forgotten().is_costly(1, 2) && !joining.is_costly(8, 9));
        let mut unknown = Joining::default();
        unknown.joined(0, 1, Lost { before: f64::NAN, within: 0.1, time: 1.0 });
        assert!(!unknown.is_costly(1, 2));
        joining.rested(0.0);
        joining.joined(1, 2, Lost { before: 0.01, within: 0.0, time: 1.0 });
        assert!(!joining.is_costly(1, 2));
        joining.joined(1, 2, Lost { before: 0.0, within: 0.3, time: 1.0 });
        assert!(joining.is_costly(1, 2));
    }

    #[test]
    fn of_the_first_that_had_to_be_restrained_as_much_counts_as_they_would_have_lost() {
        let mut joining = Joining::default();
        joining.restrained(0.2);
        let mut joining = joining.forgotten();
        joining.joined(0, 1, Lost { before: 0.02, within: 0.0, time: 1.0 });
        assert!(joining.is_costly(1, 2));
        // By a limit of their own, in which others have no part.
        joining.restrained(0.6);
        joining.joined(0, 1, Lost { before: 0.5, within: 0.1, time: 1.0 });
        assert!(!joining.is_costly(1, 2));
        // Of one that was restrained before it lost anything too.
        joining.restrained(0.0);
        joining.joined(0, 1, Lost { before: 0.0, within: 0.0, time: 1.0 });
        assert!(joining.is_costly(1, 2));
        // Those of another connection are others.
        joining.joined(0, 1, Lost { before: 0.02, within: 0.0, time: 1.0 });
        assert!(!joining.is_costly(1, 2));
    }

    #[test]
    fn what_is_not_lost_by_joining_costs_nothing() {
        let mut joining = Joining::default();
        assert!(joining.expected(1, 10) < 1e-12);
        joining.rested(0.1);
        joining.joined(8, 10, Lost { before: 0.02, within: 0.0, time: 1.0 });
        assert!(joining.expected(1, 10) < 1e-12);
        // Where none has rested yet, and a tenth is always lost.
        let mut growing = Joining::default();
        for (before, now) in [(0, 4), (4, 8), (8, 16)] {
            growing.joined(before, now, Lost { before: 0.1, within: 0.1, time: 0.5 });
        }
        assert!(growing.expected(1, 10) < 1e-12);
    }
}
