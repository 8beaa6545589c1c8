//! What a failed request means in edt's kinds, and what people can do about it.

use std::error::Error as StdError;
use std::io;
use std::time::{Duration, SystemTime};

use reqwest::{StatusCode, Url};

use crate::error::{Error, ErrorKind};

/// Characters of a server's own words that are shown.
const MOST_WORDS: usize = 300;

/// The error of a status. `what` is the operation and place, `detail` what the server says of it, `retry_after` its header.
pub(crate) fn status_error(what: &str, status: u16, retry_after: Option<&str>, detail: &str) -> Error {
    let kind = kind_of(status, detail);
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default();
    let answered = format!("the server answered {}", format!("{status} {reason}").trim_end());
    let cause = if detail.is_empty() { answered } else { format!("{answered}: {detail}") };
    let mut error = Error::new(kind, what).with_cause(cause);
    if let Some(hint) = hint_of(status) {
        error = error.with_hint(hint);
    }
    match retry_after.and_then(wait_of) {
        Some(wait) if kind == ErrorKind::Throttled => error.with_retry_after(wait),
        _ => error,
    }
}

/// The error of a request without an answer, or with one that broke off.
pub(crate) fn request_error(what: &str, error: &reqwest::Error) -> Error {
    let failed = |kind| Error::new(kind, what).with_cause(cause_of(error));
    if error.is_builder() {
        return failed(ErrorKind::InvalidInput);
    }
    if error.is_redirect() {
        return failed(ErrorKind::Refused).with_hint("name the URL that the server redirects to");
    }
    match find::<rustls::Error>(error) {
        Some(rustls::Error::InvalidCertificate(_)) => {
            return failed(ErrorKind::Refused)
                .with_hint("if you trust the server, put its certificate authority into a file and name it in SSL_CERT_FILE");
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            return failed(ErrorKind::Unreachable).with_hint("the server may not speak TLS at this port");
        }
        Some(rustls::Error::AlertReceived(_) | rustls::Error::PeerIncompatible(_)) => return failed(ErrorKind::Refused),
        _ => {}
    }
    if error.is_dns() {
        return failed(ErrorKind::Unreachable).with_hint("check the spelling of the host and the connection to the network");
    }
    if error.is_connect() {
        return failed(ErrorKind::Unreachable).with_hint("check host, port and proxy, and that the server runs");
    }
    failed(ErrorKind::ConnectionLost)
}

/// The error of a redirect that cannot be followed, as of content that is sent only once.
pub(super) fn redirected(what: &str, status: u16, location: Option<&str>) -> Error {
    let target = location.and_then(|location| Url::parse(location).ok()).map_or_else(String::new, |mut url| {
        url.set_query(None);
        let _ = url.set_password(None);
        format!(" to `{url}`")
    });
    Error::new(ErrorKind::Unsupported, what)
        .with_cause(format!("the server redirects the request{target} (status {status})"))
        .with_hint("name the URL that the server redirects to")
}

/// What a server says of an error, from XML, HTML, JSON or plain text.
pub(super) fn told(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}').trim();
    let words = match text.chars().next() {
        Some('<') => of_markup(text).unwrap_or_default(),
        Some('{') => of_json(text).unwrap_or_default(),
        _ => text.lines().next().unwrap_or_default().to_owned(),
    };
    words.split_whitespace().collect::<Vec<_>>().join(" ").chars().filter(|c| !c.is_control()).take(MOST_WORDS).collect()
}

fn of_markup(text: &str) -> Option<String> {
    ["Message", "message", "s:message", "d:message", "title"].iter().find_map(|name| {
        let (_, rest) = text.split_once(&format!("<{name}"))?;
        let (attributes, rest) = rest.split_once('>')?;
        let complete = attributes.is_empty() || attributes.starts_with(' ');
        let words = rest.split_once(&format!("</{name}"))?.0;
        (complete && !words.trim().is_empty()).then(|| words.to_owned())
    })
}

fn of_json(text: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    ["/error/message", "/error_description", "/message", "/error"]
        .iter()
        .find_map(|place| value.pointer(place)?.as_str().map(str::to_owned))
}

