//! What a failed request to S3 means in edt's kinds, and what people can do about it.

use std::error::Error as StdError;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use super::client::Signing;
use crate::error::{Error, ErrorKind};
use crate::store::remote::web::{request_error, status_error};

/// A failed request: the error for callers, and what the service itself called it.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: Error,
    code: Box<str>,
    status: u16,
}

impl Failure {
    /// `what` is the operation and place: "could not read `s3://bucket/key`".
    pub(super) fn of<E>(what: &str, failed: &SdkError<E, HttpResponse>, signing: Signing) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let Some(raw) = failed.raw_response() else {
            return Self { error: unanswered(what, failed), code: Box::default(), status: 0 };
        };
        let answer = Answered {
            status: raw.status().as_u16(),
            code: failed.code().unwrap_or_default(),
            message: failed.message().unwrap_or_default(),
            region: raw.headers().get("x-amz-bucket-region"),
            retry_after: raw.headers().get("retry-after"),
        };
        let error = match find::<reqwest::Error>(failed) {
            _ if answer.status >= 300 || !answer.code.is_empty() => answer.error(what),
            // It broke off behind its head.
            Some(cause) => request_error(what, cause),
            None => Error::new(ErrorKind::Protocol, what).with_cause(format!("the answer makes no sense: {}", innermost(failed))),
        };
        Self { error: unsigned(error, signing), code: answer.code.into(), status: answer.status }
    }

    /// Whether the service answered.
    pub(super) fn is_answer(&self) -> bool {
        self.status != 0
    }

    /// Whether the service may have refused a header that it does not know: a checksum or a condition.
    pub(super) fn refuses_a_header(&self) -> bool {
        matches!(self.status, 400 | 501) && matches!(&*self.code, "NotImplemented" | "InvalidRequest" | "InvalidArgument")
    }

    /// Whether the service knows no removal of many keys at once.
    pub(super) fn refuses_batches(&self) -> bool {
        self.refuses_a_header() || self.status == 405 || matches!(&*self.code, "MissingContentMD5" | "MalformedXML")
    }

    /// Whether an object ends before the range that was asked for.
    pub(super) fn is_past_the_end(&self) -> bool {
        self.status == 416 || matches!(&*self.code, "InvalidRange")
    }

    /// Whether it is the bucket that is missing, and not what was looked for in it.
    pub(super) fn is_of_the_bucket(&self) -> bool {
        matches!(&*self.code, "NoSuchBucket")
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, code: Box::default(), status: 0 }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// What the service answered, in its own words.
#[derive(Default)]
struct Answered<'a> {
    status: u16,
    code: &'a str,
    message: &'a str,
    region: Option<&'a str>,
    retry_after: Option<&'a str>,
}

impl Answered<'_> {
    fn error(&self, what: &str) -> Error {
        let detail = match (self.code, self.message) {
            (code, "") => code.to_owned(),
            ("", message) => message.to_owned(),
            (code, message) => format!("{message} ({code})"),
        };
        if self.is_elsewhere() {
            let hint = match self.region {
                Some(region) => format!("the bucket is in the region `{region}`: set AWS_REGION={region}"),
                None => "set AWS_REGION to the region of the bucket, or AWS_ENDPOINT_URL to its service".to_owned(),
            };
            let cause = if detail.is_empty() { "the bucket is in another region".to_owned() } else { detail };
            return Error::new(ErrorKind::InvalidInput, what).with_cause(cause).with_hint(hint);
        }
        match known(self.code) {
            Some((ErrorKind::Throttled, _)) => status_error(what, 503, self.retry_after, &detail),
            Some((kind, "")) => Error::new(kind, what).with_cause(detail),
            Some((kind, hint)) => Error::new(kind, what).with_cause(detail).with_hint(hint),
            None => status_error(what, if self.status < 400 { 500 } else { self.status }, self.retry_after, &detail),
        }
    }

    fn is_elsewhere(&self) -> bool {
        match self.code {
            "PermanentRedirect" | "TemporaryRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" => {
                true
            }
            // The answer to HEAD has no body and so no code.
            "" => (300..400).contains(&self.status) || (self.status == 400 && self.region.is_some()),
            _ => false,
        }
    }
}

