//! The handshake that opens a session, and the hello that binds a stream to it: one type per state, no sockets.
//!
//! What goes out is complete with its length prefix and is written as it is; what comes in is a message without it, as long as
//! [`read_length`] said. `binding` is what both ends of the same TLS connection know alike ([`BINDING_LABEL`]), empty on a plain one.

mod messages;
mod proof;
mod stream;

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::message::{Failed, bounded_length, decode_whole, with_length};
use crate::protocol::{VERSION, Version};

pub use messages::{Accepted, Authenticate, Handshake, Hello, Limits, METHOD_SECRET, Welcome};
pub use proof::{Established, SessionId, SessionKey};
pub use stream::{STREAM_HELLO_LENGTH, StreamDirection, StreamHello, UnverifiedStreamHello};

use proof::{Label, Proofs};

/// The longest message of the handshake.
pub const MAX_HANDSHAKE: usize = 64 << 10;

/// The label of the TLS exporter (RFC 5705, without context) whose [`BINDING_LENGTH`] bytes bind a session to its TLS connection.
pub const BINDING_LABEL: &[u8] = b"EXPORTER-edt1";

/// Bytes of a channel binding.
pub const BINDING_LENGTH: usize = 32;

/// The optional features that this code knows, one bit each; version 1.0 has none.
pub const CAPABILITIES: u64 = 0;

/// The length of what begins every plain connection and, once TLS stands, every encrypted one.
pub const PREAMBLE_LENGTH: usize = 8;

const MAGIC: [u8; 4] = *b"EDT\x01";

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Messages.
    Control,
    /// Frames, one way.
    Stream,
}

impl Role {
    /// The first bytes of a connection of this role.
    pub fn preamble(self) -> [u8; PREAMBLE_LENGTH] {
        let role = match self {
            Self::Control => b'C',
            Self::Stream => b'S',
        };
        [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], role, 0, 0, 0]
    }

    /// The role that the first bytes of a connection name.
    pub fn from_preamble(bytes: [u8; PREAMBLE_LENGTH]) -> Result<Self> {
        [Self::Control, Self::Stream].into_iter().find(|role| role.preamble() == bytes).ok_or_else(|| {
            Error::new(ErrorKind::Protocol, "could not recognise a connection")
                .with_cause("its first bytes are not those of edt")
                .with_hint("check that the peer is an edt server or client of a version that is not much older or newer")
        })
    }
}

/// Whether the first byte of a connection begins a TLS handshake.
pub fn is_tls(first: u8) -> bool {
    first == 0x16
}

/// Reads the length prefix of a message of the handshake; refuses more than [`MAX_HANDSHAKE`].
pub fn read_length(prefix: [u8; 4]) -> Result<usize> {
    bounded_length(prefix, MAX_HANDSHAKE)
}

/// Client: has said hello and waits for the welcome.
pub struct ClientHello {
    hello: Vec<u8>,
}

impl ClientHello {
    /// Makes the first message. `nonce` is fresh randomness; `software` is for people, for example `edt 0.1.0`.
    pub fn new(nonce: [u8; 32], software: &str) -> (Vec<u8>, Self) {
        let hello = Hello { version: VERSION, capabilities: CAPABILITIES, nonce, software: software.to_owned() };
        let bytes = with_length(&Handshake::Hello(hello));
        (bytes.clone(), Self { hello: bytes })
    }

    /// Takes the server's welcome and answers with the proof that this side knows the secret.
    pub fn on_welcome(self, message: &[u8], secret: &[u8], binding: &[u8]) -> Result<(Vec<u8>, AwaitAccepted)> {
        let welcome = match decode_whole(message)? {
            Handshake::Welcome(welcome) => welcome,
            Handshake::Refuse(failed) => return Err(failed.into()),
            _ => return Err(out_of_order("a welcome")),
        };
        check_major(welcome.version, "calling side", "server")?;
        if !welcome.methods.contains(&METHOD_SECRET) {
            return Err(Error::new(ErrorKind::Unsupported, "could not authenticate at the server")
                .with_cause("it does not take a shared secret, and this version knows no other method")
                .with_hint("upgrade edt on the calling side"));
        }
        let proofs = Proofs::new(secret, &self.hello, message, binding);
        let answer = Authenticate { method: METHOD_SECRET, proof: proofs.make(Label::Client) };
        let state = AwaitAccepted {
            proofs,
            session: SessionId(welcome.session),
            version: common(VERSION, welcome.version),
            capabilities: welcome.capabilities & CAPABILITIES,
            peer: welcome.software,
        };
        Ok((with_length(&Handshake::Authenticate(answer)), state))
    }
}

/// Client: has proven itself and waits to be accepted.
pub struct AwaitAccepted {
    proofs: Proofs,
    session: SessionId,
    version: Version,
    capabilities: u64,
    peer: String,
}

