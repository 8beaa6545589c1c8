//! Replies of the SFTP protocol, version 3: read from any stream, and what they mean.

use std::io::{self, Read};

use super::request::VERSION;
use crate::error::{Error, ErrorKind, Result};

/// No server sends longer packets; more is text of a login shell, or an attack on memory.
const MOST_BYTES: usize = 1 << 20;

const VERSION_REPLY: u8 = 2;
const STATUS: u8 = 101;
const HANDLE: u8 = 102;
const DATA: u8 = 103;
const NAME: u8 = 104;
const ATTRS: u8 = 105;
const EXTENDED_REPLY: u8 = 201;

pub(super) const HAS_SIZE: u32 = 1;
const HAS_OWNER: u32 = 2;
pub(super) const HAS_MODE: u32 = 4;
pub(super) const HAS_TIMES: u32 = 8;
const HAS_MORE: u32 = 1 << 31;

const OK: u32 = 0;
const END: u32 = 1;

/// What servers of later versions of the protocol answer, or those that do not mind which one is spoken.
const CODES: [(u32, io::ErrorKind); 11] = [
    (2, io::ErrorKind::NotFound),
    (3, io::ErrorKind::PermissionDenied),
    (5, io::ErrorKind::InvalidInput),
    (6, io::ErrorKind::ConnectionReset),
    (7, io::ErrorKind::ConnectionReset),
    (11, io::ErrorKind::AlreadyExists),
    (12, io::ErrorKind::ReadOnlyFilesystem),
    (14, io::ErrorKind::StorageFull),
    (15, io::ErrorKind::QuotaExceeded),
    (18, io::ErrorKind::DirectoryNotEmpty),
    (19, io::ErrorKind::NotADirectory),
];

/// The code of a request that a server does not know.
const UNKNOWN: u32 = 8;

/// What a plain failure was, of servers that tell it by its text.
const TEXTS: [(&str, io::ErrorKind); 6] = [
    ("no space left", io::ErrorKind::StorageFull),
    ("quota exceeded", io::ErrorKind::QuotaExceeded),
    ("file exists", io::ErrorKind::AlreadyExists),
    ("not empty", io::ErrorKind::DirectoryNotEmpty),
    ("not a directory", io::ErrorKind::NotADirectory),
    ("is a directory", io::ErrorKind::IsADirectory),
];

/// The server's answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Status(Status),
    Handle(Vec<u8>),
    Data(Vec<u8>),
    Names(Vec<Name>),
    Attributes(Attributes),
    Extended(Vec<u8>),
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: u32,
    pub(super) message: String,
}

/// A name in a directory, or what a link points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) name: Vec<u8>,
    pub(super) attributes: Attributes,
}

/// What is known of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) size: Option<u64>,
    /// Type and permission bits.
    pub(super) mode: Option<u32>,
    /// Modification time in seconds since 1970; the access time is set to the same.
    pub(super) modified: Option<u32>,
}

/// A packet of the server, with the number of the request that it answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) number: u32,
    pub(super) reply: Reply,
}

impl Reply {
    /// Whether it says that a request was carried out.
    pub(super) fn is_success(&self) -> bool {
        matches!(self, Self::Status(Status { code: OK, .. }))
    }

    /// For a request that is answered with a status alone; `what` is what could not be done.
    pub(super) fn done(self, what: impl FnOnce() -> String) -> Result<()> {
        match self {
            Self::Status(Status { code: OK, .. }) => Ok(()),
            other => Err(other.error(what())),
        }
    }

    /// For a request that is answered with a handle.
    pub(super) fn handle(self, what: impl FnOnce() -> String) -> Result<Vec<u8>> {
        match self {
            Self::Handle(handle) => Ok(handle),
            other => Err(other.error(what())),
        }
    }

    /// For a request that is answered with a description.
    pub(super) fn attributes(self, what: impl FnOnce() -> String) -> Result<Attributes> {
        match self {
            Self::Attributes(attributes) => Ok(attributes),
            other => Err(other.error(what())),
        }
    }

    /// For a request that is answered with bytes; `None` at the end of the file.
    pub(super) fn data(self, what: impl FnOnce() -> String) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Data(data) => Ok(Some(data)),
            Self::Status(Status { code: END, .. }) => Ok(None),
            other => Err(other.error(what())),
        }
    }

    /// For a request that is answered with names; `None` at the end of the directory.
    pub(super) fn names(self, what: impl FnOnce() -> String) -> Result<Option<Vec<Name>>> {
        match self {
            Self::Names(names) => Ok(Some(names)),
            Self::Status(Status { code: END, .. }) => Ok(None),
            other => Err(other.error(what())),
        }
    }

    fn error(self, what: String) -> Error {
        match self {
            Self::Status(status) => status.error(what),
            _ => Error::new(ErrorKind::Protocol, what).with_cause("the server's answer is of another kind than the question"),
        }
    }
}

