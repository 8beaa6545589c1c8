//! Azure Blob Storage: block blobs, and uploads in blocks.
//!
//! The service has no identifiers of uploads: here the names of an upload's blocks begin with one, so that what two uploads of the same
//! blob left can be told apart. The service computes CRC-64/NVME too (its `x-ms-content-crc64`, little-endian) and compares.

use std::ops::Range;

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use object_store::azure::{AzureAuthorizer, AzureCredential};
use object_store::client::HttpRequestBody;
use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, IF_MATCH, IF_NONE_MATCH, RANGE};

use super::cloud::{self, Credentials, LONGEST_ANSWER};
use super::summed;
use super::web::{Answer, Web};
use super::{About, Content, Limits, Object, Objects, Page, Part, Purpose, Upload};
use crate::endpoint::ServiceUrl;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Overwrite;
use crate::store::Metadata;

mod access;
mod blocks;
mod connection;
mod failure;
mod listing;

const VERSION: &str = "2023-11-03";
const MOST_PARTS: u64 = 50_000;
const LARGEST_PUT: u64 = 5_000 << 20;
const CRC64: &str = "x-ms-content-crc64";
const MTIME: &str = "x-ms-meta-mtime";
/// Names of metadata are identifiers, without a dash.
const MODE: &str = "x-ms-meta-edt_mode";

/// Where the container is, with its account.
pub(super) fn address(url: &ServiceUrl) -> Result<String> {
    Ok(access::find(url)?.base)
}

/// A container.
pub(super) struct Azure {
    web: Web,
    account: String,
    /// The URL of the container.
    base: String,
    credentials: Credentials<AzureCredential>,
    /// The container as the user named it.
    place: String,
}

/// A request that is still to be signed.
type Unsigned = http::request::Builder;

impl Azure {
    /// Takes account, credentials and endpoint from the URL and the environment; makes no request.
    pub(super) fn open(url: &ServiceUrl) -> Result<Self> {
        let access = access::find(url)?;
        Ok(Self {
            web: Web::new()?,
            account: access.account,
            base: access.base,
            credentials: access.credentials,
            place: url.place(),
        })
    }

    fn send(&self, what: &str, request: Unsigned, content: impl Into<Bytes>) -> Result<Answer> {
        let content = content.into();
        let unusable = |cause: &dyn std::fmt::Display| Error::new(ErrorKind::InvalidInput, what).with_cause(cause);
        let request = request.header("x-ms-version", VERSION).body(HttpRequestBody::empty());
        let mut request = request.map_err(|error| unusable(&error))?;
        if request.method() == Method::PUT {
            request.headers_mut().insert(CONTENT_LENGTH, content.len().into());
        }
        if let Some(credential) = self.credentials.current(what)? {
            let authorizer = AzureAuthorizer::new(&credential, &self.account);
            authorizer.try_authorize(&mut request).map_err(|error| unusable(&error))?;
        }
        let (parts, _) = request.into_parts();
        let request = self.web.client().request(parts.method, parts.uri.to_string()).headers(parts.headers).body(content);
        let answer = self.web.send(what, request, &failure::EXPLAINED)?;
        if answer.status() < 400 {
            return Ok(answer);
        }
        Err(failure::explain(what, answer, self.credentials.missing()))
    }

    /// A request for a blob, or with an empty key for the container.
    fn request(&self, method: Method, key: &str, query: &[(&str, &str)]) -> Unsigned {
        let slash = if key.is_empty() { "" } else { "/" };
        let question = if query.is_empty() { "" } else { "?" };
        let uri = format!("{}{slash}{}{question}{}", self.base, cloud::encode_path(key), cloud::query(query));
        http::Request::builder().method(method).uri(uri)
    }

    fn get_list(&self, what: &str, query: &[(&str, &str)]) -> Result<listing::Listed> {
        let request = self.request(Method::GET, "", &[&[("restype", "container"), ("comp", "list")][..], query].concat());
        listing::parse(what, &self.send(what, request, Vec::new())?.bytes(LONGEST_ANSWER)?)
    }

    fn what(&self, operation: &str, key: &str) -> String {
        format!("could not {operation} `{}`", self.show(key))
    }
}

impl Objects for Azure {
    fn limits(&self) -> Limits {
        Limits { least_part: 1, most_parts: MOST_PARTS, largest_put: LARGEST_PUT, connections: None }
    }