impl AwaitAccepted {
    /// Takes the server's answer and checks that the server knows the secret too.
    pub fn on_accepted(self, message: &[u8]) -> Result<Established> {
        let accepted = match decode_whole(message)? {
            Handshake::Accepted(accepted) => accepted,
            Handshake::Refuse(failed) => return Err(failed.into()),
            _ => return Err(out_of_order("an acceptance")),
        };
        if !self.proofs.verify(Label::Server, &accepted.proof) {
            return Err(wrong_secret("could not trust the server", "its proof of the secret is wrong"));
        }
        Ok(Established {
            session: self.session,
            session_key: self.proofs.session_key(),
            limits: accepted.limits,
            version: self.version,
            capabilities: self.capabilities,
            peer: self.peer,
        })
    }
}

/// A handshake that ends here: what went wrong, and what to send to the client before the connection is closed.
#[derive(Debug)]
pub struct Refusal {
    /// What went wrong.
    pub error: Error,
    /// The message for the client.
    pub reply: Vec<u8>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let reply = refuse(&error);
        Self { error, reply }
    }
}

/// The message by which a server turns a client away at any point of the handshake, for example because it is full.
pub fn refuse(error: &Error) -> Vec<u8> {
    with_length(&Handshake::Refuse(Failed::from(error)))
}

/// Server: waits for the hello.
pub struct ServerHandshake;

impl ServerHandshake {
    /// Takes a client's hello and answers with the welcome. `nonce` and `session` are fresh randomness.
    pub fn on_hello(
        message: &[u8],
        nonce: [u8; 32],
        session: SessionId,
        software: &str,
    ) -> Result<(Vec<u8>, AwaitAuthenticate), Refusal> {
        check_major(messages::hello_version(message)?, "server", "calling side")?;
        let Handshake::Hello(hello) = decode_whole(message)? else { return Err(out_of_order("a hello").into()) };
        let welcome = Welcome {
            version: VERSION,
            capabilities: CAPABILITIES,
            nonce,
            session: session.0,
            methods: vec![METHOD_SECRET],
            software: software.to_owned(),
        };
        let reply = with_length(&Handshake::Welcome(welcome));
        let state = AwaitAuthenticate {
            hello: prefixed(message),
            welcome: reply.clone(),
            session,
            version: common(VERSION, hello.version),
            capabilities: hello.capabilities & CAPABILITIES,
            peer: hello.software,
        };
        Ok((reply, state))
    }
}

/// Server: has welcomed a client and waits for its proof.
pub struct AwaitAuthenticate {
    hello: Vec<u8>,
    welcome: Vec<u8>,
    session: SessionId,
    version: Version,
    capabilities: u64,
    peer: String,
}

impl AwaitAuthenticate {
    /// Takes the client's proof and answers with the server's own.
    pub fn on_authenticate(
        self,
        message: &[u8],
        secret: &[u8],
        binding: &[u8],
        limits: Limits,
    ) -> Result<(Vec<u8>, Established), Refusal> {
        let Handshake::Authenticate(answer) = decode_whole(message)? else { return Err(out_of_order("a proof").into()) };
        let proofs = Proofs::new(secret, &self.hello, &self.welcome[4..], binding);
        if answer.method != METHOD_SECRET || !proofs.verify(Label::Client, &answer.proof) {
            return Err(wrong_secret("could not let the caller in", "its proof of the secret is wrong").into());
        }
        let reply = with_length(&Handshake::Accepted(Accepted { proof: proofs.make(Label::Server), limits }));
        let established = Established {
            session: self.session,
            session_key: proofs.session_key(),
            limits,
            version: self.version,
            capabilities: self.capabilities,
            peer: self.peer,
        };
        Ok((reply, established))
    }
}

/// The message with its length before it, as it was on the wire.
fn prefixed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes(), message].concat()
}

fn common(ours: Version, theirs: Version) -> Version {
    Version { major: ours.major, minor: ours.minor.min(theirs.minor) }
}

fn check_major(peer: Version, here: &str, there: &str) -> Result<()> {
    if peer.major == VERSION.major {
        return Ok(());
    }
    let older = if peer.major < VERSION.major { there } else { here };
    Err(Error::new(ErrorKind::Unsupported, "could not agree on a version of the protocol")
        .with_cause(format!("the {there} speaks version `{}`, the {here} version `{}`", peer.major, VERSION.major))
        .with_hint(format!("upgrade edt on the {older}")))
}

fn wrong_secret(what: &str, cause: &str) -> Error {
    Error::new(ErrorKind::Refused, what).with_cause(cause).with_hint("give both sides the same secret: EDT_TOKEN or --token-file")
}

fn out_of_order(expected: &str) -> Error {
    Error::new(ErrorKind::Protocol, "could not follow the peer's handshake")
        .with_cause(format!("{expected} was expected"))
        .with_hint("check that both sides run the same version of edt")
}
