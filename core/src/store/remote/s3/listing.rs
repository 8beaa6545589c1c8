//! What a bucket has, page by page.

use aws_sdk_s3::operation::list_multipart_uploads::ListMultipartUploadsOutput;
use aws_sdk_s3::operation::list_objects::ListObjectsOutput;
use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::{EncodingType, MultipartUpload};

use super::{Attempt, S3, describe};
use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::{Page, Upload};

/// Key and identifier of the upload behind which a page begins.
type Markers = (Option<String>, Option<String>);

/// Keys of a page at most.
const MOST: u32 = 1000;

impl S3 {
    /// A page of keys: the first, the one that a token of the service leads to, or where it gave none the one behind a key.
    pub(super) fn list_page(&self, prefix: &str, delimited: bool, most: u32, next: Option<&str>) -> Result<Page> {
        let behind = next.and_then(describe::key_of);
        if behind == Some("") {
            return Err(self.endless(
                "list",
                prefix,
                "it may not know version 2 of listings: name the objects, or prefixes with few of them",
            ));
        }
        let separator = delimited.then(|| "/".to_owned());
        let answer = match behind {
            Some(key) => self.listed_behind(key, prefix, separator, most)?,
            None => self.listed(next, prefix, separator, most)?,
        };
        let page = describe::page(&answer);
        // One that does not know where to go on either would tell the same for ever.
        match (behind, page.next.as_deref().and_then(describe::key_of)) {
            (Some(key), Some(next)) if next <= key => {
                Err(self.endless("list", prefix, "name the objects, or prefixes with few of them"))
            }
            _ => Ok(page),
        }
    }

    fn listed(&self, token: Option<&str>, prefix: &str, delimiter: Option<String>, most: u32) -> Attempt<ListObjectsV2Output> {
        let request = self
            .client
            .list_objects_v2()
            .bucket(&self.bucket)
            .prefix(prefix)
            .set_delimiter(delimiter)
            .max_keys(most.min(MOST).cast_signed())
            .set_continuation_token(token.map(str::to_owned))
            .encoding_type(EncodingType::Url)
            .set_request_payer(self.payer.clone());
        self.attempt("list", prefix, request.send())
    }

    /// Asks in version 1 of listings, which every service knows.
    fn listed_behind(&self, key: &str, prefix: &str, delimiter: Option<String>, most: u32) -> Attempt<ListObjectsV2Output> {
        let request = self
            .client
            .list_objects()
            .bucket(&self.bucket)
            .prefix(prefix)
            .set_delimiter(delimiter)
            .max_keys(most.min(MOST).cast_signed())
            .marker(key)
            .encoding_type(EncodingType::Url)
            .set_request_payer(self.payer.clone());
        self.attempt("list", prefix, request.send()).map(without_token)
    }

    /// The error of a listing that has more, and no way to it.
    fn endless(&self, operation: &str, prefix: &str, hint: &str) -> Error {
        Error::new(ErrorKind::Unsupported, self.could_not(operation, prefix))
            .with_cause("the service says that there is more, but not where to go on")
            .with_hint(hint)
    }

    /// Uploads below a prefix that were begun and not completed.
    pub(super) fn list_uploads(&self, prefix: &str) -> Result<Vec<Upload>> {
        let mut uploads = Vec::new();
        let mut markers = Markers::default();
        loop {
            let request = self
                .client
                .list_multipart_uploads()
                .bucket(&self.bucket)
                .prefix(prefix)
                .set_key_marker(markers.0.clone())
                .set_upload_id_marker(markers.1.clone())
                .set_request_payer(self.payer.clone());
            let answer = self.attempt("list the uploads of", prefix, request.send())?;
            uploads.extend(answer.uploads().iter().filter_map(|upload| {
                let begun_ns = describe::time(upload.initiated());
                Some(Upload { key: upload.key()?.to_owned(), id: upload.upload_id()?.to_owned(), begun_ns })
            }));
            let Some(next) = following(&answer) else { return Ok(uploads) };
            if next.0.is_none() || next == markers {
                return Err(self.endless("list the uploads of", prefix, "name prefixes with fewer of them"));
            }
            markers = next;
        }
    }
}

/// An answer of version 1 as one of version 2 that names no token.
fn without_token(listed: ListObjectsOutput) -> ListObjectsV2Output {
    ListObjectsV2Output::builder()
        .set_contents(listed.contents)
        .set_common_prefixes(listed.common_prefixes)
        .set_is_truncated(listed.is_truncated)
        .set_encoding_type(listed.encoding_type)
        .build()
}

