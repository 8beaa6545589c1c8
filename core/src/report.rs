//! What a transfer answers at its end.

use std::fmt::Write as _;

use serde::Serialize;

use crate::event::{Failure, Sampled, Stage, Totals, Tuned};
use crate::pipeline::manifest::Manifest;

/// The whole account of a transfer: every item is in one of the totals.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The source, without secrets.
    pub source: String,
    /// The destination, without secrets.
    pub destination: String,
    /// The optimizer that tuned.
    pub optimizer: String,
    /// Counters.
    pub totals: Totals,
    /// One entry an interval; thinned evenly when a transfer is very long.
    pub timeline: Vec<Sampled>,
    /// Every decision with its reason; thinned like the timeline.
    pub decisions: Vec<Tuned>,
    /// The stage that limited most of the time, if one did; `None` where too little was moved to tell, or a limit of the rate was reached.
    pub bottleneck: Option<Stage>,
    /// Whether the option `limit_rate` is what limited.
    pub rate_limited: bool,
    /// Whether the rate that all transfers of this host share is what limited.
    pub host_limited: bool,
    /// What limited for how much of the time, and how the streams went, in one sentence for people; `None` where too little was moved to
    /// tell.
    pub explanation: Option<String>,
    /// What would help, for people.
    pub advice: Vec<String>,
    /// The items that failed, the first 10,000 of them, and of the others the first of each further kind; `totals.failed` counts all.
    pub failures: Vec<Failure>,
    /// Whether the transfer was a dry run.
    pub dry_run: bool,
    /// Files with their sizes and digests.
    #[serde(skip)]
    pub manifest: Manifest,
}

impl Report {
    /// Whether every item is there and verified.
    pub fn is_complete(&self) -> bool {
        self.totals.failed == 0
    }

    /// The report as JSON text.
    ///
    /// # Panics
    /// Never: a report holds only numbers, text and lists of them.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report holds only numbers and text")
    }

    /// The report in a few lines for people.
    pub fn summary(&self) -> String {
        let totals = &self.totals;
        let mut text = format!(
            "{}, {} in {:.1} s: {}",
            human_count(totals.files_done, "file"),
            human_bytes(totals.bytes_done),
            totals.elapsed_s,
            human_rate(totals.goodput())
        );
        if totals.files_skipped > 0 {
            let (files, bytes) = (human_count(totals.files_skipped, "file"), human_bytes(totals.bytes_skipped));
            let _ = write!(text, "\nalready there: {files}, {bytes}");
        }
        if totals.bytes_resumed > 0 {
            let _ = write!(text, "\nresumed: {} were there from an earlier attempt", human_bytes(totals.bytes_resumed));
        }
        if totals.removed > 0 {
            let _ = write!(text, "\nremoved at the destination: {}", human_count(totals.removed, "item"));
        }
        if let Some(last) = self.decisions.last() {
            let steps: Vec<String> = self.decisions.iter().map(|tuned| tuned.decision.concurrency.network.to_string()).collect();
            let _ = write!(text, "\nstreams ({}): {}; last: {}", self.optimizer, shorten(&steps), last.decision.reason);
        }
        if self.rate_limited {
            text.push_str("\nlimited by: --limit-rate");
        } else if self.host_limited {
            text.push_str("\nlimited by: the rate of this host, which all its transfers share");
        } else if let Some(stage) = self.bottleneck {
            let _ = write!(text, "\nlimited by: {}", stage.name());
        }
        if let Some(explanation) = &self.explanation {
            let _ = write!(text, "\nhow it went: {explanation}");
        }
        for advice in &self.advice {
            let _ = write!(text, "\nhint: {advice}");
        }
        text
    }
}

fn shorten(steps: &[String]) -> String {
    if steps.len() <= 12 {
        return steps.join(" ");
    }
    format!("{} .. {}", steps[..8].join(" "), steps[steps.len() - 3..].join(" "))
}

/// A number of things for people: `1 file`, `2 files`.
pub fn human_count(count: u64, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {one}{plural}")
}

/// A number of bytes for people, in decimal units.
pub fn human_bytes(bytes: u64) -> String {
    scaled(bytes as f64, "B")
}

/// A rate in bytes per second for people, shown in bits per second.
pub fn human_rate(bytes_per_second: f64) -> String {
    scaled(bytes_per_second * 8.0, "bit/s")
}

fn scaled(mut value: f64, unit: &str) -> String {
    for prefix in ["", "k", "M", "G", "T"] {
        if value < 999.5 {
            let digits = usize::from(!prefix.is_empty() && value < 99.95);
            return format!("{value:.digits$} {prefix}{unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.1} P{unit}")
}
