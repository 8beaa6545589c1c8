//! The user's own ssh: how it is started, and what it says when it fails.
//!
//! It follows the user's configuration, known hosts, keys, agents and jump hosts. What is set here is what a program needs that cannot
//! be asked anything, and connections of its own where a master's would share one window of TCP; a master that is there is used if
//! the server takes no key.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::endpoint::ServiceUrl;
use crate::error::{Error, ErrorKind, Result};

/// Options of every connection. `ServerAlive` finds out that a path fell silent.
const OPTIONS: [&str; 12] = [
    "-x",
    "-oBatchMode=yes",
    "-oLogLevel=ERROR",
    "-oConnectTimeout=30",
    "-oServerAliveInterval=15",
    "-oServerAliveCountMax=3",
    "-oClearAllForwardings=yes",
    "-oForwardAgent=no",
    "-oPermitLocalCommand=no",
    "-oRemoteCommand=none",
    "-oRequestTTY=no",
    "-oControlMaster=no",
];

/// Bytes that are read of what a client says when it fails.
const MOST_SAID: u64 = 4096;

/// The orders in which OpenSSH prefers ciphers where nobody chose one: until version 9, and from 10.
const STOCK: [&str; 2] = [
    "chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,aes128-gcm@openssh.com,aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com,aes128-gcm@openssh.com,aes256-gcm@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr",
];

/// The same ciphers in the order of their speed on processors that have instructions for AES.
const FAST: &str = "-oCiphers=aes128-gcm@openssh.com,aes256-gcm@openssh.com,\
    chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr";

/// What a client's words mean, in the order in which they are looked for, and what helps.
const SAYINGS: [(&str, ErrorKind, &str); 14] = [
    ("Host key verification failed", ErrorKind::Refused, "connect once with `ssh` by hand, and compare the key of the server"),
    ("host key is known", ErrorKind::Refused, "connect once with `ssh` by hand, and compare the key of the server"),
    ("Permission denied", ErrorKind::Refused, KEYS),
    ("Too many authentication failures", ErrorKind::Refused, KEYS),
    ("No supported authentication methods", ErrorKind::Refused, KEYS),
    ("Could not resolve hostname", ErrorKind::Unreachable, "check the spelling of the host"),
    ("ssh: connect to host", ErrorKind::Unreachable, "check that an ssh server listens there, and the way to it"),
    ("Connection timed out", ErrorKind::Unreachable, "check that an ssh server listens there, and the way to it"),
    ("subsystem request failed", ErrorKind::Unsupported, "the server offers no SFTP"),
    ("Unable to negotiate", ErrorKind::Refused, "the server and this client have no algorithm in common"),
    ("Bad configuration option", ErrorKind::InvalidInput, "correct the configuration of ssh"),
    ("Bad owner or permissions", ErrorKind::InvalidInput, "correct the owner and mode of the files of ssh"),
    ("command not found", ErrorKind::InvalidInput, "correct the configuration of ssh"),
    ("This service allows sftp connections only", ErrorKind::Unsupported, "the server offers no SFTP to this client"),
];

const KEYS: &str = "edt types no passwords: load a key with `ssh-add`, or name one in ~/.ssh/config, \
    until `ssh -oBatchMode=yes` gets in";

/// Whom to connect to, and with what.
pub(super) struct Target {
    program: OsString,
    host: String,
    user: Option<String>,
    port: Option<u16>,
    place: String,
    fast: OnceLock<bool>,
    /// Whether connections go through a master that the user has opened.
    shared: AtomicBool,
}

/// A running client.
pub(super) struct Ssh {
    child: Child,
    errors: File,
    place: String,
}

