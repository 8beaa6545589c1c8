//! ASM: adaptive sampling over throughput surfaces that were learned from past transfers [ASM section 4.2].
//!
//! `edt learn` did the work before: it found which past transfers resemble each other, and for each load on their path which
//! throughput each setting gives. A transfer looks up those that it resembles, begins with the best setting under a medium load,
//! compares what it achieves with what was predicted, and moves from surface to surface until one fits. Then it watches, and
//! searches anew where the throughput stays away from what it was.
//!
//! Where this goes beyond the paper: a sample is an interval that has settled, or the third with the same setting; of settings that
//! give about the same the one with the fewest streams is taken, among those that the policy allows; a setting that was sampled and
//! gave more than the best of the surface that was found is kept; and what runs instead of what was asked for, as where the guard
//! holds a setting, is a sample too.

mod features;
mod knowledge;
mod search;
mod setting;
mod surface;
#[cfg(test)]
mod testing;
mod watch;

pub use features::Features;
pub use knowledge::Knowledge;
pub use search::{Sample, Search, Step};
pub use setting::{Bounds, Setting};
pub use surface::{Cluster, Prediction, Side};

use super::guard::is_nearly_done;
use super::{Decision, HOW_TO_LEARN, Observation, Optimizer, Policy, Setup, utility};
use crate::error::{Error, ErrorKind, Result};
use watch::{Settling, Watch};

/// How much nearer another cluster has to be, in scales of the features, before the search begins anew in it.
const NEARER: f64 = 0.5;

/// A distance, in scales of the features, beyond which a transfer does not resemble what is known.
const FAR: f64 = 4.0;

/// Searches the surface of the present load, and keeps to its best setting.
#[derive(Debug, Clone)]
pub struct Asm {
    knowledge: Knowledge,
    features: Features,
    cluster: usize,
    search: Search,
    asked: Setting,
    bounds: Bounds,
    settling: Settling,
    phase: Phase,
}

#[derive(Debug, Clone)]
enum Phase {
    /// Nothing was decided.
    Starting,
    /// Samples are taken.
    Sampling,
    /// A surface was found, or the nearest to what there is.
    Watching(Watch),
}

impl Asm {
    /// Takes the knowledge of a setup.
    ///
    /// Fails, with what to do, if there is none, or if it is broken, newer than this program or without transfers.
    pub fn new(setup: &Setup<'_>) -> Result<Self> {
        let knowledge = Knowledge::parse(setup.knowledge.ok_or_else(missing)?)?;
        // Without a network between there is no round trip to speak of.
        let features = Features { rtt: Some(setup.rtt.unwrap_or_default()), ..Features::default() };
        let (cluster, _) = knowledge.nearest(&features);
        let search = Search::new(&knowledge.clusters()[cluster]);
        let bounds = Bounds::NONE;
        let asked = knowledge.clusters()[cluster].best(search.surface(), bounds);
        let settling = Settling::default();
        Ok(Self { knowledge, features, cluster, search, asked, bounds, settling, phase: Phase::Starting })
    }

    fn known(&self) -> &Cluster {
        &self.knowledge.clusters()[self.cluster]
    }

    /// Begins at the median load of a cluster.
    fn begin(&mut self, cluster: usize) {
        self.cluster = cluster;
        self.search = Search::new(self.known());
        self.asked = self.known().best(self.search.surface(), self.bounds);
        self.phase = Phase::Sampling;
    }

    /// Takes note of the files that were listed; answers why, where they make another cluster the nearest.
    fn recognise(&mut self, observation: &Observation) -> Option<String> {
        let listed = &observation.listed;
        if listed.files() == 0 {
            return None;
        }
        (self.features.mean_size, self.features.files) = (Some(listed.mean_size()), Some(listed.files()));
        let before = self.knowledge.distance(self.known(), &self.features);
        let (nearest, distance) = self.knowledge.nearest(&self.features);
        if nearest == self.cluster || distance + NEARER > before {
            return None;
        }
        self.begin(nearest);
        let far = if distance > FAR { ", which do not resemble these much" } else { "" };
        Some(format!("the files are more like those of other past transfers{far}: {}", self.start_reason()))
    }

