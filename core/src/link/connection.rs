//! A TCP connection, plain or under TLS, with a deadline while it is not trusted yet.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls_pki_types::ServerName;

use crate::link::raw::{Gathering, Raw};
use crate::link::socket;
use crate::metrics::tcp_info::tcp_info;
use crate::protocol::ALPN;
use crate::protocol::handshake::{BINDING_LABEL, BINDING_LENGTH, MAX_HANDSHAKE, PREAMBLE_LENGTH, Role, is_tls};

/// Ciphertext taken from the socket at once: TLS alone would pay a system call for each record of 16 KiB.
const INPUT: usize = 256 << 10;

/// Most bytes that TLS may hold between a write and the socket.
const OUTPUT_LIMIT: usize = 8 << 20;

/// Ciphertext that TLS may hold back from what was read: less than one record with its header and tag.
const RECORD: usize = (16 << 10) + 256;

/// A connection used by one thread. Without a deadline every operation waits as long as it must.
pub(super) struct Connection {
    pub(super) socket: Arc<TcpStream>,
    tls: Option<Box<Tls>>,
    deadline: Option<Instant>,
    /// What reads wait for; `None` where they take what there is.
    gathering: Option<Gathering>,
}

struct Tls {
    session: rustls::Connection,
    input: Input,
}

/// Bytes from the socket that TLS has not taken yet.
struct Input {
    memory: Box<[u8]>,
    begin: usize,
    end: usize,
}

impl Connection {
    pub(super) fn plain(socket: Arc<TcpStream>, deadline: Instant) -> Self {
        Self { socket, tls: None, deadline: Some(deadline), gathering: None }
    }

    /// Does the client's part of the TLS handshake.
    pub(super) fn tls_client(
        socket: Arc<TcpStream>,
        deadline: Instant,
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let session = rustls::ClientConnection::new(config, name).map_err(io::Error::other)?;
        Self::tls(socket, deadline, session.into())
    }

    /// Does the server's part of the TLS handshake.
    pub(super) fn tls_server(socket: Arc<TcpStream>, deadline: Instant, config: Arc<rustls::ServerConfig>) -> io::Result<Self> {
        let session = rustls::ServerConnection::new(config).map_err(io::Error::other)?;
        Self::tls(socket, deadline, session.into())
    }

    /// The shortest round trip so far, where the system tells.
    pub(super) fn shortest_trip(&self) -> Option<Duration> {
        tcp_info(&*self.socket).map(|tcp| tcp.min_rtt).filter(|trip| !trip.is_zero())
    }

    fn tls(socket: Arc<TcpStream>, deadline: Instant, mut session: rustls::Connection) -> io::Result<Self> {
        session.set_buffer_limit(Some(OUTPUT_LIMIT));
        let input = Input { memory: vec![0; INPUT].into_boxed_slice(), begin: 0, end: 0 };
        let mut raw = Raw::new(&socket, Some(deadline));
        let mut tls = Box::new(Tls { session, input });
        loop {
            tls.flush(&mut raw)?;
            if !tls.session.is_handshaking() {
                break;
            }
            tls.pull(&mut raw)?;
        }
        if tls.session.alpn_protocol() != Some(ALPN) {
            return Err(invalid("the peer does not speak `edt/1`".to_owned()));
        }
        Ok(Self { socket, tls: Some(tls), deadline: Some(deadline), gathering: None })
    }

    /// Ends the time limit; from here on the peer is trusted to be slow.
    pub(super) fn lift_deadline(&mut self) -> io::Result<()> {
        self.deadline = None;
        self.socket.set_read_timeout(None)?;
        self.socket.set_write_timeout(None)
    }

    /// From here on reads wait until a good part of what they ask for is there, instead of waking for every packet. Only for a reader that
    /// never asks for more than the peer is bound to send.
    pub(super) fn gather(&mut self) {
        self.gathering = Some(Gathering::new());
    }

