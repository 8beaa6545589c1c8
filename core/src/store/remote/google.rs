//! Google Cloud Storage: its JSON API, and the XML API for uploads in parts, which the other one lacks.
//!
//! An object's tag is its generation, which changes with every upload. Emulators (`STORAGE_EMULATOR_HOST`) have the JSON API alone;
//! there every object is uploaded in one request.

use std::ops::Range;

use bytes::Bytes;
use object_store::gcp::GcpCredential;
use reqwest::RequestBuilder;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, RANGE};

use super::cloud::{self, Credentials, LONGEST_ANSWER};
use super::web::{self, Answer, Web};
use super::{About, Content, CopySource, Limits, Object, Objects, Page, Part, Patience, Purpose, Upload};
use crate::endpoint::ServiceUrl;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Overwrite;

mod access;
mod failure;
mod resource;
mod uploads;

/// Parts of an upload have at least these bytes, but for the last.
const LEAST_PART: u64 = 5 << 20;
const MOST_PARTS: u64 = 10_000;
const LARGEST: u64 = 5 << 40;

/// Where the service is.
pub(super) fn address(url: &ServiceUrl) -> Result<String> {
    Ok(access::find(&url.host)?.base)
}

/// A bucket.
pub(super) struct Google {
    web: Web,
    /// Scheme and host of the service.
    base: String,
    bucket: String,
    credentials: Credentials<GcpCredential>,
    /// The project that pays for the requests, where not the bucket's.
    project: Option<String>,
    /// Whether there is an XML API.
    parts: bool,
}

impl Google {
    /// Takes credentials and endpoint from the environment; makes no request.
    pub(super) fn open(url: &ServiceUrl) -> Result<Self> {
        let access = access::find(&url.host)?;
        Ok(Self {
            web: Web::new()?,
            base: access.base,
            bucket: url.host.clone(),
            credentials: access.credentials,
            project: cloud::variable("GOOGLE_CLOUD_QUOTA_PROJECT"),
            parts: !access.emulated,
        })
    }

    fn send(&self, what: &str, request: RequestBuilder) -> Result<Answer> {
        let mut request = request;
        if let Some(credential) = self.credentials.current(what)?.filter(|credential| !credential.bearer.is_empty()) {
            request = request.bearer_auth(&credential.bearer);
        }
        if let Some(project) = &self.project {
            request = request.header("x-goog-user-project", project);
        }
        let answer = self.web.send(what, request, &failure::EXPLAINED)?;
        if answer.status() < 400 {
            return Ok(answer);
        }
        Err(failure::explain(what, answer, self.credentials.missing()))
    }

    /// The URL of a bucket in the JSON API.
    fn bucket_url(&self, bucket: &str) -> String {
        format!("{}/storage/v1/b/{}", self.base, cloud::encode(bucket))
    }

    fn object_url(&self, bucket: &str, key: &str) -> String {
        format!("{}/o/{}", self.bucket_url(bucket), cloud::encode(key))
    }

    /// An object of any bucket, as the service describes it.
    fn described(&self, what: &str, bucket: &str, key: &str, fields: &str) -> Result<Vec<u8>> {
        let url = format!("{}?{}", self.object_url(bucket, key), cloud::query(&[("fields", fields)]));
        self.send(what, self.web.client().get(url))?.bytes(LONGEST_ANSWER)
    }

    fn what(&self, operation: &str, key: &str) -> String {
        format!("could not {operation} `{}`", self.show(key))
    }
}

impl Objects for Google {
    fn limits(&self) -> Limits {
        let most_parts = if self.parts { MOST_PARTS } else { 0 };
        Limits { least_part: LEAST_PART, most_parts, largest_put: LARGEST, connections: None }
    }

    fn show(&self, key: &str) -> String {
        format!("gs://{}/{key}", self.bucket)
    }

