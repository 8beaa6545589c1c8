//! Listings of a container.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::error::Result;
use crate::store::remote::{Object, Page, cloud};

/// A page as the service writes it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Listed {
    #[serde(default)]
    blobs: Blobs,
    #[serde(default)]
    next_marker: String,
}

#[derive(Default, Deserialize)]
struct Blobs {
    #[serde(rename = "Blob", default)]
    blobs: Vec<Blob>,
    #[serde(rename = "BlobPrefix", default)]
    prefixes: Vec<Prefix>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blob {
    name: Name,
    properties: Properties,
    #[serde(default)]
    metadata: Given,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Prefix {
    name: Name,
}

/// A name; percent-encoded where it holds what cannot stand in XML.
#[derive(Deserialize)]
struct Name {
    #[serde(rename = "@Encoded", default)]
    encoded: bool,
    #[serde(rename = "$text", default)]
    text: String,
}

#[derive(Deserialize)]
struct Properties {
    #[serde(rename = "Last-Modified")]
    modified: Option<String>,
    #[serde(rename = "Etag")]
    tag: Option<String>,
    #[serde(rename = "Content-Length", default)]
    size: u64,
    #[serde(rename = "ResourceType")]
    resource: Option<String>,
}

/// Metadata that edt, rclone or a hierarchical namespace leave.
#[derive(Default, Deserialize)]
struct Given {
    mtime: Option<String>,
    edt_mode: Option<String>,
    hdi_isfolder: Option<String>,
}

/// Parses a page.
pub(super) fn parse(what: &str, text: &[u8]) -> Result<Listed> {
    cloud::from_xml(what, text)
}

impl Listed {
    /// Directories of a hierarchical namespace become keys with a slash at the end.
    pub(super) fn into_page(self) -> Result<Page> {
        let objects = self.blobs.blobs.into_iter().map(Blob::into_object).collect::<Result<_>>()?;
        let prefixes = self.blobs.prefixes.iter().map(|prefix| prefix.name.decoded()).collect::<Result<_>>()?;
        Ok(Page { objects, prefixes, next: Some(self.next_marker).filter(|marker| !marker.is_empty()) })
    }
}

impl Blob {
    fn into_object(self) -> Result<Object> {
        let mut key = self.name.decoded()?;
        let directory =
            self.properties.resource.as_deref() == Some("directory") || self.metadata.hdi_isfolder.as_deref() == Some("true");
        if directory && !key.ends_with('/') {
            key.push('/');
        }
        Ok(Object {
            key,
            size: self.properties.size,
            uploaded_ns: self.properties.modified.as_deref().and_then(cloud::moment),
            metadata: cloud::metadata(self.metadata.mtime.as_deref(), self.metadata.edt_mode.as_deref()),
            tag: self.properties.tag.as_deref().map(super::unquoted),
            kept: None,
        })
    }
}

impl Name {
    fn decoded(&self) -> Result<String> {
        if !self.encoded {
            return Ok(self.text.clone());
        }
        let decoded = percent_decode_str(&self.text).decode_utf8().map(Cow::into_owned);
        decoded.map_err(|error| cloud::unreadable(&format!("could not list `{}`", self.text), &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>
        <EnumerationResults ServiceEndpoint=\"https://me.blob.core.windows.net/\" ContainerName=\"c\"><Prefix>a</Prefix><Blobs>
        <Blob><Name>a &amp; b</Name><Properties><Last-Modified>Tue, 14 Nov 2023 22:13:20 GMT</Last-Modified><Etag>0x8D</Etag>
        <Content-Length>7</Content-Length><Content-MD5 /><BlobType>BlockBlob</BlobType></Properties>
        <Metadata><mtime>2023-11-14T22:13:20.000000001Z</mtime><edt_mode>640</edt_mode><other>x</other></Metadata></Blob>
        <BlobPrefix><Name>c/</Name></BlobPrefix>
        <Blob><Name Encoded=\"true\">d%EF%BF%BE%25</Name><Properties><Content-Length>0</Content-Length></Properties><Metadata /></Blob>
        <BlobPrefix><Name> e /</Name></BlobPrefix>
        <Blob><Name>f</Name><Properties><Etag>\"0x9\"</Etag><ResourceType>directory</ResourceType></Properties>
        <Metadata><hdi_isfolder>true</hdi_isfolder></Metadata></Blob>
        </Blobs><NextMarker>2!8</NextMarker></EnumerationResults>";

    #[test]
    fn a_page_holds_blobs_and_prefixes_in_any_order() {
        let page = parse("x", PAGE.as_bytes()).unwrap().into_page().unwrap();
        let keys: Vec<&str> = page.objects.iter().map(|object| object.key.as_str()).collect();
        assert_eq!(keys, ["a & b", "d\u{fffe}%", "f/"]);
        assert_eq!(page.prefixes, ["c/", " e /"]);
        assert_eq!(page.next.as_deref(), Some("2!8"));
        let first = &page.objects[0];
        assert_eq!((first.size, first.tag.as_deref(), first.uploaded_ns), (7, Some("0x8D"), Some(1_700_000_000_000_000_000)));
        assert_eq!((first.metadata.modified_ns, first.metadata.mode), (Some(1_700_000_000_000_000_001), Some(0o640)));
        assert_eq!((page.objects[1].tag.as_deref(), page.objects[2].tag.as_deref()), (None, Some("0x9")));
    }

    #[test]
    fn an_empty_page_is_the_last() {
        for blobs in ["<Blobs />", "<Blobs></Blobs>", ""] {
            let text = format!("<EnumerationResults>{blobs}<NextMarker /></EnumerationResults>");
            let page = parse("x", text.as_bytes()).unwrap().into_page().unwrap();
            assert!(page.objects.is_empty() && page.prefixes.is_empty() && page.next.is_none());
        }
    }
}
