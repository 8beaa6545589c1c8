//! Files that one call writes whole: small ones from memory, and copies inside a store.

use crate::buffer::SLAB_SIZE;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Fsync, Overwrite};
use crate::path::RelativePath;
use crate::store::{Metadata, NewFile, Publication, Store, Writer};

/// Writes a file that appears under its name when it is complete.
pub(crate) fn write(store: &dyn Store, path: &RelativePath, content: &[u8], overwrite: Overwrite) -> Result<()> {
    let file = NewFile { size: content.len() as u64, overwrite, ..NewFile::of(path.clone()) };
    let writer = store.create(&file)?;
    match writer.write_at(0, content) {
        Ok(()) => publish(store, Publication { overwrite, ..Publication::of(writer) }),
        Err(error) => abort(writer, error),
    }
}

/// Copies a file to another name, under which it appears when it is complete; `stop` ends it early with an error.
pub(crate) fn copy(
    store: &dyn Store,
    from: &RelativePath,
    to: &RelativePath,
    overwrite: Overwrite,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    let reader = store.open(from)?;
    let source = reader.stat()?;
    let metadata = Metadata { modified_ns: None, mode: source.mode };
    let file = NewFile { size: source.size, metadata: metadata.clone(), overwrite, ..NewFile::of(to.clone()) };
    let writer = store.create(&file)?;
    let copied = move_bytes(&*reader, &*writer, from, stop).and_then(|size| {
        let now = reader.stat()?;
        if size == source.size && now.size == source.size && now.modified_ns == source.modified_ns {
            return Ok(());
        }
        Err(Error::new(ErrorKind::SourceChanged, format!("could not copy `{from}`")).with_cause("it changed meanwhile"))
    });
    match copied {
        Ok(()) => publish(store, Publication { metadata, overwrite, ..Publication::of(writer) }),
        Err(error) => abort(writer, error),
    }
}

fn move_bytes(
    reader: &dyn crate::store::Reader,
    writer: &dyn Writer,
    from: &RelativePath,
    stop: &dyn Fn() -> bool,
) -> Result<u64> {
    let mut buffer = vec![0; 4 * SLAB_SIZE];
    let mut offset = 0;
    loop {
        let count = reader.read_at(offset, &mut buffer)?;
        if count == 0 {
            return Ok(offset);
        }
        if stop() {
            return Err(Error::new(ErrorKind::Cancelled, format!("copying `{from}` was interrupted")));
        }
        writer.write_at(offset, &buffer[..count])?;
        offset += count as u64;
    }
}

fn publish(store: &dyn Store, publication: Publication) -> Result<()> {
    store.publish(vec![publication], Fsync::File).pop().unwrap_or(Ok(()))
}

fn abort(writer: Box<dyn Writer>, error: Error) -> Result<()> {
    writer.abort();
    Err(error)
}
