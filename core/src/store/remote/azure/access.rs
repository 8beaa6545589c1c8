//! Which account is meant, where it is and who asks it, by the conventions of Azure's own tools.

use object_store::azure::{AzureConfigKey, AzureCredential, MicrosoftAzureBuilder};

use super::connection::Connection;
use crate::endpoint::ServiceUrl;
use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::cloud::{self, Credentials};

const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
const EMULATOR: &str = "http://127.0.0.1:10000";
const SUFFIX: &str = "core.windows.net";
/// What the hosts of accounts end in, in the clouds of Azure.
const HOSTS: [&str; 6] = [
    ".blob.core.windows.net",
    ".blob.core.usgovcloudapi.net",
    ".blob.core.chinacloudapi.cn",
    ".blob.core.cloudapi.de",
    ".blob.storage.azure.net",
    ".blob.fabric.microsoft.com",
];
/// Settings that say who asks; without any of them, this machine's identity does.
const CONFIGURED: [AzureConfigKey; 7] = [
    AzureConfigKey::AccessKey,
    AzureConfigKey::SasKey,
    AzureConfigKey::Token,
    AzureConfigKey::ClientSecret,
    AzureConfigKey::FederatedTokenFile,
    AzureConfigKey::CredentialType,
    AzureConfigKey::FabricSessionToken,
];

/// A container as URL and environment name it.
pub(super) struct Access {
    pub(super) account: String,
    /// The URL of the container.
    pub(super) base: String,
    pub(super) credentials: Credentials<AzureCredential>,
}

/// Where an account is.
struct Place {
    account: String,
    /// The URL of the account's blobs.
    endpoint: String,
    container: String,
}

/// Reads `az://container` with the account of the environment, or `az://container@account.blob.core.windows.net`.
pub(super) fn find(url: &ServiceUrl) -> Result<Access> {
    let connection = cloud::variable("AZURE_STORAGE_CONNECTION_STRING").map(|text| Connection::parse(&text)).transpose()?;
    let named = named(url);
    let meant = |connection: &Connection| named.as_ref().is_none_or(|named| connection.account() == Some(named.account.as_str()));
    let mut builder = MicrosoftAzureBuilder::from_env().with_retry(cloud::retries());
    let configured_endpoints =
        [connection.as_ref().and_then(Connection::endpoint), builder.get_config_value(&AzureConfigKey::Endpoint)];
    let connection = connection.filter(meant);
    if let Some(key) = cloud::variable("AZURE_STORAGE_KEY") {
        builder = builder.with_access_key(key);
    }
    if let Some(connection) = &connection {
        builder = connection.configure(builder);
    }
    let emulated = builder.get_config_value(&AzureConfigKey::UseEmulator).is_some_and(|text| cloud::yes(&text));
    let place = match named {
        Some(named) if goes_unsigned(&builder) || is_trusted(&named, &configured_endpoints) => named,
        Some(named) => return Err(stranger(url, &named)),
        None => of_environment(&builder, connection.as_ref(), emulated, &url.host)?,
    };
    let builder = builder.with_account(&place.account).with_container_name(&place.container);
    let base = format!("{}/{}", place.endpoint.trim_end_matches('/'), cloud::encode(&place.container));
    Ok(Access { account: place.account, base, credentials: credentials(builder, emulated)? })
}

/// The account of `az://container@account.host`.
fn named(url: &ServiceUrl) -> Option<Place> {
    let container = url.user.clone()?;
    let (account, _) = url.host.split_once('.')?;
    let endpoint = format!("https://{}", url.host.replacen(".dfs.", ".blob.", 1));
    Some(Place { account: account.to_owned(), endpoint, container })
}

fn goes_unsigned(builder: &MicrosoftAzureBuilder) -> bool {
    builder.get_config_value(&AzureConfigKey::SkipSignature).is_some_and(|text| cloud::yes(&text))
}

/// Whether the credentials of the environment may go to the host that a URL names: one of Azure's, or one that the environment names too.
fn is_trusted(named: &Place, configured: &[Option<String>]) -> bool {
    let host = host_of(&named.endpoint);
    HOSTS.iter().any(|end| host.ends_with(end)) || configured.iter().flatten().any(|endpoint| host_of(endpoint) == host)
}

/// The host of a URL, without its port.
fn host_of(url: &str) -> String {
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    place.split(['/', ':']).next().unwrap_or_default().to_ascii_lowercase()
}

fn stranger(url: &ServiceUrl, named: &Place) -> Error {
    let host = host_of(&named.endpoint);
    Error::new(ErrorKind::InvalidInput, format!("could not use the endpoint `{}`", url.place()))
        .with_cause(format!("`{host}` is no host of Azure, and your credentials would go there"))
        .with_hint(format!(
            "if you trust it set AZURE_STORAGE_ENDPOINT=https://{host}; AZURE_SKIP_SIGNATURE=true reads what is public there"
        ))
}