    /// Asks for a page of one key, which needs no right that a transfer does not need.
    fn probe(&self) -> Result<()> {
        self.page("", false, 1, None).map(drop)
    }

    fn head(&self, key: &str, _: Purpose) -> Result<Object> {
        let what = self.what("describe", key);
        resource::object(&what, &self.described(&what, &self.bucket, key, resource::FIELDS)?)
    }

    fn page(&self, prefix: &str, delimited: bool, most: u32, next: Option<&str>) -> Result<Page> {
        let what = self.what("list", prefix);
        let fields = format!("items({}),prefixes,nextPageToken", resource::FIELDS);
        let most = most.to_string();
        let mut query = vec![("prefix", prefix), ("maxResults", most.as_str()), ("fields", fields.as_str())];
        query.extend(delimited.then_some(("delimiter", "/")));
        query.extend(next.map(|next| ("pageToken", next)));
        let url = format!("{}/o?{}", self.bucket_url(&self.bucket), cloud::query(&query));
        resource::page(&what, &self.send(&what, self.web.client().get(url))?.bytes(LONGEST_ANSWER)?)
    }

    /// What is kept compressed comes compressed, for sizes and ranges are those of what is kept.
    fn get(&self, object: &Object, range: Range<u64>) -> Result<Content> {
        let what = self.what("read", &object.key);
        let mut query = vec![("alt", "media")];
        query.extend(object.tag.as_deref().map(|tag| ("ifGenerationMatch", tag)));
        let url = format!("{}?{}", self.object_url(&self.bucket, &object.key), cloud::query(&query));
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let request = self.web.client().get(url).header(RANGE, bytes).header(ACCEPT_ENCODING, "gzip");
        let answer = self.send(&what, request)?;
        // Emulators do not know the condition.
        let generation = answer.header("x-goog-generation");
        if generation.is_some() && object.tag.is_some() && generation != object.tag.as_deref() {
            return Err(Error::new(ErrorKind::SourceChanged, what).with_cause("another object stands there now"));
        }
        Ok(Content { body: cloud::content(&what, answer, &range)?, crc64nvme: None })
    }

    /// The service compares the crc32c.
    fn put(&self, key: &str, content: &Bytes, about: &About) -> Result<()> {
        let what = self.what("write", key);
        let mut query = vec![("uploadType", "multipart")];
        query.extend((about.overwrite == Overwrite::Never).then_some(("ifGenerationMatch", "0")));
        let url = format!("{}/upload/storage/v1/b/{}/o?{}", self.base, cloud::encode(&self.bucket), cloud::query(&query));
        let (kind, pieces) = resource::with_content(key, content, &about.metadata);
        let request = self.web.client().post(url).header(CONTENT_TYPE, kind).body(web::joined(pieces));
        self.send(&what, request).map(drop).map_err(|error| cloud::taken(error, about.overwrite))
    }

    fn begin(&self, key: &str, about: &About) -> Result<String> {
        uploads::begin(self, key, &about.metadata)
    }

    fn put_part(&self, upload: &Upload, number: u32, content: &Bytes, crc64nvme: u64) -> Result<Part> {
        uploads::put_part(self, upload, number, content, crc64nvme)
    }

    fn parts(&self, upload: &Upload) -> Result<Vec<Part>> {
        uploads::parts(self, upload)
    }

    /// The API takes no conditions here: that no object stands there is asked just before, so that of two writers at the same moment
    /// the later one wins in spite of `Overwrite::Never`. Who may not look may not replace either as a rule, for that takes the right to
    /// delete.
    fn complete(&self, upload: &Upload, parts: &[Part], about: &About) -> Result<()> {
        if about.overwrite == Overwrite::Never {
            match self.head(&upload.key, Purpose::Write) {
                Ok(_) => return Err(cloud::exists(&self.what("write", &upload.key))),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {}
                Err(error) => return Err(error),
            }
        }
        uploads::complete(self, upload, parts)
    }

