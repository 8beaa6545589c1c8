//! What happens by the second: changes of the schedule, and the report.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

use crate::{Direction, Error, Schedule, Second};

use super::{OnFailure, spawn, system};

/// The thread that applies a schedule and reports; it ends when this is dropped.
pub(super) struct Controller {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// One line of the report.
#[derive(Serialize)]
struct Line {
    /// Seconds since the path was ready.
    t: f64,
    near_to_far: Second,
    far_to_near: Second,
}

struct Work {
    directions: [Arc<Mutex<Direction>>; 2],
    begin: Instant,
    schedule: Schedule,
    report: Option<Box<dyn Write + Send>>,
}

impl Controller {
    /// Starts the thread; times are counted from `begin`.
    pub(super) fn start(
        directions: [Arc<Mutex<Direction>>; 2],
        begin: Instant,
        schedule: Schedule,
        report: Option<Box<dyn Write + Send>>,
        on_failure: OnFailure,
    ) -> Result<Self, Error> {
        let (stop, stopped) = channel();
        let mut work = Work { directions, begin, schedule, report };
        let run = move || {
            if let Err(error) = work.run(&stopped) {
                on_failure(error);
            }
        };
        Ok(Self { stop: Some(stop), thread: Some(spawn("controller", run)?) })
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

impl Work {
    fn run(&mut self, stopped: &Receiver<()>) -> Result<(), Error> {
        let mut second = Duration::from_secs(1);
        let mut applied = 0;
        loop {
            let step = self.schedule.steps().get(applied);
            let next = step.map_or(second, |step| step.at.min(second));
            let left = next.saturating_sub(self.begin.elapsed());
            if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                return Ok(());
            }
            if let Some(step) = step.filter(|step| step.at <= next) {
                self.directions.iter().for_each(|direction| direction.lock().change(&step.change));
                applied += 1;
            } else {
                self.end_second()?;
                second += Duration::from_secs(1);
            }
        }
    }

    fn end_second(&mut self) -> Result<(), Error> {
        let now = self.begin.elapsed();
        let [near_to_far, far_to_near] = [0, 1].map(|number| self.directions[number].lock().second(now));
        let Some(report) = &mut self.report else { return Ok(()) };
        let line = Line { t: now.as_secs_f64(), near_to_far, far_to_near };
        let mut text = serde_json::to_vec(&line).map_err(|error| Error::Options(error.to_string()))?;
        text.push(b'\n');
        let written = report.write_all(&text).and_then(|()| report.flush());
        written.map_err(system("write the report", "free space or choose another file"))
    }
}
