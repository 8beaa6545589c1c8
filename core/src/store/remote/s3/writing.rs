//! Writing objects: with a checksum that the service compares, and under the condition that nothing is replaced.

use aws_sdk_s3::operation::create_multipart_upload::CreateMultipartUploadOutput;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumType, CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;

use super::describe::Properties;
use super::sums::{Sent, Sum, crc64nvme_text};
use super::{Attempt, S3, describe};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Overwrite;
use crate::store::remote::{About, Objects, Part, Purpose, Upload};

/// On which terms an object is written.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// If-None-Match, or nothing.
    pub(super) condition: Option<String>,
    pub(super) sum: Sum,
}

/// The bytes of a part and their crc64nvme.
pub(super) struct PartContent {
    pub(super) bytes: Bytes,
    pub(super) crc64nvme: u64,
}

impl S3 {
    /// Makes a request with the best checksum that the service takes, and remembers which it is.
    pub(super) fn summed<T>(&self, attempt: impl Fn(Sum) -> Attempt<T>) -> Attempt<T> {
        let mut sum = self.sums.present();
        loop {
            match attempt(sum) {
                Ok(answer) => {
                    self.sums.settle(sum);
                    return Ok(answer);
                }
                Err(failure) if failure.refuses_a_header() => sum = self.sums.below(sum).ok_or(failure)?,
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Makes a request that obeys the rule for what stands under the key. A service other than AWS may ignore the condition, or
    /// refuse it: it is asked beforehand what stands there.
    pub(super) fn guarded<T>(
        &self,
        operation: &str,
        key: &str,
        overwrite: Overwrite,
        attempt: impl Fn(Terms) -> Attempt<T>,
    ) -> Result<T> {
        if overwrite == Overwrite::Replace {
            return Ok(self.summed(|sum| attempt(Terms { condition: None, sum }))?);
        }
        let taken =
            || Error::new(ErrorKind::AlreadyExists, self.could_not(operation, key)).with_cause("there is an object of this name");
        let mut known_free = false;
        if self.elsewhere {
            match self.head(key, Purpose::Write) {
                Ok(_) => return Err(taken()),
                Err(error) if error.kind() == ErrorKind::NotFound => known_free = true,
                // Who may write need not have the right to look: then the condition must do.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
                Err(error) => return Err(error),
            }
        }
        match self.summed(|sum| attempt(Terms { condition: Some("*".to_owned()), sum })) {
            Err(failure) if known_free && failure.refuses_a_header() => {
                Ok(self.summed(|sum| attempt(Terms { condition: None, sum }))?)
            }
            Err(failure) if failure.error.kind() == ErrorKind::SourceChanged => Err(taken()),
            answer => Ok(answer?),
        }
    }

    pub(super) fn put_once(&self, key: &str, content: &Bytes, about: &About, terms: Terms) -> Attempt<()> {
        let Terms { condition, sum } = terms;
        let sent = Sent::new(sum, content, || about.crc64nvme.unwrap_or_else(|| crc_fast::crc64_nvme(content)));
        let request = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(key)
            .set_metadata(Some(describe::written(&about.metadata)))
            .set_if_none_match(condition)
            .set_checksum_algorithm(sum.algorithm())
            .set_checksum_crc64_nvme(sent.crc64nvme.clone())
            .set_checksum_crc32_c(sent.crc32c.clone())
            .set_request_payer(self.payer.clone())
            .body(ByteStream::from(content.clone()))
            .customize();
        let request = if sum == Sum::Sha256 { request } else { request.disable_payload_signing() };
        let answer = self.attempt_with(content.len(), "write", key, request.send())?;
        let got = sent.got(answer.checksum_crc64_nvme(), answer.checksum_crc32_c());
        self.sums.note(sum, got);
        Ok(sent.compare(got).map_err(|cause| self.corrupted("write", key, &cause))?)
    }

    /// Begins an upload in parts and answers with its identifier.
    pub(super) fn begin_with(&self, key: &str, properties: &Properties) -> Result<String> {
        let answer = self.summed(|sum| self.begin_once(key, properties, sum))?;
        answer.upload_id.ok_or_else(|| {
            let cause = "the service named no upload";
            Error::new(ErrorKind::ConnectionLost, self.could_not("begin the upload of", key)).with_cause(cause)
        })
    }

    fn begin_once(&self, key: &str, properties: &Properties, sum: Sum) -> Attempt<CreateMultipartUploadOutput> {
        let summed = sum == Sum::Crc64Nvme;
        let request = self
            .client
            .create_multipart_upload()
            .bucket(&self.bucket)
            .key(key)
            .set_metadata(Some(properties.metadata.clone()))
            .set_content_type(properties.content_type.clone())
            .set_content_encoding(properties.content_encoding.clone())
            .set_content_language(properties.content_language.clone())
            .set_content_disposition(properties.content_disposition.clone())
            .set_cache_control(properties.cache_control.clone())
            .set_checksum_algorithm(sum.algorithm().filter(|_| summed))
            .set_checksum_type(summed.then_some(ChecksumType::FullObject))
            .set_request_payer(self.payer.clone());
        self.attempt("begin the upload of", key, request.send())
    }

    pub(super) fn put_part_once(&self, upload: &Upload, number: u32, content: &PartContent, sum: Sum) -> Attempt<Part> {
        let operation = format!("write part {number} of");
        let PartContent { bytes: content, crc64nvme } = content;
        let sent = Sent::new(sum, content, || *crc64nvme);
        let request = self
            .client
            .upload_part()
            .bucket(&self.bucket)
            .key(&upload.key)
            .upload_id(&upload.id)
            .part_number(number.cast_signed())
            .set_checksum_algorithm(sum.algorithm())
            .set_checksum_crc64_nvme(sent.crc64nvme.clone())
            .set_checksum_crc32_c(sent.crc32c.clone())
            .set_request_payer(self.payer.clone())
            .body(ByteStream::from(content.clone()))
            .customize();
        let request = if sum == Sum::Sha256 { request } else { request.disable_payload_signing() };
        let answer = self.attempt_with(content.len(), &operation, &upload.key, request.send())?;
        let got = sent.got(answer.checksum_crc64_nvme(), answer.checksum_crc32_c());
        self.sums.note(sum, got);
        sent.compare(got).map_err(|cause| self.corrupted(&operation, &upload.key, &cause))?;
        let tag = answer.e_tag().unwrap_or_default().to_owned();
        Ok(Part { number, size: content.len() as u64, tag, crc64nvme: Some(*crc64nvme) })
    }

    pub(super) fn complete_once(&self, upload: &Upload, parts: &[Part], about: &About, terms: Terms) -> Attempt<()> {
        let Terms { condition, sum } = terms;
        let summed = sum == Sum::Crc64Nvme;
        let sent = Sent { sum, crc64nvme: about.crc64nvme.filter(|_| summed).map(crc64nvme_text), crc32c: None };
        let request = self
            .client
            .complete_multipart_upload()
            .bucket(&self.bucket)
            .key(&upload.key)
            .upload_id(&upload.id)
            .multipart_upload(completed(parts, summed))
            .set_checksum_crc64_nvme(sent.crc64nvme.clone())
            .set_checksum_type(summed.then_some(ChecksumType::FullObject))
            .set_if_none_match(condition)
            .set_request_payer(self.payer.clone());
        let operation = "complete the upload of";
        let answer = self.attempt(operation, &upload.key, request.send())?;
        let got = sent.got(answer.checksum_crc64_nvme(), None);
        Ok(sent.compare(got).map_err(|cause| self.corrupted(operation, &upload.key, &cause))?)
    }

    /// Whether an upload could not be completed because an earlier attempt did it, whose answer was lost: it is gone, and its object
    /// is there.
    pub(super) fn was_completed(&self, error: &Error, upload: &Upload, parts: &[Part], about: &About) -> bool {
        let gone = match error.kind() {
            ErrorKind::NotFound => true,
            ErrorKind::AlreadyExists => self.parts(upload).is_err_and(|error| error.kind() == ErrorKind::NotFound),
            _ => false,
        };
        if !gone {
            return false;
        }
        let Ok(head) = self.described("stat", &self.bucket, &upload.key) else { return false };
        let object = describe::object(&upload.key, &head);
        let same = if let (Some(there), Some(here)) = (describe::crc64nvme(&head), about.crc64nvme) {
            there == here
        } else {
            // The tag of an object of parts ends in their number; an older object of as many parts has another time.
            let counted = |tag: &str| tag.trim_matches('"').ends_with(&format!("-{}", parts.len()));
            let modified_ns = about.metadata.modified_ns;
            modified_ns.is_some() && object.metadata.modified_ns == modified_ns && object.tag.as_deref().is_some_and(counted)
        };
        same && object.size == parts.iter().map(|part| part.size).sum::<u64>()
    }

    fn corrupted(&self, operation: &str, key: &str, cause: &str) -> Error {
        Error::new(ErrorKind::Corrupted, self.could_not(operation, key)).with_cause(cause)
    }
}

fn completed(parts: &[Part], summed: bool) -> CompletedMultipartUpload {
    let parts = parts.iter().map(|part| {
        CompletedPart::builder()
            .part_number(part.number.cast_signed())
            .e_tag(&part.tag)
            .set_checksum_crc64_nvme(part.crc64nvme.filter(|_| summed).map(crc64nvme_text))
            .build()
    });
    CompletedMultipartUpload::builder().set_parts(Some(parts.collect())).build()
}
