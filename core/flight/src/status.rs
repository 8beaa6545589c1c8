//! Errors of edt as the status of a Flight call, and back.
//!
//! The code is what a client in any language decides by; the message is what edt shows to people, with cause and hint. The exact kind
//! travels beside them, so that an error that passed through the service is the one it was.

use std::time::Duration;

use edt::{Error, ErrorKind};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// The header that names the kind of an error, as [`ErrorKind::name`] does.
const KIND: &str = "edt-error";

/// The header that tells how long to wait before a further attempt, in milliseconds.
const RETRY_AFTER: &str = "edt-retry-after-ms";

/// Bytes of what failed, of the cause and of the hint, each: gRPC takes 8 KiB of headers, in which a character may take three.
const MOST_PART: usize = 800;

const CAUSE: &str = "\nsource: ";
const HINT: &str = "\nhint: ";

/// What each kind becomes.
const CODES: [(ErrorKind, Code); 17] = [
    (ErrorKind::NotFound, Code::NotFound),
    (ErrorKind::PermissionDenied, Code::PermissionDenied),
    (ErrorKind::AlreadyExists, Code::AlreadyExists),
    (ErrorKind::WrongType, Code::FailedPrecondition),
    (ErrorKind::NoSpace, Code::ResourceExhausted),
    (ErrorKind::InvalidInput, Code::InvalidArgument),
    (ErrorKind::Unsupported, Code::Unimplemented),
    (ErrorKind::Refused, Code::PermissionDenied),
    (ErrorKind::Unreachable, Code::Unavailable),
    (ErrorKind::ConnectionLost, Code::Unavailable),
    (ErrorKind::Corrupted, Code::DataLoss),
    (ErrorKind::SourceChanged, Code::FailedPrecondition),
    (ErrorKind::Protocol, Code::Internal),
    (ErrorKind::Throttled, Code::ResourceExhausted),
    (ErrorKind::Cancelled, Code::Cancelled),
    (ErrorKind::Optimizer, Code::Internal),
    (ErrorKind::Io, Code::Internal),
];

/// The status of a call that failed with `error`.
pub fn status(error: &Error) -> Status {
    let code = CODES.iter().find(|(kind, _)| *kind == error.kind()).map_or(Code::Unknown, |(_, code)| *code);
    with_code(code, error)
}

/// The status of a call by someone who does not know the secret.
pub fn unauthenticated(error: &Error) -> Status {
    with_code(Code::Unauthenticated, error)
}

fn with_code(code: Code, error: &Error) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(KIND, MetadataValue::from_static(error.kind().name()));
    if let Some(after) = error.retry_after() {
        let milliseconds = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        metadata.insert(RETRY_AFTER, MetadataValue::from(milliseconds));
    }
    Status::with_metadata(code, shortened(error).explain(), metadata)
}

/// The error with no part of it longer than what clients take in all.
fn shortened(error: &Error) -> Error {
    let short = |text: &str| {
        let end = text.floor_char_boundary(MOST_PART);
        if end < text.len() { format!("{}...", &text[..end]) } else { text.to_owned() }
    };
    let mut told = Error::new(error.kind(), short(error.what()));
    if let Some(cause) = error.cause() {
        told = told.with_cause(short(cause));
    }
    match error.hint() {
        Some(hint) => told.with_hint(short(hint)),
        None => told,
    }
}

/// The error behind a status; `what` says what could not be done where the service is not edt's, whose message does not say it.
pub fn error(status: &Status, what: impl FnOnce() -> String) -> Error {
    match kind_by_name(status.metadata()) {
        Some(kind) => with_retry_after(own(kind, status.message()), status.metadata()),
        None => foreign(status, what()),
    }
}

/// The error that an answer of edt's service tells of in words: the name of its kind, and its message.
pub(crate) fn told(kind: &str, message: &str) -> Error {
    let kind = CODES.iter().map(|(known, _)| *known).find(|known| known.name() == kind);
    own(kind.unwrap_or(ErrorKind::Io), message)
}

