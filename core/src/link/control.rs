//! Control channels over TCP: messages in both directions at once, and a peer that falls silent is noticed.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded};

use crate::error::{Error, ErrorKind, Result};
use crate::link::connection::Connection;
use crate::link::stream::lost;
use crate::link::{Control, SendMessage};
use crate::protocol::message::{MAX_MESSAGE, Message, read_length};
use crate::sync::Mutex;

/// Received messages that wait to be taken; beyond them nothing is read, and the peer's sends block.
const MESSAGES: usize = 256;

/// How often the reader looks whether the channel was closed.
const TICK: Duration = Duration::from_millis(100);

/// How long a send may be stuck before the peer counts as lost.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a closed channel waits for the peer to hang up, so that the last message is not destroyed by a reset.
const LINGER: Duration = Duration::from_secs(2);

/// The rhythm of a channel's signs of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Liveness {
    /// A ping is sent when nothing else was for so long.
    pub(super) ping: Duration,
    /// The peer counts as lost when nothing came from it for so long.
    pub(super) silence: Duration,
}

impl Default for Liveness {
    fn default() -> Self {
        Self { ping: Duration::from_secs(1), silence: Duration::from_secs(15) }
    }
}

/// Opens a control channel on a connection whose handshake is done; `peer` names it in errors.
pub(super) fn open(mut connection: Connection, peer: &str, liveness: Liveness) -> Result<Control> {
    let what = format!("could not keep up the connection to `{peer}`");
    let prepared = connection.lift_deadline().and_then(|()| {
        connection.socket.set_read_timeout(Some(TICK))?;
        connection.socket.set_write_timeout(Some(SEND_TIMEOUT))
    });
    prepared.map_err(|cause| lost(&what, &cause))?;
    let (socket, tls) = connection.into_parts();
    let (session, early) = tls.map_or((None, Vec::new()), |(session, early)| (Some(Mutex::new(session)), early));
    let wire = Arc::new(Wire {
        socket,
        session,
        last_sent: Mutex::new(Instant::now()),
        closed: AtomicBool::new(false),
        told: Mutex::new(None),
        failure: Mutex::new(None),
        what,
    });
    let (messages, receiver) = bounded(MESSAGES);
    let (ended, end) = bounded(0);
    let reader = Reader { wire: Arc::clone(&wire), messages, pending: Vec::new(), silence: liveness.silence };
    // Both threads end by themselves soon after the channel is closed, which dropping the sender does at the latest.
    spawn("edt-control-read", &wire, move || reader.run(&early))?;
    let keeper = Arc::clone(&wire);
    spawn("edt-control-ping", &wire, move || keep_alive(&keeper, &end, liveness.ping))?;
    Ok(Control { sender: Arc::new(TcpSender { wire, _ended: ended }), receiver })
}

/// A message as it goes on the wire; an error if the peer would refuse it for its length.
pub(super) fn encode(message: &Message) -> Result<Vec<u8>> {
    let bytes = message.encode_with_length();
    if bytes.len() - 4 > MAX_MESSAGE {
        return Err(Error::new(ErrorKind::InvalidInput, "could not send a message")
            .with_cause(format!("it has {} bytes, more than {MAX_MESSAGE}", bytes.len() - 4)));
    }
    Ok(bytes)
}

fn spawn(name: &str, wire: &Wire, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map(drop).map_err(|cause| {
        wire.close();
        Error::io("could not start a thread for a connection", &cause)
    })
}

/// The sending side; the channel closes with its last clone.
struct TcpSender {
    wire: Arc<Wire>,
    /// Wakes the thread that sends pings.
    _ended: Sender<()>,
}

impl SendMessage for TcpSender {
    fn send(&self, message: &Message) -> Result<()> {
        let bytes = encode(message)?;
        let mut last_sent = self.wire.last_sent.lock();
        self.wire.put(&bytes)?;
        *last_sent = Instant::now();
        Ok(())
    }

    fn close(&self) {
        self.wire.close();
    }

    fn failure(&self) -> Option<Error> {
        self.wire.failure.lock().clone()
    }
}

impl Drop for TcpSender {
    fn drop(&mut self) {
        self.wire.close();
    }
}

/// What the threads of a channel share.
struct Wire {
    socket: Arc<TcpStream>,
    session: Option<Mutex<rustls::Connection>>,
    /// When something was sent last; whoever writes to the socket holds it, so that messages stay whole and records in order. The
    /// session is locked only to turn bytes into records or back, never over a system call: a stuck send does not stop receiving.
    last_sent: Mutex<Instant>,
    closed: AtomicBool,
    /// Why the peer gives the session up, if it said so.
    told: Mutex<Option<Error>>,
    failure: Mutex<Option<Error>>,
    what: String,
}

