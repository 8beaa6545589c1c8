//! Past transfers as an exploration: their reports tell concurrency and throughput, interval by interval.

use std::path::PathBuf;

use serde::Deserialize;

use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::explore::{BufferSizes, ExploredPath, Measured, PathSample};
use crate::optimizer::PerStage;
use crate::optimizer::explore::Stages;

/// What is looked at of a report that `edt cp --report` wrote. That of a transfer which ended early has no timeline.
#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    timeline: Vec<Interval>,
}

/// What is looked at of an interval: fields of [`crate::event::Sampled`].
#[derive(Deserialize)]
struct Interval {
    elapsed_s: f64,
    throughput: PerStage<f64>,
    concurrency: PerStage<f64>,
    buffers: Capacities,
    rtt_ms: Option<f64>,
    loss: Option<f64>,
}

#[derive(Deserialize)]
struct Capacities {
    sender_capacity: u64,
    receiver_capacity: u64,
}

/// Takes a path from the reports of past transfers between two endpoints instead of measuring it.
///
/// That the reports are of this path is for the caller to know: a report names its endpoints with their paths, not its machines.
pub fn from_reports(source: &Endpoint, destination: &Endpoint, stages: Stages, reports: &[PathBuf]) -> Result<ExploredPath> {
    let mut samples = Vec::new();
    let mut buffers = BufferSizes::default();
    let mut seconds = 0.0;
    for path in reports {
        let (of_report, its_buffers) = samples_of(read(path)?, seconds);
        seconds = of_report.last().map_or(seconds, |last| last.elapsed_s);
        buffers = its_buffers.unwrap_or(buffers);
        samples.extend(of_report);
    }
    Measured { samples, buffers, seconds }.into_path(source, destination, stages)
}

fn read(path: &PathBuf) -> Result<Report> {
    let what = || format!("could not use the report `{}`", path.display());
    let text = std::fs::read_to_string(path).map_err(|cause| Error::io(what(), &cause).into_usage())?;
    serde_json::from_str(&text).map_err(|cause| {
        Error::new(ErrorKind::InvalidInput, what()).with_cause(cause).with_hint("name files that `edt cp --report FILE` wrote")
    })
}

/// The intervals of one report, and the sizes of the buffers in the last of them.
fn samples_of(report: Report, before: f64) -> (Vec<PathSample>, Option<BufferSizes>) {
    let mut intervals = report.timeline;
    // What follows the last whole interval is the end of the work: streams that run dry, and bytes of such as are gone already.
    if intervals.len() > 1 {
        intervals.pop();
    }
    let buffers = intervals
        .last()
        .map(|interval| BufferSizes { sender: interval.buffers.sender_capacity, receiver: interval.buffers.receiver_capacity });
    let samples = intervals.into_iter().map(|interval| PathSample {
        elapsed_s: before + interval.elapsed_s,
        // Reports say when an interval ended; it began when the last decision had taken effect.
        interval_s: None,
        concurrency: interval.concurrency,
        throughput: interval.throughput,
        rtt_ms: interval.rtt_ms,
        loss: interval.loss,
    });
    (samples.collect(), buffers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(elapsed_s: f64, streams: f64, rate: f64) -> serde_json::Value {
        let all = |value: f64| serde_json::json!({"read": value, "network": value, "write": value});
        serde_json::json!({
            "elapsed_s": elapsed_s, "throughput": all(rate), "concurrency": all(streams), "busy": all(0.5),
            "buffers": {"sender": 1, "receiver": 2, "sender_capacity": 30, "receiver_capacity": 40},
            "rtt_ms": 5.0, "loss": null, "totals": {"files_done": 1}, "bottleneck": "network",
        })
    }

    fn write(place: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn explore(reports: &[PathBuf]) -> Result<ExploredPath> {
        from_reports(&"data/".into(), &"edt://host/".into(), Stages::One, reports)
    }

    #[test]
    fn the_intervals_of_all_reports_follow_one_another() {
        let place = tempfile::tempdir().unwrap();
        let report = |rate: f64| {
            // The last one shows more bytes than its few streams moved: they were on their way.
            let timeline = [interval(1.0, 4.0, rate), interval(2.5, 8.0, 1.5 * rate), interval(2.6, 0.6, rate)];
            serde_json::json!({"event": "report", "source": "data/", "timeline": timeline}).to_string()
        };
        let reports = [write(&place, "a", &report(4e6)), write(&place, "b", &report(6e6))];
        let path = explore(&reports).unwrap();
        let times: Vec<f64> = path.samples.iter().map(|sample| sample.elapsed_s).collect();
        assert_eq!(times, [1.0, 2.5, 3.5, 5.0]);
        assert_eq!((path.estimate.bandwidth.network, path.estimate.stream_rate.network), (Some(9e6), Some(1.5e6)));
        assert_eq!(path.buffers, BufferSizes { sender: 30, receiver: 40 });
        assert_eq!((path.source.as_str(), path.stages, path.seconds), ("data/", 1, 5.0));
    }

    #[test]
    fn what_is_no_report_or_holds_nothing_is_refused_by_its_name() {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in [("words", "hello"), ("other", r#"{"timeline": 1}"#)] {
            let error = explore(&[write(&place, name, text)]).unwrap_err();
            assert!(error.kind() == ErrorKind::InvalidInput && error.what().contains(name), "{error}");
        }
        let missing = explore(&[place.path().join("missing")]).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::InvalidInput);
        let failed = write(&place, "failed", r#"{"event": "failed", "kind": "refused", "what": "w"}"#);
        assert!(explore(&[failed]).unwrap_err().what().contains("estimate"));
    }
}
