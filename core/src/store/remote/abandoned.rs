//! What interrupted transfers leave on a service, for `edt clean`.

use super::{azure, ftp, google, http, objects, s3, served, sftp, webdav};
use crate::endpoint::{Scheme, ServiceUrl};
use crate::error::{Error, ErrorKind, Result};

/// Uploads and partial files below a URL that no transfer will finish, for `edt clean`.
pub fn abandoned(url: &ServiceUrl) -> Result<Box<dyn Abandoned>> {
    match url.scheme {
        Scheme::S3 => objects::uploads::open(s3::S3::open(url)?, url),
        Scheme::Google => objects::uploads::open(google::Google::open(url)?, url),
        Scheme::Azure => objects::uploads::open(azure::Azure::open(url)?, url),
        Scheme::Http | Scheme::Https => served::abandoned(http::Http::open(url)?, url),
        Scheme::WebDav | Scheme::WebDavs => served::abandoned(webdav::WebDav::open(url)?, url),
        Scheme::Sftp => served::abandoned(sftp::Sftp::open(url)?, url),
        Scheme::Ftp | Scheme::Ftps => served::abandoned(ftp::Ftp::open(url)?, url),
        Scheme::Added(_) => Err(Error::new(ErrorKind::Unsupported, format!("could not clean `{}`", url.place()))
            .with_cause("the server itself clears away what transfers left, a day after they were last heard of")),
    }
}

/// Unfinished uploads of an object store, or partial files of a file server, below a URL.
pub trait Abandoned {
    /// Everything that is there, those of transfers under way too. What cannot be listed is an `Err` item, and the rest follows.
    fn list(&mut self) -> Result<Vec<Result<AbandonedItem>>>;

    /// Removes one of them; one that is gone is no error.
    fn remove(&self, item: &AbandonedItem) -> Result<()>;
}

/// An unfinished upload, a partial file, or a directory for partial files in which nothing is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbandonedItem {
    /// Its URL; of an upload, that of the object that it would make and, behind `#`, its identifier.
    pub name: String,
    /// When it was begun or last written, in nanoseconds since 1970, if the service tells.
    pub begun_ns: Option<i64>,
    /// Bytes that are there, if the service tells without being asked for each.
    pub bytes: Option<u64>,
}
