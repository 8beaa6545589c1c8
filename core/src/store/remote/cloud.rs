//! What the object stores of Google and Microsoft have in common: credentials, the encodings of keys and times, parallel requests.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use object_store::{CredentialProvider, RetryConfig};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;

use super::Body;
use super::runtime::block_on;
use super::web::Answer;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Overwrite;
use crate::store::Metadata;

/// The most bytes of an answer that is not the content of an object; a page of 1,000 keys of the longest kind has less.
pub(super) const LONGEST_ANSWER: usize = 16 << 20;

const THREADS: usize = 16;
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const PATH: &AsciiSet = &COMPONENT.remove(b'/');

/// Where the credentials of one service come from.
pub(super) struct Credentials<T> {
    sources: Vec<Arc<dyn CredentialProvider<Credential = T>>>,
    chosen: OnceLock<Option<usize>>,
}

impl<T> Credentials<T> {
    /// Credentials that the user configured; that they cannot be had is an error.
    pub(super) fn configured(source: Arc<dyn CredentialProvider<Credential = T>>) -> Self {
        Self { sources: vec![source], chosen: OnceLock::from(Some(0)) }
    }

    /// Sources that this machine may have, asked in order at the first request; without any, requests go unsigned.
    pub(super) fn discovered(sources: Vec<Arc<dyn CredentialProvider<Credential = T>>>) -> Self {
        Self { sources, chosen: OnceLock::new() }
    }

    /// Requests go unsigned, as the user wished.
    pub(super) fn none() -> Self {
        Self { sources: Vec::new(), chosen: OnceLock::from(None) }
    }

    /// The credential for a request; asks its source again when it is about to expire.
    pub(super) fn current(&self, what: &str) -> Result<Option<Arc<T>>> {
        let answers = |source: &Arc<dyn CredentialProvider<Credential = T>>| block_on(source.get_credential()).is_ok();
        let chosen = self.chosen.get_or_init(|| self.sources.iter().position(answers));
        let Some(source) = chosen.and_then(|index| self.sources.get(index)) else { return Ok(None) };
        block_on(source.get_credential()).map(Some).map_err(|error| {
            Error::new(ErrorKind::Refused, what)
                .with_cause(format!("the credentials could not be had: {error}"))
                .with_hint("check the credentials that the environment names, and log in again if they have expired")
        })
    }

    /// Whether no source of credentials was found.
    pub(super) fn missing(&self) -> bool {
        !self.sources.is_empty() && self.chosen.get() == Some(&None)
    }
}

/// How often and how long a source of credentials is asked.
pub(super) fn retries() -> RetryConfig {
    RetryConfig { max_retries: 3, retry_timeout: Duration::from_secs(30), ..RetryConfig::default() }
}

/// An environment variable that is set and not empty.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether a text means yes, in the words that `object_store` takes for it.
pub(super) fn yes(text: &str) -> bool {
    ["1", "true", "on", "yes", "y"].iter().any(|word| text.trim().eq_ignore_ascii_case(word))
}

/// Encodes a text as one component of a path, or as a name or value of a query.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, COMPONENT).to_string()
}

/// Encodes a key as a path; its slashes stay.
pub(super) fn encode_path(key: &str) -> String {
    utf8_percent_encode(key, PATH).to_string()
}

/// A query without its question mark.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let encoded: Vec<String> = pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    encoded.join("&")
}

/// A modification time as rclone keeps it in the metadata of these services: RFC 3339 with nine decimals.
pub(super) fn stamp(ns: i64) -> String {
    DateTime::<Utc>::from_timestamp_nanos(ns).to_rfc3339_opts(SecondsFormat::Nanos, true)
}

/// Nanoseconds since 1970 of a time in RFC 3339, as of HTTP, or in seconds with or without decimals.
pub(super) fn moment(text: &str) -> Option<i64> {
    let date = DateTime::parse_from_rfc3339(text).or_else(|_| DateTime::parse_from_rfc2822(text));
    date.ok().and_then(|date| date.timestamp_nanos_opt()).or_else(|| seconds(text))
}

fn seconds(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let negative = whole.starts_with('-');
    let whole: i64 = whole.parse().ok()?;
    let nine: String = decimals.chars().chain(std::iter::repeat('0')).take(9).collect();
    let nanos: i64 = nine.chars().all(|digit| digit.is_ascii_digit()).then(|| nine.parse().ok()).flatten()?;
    whole.checked_mul(1_000_000_000)?.checked_add(if negative { -nanos } else { nanos })
}

/// What an object was given when it was uploaded, from the texts of its metadata.
pub(super) fn metadata(modified: Option<&str>, mode: Option<&str>) -> Metadata {
    let mode = mode.and_then(|mode| u32::from_str_radix(mode, 8).ok()).map(|mode| mode & 0o7777);
    Metadata { modified_ns: modified.and_then(moment), mode }
}

