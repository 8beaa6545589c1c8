//! Copies that the service makes by itself, within a bucket or from one bucket to another.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::types::{ChecksumMode, MetadataDirective};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::describe::Properties;
use super::sums::{Sum, parse_crc64nvme};
use super::writing::Terms;
use super::{Attempt, LIMITS, S3, describe};
use crate::error::{Error, ErrorKind, Result};
use crate::store::remote::patience::clearing;
use crate::store::remote::{About, CopySource, Objects, Part, Patience, Upload};
use crate::sync::Mutex;

/// Bytes of a part of an object that is too large to be copied in one request.
const PART: u64 = 512 << 20;
/// Parts that the service copies at a time.
const THREADS: usize = 8;
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// Where a copy comes from, and what is there: all of it is copied in that state.
struct Source<'a> {
    place: CopySource<'a>,
    head: HeadObjectOutput,
}

impl Source<'_> {
    /// As the header `x-amz-copy-source` names it.
    fn name(&self) -> String {
        format!("{}/{}", self.place.bucket, utf8_percent_encode(self.place.key, PATH))
    }

    fn part(&self) -> u64 {
        PART.max(self.place.size.div_ceil(LIMITS.most_parts))
    }

    fn range(&self, number: u32) -> Range<u64> {
        let begin = u64::from(number - 1) * self.part();
        begin..self.place.size.min(begin + self.part())
    }
}

impl S3 {
    /// Copies an object of another bucket, or of this one, and answers with its crc64nvme if the service tells it.
    ///
    /// The copy has the type, the encoding and the metadata of its source, and the modification time that `about` says.
    pub(super) fn copy_from(
        &self,
        source: &CopySource<'_>,
        key: &str,
        about: &About,
        patience: &Patience,
    ) -> Result<Option<u64>> {
        let head = self.described("read", source.bucket, source.key)?;
        if describe::size(head.content_length()) != source.size {
            return Err(Error::new(ErrorKind::SourceChanged, self.could_not("copy to", key))
                .with_cause(format!("its source has no longer the {} bytes that were listed", source.size)));
        }
        let source = Source { place: *source, head };
        if source.place.size <= LIMITS.largest_put {
            return self.guarded("copy to", key, about.overwrite, |terms| self.copy_once(&source, key, about, terms));
        }
        let id = self.begin_with(key, &Properties::copied(&source.head, &about.metadata))?;
        let upload = Upload { key: key.to_owned(), id, begun_ns: None };
        // Tried again by itself: to begin afresh would copy all parts once more.
        let complete = |parts: Vec<Part>| patience.run(|| self.complete(&upload, &parts, about));
        if let Err(error) = self.copy_parts(&source, &upload, patience).and_then(complete) {
            // The first error counts; what cannot be given up now is left to `edt clean`.
            let _ = clearing(|| self.abort(&upload));
            return Err(error);
        }
        Ok(self.checksum(key, patience))
    }

    /// The crc64nvme of a copy that is made, which stands without it too: who may write need not have the right to ask for it.
    fn checksum(&self, key: &str, patience: &Patience) -> Option<u64> {
        match patience.run(|| Ok(self.described("stat", &self.bucket, key)?)) {
            Ok(head) => describe::crc64nvme(&head),
            Err(error) => {
                tracing::info!(%error, "the checksum of a copy is not known");
                None
            }
        }
    }

    /// Describes an object of any bucket, with its length and its checksum.
    pub(super) fn described(&self, operation: &str, bucket: &str, key: &str) -> Attempt<HeadObjectOutput> {
        let request = self
            .client
            .head_object()
            .bucket(bucket)
            .key(key)
            .checksum_mode(ChecksumMode::Enabled)
            .set_request_payer(self.payer.clone());
        let head = self.attempt(operation, key, request.send())?;
        self.measured(operation, bucket, key, head)
    }

    fn copy_once(&self, source: &Source<'_>, key: &str, about: &About, terms: Terms) -> Attempt<Option<u64>> {
        let properties = Properties::copied(&source.head, &about.metadata);
        let request = self
            .client
            .copy_object()
            .copy_source(source.name())
            .set_copy_source_if_match(source.head.e_tag.clone())
            .bucket(&self.bucket)
            .key(key)
            .metadata_directive(MetadataDirective::Replace)
            .set_metadata(Some(properties.metadata))
            .set_content_type(properties.content_type)
            .set_content_encoding(properties.content_encoding)
            .set_content_language(properties.content_language)
            .set_content_disposition(properties.content_disposition)
            .set_cache_control(properties.cache_control)
            .set_if_none_match(terms.condition)
            .set_checksum_algorithm(terms.sum.algorithm().filter(|_| terms.sum == Sum::Crc64Nvme))
            .set_request_payer(self.payer.clone());
        let answer = self.attempt("copy to", key, request.send())?;
        Ok(answer.copy_object_result().and_then(|copied| copied.checksum_crc64_nvme()).and_then(parse_crc64nvme))
    }