    fn show(&self, key: &str) -> String {
        format!("{}/{key}", self.place)
    }

    /// Asks for a page of one blob, which needs no right that a transfer does not need.
    fn probe(&self) -> Result<()> {
        self.page("", false, 1, None).map(drop)
    }

    /// A directory of a hierarchical namespace is no object.
    fn head(&self, key: &str, _: Purpose) -> Result<Object> {
        let what = self.what("describe", key);
        let answer = self.send(&what, self.request(Method::HEAD, key, &[]), Vec::new())?;
        if answer.header("x-ms-meta-hdi_isfolder") == Some("true") {
            return Err(Error::new(ErrorKind::NotFound, what).with_cause("a directory stands there"));
        }
        Ok(Object {
            key: key.to_owned(),
            size: answer.length().ok_or_else(|| cloud::unreadable(&what, &"it names no size"))?,
            uploaded_ns: answer.header("last-modified").and_then(cloud::moment),
            metadata: cloud::metadata(answer.header(MTIME), answer.header(MODE)),
            tag: answer.header("etag").map(unquoted),
            kept: None,
        })
    }

    fn page(&self, prefix: &str, delimited: bool, most: u32, next: Option<&str>) -> Result<Page> {
        let most = most.to_string();
        let mut query = vec![("prefix", prefix), ("maxresults", most.as_str()), ("include", "metadata")];
        query.extend(delimited.then_some(("delimiter", "/")));
        query.extend(next.map(|next| ("marker", next)));
        self.get_list(&self.what("list", prefix), &query)?.into_page()
    }

    fn get(&self, object: &Object, range: Range<u64>) -> Result<Content> {
        let what = self.what("read", &object.key);
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let mut request = self.request(Method::GET, &object.key, &[]).header(RANGE, bytes);
        if let Some(tag) = &object.tag {
            request = request.header(IF_MATCH, format!("\"{tag}\""));
        }
        let whole = range == (0..object.size);
        let answer = self.send(&what, request, Vec::new())?;
        // Of the whole blob, also in the answer to a range.
        let md5 = answer.header("x-ms-blob-content-md5").filter(|_| whole).and_then(parse_md5);
        let body = cloud::content(&what, answer, &range)?;
        let body = match md5 {
            Some(md5) => summed::compared(&what, body, object.size, md5),
            None => body,
        };
        Ok(Content { body, crc64nvme: None })
    }

    /// The service compares the checksum.
    fn put(&self, key: &str, content: &Bytes, about: &About) -> Result<()> {
        let what = self.what("write", key);
        let checksum = about.crc64nvme.unwrap_or_else(|| crc_fast::crc64_nvme(content));
        let request = self.request(Method::PUT, key, &[]).header("x-ms-blob-type", "BlockBlob").header(CRC64, crc64(checksum));
        let request = conditional(described(request, &about.metadata), about.overwrite);
        self.send(&what, request, content.clone()).map(drop).map_err(|error| cloud::taken(error, about.overwrite))
    }

    /// Makes no request.
    fn begin(&self, key: &str, _: &About) -> Result<String> {
        blocks::identifier()
            .ok_or_else(|| Error::new(ErrorKind::Io, self.what("begin to write", key)).with_cause("no randomness"))
    }

    /// The service compares the checksum.
    fn put_part(&self, upload: &Upload, number: u32, content: &Bytes, crc64nvme: u64) -> Result<Part> {
        let what = self.what(&format!("write part {number} of"), &upload.key);
        let tag = blocks::name(&upload.id, number);
        let request = self.request(Method::PUT, &upload.key, &[("comp", "block"), ("blockid", &tag)]);
        self.send(&what, request.header(CRC64, crc64(crc64nvme)), content.clone())?;
        Ok(Part { number, size: content.len() as u64, tag, crc64nvme: Some(crc64nvme) })
    }

    /// None is no error: the service knows an upload by its parts alone, and forgets them after a week.
    fn parts(&self, upload: &Upload) -> Result<Vec<Part>> {
        let what = self.what("list the parts of", &upload.key);
        blocks::waiting(self, &what, upload)
    }