    fn abort(&self, upload: &Upload) -> Result<()> {
        uploads::abort(self, upload)
    }

    fn uploads(&self, prefix: &str) -> Result<Vec<Upload>> {
        if self.parts { uploads::list(self, prefix) } else { Ok(Vec::new()) }
    }

    fn copy(&self, source: &CopySource<'_>, key: &str, about: &About, patience: &Patience) -> Result<Option<u64>> {
        let what = self.what("copy to", key);
        let copied = self.described(&what, source.bucket, source.key, resource::COPIED_FIELDS)?;
        let copied = resource::Copied::parse(&what, &copied, source.size)?;
        let target = format!("rewriteTo/b/{}/o/{}", cloud::encode(&self.bucket), cloud::encode(key));
        let url = format!("{}/{target}", self.object_url(source.bucket, source.key));
        let mut token = None;
        loop {
            patience.check(&what)?;
            let mut query = vec![("fields", resource::REWRITE_FIELDS)];
            query.extend((about.overwrite == Overwrite::Never).then_some(("ifGenerationMatch", "0")));
            query.extend(copied.generation().map(|generation| ("sourceGeneration", generation)));
            query.extend(token.as_deref().map(|token| ("rewriteToken", token)));
            let request = self.web.client().post(format!("{url}?{}", cloud::query(&query)));
            let request =
                request.header(CONTENT_TYPE, "application/json").body(copied.description(key, &about.metadata).to_string());
            let answer = self.send(&what, request).map_err(|error| cloud::taken(error, about.overwrite))?;
            token = copied.rewritten(&what, &answer.bytes(LONGEST_ANSWER)?)?;
            if token.is_none() {
                return Ok(None);
            }
        }
    }

    fn delete(&self, keys: &[String]) -> Vec<Result<()>> {
        cloud::for_each(keys, |key| {
            let request = self.web.client().delete(self.object_url(&self.bucket, key));
            failure::missing_is_fine(self.send(&self.what("remove", key), request).map(drop))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    /// A bucket whose service answers with these statuses, one after another, and tells the methods of its requests when it ends.
    fn bucket(statuses: &'static [&'static str]) -> (Google, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let answer = |status: &&str| {
                let (mut socket, mut request) = (listener.accept().unwrap().0, Vec::new());
                while !is_whole(&request) {
                    let mut piece = [0; 4096];
                    let count = socket.read(&mut piece).unwrap();
                    assert!(count > 0, "{}", String::from_utf8_lossy(&request));
                    request.extend_from_slice(&piece[..count]);
                }
                write!(socket, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
                String::from_utf8(request).unwrap().split(' ').next().unwrap().to_owned()
            };
            statuses.iter().map(answer).collect()
        });
        let (web, bucket, credentials) = (Web::new().unwrap(), "b".to_owned(), Credentials::none());
        (Google { web, base, bucket, credentials, project: None, parts: true }, served)
    }

    fn is_whole(request: &[u8]) -> bool {
        let end: &[u8] = if request.starts_with(b"POST") { b"</CompleteMultipartUpload>" } else { b"\r\n\r\n" };
        request.ends_with(end)
    }

    #[test]
    fn who_may_write_and_not_look_completes_what_must_not_replace_anything() {
        let upload = Upload { key: "k".to_owned(), id: "u".to_owned(), begun_ns: None };
        let about = About { overwrite: Overwrite::Never, ..About::default() };
        let (google, served) = bucket(&["403 Forbidden", "200 OK"]);
        google.complete(&upload, &[], &about).unwrap();
        assert_eq!(served.join().unwrap(), ["GET", "POST"]);
        let (google, served) = bucket(&["500 Internal Server Error"]);
        assert_eq!(google.complete(&upload, &[], &about).unwrap_err().kind(), ErrorKind::ConnectionLost);
        assert_eq!(served.join().unwrap(), ["GET"]);
    }
}
