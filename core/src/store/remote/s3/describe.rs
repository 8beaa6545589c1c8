//! Objects, pages and metadata as S3 writes them.

use std::borrow::Cow;
use std::collections::HashMap;

use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::primitives::DateTime;
use aws_sdk_s3::types::{CommonPrefix, EncodingType};

use super::sums::parse_crc64nvme;
use crate::store::Metadata;
use crate::store::remote::{Kept, Object, Page};

const MODIFIED: &str = "mtime";
const MODE: &str = "edt-mode";
const SECOND: i128 = 1_000_000_000;

/// Metadata of an object to be.
pub(super) fn written(metadata: &Metadata) -> HashMap<String, String> {
    let modified = metadata.modified_ns.map(|time| (MODIFIED.to_owned(), seconds(time)));
    let mode = metadata.mode.map(|mode| (MODE.to_owned(), format!("{mode:o}")));
    modified.into_iter().chain(mode).collect()
}

/// What an object is made with beside its content.
pub(super) struct Properties {
    pub(super) metadata: HashMap<String, String>,
    pub(super) content_type: Option<String>,
    pub(super) content_encoding: Option<String>,
    pub(super) content_language: Option<String>,
    pub(super) content_disposition: Option<String>,
    pub(super) cache_control: Option<String>,
}

impl Properties {
    /// Those of an object that has no source but a file.
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self::copied(&HeadObjectOutput::builder().build(), metadata)
    }

    /// Those of a copy: what its source has, with the time and mode that it is given.
    pub(super) fn copied(source: &HeadObjectOutput, metadata: &Metadata) -> Self {
        let mut given = source.metadata().cloned().unwrap_or_default();
        given.extend(written(metadata));
        Self {
            metadata: given,
            content_type: source.content_type.clone(),
            content_encoding: source.content_encoding.clone(),
            content_language: source.content_language.clone(),
            content_disposition: source.content_disposition.clone(),
            cache_control: source.cache_control.clone(),
        }
    }
}

fn read(metadata: Option<&HashMap<String, String>>) -> Metadata {
    let value = |name: &str| metadata?.get(name).map(String::as_str);
    Metadata {
        modified_ns: value(MODIFIED).and_then(nanoseconds),
        mode: value(MODE).and_then(|mode| u32::from_str_radix(mode, 8).ok()).map(|mode| mode & 0o7777),
    }
}

/// Seconds with nine decimals.
fn seconds(time_ns: i64) -> String {
    let sign = if time_ns < 0 { "-" } else { "" };
    let time = i128::from(time_ns).abs();
    format!("{sign}{}.{:09}", time / SECOND, time % SECOND)
}

/// Seconds with any number of decimals.
fn nanoseconds(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !whole.bytes().chain(decimals.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let decimals: i128 = format!("{decimals:0<9}")[..9].parse().ok()?;
    let whole: i128 = whole.parse().ok()?;
    i64::try_from(sign * (whole.checked_mul(SECOND)? + decimals)).ok()
}

/// A time of the service, in nanoseconds since 1970.
pub(super) fn time(time: Option<&DateTime>) -> Option<i64> {
    i64::try_from(time?.as_nanos()).ok()
}

/// A size of the service, which has none below 0.
pub(super) fn size(size: Option<i64>) -> u64 {
    size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0)
}

/// An object with its metadata.
pub(super) fn object(key: &str, head: &HeadObjectOutput) -> Object {
    Object {
        key: key.to_owned(),
        size: size(head.content_length()),
        uploaded_ns: time(head.last_modified()),
        metadata: read(head.metadata()),
        tag: head.e_tag().map(str::to_owned),
        kept: crc64nvme(head).map(Kept::Crc64Nvme),
    }
}

/// The crc64nvme of a whole object, where the service tells it.
pub(super) fn crc64nvme(head: &HeadObjectOutput) -> Option<u64> {
    head.checksum_crc64_nvme().and_then(parse_crc64nvme)
}

/// What the next page is asked for with begins with this if it is the key behind which that begins: a token, which came in XML, cannot.
const BEHIND: char = '\0';

/// The key behind which a page begins, of a service that gave no token for it; empty if it gave no key either.
pub(super) fn key_of(next: &str) -> Option<&str> {
    next.strip_prefix(BEHIND)
}

