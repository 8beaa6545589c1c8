//! Where Google's service is and who asks it, by the conventions of Google's own tools.

use std::path::PathBuf;

use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};

use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::cloud::{self, Credentials};

const SERVICE: &str = "https://storage.googleapis.com";
const CONFIGURED: [GoogleConfigKey; 4] = [
    GoogleConfigKey::ServiceAccount,
    GoogleConfigKey::ServiceAccountKey,
    GoogleConfigKey::ApplicationCredentials,
    GoogleConfigKey::BearerToken,
];

/// The service as the environment names it.
pub(super) struct Access {
    /// Scheme and host.
    pub(super) base: String,
    pub(super) credentials: Credentials<GcpCredential>,
    /// Whether it is an emulator.
    pub(super) emulated: bool,
}

/// Reads the environment: `STORAGE_EMULATOR_HOST`, else application default credentials, a token, or those of this machine.
pub(super) fn find(bucket: &str) -> Result<Access> {
    if let Some(host) = cloud::variable("STORAGE_EMULATOR_HOST") {
        return Ok(Access { base: base(&host, "http"), credentials: Credentials::none(), emulated: true });
    }
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(cloud::retries());
    if let Some(token) = cloud::variable("CLOUDSDK_AUTH_ACCESS_TOKEN") {
        builder = builder.with_bearer_token(token);
    }
    let named = builder.get_config_value(&GoogleConfigKey::BaseUrl);
    let base = named.map_or_else(|| SERVICE.to_owned(), |named| base(&named, "https"));
    Ok(Access { base, credentials: credentials(builder)?, emulated: false })
}

fn credentials(builder: GoogleCloudStorageBuilder) -> Result<Credentials<GcpCredential>> {
    let value = |key| builder.get_config_value(key);
    if value(&GoogleConfigKey::SkipSignature).is_some_and(|text| cloud::yes(&text)) {
        return Ok(Credentials::none());
    }
    let configured = CONFIGURED.iter().any(|key| value(key).is_some()) || default_file().is_some_and(|file| file.exists());
    let service = builder.build().map_err(|error| {
        Error::new(ErrorKind::Refused, "could not use the Google credentials of the environment").with_cause(error).with_hint(
            "run `gcloud auth application-default login`, or name a service account's key in GOOGLE_APPLICATION_CREDENTIALS, \
             or set CLOUDSDK_AUTH_ACCESS_TOKEN to what `gcloud auth print-access-token` prints",
        )
    })?;
    let source = service.credentials().clone();
    Ok(if configured { Credentials::configured(source) } else { Credentials::discovered(vec![source]) })
}

/// Where `gcloud auth application-default login` leaves its credentials.
fn default_file() -> Option<PathBuf> {
    let (variable, below) = if cfg!(windows) { ("APPDATA", "gcloud") } else { ("HOME", ".config/gcloud") };
    let home = cloud::variable(variable)?;
    Some(PathBuf::from(home).join(below).join("application_default_credentials.json"))
}

fn base(host: &str, scheme: &str) -> String {
    let host = host.trim_end_matches('/');
    if host.contains("://") { host.to_owned() } else { format!("{scheme}://{host}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_needs_no_scheme() {
        assert_eq!(base("localhost:4443", "http"), "http://localhost:4443");
        assert_eq!(base("https://storage.example/", "http"), "https://storage.example");
    }
}