    /// Copies all parts, several at a time; each is tried again by itself, for what is copied need not be copied again.
    fn copy_parts(&self, source: &Source<'_>, upload: &Upload, patience: &Patience) -> Result<Vec<Part>> {
        let count = u32::try_from(source.place.size.div_ceil(source.part())).unwrap_or(u32::MAX);
        let next = AtomicU32::new(1);
        let copied = Mutex::new(Ok(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while copied.lock().is_ok() {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number > count {
                            return;
                        }
                        let part = patience.run(|| self.copy_part(source, upload, number));
                        let mut copied = copied.lock();
                        match (&mut *copied, part) {
                            (Ok(parts), Ok(part)) => parts.push(part),
                            (Ok(_), Err(error)) => *copied = Err(error),
                            (Err(_), _) => {}
                        }
                    }
                });
            }
        });
        let mut parts: Vec<Part> = copied.into_inner()?;
        parts.sort_by_key(|part| part.number);
        Ok(parts)
    }

    fn copy_part(&self, source: &Source<'_>, upload: &Upload, number: u32) -> Result<Part> {
        let operation = format!("copy part {number} to");
        let range = source.range(number);
        let request = self
            .client
            .upload_part_copy()
            .copy_source(source.name())
            .copy_source_range(format!("bytes={}-{}", range.start, range.end - 1))
            .set_copy_source_if_match(source.head.e_tag.clone())
            .bucket(&self.bucket)
            .key(&upload.key)
            .upload_id(&upload.id)
            .part_number(number.cast_signed())
            .set_request_payer(self.payer.clone());
        let answer = self.attempt(&operation, &upload.key, request.send())?;
        let copied = answer.copy_part_result();
        let tag = copied.and_then(|part| part.e_tag()).ok_or_else(|| {
            Error::new(ErrorKind::ConnectionLost, self.could_not(&operation, &upload.key)).with_cause("the service named no part")
        })?;
        let crc64nvme = copied.and_then(|part| part.checksum_crc64_nvme()).and_then(parse_crc64nvme);
        Ok(Part { number, size: range.end - range.start, tag: tag.to_owned(), crc64nvme })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::served::bucket;
    use super::*;

    fn source(size: u64) -> Source<'static> {
        Source { place: CopySource { bucket: "b", key: "a b/c+d%", size }, head: HeadObjectOutput::builder().build() }
    }

    #[test]
    fn a_source_is_named_as_a_path() {
        assert_eq!(source(1).name(), "b/a%20b/c%2Bd%25");
    }

    #[test]
    fn parts_cover_the_object_and_are_no_more_than_the_service_takes() {
        for size in [6 << 30, 5_000_000_000_000, 48 << 40] {
            let source = source(size);
            let count = u32::try_from(size.div_ceil(source.part())).unwrap();
            assert!(u64::from(count) <= LIMITS.most_parts && source.part() <= LIMITS.largest_put);
            assert_eq!((source.range(1).start, source.range(count).end), (0, size));
            assert!((1..count).all(|number| source.range(number).end == source.range(number + 1).start));
        }
    }

    #[test]
    fn a_copy_in_parts_is_completed_though_that_fails_at_first_and_nobody_may_look_at_it() {
        let asked = Arc::default();
        let source = CopySource { bucket: "bucket", key: "from", size: 6 << 30 };
        let copied = bucket(&asked, answer).copy_from(&source, "to", &About::default(), &Patience::new());
        assert_eq!(copied.unwrap(), None);
        let asked = asked.lock();
        let count = |method: &str| asked.iter().filter(|request| request.starts_with(method)).count();
        assert_eq!((count("PUT"), count("POST"), count("DELETE")), (12, 1 + 2, 0), "{asked:?}");
    }

    /// Fails to complete an upload until it is asked once more, and describes to this user what is copied and not the copy.
    fn answer(request: &str, earlier: &[String]) -> String {
        let again = earlier.iter().any(|other| other == request);
        let (status, length, content) = match request {
            "HEAD /bucket/from" => ("200 OK", 6 << 30, ""),
            _ if request.starts_with("HEAD") => ("403 Forbidden", 0, ""),
            _ if request.contains("partNumber=") => ok("<CopyPartResult><ETag>p</ETag></CopyPartResult>"),
            _ if request.contains("uploads") => {
                ok("<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
            }
            _ if again => ok("<CompleteMultipartUploadResult><ETag>c</ETag></CompleteMultipartUploadResult>"),
            _ => ("500 Internal Server Error", 0, ""),
        };
        format!("HTTP/1.1 {status}\r\nconnection: close\r\netag: \"e\"\r\ncontent-length: {length}\r\n\r\n{content}")
    }

    fn ok(content: &'static str) -> (&'static str, usize, &'static str) {
        ("200 OK", content.len(), content)
    }
}
