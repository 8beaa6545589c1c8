//! Wire protocol version 1, as bytes: no sockets, no clock, no runtime. `docs/protocol.md` is its specification.

pub mod frame;
pub mod handshake;
pub mod message;

/// The version this code speaks; a peer of another major version is refused.
pub const VERSION: Version = Version { major: 1, minor: 0 };

/// The registered place of the protocol in TLS (ALPN).
pub const ALPN: &[u8] = b"edt/1";

/// A protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct Version {
    /// Changes when older peers cannot go on.
    #[n(0)]
    pub major: u16,
    /// Changes when something optional is added.
    #[n(1)]
    pub minor: u16,
}

/// Names one attempt-spanning transfer: the same source and destination give the same identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransferId(pub [u8; 16]);

impl TransferId {
    /// The identifier as 32 hexadecimal digits, which is also the key of its journal.
    pub fn key(&self) -> String {
        hex(&self.0)
    }
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

impl<C> minicbor::Encode<C> for TransferId {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> minicbor::Decode<'b, C> for TransferId {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let bytes = d.bytes()?;
        bytes.try_into().map(Self).map_err(|_| minicbor::decode::Error::message("a transfer identifier has 16 bytes"))
    }
}
