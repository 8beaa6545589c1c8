//! Objects as the JSON API describes them.

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::store::Metadata;
use crate::store::remote::{Kept, Object, Page, cloud};

/// What is asked for of an object.
pub(super) const FIELDS: &str = "name,size,timeCreated,generation,crc32c,metadata";
/// What is asked for of an object that is to be copied: all that its copy keeps, and what tells whether it is the same.
pub(super) const COPIED_FIELDS: &str =
    "size,generation,crc32c,contentType,contentEncoding,contentLanguage,contentDisposition,cacheControl,metadata";
/// What is asked for of a copy.
pub(super) const REWRITE_FIELDS: &str = "done,rewriteToken,resource(size,crc32c)";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    name: String,
    size: String,
    time_created: Option<String>,
    generation: Option<String>,
    crc32c: Option<String>,
    #[serde(default)]
    metadata: Given,
}

/// Metadata that edt, rclone or gsutil leave.
#[derive(Default, Deserialize)]
struct Given {
    mtime: Option<String>,
    #[serde(rename = "edt-mode")]
    mode: Option<String>,
    #[serde(rename = "goog-reserved-file-mtime")]
    gsutil: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    #[serde(default)]
    items: Vec<Resource>,
    #[serde(default)]
    prefixes: Option<Vec<String>>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rewritten {
    done: bool,
    rewrite_token: Option<String>,
    resource: Option<Content>,
}

#[derive(Deserialize)]
struct Content {
    size: String,
    crc32c: Option<String>,
}

/// An object that is to be copied.
#[derive(Deserialize)]
pub(super) struct Copied {
    #[serde(flatten)]
    content: Content,
    generation: Option<String>,
    /// What its copy keeps, as it was described.
    #[serde(flatten)]
    kept: Map<String, Value>,
}

impl Copied {
    /// Parses the description of an object that was listed with `size` bytes.
    pub(super) fn parse(what: &str, text: &[u8], size: u64) -> Result<Self> {
        let copied: Self = from_json(what, text)?;
        if copied.content.size == size.to_string() {
            return Ok(copied);
        }
        Err(Error::new(ErrorKind::SourceChanged, what)
            .with_cause(format!("its source has no longer the {size} bytes that were listed")))
    }

    /// The state that is copied.
    pub(super) fn generation(&self) -> Option<&str> {
        self.generation.as_deref()
    }

    /// The description of the copy: that of its source, with a time and mode of its own.
    pub(super) fn description(&self, key: &str, metadata: &Metadata) -> Value {
        let mut description = self.kept.clone();
        let given = description.entry("metadata").or_insert_with(|| json!({}));
        for (name, text) in metadata_texts(metadata) {
            given[name] = text.into();
        }
        description.insert("name".to_owned(), key.into());
        description.into()
    }

    /// Parses the answer to a step of the copy: what the next step is asked for with, `None` at the end.
    pub(super) fn rewritten(&self, what: &str, text: &[u8]) -> Result<Option<String>> {
        let answer: Rewritten = from_json(what, text)?;
        if !answer.done {
            return answer.rewrite_token.map(Some).ok_or_else(|| cloud::unreadable(what, &"it names no token"));
        }
        let Some(copy) = answer.resource else { return Ok(None) };
        if copy.size != self.content.size {
            let cause = format!("the service copied {} bytes of a file of {} bytes", copy.size, self.content.size);
            return Err(Error::new(ErrorKind::SourceChanged, what).with_cause(cause));
        }
        if copy.crc32c.is_some() && self.content.crc32c.is_some() && copy.crc32c != self.content.crc32c {
            return Err(Error::new(ErrorKind::Corrupted, what).with_cause("the copy has another crc32c than its source"));
        }
        Ok(None)
    }
}

/// Parses an object's description.
pub(super) fn object(what: &str, text: &[u8]) -> Result<Object> {
    from_json::<Resource>(what, text)?.into_object(what)
}

/// Parses a page of a listing.
pub(super) fn page(what: &str, text: &[u8]) -> Result<Page> {
    let listed: Listed = from_json(what, text)?;
    let objects = listed.items.into_iter().map(|item| item.into_object(what)).collect::<Result<_>>()?;
    let next = listed.next_page_token.filter(|token| !token.is_empty());
    Ok(Page { objects, prefixes: listed.prefixes.unwrap_or_default(), next })
}

/// An object's description, for a new object.
pub(super) fn described(key: &str, metadata: &Metadata) -> Value {
    let given: serde_json::Map<String, Value> =
        metadata_texts(metadata).into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect();
    json!({"name": key, "contentType": "application/octet-stream", "metadata": given})
}

/// Names and values of an object's own metadata.
pub(super) fn metadata_texts(metadata: &Metadata) -> Vec<(&'static str, String)> {
    let modified = metadata.modified_ns.map(|ns| ("mtime", cloud::stamp(ns)));
    let mode = metadata.mode.map(|mode| ("edt-mode", format!("{mode:o}")));
    modified.into_iter().chain(mode).collect()
}

/// The crc32c as Google writes it.
pub(super) fn crc32c(content: &[u8]) -> String {
    BASE64_STANDARD.encode(crc_fast::crc32_iscsi(content).to_be_bytes())
}

/// What [`crc32c`] wrote.
fn parse_crc32c(text: &str) -> Option<u32> {
    Some(u32::from_be_bytes(BASE64_STANDARD.decode(text).ok()?.try_into().ok()?))
}

/// Description and content as the pieces of one body, and its content type.
pub(super) fn with_content(key: &str, content: &Bytes, metadata: &Metadata) -> (String, [Bytes; 3]) {
    let mut description = described(key, metadata);
    let crc32c = crc32c(content);
    // A boundary that stands in the content nowhere but by chance of 2^-256.
    let boundary = blake3::hash(content).to_hex();
    description["crc32c"] = crc32c.into();
    let head = format!(
        "--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{description}\r\n\
         --{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    );
    let tail = format!("\r\n--{boundary}--\r\n");
    (format!("multipart/related; boundary={boundary}"), [head.into(), content.clone(), tail.into()])
}

impl Resource {
    fn into_object(self, what: &str) -> Result<Object> {
        let size = self.size.parse().map_err(|_| cloud::unreadable(what, &format!("`{}` is no size", self.size)))?;
        let modified = self.metadata.mtime.as_deref().or(self.metadata.gsutil.as_deref());
        Ok(Object {
            key: self.name,
            size,
            uploaded_ns: self.time_created.as_deref().and_then(cloud::moment),
            metadata: cloud::metadata(modified, self.metadata.mode.as_deref()),
            tag: self.generation,
            kept: self.crc32c.as_deref().and_then(parse_crc32c).map(Kept::Crc32c),
        })
    }
}

fn from_json<T: DeserializeOwned>(what: &str, text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| cloud::unreadable(what, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_objects_prefixes_and_what_follows() {
        let text = br#"{"items": [{"name": "a/b", "size": "7", "timeCreated": "2023-11-14T22:13:20.5Z", "generation": "42",
            "crc32c": "4waSgw==", "metadata": {"mtime": "2023-11-14T22:13:20.000000001Z", "edt-mode": "640", "other": "x"}},
            {"name": "c", "size": "0", "metadata": {"goog-reserved-file-mtime": "5"}}],
            "prefixes": ["a/d/"], "nextPageToken": "t", "kind": "storage#objects"}"#;
        let page = page("x", text).unwrap();
        let [first, second] = &page.objects[..] else { panic!() };
        assert_eq!((first.key.as_str(), first.size, first.tag.as_deref()), ("a/b", 7, Some("42")));
        assert_eq!((first.kept, second.kept), (Some(Kept::Crc32c(0xe306_9283)), None));
        assert_eq!(first.metadata, Metadata { modified_ns: Some(1_700_000_000_000_000_001), mode: Some(0o640) });
        assert_eq!(first.uploaded_ns, Some(1_700_000_000_500_000_000));
        assert_eq!(second.metadata.modified_ns, Some(5_000_000_000));
        assert_eq!((page.prefixes, page.next), (vec!["a/d/".to_owned()], Some("t".to_owned())));
    }

