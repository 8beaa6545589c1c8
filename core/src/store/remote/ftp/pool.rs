//! Connections to one FTP server: each command takes one that is idle, or makes one.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use suppaftp::types::FileType;
use suppaftp::{FtpError, FtpResult, Mode, RustlsConnector, RustlsFtpStream, Status, TlsConnector, TransferStream};

use super::failure;
use super::names::{self, Bytewise};
use super::tls::Tls;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

/// A control connection.
pub(super) type Control = RustlsFtpStream;

/// A data connection.
pub(super) type Transfer = TransferStream<<RustlsConnector as TlsConnector>::Stream>;

const CONNECT: Duration = Duration::from_secs(15);

/// How long a connection may be silent while something is expected.
const SILENCE: Duration = Duration::from_mins(1);

/// How long an idle connection is kept: servers end theirs after some minutes.
const IDLE: Duration = Duration::from_mins(2);

const MOST_IDLE: usize = 32;

/// Whom to connect to, and as whom.
pub(super) struct Login {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: String,
    /// Whether paths begin at the server's root and not at the user's directory.
    pub(super) absolute: bool,
    /// The URL of the server, for people.
    pub(super) place: String,
}

/// The connections to one server.
pub(super) struct Pool {
    login: Login,
    tls: Option<Tls>,
    idle: Mutex<Vec<Idle>>,
    server: OnceLock<Server>,
}

/// What the first connection learned.
pub(super) struct Server {
    features: HashMap<String, String>,
    /// Where paths begin, without a slash at the end.
    pub(super) root: String,
}

struct Idle {
    control: Control,
    /// A download that was read to its end; the server's word on it was not.
    ending: Option<Transfer>,
    since: Instant,
}

/// A connection that one caller has.
pub(super) struct Lease {
    pub(super) control: Control,
    /// Whether it was idle before, so that the server may have ended it.
    reused: bool,
}

impl Server {
    /// Whether the server announced a command.
    pub(super) fn has(&self, feature: &str) -> bool {
        self.features.contains_key(feature)
    }

    /// Whether a transfer may begin in the middle of a file.
    pub(super) fn restarts(&self) -> bool {
        self.features.get("REST").is_some_and(|how| how.to_ascii_uppercase().contains("STREAM"))
    }
}

impl Pool {
    pub(super) fn new(login: Login, tls: Option<Tls>) -> Self {
        Self { login, tls, idle: Mutex::default(), server: OnceLock::new() }
    }

    /// The URL of the server, for people.
    pub(super) fn place(&self) -> &str {
        &self.login.place
    }

    /// What is known of the server if a connection was made.
    pub(super) fn known(&self) -> Option<&Server> {
        self.server.get()
    }

    /// What is known of the server; connects if nothing is.
    pub(super) fn server(&self) -> Result<&Server> {
        if self.server.get().is_none() {
            let lease = self.connect()?;
            self.put(lease.control);
        }
        self.server.get().ok_or_else(|| Error::new(ErrorKind::Protocol, self.what()).with_cause("it told nothing of itself"))
    }

    /// Sends commands on a connection.
    pub(super) fn call<T>(&self, what: &str, commands: impl FnOnce(&mut Control) -> FtpResult<T>) -> Result<T> {
        let mut lease = self.take()?;
        match commands(&mut lease.control) {
            Ok(answer) => {
                self.put(lease.control);
                Ok(answer)
            }
            Err(error) => Err(self.failed(what, lease, &error)),
        }
    }

    /// A connection of the caller's own.
    pub(super) fn take(&self) -> Result<Lease> {
        loop {
            let latest = self.idle.lock().pop();
            let Some(mut idle) = latest else { return self.connect() };
            if idle.since.elapsed() > IDLE {
                // Those below it are idle for longer.
                self.forget_idle();
                continue;
            }
            if idle.ending.take().is_none_or(|transfer| transfer.finish().is_ok()) {
                return Ok(Lease { control: idle.control, reused: true });
            }
        }
    }

    /// Takes back a connection on which nothing is under way.
    pub(super) fn put(&self, control: Control) {
        self.rest(control, None);
    }

    /// Takes back a connection with a download that was read to its end.
    pub(super) fn put_ending(&self, control: Control, transfer: Transfer) {
        self.rest(control, Some(transfer));
    }

    fn rest(&self, control: Control, ending: Option<Transfer>) {
        let idle = Idle { control, ending, since: Instant::now() };
        let mut waiting = self.idle.lock();
        let surplus = if waiting.len() < MOST_IDLE {
            waiting.push(idle);
            None
        } else {
            Some(idle)
        };
        drop(waiting);
        drop(surplus);
    }

