//! What past transfers are told apart by: the path and the files, on logarithmic scales.

use std::time::Duration;

use serde::Deserialize;

/// A round trip below this is as good as none: 0.1 ms.
const LEAST_RTT: Duration = Duration::from_micros(100);

/// What is known of a transfer; `None` where it is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Features {
    /// Bytes per second that the path carries.
    pub bandwidth: Option<f64>,
    /// Round trip time.
    pub rtt: Option<Duration>,
    /// Mean size of the files, in bytes.
    pub mean_size: Option<f64>,
    /// Number of files.
    pub files: Option<u64>,
}

/// One of them, as a knowledge file names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Feature {
    /// Bytes per second.
    Bandwidth,
    /// Seconds, at least 0.0001.
    Rtt,
    /// Bytes, at least 1.
    MeanSize,
    /// A number, at least 1.
    Files,
}

impl Features {
    /// The logarithm of a feature to the base 2.
    pub(super) fn logarithm(&self, feature: Feature) -> Option<f64> {
        let value = match feature {
            Feature::Bandwidth => self.bandwidth.map(|rate| rate.max(1.0)),
            Feature::Rtt => self.rtt.map(|rtt| rtt.max(LEAST_RTT).as_secs_f64()),
            Feature::MeanSize => self.mean_size.map(|bytes| bytes.max(1.0)),
            Feature::Files => self.files.map(|files| files.max(1) as f64),
        };
        value.map(f64::log2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_logarithms_and_what_is_not_known_is_none() {
        let rtt = Some(Duration::from_millis(250));
        let features = Features { bandwidth: Some(1024.0), rtt, mean_size: Some(0.0), files: None };
        let found = [Feature::Bandwidth, Feature::Rtt, Feature::MeanSize, Feature::Files].map(|each| features.logarithm(each));
        assert_eq!(found, [Some(10.0), Some(-2.0), Some(0.0), None]);
        let local = Features { rtt: Some(Duration::ZERO), ..features };
        assert_eq!(local.logarithm(Feature::Rtt), Some(1e-4f64.log2()));
    }
}
