//! S3 and what speaks like it, through the official SDK.

use std::error::Error as StdError;
use std::ops::Range;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::types::RequestPayer;
use bytes::Bytes;
use tokio::time::timeout;

use super::lane::{Kept, Lane};
use super::patience::unless_interrupted;
use super::runtime::block_on;
use super::straight::{self, Carrier};
use super::{About, Content, CopySource, Limits, Object, Objects, Page, Part, Patience, Purpose, Upload};
use crate::endpoint::ServiceUrl;
use crate::error::{Error, ErrorKind, Result};

mod body;
mod client;
mod copying;
mod describe;
mod failure;
mod length;
mod listing;
mod removal;
#[cfg(test)]
mod served;
mod sums;
mod transport;
mod writing;

use body::Download;
use client::{Connected, Signing};
use describe::Properties;
use failure::Failure;
use sums::{Sums, parse_crc64nvme};
use writing::PartContent;

const LIMITS: Limits = Limits { least_part: 5 << 20, most_parts: 10_000, largest_put: 5 << 30, connections: None };

/// The endpoint that environment or profile name; nothing for AWS itself.
pub(super) fn address() -> Result<String> {
    block_on(client::address())
}

type Attempt<T> = Result<T, Failure>;

/// A bucket.
pub(super) struct S3 {
    client: Client,
    bucket: String,
    signing: Signing,
    sums: Sums,
    /// Whether the service may be another than AWS, and know no conditional requests.
    elsewhere: bool,
    payer: Option<RequestPayer>,
    _kept: Kept,
}

impl S3 {
    /// Opens the bucket of a URL: reads configuration and credentials, by AWS's conventions, and asks the bucket nothing.
    pub(super) fn open(url: &ServiceUrl) -> Result<Self> {
        let Connected { client, signing, sums, elsewhere } = block_on(client::connect(&url.place()))?;
        let payer = std::env::var("AWS_REQUEST_PAYER").ok().filter(|payer| !payer.is_empty());
        Ok(Self {
            client,
            bucket: url.host.clone(),
            signing,
            sums: Sums::new(sums, signing),
            elsewhere,
            payer: payer.map(|payer| RequestPayer::from(payer.as_str())),
            _kept: Kept::new(),
        })
    }

    /// Makes one request. `operation` and `key` are for errors: "could not OPERATION `s3://bucket/key`".
    fn attempt<T, E>(
        &self,
        operation: &str,
        key: &str,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> Attempt<T>
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        self.attempt_with(0, operation, key, request)
    }

    /// Makes one request that sends so many bytes.
    fn attempt_with<T, E>(
        &self,
        bytes: usize,
        operation: &str,
        key: &str,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> Attempt<T>
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let mut lane = Lane::take()?;
        self.attempt_on(&mut lane, (operation, key), transport::longest(bytes), request)
    }

    /// Makes a request, whose answer is read to its end within a time; that of GET is over with its head.
    fn attempt_on<T, E>(
        &self,
        lane: &mut Lane,
        (operation, key): (&str, &str),
        within: Duration,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> Attempt<T>
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let what = self.could_not(operation, key);
        let answer = lane.block_on(unless_interrupted(&what, async { timeout(within, request).await }));
        let failure = match answer {
            Ok(Ok(Ok(answer))) => return Ok(answer),
            Ok(Ok(Err(failed))) => Failure::of(&what, &failed, self.signing),
            Ok(Err(_)) => transport::endless(&what, within).into(),
            Err(interrupted) => interrupted.into(),
        };
        if !failure.is_answer() {
            lane.close();
        }
        Err(failure)
    }

    fn could_not(&self, operation: &str, key: &str) -> String {
        format!("could not {operation} `{}`", self.show(key))
    }
}

