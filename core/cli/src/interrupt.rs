//! Ctrl-C and termination: the first asks the running command to stop cleanly, the second ends the process with exit code 130. A file that
//! would exceed what the shell allows is an error of that file, and no reason to end.

use std::sync::Once;

use edt::sync::Mutex;

use crate::exit::Exit;
use crate::terminal;

type Action = Box<dyn Fn() + Send>;

static ACTION: Mutex<Option<Action>> = Mutex::new(None);
static INSTALL: Once = Once::new();

/// Keeps an action in place; dropping it makes the next signal end the process.
pub(crate) struct Guard;

/// Makes a signal end the process with exit code 130, until an action says better.
pub(crate) fn prepare() {
    INSTALL.call_once(install);
}

/// Shows `message` and runs `action` at the first signal; the next one ends the process.
pub(crate) fn on_interrupt(message: &'static str, action: impl Fn() + Send + 'static) -> Guard {
    *ACTION.lock() = Some(Box::new(move || {
        terminal::say(message);
        action();
    }));
    prepare();
    Guard
}

impl Drop for Guard {
    fn drop(&mut self) {
        *ACTION.lock() = None;
    }
}

fn install() {
    ignore_large_files();
    let keep_hangup_ignored = hangup_is_ignored();
    // Without a handler the signal ends the process, which a transfer survives too; so that is no reason to fail.
    if ctrlc::set_handler(handle).is_ok() && keep_hangup_ignored {
        ignore_hangup();
    }
}

fn handle() {
    let action = ACTION.lock().take();
    match action {
        Some(action) => action(),
        None => std::process::exit(Exit::Interrupted.code()),
    }
}

// `nohup edt ...` asks that the end of the terminal does not end the command; the handler would undo that.
#[cfg(unix)]
fn hangup_is_ignored() -> bool {
    let mut old = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only reads the present one into `old`, which is large enough; zero is valid for all its fields.
    unsafe {
        libc::sigaction(libc::SIGHUP, std::ptr::null(), old.as_mut_ptr()) == 0 && old.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(unix)]
fn ignore_hangup() {
    // SAFETY: SIG_IGN installs no code.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

// Where the size of files is limited (`ulimit -f`), a write beyond it answers with an error then.
#[cfg(unix)]
fn ignore_large_files() {
    // SAFETY: SIG_IGN installs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

#[cfg(not(unix))]
fn ignore_large_files() {}

#[cfg(not(unix))]
fn hangup_is_ignored() -> bool {
    false
}

#[cfg(not(unix))]
fn ignore_hangup() {}
