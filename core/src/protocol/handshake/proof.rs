//! Proofs of a shared secret that do not send it, and what a session has once both sides gave theirs.

use std::fmt;

use aws_lc_rs::{digest, hmac};

use super::messages::Limits;
use crate::protocol::{Version, hex};

/// Names a session; not secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 16]);

/// The key that binds streams to their session; its `Debug` form does not show it.
#[derive(Clone)]
pub struct SessionKey(hmac::Key);

/// A session after the handshake.
#[derive(Debug, Clone)]
pub struct Established {
    /// Names the session.
    pub session: SessionId,
    /// Binds streams to it.
    pub session_key: SessionKey,
    /// What the server allows.
    pub limits: Limits,
    /// What both sides speak.
    pub version: Version,
    /// The optional features that both sides have.
    pub capabilities: u64,
    /// Name and version of the other side, for people; it is the peer's text and may hold anything.
    pub peer: String,
}

/// Keeps the proofs of the two sides and the session key apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Label {
    Client,
    Server,
    Session,
}

/// Makes and checks the proofs of one handshake.
pub(super) struct Proofs {
    key: hmac::Key,
    transcript: digest::Digest,
    binding: Vec<u8>,
}

impl Proofs {
    /// `hello` is with its length prefix, `welcome` without; the transcript is of both with theirs.
    pub(super) fn new(secret: &[u8], hello: &[u8], welcome: &[u8], binding: &[u8]) -> Self {
        let mut transcript = digest::Context::new(&digest::SHA256);
        transcript.update(hello);
        transcript.update(&u32::try_from(welcome.len()).unwrap_or(u32::MAX).to_le_bytes());
        transcript.update(welcome);
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), transcript: transcript.finish(), binding: binding.to_vec() }
    }

    pub(super) fn make(&self, label: Label) -> [u8; 32] {
        sign(&self.key, &self.message(label))
    }

    /// Compares in constant time.
    pub(super) fn verify(&self, label: Label, proof: &[u8]) -> bool {
        hmac::verify(&self.key, &self.message(label), proof).is_ok()
    }

    pub(super) fn session_key(&self) -> SessionKey {
        SessionKey(hmac::Key::new(hmac::HMAC_SHA256, &self.make(Label::Session)))
    }

    fn message(&self, label: Label) -> Vec<u8> {
        let label: &[u8] = match label {
            Label::Client => b"edt1 client",
            Label::Server => b"edt1 server",
            Label::Session => b"edt1 session",
        };
        [label, self.transcript.as_ref(), &self.binding].concat()
    }
}

impl SessionKey {
    #[cfg(test)]
    pub(crate) fn of_a_test() -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &[1]))
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; 32] {
        sign(&self.0, message)
    }

    pub(super) fn verify(&self, message: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&self.0, message, tag).is_ok()
    }
}

fn sign(key: &hmac::Key, message: &[u8]) -> [u8; 32] {
    let mut proof = [0; 32];
    proof.copy_from_slice(hmac::sign(key, message).as_ref());
    proof
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}
