//! Bringing an uploaded file to its name: one request, which the service answers when the object is there.

use bytes::Bytes;

use super::Bucket;
use super::writer::ObjectWriter;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::store::Publication;
use crate::store::remote::{About, Kept, Purpose};

/// Publishes a file. If that fails what was uploaded in parts stays for another attempt, unless it is not what it should be.
pub(super) fn publish(publication: Publication) -> Result<()> {
    let Publication { writer, metadata, overwrite, crc64nvme } = publication;
    let writer = writer.into_any().downcast::<ObjectWriter>().map_err(|_| {
        Error::new(ErrorKind::InvalidInput, "could not publish a file").with_cause("its writer belongs to another store")
    })?;
    let about = About { metadata, crc64nvme, overwrite };
    let published = if writer.parts.is_single() { put(&writer, about) } else { complete(&writer, &about) };
    writer.bucket.listed.take(&writer.key);
    match &published {
        Ok(()) => writer.settle(),
        Err(error) if error.kind() == ErrorKind::Corrupted => writer.discard(),
        Err(_) => {}
    }
    published
}

fn put(writer: &ObjectWriter, mut about: About) -> Result<()> {
    let content = match writer.parts.take(1) {
        Some(mut taken) => std::mem::take(&mut taken.bytes),
        None if writer.file.size == 0 => Bytes::new(),
        None => return Err(incomplete(writer)),
    };
    about.crc64nvme.get_or_insert_with(|| crc_fast::crc64_nvme(&content));
    make(&writer.target(), &about, || {
        let _request = writer.bucket.memory.request();
        writer.bucket.service.put(&writer.key, &content, &about)
    })
}

fn complete(writer: &ObjectWriter, about: &About) -> Result<()> {
    writer.recover();
    let (parts, upload) = writer.parts.complete().zip(writer.upload()).ok_or_else(|| incomplete(writer))?;
    make(&writer.target(), about, || writer.bucket.service.complete(&upload, &parts, about))
}

/// The name and size of an object to be.
pub(super) struct Target<'a> {
    pub(super) bucket: &'a Bucket,
    pub(super) key: &'a str,
    pub(super) size: u64,
}

/// Makes an object. After an attempt whose answer was lost, an upload that is gone or a name that is taken may be its success: then the
/// answer is the default.
pub(super) fn make<T: Default>(target: &Target<'_>, about: &About, request: impl Fn() -> Result<T>) -> Result<T> {
    let mut unclear = false;
    target.bucket.patience.run(|| {
        let made = request();
        if let Err(error) = &made {
            if unclear && matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) && is_there(target, about) {
                return Ok(T::default());
            }
            // What the service has got wrong may stand there, but is not what was to be made.
            unclear |= error.retry() == Retry::Temporary && error.kind() != ErrorKind::Corrupted;
        }
        made
    })
}

/// Whether the object of this name is what was to be made, as far as its size, its time and its checksum can tell.
fn is_there(target: &Target<'_>, about: &About) -> bool {
    let known = about.metadata.modified_ns.is_some();
    let differ = |there| matches!((there, about.crc64nvme), (Some(Kept::Crc64Nvme(there)), Some(meant)) if there != meant);
    known
        && target.bucket.service.head(target.key, Purpose::Read).is_ok_and(|object| {
            let same_time = object.metadata.modified_ns == about.metadata.modified_ns;
            object.size == target.size && same_time && !differ(object.kept)
        })
}

fn incomplete(writer: &ObjectWriter) -> Error {
    Error::new(ErrorKind::Io, format!("could not publish `{}`", writer.shown()))
        .with_cause("not all of its bytes are at the service")
        .with_hint("run the same command again")
}
