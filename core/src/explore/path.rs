//! The path file: what an exploration measured, for training an agent.

use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::error::{Error, ErrorKind, Result};
use crate::explore::Estimate;
use crate::optimizer::{Observation, PerStage};

/// The version of the file's form.
pub(super) const FORMAT: u32 = 1;

/// A path between two endpoints, as it was measured: the content of a path file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExploredPath {
    /// Version of the form: 1.
    pub format: u32,
    /// The source, as it was named.
    pub source: String,
    /// The destination, as it was named.
    pub destination: String,
    /// 1, or 3 for read, network and write.
    pub stages: u8,
    /// Seconds that the measurement took.
    pub seconds: f64,
    /// K of the utility that the estimates stand on.
    pub k: f64,
    /// What was measured, interval by interval.
    pub samples: Vec<PathSample>,
    /// Sizes of the buffers at both ends.
    pub buffers: BufferSizes,
    /// What follows from the samples.
    pub estimate: Estimate,
}

/// One measured interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathSample {
    /// Seconds since the measurement began, at the end of the interval.
    pub elapsed_s: f64,
    /// Length of the interval in seconds; `None` of a past transfer, whose report does not say.
    pub interval_s: Option<f64>,
    /// Time-averaged workers of each stage.
    pub concurrency: PerStage<f64>,
    /// Bytes per second out of each stage.
    pub throughput: PerStage<f64>,
    /// Round trip time in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Retransmitted share of the segments sent.
    pub loss: Option<f64>,
}

/// Sizes of the buffers between the stages, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferSizes {
    /// Between read and network.
    pub sender: u64,
    /// Between network and write.
    pub receiver: u64,
}

impl PathSample {
    /// What an observation says, of a transfer that began `before` seconds after the measurement.
    pub(super) fn of(observation: &Observation, before: f64) -> Self {
        Self {
            elapsed_s: before + observation.elapsed.as_secs_f64(),
            interval_s: Some(observation.interval.as_secs_f64()),
            concurrency: observation.workers,
            throughput: observation.throughput,
            rtt_ms: observation.rtt.map(|rtt| rtt.as_secs_f64() * 1000.0),
            loss: observation.loss,
        }
    }
}

impl ExploredPath {
    /// The path as JSON text.
    ///
    /// # Panics
    /// Never: a path holds only numbers, text and lists of them.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a path holds only numbers and text")
    }

    /// Writes the path to a file, whole or not at all; one that stands there is replaced.
    pub fn write(&self, path: &Path) -> Result<()> {
        let write = || {
            let mut file = NamedTempFile::new_in(directory(path))?;
            writeln!(file, "{}", self.to_json())?;
            file.as_file().sync_all()?;
            file.persist(path).map(drop).map_err(|refused| refused.error)
        };
        write().map_err(|cause| Error::io(unwritten(path), &cause))
    }
}

/// Makes the directory of a path file, and finds out whether a file can be written there: better before a measurement than after it.
pub fn prepare(path: &Path) -> Result<()> {
    let writable = if path.is_dir() {
        Err(io::ErrorKind::IsADirectory.into())
    } else {
        std::fs::create_dir_all(directory(path)).and_then(|()| NamedTempFile::new_in(directory(path)).map(drop))
    };
    writable.map_err(|cause| {
        Error::new(ErrorKind::InvalidInput, unwritten(path))
            .with_cause(cause)
            .with_hint("name a file that can be written, with --output FILE")
    })
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn unwritten(path: &Path) -> String {
    format!("could not write the path file `{}`", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::explore::Stages;

    fn explored(seconds: f64) -> ExploredPath {
        let sample = PathSample {
            elapsed_s: 1.5,
            interval_s: Some(1.0),
            concurrency: PerStage::all(4.0),
            throughput: PerStage::all(4e6),
            rtt_ms: Some(2.0),
            loss: None,
        };
        ExploredPath {
            format: FORMAT,
            source: "zero:".to_owned(),
            destination: "edt://host/".to_owned(),
            stages: 1,
            seconds,
            k: 1.02,
            samples: vec![sample],
            buffers: BufferSizes { sender: 1, receiver: 2 },
            estimate: crate::explore::estimate(&[sample], Stages::One, 1.02).unwrap(),
        }
    }

    #[test]
    fn a_file_has_the_promised_form_and_comes_back_as_it_was() {
        let path = explored(60.0);
        let json: serde_json::Value = serde_json::from_str(&path.to_json()).unwrap();
        assert_eq!((json["format"].as_u64(), json["stages"].as_u64()), (Some(1), Some(1)));
        assert_eq!(json["samples"][0]["concurrency"]["network"], 4.0);
        assert_eq!(json["samples"][0]["loss"], serde_json::Value::Null);
        assert_eq!(json["estimate"]["bandwidth"]["network"], 4e6);
        assert_eq!(json["estimate"]["bandwidth"]["read"], serde_json::Value::Null);
        assert_eq!(json["buffers"]["receiver"], 2);
        assert_eq!(serde_json::from_str::<ExploredPath>(&path.to_json()).unwrap(), path);
    }

    #[test]
    fn a_file_that_stands_there_is_replaced_and_nothing_else_is_left() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("paths/a--b.json");
        prepare(&file).unwrap();
        for seconds in [1.0, 2.0] {
            explored(seconds).write(&file).unwrap();
            let text = std::fs::read_to_string(&file).unwrap();
            assert_eq!(serde_json::from_str::<ExploredPath>(&text).unwrap(), explored(seconds));
        }
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_known_before() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "x").unwrap();
        let error = prepare(&place.path().join("file/a.json")).unwrap_err();
        assert!(error.what().contains("a.json") && error.hint().is_some(), "{error}");
    }
}