impl Target {
    /// Whom a URL names; nothing is started yet.
    pub(super) fn new(url: &ServiceUrl) -> Result<Self> {
        let place = url.place();
        let user = url.user.clone();
        if !is_plain(&url.host) || user.as_deref().is_some_and(|user| !is_plain(user)) {
            return Err(Error::new(ErrorKind::InvalidInput, format!("could not use the endpoint `{}`", place.escape_debug()))
                .with_cause("ssh takes no such host or user"));
        }
        let program = std::env::var_os("EDT_SSH").filter(|name| !name.is_empty()).unwrap_or_else(|| "ssh".into());
        let (host, port) = (url.host.clone(), url.port);
        Ok(Self { program, host, user, port, place, fast: OnceLock::new(), shared: AtomicBool::new(false) })
    }

    /// The URL of the server, for people.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// From now on connections go through a master that the user has opened.
    pub(super) fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// From now on connections are of their own.
    pub(super) fn separate(&self) {
        self.shared.store(false, Ordering::Relaxed);
    }

    /// Starts a client.
    pub(super) fn start(&self) -> Result<(Ssh, ChildStdin, ChildStdout)> {
        let failed = |cause: &io::Error| Error::io(self.failed(), cause);
        let errors = tempfile::tempfile().map_err(|cause| failed(&cause))?;
        let said = errors.try_clone().map_err(|cause| failed(&cause))?;
        let mut command = Command::new(&self.program);
        command.args(self.options()).arg("-s").args(["--", &self.host, "sftp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said);
        apart(&mut command);
        let mut child = command.spawn().map_err(|cause| self.not_started(&cause))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut ssh = Ssh::new(child, errors, self.place.clone());
        match (input, output) {
            (Some(input), Some(output)) => Ok((ssh, input, output)),
            _ => Err(ssh.failure(&io::Error::other("its streams are missing"))),
        }
    }

    /// The error for a client that does not come to an end of connecting.
    pub(super) fn silent(&self) -> Error {
        Error::new(ErrorKind::Unreachable, self.failed()).with_cause("the server did not greet in time")
    }

    fn failed(&self) -> String {
        format!("could not connect to `{}`", self.place)
    }

    fn not_started(&self, cause: &io::Error) -> Error {
        let program = self.program.to_string_lossy();
        Error::new(ErrorKind::Unsupported, self.failed())
            .with_cause(format!("could not start `{}`: {cause}", program.escape_debug()))
            .with_hint("install the OpenSSH client, or name one in EDT_SSH")
    }

    fn options(&self) -> Vec<OsString> {
        let mut options: Vec<OsString> = OPTIONS.iter().map(OsString::from).collect();
        if !self.shared.load(Ordering::Relaxed) {
            options.push("-oControlPath=none".into());
        }
        if *self.fast.get_or_init(|| has_aes() && self.ciphers().is_some_and(|ciphers| STOCK.contains(&ciphers.as_str()))) {
            options.push(FAST.into());
        }
        options.extend(self.whom());
        options
    }

    fn whom(&self) -> Vec<OsString> {
        let user = self.user.iter().flat_map(|user| [OsString::from("-l"), OsString::from(user)]);
        let port = self.port.iter().flat_map(|port| [OsString::from("-p"), OsString::from(port.to_string())]);
        user.chain(port).collect()
    }

    /// The ciphers that the configuration leads to, as far as the client tells.
    fn ciphers(&self) -> Option<String> {
        let mut command = Command::new(&self.program);
        command.args(self.whom()).arg("-G").args(["--", &self.host]).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.lines().find_map(|line| line.strip_prefix("ciphers ")).map(str::to_owned)
    }
}

impl Ssh {
    /// A client that is running; `errors` is what it writes to, `place` the URL of its server, for people.
    pub(super) fn new(child: Child, errors: File, place: String) -> Self {
        Self { child, errors, place }
    }

    /// The error for a server that answers nothing.
    pub(super) fn silent(&self, within: Duration) -> Error {
        Error::new(ErrorKind::ConnectionLost, format!("lost the connection to `{}`", self.place))
            .with_cause(format!("the server answered nothing for {} s", within.as_secs()))
    }

    /// Ends the client, and reaps it.
    pub(super) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Why the connection came to its end, in the client's own words where it has any.
    pub(super) fn failure(&mut self, cause: &io::Error) -> Error {
        // What it has to say is said when it ends; one that goes on broke the protocol.
        for _ in 0..100 {
            if cause.kind() == io::ErrorKind::InvalidData || matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.end();
        let mut said = Vec::new();
        let length = self.errors.metadata().map_or(0, |metadata| metadata.len());
        let read = self.errors.seek(SeekFrom::Start(length.saturating_sub(MOST_SAID)));
        let _ = read.and_then(|_| self.errors.read_to_end(&mut said));
        explain(&self.place, String::from_utf8_lossy(&said).trim(), cause)
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        self.end();
    }
}

/// The error that a client's words stand for.
fn explain(place: &str, said: &str, cause: &io::Error) -> Error {
    let known = SAYINGS.iter().find(|(words, _, _)| said.contains(words));
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let spoken = known.and_then(|(words, _, _)| said.lines().map(str::trim).find(|line| line.contains(words))).or(last);
    if let Some((_, kind, hint)) = known {
        let error = Error::new(*kind, format!("could not connect to `{place}`")).with_hint(*hint);
        return error.with_cause(spoken.unwrap_or_default());
    }
    if cause.kind() == io::ErrorKind::InvalidData {
        return Error::new(ErrorKind::Protocol, format!("could not understand `{place}`"))
            .with_cause(cause)
            .with_hint("see that `ssh HOST true` prints nothing, and that the server offers SFTP");
    }
    let error = Error::new(ErrorKind::ConnectionLost, format!("lost the connection to `{place}`"));
    match spoken {
        Some(line) => error.with_cause(line),
        None => error.with_cause("ssh ended without a word"),
    }
}

/// Whether a host or user can be handed to ssh, which hands it on to shells of the user's configuration.
fn is_plain(text: &str) -> bool {
    let strange = |c: char| c.is_whitespace() || c.is_control() || "'\"`;&<>|(){}$*?!#".contains(c);
    !text.is_empty() && !text.starts_with('-') && !text.contains(strange)
}

/// A group of its own: what a terminal sends at Ctrl-C ends this process only, which then ends the client when it is done with it.
#[cfg(unix)]
fn apart(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn apart(_: &mut Command) {}

fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Endpoint, Location};

    fn target(url: &str) -> Result<Target> {
        let Location::Service(url) = Endpoint::from(url).resolve()? else { panic!() };
        Target::new(&url)
    }

    fn kind(said: &str) -> ErrorKind {
        explain("sftp://h", said, &io::ErrorKind::UnexpectedEof.into()).kind()
    }

    #[test]
    fn a_host_is_never_an_option() {
        for bad in ["sftp://-oProxyCommand=x/a", "sftp://a;b/", "sftp://-x@h/", "sftp://a$b@h/"] {
            assert!(target(bad).is_err(), "{bad} passed");
        }
        let whom = target("sftp://me@h:2222/a").unwrap().whom();
        assert_eq!(whom, ["-l", "me", "-p", "2222"]);
    }

    #[test]
    fn a_connection_is_shared_only_when_it_must_be() {
        let target = target("sftp://h/").unwrap();
        let none = OsString::from("-oControlPath=none");
        let _ = target.fast.set(false);
        assert!(target.options().contains(&none));
        target.share();
        assert!(!target.options().contains(&none));
    }

    #[test]
    fn a_clients_words_say_whether_a_retry_helps() {
        assert_eq!(kind("x@h: Permission denied (publickey)."), ErrorKind::Refused);
        assert_eq!(kind("No ED25519 host key is known for h\nHost key verification failed."), ErrorKind::Refused);
        assert_eq!(kind("ssh: connect to host h port 22: Connection refused"), ErrorKind::Unreachable);
        assert_eq!(kind("kex_exchange_identification: Connection closed by remote host"), ErrorKind::ConnectionLost);
        assert_eq!(kind(""), ErrorKind::ConnectionLost);
        let garbage = explain("sftp://h", "", &io::Error::new(io::ErrorKind::InvalidData, "text"));
        assert_eq!((garbage.kind(), garbage.cause()), (ErrorKind::Protocol, Some("text")));
    }
}
