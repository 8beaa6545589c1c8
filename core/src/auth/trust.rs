//! What a client trusts of a server that is no native one: certificates that the system's roots vouch for, or a pinned identity.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use rustls_platform_verifier::Verifier;

use crate::auth::identity::fingerprint;
use crate::auth::known_hosts::{KnownHosts, Pin};
use crate::error::{Error, ErrorKind, Result};
use crate::options::TransferOptions;
use crate::sync::Mutex;

/// What is known of one server's identity.
///
/// A pinned identity alone counts where there is one. Else the system's roots, or those of `SSL_CERT_FILE`, must vouch for the certificate,
/// or it is one that is pinned for another port of the same host. Nothing is pinned here: such a server is sent the secret, and does not
/// prove that it knows it, as the native port does before its identity is pinned.
pub struct Trust {
    known: KnownHosts,
    peer: String,
    pin: Option<Pin>,
    config: Arc<ClientConfig>,
    verifier: Arc<Witness>,
}

impl Trust {
    /// Looks up the identity of `peer`, written as `host:port`; `protocol` is what is spoken under TLS, in the terms of ALPN.
    pub fn new(peer: &str, protocol: &[u8], options: &TransferOptions) -> Result<Self> {
        let known = KnownHosts::new(options.known_hosts.as_deref())?;
        let pin = known.find(peer)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = Arc::new(Witness {
            pinned: pin.is_some(),
            trusted: known.trusted(peer)?,
            // Without any certificates on this machine pinned identities are still of use.
            roots: Verifier::new(Arc::clone(&provider)).ok(),
            refused: Mutex::default(),
            provider: Arc::clone(&provider),
        });
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|cause| Error::new(ErrorKind::InvalidInput, "could not set up TLS").with_cause(cause))?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Self { known, peer: peer.to_owned(), pin, config: Arc::new(config), verifier })
    }

    /// For every connection to the server.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The error if the server showed another identity than the pinned one, or one that nobody vouches for.
    pub fn refusal(&self) -> Option<Error> {
        let refused = self.verifier.refused.lock().clone()?;
        Some(match &self.pin {
            Some(pin) => self.known.changed(&self.peer, &refused, pin),
            None => self.known.unknown(&self.peer, &refused),
        })
    }
}

/// Accepts certificates, and remembers the last that was refused for want of someone who vouches for it.
#[derive(Debug)]
struct Witness {
    /// Whether the roots do not count, because this very server is pinned.
    pinned: bool,
    trusted: Vec<String>,
    roots: Option<Verifier>,
    refused: Mutex<Option<String>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = fingerprint(end_entity);
        if self.trusted.contains(&found) {
            return Ok(ServerCertVerified::assertion());
        }
        if self.pinned {
            *self.refused.lock() = Some(found);
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        let vouched = match &self.roots {
            Some(roots) => roots.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        vouched.inspect_err(|error| {
            if matches!(error, rustls::Error::InvalidCertificate(cause) if is_nobodys(cause)) {
                *self.refused.lock() = Some(found);
            }
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
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

/// Whether a certificate is only not vouched for: one that signed itself, as tools make them, counts as that of an authority.
fn is_nobodys(cause: &CertificateError) -> bool {
    match cause {
        CertificateError::UnknownIssuer => true,
        CertificateError::Other(other) => other.to_string().contains("CaUsedAsEndEntity"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(directory: &tempfile::TempDir) -> Trust {
        let options = TransferOptions { known_hosts: Some(directory.path().join("known")), ..TransferOptions::default() };
        Trust::new("h:1", b"h2", &options).unwrap()
    }

    fn shows(trust: &Trust, certificate: &[u8]) -> bool {
        let certificate = CertificateDer::from(certificate.to_vec());
        let name = ServerName::try_from("h").unwrap();
        trust.verifier.verify_server_cert(&certificate, &[], &name, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn an_identity_of_nobody_is_accepted_once_it_is_pinned() {
        let directory = tempfile::tempdir().unwrap();
        let made = || rcgen::generate_simple_self_signed(vec!["edt".to_owned()]).unwrap().cert.der().clone();
        let (own, other) = (made(), made());
        let first = trust(&directory);
        assert!(!shows(&first, &own));
        let refused = first.refusal().unwrap();
        let shown = fingerprint(&own);
        assert!(refused.kind() == ErrorKind::Refused && refused.explain().contains(&format!("`h:1 {shown}`")), "{refused}");
        std::fs::write(directory.path().join("known"), format!("h:1 {shown}\n")).unwrap();
        let later = trust(&directory);
        assert!(shows(&later, &own) && later.refusal().is_none());
        assert!(!shows(&later, &other));
        assert!(later.refusal().unwrap().hint().unwrap().contains("remove line 1"));
    }

    #[test]
    fn an_identity_that_is_pinned_for_another_port_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let own = rcgen::generate_simple_self_signed(vec!["edt".to_owned()]).unwrap().cert.der().clone();
        std::fs::write(directory.path().join("known"), format!("h:7632 {}\n", fingerprint(&own))).unwrap();
        assert!(shows(&trust(&directory), &own));
        std::fs::write(directory.path().join("known"), format!("g:7632 {}\n", fingerprint(&own))).unwrap();
        assert!(!shows(&trust(&directory), &own));
    }
}
