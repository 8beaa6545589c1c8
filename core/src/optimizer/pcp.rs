//! PCP: hill climbing by doubling, one parameter after the other, for one cluster of files after the other [HARP §2, §3, §4, reference 25
//! (Yildirim, Arslan, Kim and Kosar, IEEE Transactions on Cloud Computing 4, 2016)].
//!
//! From 1 on it doubles the parallelism as long as that helps, then the concurrency, then the pipelining, and stays with what it has found
//! until files of another size are sent. It scans little of what is possible, needs a dozen measurements for each cluster, and does not
//! notice that a path has changed.
//!
//! Which files are at work is told by what was sent in the last intervals, since the engine decides what goes first. What was found for a
//! cluster is kept for when it comes again. Where PCP compares throughput, this compares Falcon's utility, so that streams that bring
//! nothing cost something, as with every optimizer here.

use super::heuristic::{AtWork, Density, PathFacts};
use super::setting::{MOST_PARALLELISM, MOST_PIPELINING, Setting};
use super::{Decision, Observation, Optimizer, Policy, utility};
use crate::error::Result;

/// The parameters in the order in which they are searched.
const ORDER: [Parameter; 3] = [Parameter::Parallelism, Parameter::Concurrency, Parameter::Pipelining];

/// Doubles one parameter after the other.
#[derive(Debug, Clone)]
pub struct Pcp {
    path: PathFacts,
    work: AtWork,
    asked: Setting,
    /// The clusters that were met, each with its search.
    searches: Vec<(Density, Search)>,
    /// The cluster for which was asked.
    at_work: Density,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parameter {
    Parallelism,
    Concurrency,
    Pipelining,
}

/// A search for the setting of one cluster.
#[derive(Debug, Clone, Copy)]
struct Search {
    best: Setting,
    /// The utility of the best; `None` before anything was measured.
    utility: Option<f64>,
    /// How many parameters are done.
    done: usize,
    /// The place in [`ORDER`] of the parameter that was doubled; `None` where none could be.
    doubled: Option<usize>,
    /// Intervals in a row in which something else ran than what was asked for.
    missed: u8,
}

/// Intervals in which something else may run, as where the guard holds a setting, before a doubling counts as one that did not help.
const MISSES: u8 = 3;

impl Pcp {
    /// Begins with one file, whole, and nothing ahead.
    pub fn new() -> Self {
        let one = Setting::new(1, 1, 1);
        Self { path: PathFacts::new(None), work: AtWork::default(), asked: one, searches: Vec::new(), at_work: Density::Small }
    }

    fn ask(&mut self, setting: Setting, policy: &Policy, reason: &str) -> Decision {
        self.asked = setting.within(policy);
        self.asked.decision(policy, format!("{reason}{}", self.asked))
    }

    /// The search for a cluster, begun if it is new.
    fn search(&mut self, density: Density) -> &mut Search {
        let at = self.searches.iter().position(|(known, _)| *known == density).unwrap_or_else(|| {
            self.searches.push((density, Search::new()));
            self.searches.len() - 1
        });
        &mut self.searches[at].1
    }

    /// Asks for what a search wants to know next, or for what it found.
    fn go_on(&mut self, density: Density, policy: &Policy) -> Decision {
        self.at_work = density;
        let search = self.search(density);
        let (next, best) = (search.next(policy), search.best);
        match next {
            Some((setting, what)) => self.ask(setting, policy, &format!("{} files, {what}: measuring ", density.name())),
            None => self.ask(best, policy, &format!("{} files: staying with ", density.name())),
        }
    }
}

impl Search {
    fn new() -> Self {
        Self { best: Setting::new(1, 1, 1), utility: None, done: 0, doubled: None, missed: 0 }
    }

    /// Takes the measurement of a setting where one was asked for: the best so far, or the end of a parameter's search.
    fn measured(&mut self, setting: Setting, asked: Setting, utility: f64) {
        let Some(best) = self.utility else {
            (self.best, self.utility) = (setting, Some(utility));
            return;
        };
        let Some(doubled) = self.doubled else { return };
        if utility > best {
            (self.best, self.utility, self.missed) = (setting, Some(utility), 0);
        } else if setting != asked && self.missed < MISSES {
            self.missed += 1;
        } else {
            (self.done, self.missed) = (doubled + 1, 0);
        }
    }

    /// The setting to measure next and the parameter that is searched; `None` once all are done. Parameters that cannot grow as the policy
    /// is now are passed over.
    fn next(&mut self, policy: &Policy) -> Option<(Setting, &'static str)> {
        if self.utility.is_none() {
            return Some((self.best, "the first setting"));
        }
        let grows = |doubled: Setting, best| doubled != best && doubled.within(policy) == doubled;
        self.doubled = (self.done..ORDER.len()).find(|place| grows(ORDER[*place].doubled(self.best), self.best));
        self.doubled.map(|place| (ORDER[place].doubled(self.best), ORDER[place].name()))
    }
}

impl Parameter {
    fn name(self) -> &'static str {
        match self {
            Self::Parallelism => "parallelism",
            Self::Concurrency => "concurrency",
            Self::Pipelining => "pipelining",
        }
    }