impl Wire {
    /// Writes bytes; the caller holds `last_sent`. A failure ends the channel, as part of a message may be out.
    fn put(&self, bytes: &[u8]) -> Result<()> {
        self.check()?;
        self.sealed(bytes).and_then(|records| (&*self.socket).write_all(records.as_deref().unwrap_or(bytes))).map_err(|cause| {
            let cause = match cause.kind() {
                io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "the peer takes no messages"),
                _ => cause,
            };
            self.fail(lost(&self.what, &cause))
        })
    }

    /// The TLS records of some bytes; `None` on a plain connection.
    fn sealed(&self, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let Some(session) = &self.session else { return Ok(None) };
        let mut session = session.lock();
        session.writer().write_all(bytes)?;
        records(&mut session).map(Some)
    }

    fn check(&self) -> Result<()> {
        if let Some(failure) = self.failure.lock().clone() {
            return Err(failure);
        }
        if self.is_closed() {
            return Err(Error::new(ErrorKind::ConnectionLost, self.what.clone()).with_cause("this side closed it"));
        }
        Ok(())
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends the channel because of an error, or for the reason that the peer gave before; returns which it was. The first one counts, and
    /// none after a close.
    fn fail(&self, error: Error) -> Error {
        let error = self.told.lock().clone().unwrap_or(error);
        if !self.is_closed() {
            self.failure.lock().get_or_insert_with(|| error.clone());
        }
        let _ = self.socket.shutdown(Shutdown::Both);
        error
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    /// Says goodbye and sends nothing more; what was sent still arrives.
    fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        if let (Some(session), Some(_writing)) = (&self.session, self.last_sent.try_lock_for(TICK)) {
            let goodbye = {
                let mut session = session.lock();
                session.send_close_notify();
                records(&mut session)
            };
            // A peer that does not read gets no goodbye and sees the end of the connection without it.
            let _ = self.socket.set_write_timeout(Some(TICK));
            let _ = goodbye.and_then(|records| (&*self.socket).write_all(&records));
        }
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

/// Takes the records that a session has ready for the socket.
fn records(session: &mut rustls::Connection) -> io::Result<Vec<u8>> {
    let mut records = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut records)?;
    }
    Ok(records)
}

/// Sends pings while nothing else is sent.
fn keep_alive(wire: &Wire, end: &Receiver<()>, ping: Duration) {
    let bytes = Message::Ping.encode_with_length();
    while end.recv_timeout(ping / 2) == Err(RecvTimeoutError::Timeout) && !wire.is_closed() && !wire.has_failed() {
        // Somebody who holds the lock is sending, which is a sign of life as well.
        if let Some(mut last_sent) = wire.last_sent.try_lock()
            && last_sent.elapsed() >= ping
            && wire.put(&bytes).is_ok()
        {
            *last_sent = Instant::now();
        }
    }
}

/// The receiving thread.
struct Reader {
    wire: Arc<Wire>,
    messages: Sender<Message>,
    /// Plaintext that does not make a whole message yet: never more than one message and one read.
    pending: Vec<u8>,
    silence: Duration,
}

impl Reader {
    fn run(mut self, early: &[u8]) {
        if let Err(error) = self.receive(early) {
            self.wire.fail(error);
        }
        let Self { wire, messages, .. } = self;
        drop(messages);
        if wire.is_closed() {
            linger(&wire.socket);
        }
    }

    /// Passes messages on until the channel is closed here (`Ok`) or ends otherwise.
    fn receive(&mut self, early: &[u8]) -> Result<()> {
        let mut buffer = vec![0; 64 << 10];
        let mut heard = Instant::now();
        self.open_records(early)?;
        loop {
            if !self.deliver()? {
                return Ok(());
            }
            match (&*self.wire.socket).read(&mut buffer) {
                Ok(0) => return Err(lost(&self.wire.what, &io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => {
                    heard = Instant::now();
                    self.take(&buffer[..read])?;
                }
                Err(wait) if matches!(wait.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if heard.elapsed() > self.silence {
                        let silent = io::Error::new(io::ErrorKind::TimedOut, "the peer fell silent");
                        return Err(lost(&self.wire.what, &silent));
                    }
                }
                Err(wait) if wait.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(lost(&self.wire.what, &cause)),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        if self.wire.session.is_some() {
            return self.open_records(bytes);
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Turns TLS records into plaintext; on a plain connection there are none.
    fn open_records(&mut self, mut bytes: &[u8]) -> Result<()> {
        let Some(session) = &self.wire.session else { return Ok(()) };
        let mut session = session.lock();
        let failed = |cause: io::Error| lost(&self.wire.what, &cause);
        loop {
            let state =
                session.process_new_packets().map_err(|cause| failed(io::Error::new(io::ErrorKind::InvalidData, cause)))?;
            let begin = self.pending.len();
            self.pending.resize(begin + state.plaintext_bytes_to_read(), 0);
            session.reader().read_exact(&mut self.pending[begin..]).map_err(failed)?;
            if bytes.is_empty() {
                return Ok(());
            }
            if session.read_tls(&mut bytes).map_err(failed)? == 0 {
                // Nothing counts after the peer's goodbye.
                return Ok(());
            }
        }
    }

    /// Hands over every whole message; false once the channel is closed here.
    fn deliver(&mut self) -> Result<bool> {
        let mut begin = 0;
        while let Some((prefix, rest)) = self.pending[begin..].split_first_chunk::<4>() {
            let length = read_length(*prefix)?;
            let Some(bytes) = rest.get(..length) else { break };
            let message = Message::decode(bytes)?;
            begin += 4 + length;
            if let Message::Fail(failed) = &message {
                self.wire.told.lock().get_or_insert_with(|| failed.clone().into());
            }
            if message != Message::Ping && !self.hand_over(message) {
                return Ok(false);
            }
        }
        self.pending.drain(..begin);
        Ok(!self.wire.is_closed())
    }

    fn hand_over(&self, mut message: Message) -> bool {
        loop {
            match self.messages.send_timeout(message, TICK) {
                // Nobody listens any more, but the end of the connection must still be noticed.
                Ok(()) | Err(SendTimeoutError::Disconnected(_)) => return true,
                Err(SendTimeoutError::Timeout(_)) if self.wire.is_closed() => return false,
                Err(SendTimeoutError::Timeout(back)) => message = back,
            }
        }
    }
}

/// Reads and discards until the peer hangs up: closing over unread bytes would make the kernel send a reset.
fn linger(socket: &TcpStream) {
    let deadline = Instant::now() + LINGER;
    let mut discarded = [0; 4096];
    let mut socket = socket;
    while Instant::now() < deadline {
        match socket.read(&mut discarded) {
            Ok(0) => return,
            Err(cause)
                if !matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted) =>
            {
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