    fn complete(&self, upload: &Upload, parts: &[Part], about: &About) -> Result<()> {
        let what = self.what("write", &upload.key);
        let request = described(self.request(Method::PUT, &upload.key, &[("comp", "blocklist")]), &about.metadata);
        let request = conditional(request, about.overwrite);
        match self.send(&what, request, blocks::list(parts).into_bytes()) {
            Ok(_) => Ok(()),
            // An answer may be lost: then the blob that stands there is this one.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && blocks::stand(self, &what, upload, parts) => Ok(()),
            Err(error) => Err(cloud::taken(error, about.overwrite)),
        }
    }

    /// The service cannot remove blocks alone, and does so by itself after a week. An upload that [`Objects::uploads`] found, of a blob
    /// that does not exist otherwise, is replaced by an empty blob, which is removed.
    fn abort(&self, upload: &Upload) -> Result<()> {
        if !upload.id.is_empty() {
            return Ok(());
        }
        let what = self.what("give up the upload of", &upload.key);
        let request = conditional(self.request(Method::PUT, &upload.key, &[("comp", "blocklist")]), Overwrite::Never);
        let empty = match self.send(&what, request, blocks::list(&[]).into_bytes()) {
            Ok(empty) => empty,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut request = self.request(Method::DELETE, &upload.key, &[]);
        if let Some(tag) = empty.header("etag") {
            request = request.header(IF_MATCH, tag);
        }
        self.send(&what, request, Vec::new()).map(drop)
    }

    /// Blobs that have nothing but blocks of uploads; those of blobs that exist are not told by the service.
    fn uploads(&self, prefix: &str) -> Result<Vec<Upload>> {
        let what = self.what("list the uploads below", prefix);
        let mut uploads = Vec::new();
        let mut next: Option<String> = None;
        loop {
            // Without its metadata the marker of a directory would look like a blob that is not there.
            let mut query = vec![("prefix", prefix), ("include", "metadata,uncommittedblobs")];
            query.extend(next.as_deref().map(|next| ("marker", next)));
            let page = self.get_list(&what, &query)?.into_page()?;
            for blob in page.objects.into_iter().filter(|blob| blob.size == 0) {
                // Emulators give these a tag too.
                let waits = blob.tag.is_none()
                    || self.head(&blob.key, Purpose::Write).is_err_and(|error| error.kind() == ErrorKind::NotFound);
                if waits && !blob.key.ends_with('/') {
                    uploads.push(Upload { key: blob.key, id: String::new(), begun_ns: blob.uploaded_ns });
                }
            }
            next = page.next;
            if next.is_none() {
                return Ok(uploads);
            }
        }
    }

    fn delete(&self, keys: &[String]) -> Vec<Result<()>> {
        cloud::for_each(keys, |key| {
            let request = self.request(Method::DELETE, key, &[]);
            match self.send(&self.what("remove", key), request, Vec::new()) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        })
    }
}

fn described(request: Unsigned, metadata: &Metadata) -> Unsigned {
    let request = match metadata.modified_ns {
        Some(ns) => request.header(MTIME, cloud::stamp(ns)),
        None => request,
    };
    match metadata.mode {
        Some(mode) => request.header(MODE, format!("{mode:o}")),
        None => request,
    }
}

fn conditional(request: Unsigned, overwrite: Overwrite) -> Unsigned {
    if overwrite == Overwrite::Never { request.header(IF_NONE_MATCH, "*") } else { request }
}

/// An entity tag as listings write it.
fn unquoted(tag: &str) -> String {
    tag.trim_matches('"').to_owned()
}

fn crc64(checksum: u64) -> String {
    BASE64_STANDARD.encode(checksum.to_le_bytes())
}

fn parse_md5(text: &str) -> Option<[u8; 16]> {
    BASE64_STANDARD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_services_checksum_is_crc64nvme() {
        // From the tests of Microsoft's client libraries.
        assert_eq!(crc_fast::crc64_nvme(b"Hello World!"), 208_604_604_655_264_165);
        assert_eq!(crc_fast::crc64_nvme(&[0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]), 13_410_969_003_359_324_163);
        assert_eq!(crc64(208_604_604_655_264_165), "peH8Xsgc5QI=");
    }

    #[test]
    fn tags_are_the_same_from_header_and_listing() {
        assert_eq!(unquoted("\"0x8D\""), unquoted("0x8D"));
    }
}