    /// The error of a command; its connection is used further if the server answered.
    pub(super) fn failed(&self, what: &str, lease: Lease, error: &FtpError) -> Error {
        if failure::is_reply(error) {
            self.put(lease.control);
        } else if lease.reused {
            // What became of one idle connection became of those that are idle for longer.
            self.forget_idle();
        }
        failure::of(what, error)
    }

    fn forget_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        // Not under the lock: some of them wait for a reply.
        drop(idle);
    }

    fn what(&self) -> String {
        format!("could not connect to `{}`", self.login.place)
    }

    fn connect(&self) -> Result<Lease> {
        let what = self.what();
        let mut control = match &self.tls {
            Some(tls) => self.secured(tls)?,
            None => self.greet()?,
        };
        control.set_encoding(Bytewise);
        let (user, password) = (names::text(self.login.user.as_bytes()), names::text(self.login.password.as_bytes()));
        control
            .login(user, password)
            .and_then(|()| self.prepare(&mut control))
            .map_err(|error| failure::of_login(&what, &error))?;
        Ok(Lease { control, reused: false })
    }

    /// A connection on which the server said that it is ready.
    fn greet(&self) -> Result<Control> {
        let what = self.what();
        let unknown = |cause: std::io::Error| {
            Error::new(ErrorKind::Unreachable, &what)
                .with_cause(cause)
                .with_hint("check the spelling of the host and the connection to the network")
        };
        let mut failed = None;
        for address in (self.login.host.as_str(), self.login.port).to_socket_addrs().map_err(unknown)? {
            match dial(address) {
                Ok(socket) => {
                    let control = Control::connect_with_stream(socket).map_err(|error| failure::of_login(&what, &error))?;
                    return Ok(control.passive_stream_builder(|address| dial(address).map_err(FtpError::ConnectionError)));
                }
                Err(cause) => failed = Some(cause),
            }
        }
        let cause = failed.map_or_else(|| "the host has no address".to_owned(), |cause| cause.to_string());
        Err(Error::new(ErrorKind::Unreachable, what).with_cause(cause).with_hint("check host and port, and that the server runs"))
    }

    fn secured(&self, tls: &Tls) -> Result<Control> {
        let attempt = || -> Result<FtpResult<Control>> {
            let connector = RustlsConnector::from(tls.config()?);
            Ok(self.greet()?.into_secure(connector, &self.login.host))
        };
        let secured = match attempt()? {
            Err(error) if tls.goes_newer(&error) => attempt()?,
            secured => secured,
        };
        secured.map_err(|error| match error {
            FtpError::UnexpectedResponse(_) => failure::of(&self.what(), &error)
                .with_hint("the server may offer no TLS on this port; ftp:// sends password and files in the clear"),
            error => failure::of(&self.what(), &error),
        })
    }

    /// Learns what the server can, once, and sets the connection up accordingly.
    fn prepare(&self, control: &mut Control) -> FtpResult<()> {
        let server = if let Some(server) = self.server.get() {
            server
        } else {
            let asked = self.ask(control)?;
            self.server.get_or_init(|| asked)
        };
        let is_v6 = control.get_ref().peer_addr().is_ok_and(|address| address.is_ipv6());
        let mode = if is_v6 || server.has("EPSV") { Mode::ExtendedPassive } else { Mode::Passive };
        control.set_mode(mode);
        // The address that a server tells may be that of another network, or of a victim.
        control.set_passive_nat_workaround(true);
        if server.has("UTF8") {
            replied(control.custom_command("OPTS UTF8 ON", &[Status::CommandOk]).map(|_| ()))?;
        }
        control.transfer_type(FileType::Binary)
    }

    fn ask(&self, control: &mut Control) -> FtpResult<Server> {
        let features = match control.feat() {
            Ok(features) => features,
            // Servers without this command know the oldest ones.
            Err(FtpError::UnexpectedResponse(_) | FtpError::BadResponse) => HashMap::new(),
            Err(error) => return Err(error),
        };
        let features = features.into_iter().map(|(name, how)| (name.to_ascii_uppercase(), how.unwrap_or_default())).collect();
        let root = if self.login.absolute { String::new() } else { home(control)? };
        Ok(Server { features, root })
    }
}

/// Where the user's directory is.
fn home(control: &mut Control) -> FtpResult<String> {
    match control.pwd() {
        Ok(home) if home.starts_with('/') => Ok(home.trim_end_matches('/').to_owned()),
        Ok(_) | Err(FtpError::UnexpectedResponse(_)) => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// Takes a refusal for an answer.
fn replied(outcome: FtpResult<()>) -> FtpResult<()> {
    match outcome {
        Err(error) if failure::is_reply(&error) => Ok(()),
        outcome => outcome,
    }
}

fn dial(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, CONNECT)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(SILENCE))?;
    socket.set_write_timeout(Some(SILENCE))?;
    Ok(socket)
}