fn kind_of(status: u16, detail: &str) -> ErrorKind {
    match status {
        401 | 407 => ErrorKind::Refused,
        402 | 403 | 451 => ErrorKind::PermissionDenied,
        404 | 410 => ErrorKind::NotFound,
        405 | 413 | 415 | 501 | 505 => ErrorKind::Unsupported,
        409 if detail.to_ascii_lowercase().contains("exist") => ErrorKind::AlreadyExists,
        412 | 416 => ErrorKind::SourceChanged,
        429 | 503 | 509 => ErrorKind::Throttled,
        507 => ErrorKind::NoSpace,
        // 423: some servers lock what a broken upload wrote, until they notice that it broke.
        408 | 423 | 425 | 500..600 => ErrorKind::ConnectionLost,
        _ => ErrorKind::Io,
    }
}

fn hint_of(status: u16) -> Option<&'static str> {
    match status {
        401 => Some("check user and password (netrc) or the token, and that it has not expired"),
        403 => Some("check that this user may do it, and that a signature in the URL has not expired"),
        404 | 410 => Some("check the spelling of the path"),
        405 | 501 => Some("the server does not offer this; another protocol of it may"),
        407 => Some("name the proxy with user and password in HTTPS_PROXY"),
        413 => Some("the server or a proxy before it bounds the size of uploads"),
        423 => Some("another client holds a lock on it; try again when it is released"),
        507 => Some("free space or raise the quota at the destination, then run the same command to resume"),
        _ => None,
    }
}

/// Seconds, or a date.
fn wait_of(retry_after: &str) -> Option<Duration> {
    let text = retry_after.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).unwrap_or_default()),
    }
}

/// The innermost cause, which names no URL.
fn cause_of(error: &reqwest::Error) -> String {
    let innermost = causes(error).last().unwrap_or(error);
    match innermost.downcast_ref::<reqwest::Error>() {
        Some(error) if error.is_builder() => "the URL or a header cannot be used".to_owned(),
        Some(_) => "the request failed".to_owned(),
        None => innermost.to_string(),
    }
}

/// An error and what caused it, outermost first; what an I/O error only wraps is looked into.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| cause(*error))
}

fn cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn find<T: StdError + 'static>(error: &reqwest::Error) -> Option<&T> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_whether_another_attempt_helps() {
        for (status, kind) in [
            (401, ErrorKind::Refused),
            (403, ErrorKind::PermissionDenied),
            (404, ErrorKind::NotFound),
            (412, ErrorKind::SourceChanged),
            (418, ErrorKind::Io),
            (429, ErrorKind::Throttled),
            (500, ErrorKind::ConnectionLost),
            (501, ErrorKind::Unsupported),
            (507, ErrorKind::NoSpace),
            (524, ErrorKind::ConnectionLost),
        ] {
            assert_eq!(status_error("could not read `x`", status, None, "").kind(), kind, "{status}");
        }
        assert_eq!(status_error("x", 409, None, "the blob already exists").kind(), ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_throttling_server_says_how_long_to_wait() {
        let after = |text| status_error("x", 503, Some(text), "").retry_after();
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!(after(&date).is_some_and(|wait| wait > Duration::from_secs(90)));
        assert_eq!(status_error("x", 500, Some("7"), "").retry_after(), None);
    }

    #[test]
    fn the_servers_own_words_are_found() {
        let xml = "<?xml version='1.0'?><Error><Code>X</Code><Message>The key\n is long</Message></Error>";
        assert_eq!(told(xml), "The key is long");
        assert_eq!(told("<html><head><title>403 Forbidden</title></head></html>"), "403 Forbidden");
        assert_eq!(told(r#"{"error": {"code": 403, "message": "no access"}}"#), "no access");
        assert_eq!(told("busy\nmore"), "busy");
        assert_eq!(told("<d:error xmlns:d='DAV:'><s:message>File is locked</s:message></d:error>"), "File is locked");
        assert_eq!(told(""), "");
    }

    #[test]
    fn no_signature_is_shown() {
        let error = redirected("could not write `x`", 307, Some("https://u:p@host/a?X-Amz-Signature=secret"));
        assert_eq!(error.cause(), Some("the server redirects the request to `https://u@host/a` (status 307)"));
    }
}
