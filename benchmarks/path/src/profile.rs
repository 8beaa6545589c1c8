//! The paths that have a name.

use std::time::Duration;

use crate::Rate;
use crate::options::{Cliff, PathOptions};
use crate::schedule::{Change, Schedule, Step};

/// A path with a name, and where its figures come from.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// The paper and section, or who chose it.
    pub source: &'static str,
    /// What it is like.
    pub options: PathOptions,
}

impl Profile {
    /// Every profile, in the order in which the experiments name them.
    pub fn all() -> Vec<Self> {
        vec![
            profile("cloudlab", "EDT section V-F", 1000.0, 67, Some(150.0)),
            profile("emulab", "Falcon section 5.1", 1000.0, 30, None),
            profile("read-bound", "AutoMDT section V-B1", 1000.0, 20, Some(160.0)),
            profile("network-bound", "AutoMDT section V-B1", 1000.0, 20, Some(75.0)),
            profile("write-bound", "AutoMDT section V-B1", 1000.0, 20, Some(150.0)),
            profile("newy-cern/15", "EDT table I, scaled by 15", 3000.0, 85, Some(200.0)),
            profile("mich-mass/15", "EDT table I, scaled by 15", 2330.0, 33, Some(100.0)),
            profile("open", "EDT dataset D", 1000.0, 67, None),
            profile("lossy", "ours", 200.0, 150, None).with(|options| options.loss = 0.001),
            profile("changing", "ours", 1000.0, 50, Some(100.0)).with(|options| options.schedule = halved_and_back()),
            profile("shared", "Falcon section 5.2, EDT section V-E", 1000.0, 30, Some(100.0)),
            profile("cliff", "seen in the field", 1000.0, 30, Some(100.0)).with(|options| options.cliff = Some(CLIFF)),
        ]
    }

    /// The profile of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|profile| profile.name == name)
    }

    fn with(mut self, change: impl FnOnce(&mut PathOptions)) -> Self {
        change(&mut self.options);
        self
    }
}

const CLIFF: Cliff = Cliff { flows: 24, share: 0.05, lasts: Duration::from_secs(30) };

/// A profile from rates in Mbit/s and an RTT in milliseconds.
fn profile(name: &'static str, source: &'static str, rate_mbps: f64, rtt_ms: u64, stream_rate_mbps: Option<f64>) -> Profile {
    let options = PathOptions {
        rate: Rate::bits(rate_mbps * 1e6),
        rtt: Duration::from_millis(rtt_ms),
        stream_rate: stream_rate_mbps.map_or(Rate::UNLIMITED, |rate| Rate::bits(rate * 1e6)),
        ..PathOptions::default()
    };
    Profile { name, source, options }
}

/// Half the rate after 20 seconds, all of it again after 40.
fn halved_and_back() -> Schedule {
    let step = |at_s: u64, rate_mbps: f64| Step {
        at: Duration::from_secs(at_s),
        change: Change { rate: Some(Rate::bits(rate_mbps * 1e6)), ..Change::default() },
    };
    Schedule::new(vec![step(20, 500.0), step(40, 1000.0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_a_name_of_its_own_and_is_valid() {
        for profile in Profile::all() {
            assert_eq!(Profile::named(profile.name).map(|found| found.source), Some(profile.source));
            profile.options.validated().unwrap();
        }
        assert!(Profile::named("nowhere").is_none());
    }

    #[test]
    fn cloudlab_is_that_of_the_paper() {
        let options = Profile::named("cloudlab").unwrap().options;
        assert_eq!(options.rate, Rate::bytes(1.25e8));
        assert_eq!(options.stream_rate, Rate::bytes(1.875e7));
        assert_eq!(options.rtt, Duration::from_millis(67));
    }
}
