//! Services that other people run: object stores and file servers, each behind one of two small traits.
//!
//! An object store (`Objects`) keeps immutable objects under keys; a file server (`Served`) keeps directories and files. The adapters
//! `objects` and `served` make a [`Store`] of either, so that a protocol's own file holds its calls and nothing else.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::endpoint::{Scheme, ServiceUrl};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Overwrite, TransferOptions};
use crate::path::RelativePath;
use crate::store::{Copier, Entry, Metadata, Store, Times};

mod abandoned;
pub(crate) mod added;
mod azure;
mod cloud;
mod explained;
mod ftp;
mod google;
mod http;
mod lane;
mod netrc;
mod objects;
mod patience;
mod ranges;
mod runtime;
mod s3;
mod served;
mod sftp;
mod state;
mod straight;
mod summed;
mod web;
mod webdav;

pub use abandoned::{Abandoned, AbandonedItem, abandoned};
pub use added::{Added, register};
pub(crate) use explained::explained;
pub use netrc::credentials;
pub use patience::Patience;
pub use ranges::RangeReader;
pub use runtime::{block_on, spawn};
pub use served::in_parallel;
pub use state::State;

/// What a service is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To read, list and describe.
    Read,
    /// To write: listings then tell the times that uploads were given, at the price of a request for each object.
    Write,
}

/// Bytes of a file on their way, in order.
pub trait Body: Send {
    /// Fills `buffer` with the next bytes; less than asked only at the end of what was asked for. Errors are of the service's kinds;
    /// an end before its time is one of kind `ConnectionLost`.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize>;

    /// Whether others wait until it is dropped, and then go on where it stands: who does not know that it will read on should not keep it.
    fn is_lent(&self) -> bool {
        false
    }
}

/// One state of a file, from which ranges can be read. Makes one attempt; [`RangeReader`] retries.
pub trait Ranges: Send + Sync {
    /// Asks for a range, which is not empty and lies inside the file. An error of kind `SourceChanged` says that the file is another one.
    fn open(&self, range: Range<u64>) -> Result<Box<dyn Body>>;

    /// The file as it is now, asked from the service.
    fn stat(&self) -> Result<Entry>;

    /// crc64nvme of the whole file in this state, if the service keeps it.
    fn crc64nvme(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// crc32c of the whole file in this state, if the service keeps it and told it already.
    fn crc32c(&self) -> Option<u32> {
        None
    }
}

/// What an object is uploaded with.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    /// Modification time and mode, kept as the object's own metadata: `mtime` in the form in which rclone keeps it at this service, and
    /// `edt-mode` (octal; `edt_mode` where names have no dashes).
    pub(crate) metadata: Metadata,
    /// crc64nvme of the whole content, for services that compare it.
    pub(crate) crc64nvme: Option<u64>,
    /// Whether an object that stands there may be replaced; `Never` is a conditional request.
    pub(crate) overwrite: Overwrite,
}

/// An object, as a service describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) key: String,
    pub(crate) size: u64,
    /// The time of the upload, in nanoseconds since 1970.
    pub(crate) uploaded_ns: Option<i64>,
    /// The modification time and mode that it was given; known only from a description of the single object.
    pub(crate) metadata: Metadata,
    /// The entity tag, or whatever changes with the content, as the service writes it.
    pub(crate) tag: Option<String>,
    /// The checksum of the content, as far as the service keeps one and told it.
    pub(crate) kept: Option<Kept>,
}

/// The checksum that a service keeps of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// As S3 keeps it, perhaps.
    Crc64Nvme(u64),
    /// As Google keeps it.
    Crc32c(u32),
}

/// The answer to a request for bytes of an object.
pub(crate) struct Content {
    pub(crate) body: Box<dyn Body>,
    /// crc64nvme of the whole object, if the service tells it with these bytes.
    pub(crate) crc64nvme: Option<u64>,
}

/// One page of a listing, in the order of the keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Object>,
    /// Prefixes up to and with the next slash, of a listing that stops at slashes.
    pub(crate) prefixes: Vec<String>,
    /// What the next page is asked for with.
    pub(crate) next: Option<String>,
}

impl Page {
    /// Whether nothing is on it, which says nothing of the next one.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.prefixes.is_empty()
    }
}

/// A part of an upload that the service has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// From 1.
    pub(crate) number: u32,
    pub(crate) size: u64,
    /// The entity tag or block name with which the upload is completed.
    pub(crate) tag: String,
    /// crc64nvme of the part, where the service or the caller knows it.
    pub(crate) crc64nvme: Option<u64>,
}

/// An upload that was begun and not completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Upload {
    pub(crate) key: String,
    pub(crate) id: String,
    /// When it was begun, in nanoseconds since 1970, if the service tells.
    pub(crate) begun_ns: Option<i64>,
}

/// An object that the service is to copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopySource<'a> {
    pub(crate) bucket: &'a str,
    pub(crate) key: &'a str,
    pub(crate) size: u64,
}

