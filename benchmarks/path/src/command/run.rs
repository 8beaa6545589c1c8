//! `edt-path run`: makes a path, and removes it when a signal comes, the command ends, or the path fails.

use std::fs::File;
use std::io::Write;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use edt_path::{Error, Path};

use crate::arguments::Run;

/// How long a command may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// How often a command is asked whether it has ended.
const POLL: Duration = Duration::from_millis(20);

/// Why the path is to be removed.
enum Cause {
    Signal,
    Failure(Error),
}

/// Runs a path to its end; returns the exit code.
pub(crate) fn run(arguments: &Run) -> anyhow::Result<u8> {
    let (sender, causes) = channel();
    watch_signals(sender.clone())?;
    let options = arguments.options()?;
    let report = match &arguments.report {
        None => None,
        Some(file) => {
            let made = File::create(file).with_context(|| format!("could not create `{}`", file.display()))?;
            Some(Box::new(made) as Box<dyn Write + Send>)
        }
    };
    // Nobody listens any more when the path is being removed.
    let on_failure = Arc::new(move |error| drop(sender.send(Cause::Failure(error))));
    let path = Path::open(&arguments.name(), options, report, on_failure)?;
    if arguments.command.is_empty() { wait(&path, &causes) } else { run_command(&path, arguments, &causes) }
}

fn watch_signals(sender: Sender<Cause>) -> anyhow::Result<()> {
    ctrlc::set_handler(move || drop(sender.send(Cause::Signal))).context("could not watch for signals")
}

/// Says that the path is ready, and waits for a reason to remove it.
fn wait(path: &Path, causes: &Receiver<Cause>) -> anyhow::Result<u8> {
    let ready = serde_json::json!({"near": path.near(), "far": path.far(), "profile": path.options()});
    let mut out = std::io::stdout().lock();
    writeln!(out, "{ready}").and_then(|()| out.flush()).context("could not print that the path is ready")?;
    drop(out);
    match causes.recv().context("nobody is left to end the path")? {
        Cause::Signal => Ok(0),
        Cause::Failure(error) => Err(error.into()),
    }
}

/// Runs a command at the near end; its exit code is ours, 128 and the number of a signal that ended it.
fn run_command(path: &Path, arguments: &Run, causes: &Receiver<Cause>) -> anyhow::Result<u8> {
    let mut child = Command::new("ip")
        .args(["netns", "exec", &path.near().namespace])
        .args(&arguments.command)
        .env("EDT_PATH_NEAR", path.near().address)
        .env("EDT_PATH_FAR", path.far().address)
        .env("EDT_PATH_FAR_NAMESPACE", &path.far().namespace)
        .spawn()
        .context("could not run `ip netns exec`")?;
    loop {
        if let Some(status) = child.try_wait().context("could not wait for the command")? {
            return Ok(code(status));
        }
        match causes.recv_timeout(POLL) {
            Ok(Cause::Signal) => return end(&mut child).map(code),
            Ok(Cause::Failure(error)) => {
                end(&mut child)?;
                return Err(error.into());
            }
            Err(_) => {}
        }
    }
}

/// Asks a command to end, and makes it after a while.
fn end(child: &mut Child) -> anyhow::Result<ExitStatus> {
    let id = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).context("the command has no id")?;
    // It fails only if the command has ended by itself.
    let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    let limit = Instant::now() + GRACE;
    while Instant::now() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(POLL);
    }
    child.kill()?;
    Ok(child.wait()?)
}

/// The exit code as shells have it.
fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
