//! TLS of FTP: certificates as the system trusts them, and sessions that the data connections of one login share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ClientConfig};
use rustls_platform_verifier::Verifier;
use suppaftp::FtpError;

use crate::error::{Error, ErrorKind, Result};

/// Tickets of one login that are kept.
const TICKETS: usize = 32;

/// What one server is spoken to with.
///
/// Many servers take a data connection only if it resumes the session of its control connection. With TLS 1.2 one session serves any
/// number of them; the tickets of TLS 1.3 serve once each, and an upload brings no new one, so 1.3 is for servers that want nothing else.
pub(super) struct Tls {
    provider: Arc<CryptoProvider>,
    verifier: Arc<Verifier>,
    newest: AtomicBool,
}

impl Tls {
    /// Reads the certificates that the system trusts, or those of `SSL_CERT_FILE`.
    pub(super) fn new() -> Result<Self> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = Verifier::new(Arc::clone(&provider)).map_err(|cause| {
            Error::new(ErrorKind::InvalidInput, "could not set up TLS")
                .with_cause(cause)
                .with_hint("install the system's certificates, or name a file of certificates in SSL_CERT_FILE")
        })?;
        Ok(Self { provider, verifier: Arc::new(verifier), newest: AtomicBool::new(false) })
    }

    /// The configuration of one login, whose sessions no other login shares.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>> {
        let versions = if self.newest.load(Ordering::Relaxed) { vec![&TLS13, &TLS12] } else { vec![&TLS12] };
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&versions)
            .map_err(|cause| Error::new(ErrorKind::InvalidInput, "could not set up TLS").with_cause(cause))?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier.clone())
            .with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(TICKETS);
        Ok(Arc::new(config))
    }

    /// Goes over to TLS 1.3 if the server refused 1.2; true if another attempt may help.
    pub(super) fn goes_newer(&self, error: &FtpError) -> bool {
        let FtpError::ConnectionError(cause) = error else { return false };
        let tls = cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let refused = matches!(
            tls,
            Some(
                rustls::Error::AlertReceived(AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure)
                    | rustls::Error::PeerIncompatible(_)
            )
        );
        refused && !self.newest.swap(true, Ordering::Relaxed)
    }
}
