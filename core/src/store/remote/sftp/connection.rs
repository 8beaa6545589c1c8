//! One connection to an SFTP server: requests of any number of threads under way, and the thread that hands out the replies.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::reply::{Reply, longs, read_hello, read_packet};
use super::request::{Request, hello};
use super::ssh::{Ssh, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

/// How long a server may take from the start of the client to its greeting.
const GREETING: Duration = Duration::from_mins(2);

/// How long a server may answer nothing to what it is asked. It carries out one request after the other, and may fetch a file from a tape, or
/// flush a large one to a disk in the network when that is closed; `ssh` itself finds out about hosts that are gone.
const SILENCE: Duration = Duration::from_mins(30);

/// How often in that time it is looked whether it is over.
const LOOKS: u32 = 10;

/// What servers take that tell no limits.
const PLAIN: u32 = 32 << 10;

/// Longer requests gain nothing.
const LONGEST: u64 = 128 << 10;

/// What a server can do; the same on all connections to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    /// Bytes of one request to read.
    pub(super) read: u32,
    /// Bytes of one request to write.
    pub(super) write: u32,
    /// Whether it can rename over an existing file in one step.
    pub(super) replaces: bool,
    /// Whether it can give a file a second name, which spares what has that name already.
    pub(super) links: bool,
    /// Whether it tells how much space is free.
    pub(super) tells_space: bool,
}

/// A connection: one process of ssh. Dropping it ends the process.
pub(super) struct Connection {
    shared: Arc<Shared>,
    facts: Facts,
    reader: Option<JoinHandle<()>>,
    /// Dropping the sender ends the thread.
    watcher: Option<(Sender<()>, JoinHandle<()>)>,
}

struct Shared {
    input: Mutex<ChildStdin>,
    ssh: Mutex<Ssh>,
    waiting: Mutex<Waiting>,
    next: AtomicU32,
    /// Bytes of requests to write that are not answered.
    in_flight: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    asked: HashMap<u32, Asked>,
    /// When the server last answered, or when it was first asked after it had answered all.
    since: Option<Instant>,
    broken: Option<Error>,
}

struct Asked {
    answer: Sender<Result<Reply>>,
    weight: u64,
}

/// A request on its way; dropping it drops the answer.
pub(super) struct Ticket {
    answer: Receiver<Result<Reply>>,
}

/// A file or directory that is open on a connection; dropping it closes it without waiting for an answer.
pub(super) struct Handle {
    pub(super) connection: Arc<Connection>,
    pub(super) name: Vec<u8>,
    open: AtomicBool,
}

impl Ticket {
    /// Waits for the answer. An error says that the connection broke.
    pub(super) fn wait(self) -> Result<Reply> {
        self.answer.recv().unwrap_or_else(|_| Err(Error::new(ErrorKind::ConnectionLost, "lost the connection to the server")))
    }

    /// Whether the answer is there.
    pub(super) fn is_ready(&self) -> bool {
        !self.answer.is_empty()
    }
}

impl Connection {
    /// Connects. Without `facts` of an earlier connection it asks the server for its limits.
    pub(super) fn open(target: &Target, facts: Option<Facts>) -> Result<Self> {
        let (mut ssh, mut input, output) = target.start()?;
        if let Err(cause) = input.write_all(&hello()).and_then(|()| input.flush()) {
            return Err(ssh.failure(&cause));
        }
        let shared = Arc::new(Shared::new(input, ssh));
        let (greet, greeted) = bounded(1);
        let (body, watched) = (Arc::clone(&shared), Arc::clone(&shared));
        let reader = thread("edt-sftp", move || body.receive(output, &greet))?;
        let mut connection = Self { shared, facts: Facts::plain(&[]), reader: Some(reader), watcher: None };
        let (open, closed) = bounded(0);
        connection.watcher = Some((open, thread("edt-sftp-watch", move || watched.watch(&closed, SILENCE))?));
        let extensions = greeted.recv_timeout(GREETING).unwrap_or_else(|_| Err(target.silent()))?;
        connection.facts = match facts {
            Some(facts) => facts,
            None => connection.ask_facts(&extensions)?,
        };
        Ok(connection)
    }

    /// What the server can do.
    pub(super) fn facts(&self) -> Facts {
        self.facts
    }

    /// Whether it broke.
    pub(super) fn is_broken(&self) -> bool {
        self.shared.waiting.lock().broken.is_some()
    }

    /// Bytes on their way to files of the server.
    pub(super) fn in_flight(&self) -> u64 {
        self.shared.in_flight.load(Ordering::Relaxed)
    }