/// The error of one of many things that a request asked for.
pub(super) fn of_code(what: &str, code: &str, message: &str) -> Error {
    Answered { status: 200, code, message, ..Answered::default() }.error(what)
}

/// Kind and hint of the codes whose status does not tell them.
fn known(code: &str) -> Option<(ErrorKind, &'static str)> {
    Some(match code {
        "NoSuchBucket" => (ErrorKind::NotFound, "check the name of the bucket and AWS_ENDPOINT_URL; edt makes no buckets"),
        "NoSuchKey" | "NotFound" => (ErrorKind::NotFound, "check the spelling of the key"),
        "NoSuchUpload" => (ErrorKind::NotFound, "the upload was completed or given up elsewhere: run the same command again"),
        "AccessDenied" | "AllAccessDisabled" | "AccountProblem" => (
            ErrorKind::PermissionDenied,
            "ask the owner of the bucket for s3:GetObject, s3:PutObject, s3:ListBucket as it is needed",
        ),
        "InvalidAccessKeyId" => {
            (ErrorKind::Refused, "check AWS_ACCESS_KEY_ID or the profile, and that they belong to this service")
        }
        "SignatureDoesNotMatch" => (ErrorKind::Refused, "check AWS_SECRET_ACCESS_KEY or the profile"),
        "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" => {
            (ErrorKind::Refused, "the credentials have expired: log in again, then run the same command to resume")
        }
        "InvalidToken" | "InvalidClientTokenId" => (ErrorKind::Refused, "check AWS_SESSION_TOKEN"),
        "RequestTimeTooSkewed" => (ErrorKind::Refused, "set the clock of this machine"),
        "SlowDown"
        | "ServiceUnavailable"
        | "Throttling"
        | "ThrottlingException"
        | "RequestLimitExceeded"
        | "TooManyRequests"
        | "BandwidthLimitExceeded"
        | "SlowDownRead"
        | "SlowDownWrite" => (ErrorKind::Throttled, ""),
        "RequestTimeout" | "IncompleteBody" | "InternalError" | "ConditionalRequestConflict" | "OperationAborted" => {
            (ErrorKind::ConnectionLost, "")
        }
        "BadDigest" | "XAmzContentSHA256Mismatch" | "XAmzContentChecksumMismatch" => (ErrorKind::Corrupted, ""),
        "PreconditionFailed" | "InvalidRange" => (ErrorKind::SourceChanged, ""),
        "InvalidObjectState" => (ErrorKind::Unsupported, "the object is archived: restore it first"),
        "EntityTooLarge" | "EntityTooSmall" | "InvalidPartOrder" => {
            (ErrorKind::Unsupported, "the service bounds the size of objects and of parts")
        }
        "InvalidPart" => (ErrorKind::NotFound, "the service lost a part: run the same command again"),
        "KeyTooLongError" | "InvalidBucketName" => (ErrorKind::InvalidInput, "choose another name"),
        "QuotaExceeded" | "InsufficientStorage" | "XMinioStorageFull" => {
            (ErrorKind::NoSpace, "free space or raise the quota at the destination, then run the same command to resume")
        }
        "NotImplemented" | "MethodNotAllowed" => (ErrorKind::Unsupported, "the service does not offer this part of S3"),
        _ => return None,
    })
}