    #[test]
    fn an_empty_page_is_the_last() {
        for text in [&b"{}"[..], br#"{"items": [], "prefixes": null, "nextPageToken": ""}"#] {
            let page = page("x", text).unwrap();
            assert!(page.objects.is_empty() && page.prefixes.is_empty() && page.next.is_none());
        }
    }

    #[test]
    fn an_upload_says_what_it_is() {
        let metadata = Metadata { modified_ns: Some(1), mode: Some(0o600) };
        let (kind, body) = with_content("k\"ey", &Bytes::from_static(b"123456789"), &metadata);
        let boundary = kind.strip_prefix("multipart/related; boundary=").unwrap();
        let body = String::from_utf8(body.concat()).unwrap();
        let [before, description, content, end] = body.split(&format!("--{boundary}")).collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!((before, end), ("", "--\r\n"));
        assert!(content.ends_with("\r\n\r\n123456789\r\n"));
        let description: Value = serde_json::from_str(description.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(description["name"], "k\"ey");
        assert_eq!(description["crc32c"], "4waSgw==");
        assert_eq!(description["metadata"], json!({"mtime": "1970-01-01T00:00:00.000000001Z", "edt-mode": "600"}));
    }

    #[test]
    fn a_copy_goes_on_until_it_is_done_and_is_compared() {
        let source = br#"{"size": "5", "generation": "7", "crc32c": "4waSgw=="}"#;
        assert_eq!(Copied::parse("x", source, 6).err().unwrap().kind(), ErrorKind::SourceChanged);
        let source = Copied::parse("x", source, 5).unwrap();
        assert_eq!(source.generation(), Some("7"));
        let step = |text: &str| source.rewritten("x", text.as_bytes());
        assert_eq!(step(r#"{"done": false, "rewriteToken": "t"}"#).unwrap().as_deref(), Some("t"));
        assert_eq!(step(r#"{"done": true, "resource": {"size": "5"}}"#).unwrap(), None);
        assert_eq!(step(r#"{"done": true, "resource": {"size": "5", "crc32c": "4waSgw=="}}"#).unwrap(), None);
        let kind = |text| step(text).unwrap_err().kind();
        assert_eq!(kind(r#"{"done": true, "resource": {"size": "6"}}"#), ErrorKind::SourceChanged);
        assert_eq!(kind(r#"{"done": true, "resource": {"size": "5", "crc32c": "AAAAAA=="}}"#), ErrorKind::Corrupted);
    }

    #[test]
    fn a_copy_keeps_what_its_source_has_but_for_its_time() {
        let source =
            br#"{"size": "5", "generation": "7", "crc32c": "4waSgw==", "contentType": "text/csv", "cacheControl": "no-cache",
            "metadata": {"colour": "red", "mtime": "old"}}"#;
        let metadata = Metadata { modified_ns: Some(1), mode: None };
        let description = Copied::parse("x", source, 5).unwrap().description("k", &metadata);
        let given = json!({"colour": "red", "mtime": "1970-01-01T00:00:00.000000001Z"});
        let expected = json!({"name": "k", "contentType": "text/csv", "cacheControl": "no-cache", "metadata": given});
        assert_eq!(description, expected);
    }
}
