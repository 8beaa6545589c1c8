//! What people read on standard error: errors, messages and the log, none of which may tear the progress display.

use std::io::{self, Write};

use edt::sync::Mutex;
use indicatif::ProgressBar;
use tracing_subscriber::EnvFilter;

use crate::args::Command;
use crate::exit;

static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Names the display that other output has to go around; `None` when it is gone.
pub(crate) fn set_bar(bar: Option<ProgressBar>) {
    *BAR.lock() = bar;
}

/// Writes a line to standard error, above the progress display if there is one.
pub(crate) fn say(text: &str) {
    // There is nowhere to report to when standard error is closed.
    let _ = Stderr.write_all(format!("{text}\n").as_bytes());
}

/// Standard output, which an error names if it cannot be written; that of a reader that went away stays as it is.
pub(crate) struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).map_err(of_stdout)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().map_err(of_stdout)
    }
}

fn of_stdout(cause: io::Error) -> io::Error {
    match cause.kind() {
        // An interrupted call is made again by whoever made it.
        io::ErrorKind::BrokenPipe | io::ErrorKind::Interrupted => cause,
        kind => io::Error::new(kind, format!("could not write to standard output: {cause}")),
    }
}

/// What became of output, of which a reader that went away, as `head` does, has seen what it wanted.
pub(crate) fn unless_closed(told: io::Result<()>) -> io::Result<()> {
    told.or_else(|cause| if cause.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(cause) })
}

/// Shows an error that ends a command.
pub(crate) fn complain(error: &anyhow::Error) {
    if exit::is_closed_pipe(error) {
        return;
    }
    match error.downcast_ref::<edt::Error>() {
        Some(error) => say(&format!("error: {}", lines(&error.explain()))),
        None => say(&format!("error: {}", lines(&format!("{error:#}")))),
    }
}

/// Each line of a text printable.
pub(crate) fn lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}

/// A text for a terminal: control characters, which could move the cursor, are escaped.
pub(crate) fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<char>>() } else { vec![c] }).collect()
}

/// Starts the log on standard error, as `EDT_LOG` asks; a server that is a command tells more unasked.
pub(crate) fn start_log(command: Option<&Command>) {
    // What AWS's library warns of beforehand stands in the error if it matters.
    let is_server = matches!(command, Some(Command::Serve(_)));
    let default = if is_server { "info" } else { "warn,aws_config=error,aws_smithy_runtime=error" };
    let filter = EnvFilter::try_from_env("EDT_LOG").unwrap_or_else(|error| {
        if std::env::var_os("EDT_LOG").is_some_and(|value| !value.is_empty()) {
            say(&format!(
                "warning: could not use `EDT_LOG`: {error}\nhint: write a level, or `module=level` separated by commas"
            ));
        }
        EnvFilter::new(default)
    });
    // A second call in one process finds a log in place.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .with_writer(|| Stderr)
        .try_init();
}

/// Standard error, with the progress display out of the way while something is written.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bar = BAR.lock().clone();
        let write = || io::stderr().write_all(bytes);
        bar.map_or_else(write, |bar| bar.suspend(write))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A pipe whose reader went away, for tests.
#[cfg(test)]
pub(crate) struct Closed;

#[cfg(test)]
impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(lines("a\tb\nc"), "a\\tb\nc");
        assert_eq!(printable("a\x1b[2Jb\nä"), "a\\u{1b}[2Jb\\nä");
    }
}