    /// The setting with twice as much of this parameter, or the same beyond the bounds of a search.
    fn doubled(self, mut setting: Setting) -> Setting {
        let twice = |value: u16, most: u16| value.saturating_mul(2).min(most);
        match self {
            Self::Parallelism => setting.parallelism = twice(setting.parallelism, MOST_PARALLELISM),
            Self::Concurrency => setting.concurrency = twice(setting.concurrency, u16::MAX),
            Self::Pipelining => setting.pipelining = twice(setting.pipelining, MOST_PIPELINING),
        }
        setting
    }
}

impl Default for Pcp {
    fn default() -> Self {
        Self::new()
    }
}

impl Optimizer for Pcp {
    fn name(&self) -> &'static str {
        "pcp"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.ask(self.asked, policy, "start: ")
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        self.path.learn(observation);
        let policy = &observation.policy;
        let density = Density::of(self.work.mean_size(observation), self.path.bandwidth);
        let utility = utility::of(observation);
        let ran = self.asked.ran(observation).filter(|_| utility.is_finite());
        // What was measured while other files were sent says nothing of these.
        if let Some(setting) = ran.filter(|_| density == self.at_work || self.searches.is_empty()) {
            let asked = self.asked;
            self.search(density).measured(setting, asked, utility);
        }
        Ok(self.go_on(density, policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::testing::{TestPath, Trial};

    #[test]
    fn it_doubles_parallelism_then_concurrency_then_pipelining_and_stays() {
        let mut optimizer = Pcp::new();
        let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(6), 64);
        let parallelism = [(1, 1, 1), (2, 2, 1), (4, 4, 1), (8, 8, 1), (16, 16, 1)];
        assert_eq!(trial.settings(5), parallelism);
        assert_eq!(trial.settings(5), [(16, 8, 1), (8, 8, 2), (8, 8, 1), (8, 8, 1), (8, 8, 1)]);
    }

    #[test]
    fn small_files_need_pipelining() {
        let path = TestPath { file_size: 1 << 20, ..TestPath::of_streams(12) };
        let mut optimizer = Pcp::new();
        let mut trial = Trial::new(&mut optimizer, path.clone(), 64);
        let late = trial.decisions(30).split_off(20);
        assert!(late.iter().all(|decision| decision.pipelining >= 2), "{late:?}");
        assert!(late.iter().all(|decision| path.moves(decision).0 > 0.85 * path.capacity), "{late:?}");
    }

    #[test]
    fn it_does_not_notice_that_a_path_has_changed_but_that_files_have() {
        let mut optimizer = Pcp::new();
        let mut trial = Trial::new(&mut optimizer, TestPath::of_streams(12), 64);
        let found = trial.settings(30)[29];
        trial.path.capacity /= 4.0;
        assert_eq!(trial.settings(5), [found; 5]);
        trial.path.file_size = 1 << 20;
        assert_eq!(trial.settings(3)[1..], [(1, 1, 1), (2, 2, 1)]);
        trial.path.file_size = 1 << 30;
        assert_eq!(trial.settings(3)[2], found, "what was found for large files is known");
    }

    #[test]
    fn a_setting_that_was_held_does_not_end_a_search() {
        let (one, two) = (Setting::new(1, 1, 1), Setting::new(1, 2, 1));
        let policy = Policy::new(crate::optimizer::PolicyName::Fair, 64);
        let mut search = Search::new();
        search.measured(one, one, 10.0);
        for _ in 0..MISSES {
            assert_eq!(search.next(&policy), Some((two, "parallelism")));
            search.measured(one, two, 9.0);
        }
        assert_eq!(search.next(&policy), Some((two, "parallelism")));
        search.measured(one, two, 9.0);
        assert_eq!(search.next(&policy), Some((Setting::new(2, 1, 1), "concurrency")), "it does not wait for ever");
    }

    #[test]
    fn a_limit_of_the_moment_ends_no_search() {
        let policy = |limit| Policy::new(crate::optimizer::PolicyName::Fair, limit);
        let (one, two) = (Setting::new(1, 1, 1), Setting::new(1, 2, 1));
        let mut search = Search::new();
        search.measured(one, one, 10.0);
        assert_eq!(search.next(&policy(1)), Some((Setting::new(1, 1, 2), "pipelining")));
        assert_eq!(search.next(&policy(64)), Some((two, "parallelism")));
    }

    #[test]
    fn nothing_grows_beyond_what_is_allowed() {
        let mut optimizer = Pcp::new();
        let settings = Trial::new(&mut optimizer, TestPath::of_streams(60), 8).settings(30);
        assert!(settings.iter().all(|(streams, parallelism, _)| *streams <= 8 && *parallelism <= 8), "{settings:?}");
    }
}
