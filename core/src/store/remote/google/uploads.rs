//! Uploads in parts, by the XML API.

use std::fmt::Write;

use bytes::Bytes;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde::Deserialize;

use super::resource::{crc32c, metadata_texts};
use super::{Google, failure};
use crate::error::Result;
use crate::store::Metadata;
use crate::store::remote::cloud::{self, LONGEST_ANSWER};
use crate::store::remote::{Part, Upload};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Begun {
    upload_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedParts {
    #[serde(rename = "Part", default)]
    parts: Vec<ListedPart>,
    #[serde(default)]
    is_truncated: bool,
    next_part_number_marker: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedPart {
    part_number: u32,
    #[serde(rename = "ETag")]
    tag: String,
    size: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedUploads {
    #[serde(rename = "Upload", default)]
    uploads: Vec<ListedUpload>,
    #[serde(default)]
    is_truncated: bool,
    #[serde(default)]
    next_key_marker: String,
    #[serde(default)]
    next_upload_id_marker: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedUpload {
    key: String,
    upload_id: String,
    initiated: Option<String>,
}

/// Begins an upload.
pub(super) fn begin(google: &Google, key: &str, metadata: &Metadata) -> Result<String> {
    let what = google.what("begin to write", key);
    let mut request = google.web.client().post(url(google, key, "uploads")).header(CONTENT_LENGTH, 0);
    request = request.header(CONTENT_TYPE, "application/octet-stream");
    for (name, text) in metadata_texts(metadata) {
        request = request.header(format!("x-goog-meta-{name}"), text);
    }
    let answer = google.send(&what, request)?.bytes(LONGEST_ANSWER)?;
    Ok(cloud::from_xml::<Begun>(&what, &answer)?.upload_id)
}

/// Uploads a part; the service compares its crc32c.
pub(super) fn put_part(google: &Google, upload: &Upload, number: u32, content: &Bytes, crc64nvme: u64) -> Result<Part> {
    let what = google.what(&format!("write part {number} of"), &upload.key);
    let query = cloud::query(&[("partNumber", &number.to_string()), ("uploadId", &upload.id)]);
    let request = google.web.client().put(url(google, &upload.key, &query));
    let request = request.header("x-goog-hash", format!("crc32c={}", crc32c(content))).body(content.clone());
    let answer = google.send(&what, request)?;
    let tag = answer.header("etag").ok_or_else(|| cloud::unreadable(&what, &"it names no entity tag"))?.to_owned();
    Ok(Part { number, size: content.len() as u64, tag, crc64nvme: Some(crc64nvme) })
}

/// The parts that are there, of all pages.
pub(super) fn parts(google: &Google, upload: &Upload) -> Result<Vec<Part>> {
    let what = google.what("list the parts of", &upload.key);
    let mut parts = Vec::new();
    let mut marker = None;
    loop {
        let mut query = vec![("uploadId", upload.id.as_str())];
        query.extend(marker.as_deref().map(|marker| ("part-number-marker", marker)));
        let request = google.web.client().get(url(google, &upload.key, &cloud::query(&query)));
        let listed: ListedParts = cloud::from_xml(&what, &google.send(&what, request)?.bytes(LONGEST_ANSWER)?)?;
        parts.extend(listed.parts.into_iter().map(ListedPart::into_part));
        marker = listed.next_part_number_marker.filter(|_| listed.is_truncated);
        if marker.is_none() {
            return Ok(parts);
        }
    }
}

/// Makes the object of its parts.
pub(super) fn complete(google: &Google, upload: &Upload, parts: &[Part]) -> Result<()> {
    let what = google.what("write", &upload.key);
    let query = cloud::query(&[("uploadId", &upload.id)]);
    let request = google.web.client().post(url(google, &upload.key, &query));
    let request = request.header(CONTENT_TYPE, "application/xml").body(completion(parts));
    google.send(&what, request).map(drop)
}

/// Gives an upload up.
pub(super) fn abort(google: &Google, upload: &Upload) -> Result<()> {
    let what = google.what("give up the upload of", &upload.key);
    let request = google.web.client().delete(url(google, &upload.key, &cloud::query(&[("uploadId", &upload.id)])));
    failure::missing_is_fine(google.send(&what, request).map(drop))
}

/// Uploads that are not completed, of all pages.
pub(super) fn list(google: &Google, prefix: &str) -> Result<Vec<Upload>> {
    let what = google.what("list the uploads below", prefix);
    let mut uploads = Vec::new();
    let (mut key, mut id) = (String::new(), String::new());
    loop {
        let mut query = vec![("uploads", ""), ("prefix", prefix)];
        if !key.is_empty() {
            query.extend([("key-marker", key.as_str()), ("upload-id-marker", id.as_str())]);
        }
        let request = google.web.client().get(format!("{}/{}?{}", google.base, google.bucket, cloud::query(&query)));
        let listed: ListedUploads = cloud::from_xml(&what, &google.send(&what, request)?.bytes(LONGEST_ANSWER)?)?;
        uploads.extend(listed.uploads.into_iter().map(ListedUpload::into_upload));
        if !listed.is_truncated || listed.next_key_marker.is_empty() {
            return Ok(uploads);
        }
        (key, id) = (listed.next_key_marker, listed.next_upload_id_marker);
    }
}

fn url(google: &Google, key: &str, query: &str) -> String {
    format!("{}/{}/{}?{query}", google.base, google.bucket, cloud::encode(key))
}

fn completion(parts: &[Part]) -> String {
    let mut text = String::from("<CompleteMultipartUpload>");
    for part in parts {
        let tag = quick_xml::escape::partial_escape(part.tag.as_str());
        let _ = write!(text, "<Part><PartNumber>{}</PartNumber><ETag>{tag}</ETag></Part>", part.number);
    }
    text + "</CompleteMultipartUpload>"
}

impl ListedPart {
    fn into_part(self) -> Part {
        Part { number: self.part_number, size: self.size, tag: self.tag, crc64nvme: None }
    }
}

impl ListedUpload {
    fn into_upload(self) -> Upload {
        Upload { key: self.key, id: self.upload_id, begun_ns: self.initiated.as_deref().and_then(cloud::moment) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_told_by_its_identifier() {
        let text = b"<?xml version='1.0' encoding='UTF-8'?><InitiateMultipartUploadResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>\
            <Bucket>b</Bucket><Key>k</Key><UploadId>VXBs-b2Fk_</UploadId></InitiateMultipartUploadResult>";
        assert_eq!(cloud::from_xml::<Begun>("x", text).unwrap().upload_id, "VXBs-b2Fk_");
    }

    #[test]
    fn parts_are_listed_with_their_tags() {
        let text = b"<ListPartsResult><IsTruncated>true</IsTruncated><NextPartNumberMarker>2</NextPartNumberMarker>\
            <Part><PartNumber>2</PartNumber><LastModified>2023-11-14T22:13:20Z</LastModified><ETag>&quot;ab&quot;</ETag><Size>5</Size>\
            </Part></ListPartsResult>";
        let listed: ListedParts = cloud::from_xml("x", text).unwrap();
        assert!(listed.is_truncated && listed.next_part_number_marker.as_deref() == Some("2"));
        let parts: Vec<Part> = listed.parts.into_iter().map(ListedPart::into_part).collect();
        assert_eq!(parts, [Part { number: 2, size: 5, tag: "\"ab\"".to_owned(), crc64nvme: None }]);
        assert!(cloud::from_xml::<ListedParts>("x", b"<ListPartsResult/>").unwrap().parts.is_empty());
    }

    #[test]
    fn uploads_are_listed_with_their_beginning() {
        let text = b"<ListMultipartUploadsResult><IsTruncated>false</IsTruncated><NextKeyMarker/><Upload><Key>a b</Key>\
            <UploadId>u</UploadId><Initiated>2023-11-14T22:13:20Z</Initiated></Upload></ListMultipartUploadsResult>";
        let listed: ListedUploads = cloud::from_xml("x", text).unwrap();
        let uploads: Vec<Upload> = listed.uploads.into_iter().map(ListedUpload::into_upload).collect();
        let begun_ns = Some(1_700_000_000_000_000_000);
        assert_eq!(uploads, [Upload { key: "a b".to_owned(), id: "u".to_owned(), begun_ns }]);
    }

    #[test]
    fn a_completion_names_the_parts_in_order() {
        let part = |number, tag: &str| Part { number, size: 1, tag: tag.to_owned(), crc64nvme: None };
        let text = completion(&[part(1, "\"a\""), part(2, "b<")]);
        let expected = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part>\
            <Part><PartNumber>2</PartNumber><ETag>b&lt;</ETag></Part></CompleteMultipartUpload>";
        assert_eq!(text, expected);
    }
}
