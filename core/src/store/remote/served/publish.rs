//! Publishing: a finished partial file gets its time and mode, and then its final name.

use super::host::Host;
use super::writer::{self, ServedWriter};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Overwrite;
use crate::path::RelativePath;
use crate::store::remote::patience::clearing;
use crate::store::remote::{Patience, Served};
use crate::store::{EntryKind, Metadata, Publication};

/// Brings one file to its final name. What fails leaves the partial file where it is.
pub(super) fn publish(host: &Host, publication: Publication) -> Result<()> {
    let writer = publication.writer.into_any().downcast::<ServedWriter>().map_err(|_| writer::foreign())?;
    let published = place(host, &writer, &publication.metadata, publication.overwrite);
    match &published {
        // No later attempt would do better with it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => writer.remove_sent(),
        Err(_) => writer.leave(),
        Ok(()) => host.published(),
    }
    published
}

/// Makes a link; one that replaces something is made beside and renamed, so that there always is one.
pub(super) fn create_symlink(host: &Host, path: &RelativePath, target: &[u8], overwrite: Overwrite) -> Result<()> {
    if !host.service.abilities().symlinks {
        return Err(host
            .failed("create the link", path, ErrorKind::Unsupported, "this kind of server has no links, or lets nobody make them")
            .with_hint("follow or skip symbolic links: --symlinks follow, --symlinks skip"));
    }
    host.make_parents(path)?;
    let Err(error) = host.run(|service| service.make_symlink(path, target)) else { return Ok(()) };
    if error.kind() != ErrorKind::AlreadyExists || overwrite == Overwrite::Never {
        return Err(explained(host, path, error));
    }
    if is_directory(host, path) {
        return Err(taken_by_a_directory(host, path));
    }
    let beside = host.new_beside()?;
    host.in_place(|| host.run(|service| service.make_symlink(&beside, target)))?;
    host.run(|service| service.rename(&beside, path, Overwrite::Replace)).map_err(|error| {
        let _ = clearing(|| host.remove_file(&beside));
        explained(host, path, error)
    })
}

/// Time and mode are set under the final name: by its time a partial file tells whether anybody still writes to it.
fn place(host: &Host, writer: &ServedWriter, metadata: &Metadata, overwrite: Overwrite) -> Result<()> {
    let path = &writer.path;
    if path.is_root() {
        return Err(host.failed("publish", path, ErrorKind::WrongType, "it is the root of the store"));
    }
    host.make_parents(path)?;
    bring(host, writer, overwrite)?;
    if host.keeps_any(metadata) {
        host.run(|service| service.set_metadata(path, metadata))?;
    }
    Ok(())
}

/// Brings all bytes to the server, and then to their name; once more if a directory that was there is gone, or what was in it.
fn bring(host: &Host, writer: &ServedWriter, overwrite: Overwrite) -> Result<()> {
    let path = &writer.path;
    let renamed = |partial: &RelativePath| rename(host.service.as_ref(), &host.patience, (partial, path), writer.size, overwrite);
    let partial = writer.finish()?;
    let outcome = match renamed(&partial) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            host.forget_directories();
            host.make_parents(path)?;
            host.forget_place();
            renamed(&writer.finish()?)
        }
        outcome => outcome,
    };
    outcome.map_err(|error| match error.kind() {
        ErrorKind::NotFound if is_gone(host.service.as_ref(), &host.patience, &partial) => writer.lost(&error),
        _ => explained(host, path, error),
    })
}

/// Renames a file of `size` bytes; after an attempt whose answer was lost it looks whether that one had done it.
pub(in crate::store::remote) fn rename(
    service: &dyn Served,
    patience: &Patience,
    (from, to): (&RelativePath, &RelativePath),
    size: u64,
    overwrite: Overwrite,
) -> Result<()> {
    let (mut attempts, mut before) = (0, None);
    let renamed = patience.run(|| {
        attempts += 1;
        if attempts == 2 {
            // Where the file still has its old name, what stands at the new one is what was to be replaced.
            before = service.stat(from).and_then(|_| service.stat(to)).ok();
        }
        service.rename(from, to, overwrite)
    });
    let stands = || {
        let found = patience.run(|| service.stat(to));
        found.is_ok_and(|entry| entry.kind == EntryKind::File && entry.size == size && before.as_ref() != Some(&entry))
    };
    match renamed {
        Err(_) if attempts > 1 && is_gone(service, patience, from) && stands() => Ok(()),
        renamed => renamed,
    }
}

fn is_gone(service: &dyn Served, patience: &Patience, path: &RelativePath) -> bool {
    patience.run(|| service.stat(path)).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The error about a name that could not be taken, in the words of what stands there.
fn explained(host: &Host, path: &RelativePath, error: Error) -> Error {
    match error.kind() {
        ErrorKind::ConnectionLost | ErrorKind::Unreachable | ErrorKind::Throttled | ErrorKind::Cancelled | ErrorKind::NoSpace => {
            error
        }
        _ if is_directory(host, path) => taken_by_a_directory(host, path),
        ErrorKind::AlreadyExists => error.with_hint("let it be replaced, or choose another destination"),
        _ => error,
    }
}

fn is_directory(host: &Host, path: &RelativePath) -> bool {
    host.run(|service| service.stat(path)).is_ok_and(|entry| entry.kind == EntryKind::Directory)
}

fn taken_by_a_directory(host: &Host, path: &RelativePath) -> Error {
    host.failed("publish", path, ErrorKind::WrongType, "a directory stands at its name")
        .with_hint("remove or rename the directory, then run the same command again")
}