    /// Whether the peer has not hung up, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        let look = || {
            self.socket.set_nonblocking(true)?;
            let seen = self.socket.peek(&mut [0]);
            self.socket.set_nonblocking(false).and(seen)
        };
        match look() {
            Ok(seen) => seen > 0,
            Err(cause) => cause.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// 32 bytes that only the two ends of this TLS connection share; nothing on a plain one.
    pub(super) fn binding(&self) -> io::Result<Vec<u8>> {
        match &self.tls {
            None => Ok(Vec::new()),
            Some(tls) => {
                tls.session.export_keying_material(vec![0; BINDING_LENGTH], BINDING_LABEL, None).map_err(io::Error::other)
            }
        }
    }

    /// Writes head and body as if they were one block, and sends them off.
    pub(super) fn write_both(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let mut slices = [IoSlice::new(head), IoSlice::new(body)];
        let mut raw = Raw::new(&self.socket, self.deadline);
        match &mut self.tls {
            None => write_all_vectored(&mut raw, &mut slices),
            Some(tls) => {
                write_all_vectored(&mut tls.session.writer(), &mut slices)?;
                tls.flush(&mut raw)
            }
        }
    }

    /// Reads a message of the handshake, without its length prefix.
    pub(super) fn read_message(&mut self) -> io::Result<Vec<u8>> {
        let mut prefix = [0; 4];
        self.read_exact(&mut prefix)?;
        let length = usize::try_from(u32::from_le_bytes(prefix)).unwrap_or(usize::MAX);
        if length > MAX_HANDSHAKE {
            return Err(invalid(format!("a message of {length} bytes exceeds the limit of {MAX_HANDSHAKE}")));
        }
        let mut message = vec![0; length];
        self.read_exact(&mut message)?;
        Ok(message)
    }

    /// Fills `buffer`, and takes along what comes behind it as far as `ahead` has room: returns how many bytes of that there were. Tells
    /// `arrived` how many bytes have come into `buffer`, as they come.
    pub(super) fn read_along(&mut self, buffer: &mut [u8], ahead: &mut [u8], arrived: &dyn Fn(usize)) -> io::Result<usize> {
        let length = buffer.len();
        let mut filled = 0;
        while filled < length {
            let rest = &mut buffer[filled..];
            let due = rest.len();
            match if self.tls.is_some() { self.read(rest) } else { self.read_both(rest, ahead) } {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    arrived(read.min(due));
                    filled += read;
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(filled - length)
    }

    /// Reads once, into `ahead` what `buffer` has no room for.
    fn read_both(&mut self, buffer: &mut [u8], ahead: &mut [u8]) -> io::Result<usize> {
        let mut raw = Raw::new(&self.socket, self.deadline);
        raw.gather(self.gathering.as_ref(), buffer.len())?;
        raw.read_vectored(&mut [IoSliceMut::new(buffer), IoSliceMut::new(ahead)])
    }

    /// Whether the system sends by BBR on it.
    pub(super) fn sends_by_bbr(&self) -> bool {
        socket::sends_by_bbr(&self.socket)
    }

    /// Reads what a connection begins with.
    pub(super) fn read_role(&mut self) -> io::Result<(Role, [u8; PREAMBLE_LENGTH])> {
        let mut preamble = [0; PREAMBLE_LENGTH];
        self.read_exact(&mut preamble)?;
        let role = Role::from_preamble(preamble).map_err(|refused| invalid(refused.to_string()))?;
        Ok((role, preamble))
    }

    /// Tells the peer that nothing more will be sent; what was sent still arrives.
    pub(super) fn end_writing(&mut self) -> io::Result<()> {
        let mut raw = Raw::new(&self.socket, self.deadline);
        if let Some(tls) = &mut self.tls {
            tls.session.send_close_notify();
            tls.flush(&mut raw)?;
        }
        self.socket.shutdown(Shutdown::Write)
    }

    /// Ends a connection whose last words the peer should still read: waits, at most so long, until the peer hangs up.
    /// Closing over unread bytes would make the kernel send a reset, and that destroys what the peer has not read yet.
    pub(super) fn linger(mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.deadline = Some(self.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
        let mut raw = Raw::new(&self.socket, self.deadline);
        let mut discarded = [0; 4096];
        while matches!(raw.read(&mut discarded), Ok(read) if read > 0) {}
    }

    /// The parts for a user with more than one thread: the socket, the TLS session, and ciphertext that is already here.
    pub(super) fn into_parts(self) -> (Arc<TcpStream>, Option<(rustls::Connection, Vec<u8>)>) {
        (self.socket, self.tls.map(|tls| (tls.session, tls.input.memory[tls.input.begin..tls.input.end].to_vec())))
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self { socket, tls, deadline, gathering } = self;
        let mut raw = Raw::new(socket, *deadline);
        let Some(tls) = tls else {
            raw.gather(gathering.as_ref(), buffer.len())?;
            return raw.read(buffer);
        };
        loop {
            match tls.session.reader().read(buffer) {
                Err(wait) if wait.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if tls.input.is_empty() {
                // Ciphertext is longer than its plaintext, but a part of it may be inside TLS already.
                raw.gather(gathering.as_ref(), buffer.len().saturating_sub(RECORD))?;
            }
            tls.pull(&mut raw)?;
        }
    }
}

impl Input {
    fn is_empty(&self) -> bool {
        self.begin == self.end
    }
}

impl Tls {
    /// Takes more ciphertext; plaintext may or may not have come of it.
    fn pull(&mut self, raw: &mut Raw<'_>) -> io::Result<()> {
        let input = &mut self.input;
        if input.is_empty() {
            (input.begin, input.end) = (0, raw.read(&mut input.memory)?);
            if input.end == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let mut rest = &input.memory[input.begin..input.end];
        input.begin += self.session.read_tls(&mut rest)?;
        if let Err(cause) = self.session.process_new_packets() {
            // The alert is a courtesy to the peer; the error that matters is already known.
            let _ = self.flush(raw);
            return Err(io::Error::new(io::ErrorKind::InvalidData, cause));
        }
        Ok(())
    }

    fn flush(&mut self, raw: &mut Raw<'_>) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(raw)?;
        }
        Ok(())
    }
}

fn write_all_vectored(to: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match to.write_vectored(slices)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => IoSlice::advance_slices(&mut slices, written),
        }
    }
    Ok(())
}

/// Waits for the first byte of a connection, without taking it, and says whether it begins a TLS handshake.
pub(super) fn begins_tls(socket: &TcpStream, deadline: Instant) -> io::Result<bool> {
    let first = Raw::new(socket, Some(deadline)).peek()?;
    first.map(is_tls).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::TcpListener;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_gathering_reader_gets_all_that_is_due_however_it_comes() {
        let parts = [60_000usize, 40_000];
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        writer.set_nodelay(true).unwrap();
        let socket = Arc::new(listener.accept().unwrap().0);
        let mut connection = Connection::plain(socket, Instant::now() + Duration::from_secs(10));
        connection.lift_deadline().unwrap();
        connection.gather();
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = vec![0; parts.iter().sum()];
            let told = Cell::new(0);
            let read = connection.read_along(&mut bytes, &mut [], &|arrived| told.set(told.get() + arrived));
            done.send(read.map(|ahead| (bytes, ahead, told.get()))).unwrap();
        });
        for (fill, part) in (1..).zip(parts) {
            writer.write_all(&vec![fill; part]).unwrap();
            // The reader is to find each part alone.
            std::thread::sleep(Duration::from_millis(5));
        }
        let (bytes, ahead, told) =
            ended.recv_timeout(Duration::from_secs(10)).expect("the reader waits for what never comes").unwrap();
        assert_eq!((ahead, told), (0, bytes.len()));
        assert_eq!(bytes, (1u8..).zip(parts).flat_map(|(fill, part)| vec![fill; part]).collect::<Vec<u8>>());
    }

    #[test]
    fn bytes_of_a_slow_stream_are_told_before_all_are_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Arc::new(listener.accept().unwrap().0);
        let mut connection = Connection::plain(socket, Instant::now() + Duration::from_secs(10));
        connection.lift_deadline().unwrap();
        connection.gather();
        let (tell, told) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut bytes = vec![0; 256 << 10];
            for _ in 0..2 {
                connection.read_along(&mut bytes, &mut [], &|arrived| tell.send(arrived).unwrap()).unwrap();
            }
        });
        let mut early = Vec::new();
        for _ in 0..2 {
            for _ in 0..16 {
                writer.write_all(&[7; 16 << 10]).unwrap();
                std::thread::sleep(Duration::from_millis(15));
            }
            early.push(told.try_iter().filter(|arrived| *arrived < 256 << 10).count());
        }
        reader.join().unwrap();
        assert!(early.iter().all(|parts| *parts > 1), "told of as a whole, though it took a quarter of a second: {early:?}");
    }
}
