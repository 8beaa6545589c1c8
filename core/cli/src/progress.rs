//! The progress of a transfer on a terminal: two lines on standard error.
//!
//! ```text
//! ━━━━━━━━━━━━╸                  41 %  1.2 GB of 2.9 GB  3.1 Gbit/s  4 s left
//! streams 4/6/4 (read/network/write)  items 120 of 400  limited by network  (testing 7 around 6)
//! ```

use std::fmt::Write as _;
use std::time::Duration;

use edt::Event;
use edt::event::{Planned, Sampled};
use edt::report::{human_bytes, human_rate};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal;

/// The weight of the newest interval in the rate that is shown.
const NEWEST: f64 = 0.3;

const TEMPLATE: &str = "{wide_bar} {prefix}\n{wide_msg}";

/// The display. Dropping it removes it from the terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    view: View,
}

impl Progress {
    pub(crate) fn start() -> Self {
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("━╸ "));
        terminal::set_bar(Some(bar.clone()));
        let progress = Self { bar, view: View::default() };
        progress.draw();
        progress
    }

    pub(crate) fn observe(&mut self, event: &Event) {
        if self.view.observe(event) {
            self.draw();
        }
    }

    fn draw(&self) {
        self.bar.set_length(self.view.planned.bytes.max(1));
        // Without the whole length a bar would say nothing.
        self.bar.set_position(if self.view.planned.complete { self.view.done() } else { 0 });
        self.bar.set_prefix(self.view.amounts());
        self.bar.set_message(self.view.stages());
        self.bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        terminal::set_bar(None);
        self.bar.finish_and_clear();
    }
}

/// What is known, and how it is said.
#[derive(Debug, Default)]
struct View {
    planned: Planned,
    sampled: Option<Sampled>,
    rate: Option<f64>,
    /// Why there are as many streams as there are.
    reason: Option<String>,
    /// Why nothing moves, if something is tried again and nothing has moved since.
    trouble: Option<String>,
}

impl View {
    /// Takes an event; answers whether it changes what is shown.
    fn observe(&mut self, event: &Event) -> bool {
        match event {
            Event::Planned(planned) => self.planned = *planned,
            Event::Sampled(sampled) => {
                let newest = sampled.throughput.write;
                self.rate = Some(self.rate.map_or(newest, |rate| rate + NEWEST * (newest - rate)));
                self.sampled = Some(sampled.clone());
                if newest > 0.0 {
                    self.trouble = None;
                }
            }
            Event::Tuned(tuned) => self.reason = Some(tuned.decision.reason.clone()),
            Event::Retried(retried) => self.trouble = Some(retried.cause.clone()),
            _ => return false,
        }
        true
    }

    fn done(&self) -> u64 {
        let totals = self.sampled.as_ref().map(|sampled| sampled.totals).unwrap_or_default();
        (totals.bytes_verified + totals.bytes_skipped + totals.bytes_resumed).min(self.planned.bytes)
    }

    fn amounts(&self) -> String {
        let (done, all) = (human_bytes(self.done()), human_bytes(self.planned.bytes));
        let rate = human_rate(self.rate.unwrap_or(0.0));
        if !self.planned.complete {
            return format!("{done} of {all} so far, listing  {rate}");
        }
        let percent = (self.done() * 100).checked_div(self.planned.bytes).unwrap_or(100);
        let left = self.left().map_or_else(String::new, |left| format!("  {} left", duration(left)));
        format!("{percent:>3} %  {done} of {all}  {rate}{left}")
    }

    fn left(&self) -> Option<Duration> {
        let rate = self.rate.filter(|rate| *rate > 0.0)?;
        Duration::try_from_secs_f64((self.planned.bytes - self.done()) as f64 / rate).ok()
    }