    /// Sends a request, which may wait for room on the way to the server, but not for its answer.
    pub(super) fn send(&self, mut request: Request<'_>) -> Result<Ticket> {
        let shared = &self.shared;
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let (answer, ticket) = bounded(1);
        let weight = request.weight();
        {
            let mut waiting = shared.waiting.lock();
            if let Some(error) = &waiting.broken {
                return Err(error.clone());
            }
            waiting.ask(number, Asked { answer, weight }, Instant::now());
        }
        shared.in_flight.fetch_add(weight, Ordering::Relaxed);
        // Held while it writes: packets of several threads must not mix.
        let mut input = shared.input.lock();
        let written = request.seal(number).iter().try_for_each(|piece| input.write_all(piece));
        drop(input);
        if written.is_err() {
            // The reader learns why, and answers all who wait.
            shared.ssh.lock().end();
        }
        Ok(Ticket { answer: ticket })
    }

    /// Sends a request and waits for the answer.
    pub(super) fn ask(&self, request: Request<'_>) -> Result<Reply> {
        self.send(request)?.wait()
    }

    fn ask_facts(&self, extensions: &[Vec<u8>]) -> Result<Facts> {
        let facts = Facts::plain(extensions);
        if !has(extensions, b"limits@openssh.com") {
            return Ok(facts);
        }
        Ok(match self.ask(Request::limits())? {
            Reply::Extended(body) => facts.limited(&longs(&body)),
            _ => facts,
        })
    }
}

impl Facts {
    fn plain(extensions: &[Vec<u8>]) -> Self {
        Self {
            read: PLAIN,
            write: PLAIN,
            replaces: has(extensions, b"posix-rename@openssh.com"),
            links: has(extensions, b"hardlink@openssh.com"),
            tells_space: has(extensions, b"statvfs@openssh.com"),
        }
    }

    /// With the limits that a server tells: the longest packet, read and write, and the most handles.
    fn limited(self, limits: &[u64]) -> Self {
        let bound = |index: usize| match limits.get(index) {
            // No limit of its own: what fits into a packet of the least length that is asked for.
            None | Some(0) => PLAIN,
            Some(limit) => u32::try_from((*limit).min(LONGEST)).unwrap_or(PLAIN),
        };
        Self { read: bound(1), write: bound(2), ..self }
    }
}

fn has(extensions: &[Vec<u8>], name: &[u8]) -> bool {
    extensions.iter().any(|extension| extension == name)
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    started.map_err(|cause| Error::io("could not start a thread", &cause))
}

impl Waiting {
    fn ask(&mut self, number: u32, asked: Asked, now: Instant) {
        if self.asked.is_empty() {
            self.since = Some(now);
        }
        self.asked.insert(number, asked);
    }

    fn take(&mut self, number: u32, now: Instant) -> Option<Asked> {
        self.since = Some(now);
        self.asked.remove(&number)
    }

    /// Whether something is asked, and nothing was answered for longer than this.
    fn is_silent(&self, silence: Duration, now: Instant) -> bool {
        !self.asked.is_empty() && self.since.is_some_and(|since| now.duration_since(since) > silence)
    }
}

impl Shared {
    fn new(input: ChildStdin, ssh: Ssh) -> Self {
        Self {
            input: Mutex::new(input),
            ssh: Mutex::new(ssh),
            waiting: Mutex::default(),
            next: AtomicU32::new(1),
            in_flight: AtomicU64::new(0),
        }
    }

    /// Ends the connection if the server answers nothing, so that those go on who wait for it, or for room on the way to it.
    fn watch(&self, closed: &Receiver<()>, silence: Duration) {
        let mut looked = Instant::now();
        while closed.recv_timeout(silence / LOOKS) == Err(RecvTimeoutError::Timeout) {
            let now = Instant::now();
            // Where this process stood still, what was answered meanwhile is read first.
            let stood = now.duration_since(std::mem::replace(&mut looked, now)) > silence / 2;
            let mut waiting = self.waiting.lock();
            waiting.since = if stood { waiting.since.map(|_| now) } else { waiting.since };
            let is_silent = waiting.is_silent(silence, now);
            drop(waiting);
            if is_silent {
                let error = self.ssh.lock().silent(silence);
                // First, for the reader would say that the client ended without a word.
                self.fail(&error);
                self.ssh.lock().end();
                return;
            }
        }
    }

    /// Answers all who wait, and all who ask from now on, with an error: the first one.
    fn fail(&self, error: &Error) {
        let mut waiting = self.waiting.lock();
        let error = waiting.broken.get_or_insert_with(|| error.clone()).clone();
        for (_, asked) in waiting.asked.drain() {
            let _ = asked.answer.send(Err(error.clone()));
        }
    }