/// A page of a listing. Where a service says that there is another one, and not where it begins, that is behind the last key of this one.
pub(super) fn page(listed: &ListObjectsV2Output) -> Page {
    // A service that cannot encode says nothing of it, and its keys are taken as they are.
    let encoded = listed.encoding_type() == Some(&EncodingType::Url);
    let name = |name: &str| if encoded { unquote(name).into_owned() } else { name.to_owned() };
    let objects = listed.contents().iter().filter_map(|item| {
        Some(Object {
            key: name(item.key()?),
            size: size(item.size()),
            uploaded_ns: time(item.last_modified()),
            metadata: Metadata::default(),
            tag: item.e_tag().map(str::to_owned),
            kept: None,
        })
    });
    let objects: Vec<Object> = objects.collect();
    let prefixes: Vec<String> = listed.common_prefixes().iter().filter_map(CommonPrefix::prefix).map(name).collect();
    let behind = || {
        let last = objects.last().map(|object| &object.key).max(prefixes.last());
        format!("{BEHIND}{}", last.map_or("", String::as_str))
    };
    let token = listed.next_continuation_token().filter(|token| !token.is_empty());
    let next = (listed.is_truncated() == Some(true)).then(|| token.map_or_else(behind, str::to_owned));
    Page { objects, prefixes, next }
}

/// Undoes the encoding of keys, in which a space is a plus. What is no encoding or no UTF-8 stays as it is.
fn unquote(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let spaced = text.replace('+', " ");
    percent_encoding::percent_decode_str(&spaced)
        .decode_utf8()
        .map_or(Cow::Borrowed(text), |decoded| Cow::Owned(decoded.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_s3::types::Object as Listed;

    #[test]
    fn times_survive_to_the_nanosecond() {
        for time in [0, 1, -1, 1_700_000_000_123_456_789, -1_500_000_001, i64::MIN, i64::MAX] {
            assert_eq!(nanoseconds(&seconds(time)), Some(time), "{time}");
        }
        assert_eq!(seconds(1_700_000_000_123_456_789), "1700000000.123456789");
    }

    #[test]
    fn times_of_others_are_read_and_nonsense_is_not() {
        assert_eq!(nanoseconds("17"), Some(17_000_000_000));
        assert_eq!(nanoseconds("17.5"), Some(17_500_000_000));
        assert_eq!(nanoseconds("17.1234567891"), Some(17_123_456_789));
        for bad in ["", "-", ".5", "1e9", "+1", "99999999999999999999", "yesterday"] {
            assert_eq!(nanoseconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn metadata_is_read_as_it_was_written() {
        let metadata = Metadata { modified_ns: Some(5_000_000_001), mode: Some(0o640) };
        let kept = written(&metadata);
        assert_eq!(kept["edt-mode"], "640");
        assert_eq!(read(Some(&kept)), metadata);
        assert_eq!(read(None), Metadata::default());
    }

    fn listed(encoding: Option<EncodingType>) -> Page {
        let listed = ListObjectsV2Output::builder()
            .contents(Listed::builder().key("a+b%2Bc").size(3).e_tag("\"t\"").build())
            .common_prefixes(CommonPrefix::builder().prefix("d%2F").build())
            .next_continuation_token("next")
            .set_encoding_type(encoding);
        page(&listed.build())
    }

    #[test]
    fn keys_are_decoded_only_if_the_service_encoded_them() {
        let encoded = listed(Some(EncodingType::Url));
        assert_eq!((encoded.objects[0].key.as_str(), encoded.prefixes[0].as_str()), ("a b+c", "d/"));
        let plain = listed(None);
        assert_eq!((plain.objects[0].key.as_str(), plain.prefixes[0].as_str()), ("a+b%2Bc", "d%2F"));
        assert_eq!((plain.objects[0].size, plain.objects[0].tag.as_deref(), plain.next), (3, Some("\"t\""), None));
    }

    #[test]
    fn a_page_of_which_the_service_says_that_more_follows_is_never_the_last() {
        let next = |truncated, token: Option<&str>| {
            let listed = ListObjectsV2Output::builder().is_truncated(truncated);
            let listed = listed.contents(Listed::builder().key("k").build());
            let listed = listed.common_prefixes(CommonPrefix::builder().prefix("d/").build());
            page(&listed.set_next_continuation_token(token.map(str::to_owned)).build()).next
        };
        assert_eq!((next(true, Some("t")).as_deref(), next(false, Some("t"))), (Some("t"), None));
        let behind = next(true, None);
        assert_eq!(
            (behind.as_deref().and_then(key_of), next(true, Some("")), next(false, None)),
            (Some("k"), behind.clone(), None)
        );
        let empty = page(&ListObjectsV2Output::builder().is_truncated(true).build()).next;
        assert_eq!((empty.as_deref().and_then(key_of), key_of("t")), (Some(""), None));
    }
}
