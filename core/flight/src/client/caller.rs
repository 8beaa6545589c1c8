//! Who calls a Flight service: the secret of this process, and the header that shows it.

use edt::auth::secret;
use edt::options::{SecretSource, TransferOptions};
use edt::sync::Mutex;
use edt::{Error, ErrorKind, Result};
use tonic::metadata::{Ascii, MetadataValue};

use super::address::Place;

/// Who calls.
pub(super) struct Caller {
    /// The secret, and whether it was given for this purpose: one that merely lies on this machine is shown only to who asks for one.
    pub(super) secret: Option<(String, Shown)>,
    /// The header, once it is known that one is wanted.
    pub(super) header: Mutex<Option<MetadataValue<Ascii>>>,
}

impl Caller {
    /// The error of a service that does not know who calls.
    pub(super) fn unknown(&self, place: &Place, refusal: &Error, what: String) -> Error {
        let sent = self.header.lock().is_some();
        // What edt's own service says is for callers of other libraries.
        let said = refusal.cause().filter(|_| refusal.what() == what).map(|cause| format!(": {cause}")).unwrap_or_default();
        let cause = if sent { "it refused the secret that was sent" } else { "it wants a secret, and none was sent" };
        let hint = match &place.user {
            Some(user) => format!("check the password of `{user}` in ~/.netrc"),
            None => {
                "set EDT_TOKEN or use --token-file with the secret of the server, or name a user in the URL and put the password \
                     into ~/.netrc"
                    .to_owned()
            }
        };
        Error::new(ErrorKind::Refused, what).with_cause(format!("{cause}{said}")).with_hint(hint)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Always,
    OnDemand,
}

/// The secret of this process; that there is none is no error, for a service may want none.
pub(super) fn found_secret(options: &TransferOptions) -> Result<Option<(String, Shown)>> {
    let named =
        options.secret != SecretSource::Environment || std::env::var_os(secret::VARIABLE).is_some_and(|text| !text.is_empty());
    match secret::find(&options.secret) {
        Ok(found) => {
            let text = String::from_utf8_lossy(found.as_bytes()).into_owned();
            Ok(Some((text, if named { Shown::Always } else { Shown::OnDemand })))
        }
        Err(error) if named => Err(error),
        Err(_) => Ok(None),
    }
}

/// The header of a secret.
pub(super) fn bearer(secret: &str) -> Result<MetadataValue<Ascii>> {
    header(&format!("Bearer {secret}"))
}

/// A header that no log shows.
pub(super) fn header(text: &str) -> Result<MetadataValue<Ascii>> {
    let mut value: MetadataValue<Ascii> = text.parse().map_err(|_| {
        Error::new(ErrorKind::InvalidInput, "could not send the secret").with_cause("it has characters that no header can hold")
    })?;
    value.set_sensitive(true);
    Ok(value)
}
