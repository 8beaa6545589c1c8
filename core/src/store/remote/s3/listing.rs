//! What a bucket has, page by page.

use aws_sdk_s3::operation::list_multipart_uploads::ListMultipartUploadsOutput;
use aws_sdk_s3::types::MultipartUpload;

use super::{S3, describe};
use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::Upload;

/// Key and identifier of the upload behind which a page begins.
type Markers = (Option<String>, Option<String>);

impl S3 {
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
                return Err(Error::new(ErrorKind::Unsupported, self.could_not("list the uploads of", prefix))
                    .with_cause("the service says that there are more, but not where to go on")
                    .with_hint("name prefixes with fewer of them"));
            }
            markers = next;
        }
    }
}

/// Where the next page begins, if there is one: behind the last upload, where the service does not tell.
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