/// Parses an answer in XML.
pub(super) fn from_xml<T: DeserializeOwned>(what: &str, text: &[u8]) -> Result<T> {
    // Azure begins its answers with a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    quick_xml::de::from_reader(text).map_err(|error| unreadable(what, &error))
}

/// An answer that is not what the service's documentation says.
pub(super) fn unreadable(what: &str, cause: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Protocol, what).with_cause(format!("the service's answer could not be read: {cause}"))
}

/// The content that an answer to a request for a range of an object holds; one with another range is refused.
pub(super) fn content(what: &str, answer: Answer, range: &Range<u64>) -> Result<Box<dyn Body>> {
    let begins = match answer.status() {
        200 => Some(0),
        206 => answer.header("content-range").and_then(first_byte),
        status => return Err(unreadable(what, &format!("status {status} where a range was asked for"))),
    };
    if begins == Some(range.start) { Ok(answer.into_body(range.end - range.start)) } else { Err(another_range(what, range)) }
}

/// The first byte of `bytes 5-9/20`.
pub(super) fn first_byte(content_range: &str) -> Option<u64> {
    content_range.trim().strip_prefix("bytes")?.trim_start().split('-').next()?.parse().ok()
}

/// The error of an answer with another range than was asked for.
pub(super) fn another_range(what: &str, range: &Range<u64>) -> Error {
    Error::new(ErrorKind::Unsupported, what)
        .with_cause(format!("the service answered with another range than {}-{}", range.start, range.end - 1))
        .with_hint("a proxy may remove the header Range")
}

/// Makes `AlreadyExists` of an error that says that the condition of `Overwrite::Never` does not hold.
pub(super) fn taken(error: Error, overwrite: Overwrite) -> Error {
    if overwrite == Overwrite::Never && error.kind() == ErrorKind::SourceChanged {
        return exists(error.what());
    }
    error
}

/// An object stands where none may be replaced.
pub(super) fn exists(what: &str) -> Error {
    Error::new(ErrorKind::AlreadyExists, what).with_cause("an object of this name exists")
}

/// Calls for every key, several at a time; answers in the order of the keys.
pub(super) fn for_each(keys: &[String], call: impl Fn(&str) -> Result<()> + Sync) -> Vec<Result<()>> {
    let share = keys.len().div_ceil(THREADS).max(1);
    let call = &call;
    std::thread::scope(|scope| {
        let calls = keys.chunks(share).map(|keys| scope.spawn(move || keys.iter().map(|key| call(key)).collect::<Vec<_>>()));
        let calls: Vec<_> = calls.collect();
        calls.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_their_text() {
        for ns in [0, 1_700_000_000_123_456_789, -1_500_000_001] {
            assert_eq!(moment(&stamp(ns)), Some(ns));
        }
        assert_eq!(stamp(1_700_000_000_000_000_001), "2023-11-14T22:13:20.000000001Z");
    }

    #[test]
    fn times_of_others_are_read() {
        assert_eq!(moment("Tue, 14 Nov 2023 22:13:20 GMT"), Some(1_700_000_000_000_000_000));
        assert_eq!(moment("2023-11-14T23:13:20+01:00"), Some(1_700_000_000_000_000_000));
        assert_eq!(moment("1700000000"), Some(1_700_000_000_000_000_000));
        assert_eq!(moment("1700000000.25"), Some(1_700_000_000_250_000_000));
        assert_eq!(moment("-1.5"), Some(-1_500_000_000));
        assert_eq!(moment("yesterday"), None);
        assert_eq!(moment("1.-5"), None);
    }

    #[test]
    fn keys_are_encoded_whole() {
        assert_eq!(encode("a b/c+%ä"), "a%20b%2Fc%2B%25%C3%A4");
        assert_eq!(encode_path("a b/~c?"), "a%20b/~c%3F");
        assert_eq!(query(&[("prefix", "a&b"), ("delimiter", "/")]), "prefix=a%26b&delimiter=%2F");
    }

    #[test]
    fn a_range_is_known_by_its_first_byte() {
        assert_eq!((first_byte("bytes 5-9/20"), first_byte(" bytes 0-0/*")), (Some(5), Some(0)));
        assert_eq!((first_byte("pages 5-9/20"), first_byte("bytes */20")), (None, None));
    }

    #[test]
    fn answers_keep_the_order_of_the_keys() {
        let keys: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        let answers = for_each(&keys, |key| if key == "17" { Err(Error::new(ErrorKind::Io, "17")) } else { Ok(()) });
        assert_eq!(answers.iter().position(Result::is_err), Some(17));
        assert_eq!(answers.len(), 40);
    }

    #[test]
    fn metadata_is_read_as_far_as_it_is_understood() {
        assert_eq!(metadata(Some("1.5"), Some("100644")), Metadata { modified_ns: Some(1_500_000_000), mode: Some(0o644) });
        assert_eq!(metadata(Some("?"), Some("rw")), Metadata::default());
    }
}