impl Status {
    /// The error that it stands for. Servers of version 3 call most failures just that; those are of kind `Io`.
    fn error(&self, what: String) -> Error {
        let text = self.message.to_lowercase();
        let told = || TEXTS.iter().find(|(told, _)| text.contains(told)).map(|(_, kind)| *kind);
        let kind = CODES.iter().find(|(code, _)| *code == self.code).map(|(_, kind)| *kind).or_else(told);
        let cause = match self.message.as_str() {
            "" => format!("the server answers with the code {}", self.code),
            message => format!("the server says: {}", message.escape_debug()),
        };
        if self.code == UNKNOWN {
            return Error::new(ErrorKind::Unsupported, what).with_cause(cause);
        }
        Error::io(what, &io::Error::new(kind.unwrap_or(io::ErrorKind::Other), cause))
    }
}

/// Reads the server's first packet: the names of its extensions.
pub(super) fn read_hello(stream: &mut impl Read) -> io::Result<Vec<Vec<u8>>> {
    let (length, kind) = read_head(stream)?;
    let body = read_bytes(stream, length)?;
    let mut fields = Fields(&body);
    if kind != VERSION_REPLY || fields.number()? != VERSION {
        return Err(broken("it does not speak version 3 of the protocol"));
    }
    let mut names = Vec::new();
    while !fields.0.is_empty() {
        names.push(fields.text()?.to_vec());
        fields.text()?;
    }
    Ok(names)
}

/// Reads one packet; an end of the stream, also between two packets, is an error of kind `UnexpectedEof`.
pub(super) fn read_packet(stream: &mut impl Read) -> io::Result<Packet> {
    let (length, kind) = read_head(stream)?;
    let length = length.checked_sub(4).ok_or_else(|| broken("a packet has no number"))?;
    let number = read_number(stream)?;
    if kind == DATA {
        // The bulk goes from the pipe to where it is waited for without another copy.
        let length = length.checked_sub(4).ok_or_else(|| broken("a packet of data has no length"))?;
        let size = read_number(stream)? as usize;
        let mut data = read_bytes(stream, length)?;
        if size > data.len() {
            return Err(broken("a packet of data is too short"));
        }
        data.truncate(size);
        return Ok(Packet { number, reply: Reply::Data(data) });
    }
    let body = read_bytes(stream, length)?;
    Ok(Packet { number, reply: reply(kind, Fields(&body))? })
}

fn reply(kind: u8, mut fields: Fields<'_>) -> io::Result<Reply> {
    Ok(match kind {
        STATUS => {
            let code = fields.number()?;
            // Old servers leave the text out.
            let message = fields.text().unwrap_or_default();
            Reply::Status(Status { code, message: String::from_utf8_lossy(message).into_owned() })
        }
        HANDLE => Reply::Handle(fields.text()?.to_vec()),
        NAME => {
            let count = fields.number()?;
            let mut names = Vec::new();
            for _ in 0..count {
                let name = fields.text()?.to_vec();
                let long = fields.text()?;
                names.push(Name { name, attributes: fields.attributes()?.with_kind(long.first().copied()) });
            }
            Reply::Names(names)
        }
        ATTRS => Reply::Attributes(fields.attributes()?),
        EXTENDED_REPLY => Reply::Extended(fields.0.to_vec()),
        _ => return Err(broken(&format!("a packet is of the unknown kind {kind}"))),
    })
}

impl Attributes {
    /// Completes permission bits without a type from the first letter of what `ls -l` would print.
    fn with_kind(mut self, letter: Option<u8>) -> Self {
        let kind = match letter {
            Some(b'd') => 0o040_000,
            Some(b'l') => 0o120_000,
            Some(b'-') => 0o100_000,
            _ => 0,
        };
        self.mode = self.mode.map(|mode| if mode & 0o170_000 == 0 { mode | kind } else { mode });
        self
    }
}

/// Numbers of 64 bits that an extended reply holds, such as limits.
pub(super) fn longs(body: &[u8]) -> Vec<u64> {
    let mut fields = Fields(body);
    std::iter::from_fn(|| fields.long().ok()).collect()
}