    fn stages(&self) -> String {
        let Some(sampled) = &self.sampled else { return "starting".to_owned() };
        let workers = sampled.concurrency.map(f64::round);
        let totals = &sampled.totals;
        let items = totals.files_done + totals.files_skipped + totals.others_done;
        let mut text = format!(
            "streams {:.0}/{:.0}/{:.0} (read/network/write)  items {items} of {}",
            workers.read, workers.network, workers.write, self.planned.items
        );
        if totals.failed > 0 {
            let _ = write!(text, "  failed {}", totals.failed);
        }
        if let Some(stage) = sampled.bottleneck {
            let _ = write!(text, "  limited by {}", stage.name());
        }
        if let Some(cause) = &self.trouble {
            let _ = write!(text, "  waiting: {}", terminal::printable(cause));
        }
        // The last, for it may be long: what has no room is cut off.
        if let Some(reason) = self.reason.as_deref().filter(|reason| !reason.is_empty()) {
            let _ = write!(text, "  ({})", terminal::printable(reason));
        }
        text
    }
}

/// A time for people, in its two largest units.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let seconds = seconds as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edt::event::{Retried, Stage, Totals, Tuned};
    use edt::optimizer::{Buffers, Decision, PerStage};

    fn sampled(rate: f64, bytes_verified: u64) -> Event {
        Event::Sampled(Sampled {
            elapsed_s: 1.0,
            throughput: PerStage::all(rate),
            concurrency: PerStage { read: 3.9, network: 6.0, write: 4.2 },
            busy: PerStage::all(0.5),
            buffers: Buffers::default(),
            rtt_ms: None,
            loss: None,
            totals: Totals { files_done: 120, bytes_verified, ..Totals::default() },
            bottleneck: Some(Stage::Network),
        })
    }

    fn view(complete: bool) -> View {
        let mut view = View::default();
        view.observe(&Event::Planned(Planned { items: 400, bytes: 2_000_000_000, complete }));
        view.observe(&sampled(125e6, 500_000_000));
        view
    }

    #[test]
    fn a_complete_plan_shows_percent_rate_and_time_left() {
        assert_eq!(view(true).amounts(), " 25 %  500 MB of 2.0 GB  1.0 Gbit/s  12 s left");
    }

    #[test]
    fn while_listing_there_is_no_percentage() {
        assert_eq!(view(false).amounts(), "500 MB of 2.0 GB so far, listing  1.0 Gbit/s");
    }

    #[test]
    fn workers_items_and_bottleneck_stand_in_the_second_line() {
        assert_eq!(view(true).stages(), "streams 4/6/4 (read/network/write)  items 120 of 400  limited by network");
    }

    #[test]
    fn the_reason_of_the_last_decision_ends_the_second_line() {
        let mut view = view(true);
        for reason in ["start: 6 streams", "testing 7 around 6"] {
            let decision = Decision::uniform(7, reason);
            assert!(view.observe(&Event::Tuned(Tuned { elapsed_s: 1.0, decision })));
            assert!(view.stages().ends_with(&format!("limited by network  ({reason})")), "{}", view.stages());
        }
        view.observe(&Event::Tuned(Tuned { elapsed_s: 2.0, decision: Decision::uniform(7, "") }));
        assert!(view.stages().ends_with("limited by network"), "{}", view.stages());
    }

    #[test]
    fn an_empty_transfer_is_at_its_end() {
        let mut view = View::default();
        view.observe(&Event::Planned(Planned { items: 0, bytes: 0, complete: true }));
        assert!(view.amounts().starts_with("100 %"), "{}", view.amounts());
    }

    #[test]
    fn the_rate_follows_but_does_not_jump() {
        let mut view = view(true);
        view.observe(&sampled(0.0, 500_000_000));
        assert!((view.rate.unwrap() - 87.5e6).abs() < 1.0);
    }

    #[test]
    fn why_nothing_moves_is_shown_until_something_does() {
        let mut view = view(true);
        let retried = Retried { place: "a request".into(), cause: "the service answered 500".into(), wait_ms: 3000 };
        view.observe(&Event::Retried(retried));
        view.observe(&sampled(0.0, 500_000_000));
        assert!(view.stages().ends_with("  waiting: the service answered 500"), "{}", view.stages());
        view.observe(&sampled(1.0, 500_000_000));
        assert!(!view.stages().contains("waiting"));
    }

    #[test]
    fn the_template_is_understood() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }

    #[test]
    fn times_have_two_units() {
        let shown = [5, 61, 3700, 90_000].map(|seconds| duration(Duration::from_secs(seconds)));
        assert_eq!(shown, ["5 s", "1 min 01 s", "1 h 01 min", "1 d 01 h"]);
    }
}
