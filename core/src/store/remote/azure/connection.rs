//! Connection strings of Azure storage accounts.

use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::cloud;

/// A connection string; names of settings are compared without regard to case.
pub(super) struct Connection(Vec<(String, String)>);

impl Connection {
    /// Parses `Name=value;Name=value`; an error does not show the text, which holds a key.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let settings = text.split(';').map(str::trim).filter(|setting| !setting.is_empty()).map(|setting| {
            let (name, value) = setting.split_once('=')?;
            Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        });
        let settings: Option<Vec<_>> = settings.collect();
        settings.map(Self).ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "could not use AZURE_STORAGE_CONNECTION_STRING")
                .with_cause("it is no list of settings as Name=value;Name=value")
                .with_hint("copy it whole from the access keys of the storage account, in quotes")
        })
    }

    /// The account, which a string with a shared access signature names in its endpoint alone.
    pub(super) fn account(&self) -> Option<&str> {
        self.value("accountname").or_else(|| {
            let (_, place) = self.value("blobendpoint")?.split_once("://")?;
            place.split_once('.').map(|(account, _)| account)
        })
    }

    /// The URL of the account's blobs, unless it is the emulator's.
    pub(super) fn endpoint(&self) -> Option<String> {
        if let Some(endpoint) = self.value("blobendpoint") {
            return Some(endpoint.to_owned());
        }
        let account = self.value("accountname")?;
        let protocol = self.value("defaultendpointsprotocol").unwrap_or("https");
        let suffix = self.value("endpointsuffix").unwrap_or("core.windows.net");
        Some(format!("{protocol}://{account}.blob.{suffix}"))
    }

    /// Fills in the credentials, in place of those of the environment.
    pub(super) fn configure(&self, builder: MicrosoftAzureBuilder) -> MicrosoftAzureBuilder {
        let mut builder = builder;
        if let Some(key) = self.value("accountkey") {
            builder = builder.with_access_key(key);
        }
        if let Some(signature) = self.value("sharedaccesssignature") {
            builder = builder.with_config(AzureConfigKey::SasKey, signature);
        }
        builder.with_use_emulator(self.value("usedevelopmentstorage").is_some_and(cloud::yes))
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, value)| found == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_padding() {
        let text = "DefaultEndpointsProtocol=http;AccountName=me;AccountKey=a+b/c==;EndpointSuffix=core.example;";
        let connection = Connection::parse(text).unwrap();
        assert_eq!(connection.account(), Some("me"));
        assert_eq!(connection.value("accountkey"), Some("a+b/c=="));
        assert_eq!(connection.endpoint().as_deref(), Some("http://me.blob.core.example"));
        let builder = connection.configure(MicrosoftAzureBuilder::new());
        assert_eq!(builder.get_config_value(&AzureConfigKey::AccessKey).as_deref(), Some("a+b/c=="));
    }

    #[test]
    fn an_endpoint_may_be_named() {
        let connection = Connection::parse("accountname=me;BlobEndpoint=http://127.0.0.1:1/me").unwrap();
        assert_eq!(connection.endpoint().as_deref(), Some("http://127.0.0.1:1/me"));
        let shared =
            Connection::parse("BlobEndpoint=https://you.blob.core.windows.net/;SharedAccessSignature=sv=1&sig=x%3D").unwrap();
        assert_eq!(shared.account(), Some("you"));
        assert_eq!(shared.value("sharedaccesssignature"), Some("sv=1&sig=x%3D"));
    }

    #[test]
    fn the_emulator_has_a_name_of_its_own() {
        let connection = Connection::parse("UseDevelopmentStorage=true").unwrap();
        assert_eq!((connection.account(), connection.endpoint()), (None, None));
        let builder = connection.configure(MicrosoftAzureBuilder::new());
        assert_eq!(builder.get_config_value(&AzureConfigKey::UseEmulator).as_deref(), Some("true"));
    }

    #[test]
    fn an_error_shows_no_key() {
        let error = Connection::parse("AccountKey=;secret").err().unwrap().explain();
        assert!(!error.contains("secret"), "{error}");
    }
}
