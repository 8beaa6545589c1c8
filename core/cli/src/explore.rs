//! `edt explore`: measures a path, keeps what it found, and tells what follows from it.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use edt::explore::{self, Exploration, ExploredPath, Progress};
use edt::optimizer::PerStage;
use edt::report::{human_count, human_rate};
use edt::{Endpoint, ErrorKind, history};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::ExploreArgs;
use crate::exit::Exit;
use crate::interrupt;
use crate::sources::endpoint;
use crate::terminal::{self, Stdout, say};

/// Bytes per second in a megabit per second.
const MBIT: f64 = 1e6 / 8.0;

pub(crate) fn run(args: &ExploreArgs) -> anyhow::Result<Exit> {
    let (source, destination) = (endpoint(&args.source)?, endpoint(&args.destination)?);
    let kept = history::path_file(&source, &destination, args.stages().count())?;
    let file = args.output.clone().unwrap_or(kept);
    // Known before minutes of measuring: whether the file can be written.
    explore::prepare(&file)?;
    let explored = if args.report.is_empty() {
        measured(args, source, destination)
    } else {
        explore::from_reports(&source, &destination, args.stages(), &args.report)
    };
    let path = match explored {
        Ok(path) => path,
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            say("interrupted: nothing was kept");
            return Ok(Exit::Interrupted);
        }
        Err(error) => return Err(error.into()),
    };
    path.write(&file)?;
    let text = if args.json { path.to_json() } else { told(&path, &file, &next(args)) };
    writeln!(Stdout, "{text}")?;
    Ok(Exit::Complete)
}

fn measured(args: &ExploreArgs, source: Endpoint, destination: Endpoint) -> edt::Result<ExploredPath> {
    let exploration = Exploration::new(source, destination, args.options()?);
    let canceller = exploration.canceller();
    let _guard = interrupt::on_interrupt("stopping; press Ctrl-C again to stop at once", move || canceller.cancel());
    let line = io::stderr().is_terminal().then(Line::start);
    exploration.run(|progress| {
        if let Some(line) = &line {
            line.show(progress);
        }
    })
}

/// The progress on a terminal: one line on standard error. Dropping it removes it.
struct Line(ProgressBar);

impl Line {
    fn start() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(1));
        bar.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
        terminal::set_bar(Some(bar.clone()));
        Self(bar)
    }

    fn show(&self, progress: &Progress) {
        self.0.set_message(shown(progress));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        terminal::set_bar(None);
        self.0.finish_and_clear();
    }
}

fn shown(progress: &Progress) -> String {
    let left = progress.left.as_secs_f64().ceil();
    let Some(sampled) = &progress.sampled else { return format!("exploring: {left:.0} s left") };
    let rate = human_rate(sampled.throughput.network);
    let PerStage { read, network, write } = sampled.concurrency.map(f64::round);
    format!("exploring: {left:.0} s left  streams {read:.0}/{network:.0}/{write:.0} (read/network/write)  {rate}")
}

