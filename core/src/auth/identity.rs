//! The server's identity: a certificate and its key, from files or made once and kept.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::auth::{config_dir, create_private};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::hex;

/// A certificate chain, leaf first, and the key of the leaf.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    fingerprint: String,
}

impl Identity {
    /// Reads PEM files; the certificate file may hold a chain.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self> {
        let read = |path| read(path).map_err(Error::into_usage);
        Self::from_pem(&read(certificate)?, certificate, &read(key)?, key)
    }

    /// Reads the kept identity from `path`, default `identity.pem` in the configuration directory, or makes and keeps one:
    /// self-signed, ECDSA P-256.
    pub fn automatic(path: Option<&Path>) -> Result<Self> {
        let path = path.map_or_else(|| Ok(config_dir()?.join("identity.pem")), |path| Ok::<PathBuf, Error>(path.to_owned()))?;
        if !fs::exists(&path).unwrap_or(true) {
            // Whoever comes first of two servers that start together wins; both then read the same file.
            create_private(&path, &self_signed()?)?;
        }
        let pem = read(&path)?;
        Self::from_pem(&pem, &path, &pem, &path)
    }

    /// SHA-256 of the leaf certificate, as clients pin it: `SHA256:` and 64 hexadecimal digits.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The certificates, leaf first.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.clone()
    }

    /// The key of the leaf.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }

    fn from_pem(certificate: &[u8], at: &Path, key: &[u8], key_at: &Path) -> Result<Self> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
            .collect::<std::result::Result<_, _>>()
            .map_err(|cause| unusable("certificate", at, &cause))?;
        let leaf = chain.first().ok_or_else(|| unusable("certificate", at, &"it holds no certificate"))?;
        let fingerprint = fingerprint(leaf);
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|cause| unusable("key", key_at, &cause))?;
        Ok(Self { chain, key, fingerprint })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

/// The fingerprint of a certificate.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
    format!("SHA256:{}", hex(digest.as_ref()))
}

fn self_signed() -> Result<String> {
    let failed = |cause: rcgen::Error| Error::new(ErrorKind::Io, "could not make an identity for this server").with_cause(cause);
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let mut params = rcgen::CertificateParams::new(vec!["edt".to_owned()]).map_err(failed)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "edt server");
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(format!("{}{}", key.serialize_pem(), certificate.pem()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|cause| Error::io(format!("could not read the identity from `{}`", path.display()), &cause))
}

fn unusable(part: &str, path: &Path, cause: &dyn fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("could not use the {part} in `{}`", path.display()))
        .with_cause(cause)
        .with_hint("give PEM files: a certificate or chain, leaf first, and its private key without a password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_automatic_identity_is_made_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("edt/identity.pem");
        let first = Identity::automatic(Some(&path)).unwrap();
        assert_eq!(Identity::automatic(Some(&path)).unwrap().fingerprint(), first.fingerprint());
        assert_eq!(first.fingerprint().len(), "SHA256:".len() + 64);
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).unwrap()) & 0o777, 0o600);
    }

    #[test]
    fn certificate_and_key_may_be_in_two_files() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
        let pem = self_signed().unwrap();
        let split = pem.find("-----BEGIN CERTIFICATE").unwrap();
        fs::write(&key, &pem[..split]).unwrap();
        fs::write(&certificate, [&pem[split..], &self_signed().unwrap()[split..]].concat()).unwrap();
        let identity = Identity::from_files(&certificate, &key).unwrap();
        assert_eq!(identity.chain().len(), 2);
        assert_eq!(identity.fingerprint(), fingerprint(&identity.chain()[0]));
        let missing = Identity::from_files(&directory.path().join("missing.pem"), &key).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("broken.pem");
        fs::write(&path, "not a certificate").unwrap();
        let error = Identity::automatic(Some(&path)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.explain().contains("broken.pem"));
    }
}