    fn start_reason(&self) -> String {
        let known = self.known();
        let load = 100.0 * known.load(self.search.surface());
        format!("the best under the median load ({load:.0} %) of {} known", known.surfaces())
    }

    /// Goes on with the search after a sample.
    fn sampled(&mut self, sample: Sample) -> String {
        let (bounds, predicted) = (self.bounds, self.known().predict(self.search.surface(), sample.setting).throughput);
        let change = 100.0 * (sample.throughput / predicted - 1.0);
        let cluster = &self.knowledge.clusters()[self.cluster];
        let step = self.search.sampled(cluster, sample, bounds);
        if let Step::Moved(side) = step {
            self.asked = cluster.best(self.search.surface(), bounds);
            let (load, left) = (self.load(), self.search.candidates());
            return format!("{change:+.0} % against the prediction: {}, {load} next, {left} left", of(side));
        }
        let expected = self.search.conclusion(cluster, bounds);
        let bound = cluster.predict(self.search.surface(), expected.setting).bound();
        self.phase = Phase::Watching(Watch::new(expected.throughput, bound));
        let kept = if expected.setting.resembles(sample.setting) { "staying" } else { "back to what gave more" };
        self.asked = expected.setting;
        match step {
            Step::Exhausted(side) => format!("{change:+.0} % against the prediction: {} than any known, {kept}", of(side)),
            _ => format!("{change:+.0} % against the prediction, as the {} has it: {kept}", self.load()),
        }
    }

    /// Begins anew where the throughput stays away from what was expected.
    fn watched(&mut self, sample: Sample) -> String {
        let Phase::Watching(watch) = &mut self.phase else { return String::new() };
        if !sample.setting.resembles(self.bounds.within(self.asked)) {
            let stays = watch.is_elsewhere();
            return if stays { self.elsewhere(sample) } else { "another setting was applied".to_owned() };
        }
        let Some(side) = watch.deviates(sample.throughput) else { return "watching".to_owned() };
        let cluster = &self.knowledge.clusters()[self.cluster];
        self.search.resume(cluster, sample, side);
        let best = cluster.best(self.search.surface(), self.bounds);
        if best.resembles(sample.setting) {
            let bound = cluster.predict(self.search.surface(), sample.setting).bound();
            self.phase = Phase::Watching(Watch::new(sample.throughput, bound));
            return format!("{} for three intervals: {} has the same best setting", of(side), self.load());
        }
        (self.asked, self.phase) = (best, Phase::Sampling);
        format!("{} for three intervals: {} next", of(side), self.load())
    }

    /// Takes what runs instead of what was asked for as a sample: where it stays, nothing else tells of the load.
    fn elsewhere(&mut self, sample: Sample) -> String {
        let (ran, cluster) = (sample.setting, &self.knowledge.clusters()[self.cluster]);
        let Some(side) = cluster.predict(self.search.surface(), ran).side(sample.throughput) else {
            return format!("{ran} ran instead, as the {} has it", self.load());
        };
        self.search.resume(cluster, sample, side);
        (self.asked, self.phase) = (cluster.best(self.search.surface(), self.bounds), Phase::Sampling);
        format!("{ran} ran instead: {}, {} next", of(side), self.load())
    }

    /// The load of the surface, for people.
    fn load(&self) -> String {
        format!("load of {:.0} %", 100.0 * self.known().load(self.search.surface()))
    }

    /// What was asked for last, within the bounds of the moment.
    fn decision(&self, reason: String) -> Decision {
        let allowed = self.bounds.within(self.asked);
        let shortened = if allowed == self.asked { String::new() } else { format!("; the policy leaves {allowed}") };
        allowed.decision(reason + &shortened)
    }
}

impl Optimizer for Asm {
    fn name(&self) -> &'static str {
        "asm"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        self.bounds = Bounds::of(policy);
        if !matches!(self.phase, Phase::Starting) {
            return self.decision("going on".to_owned());
        }
        self.begin(self.cluster);
        self.decision(self.start_reason())
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let throughput = utility::arrived(observation);
        self.bounds = Bounds::of(&observation.policy);
        if !throughput.is_finite() || throughput <= 0.0 {
            return Ok(self.decision("nothing usable was measured: staying".to_owned()));
        }
        if is_nearly_done(observation) {
            return Ok(self.decision("nearly done: staying".to_owned()));
        }
        if let Some(reason) = self.recognise(observation) {
            return Ok(self.decision(reason));
        }
        let setting = Setting::applied(&observation.applied);
        let Some(sample) = self.settling.settled(setting, throughput) else {
            return Ok(self.decision("waiting for the throughput to settle".to_owned()));
        };
        let reason = if matches!(self.phase, Phase::Watching(_)) { self.watched(sample) } else { self.sampled(sample) };
        Ok(self.decision(reason))
    }
}