impl Objects for S3 {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn show(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.bucket)
    }

    /// Lists one key: unlike the answer to HEAD, that of a listing says why it is refused.
    fn probe(&self) -> Result<()> {
        self.page("", false, 1, None).map(drop)
    }

    fn head(&self, key: &str, purpose: Purpose) -> Result<Object> {
        if purpose == Purpose::Read {
            return Ok(describe::object(key, &self.described("stat", &self.bucket, key)?));
        }
        let request = self.client.head_object().bucket(&self.bucket).key(key).set_request_payer(self.payer.clone());
        let head = self.attempt("stat", key, request.send())?;
        Ok(describe::object(key, &self.measured("stat", &self.bucket, key, head)?))
    }

    fn page(&self, prefix: &str, delimited: bool, most: u32, next: Option<&str>) -> Result<Page> {
        self.list_page(prefix, delimited, most, next)
    }

    fn get(&self, object: &Object, range: Range<u64>) -> Result<Content> {
        // Only the answer to a request for all of it tells the checksum of the whole.
        let part = (range != (0..object.size)).then(|| format!("bytes={}-{}", range.start, range.end - 1));
        let mut lane = Lane::take()?;
        let carrier = (range.end - range.start >= straight::FROM).then(|| Carrier::new(lane.straight()));
        let sent = carrier.clone();
        let request = self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(&object.key)
            .set_range(part)
            .set_if_match(object.tag.clone())
            .set_request_payer(self.payer.clone())
            .customize()
            // By its own option the SDK would compute the checksum too.
            .mutate_request(move |request| {
                request.headers_mut().insert("x-amz-checksum-mode", "ENABLED");
                if let Some(carrier) = &sent {
                    request.add_extension(carrier.clone());
                }
            });
        let answer = self.attempt_on(&mut lane, ("read", &object.key), transport::longest(0), request.send())?;
        // Not every service knows the condition.
        if let (Some(expected), Some(found)) = (object.tag.as_deref(), answer.e_tag())
            && expected != found
        {
            lane.close();
            let cause = "it was replaced while it was read";
            return Err(Error::new(ErrorKind::SourceChanged, self.could_not("read", &object.key)).with_cause(cause));
        }
        let whole = range == (0..object.size) && answer.content_range().is_none();
        let crc64nvme = answer.checksum_crc64_nvme().filter(|_| whole).and_then(parse_crc64nvme);
        let straight = carrier.and_then(|carrier| carrier.take());
        let body = Download::new(lane, self.could_not("read", &object.key), answer, straight, &range)?;
        Ok(Content { body: Box::new(body), crc64nvme })
    }

    fn crc64nvme(&self, object: &Object) -> Result<Option<u64>> {
        match self.described("stat", &self.bucket, &object.key) {
            // Of a state that was read to its end nothing more is known when it is replaced.
            Ok(now) => Ok(describe::crc64nvme(&now).filter(|_| now.e_tag() == object.tag.as_deref())),
            Err(failure) if matches!(failure.error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => Ok(None),
            Err(failure) => Err(failure.error),
        }
    }

    fn put(&self, key: &str, content: &Bytes, about: &About) -> Result<()> {
        self.guarded("write", key, about.overwrite, |terms| self.put_once(key, content, about, terms))
    }

    fn begin(&self, key: &str, about: &About) -> Result<String> {
        self.begin_with(key, &Properties::of(&about.metadata))
    }

    fn put_part(&self, upload: &Upload, number: u32, content: &Bytes, crc64nvme: u64) -> Result<Part> {
        let content = PartContent { bytes: content.clone(), crc64nvme };
        Ok(self.summed(|sum| self.put_part_once(upload, number, &content, sum))?)
    }

    fn parts(&self, upload: &Upload) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let mut marker: Option<String> = None;
        loop {
            let request = self
                .client
                .list_parts()
                .bucket(&self.bucket)
                .key(&upload.key)
                .upload_id(&upload.id)
                .set_part_number_marker(marker.take())
                .set_request_payer(self.payer.clone());
            let answer = self.attempt("list the parts of", &upload.key, request.send()).map_err(unreadable)?;
            parts.extend(answer.parts().iter().filter_map(|part| {
                Some(Part {
                    number: u32::try_from(part.part_number()?).ok()?,
                    size: describe::size(part.size()),
                    tag: part.e_tag()?.to_owned(),
                    crc64nvme: part.checksum_crc64_nvme().and_then(parse_crc64nvme),
                })
            }));
            marker = answer.next_part_number_marker().filter(|_| answer.is_truncated() == Some(true)).map(str::to_owned);
            if marker.is_none() {
                return Ok(parts);
            }
        }
    }

    fn complete(&self, upload: &Upload, parts: &[Part], about: &About) -> Result<()> {
        let operation = "complete the upload of";
        let completed =
            self.guarded(operation, &upload.key, about.overwrite, |terms| self.complete_once(upload, parts, about, terms));
        match completed {
            Err(error) if self.was_completed(&error, upload, parts, about) => Ok(()),
            answer => answer,
        }
    }

    fn abort(&self, upload: &Upload) -> Result<()> {
        let request = self
            .client
            .abort_multipart_upload()
            .bucket(&self.bucket)
            .key(&upload.key)
            .upload_id(&upload.id)
            .set_request_payer(self.payer.clone());
        match self.attempt("give up the upload of", &upload.key, request.send()) {
            Err(failure) if failure.error.kind() != ErrorKind::NotFound => Err(failure.error),
            _ => Ok(()),
        }
    }

    fn uploads(&self, prefix: &str) -> Result<Vec<Upload>> {
        self.list_uploads(prefix)
    }

    fn copy(&self, source: &CopySource<'_>, key: &str, about: &About, patience: &Patience) -> Result<Option<u64>> {
        self.copy_from(source, key, about, patience)
    }

    fn delete(&self, keys: &[String]) -> Vec<Result<()>> {
        self.remove(keys)
    }
}

/// An upload whose parts cannot be read is begun afresh: some services (moto) write their list in a way that the SDK does not take.
fn unreadable(failure: Failure) -> Error {
    match (failure.error.kind(), failure.error.cause()) {
        (ErrorKind::Protocol, Some(cause)) => Error::new(ErrorKind::NotFound, failure.error.what()).with_cause(cause),
        _ => failure.error,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use aws_sdk_s3::config::{BehaviorVersion, Config};
    use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Error;

    use super::*;

    fn bucket() -> S3 {
        let config = Config::builder().behavior_version(BehaviorVersion::latest()).build();
        let (client, signing) = (Client::from_conf(config), Signing::NotWanted);
        let sums = Sums::new(false, signing);
        S3 { client, bucket: "b".to_owned(), signing, sums, elsewhere: true, payer: None, _kept: Kept::new() }
    }

    #[test]
    fn an_answer_that_does_not_end_is_a_lost_connection() {
        let mut lane = Lane::take().unwrap();
        let endless = pending::<Result<(), SdkError<ListObjectsV2Error, HttpResponse>>>();
        let failed = bucket().attempt_on(&mut lane, ("list", "k"), Duration::from_millis(20), endless).unwrap_err();
        assert_eq!((failed.error.kind(), failed.error.what()), (ErrorKind::ConnectionLost, "could not list `s3://b/k`"));
    }

    #[test]
    fn an_interrupt_ends_a_request() {
        let patience = Patience::new();
        std::thread::scope(|scope| {
            let asks = scope.spawn(|| {
                let endless = || async {
                    patience.interrupt();
                    pending::<Result<(), SdkError<ListObjectsV2Error, HttpResponse>>>().await
                };
                patience.run(|| Ok(bucket().attempt("list", "k", endless())?))
            });
            assert_eq!(asks.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
        });
    }
}
