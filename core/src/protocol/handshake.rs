//! The handshake that opens a session, and the hello that binds a stream to it: one type per state, no sockets.
//!
//! What goes out is complete with its length prefix and is written as it is; what comes in is a message without it, as long as
//! [`read_length`] said. `binding` is what both ends of the same TLS connection know alike ([`BINDING_LABEL`]), empty on a plain one.

mod messages;
mod proof;
mod stream;

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::message::{Failed, Message, bounded_length, decode_whole, with_length};
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

    /// Takes the server's welcome. Nothing is said to the server before its proof, which is behind it.
    pub fn on_welcome(self, message: &[u8], secret: &[u8], binding: &[u8]) -> Result<AwaitAccepted> {
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
        Ok(AwaitAccepted {
            proofs: Proofs::new(secret, &self.hello, message, binding),
            session: SessionId(welcome.session),
            version: common(VERSION, welcome.version),
            capabilities: welcome.capabilities & CAPABILITIES,
            peer: welcome.software,
        })
    }
}

/// Client: was welcomed and waits for the server's proof.
pub struct AwaitAccepted {
    proofs: Proofs,
    session: SessionId,
    version: Version,
    capabilities: u64,
    peer: String,
}

impl AwaitAccepted {
    /// Checks that the server knows the secret, and answers with the proof that this side knows it too. Behind that answer the session is
    /// open for this side; a server that does not let it in after all says [`Message::Fail`].
    pub fn on_accepted(self, message: &[u8]) -> Result<(Vec<u8>, Established)> {
        let accepted = match decode_whole(message)? {
            Handshake::Accepted(accepted) => accepted,
            Handshake::Refuse(failed) => return Err(failed.into()),
            _ => return Err(out_of_order("an acceptance")),
        };
        if !self.proofs.verify(Label::Server, &accepted.proof) {
            return Err(wrong_secret("could not trust the server"));
        }
        let answer = Authenticate { method: METHOD_SECRET, proof: self.proofs.make(Label::Client) };
        let established = Established {
            session: self.session,
            session_key: self.proofs.session_key(),
            limits: accepted.limits,
            version: self.version,
            capabilities: self.capabilities,
            peer: self.peer,
        };
        Ok((with_length(&Handshake::Authenticate(answer)), established))
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

impl Refusal {
    /// Turns away a client that has not been welcomed.
    pub fn unwelcome(error: Error) -> Self {
        let reply = with_length(&Handshake::Refuse(Failed::from(&error)));
        Self { error, reply }
    }

    /// Turns away a client that has this side's proof, and may hold the session for open: it is told as in any session.
    pub fn unaccepted(error: Error) -> Self {
        let reply = Message::Fail(Failed::from(&error)).encode_with_length();
        Self { error, reply }
    }
}

/// Server: waits for the hello.
pub struct ServerHandshake;

impl ServerHandshake {
    /// Takes a client's hello and answers with the welcome. `nonce` and `session` are fresh randomness.
    pub fn on_hello(message: &[u8], nonce: [u8; 32], session: SessionId, software: &str) -> Result<(Vec<u8>, Welcomed), Refusal> {
        let hello = read_hello(message).map_err(Refusal::unwelcome)?;
        let welcome = Welcome {
            version: VERSION,
            capabilities: CAPABILITIES,
            nonce,
            session: session.0,
            methods: vec![METHOD_SECRET],
            software: software.to_owned(),
        };
        let reply = with_length(&Handshake::Welcome(welcome));
        let state = Welcomed {
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

/// Server: has welcomed a client, and has to prove itself first.
pub struct Welcomed {
    hello: Vec<u8>,
    welcome: Vec<u8>,
    session: SessionId,
    version: Version,
    capabilities: u64,
    peer: String,
}

impl Welcomed {
    /// Makes this side's proof, which goes out right behind the welcome.
    pub fn prove(self, secret: &[u8], binding: &[u8], limits: Limits) -> (Vec<u8>, AwaitAuthenticate) {
        let proofs = Proofs::new(secret, &self.hello, &self.welcome[4..], binding);
        let accepted = with_length(&Handshake::Accepted(Accepted { proof: proofs.make(Label::Server), limits }));
        let established = Established {
            session: self.session,
            session_key: proofs.session_key(),
            limits,
            version: self.version,
            capabilities: self.capabilities,
            peer: self.peer,
        };
        (accepted, AwaitAuthenticate { proofs, established })
    }
}

/// Server: has proved itself and waits for the client's proof.
pub struct AwaitAuthenticate {
    proofs: Proofs,
    established: Established,
}

impl AwaitAuthenticate {
    /// Takes the client's proof, which opens the session.
    pub fn on_authenticate(self, message: &[u8]) -> Result<Established, Refusal> {
        match decode_whole(message).map_err(Refusal::unaccepted)? {
            Handshake::Authenticate(Authenticate { method: METHOD_SECRET, proof })
                if self.proofs.verify(Label::Client, &proof) =>
            {
                Ok(self.established)
            }
            Handshake::Authenticate(_) => Err(Refusal::unaccepted(wrong_secret("could not let the caller in"))),
            _ => Err(Refusal::unaccepted(out_of_order("a proof"))),
        }
    }
}

/// A client's hello, whose version is looked at before anything else of it.
fn read_hello(message: &[u8]) -> Result<Hello> {
    check_major(messages::hello_version(message)?, "server", "calling side")?;
    match decode_whole(message)? {
        Handshake::Hello(hello) => Ok(hello),
        _ => Err(out_of_order("a hello")),
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

fn wrong_secret(what: &str) -> Error {
    Error::new(ErrorKind::Refused, what)
        .with_cause("its proof of the secret is wrong")
        .with_hint("give both sides the same secret: EDT_TOKEN or --token-file")
}

fn out_of_order(expected: &str) -> Error {
    Error::new(ErrorKind::Protocol, "could not follow the peer's handshake")
        .with_cause(format!("{expected} was expected"))
        .with_hint("check that both sides run the same version of edt")
}
