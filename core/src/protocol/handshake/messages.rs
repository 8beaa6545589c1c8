//! The messages of the handshake.

use minicbor::{Decode, Encode};

use crate::error::Result;
use crate::protocol::Version;
use crate::protocol::message::{Failed, decode_whole};

/// Authentication by a shared secret. 2 to 4 are kept for tokens of identity providers, mutual TLS and ssh.
pub const METHOD_SECRET: u8 = 1;

/// Everything that is said in a handshake. The form of [`Hello::version`] and of `Refuse` is the same in every version of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Handshake {
    /// Client: the first message.
    #[n(0)]
    Hello(#[n(0)] Hello),
    /// Server: the answer to a hello.
    #[n(1)]
    Welcome(#[n(0)] Welcome),
    /// Server, instead of a welcome: why the client may not come in.
    #[n(2)]
    Refuse(#[n(0)] Failed),
    /// Client, once the server has proved itself: who it is.
    #[n(3)]
    Authenticate(#[n(0)] Authenticate),
    /// Server, right behind its welcome: that it knows the secret.
    #[n(4)]
    Accepted(#[n(0)] Accepted),
}

/// Opens the handshake.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Hello {
    /// What the client speaks.
    #[n(0)]
    pub version: Version,
    /// Optional features, one bit each.
    #[n(1)]
    pub capabilities: u64,
    /// Fresh randomness.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub nonce: [u8; 32],
    /// The client's name and version, for people.
    #[n(3)]
    pub software: String,
}

/// Answers a hello.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Welcome {
    /// What the server speaks.
    #[n(0)]
    pub version: Version,
    /// Optional features, one bit each; those count that both sides have.
    #[n(1)]
    pub capabilities: u64,
    /// Fresh randomness.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub nonce: [u8; 32],
    /// Names the session in the hello of its streams.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub session: [u8; 16],
    /// How a client may prove itself, see [`METHOD_SECRET`]; numbers that a client does not know are no error.
    #[n(4)]
    pub methods: Vec<u8>,
    /// The server's name and version, for people.
    #[n(5)]
    pub software: String,
}

/// Proves the client.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Authenticate {
    /// One of [`Welcome::methods`].
    #[n(0)]
    pub method: u8,
    /// HMAC-SHA256 under the secret.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub proof: [u8; 32],
}

/// Proves the server.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Accepted {
    /// HMAC-SHA256 under the secret.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub proof: [u8; 32],
    /// What this client may use.
    #[n(1)]
    pub limits: Limits,
}

/// What a server allows a client, and has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Limits {
    /// Streams of the session at one time.
    #[n(0)]
    pub max_streams: u16,
    /// Bytes that the server's half may hold in buffers.
    #[n(1)]
    pub buffer: u64,
    /// Whether nothing may be changed below the server's root.
    #[n(2)]
    pub read_only: bool,
    /// Whether no unfinished upload lies below the server's root: whatever this client uploads, nothing of it is there to resume.
    #[cbor(n(3), skip_if = "std::ops::Not::not")]
    pub fresh: bool,
    /// Whether the server's system sends by BBR, unless a client asks for another congestion control.
    #[cbor(n(4), skip_if = "std::ops::Not::not")]
    pub bbr: bool,
}

/// The version in a hello, whatever else a hello of that version holds.
pub(super) fn hello_version(message: &[u8]) -> Result<Version> {
    #[derive(Decode)]
    enum AnyHello {
        #[n(0)]
        Hello(#[n(0)] HelloVersion),
    }
    #[derive(Decode)]
    #[cbor(map)]
    struct HelloVersion {
        #[n(0)]
        version: Version,
    }
    let AnyHello::Hello(hello) = decode_whole(message)?;
    Ok(hello.version)
}