/// The load that a side stands for.
fn of(side: Side) -> &'static str {
    match side {
        Side::Lighter => "less load",
        Side::Heavier => "more load",
    }
}

/// The error for an optimizer without knowledge.
fn missing() -> Error {
    Error::new(ErrorKind::InvalidInput, "the optimizer `asm` needs knowledge of past transfers").with_hint(HOW_TO_LEARN)
}

#[cfg(test)]
mod tests {
    use super::testing::{KNOWLEDGE, setting};
    use super::*;
    use crate::optimizer::{Listed, PolicyName};
    use std::time::Duration;

    const RTT: Duration = Duration::from_micros(31_250);

    fn setup(rtt: Option<Duration>) -> Setup<'static> {
        Setup { rtt, knowledge: Some(KNOWLEDGE.as_bytes()), ..Setup::of_a_test() }
    }

    fn files(size: u64) -> Listed {
        let mut listed = Listed { complete: true, ..Listed::default() };
        (0..100).for_each(|_| listed.add(size));
        listed
    }

    /// Streams and reasons of a transfer of files of 1 MiB, over a path that gives so much to so many streams.
    fn trace(rtt: Option<Duration>, limit: u16, path: &[fn(u16) -> f64]) -> Vec<(u16, String)> {
        let mut asm = Asm::new(&setup(rtt)).unwrap();
        let mut decision = asm.start(&Policy::new(PolicyName::Fair, limit));
        let mut found = vec![(decision.concurrency.network, decision.reason.clone())];
        for interval in path {
            let throughput = interval(decision.concurrency.network);
            let observation = Observation { listed: files(1 << 20), ..Observation::of_a_test(decision, throughput, limit) };
            decision = asm.decide(&observation).unwrap();
            found.push((decision.concurrency.network, decision.reason.clone()));
        }
        found
    }

    fn loaded(streams: u16) -> f64 {
        [0.0, 90.0, 196.0, 180.0, 160.0, 140.0, 120.0, 110.0, 100.0][usize::from(streams)]
    }

    fn free(streams: u16) -> f64 {
        99.0 * f64::from(streams)
    }

    fn times(intervals: usize, path: fn(u16) -> f64) -> Vec<fn(u16) -> f64> {
        vec![path; intervals]
    }

    #[test]
    fn it_finds_the_load_keeps_to_its_best_setting_and_follows_a_change() {
        let path = [times(5, loaded), times(3, |_| 260.0), times(3, free)].concat();
        let found = trace(Some(RTT), 64, &path);
        let expected = [
            (4, "the best under the median load (50 %) of 3 known"),
            (4, "waiting for the throughput to settle"),
            (2, "-60 % against the prediction: more load, load of 75 % next, 1 left"),
            (2, "waiting for the throughput to settle"),
            (2, "-2 % against the prediction, as the load of 75 % has it: staying"),
            (2, "watching"),
            (2, "watching"),
            (2, "watching"),
            (8, "less load for three intervals: load of 0 % next"),
            (8, "waiting for the throughput to settle"),
            (8, "-1 % against the prediction, as the load of 0 % has it: staying"),
            (8, "watching"),
        ];
        assert_eq!(found, expected.map(|(streams, reason)| (streams, reason.to_owned())));
    }

    #[test]
    fn beyond_all_known_loads_it_keeps_what_gave_most() {
        let found = trace(Some(RTT), 64, &times(5, |streams| if streams == 4 { 60.0 } else { 50.0 }));
        let expected = [
            (4, "the best under the median load (50 %) of 3 known"),
            (4, "waiting for the throughput to settle"),
            (2, "-85 % against the prediction: more load, load of 75 % next, 1 left"),
            (2, "waiting for the throughput to settle"),
            (4, "-75 % against the prediction: more load than any known, back to what gave more"),
            (4, "waiting for the throughput to settle"),
        ];
        assert_eq!(found, expected.map(|(streams, reason)| (streams, reason.to_owned())));
    }

    #[test]
    fn the_files_are_known_once_they_are_listed() {
        // Nearer to the path with files of 1 GiB, and far from both.
        let found = trace(Some(Duration::from_micros(3_906)), 64, &times(3, free));
        let expected = [
            (16, "the best under the median load (0 %) of 1 known"),
            (
                4,
                "the files are more like those of other past transfers, which do not resemble these much: the best under the median \
                 load (50 %) of 3 known",
            ),
            (4, "waiting for the throughput to settle"),
            (4, "-1 % against the prediction, as the load of 50 % has it: staying"),
        ];
        assert_eq!(found, expected.map(|(streams, reason)| (streams, reason.to_owned())));
    }

    #[test]
    fn what_runs_instead_of_what_was_asked_for_is_a_sample_where_it_stays() {
        let mut asm = Asm::new(&setup(Some(RTT))).unwrap();
        asm.start(&Policy::new(PolicyName::Fair, 64));
        let mut found = Vec::new();
        for (intervals, streams, throughput) in [(2, 4, 396.0), (4, 2, 200.0), (6, 8, 790.0)] {
            for _ in 0..intervals {
                let ran = setting(1, streams, 4).decision(String::new());
                let observation = Observation { listed: files(1 << 20), ..Observation::of_a_test(ran, throughput, 64) };
                let decision = asm.decide(&observation).unwrap();
                found.push((decision.concurrency.network, decision.reason));
            }
        }
        let expected = [
            (4, "waiting for the throughput to settle"),
            (4, "-1 % against the prediction, as the load of 50 % has it: staying"),
            (4, "waiting for the throughput to settle"),
            (4, "another setting was applied"),
            (4, "another setting was applied"),
            (4, "2 x 1 streams, pipelining 4 ran instead, as the load of 50 % has it"),
            (4, "waiting for the throughput to settle"),
            (4, "another setting was applied"),
            (4, "another setting was applied"),
            (8, "8 x 1 streams, pipelining 4 ran instead: less load, load of 0 % next"),
            (8, "-1 % against the prediction, as the load of 0 % has it: staying"),
            (8, "watching"),
        ];
        assert_eq!(found, expected.map(|(streams, reason)| (streams, reason.to_owned())));
    }

    #[test]
    fn a_policy_limits_the_settings_that_are_searched() {
        let found = trace(Some(RTT), 3, &times(4, free));
        assert!(found.iter().all(|(streams, _)| *streams == 2), "{found:?}");
        assert!(found[4].1.contains("watching"), "{found:?}");
    }

    #[test]
    fn a_decision_carries_parallelism_and_pipelining() {
        let mut asm = Asm::new(&setup(Some(RTT))).unwrap();
        let decision = asm.start(&Policy::new(PolicyName::Fair, 64));
        assert_eq!((decision.parallelism, decision.pipelining), (1, 4));
        let again = asm.start(&Policy::new(PolicyName::Fair, 2));
        assert_eq!(again.concurrency.network, 2);
        assert_eq!(again.reason, "going on; the policy leaves 2 x 1 streams, pipelining 4");
    }

    #[test]
    fn what_says_nothing_changes_nothing() {
        let mut asm = Asm::new(&setup(Some(RTT))).unwrap();
        let first = asm.start(&Policy::new(PolicyName::Fair, 64));
        for throughput in [f64::NAN, 0.0, f64::INFINITY] {
            let decision = asm.decide(&Observation::of_a_test(first.clone(), throughput, 64)).unwrap();
            assert_eq!((decision.concurrency, decision.reason.contains("nothing usable")), (first.concurrency, true));
        }
        let last = Observation { bytes_left: Some(10), ..Observation::of_a_test(first.clone(), 100.0, 64) };
        assert_eq!(asm.decide(&last).unwrap().reason, "nearly done: staying");
    }

    #[test]
    fn without_knowledge_it_says_how_to_get_some() {
        let error = Asm::new(&Setup { knowledge: None, ..setup(None) }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.hint().unwrap().contains("edt learn"));
        assert!(Asm::new(&Setup { knowledge: Some(b"{}"), ..setup(None) }).is_err());
    }
}