/// What is left of a packet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(|| broken("a packet is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> io::Result<u32> {
        Ok(self.take(4)?.iter().fold(0, |value, byte| (value << 8) | u32::from(*byte)))
    }

    fn long(&mut self) -> io::Result<u64> {
        Ok(self.take(8)?.iter().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    }

    fn text(&mut self) -> io::Result<&'a [u8]> {
        let length = self.number()? as usize;
        self.take(length)
    }

    fn attributes(&mut self) -> io::Result<Attributes> {
        let flags = self.number()?;
        let size = (flags & HAS_SIZE != 0).then(|| self.long()).transpose()?;
        if flags & HAS_OWNER != 0 {
            self.long()?;
        }
        let mode = (flags & HAS_MODE != 0).then(|| self.number()).transpose()?;
        let times = (flags & HAS_TIMES != 0).then(|| self.long()).transpose()?;
        if flags & HAS_MORE != 0 {
            for _ in 0..self.number()? {
                self.text()?;
                self.text()?;
            }
        }
        // The low half; the high one is the access time.
        let modified = times.map(|times| u32::try_from(times & u64::from(u32::MAX)).unwrap_or(0));
        Ok(Attributes { size, mode, modified })
    }
}

/// Length of what follows, and kind.
fn read_head(stream: &mut impl Read) -> io::Result<(usize, u8)> {
    let length = read_number(stream)? as usize;
    if length == 0 || length > MOST_BYTES {
        return Err(broken("what it sends are no packets: perhaps a login script prints text"));
    }
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    Ok((length - 1, kind[0]))
}

fn read_number(stream: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

fn read_bytes(stream: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    stream.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 1).unwrap().to_be_bytes();
        [&length[..], &[kind], body].concat()
    }

    fn status(code: u32, message: &str) -> Error {
        Reply::Status(Status { code, message: message.to_owned() }).done(|| "could not".to_owned()).unwrap_err()
    }

    #[test]
    fn a_packet_of_data_holds_what_it_says() {
        let bytes = packet(DATA, b"\0\0\0\x05\0\0\0\x02ab");
        assert_eq!(read_packet(&mut &bytes[..]).unwrap(), Packet { number: 5, reply: Reply::Data(b"ab".to_vec()) });
        let short = packet(DATA, b"\0\0\0\x05\0\0\0\x03ab");
        assert!(read_packet(&mut &short[..]).is_err());
        assert_eq!(read_packet(&mut &bytes[..9]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_name_without_a_type_has_that_of_its_long_form() {
        let body = b"\0\0\0\x01\0\0\0\x01\0\0\0\x02\xffn\0\0\0\x04drwx\0\0\0\x0c\0\0\x01\xed\0\0\0\x01\0\0\0\x02";
        let bytes = packet(NAME, body);
        let Reply::Names(names) = read_packet(&mut &bytes[..]).unwrap().reply else { panic!() };
        let attributes = Attributes { size: None, mode: Some(0o040_755), modified: Some(2) };
        assert_eq!(names, [Name { name: b"\xffn".to_vec(), attributes }]);
    }

    #[test]
    fn a_greeting_names_extensions() {
        let bytes = packet(VERSION_REPLY, b"\0\0\0\x03\0\0\0\x01a\0\0\0\x011");
        assert_eq!(read_hello(&mut &bytes[..]).unwrap(), [b"a".to_vec()]);
        assert!(read_hello(&mut &b"Welcome to this host"[..]).is_err());
    }

    #[test]
    fn failures_are_told_apart_by_code_and_by_text() {
        assert_eq!(status(2, "No such file").kind(), ErrorKind::NotFound);
        assert_eq!(status(4, "Failure").kind(), ErrorKind::Io);
        assert_eq!(status(4, "No space left on device").kind(), ErrorKind::NoSpace);
        assert_eq!(status(4, "mkdir: File exists").kind(), ErrorKind::AlreadyExists);
        assert_eq!(status(8, "").kind(), ErrorKind::Unsupported);
        assert_eq!(status(4, "").cause(), Some("the server answers with the code 4"));
    }

    #[test]
    fn any_bytes_are_a_packet_or_an_error() {
        let whole = packet(NAME, b"\0\0\0\x01\xff\xff\xff\xff\0\0\0\x02xy");
        for end in 0..=whole.len() {
            assert!(read_packet(&mut &whole[..end]).is_err());
        }
        assert!(read_packet(&mut &[0xff; 64][..]).is_err());
    }
}
