//! What a failed FTP command means in edt's kinds. Replies have few codes: where one says nothing, its words are looked at.

use std::io;

use suppaftp::types::Response;
use suppaftp::{FtpError, Status};

use crate::error::{Error, ErrorKind};

/// Characters of a server's own words that are shown.
const MOST_WORDS: usize = 300;

/// Words of servers, and what they mean. The first that occurs counts.
const WORDS: [(&str, ErrorKind); 20] = [
    ("no such", ErrorKind::NotFound),
    ("not found", ErrorKind::NotFound),
    ("not exist", ErrorKind::NotFound),
    ("doesn't exist", ErrorKind::NotFound),
    ("cannot find", ErrorKind::NotFound),
    ("not empty", ErrorKind::AlreadyExists),
    ("already exist", ErrorKind::AlreadyExists),
    ("file exists", ErrorKind::AlreadyExists),
    ("not a directory", ErrorKind::WrongType),
    ("is a directory", ErrorKind::WrongType),
    ("not a plain file", ErrorKind::WrongType),
    ("not a regular file", ErrorKind::WrongType),
    ("permission", ErrorKind::PermissionDenied),
    ("denied", ErrorKind::PermissionDenied),
    ("not allowed", ErrorKind::PermissionDenied),
    ("not permitted", ErrorKind::PermissionDenied),
    ("read-only", ErrorKind::PermissionDenied),
    ("quota", ErrorKind::NoSpace),
    ("no space", ErrorKind::NoSpace),
    ("disk full", ErrorKind::NoSpace),
];

/// The error of a command. One of kind `Io` is a refusal whose reason the server did not tell.
pub(super) fn of(what: &str, error: &FtpError) -> Error {
    match error {
        FtpError::ConnectionError(cause) => of_connection(what, cause),
        FtpError::SecureError(cause) => Error::new(ErrorKind::Refused, what).with_cause(cause),
        FtpError::UnexpectedResponse(response) => of_reply(what, response),
        // A listing that breaks off ends like this.
        FtpError::BadResponse => {
            Error::new(ErrorKind::ConnectionLost, what).with_cause("the server's answer makes no sense, or broke off")
        }
        other => Error::new(ErrorKind::Protocol, what).with_cause(other),
    }
}

/// The error of a login.
pub(super) fn of_login(what: &str, error: &FtpError) -> Error {
    if let FtpError::UnexpectedResponse(response) = error {
        let words = words(response).to_ascii_lowercase();
        if response.status == Status::NotAvailable || ["too many", "maximum", "limit"].iter().any(|full| words.contains(full)) {
            return Error::new(ErrorKind::Throttled, what)
                .with_cause(said(response))
                .with_hint("the server takes no more connections of this user: let the transfer have fewer, with --max-streams");
        }
    }
    of(what, error)
}

/// Whether the server answered, and the connection can be used further: one for which data connections fail cannot.
pub(super) fn is_reply(error: &FtpError) -> bool {
    let FtpError::UnexpectedResponse(response) = error else { return false };
    !matches!(response.status, Status::NotAvailable | Status::CannotOpenDataConnection) && !wants_reuse(&words(response))
}

/// Whether a server that takes a session of TLS only once more has taken the last one of this login.
fn wants_reuse(words: &str) -> bool {
    words.to_ascii_lowercase().contains("session reuse")
}

/// Whether an error is the server's refusal, and no failure on the way to it.
pub(super) fn is_refusal(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::ConnectionLost
            | ErrorKind::Unreachable
            | ErrorKind::Throttled
            | ErrorKind::Cancelled
            | ErrorKind::Refused
            | ErrorKind::Protocol
            | ErrorKind::NoSpace
    )
}

fn of_connection(what: &str, cause: &io::Error) -> Error {
    match cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(tls @ rustls::Error::InvalidCertificate(_)) => Error::new(ErrorKind::Refused, what)
            .with_cause(tls)
            .with_hint("if you trust the server, put its certificate authority into a file and name it in SSL_CERT_FILE"),
        Some(tls) => Error::new(ErrorKind::Refused, what).with_cause(tls),
        None => Error::io(what, cause),
    }
}

fn of_reply(what: &str, response: &Response) -> Error {
    let kind = kind_of(response.status.code(), &words(response).to_ascii_lowercase());
    let error = Error::new(kind, what).with_cause(said(response));
    match kind {
        ErrorKind::Refused => {
            error.with_hint("put user and password for this host into ~/.netrc, and name another user as ftp://user@host/")
        }
        ErrorKind::NoSpace => error.with_hint("free space or raise the quota at the server, then run the same command to resume"),
        _ => error,
    }
}

fn kind_of(code: u32, words: &str) -> ErrorKind {
    let told = WORDS.iter().find(|(word, _)| words.contains(word)).map(|(_, kind)| *kind);
    match code {
        _ if wants_reuse(words) => ErrorKind::ConnectionLost,
        421 | 425 | 426 => ErrorKind::ConnectionLost,
        331 | 332 | 430 | 530 | 532 => ErrorKind::Refused,
        452 | 552 => ErrorKind::NoSpace,
        500 | 502 | 504 => ErrorKind::Unsupported,
        501 => told.unwrap_or(ErrorKind::InvalidInput),
        553 => told.unwrap_or(ErrorKind::PermissionDenied),
        _ => told.unwrap_or(ErrorKind::Io),
    }
}

fn words(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).trim().chars().take(MOST_WORDS).collect()
}

fn said(response: &Response) -> String {
    format!("the server answered `{}`", words(response).escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(reply: &str) -> ErrorKind {
        let status = Status::from(reply[..3].parse::<u32>().unwrap());
        of("could not do it", &FtpError::UnexpectedResponse(Response::new(status, reply.as_bytes().to_vec()))).kind()
    }

    #[test]
    fn replies_of_known_servers_are_understood() {
        for (reply, expected) in [
            ("550 No such file or directory.", ErrorKind::NotFound),
            ("550 a/b: File exists", ErrorKind::AlreadyExists),
            ("550 Directory not empty.", ErrorKind::AlreadyExists),
            ("550 Permission denied.", ErrorKind::PermissionDenied),
            ("550 Failed to open file.", ErrorKind::Io),
            ("553 Could not create file.", ErrorKind::PermissionDenied),
            ("552 Quota exceeded", ErrorKind::NoSpace),
            ("530 Login incorrect.", ErrorKind::Refused),
            ("426 Connection closed; transfer aborted.", ErrorKind::ConnectionLost),
            ("502 Command not implemented.", ErrorKind::Unsupported),
            ("522 SSL connection failed: session reuse required", ErrorKind::ConnectionLost),
        ] {
            assert_eq!(kind(reply), expected, "{reply}");
        }
    }

    #[test]
    fn a_full_server_is_asked_again_later() {
        for reply in ["421 There are too many connected users.", "530 Sorry, the maximum number of clients is reached"] {
            let status = Status::from(reply[..3].parse::<u32>().unwrap());
            let error = FtpError::UnexpectedResponse(Response::new(status, reply.as_bytes().to_vec()));
            assert_eq!(of_login("could not connect", &error).kind(), ErrorKind::Throttled, "{reply}");
        }
    }
}