fn of_environment(builder: &MicrosoftAzureBuilder, connection: Option<&Connection>, emulated: bool, host: &str) -> Result<Place> {
    let container = host.to_owned();
    let value = |key| builder.get_config_value(key);
    let account = connection.and_then(|connection| connection.account().map(str::to_owned));
    let account = account.or_else(|| value(&AzureConfigKey::AccountName)).or_else(|| cloud::variable("AZURE_STORAGE_ACCOUNT"));
    if emulated {
        let account = account.unwrap_or_else(|| EMULATOR_ACCOUNT.to_owned());
        let emulator = cloud::variable("AZURITE_BLOB_STORAGE_URL").unwrap_or_else(|| EMULATOR.to_owned());
        let endpoint = connection.and_then(Connection::endpoint);
        let endpoint = endpoint.unwrap_or_else(|| format!("{}/{account}", emulator.trim_end_matches('/')));
        return Ok(Place { account, endpoint, container });
    }
    let account = account.ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, format!("could not use the endpoint `az://{host}`"))
            .with_cause("it is not known which storage account holds the container")
            .with_hint(
                "set AZURE_STORAGE_ACCOUNT or AZURE_STORAGE_CONNECTION_STRING, \
                 or name az://container@account.blob.core.windows.net",
            )
    })?;
    let endpoint = connection.and_then(Connection::endpoint).or_else(|| value(&AzureConfigKey::Endpoint));
    let endpoint = endpoint.unwrap_or_else(|| format!("https://{account}.blob.{SUFFIX}"));
    Ok(Place { account, endpoint, container })
}

fn credentials(builder: MicrosoftAzureBuilder, emulated: bool) -> Result<Credentials<AzureCredential>> {
    if goes_unsigned(&builder) {
        return Ok(Credentials::none());
    }
    let configured = CONFIGURED.iter().any(|key| builder.get_config_value(key).is_some());
    let source = |builder: MicrosoftAzureBuilder| {
        let service = builder.build().map_err(|error| {
            Error::new(ErrorKind::Refused, "could not use the Azure credentials of the environment")
                .with_cause(error)
                .with_hint("check AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN")
        })?;
        Ok::<_, Error>(service.credentials().clone())
    };
    let logged_in = builder.get_config_value(&AzureConfigKey::UseAzureCli).is_some_and(|text| cloud::yes(&text));
    if configured || emulated || logged_in {
        return source(builder).map(Credentials::configured);
    }
    // The order of Azure's own libraries: the machine's identity, then who logged in with `az login`.
    Ok(Credentials::discovered(vec![source(builder.clone())?, source(builder.with_use_azure_cli(true))?]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Endpoint, Location};

    #[test]
    fn a_url_can_name_the_account() {
        let Ok(Location::Service(url)) = Endpoint::from("az://c@me.dfs.core.windows.net/a/b").resolve() else { panic!() };
        let place = named(&url).unwrap();
        assert_eq!((place.account.as_str(), place.container.as_str()), ("me", "c"));
        assert_eq!(place.endpoint, "https://me.blob.core.windows.net");
        let Ok(Location::Service(url)) = Endpoint::from("az://c/a/b").resolve() else { panic!() };
        assert!(named(&url).is_none());
    }

    #[test]
    fn credentials_go_to_hosts_of_azure_and_to_those_of_the_environment() {
        let trusted = |host: &str, configured: Option<&str>| {
            let Ok(Location::Service(url)) = Endpoint::from(format!("az://c@{host}/a")).resolve() else { panic!() };
            is_trusted(&named(&url).unwrap(), &[configured.map(str::to_owned), None])
        };
        for host in [
            "me.blob.core.windows.net",
            "me.dfs.core.windows.net",
            "me.z1.blob.storage.azure.net",
            "Me.BLOB.core.chinacloudapi.cn",
        ] {
            assert!(trusted(host, None), "{host}");
        }
        for host in ["me.evil.example", "me.blob.core.windows.net.evil.example", "meblob.core.windows.net"] {
            assert!(!trusted(host, None) && !trusted(host, Some("https://other.example/")), "{host}");
        }
        assert!(trusted("me.blob.stack.example", Some("https://me.blob.stack.example:8443/")));
    }

    #[test]
    fn the_emulator_is_found_without_settings() {
        let builder = MicrosoftAzureBuilder::new();
        let place = of_environment(&builder, None, true, "c").unwrap();
        assert_eq!(place.account, EMULATOR_ACCOUNT);
        assert!(place.endpoint.ends_with("/devstoreaccount1"));
    }
}