fn unanswered(what: &str, failed: &(dyn StdError + 'static)) -> Error {
    if let Some(cause) = find::<CredentialsError>(failed) {
        return no_credentials(what, cause);
    }
    if let Some(cause) = find::<reqwest::Error>(failed) {
        return request_error(what, cause);
    }
    if find::<tokio::time::error::Elapsed>(failed).is_some() {
        return Error::new(ErrorKind::ConnectionLost, what).with_cause("the server did not answer in time");
    }
    Error::new(ErrorKind::InvalidInput, what)
        .with_cause(innermost(failed))
        .with_hint("check the name of the bucket, AWS_ENDPOINT_URL and AWS_REGION")
}

/// The error of a body that broke off.
pub(super) fn broken(what: &str, failed: &(dyn StdError + 'static)) -> Error {
    match find::<reqwest::Error>(failed) {
        Some(cause) => request_error(what, cause),
        None => Error::new(ErrorKind::ConnectionLost, what).with_cause(innermost(failed)),
    }
}

/// The error of credentials that are configured and cannot be had.
pub(super) fn no_credentials(what: &str, cause: &CredentialsError) -> Error {
    Error::new(ErrorKind::Refused, what)
        .with_cause(innermost(cause))
        .with_hint("check the profile, or log in again (`aws sso login`), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
}

fn unsigned(error: Error, signing: Signing) -> Error {
    let refused = matches!(error.kind(), ErrorKind::Refused | ErrorKind::PermissionDenied);
    match signing {
        Signing::NoCredentials if refused => error.with_hint(
            "no credentials were found, so the request was not signed: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        Signing::NotWanted if refused => error.with_hint("the request was not signed, as AWS_NO_SIGN_REQUEST asks: unset it"),
        _ => error,
    }
}

fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    causes(error).find_map(|error| error.downcast_ref())
}

fn innermost(error: &(dyn StdError + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

/// An error and what caused it, outermost first.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    // Dereferenced, for a reference to an error is an error too and would lend its own source.
    std::iter::successors(Some(error), |error| (*error).source())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, code: &str) -> Error {
        Answered { status, code, message: "words", ..Answered::default() }.error("could not read `s3://b/k`")
    }

    #[test]
    fn codes_say_more_than_their_status() {
        for (status, code, kind) in [
            (404, "NoSuchKey", ErrorKind::NotFound),
            (403, "AccessDenied", ErrorKind::PermissionDenied),
            (403, "SignatureDoesNotMatch", ErrorKind::Refused),
            (400, "ExpiredToken", ErrorKind::Refused),
            (400, "RequestTimeout", ErrorKind::ConnectionLost),
            (200, "InternalError", ErrorKind::ConnectionLost),
            (400, "BadDigest", ErrorKind::Corrupted),
            (412, "PreconditionFailed", ErrorKind::SourceChanged),
            (503, "SlowDown", ErrorKind::Throttled),
            (503, "", ErrorKind::Throttled),
            (500, "", ErrorKind::ConnectionLost),
        ] {
            assert_eq!(error(status, code).kind(), kind, "{status} {code}");
        }
    }

    #[test]
    fn a_throttled_answer_says_how_long_to_wait() {
        let slow = Answered { status: 503, code: "SlowDown", retry_after: Some("3"), ..Answered::default() };
        assert_eq!(slow.error("x").retry_after(), Some(std::time::Duration::from_secs(3)));
    }

    #[test]
    fn a_bucket_elsewhere_names_its_region() {
        let head = Answered { status: 301, region: Some("eu-north-1"), ..Answered::default() }.error("x");
        assert!(head.hint().is_some_and(|hint| hint.contains("AWS_REGION=eu-north-1")));
        assert_eq!(error(301, "PermanentRedirect").kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_refusal_without_credentials_says_so() {
        let hint = |signing| unsigned(error(403, "AccessDenied"), signing).hint().map(str::to_owned);
        assert!(hint(Signing::NoCredentials).is_some_and(|hint| hint.starts_with("no credentials were found")));
        assert!(hint(Signing::Signed).is_some_and(|hint| hint.starts_with("ask the owner")));
    }
}