/// Takes the message of edt's service apart again.
fn own(kind: ErrorKind, message: &str) -> Error {
    let (rest, hint) = message.rsplit_once(HINT).map_or((message, None), |(rest, hint)| (rest, Some(hint)));
    let (what, cause) = rest.split_once(CAUSE).map_or((rest, None), |(what, cause)| (what, Some(cause)));
    let mut error = Error::new(kind, what);
    if let Some(cause) = cause {
        error = error.with_cause(cause);
    }
    if let Some(hint) = hint {
        error = error.with_hint(hint);
    }
    error
}

fn with_retry_after(error: Error, metadata: &MetadataMap) -> Error {
    let after = metadata.get(RETRY_AFTER).and_then(|text| text.to_str().ok()?.parse().ok());
    match after {
        Some(milliseconds) => error.with_retry_after(Duration::from_millis(milliseconds)),
        None => error,
    }
}

fn kind_by_name(metadata: &MetadataMap) -> Option<ErrorKind> {
    let name = metadata.get(KIND)?.to_str().ok()?;
    CODES.iter().map(|(kind, _)| *kind).find(|kind| kind.name() == name)
}

/// The error of a service that only tells a code.
fn foreign(status: &Status, what: String) -> Error {
    let kind = match status.code() {
        Code::NotFound => ErrorKind::NotFound,
        Code::PermissionDenied => ErrorKind::PermissionDenied,
        Code::AlreadyExists => ErrorKind::AlreadyExists,
        Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => ErrorKind::InvalidInput,
        Code::Unimplemented => ErrorKind::Unsupported,
        Code::Unauthenticated => ErrorKind::Refused,
        Code::Unavailable | Code::DeadlineExceeded | Code::Aborted => ErrorKind::ConnectionLost,
        Code::DataLoss => ErrorKind::Corrupted,
        Code::ResourceExhausted => ErrorKind::Throttled,
        Code::Cancelled => ErrorKind::Cancelled,
        Code::Ok | Code::Unknown | Code::Internal => ErrorKind::Io,
    };
    let message = if status.message().is_empty() { status.code().description() } else { status.message() };
    Error::new(kind, what).with_cause(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(error: &Error) -> Error {
        super::error(&status(error), || unreachable!("edt's own errors say what failed"))
    }

    #[test]
    fn every_kind_survives_the_way_through_a_status() {
        for (kind, code) in CODES {
            let sent = Error::new(kind, "could not read `a`")
                .with_cause("line one\nline two")
                .with_hint("try `b`")
                .with_retry_after(Duration::from_millis(1500));
            assert_eq!(status(&sent).code(), code);
            let received = back(&sent);
            assert_eq!(received.kind(), kind);
            assert_eq!(received.explain(), sent.explain());
            assert_eq!((received.cause(), received.hint()), (sent.cause(), sent.hint()));
            assert_eq!(received.retry_after(), sent.retry_after());
        }
    }

    #[test]
    fn a_long_error_is_cut_and_keeps_its_hint() {
        let long = "\u{e4}".repeat(10_000);
        let sent = Error::new(ErrorKind::NotFound, format!("could not find `{long}`")).with_cause(&long).with_hint("look");
        let received = back(&sent);
        assert!(status(&sent).message().len() < 4096 && sent.what().starts_with(received.what().trim_end_matches("...")));
        assert_eq!((received.kind(), received.hint()), (ErrorKind::NotFound, Some("look")));
    }

    #[test]
    fn an_error_without_cause_and_hint_stays_so() {
        let received = back(&Error::new(ErrorKind::NotFound, "could not find `a`"));
        assert_eq!((received.what(), received.cause(), received.hint()), ("could not find `a`", None, None));
    }

    #[test]
    fn the_status_of_another_service_says_what_was_tried_and_why_it_failed() {
        let received = super::error(&Status::not_found("no such table"), || "could not read `t`".to_owned());
        assert_eq!((received.kind(), received.cause()), (ErrorKind::NotFound, Some("no such table")));
        let silent = super::error(&Status::unavailable(""), || "could not read `t`".to_owned());
        assert_eq!(silent.kind(), ErrorKind::ConnectionLost);
        assert!(silent.cause().is_some_and(|cause| !cause.is_empty()));
    }
}
