//! The SDK's client: endpoint, region and credentials by AWS's own conventions, requests over edt's HTTP client.

use aws_config::ecs::EcsCredentialsProvider;
use aws_config::environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider};
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_config::web_identity_token::WebIdentityTokenCredentialsProvider;
use aws_config::{BehaviorVersion, ConfigLoader, SdkConfig};
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::{ReconnectMode, RetryConfig};
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    Credentials, ProvideCredentials, Region, RequestChecksumCalculation, ResponseChecksumValidation, SharedCredentialsProvider,
    StalledStreamProtectionConfig,
};
use aws_types::service_config::ServiceConfigKey;

use super::failure::no_credentials;
use super::transport::Transport;
use crate::error::Result;
use crate::store::remote::web::Web;
use crate::sync::Mutex;

const ENDPOINT: &str = "AWS_ENDPOINT_URL";
const ENDPOINT_OF_S3: &str = "AWS_ENDPOINT_URL_S3";
/// Where nothing names a region; services other than AWS take any.
const REGION: &str = "us-east-1";

/// Whether requests are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signing {
    /// They are.
    Signed,
    /// `AWS_NO_SIGN_REQUEST` asks for none.
    NotWanted,
    /// No credentials were found: what is public can be had all the same.
    NoCredentials,
}

/// A client and what its configuration says of requests.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) signing: Signing,
    /// Whether checksums are sent where they are not demanded.
    pub(super) sums: bool,
    /// Whether the endpoint is named, so that the service may be another than AWS.
    pub(super) elsewhere: bool,
}

/// Reads configuration and credentials; `place` is for errors.
pub(super) async fn connect(place: &str) -> Result<Connected> {
    let transport = Transport::new(Web::new()?);
    let config = loader(transport.clone()).load().await;
    let (config, signing) = signed(config, &transport, place).await?;
    let sums = config.request_checksum_calculation() != Some(RequestChecksumCalculation::WhenRequired);
    let elsewhere = endpoint(&config).is_some();
    let region = config.region().cloned().unwrap_or_else(|| Region::from_static(REGION));
    let mut builder = aws_sdk_s3::config::Builder::from(&config)
        .region(region)
        .force_path_style(elsewhere)
        // The HTTP client drops broken connections itself; the SDK would log that it cannot.
        .retry_config(RetryConfig::disabled().with_reconnect_mode(ReconnectMode::ReuseAllConnections))
        .timeout_config(TimeoutConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    if signing != Signing::Signed {
        builder = builder.allow_no_auth();
    }
    Ok(Connected { client: Client::from_conf(builder.build()), signing, sums, elsewhere })
}

/// The endpoint that environment or profile name, and nothing for AWS itself; asks nobody.
pub(super) async fn address() -> Result<String> {
    let loader = aws_config::defaults(BehaviorVersion::latest()).http_client(Transport::new(Web::new()?));
    let config = loader.region(Region::from_static(REGION)).no_credentials().load().await;
    Ok(endpoint(&config).unwrap_or_default())
}

fn loader(transport: Transport) -> ConfigLoader {
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(transport);
    if is_set(ENDPOINT) || is_set(ENDPOINT_OF_S3) {
        // The default chain would ask the metadata service of a cloud and wait for it where there is none.
        loader = loader.region(
            RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
                .or_else(ProfileFileRegionProvider::new())
                .or_else(REGION),
        );
    }
    if std::env::var("AWS_NO_SIGN_REQUEST").is_ok_and(|value| matches!(value.to_ascii_lowercase().as_str(), "true" | "1" | "yes"))
    {
        loader = loader.no_credentials();
    }
    loader
}

/// Finds credentials now, so that their lack is known before the first request.
async fn signed(config: SdkConfig, transport: &Transport, place: &str) -> Result<(SdkConfig, Signing)> {
    let Some(provider) = config.credentials_provider() else { return Ok((config, Signing::NotWanted)) };
    let (provider, signing) = match provider.provide_credentials().await {
        Ok(found) => {
            let found = Found { first: Mutex::new(Some(found)), provider };
            (Some(SharedCredentialsProvider::new(found)), Signing::Signed)
        }
        Err(CredentialsError::CredentialsNotLoaded(_)) => (None, Signing::NoCredentials),
        Err(_) if !configured(&config, transport).await => (None, Signing::NoCredentials),
        Err(cause) => return Err(no_credentials(&format!("could not open `{place}`"), &cause)),
    };
    let mut builder = config.into_builder();
    builder.set_credentials_provider(provider);
    Ok((builder.build(), signing))
}

/// Whether anything but the metadata service of the machine names credentials. That service is there without anybody's doing: if it
/// refuses, or answers with something else, there are none.
async fn configured(config: &SdkConfig, transport: &Transport) -> bool {
    let settings = ProviderConfig::default().with_http_client(transport.clone()).with_region(config.region().cloned());
    let named = CredentialsProviderChain::first_try("environment", EnvironmentVariableCredentialsProvider::new())
        .or_else("profile", ProfileFileCredentialsProvider::builder().configure(&settings).build())
        .or_else("web identity", WebIdentityTokenCredentialsProvider::builder().configure(&settings).build())
        .or_else("container", EcsCredentialsProvider::builder().configure(&settings).build());
    !matches!(named.provide_credentials().await, Err(CredentialsError::CredentialsNotLoaded(_)))
}

/// The endpoint that environment or profile name for S3 or for all services.
fn endpoint(config: &SdkConfig) -> Option<String> {
    // Looks for `AWS_ENDPOINT_URL_S3` and for a section `services` of the profile.
    let key = ServiceConfigKey::builder().service_id("S3").env(ENDPOINT).profile("endpoint_url").build();
    let own = key.ok().and_then(|key| config.service_config()?.load_config(key));
    own.or_else(|| config.endpoint_url().map(str::to_owned))
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Gives away the credentials that were found first, then asks again: a program that makes them is run once and not twice.
#[derive(Debug)]
struct Found {
    first: Mutex<Option<Credentials>>,
    provider: SharedCredentialsProvider,
}

impl ProvideCredentials for Found {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let first = self.first.lock().take();
        first.map_or_else(|| self.provider.provide_credentials(), |first| future::ProvideCredentials::ready(Ok(first)))
    }
}