/// Bounds of a service's uploads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The least bytes of a part that is not the last; all parts of one upload have the same size.
    pub(crate) least_part: u64,
    /// The most parts of an upload; 0 if the service has no uploads in parts.
    pub(crate) most_parts: u64,
    /// The most bytes of an object in one request.
    pub(crate) largest_put: u64,
    /// Connections that one user should have at most, if the service bounds them.
    pub(crate) connections: Option<u16>,
}

/// A service that keeps objects under keys, in one bucket or container. Calls block, threads share it.
///
/// Every call makes one attempt and answers with an error of the kind that tells whether another one may help (`Throttled` with
/// `with_retry_after` where the service says how long, `ConnectionLost`, `Unreachable`); the adapter retries with [`Patience`].
/// Errors name the operation and [`Objects::show`] of the key.
pub(crate) trait Objects: Send + Sync + 'static {
    /// Bounds of uploads.
    fn limits(&self) -> Limits;

    /// The URL of a key, for people: `s3://bucket/key`.
    fn show(&self, key: &str) -> String;

    /// Asks whether the bucket is there and may be used; `NotFound`, `Refused` or `PermissionDenied` if not.
    fn probe(&self) -> Result<()>;

    /// Describes an object with its metadata, and to read it with its checksum, which not everybody may ask for.
    fn head(&self, key: &str, purpose: Purpose) -> Result<Object>;

    /// One page of the keys that begin with `prefix`; with `delimited` it stops at the first slash behind it. `most` bounds the page.
    fn page(&self, prefix: &str, delimited: bool, most: u32, next: Option<&str>) -> Result<Page>;

    /// Asks for a range of an object in the state of `object.tag` (If-Match); 412 is an error of kind `SourceChanged`.
    fn get(&self, object: &Object, range: Range<u64>) -> Result<Content>;

    /// Asks for the crc64nvme of an object in the state of `object.tag`, where its description did not tell it and the service may keep it.
    fn crc64nvme(&self, object: &Object) -> Result<Option<u64>> {
        let _ = object;
        Ok(None)
    }

    /// Uploads a whole object. `AlreadyExists` if `about.overwrite` is `Never` and there is one.
    fn put(&self, key: &str, content: &Bytes, about: &About) -> Result<()>;

    /// Begins an upload in parts and answers with its identifier. `about.crc64nvme` is not known yet.
    fn begin(&self, key: &str, about: &About) -> Result<String>;

    /// Uploads a part.
    fn put_part(&self, upload: &Upload, number: u32, content: &Bytes, crc64nvme: u64) -> Result<Part>;

    /// The parts that an upload has; `NotFound` if there is no such upload.
    fn parts(&self, upload: &Upload) -> Result<Vec<Part>>;

    /// Makes the object of all its parts, in order.
    fn complete(&self, upload: &Upload, parts: &[Part], about: &About) -> Result<()>;

    /// Gives an upload up; one that is not there is no error.
    fn abort(&self, upload: &Upload) -> Result<()>;

    /// Uploads below a prefix that were begun and not completed.
    fn uploads(&self, prefix: &str) -> Result<Vec<Upload>>;

    /// Has the service copy an object of another of its buckets, or of this one; answers with its crc64nvme if the service tells it.
    /// What takes many requests asks [`Patience::check`] between them.
    fn copy(&self, source: &CopySource<'_>, key: &str, about: &About, patience: &Patience) -> Result<Option<u64>> {
        let _ = (source, about, patience);
        Err(Error::new(ErrorKind::Unsupported, format!("could not copy to `{}`", self.show(key))))
    }

    /// Removes objects, at most 1,000; one answer each, in order. One that is not there is no error.
    fn delete(&self, keys: &[String]) -> Vec<Result<()>>;
}

/// What a file server can do; constant for its connection.
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Whether files can be written at all.
    pub(crate) writes: bool,
    /// Whether a directory can be listed.
    pub(crate) lists: bool,
    /// Whether ranges of a file may be written in any order; if not, the adapter writes in order.
    pub(crate) random_writes: bool,
    /// Whether what was written can be read back, so that a partial file is verified before it is continued.
    pub(crate) reads_back: bool,
    /// Whether a partial file can be continued where it ends.
    pub(crate) appends: bool,
    /// Which modification times it keeps.
    pub(crate) times: Times,
    /// Whether it keeps permission bits.
    pub(crate) modes: bool,
    /// Whether it has symbolic links.
    pub(crate) symlinks: bool,
    /// Connections that one user should have at most.
    pub(crate) connections: Option<u16>,
}

