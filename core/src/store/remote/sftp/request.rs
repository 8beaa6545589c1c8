//! Requests of the SFTP protocol, version 3, with extensions of OpenSSH: packets in memory, without any connection.
//!
//! Names are bytes here: Unix names need not be UTF-8.

use super::reply::{Attributes, HAS_MODE, HAS_SIZE, HAS_TIMES};

/// The version that is spoken: `draft-ietf-secsh-filexfer-02`, the one that all servers have.
pub(super) const VERSION: u32 = 3;

const INIT: u8 = 1;
const OPEN: u8 = 3;
const CLOSE: u8 = 4;
const READ: u8 = 5;
const WRITE: u8 = 6;
const LSTAT: u8 = 7;
const FSTAT: u8 = 8;
const SETSTAT: u8 = 9;
const OPENDIR: u8 = 11;
const READDIR: u8 = 12;
const REMOVE: u8 = 13;
const MKDIR: u8 = 14;
const RMDIR: u8 = 15;
const RENAME: u8 = 18;
const READLINK: u8 = 19;
const SYMLINK: u8 = 20;
const EXTENDED: u8 = 200;

const OPEN_READ: u32 = 1;
const OPEN_WRITE: u32 = 2;
const OPEN_CREATE: u32 = 8;
const OPEN_TRUNCATE: u32 = 16;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// To read.
    Read,
    /// To write and to read back; made if it is missing.
    Write,
    /// As `Write`, and emptied.
    Empty,
    /// As `Write`, and must be there.
    Join,
}

/// A request, complete but for its number; `payload` follows what is packed.
pub(super) struct Request<'a> {
    packet: Vec<u8>,
    payload: &'a [u8],
}

impl<'a> Request<'a> {
    fn new(kind: u8) -> Self {
        // Length and number are filled in when it is sent.
        Self { packet: vec![0, 0, 0, 0, kind, 0, 0, 0, 0], payload: &[] }
    }

    fn of(kind: u8, text: &[u8]) -> Self {
        Self::new(kind).text(text)
    }

    pub(super) fn open(path: &[u8], access: Access) -> Self {
        let flags = match access {
            Access::Read => OPEN_READ,
            Access::Join => OPEN_READ | OPEN_WRITE,
            Access::Write => OPEN_READ | OPEN_WRITE | OPEN_CREATE,
            Access::Empty => OPEN_READ | OPEN_WRITE | OPEN_CREATE | OPEN_TRUNCATE,
        };
        Self::of(OPEN, path).number(flags).attributes(&Attributes::default())
    }

    pub(super) fn close(handle: &[u8]) -> Self {
        Self::of(CLOSE, handle)
    }

    pub(super) fn read(handle: &[u8], offset: u64, length: u32) -> Self {
        Self::of(READ, handle).long(offset).number(length)
    }

    pub(super) fn write(handle: &[u8], offset: u64, payload: &'a [u8]) -> Self {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        Self { payload, ..Self::of(WRITE, handle).long(offset).number(length) }
    }

    /// Describes an entry; does not follow a link.
    pub(super) fn describe(path: &[u8]) -> Self {
        Self::of(LSTAT, path)
    }

    pub(super) fn describe_open(handle: &[u8]) -> Self {
        Self::of(FSTAT, handle)
    }

    pub(super) fn set(path: &[u8], attributes: &Attributes) -> Self {
        Self::of(SETSTAT, path).attributes(attributes)
    }

    pub(super) fn open_directory(path: &[u8]) -> Self {
        Self::of(OPENDIR, path)
    }

    pub(super) fn read_directory(handle: &[u8]) -> Self {
        Self::of(READDIR, handle)
    }

    pub(super) fn remove(path: &[u8]) -> Self {
        Self::of(REMOVE, path)
    }

    pub(super) fn make_directory(path: &[u8]) -> Self {
        Self::of(MKDIR, path).attributes(&Attributes::default())
    }

    pub(super) fn remove_directory(path: &[u8]) -> Self {
        Self::of(RMDIR, path)
    }