    /// Hands out replies until the connection ends.
    fn receive(&self, output: ChildStdout, greet: &Sender<Result<Vec<Vec<u8>>>>) {
        let mut output = BufReader::with_capacity(64 << 10, output);
        let cause = match read_hello(&mut output) {
            Ok(extensions) => {
                let _ = greet.send(Ok(extensions));
                loop {
                    match read_packet(&mut output) {
                        Ok(packet) => self.answer(packet.number, packet.reply),
                        Err(cause) => break cause,
                    }
                }
            }
            Err(cause) => cause,
        };
        let error = self.ssh.lock().failure(&cause);
        self.fail(&error);
        let _ = greet.try_send(Err(error));
    }

    fn answer(&self, number: u32, reply: Reply) {
        let Some(asked) = self.waiting.lock().take(number, Instant::now()) else { return };
        self.in_flight.fetch_sub(asked.weight, Ordering::Relaxed);
        // Nobody may be waiting any more.
        let _ = asked.answer.send(Ok(reply));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.ssh.lock().end();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        if let Some((open, watcher)) = self.watcher.take() {
            drop(open);
            let _ = watcher.join();
        }
    }
}

impl Handle {
    /// Waits for the answer to a request that opens.
    pub(super) fn take(connection: &Arc<Connection>, ticket: Ticket, what: impl FnOnce() -> String) -> Result<Self> {
        let name = ticket.wait()?.handle(what)?;
        Ok(Self { connection: Arc::clone(connection), name, open: AtomicBool::new(true) })
    }

    /// Asks to close it; what was asked of it before is done before.
    pub(super) fn close(&self) -> Result<Ticket> {
        self.open.store(false, Ordering::Relaxed);
        self.connection.send(Request::close(&self.name))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.open.load(Ordering::Relaxed) {
            let _ = self.connection.send(Request::close(&self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_that_the_server_tells() {
        let names: Vec<Vec<u8>> = vec![b"limits@openssh.com".to_vec(), b"posix-rename@openssh.com".to_vec()];
        let facts = Facts::plain(&names);
        assert_eq!((facts.read, facts.replaces, facts.links, facts.tells_space), (PLAIN, true, false, false));
        assert!(Facts::plain(&[b"hardlink@openssh.com".to_vec()]).links);
        let facts = facts.limited(&[262_144, 261_120, 65_536, 100]);
        assert_eq!((facts.read, facts.write), (128 << 10, 64 << 10));
        let facts = facts.limited(&[262_144, 0]);
        assert_eq!((facts.read, facts.write), (PLAIN, PLAIN));
    }

    fn asked() -> (Asked, Ticket) {
        let (answer, ticket) = bounded(1);
        (Asked { answer, weight: 0 }, Ticket { answer: ticket })
    }

    #[test]
    fn a_server_is_silent_only_while_it_owes_answers_and_gives_none() {
        let (mut waiting, begun, minute) = (Waiting::default(), Instant::now(), Duration::from_mins(1));
        let at = |minutes: u32| begun + minutes * minute;
        assert!(!waiting.is_silent(minute, at(9)));
        waiting.ask(1, asked().0, at(10));
        waiting.ask(2, asked().0, at(11));
        assert!(!waiting.is_silent(minute, at(11)) && waiting.is_silent(minute, at(12)));
        assert!(waiting.take(1, at(12)).is_some());
        assert!(!waiting.is_silent(minute, at(13)) && waiting.is_silent(minute, at(14)));
        assert!(waiting.take(2, at(14)).is_some());
        assert!(!waiting.is_silent(minute, at(20)));
        waiting.ask(3, asked().0, at(20));
        assert!(!waiting.is_silent(minute, at(21)));
    }

    #[cfg(unix)]
    #[test]
    fn a_server_that_answers_nothing_is_a_lost_connection() {
        use std::process::{Command, Stdio};

        let mut child = Command::new("sleep").arg("600").stdin(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let shared = Shared::new(input, Ssh::new(child, tempfile::tempfile().unwrap(), "sftp://h".to_owned()));
        let (asked, ticket) = asked();
        shared.waiting.lock().ask(1, asked, Instant::now());
        let (_open, closed) = bounded(0);
        shared.watch(&closed, Duration::from_millis(200));
        let error = ticket.wait().unwrap_err();
        assert_eq!((error.kind(), error.what()), (ErrorKind::ConnectionLost, "lost the connection to `sftp://h`"));
        // What the end of the client says comes too late.
        shared.fail(&Error::new(ErrorKind::ConnectionLost, "ssh ended"));
        assert_eq!(shared.waiting.lock().broken.as_ref().map(Error::what), Some(error.what()));
    }
}
