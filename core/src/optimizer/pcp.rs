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
}

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
            self.searches.push((density, Search { best: Setting::new(1, 1, 1), utility: None, done: 0 }));
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
    /// Takes a measurement: the best setting so far, or the end of a parameter's search.
    fn measured(&mut self, setting: Setting, utility: f64) {
        match self.utility {
            None => (self.best, self.utility) = (setting, Some(utility)),
            _ if self.done == ORDER.len() => {}
            Some(best) if utility > best => (self.best, self.utility) = (setting, Some(utility)),
            Some(_) => self.done += 1,
        }
    }

    /// The setting to measure next and the parameter that is searched; `None` once all are done. Parameters that cannot grow are passed over.
    fn next(&mut self, policy: &Policy) -> Option<(Setting, &'static str)> {
        if self.utility.is_none() {
            return Some((self.best, "the first setting"));
        }
        while let Some(parameter) = ORDER.get(self.done) {
            let doubled = parameter.doubled(self.best);
            if doubled != self.best && doubled.within(policy) == doubled {
                return Some((doubled, parameter.name()));
            }
            self.done += 1;
        }
        None
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
            self.search(density).measured(setting, utility);
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
    fn nothing_grows_beyond_what_is_allowed() {
        let mut optimizer = Pcp::new();
        let settings = Trial::new(&mut optimizer, TestPath::of_streams(60), 8).settings(30);
        assert!(settings.iter().all(|(streams, parallelism, _)| *streams <= 8 && *parallelism <= 8), "{settings:?}");
    }
}
