//! Globus' static settings by file size, the baseline of most papers [ASM §5] [HARP §3] [Falcon §5.3].
//!
//! Two files at once whatever the path, with parallelism and pipelining by the size of the files (Allen et al., "Software as a Service
//! for Data Scientists", Communications of the ACM 55(2), 2012, "Optimized File Transfers for All"). Careful with the end systems, deaf to the
//! path: on a long one whose streams are limited most of it stays empty. What Globus runs today it sets for each endpoint.
//!
//! HARP has Globus transfer the files of one class after the other. Here the class is that of the files that were sent in the last intervals.

use super::heuristic::AtWork;
use super::setting::Setting;
use super::{Decision, Observation, Optimizer, Policy};
use crate::error::Result;

/// Bytes below which files are small, and above which they are large.
const SMALL: f64 = 50e6;
const LARGE: f64 = 250e6;

/// One of three settings.
#[derive(Debug, Clone, Default)]
pub struct Globus {
    work: AtWork,
}

impl Globus {
    /// Begins with the setting for files that are neither small nor large.
    pub fn new() -> Self {
        Self::default()
    }
}

/// The setting for files of this mean size in bytes, and the name of their class.
fn class(size: f64) -> (Setting, &'static str) {
    match size {
        size if size < SMALL => (Setting::new(2, 2, 20), "small"),
        size if size > LARGE => (Setting::new(2, 8, 5), "large"),
        _ => (Setting::new(2, 4, 10), "medium"),
    }
}

impl Optimizer for Globus {
    fn name(&self) -> &'static str {
        "globus"
    }

    fn start(&mut self, policy: &Policy) -> Decision {
        Setting::new(2, 4, 10).decision(policy, "no file is listed yet: the setting for any files")
    }

    fn decide(&mut self, observation: &Observation) -> Result<Decision> {
        let policy = &observation.policy;
        let size = self.work.mean_size(observation);
        if observation.listed.classes.is_empty() {
            return Ok(self.start(policy));
        }
        let (setting, name) = class(size);
        let setting = setting.within(policy);
        Ok(setting.decision(policy, format!("{name} files, of {:.1} MB on average: {setting}", size / 1e6)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::testing::{TestPath, Trial};

    #[test]
    fn each_class_of_files_has_its_setting_on_every_path() {
        for (file_size, expected) in [(1 << 20, (4, 2, 20)), (100 << 20, (8, 4, 10)), (1 << 30, (16, 8, 5))] {
            for best in [2, 30] {
                let mut optimizer = Globus::new();
                let path = TestPath { file_size, ..TestPath::of_streams(best) };
                assert_eq!(Trial::new(&mut optimizer, path, 64).settings(4), [(8, 4, 10), expected, expected, expected]);
            }
        }
    }

    #[test]
    fn the_bounds_are_those_that_were_published() {
        let names = [49.9e6, 50e6, 250e6, 250.1e6].map(|size| class(size).1);
        assert_eq!(names, ["small", "medium", "medium", "large"]);
    }

    #[test]
    fn the_limit_holds() {
        let mut optimizer = Globus::new();
        let path = TestPath::of_streams(9);
        assert_eq!(Trial::new(&mut optimizer, path, 6).settings(2), [(4, 4, 10), (6, 6, 5)]);
    }
}