/// A service that keeps files in directories. Calls block, threads share it (each call takes a connection of its own from a pool).
///
/// Every call makes one attempt, as in [`Objects`].
pub(crate) trait Served: Send + Sync + 'static {
    fn abilities(&self) -> Abilities;

    /// The URL of a path, for people.
    fn show(&self, path: &RelativePath) -> String;

    /// Connects, and asks whether the root may be used.
    fn probe(&self) -> Result<()>;

    /// Refuses a new name that the protocol cannot carry.
    fn check_name(&self, _path: &RelativePath) -> Result<()> {
        Ok(())
    }

    /// Describes an entry; does not follow a symbolic link.
    fn stat(&self, path: &RelativePath) -> Result<Entry>;

    /// The direct children of a directory; an error of kind `WrongType` for a file.
    fn children(&self, path: &RelativePath) -> Result<Vec<Entry>>;

    /// Why an entry that is listed as [`EntryKind::Other`] cannot be read, where that is known.
    fn trouble(&self, _entry: &RelativePath) -> Option<Error> {
        None
    }

    /// A file to read; `entry` is what `stat` said of it just now.
    fn read(&self, path: &RelativePath, entry: &Entry) -> Result<Box<dyn Ranges>>;

    /// A file to write, of `size` bytes in the end: emptied, or with `keep` as it is (its directory exists).
    fn write(&self, path: &RelativePath, size: u64, keep: bool) -> Result<Box<dyn ServedFile>>;

    /// Renames a file; with `Overwrite::Never` an existing target is an error of kind `AlreadyExists`, as exactly as the protocol can.
    fn rename(&self, from: &RelativePath, to: &RelativePath, overwrite: Overwrite) -> Result<()>;

    /// Makes one directory; `AlreadyExists` if the name is taken, `NotFound` if the one above is missing.
    fn make_directory(&self, path: &RelativePath) -> Result<()>;

    /// Makes a symbolic link; `AlreadyExists` if the name is taken.
    fn make_symlink(&self, path: &RelativePath, target: &[u8]) -> Result<()>;

    /// Sets what [`Abilities`] says can be set.
    fn set_metadata(&self, path: &RelativePath, metadata: &Metadata) -> Result<()>;

    /// Removes a file or a link.
    fn remove_file(&self, path: &RelativePath) -> Result<()>;

    /// Removes an empty directory; `AlreadyExists` if something is in it.
    fn remove_directory(&self, path: &RelativePath) -> Result<()>;
}

/// A file being written on a file server.
pub(crate) trait ServedFile: Send + Sync {
    /// How many bytes were there when it was opened.
    fn length(&self) -> u64;

    /// Writes; in order from [`ServedFile::length`] on unless the server takes any order. May return before the server has it.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Reads back what was written; `Unsupported` if the server cannot.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Waits until the server has every byte and says so, and closes the file. Called once, with all bytes written.
    fn finish(&self) -> Result<()>;
}

/// A store on a service, rooted at its bucket or server, and the path that the URL names in it.
pub struct Opened {
    /// The store, rooted where the service's own paths begin.
    pub store: Arc<dyn Store>,
    /// What the URL names in it.
    pub base: RelativePath,
}

/// Opens the service of a URL: reads its credentials; connects only to [`Purpose::Write`], where a missing bucket is an error.
///
/// Services that other crates bring are opened with the options of security.
pub(crate) fn open(url: &ServiceUrl, purpose: Purpose, options: &TransferOptions) -> Result<Opened> {
    match url.scheme {
        Scheme::S3 => objects::open(s3::S3::open(url)?, url, purpose),
        Scheme::Google => objects::open(google::Google::open(url)?, url, purpose),
        Scheme::Azure => objects::open(azure::Azure::open(url)?, url, purpose),
        Scheme::Http | Scheme::Https => served::open(http::Http::open(url)?, url, purpose),
        Scheme::WebDav | Scheme::WebDavs => served::open(webdav::WebDav::open(url)?, url, purpose),
        Scheme::Sftp => served::open(sftp::Sftp::open(url)?, url, purpose),
        Scheme::Ftp | Scheme::Ftps => served::open(ftp::Ftp::open(url)?, url, purpose),
        Scheme::Added(scheme) => added::find(scheme)?.open(url, purpose, options),
    }
}

/// Where the service of a URL is, as far as the environment of this process says it and not the URL; two services may have buckets of one
/// name.
pub(crate) fn address(url: &ServiceUrl) -> Result<String> {
    match url.scheme {
        Scheme::S3 => s3::address(),
        Scheme::Google => google::address(url),
        Scheme::Azure => azure::address(url),
        _ => Ok(String::new()),
    }
}

/// The path of a URL in the store of its service.
pub(crate) fn base(url: &ServiceUrl) -> Result<RelativePath> {
    if url.scheme.is_object_store() { objects::base(url) } else { RelativePath::from_user(&url.path) }
}

/// What copies from one service to another, or inside one, without the bytes passing through this machine; `None` if they cannot.
pub(crate) fn copier(source: &ServiceUrl, destination: &ServiceUrl) -> Result<Option<Arc<dyn Copier>>> {
    // All buckets of one process are of one service, with the same credentials.
    Ok(match destination.scheme {
        Scheme::S3 if source.scheme == Scheme::S3 => Some(objects::copier::copier(s3::S3::open(destination)?, source)),
        Scheme::Google if source.scheme == Scheme::Google => {
            Some(objects::copier::copier(google::Google::open(destination)?, source))
        }
        Scheme::WebDav | Scheme::WebDavs => webdav::copier(source, destination)?,
        _ => None,
    })
}