/// Where the next page of uploads begins, if there is one: behind the last upload, where the service does not tell.
fn following(answer: &ListMultipartUploadsOutput) -> Option<Markers> {
    if answer.is_truncated() != Some(true) {
        return None;
    }
    let given = |marker: Option<&str>| marker.filter(|marker| !marker.is_empty()).map(str::to_owned);
    if let Some(key) = given(answer.next_key_marker()) {
        return Some((Some(key), given(answer.next_upload_id_marker())));
    }
    let last = answer.uploads().last();
    Some((given(last.and_then(MultipartUpload::key)), given(last.and_then(MultipartUpload::upload_id))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::served::bucket;
    use super::*;
    use crate::store::remote::Objects as _;

    fn xml(content: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{content}", content.len())
    }

    fn keys(truncated: bool, keys: &str) -> String {
        let contents = keys.split(' ').filter(|key| !key.is_empty());
        let contents: Vec<String> = contents.map(|key| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>")).collect();
        let contents = contents.concat();
        xml(&format!("<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{contents}</ListBucketResult>"))
    }

    #[test]
    fn a_page_without_a_token_is_gone_on_from_behind_its_last_key() {
        let asked = Arc::default();
        let bucket = bucket(&asked, |request, _| match request.split_once("marker=") {
            None => keys(true, "p/a p/b"),
            Some((_, rest)) if rest.split('&').next().is_some_and(|key| key.ends_with('b')) => keys(true, "p/c"),
            Some(_) => keys(false, "p/d"),
        });
        let (mut found, mut next) = (Vec::new(), None);
        loop {
            let page = bucket.page("p/", false, 1000, next.as_deref()).unwrap();
            found.extend(page.objects.into_iter().map(|object| object.key));
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        assert_eq!(found, ["p/a", "p/b", "p/c", "p/d"]);
        let asked = asked.lock();
        let versions: Vec<_> = asked.iter().map(|request| request.contains("list-type=2")).collect();
        assert_eq!(versions, [true, false, false], "{asked:?}");
    }

    #[test]
    fn a_listing_that_cannot_be_gone_on_with_is_an_error_and_not_its_end() {
        let answers: [fn(&str, &[String]) -> String; 2] = [|_, _| keys(true, ""), |_, _| keys(true, "a/b a/c")];
        for answer in answers {
            let bucket = bucket(&Arc::default(), answer);
            let first = bucket.page("a/", false, 1000, None).unwrap();
            let failed = bucket.page("a/", false, 1000, first.next.as_deref()).unwrap_err();
            assert_eq!((failed.kind(), failed.what()), (ErrorKind::Unsupported, "could not list `s3://bucket/a/`"));
            assert!(failed.hint().is_some());
        }
    }

    fn uploads(truncated: bool, listed: &str) -> String {
        xml(&format!("<ListMultipartUploadsResult><IsTruncated>{truncated}</IsTruncated>{listed}</ListMultipartUploadsResult>"))
    }

    #[test]
    fn a_page_of_uploads_without_a_marker_is_gone_on_from_behind_its_last() {
        let asked = Arc::default();
        let bucket = bucket(&asked, |request, _| {
            let (key, id) = if request.contains("key-marker=a") { ("b", "2") } else { ("a", "1") };
            uploads(key == "a", &format!("<Upload><Key>{key}</Key><UploadId>{id}</UploadId></Upload>"))
        });
        let found = bucket.uploads("").unwrap();
        assert_eq!(found.iter().map(|upload| upload.id.as_str()).collect::<Vec<_>>(), ["1", "2"]);
        let asked = asked.lock();
        assert!(asked[1].contains("upload-id-marker=1"), "{asked:?}");
    }

    /// Asks for uploads that are not all told, with so many requests.
    fn refused(answer: fn(&str, &[String]) -> String, requests: usize) {
        let asked = Arc::default();
        let error = bucket(&asked, answer).uploads("").unwrap_err();
        assert_eq!((error.kind(), asked.lock().len()), (ErrorKind::Unsupported, requests), "{error}");
    }

    #[test]
    fn uploads_of_which_the_service_tells_only_a_part_are_an_error_and_not_all() {
        refused(|_, _| uploads(true, ""), 1);
        refused(|_, _| uploads(true, "<Upload><Key>a</Key><UploadId>1</UploadId></Upload>"), 2);
        refused(|_, _| uploads(true, "<NextKeyMarker>a</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>"), 2);
    }
}
