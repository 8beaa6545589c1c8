//! The first 64 bytes of a stream: which session it belongs to, and the proof that it does.

use super::proof::{SessionId, SessionKey};
use super::{PREAMBLE_LENGTH, Role};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of a stream's hello, its preamble included.
pub const STREAM_HELLO_LENGTH: usize = 64;

const SIGNED: usize = 32;

/// Which way frames go on a stream, seen from the side that dialled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum StreamDirection {
    /// The side that dialled sends.
    Send = 1,
    /// The side that dialled receives.
    Receive = 2,
}

/// What a stream says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHello {
    /// The session it belongs to.
    pub session: SessionId,
    /// Its number, used once in a session.
    pub number: u16,
    /// Which way its frames go.
    pub direction: StreamDirection,
}

impl StreamHello {
    /// The first bytes of the stream; `binding` is that of the stream's own TLS connection, empty on a plain one.
    pub fn encode(&self, key: &SessionKey, binding: &[u8]) -> [u8; STREAM_HELLO_LENGTH] {
        let mut bytes = [0; STREAM_HELLO_LENGTH];
        bytes[..PREAMBLE_LENGTH].copy_from_slice(&Role::Stream.preamble());
        bytes[8..24].copy_from_slice(&self.session.0);
        bytes[24..26].copy_from_slice(&self.number.to_le_bytes());
        bytes[26] = self.direction as u8;
        let proof = key.sign(&[&bytes[..SIGNED], binding].concat());
        bytes[SIGNED..].copy_from_slice(&proof);
        bytes
    }
}

/// A stream's hello whose proof was not checked yet; it only says by which session's key to check it.
pub struct UnverifiedStreamHello {
    bytes: [u8; STREAM_HELLO_LENGTH],
    hello: StreamHello,
}

impl UnverifiedStreamHello {
    /// Reads the first bytes of a stream, its preamble included.
    pub fn parse(bytes: &[u8; STREAM_HELLO_LENGTH]) -> Result<Self> {
        let direction = match bytes[26] {
            1 => StreamDirection::Send,
            2 => StreamDirection::Receive,
            _ => return Err(malformed("its direction is unknown")),
        };
        if bytes[..PREAMBLE_LENGTH] != Role::Stream.preamble() || bytes[27..SIGNED] != [0; 5] {
            return Err(malformed("its fixed bytes are wrong"));
        }
        let mut session = [0; 16];
        session.copy_from_slice(&bytes[8..24]);
        let number = u16::from_le_bytes([bytes[24], bytes[25]]);
        Ok(Self { bytes: *bytes, hello: StreamHello { session: SessionId(session), number, direction } })
    }

    /// The session it claims.
    pub fn session(&self) -> SessionId {
        self.hello.session
    }

    /// Checks the proof, in constant time, with the key of the session it claims.
    pub fn verify(self, key: &SessionKey, binding: &[u8]) -> Result<StreamHello> {
        let (signed, proof) = self.bytes.split_at(SIGNED);
        if key.verify(&[signed, binding].concat(), proof) {
            return Ok(self.hello);
        }
        Err(Error::new(
            ErrorKind::Refused,
            format!("could not let stream `{}` into session `{}`", self.hello.number, self.hello.session),
        )
        .with_cause("its proof of the session key is wrong")
        .with_hint("check that nothing between the two sides ends or alters their connections"))
    }
}

fn malformed(cause: &str) -> Error {
    Error::new(ErrorKind::Protocol, "could not understand the hello of a stream")
        .with_cause(cause)
        .with_hint("check that both sides run the same version of edt")
}
