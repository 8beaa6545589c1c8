//! `edt cp`: runs one transfer and tells how it goes and how it ended.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use edt::event::Failure;
use edt::report::{human_bytes, human_count};
use edt::{ErrorKind, Event, Report, Transfer, whole_file};
use serde::Serialize;

use crate::args::CopyArgs;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::terminal::{Stdout, complain, printable, say, unless_closed};
use crate::{interrupt, sources, terminal};

/// How many failures are shown; the report holds more.
const FAILURES_SHOWN: usize = 20;

/// The last line of `--json`, and the content of `--report`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Ending<'a> {
    /// The transfer ran to its end; items may have failed.
    Report(&'a Report),
    /// The transfer as a whole ended early.
    Failed { kind: &'static str, what: &'a str, cause: Option<&'a str>, hint: Option<&'a str> },
}

/// A line of `--json` for each file that a dry run would copy.
#[derive(Serialize)]
#[serde(tag = "event", rename = "file_planned")]
struct PlannedFile<'a> {
    path: &'a str,
    size: u64,
}

pub(crate) fn run(args: &CopyArgs) -> anyhow::Result<Exit> {
    // That a report cannot be written is known before hours of transfer; an earlier one stays until there is another.
    args.report.as_deref().map(whole_file::check).transpose()?;
    let result = transfer(args);
    let ending = match &result {
        Ok(report) => Ending::Report(report),
        Err(error) => Ending::Failed { kind: error.kind().name(), what: error.what(), cause: error.cause(), hint: error.hint() },
    };
    let written = args.report.as_deref().map_or(Ok(()), |path| write_report(path, &ending));
    if let Ok(report) = &result
        && report.dry_run
    {
        print_planned(report, args.json)?;
    }
    let told = if args.json { writeln!(Stdout, "{}", serde_json::to_string(&ending)?) } else { Ok(()) };
    match result {
        Ok(report) => {
            let exit = finish(args, &report);
            unless_closed(told)?;
            match written {
                // What became of the files says more to a script than what became of the report.
                Err(unwritten) if exit != Exit::Complete => complain(&unwritten),
                written => written?,
            }
            Ok(exit)
        }
        Err(error) => {
            // What ended the transfer is said all the same.
            if let Err(unwritten) = written {
                complain(&unwritten);
            }
            if error.kind() != ErrorKind::Cancelled {
                return Err(error.into());
            }
            say("interrupted: run the same command again to resume");
            Ok(Exit::Interrupted)
        }
    }
}

fn transfer(args: &CopyArgs) -> edt::Result<Report> {
    let mut options = args.options()?;
    let destination = sources::endpoint(&args.destination)?;
    let sources = sources::expand(&args.sources, &mut options)?;
    let handle = Transfer::from_many(sources, destination).with_options(options).start()?;
    let canceller = handle.canceller();
    let _guard = interrupt::on_interrupt("stopping; press Ctrl-C again to stop at once", move || canceller.cancel());
    let mut watcher = Watcher::new(args);
    for event in handle.events() {
        watcher.observe(&event);
    }
    drop(watcher);
    handle.join()
}

fn finish(args: &CopyArgs, report: &Report) -> Exit {
    if !args.quiet {
        say(&summary(report));
        if let Some(name) = args.manifest.as_deref().filter(|_| report.dry_run) {
            say(&format!("note: a dry run writes no manifest: `{}` is as it was", printable(&name.display().to_string())));
        }
    }
    for line in failures(&report.failures, report.totals.failed) {
        say(&line);
    }
    if report.is_complete() {
        return Exit::Complete;
    }
    let nothing_done = report.totals.files_done + report.totals.files_skipped == 0;
    // Of each kind at least one is among those that are kept.
    Exit::of_failures(report.failures.iter().map(|failure| failure.kind), nothing_done)
}

fn summary(report: &Report) -> String {
    if !report.dry_run {
        return report.summary();
    }
    let totals = &report.totals;
    let (files, bytes) = (human_count(totals.files_done, "file"), human_bytes(totals.bytes_done));
    let mut text = format!("dry run: {files}, {bytes} would be copied");
    if totals.removed > 0 {
        let _ = write!(text, ", {} would be removed", human_count(totals.removed, "item"));
    }
    text.push_str("; nothing was changed");
    for advice in &report.advice {
        let _ = write!(text, "\nhint: {advice}");
    }
    text
}

fn failures(failures: &[Failure], all: u64) -> Vec<String> {
    let mut lines = Vec::new();
    for failure in failures.iter().take(FAILURES_SHOWN) {
        let cause = failure.cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
        // What the other side said of it may hold anything.
        lines.push(terminal::lines(&format!("failed: {}{cause}", printable(&failure.what))));
        lines.extend(failure.hint.as_ref().map(|hint| terminal::lines(&format!("  hint: {hint}"))));
    }
    let shown = failures.len().min(FAILURES_SHOWN) as u64;
    if all > shown {
        lines.push(format!("failed: {} more; --report FILE lists them", all - shown));
    }
    lines
}

/// What becomes of events: JSON lines, a progress display, lines of text, or nothing.
struct Watcher<'a> {
    json: bool,
    /// The name of a file that is copied to another name, and not into a directory: it has none below the destination.
    destination: &'a str,
    names: Names,
    progress: Option<Progress>,
}

/// Which events are told as lines of text.
#[derive(PartialEq, Eq)]
enum Names {
    /// None.
    Hidden,
    /// Everything that happens, on standard error.
    Verbose,
}

