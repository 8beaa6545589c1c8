//! A Nelder-Mead tuner: a simplex of settings that turns over, grows and shrinks towards the best [ASM §5, reference 25].
//!
//! It searches concurrency, parallelism and pipelining directly, one measurement an interval, without any model of the path. Once the
//! simplex has shrunk to one setting it stays there, and begins anew around it when the utility there has changed by more than a tenth for two
//! intervals.
//!
//! The coefficients are those of Nelder and Mead (The Computer Journal 7, 1965). Their simplex lies in the logarithms of the parameters and is
//! measured at the whole numbers nearest to it. The tuner of the papers maximises throughput; this maximises Falcon's utility, so that
//! streams that bring nothing cost something, as with every optimizer here.

use super::setting::Setting;
use super::{Decision, Observation, Optimizer, Policy, utility};
use crate::error::Result;

mod simplex;

use simplex::{Simplex, Vertex};

/// By which share the utility of the setting that was found has to change, and for how many intervals, for the search to begin anew.
const CHANGED: (f64, u8) = (0.1, 2);

/// Rounding to whole numbers moves a point by less than this along an axis: from 1.5 to 1 it is log2(1.5).
const ROUNDING: f64 = 0.6;

/// Turns a simplex over until it has found a setting.
#[derive(Debug, Clone)]
pub struct NelderMead {
    asked: Setting,
    simplex: Simplex,
    found: Option<Found>,
}

/// The setting that a search ended with.
#[derive(Debug, Clone, Copy)]
struct Found {
    setting: Setting,
    utility: f64,
    changed: u8,
}

impl NelderMead {
    /// Begins with 2 files in flight, as one chunk each, one after the other.
    pub fn new() -> Self {
        let first = Setting::new(2, 1, 1);
        Self { asked: first, simplex: Simplex::around(first.point()), found: None }
    }

    fn ask(&mut self, setting: Setting, policy: &Policy, reason: &str) -> Decision {
        self.asked = setting.within(policy);
        self.asked.decision(policy, format!("{reason}{}", self.asked))
    }

    /// The next setting of the simplex, or the one that it has shrunk to.
    fn search(&mut self, policy: &Policy) -> Decision {
        if let Some(best) = self.simplex.collapsed(|point| Setting::nearest(point, policy)) {
            let setting = Setting::nearest(best.point, policy);
            self.found = Some(Found { setting, utility: best.utility, changed: 0 });
            return self.ask(setting, policy, "the simplex has shrunk to one setting: staying with ");
        }
        let next = self.simplex.next();
        let setting = Setting::nearest(next.point, policy);
        self.ask(setting, policy, &format!("{}: measuring ", next.why))
    }

    /// Where a measurement lies: at the point of the simplex that was to be measured, or, where limits or a guard made something else of it
    /// than rounding does, at the setting that ran.
    fn place(&self, setting: Setting) -> [f64; 3] {
        let (asked, ran) = (self.simplex.next().point, setting.point());
        let is_rounded = asked.iter().zip(ran).all(|(asked, ran)| (asked - ran).abs() < ROUNDING);
        if is_rounded { asked } else { ran }
    }

    /// Stays with the setting that was found until it no longer brings what it did.
    fn watch(&mut self, found: Found, utility: f64, policy: &Policy) -> Decision {
        let off = (utility - found.utility).abs() > CHANGED.0 * found.utility.abs();
        let changed = if off { found.changed + 1 } else { 0 };
        if changed < CHANGED.1 {
            // Small changes are followed, so that many of them do not add up to a large one.
            let known = if off { found.utility } else { f64::midpoint(found.utility, utility) };
            self.found = Some(Found { utility: known, changed, ..found });
            return self.ask(found.setting, policy, "staying with ");
        }
        self.found = None;
        self.simplex = Simplex::around(found.setting.point());
        self.search(policy)
    }
}

impl Default for NelderMead {
    fn default() -> Self {
        Self::new()
    }
}

impl Optimizer for NelderMead {
    fn name(&self) -> &'static str {
        "nelder-mead"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.ask(self.asked, policy, "start: ")
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let policy = &observation.policy;
        let utility = utility::of(observation);
        let Some(setting) = self.asked.ran(observation).filter(|_| utility.is_finite()) else {
            return Ok(self.ask(self.asked, policy, "nothing usable was measured: once more "));
        };
        if let Some(found) = self.found {
            return Ok(self.watch(found, utility, policy));
        }
        self.simplex.measured(Vertex { point: self.place(setting), utility });
        Ok(self.search(policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::testing::{TestPath, Trial};

    fn small_files() -> TestPath {
        TestPath { file_size: 1 << 20, ..TestPath::of_streams(12) }
    }

    #[test]
    fn the_simplex_turns_over_and_grows_towards_the_best() {
        let mut optimizer = NelderMead::new();
        let mut trial = Trial::new(&mut optimizer, small_files(), 64);
        let vertices = [(2, 1, 1), (8, 1, 1), (8, 4, 1), (2, 1, 4)];
        assert_eq!(trial.settings(4), vertices);
        let turns = [(15, 3, 3), (32, 4, 4), (45, 5, 1), (25, 1, 2), (63, 7, 3), (18, 2, 1)];
        assert_eq!(trial.settings(6), turns);
        assert_eq!(trial.settings(6), [(12, 1, 3), (14, 1, 6), (6, 2, 2), (14, 1, 2), (10, 1, 5), (18, 2, 2)]);
    }

    #[test]
    fn it_comes_to_rest_at_a_good_setting() {
        let mut optimizer = NelderMead::new();
        let mut trial = Trial::new(&mut optimizer, small_files(), 64);
        let late = trial.decisions(60).split_off(50);
        let path = small_files();
        assert!(late.iter().all(|decision| path.moves(decision).0 > 0.85 * path.capacity), "{late:?}");
        assert!(late.iter().all(|decision| decision.concurrency == late[0].concurrency), "{late:?}");
        assert!(late[0].reason.starts_with("staying with"), "{}", late[0].reason);
    }

    #[test]
    fn it_searches_anew_when_the_path_has_changed() {
        let mut optimizer = NelderMead::new();
        let mut trial = Trial::new(&mut optimizer, small_files(), 64);
        let streams = trial.streams(60)[59];
        trial.path.capacity /= 3.0;
        let late = trial.streams(60)[59];
        assert!(late < streams, "{late} streams for a third of what {streams} moved");
    }

    #[test]
    fn what_ran_instead_of_what_was_asked_for_is_what_was_measured() {
        let mut tuner = NelderMead::new();
        let elsewhere = Setting::new(9, 2, 4).decision(&Policy::new(crate::optimizer::PolicyName::Fair, 64), "held");
        tuner.decide(&Observation::of_a_test(elsewhere, 1e6, 64)).unwrap();
        assert_eq!(tuner.simplex.best().map(|vertex| vertex.point), Some(Setting::new(9, 2, 4).point()));
    }
}
