//! TLS 1.3 of edt: one cryptography library, no resumption, and certificates that are pinned instead of signed by someone.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::auth::identity::{Identity, fingerprint};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::ALPN;
use crate::sync::Mutex;

/// The configuration of a server with this identity.
pub(super) fn server_config(identity: &Identity) -> Result<Arc<ServerConfig>> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|cause| unusable(&cause))?
        .with_no_client_auth()
        .with_single_cert(identity.chain(), identity.key())
        .map_err(|cause| unusable(&cause).with_hint("check that the key belongs to the first certificate of the file"))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A ticket that a one-way peer never reads would turn its close into a reset that destroys data in flight.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// The configuration of a client that trusts what `verifier` accepts.
pub(super) fn client_config(verifier: Arc<Verifier>) -> Result<Arc<ClientConfig>> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|cause| unusable(&cause))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// The name that goes into the client's greeting; what cannot be a name is replaced, as trust does not rest on it.
pub(super) fn server_name(host: &str) -> ServerName<'static> {
    ServerName::try_from(host.to_owned()).unwrap_or_else(|_| IpAddr::V4(Ipv4Addr::UNSPECIFIED).into())
}

/// Accepts the pinned certificate, or any if none is pinned, and remembers which it saw. That the server holds the certificate's key
/// is always checked; that it holds the shared secret as well is for the handshake above, and only then may the identity be pinned.
#[derive(Debug)]
pub(super) struct Verifier {
    pinned: Option<String>,
    seen: Mutex<Option<String>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// A verifier for a server whose fingerprint is `pinned`, if it is known.
    pub(super) fn new(pinned: Option<String>) -> Arc<Self> {
        Arc::new(Self { pinned, seen: Mutex::new(None), provider: provider() })
    }

    /// The fingerprint of the certificate that the server showed last, accepted or not.
    pub(super) fn seen(&self) -> Option<String> {
        self.seen.lock().clone()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = fingerprint(end_entity);
        let accepted = self.pinned.as_ref().is_none_or(|pinned| *pinned == found);
        *self.seen.lock() = Some(found);
        if accepted { Ok(ServerCertVerified::assertion()) } else { Err(CertificateError::ApplicationVerificationFailure.into()) }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn unusable(cause: &rustls::Error) -> Error {
    Error::new(ErrorKind::InvalidInput, "could not set up TLS").with_cause(cause)
}