impl<'a> Watcher<'a> {
    fn new(args: &'a CopyArgs) -> Self {
        let names = if args.verbose && !args.dry_run { Names::Verbose } else { Names::Hidden };
        let shows_progress = !args.quiet && !args.dry_run && io::stderr().is_terminal();
        let destination = &args.destination;
        Self { json: args.json, destination, names, progress: shows_progress.then(Progress::start) }
    }

    fn observe(&mut self, event: &Event) {
        if self.json && print_json(event).is_err() {
            // Whoever read went away, or there is no room for more: the data goes on, and the last line tells.
            self.json = false;
        }
        if self.names == Names::Verbose
            && let Some(line) = told(event, self.destination)
        {
            say(&printable(&line));
        }
        if let Some(progress) = &mut self.progress {
            progress.observe(event);
        }
    }
}

fn print_json(event: &Event) -> io::Result<()> {
    writeln!(Stdout, "{}", serde_json::to_string(event)?)
}

/// Lists what a dry run would copy, from the manifest: events may be lost, and nothing of the list may be.
fn print_planned(report: &Report, json: bool) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(Stdout);
    let mut told = Ok(());
    for entry in report.manifest.entries() {
        let (path, size) = entry.map(|entry| (entry.path.to_string(), entry.size))?;
        told = if json {
            writeln!(out, "{}", serde_json::to_string(&PlannedFile { path: &path, size })?)
        } else {
            writeln!(out, "{} ({})", printable(named(&path, &report.destination)), human_bytes(size))
        };
        if told.is_err() {
            break;
        }
    }
    Ok(unless_closed(told.and_then(|()| out.flush()))?)
}

/// The name of a file below the destination, or that of the destination, which a file has that is copied to it.
fn named<'a>(path: &'a str, destination: &'a str) -> &'a str {
    if path.is_empty() { destination } else { path }
}

fn told(event: &Event, destination: &str) -> Option<String> {
    match event {
        Event::FileDone(file) => Some(format!("{} ({})", named(&file.path, destination), human_bytes(file.size))),
        Event::FileSkipped(file) => Some(format!("{} (already there)", named(&file.path, destination))),
        Event::Retried(retried) => Some(format!("retrying {} in {} ms: {}", retried.place, retried.wait_ms, retried.cause)),
        Event::Tuned(tuned) => {
            let workers = tuned.decision.concurrency;
            let reason = &tuned.decision.reason;
            Some(format!("streams {}/{}/{} from now: {reason}", workers.read, workers.network, workers.write))
        }
        _ => None,
    }
}

fn write_report(path: &Path, ending: &Ending<'_>) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(ending)?;
    let failed = |cause: io::Error| edt::Error::io(format!("could not write the report `{}`", path.display()), &cause);
    Ok(whole_file::write(path, |out| writeln!(out, "{text}").map_err(failed))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edt::event::{FileSkipped, Retried, Totals};

    fn failed(number: usize) -> Failure {
        let error = edt::Error::new(ErrorKind::NoSpace, format!("could not write `{number}`"))
            .with_cause("no space left on device")
            .with_hint("free 1 GB");
        Failure::new(number.to_string(), &error)
    }

    #[test]
    fn failures_are_shown_with_hints_and_the_rest_is_counted() {
        let list: Vec<Failure> = (0..25).map(failed).collect();
        let lines = failures(&list, 12_000);
        assert_eq!(lines.len(), 2 * FAILURES_SHOWN + 1);
        assert_eq!(lines[..2], ["failed: could not write `0`: no space left on device", "  hint: free 1 GB"]);
        assert_eq!(lines[2 * FAILURES_SHOWN], "failed: 11980 more; --report FILE lists them");
    }

    #[test]
    fn what_the_other_side_says_of_a_failure_moves_no_cursor() {
        let error = edt::Error::new(ErrorKind::Io, "could not read `\x1b`").with_cause("a\x1b[2J\nb").with_hint("\x1b]0;x\x07");
        let lines = failures(&[Failure::new("a", &error)], 1);
        assert_eq!(lines, ["failed: could not read `\\u{1b}`: a\\u{1b}[2J\nb", "  hint: \\u{1b}]0;x\\u{7}"]);
    }

    #[test]
    fn no_failures_are_no_lines() {
        assert!(failures(&[], 0).is_empty());
    }

    #[test]
    fn an_early_end_is_a_json_object_with_its_event() {
        let ending = Ending::Failed { kind: "refused", what: "w", cause: None, hint: Some("h") };
        let json = serde_json::to_string(&ending).unwrap();
        assert_eq!(json, r#"{"event":"failed","kind":"refused","what":"w","cause":null,"hint":"h"}"#);
    }

    #[test]
    fn verbose_lines_name_what_happens_and_leave_counters_to_the_display() {
        let retried = Retried { place: "stream 3".into(), cause: "reset".into(), wait_ms: 100 };
        assert_eq!(told(&Event::Retried(retried), "dst").as_deref(), Some("retrying stream 3 in 100 ms: reset"));
        for (path, line) in [("a", "a (already there)"), ("", "dst (already there)")] {
            let skipped = FileSkipped { path: path.into(), size: 1 };
            assert_eq!(told(&Event::FileSkipped(skipped), "dst").as_deref(), Some(line));
        }
        assert_eq!(told(&Event::Finished(Totals::default()), "dst"), None);
    }
}