    pub(super) fn rename(from: &[u8], to: &[u8]) -> Self {
        Self::of(RENAME, from).text(to)
    }

    /// `rename(2)`: replaces what stands there.
    pub(super) fn replace(from: &[u8], to: &[u8]) -> Self {
        Self::of(EXTENDED, b"posix-rename@openssh.com").text(from).text(to)
    }

    /// `link(2)`: a second name for a file, which must be free.
    pub(super) fn link(from: &[u8], to: &[u8]) -> Self {
        Self::of(EXTENDED, b"hardlink@openssh.com").text(from).text(to)
    }

    pub(super) fn read_link(path: &[u8]) -> Self {
        Self::of(READLINK, path)
    }

    /// In the order of OpenSSH, target first, which all servers follow; the draft has it the other way round.
    pub(super) fn make_link(path: &[u8], target: &[u8]) -> Self {
        Self::of(SYMLINK, target).text(path)
    }

    pub(super) fn limits() -> Self {
        Self::of(EXTENDED, b"limits@openssh.com")
    }

    /// Asks for the free space of a file system.
    pub(super) fn space(path: &[u8]) -> Self {
        Self::of(EXTENDED, b"statvfs@openssh.com").text(path)
    }

    fn number(mut self, value: u32) -> Self {
        self.packet.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn long(mut self, value: u64) -> Self {
        self.packet.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn text(self, bytes: &[u8]) -> Self {
        let mut request = self.number(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        request.packet.extend_from_slice(bytes);
        request
    }

    fn attributes(self, attributes: &Attributes) -> Self {
        let flag = |known: bool, flag| if known { flag } else { 0 };
        let flags = flag(attributes.size.is_some(), HAS_SIZE)
            | flag(attributes.mode.is_some(), HAS_MODE)
            | flag(attributes.modified.is_some(), HAS_TIMES);
        let mut request = self.number(flags);
        if let Some(size) = attributes.size {
            request = request.long(size);
        }
        if let Some(mode) = attributes.mode {
            request = request.number(mode);
        }
        match attributes.modified {
            Some(modified) => request.number(modified).number(modified),
            None => request,
        }
    }

    /// Bytes of a file that it carries.
    pub(super) fn weight(&self) -> u64 {
        self.payload.len() as u64
    }

    /// The packet under a number, as two pieces that follow one another.
    pub(super) fn seal(&mut self, number: u32) -> [&[u8]; 2] {
        let length = u32::try_from(self.packet.len() + self.payload.len() - 4).unwrap_or(u32::MAX);
        self.packet[..4].copy_from_slice(&length.to_be_bytes());
        self.packet[5..9].copy_from_slice(&number.to_be_bytes());
        [&self.packet, self.payload]
    }
}

/// The client's first packet.
pub(super) fn hello() -> [u8; 9] {
    let mut packet = [0, 0, 0, 5, INIT, 0, 0, 0, 0];
    packet[5..].copy_from_slice(&VERSION.to_be_bytes());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_write_is_two_pieces_under_one_length() {
        let mut request = Request::write(b"ab", 0x0102, b"xyz");
        assert_eq!(request.weight(), 3);
        let [head, payload] = request.seal(7);
        let expected = [0, 0, 0, 26, WRITE, 0, 0, 0, 7, 0, 0, 0, 2, b'a', b'b', 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3];
        assert_eq!((head, payload), (&expected[..], &b"xyz"[..]));
    }

    #[test]
    fn what_is_set_follows_its_flags() {
        let attributes = Attributes { size: None, mode: Some(0o644), modified: Some(9) };
        let mut request = Request::set(b"f", &attributes);
        let [head, _] = request.seal(0);
        assert_eq!(head[14..], [0, 0, 0, 12, 0, 0, 1, 0o244, 0, 0, 0, 9, 0, 0, 0, 9]);
    }

    #[test]
    fn a_link_names_its_target_first() {
        let mut request = Request::make_link(b"link", b"to");
        assert_eq!(request.seal(0)[0][9..], *b"\0\0\0\x02to\0\0\0\x04link");
    }
}
