//! What Azure's errors mean in edt's kinds.

use crate::error::{Error, ErrorKind};
use crate::store::remote::cloud;
use crate::store::remote::web::{Answer, status_error};

/// Statuses whose code says more than the status.
pub(super) const EXPLAINED: [u16; 7] = [400, 401, 403, 404, 409, 412, 416];

const LONGEST: usize = 64 << 10;
const UNSIGNED: &str = "no Azure credentials were found: run `az login`, or set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN \
                        or AZURE_STORAGE_CONNECTION_STRING";

/// The error of an answer with one of the statuses [`EXPLAINED`]; `unsigned` if no credentials were found.
pub(super) fn explain(what: &str, answer: Answer, unsigned: bool) -> Error {
    let status = answer.status();
    let code = answer.header("x-ms-error-code").map(str::to_owned);
    match answer.bytes(LONGEST) {
        Ok(content) => of(what, status, code, &content, unsigned),
        Err(error) => error,
    }
}

fn of(what: &str, status: u16, code: Option<String>, content: &[u8], unsigned: bool) -> Error {
    let told: Told = cloud::from_xml(what, content).unwrap_or_default();
    let code = code.unwrap_or(told.code);
    let message = told.message.lines().next().unwrap_or_default();
    let detail = if message.is_empty() { code.as_str() } else { message };
    let failed = |kind| Error::new(kind, what).with_cause(format!("the service answered {status} {code}: {detail}"));
    match code.as_str() {
        "BlobAlreadyExists" => cloud::exists(what),
        "Crc64Mismatch" | "Md5Mismatch" => failed(ErrorKind::Corrupted),
        "ContainerBeingDeleted" | "OperationTimedOut" | "ServerBusy" => failed(ErrorKind::ConnectionLost),
        "ContainerNotFound" => failed(ErrorKind::NotFound).with_hint("check the container's name, or create it"),
        "InvalidBlobOrBlock" => failed(ErrorKind::Io)
            .with_hint("another program's unfinished upload of this blob is in the way; it vanishes a week after its last block"),
        "InvalidBlobType" => failed(ErrorKind::WrongType).with_hint("a page or append blob stands there; remove it first"),
        "SnapshotsPresent" => failed(ErrorKind::AlreadyExists).with_hint("remove the snapshots of the blob first"),
        "DirectoryIsNotEmpty" => failed(ErrorKind::AlreadyExists),
        "LeaseIdMissing" | "LeaseAlreadyPresent" | "BlobImmutableDueToPolicy" => {
            failed(ErrorKind::PermissionDenied).with_hint("a lease or a policy protects the blob; end it first")
        }
        // The emulator calls a wrong key an authorization that failed.
        "AuthenticationFailed" | "InvalidAuthenticationInfo" | "NoAuthenticationInformation" | "AuthorizationFailure"
            if !unsigned && (code != "AuthorizationFailure" || detail.contains("failed to authenticate")) =>
        {
            failed(ErrorKind::Refused).with_hint("check the key or the signature, that it has not expired, and this machine's clock")
        }
        "AuthorizationPermissionMismatch" | "AuthorizationFailure" if !unsigned => failed(ErrorKind::PermissionDenied).with_hint(
            "give this account the role Storage Blob Data Contributor, or Storage Blob Data Reader to read; the firewall of the storage \
             account may refuse this machine too",
        ),
        // What is not public is not there for those who have no credentials.
        "ResourceNotFound" | "PublicAccessNotPermitted" if unsigned => failed(ErrorKind::Refused).with_hint(UNSIGNED),
        _ if unsigned && matches!(status, 401 | 403) => failed(ErrorKind::Refused).with_hint(UNSIGNED),
        _ => status_error(what, status, None, detail),
    }
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Told {
    code: String,
    #[serde(default)]
    message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, code: &str) -> ErrorKind {
        of("x", status, Some(code.to_owned()), b"", false).kind()
    }

    #[test]
    fn codes_decide_where_the_status_does_not() {
        assert_eq!(kind(409, "BlobAlreadyExists"), ErrorKind::AlreadyExists);
        assert_eq!(kind(412, "ConditionNotMet"), ErrorKind::SourceChanged);
        assert_eq!(kind(400, "Crc64Mismatch"), ErrorKind::Corrupted);
        assert_eq!(kind(403, "AuthenticationFailed"), ErrorKind::Refused);
        assert_eq!(kind(403, "AuthorizationPermissionMismatch"), ErrorKind::PermissionDenied);
        assert_eq!(kind(404, "BlobNotFound"), ErrorKind::NotFound);
    }

    #[test]
    fn the_code_is_found_in_the_content_too() {
        let text = "\u{feff}<?xml version=\"1.0\"?><Error><Code>ContainerNotFound</Code><Message>The specified container does not \
            exist.\nRequestId:1</Message></Error>";
        let error = of("x", 404, None, text.as_bytes(), false);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.explain().contains("create it") && !error.explain().contains("RequestId"), "{}", error.explain());
    }

    #[test]
    fn missing_credentials_are_named() {
        for (status, code) in [(404, "ResourceNotFound"), (409, "PublicAccessNotPermitted"), (401, "NoAuthenticationInformation")]
        {
            let error = of("x", status, Some(code.to_owned()), b"", true);
            assert!(error.hint().is_some_and(|hint| hint.contains("az login")), "{code}");
        }
        assert_eq!(of("x", 404, Some("BlobNotFound".to_owned()), b"", true).kind(), ErrorKind::NotFound);
    }
}