/// The command that follows.
fn next(args: &ExploreArgs) -> String {
    match &args.output {
        Some(file) => format!("edt train --path {}", quoted(&file.display().to_string())),
        None => format!("edt train {} {}", quoted(&args.source), quoted(&args.destination)),
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The estimates as a table, and what to do with them.
fn told(path: &ExploredPath, file: &Path, next: &str) -> String {
    let estimate = &path.estimate;
    let mut text = String::new();
    if path.stages == 3 {
        let _ = writeln!(text, "{:11} {:>10} {:>10} {:>10}", "", "read", "network", "write");
    }
    let mut row = |name: &str, values: PerStage<Option<f64>>, scale: f64, unit: &str| {
        let _ = write!(text, "{name:11}");
        for value in [values.read, values.network, values.write].into_iter().flatten() {
            let _ = write!(text, " {:>10.1}", value / scale);
        }
        let _ = writeln!(text, "  {unit}");
    };
    let alone = |value: Option<f64>| PerStage { read: None, network: value, write: None };
    row("bandwidth", estimate.bandwidth, MBIT, "Mbit/s");
    row("stream rate", estimate.stream_rate, MBIT, "Mbit/s");
    row("optimum", estimate.optimum, 1.0, if path.stages == 3 { "workers" } else { "streams" });
    row("R_max", alone(Some(estimate.r_max)), MBIT, "Mbit/s");
    if estimate.rtt_ms.is_some() {
        row("round trip", alone(estimate.rtt_ms), 1.0, "ms");
    }
    let samples = human_count(path.samples.len() as u64, "sample");
    let _ = write!(text, "{samples} in {:.0} s, kept in {}\nnext: {next}", path.seconds, file.display());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use edt::event::{Sampled, Totals};
    use edt::explore::{BufferSizes, Estimate, PathSample};
    use edt::optimizer::Buffers;
    use std::time::Duration;

    fn explored(stages: u8, estimate: Estimate) -> ExploredPath {
        let sample = PathSample {
            elapsed_s: 1.0,
            interval_s: Some(1.0),
            concurrency: PerStage::all(4.0),
            throughput: PerStage::all(1e6),
            rtt_ms: None,
            loss: None,
        };
        ExploredPath {
            format: 1,
            source: "zero:".to_owned(),
            destination: "edt://host/".to_owned(),
            stages,
            seconds: 60.2,
            k: 1.02,
            samples: vec![sample; 57],
            buffers: BufferSizes::default(),
            estimate,
        }
    }

    #[test]
    fn one_stage_is_told_in_streams() {
        let network = |value: f64| PerStage { read: None, network: Some(value), write: None };
        let estimate = Estimate {
            bandwidth: network(125e6),
            stream_rate: network(18.75e6),
            optimum: network(6.667),
            r_max: 109.5e6,
            rtt_ms: Some(67.04),
        };
        let text = told(&explored(1, estimate), Path::new("/d/a.json"), "edt train zero: edt://host/");
        let expected = "\
bandwidth       1000.0  Mbit/s
stream rate      150.0  Mbit/s
optimum            6.7  streams
R_max            876.0  Mbit/s
round trip        67.0  ms
57 samples in 60 s, kept in /d/a.json
next: edt train zero: edt://host/";
        assert_eq!(text, expected);
    }

    #[test]
    fn three_stages_stand_side_by_side() {
        let three = |read, network, write| PerStage { read: Some(read), network: Some(network), write: Some(write) };
        let estimate = Estimate {
            bandwidth: three(125e6, 125e6, 125e6),
            stream_rate: three(10e6, 20e6, 25e6),
            optimum: three(12.5, 6.25, 5.0),
            r_max: 311e6,
            rtt_ms: None,
        };
        let text = told(&explored(3, estimate), Path::new("a.json"), "edt train --path a.json");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "                  read    network      write");
        assert_eq!(lines[2], "stream rate       80.0      160.0      200.0  Mbit/s");
        assert_eq!(lines[3], "optimum           12.5        6.2        5.0  workers");
        assert_eq!(lines[4], "R_max           2488.0  Mbit/s");
        assert!(lines[5].starts_with("57 samples"));
    }

    #[test]
    fn the_line_shows_time_workers_and_rate() {
        let sampled = Sampled {
            elapsed_s: 1.0,
            throughput: PerStage::all(125e6),
            concurrency: PerStage { read: 4.0, network: 12.2, write: 3.0 },
            busy: PerStage::all(0.5),
            buffers: Buffers::default(),
            rtt_ms: None,
            loss: None,
            totals: Totals::default(),
            bottleneck: None,
        };
        let progress = |sampled| Progress { left: Duration::from_millis(57_200), sampled };
        assert_eq!(shown(&progress(None)), "exploring: 58 s left");
        let expected = "exploring: 58 s left  streams 4/12/3 (read/network/write)  1.0 Gbit/s";
        assert_eq!(shown(&progress(Some(sampled))), expected);
    }

    #[test]
    fn words_for_a_shell_are_quoted_where_they_must_be() {
        assert_eq!(quoted("edt://host:7632/a/"), "edt://host:7632/a/");
        assert_eq!(quoted("my data"), "'my data'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
